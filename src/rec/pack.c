/* pack.c -- a block of units into a chunk payload; docs/format.md "Events" is the specification.
 *
 * Nearly all units are spans, ordered by their end. They become three streams: ids, of which only
 * those are written that a table of "what followed last time" does not predict; the distance to the
 * end before (or, for a span around others, from it); and durations. All times of a chunk are
 * divided by the largest step that divides them (many TSCs count in steps), then bit-packed in
 * groups, the few large ones apart. Everything else is written event by event. */
#include "rec/rec.h"

#include "format/bits.h"
#include "format/pack.h"
#include "format/varint.h"
#include <stdlib.h>
#include <string.h>

struct packer {
    uint64_t step; /* that divided the times of the last block: the next one's, most likely */
    uint32_t follows[PACK_CONTEXTS];
    uint32_t id[OPM_BLOCK_UNITS];
    uint64_t gap[OPM_BLOCK_UNITS + PACK_GROUP];
    uint64_t dur[OPM_BLOCK_UNITS + PACK_GROUP];
    uint32_t other[OPM_BLOCK_UNITS]; /* where the events that are no spans start */
};

struct packer *opm__packer_new(void)
{
    struct packer *p = calloc(1, sizeof(*p));

    if (p)
        p->step = 1;
    return p;
}

void opm__packer_free(struct packer *p)
{
    free(p);
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t t = a % b;

        a = b;
        b = t;
    }
    return a;
}

/* Division by a fixed number without dividing: by the inverse of its odd part, modulo 2^64. It is
 * exact for multiples; any other number has low bits, or a quotient that is too large. */
struct divider {
    uint64_t inverse;
    uint64_t limit;
    uint64_t low;
    unsigned shift;
};

static struct divider divider_of(uint64_t q)
{
    struct divider d = { .shift = (unsigned)__builtin_ctzll(q) };
    uint64_t odd = q >> d.shift;

    d.low = (1ull << d.shift) - 1;
    d.limit = UINT64_MAX / odd;
    d.inverse = odd;
    for (int i = 0; i < 5; i++)
        d.inverse *= 2 - odd * d.inverse;
    return d;
}

/* The quotient; *bad becomes nonzero if v is no multiple. */
static inline uint64_t divide(const struct divider *d, uint64_t v, uint64_t *bad)
{
    uint64_t quotient = (v >> d->shift) * d->inverse;

    *bad |= (uint64_t)(quotient > d->limit) | (v & d->low);
    return quotient;
}

/* Runs of predicted ids, each followed by the one that was not. */
static uint8_t *pack_ids(struct packer *p, uint8_t *out, size_t n)
{
    uint32_t last = 0;
    size_t run = 0;

    memset(p->follows, 0, sizeof(p->follows));
    for (size_t i = 0; i < n; i++) {
        uint32_t *guess = &p->follows[pack_context(last)];

        last = p->id[i];
        if (LIKELY(*guess == last)) {
            run++;
            continue;
        }
        *guess = last;
        out = varint_put(out, run);
        out = varint_put(out, last);
        run = 0;
    }
    return varint_put(out, run);
}

/* One event as varints: kind, id, ticks since the previous one, then what it holds. */
static uint8_t *pack_other(uint8_t *out, const struct opm_unit *u, uint64_t *last_ticks)
{
    unsigned kind = unit_kind(u);

    if (kind == UNIT_SPAN) {
        /* Ended before its predecessor: the clock went back. Written at length. */
        struct opm_unit span[2] = { { u->ticks, unit_word(UNIT_LONG_SPAN, unit_id(u), 0) },
                                    { unit_value(u), 0 } };

        return pack_other(out, span, last_ticks);
    }
    *out++ = (uint8_t)kind;
    out = varint_put(out, unit_id(u));
    out = varint_put(out, zigzag((int64_t)(u->ticks - *last_ticks)));
    *last_ticks = u->ticks;
    out = varint_put(out, unit_value(u));
    for (unsigned i = 1; i < unit_count(kind); i++) {
        /* Times relative to the event's, numbers as they are; doubles do not get shorter. */
        if (kind == UNIT_COUNTER || kind == UNIT_ARG_REAL) {
            memcpy(out, &u[i].ticks, 8);
            out += 8;
        } else if (kind == UNIT_ASYNC_END || kind == UNIT_FLOW ||
                   (kind == UNIT_DEVICE_SPAN && i == 1)) {
            out = varint_put(out, zigzag((int64_t)(u[i].ticks - u->ticks)));
        } else {
            out = varint_put(out, zigzag((int64_t)u[i].ticks));
        }
        out = varint_put(out, u[i].word);
    }
    return out;
}

/* Where the ends of the chunk are counted from: any moment not after the first end will do. */
static uint64_t first_start(const struct opm_unit *units, size_t n)
{
    for (size_t i = 0; i < n; i += MAX(unit_count(unit_kind(&units[i])), 1u))
        if (unit_kind(&units[i]) == UNIT_SPAN)
            return units[i].ticks;
    return 0;
}

struct split {
    size_t nspan;
    size_t nother;
    uint64_t bad; /* nonzero: not all times are multiples of the step */
};

/* Sort the units into columns of spans, divided by step, and others. */
static struct split split(struct packer *p, const struct opm_unit *units, size_t n, uint64_t base,
                          uint64_t step)
{
    struct divider d = divider_of(step);
    struct split s = { 0 };
    uint64_t last_end = base;

    for (size_t i = 0; i < n;) {
        const struct opm_unit *u = &units[i];
        uint64_t end = u->ticks + unit_value(u);
        bool around = u->ticks < last_end;
        uint64_t gap = around ? end - last_end : u->ticks - last_end;

        if (UNLIKELY(unit_kind(u) != UNIT_SPAN || gap > INT64_MAX / 2)) {
            unsigned count = unit_count(unit_kind(u));

            if (!count || count > n - i)
                break;
            p->other[s.nother++] = (uint32_t)i;
            i += count;
            continue;
        }
        i++;
        p->id[s.nspan] = unit_id(u);
        p->dur[s.nspan] = divide(&d, unit_value(u), &s.bad);
        p->gap[s.nspan++] = divide(&d, gap, &s.bad) << 1 | around;
        last_end = end;
    }
    return s;
}

/* The largest number that divides all times. Columns hold them undivided. */
static uint64_t common_step(const struct packer *p, size_t n)
{
    uint64_t q = 0;

    for (size_t i = 0; i < n && q != 1; i++)
        q = gcd(gcd(q, p->gap[i] >> 1), p->dur[i]);
    return q ? q : 1;
}

size_t opm__pack(struct packer *p, const struct opm_unit *units, size_t n, uint8_t *out,
                 uint64_t *out_spans)
{
    uint8_t *start = out;
    uint64_t base = first_start(units, n), last_ticks = base;
    struct split s = split(p, units, n, base, p->step);

    if (s.bad || (p->step == 1 && common_step(p, MIN(s.nspan, 8u)) > 1)) {
        s = split(p, units, n, base, 1);
        p->step = common_step(p, s.nspan);
        if (p->step > 1)
            s = split(p, units, n, base, p->step);
    }
    *out_spans += s.nspan;
    out = varint_put(out, s.nspan);
    out = varint_put(out, s.nother);
    out = varint_put(out, p->step);
    memcpy(out, &base, 8);
    out += 8;
    for (size_t i = 0; i < s.nother; i++) {
        unsigned kind = unit_kind(&units[p->other[i]]);

        *out_spans += kind == UNIT_SPAN || kind == UNIT_LONG_SPAN || kind == UNIT_DEVICE_SPAN;
        out = pack_other(out, &units[p->other[i]], &last_ticks);
    }
    if (s.nspan) {
        out = pack_ids(p, out, s.nspan);
        out = bits_put(out, p->gap, s.nspan);
        out = bits_put(out, p->dur, s.nspan);
    }
    return (size_t)(out - start);
}
