/* pack.c -- a block of units into a chunk payload; docs/format.md "Events" is the specification.
 *
 * Nearly all units are spans, ordered by their end. They become three streams: ids, of which only
 * those are written that a table of "what followed last time" does not predict; the distance to the
 * end before (or, for a span around others, from it); and durations. All times of a chunk are
 * divided by the largest step that divides them (many TSCs count in steps), then bit-packed in
 * groups, the few large ones apart. Everything else is written event by event. */
#include "rec/rec.h"

#include "format/pack.h"
#include "rec/varint.h"
#include <stdlib.h>
#include <string.h>

struct packer {
    uint32_t follows[PACK_CONTEXTS];
    uint32_t id[OPM_BLOCK_UNITS];
    uint64_t gap[OPM_BLOCK_UNITS + PACK_GROUP];
    uint64_t dur[OPM_BLOCK_UNITS + PACK_GROUP];
    uint8_t around[OPM_BLOCK_UNITS]; /* 1: the span encloses the one before it */
    uint32_t other[OPM_BLOCK_UNITS]; /* where the events that are no spans start */
};

struct packer *opm__packer_new(void)
{
    return calloc(1, sizeof(struct packer));
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

/* Divide every value by q, exactly, without dividing: multiply by the inverse of its odd part.
 * False if some value is not a multiple; the values are then as before. */
static bool divide_all(uint64_t *v, size_t n, uint64_t q, uint64_t *out_offender)
{
    unsigned shift = (unsigned)__builtin_ctzll(q);
    uint64_t odd = q >> shift, inverse = odd, limit = UINT64_MAX / odd;

    for (int i = 0; i < 5; i++)
        inverse *= 2 - odd * inverse;
    for (size_t i = 0; i < n; i++) {
        uint64_t quotient = (v[i] >> shift) * inverse;

        if (UNLIKELY(quotient > limit || (v[i] & ((1ull << shift) - 1)))) {
            *out_offender = v[i];
            for (size_t k = 0; k < i; k++)
                v[k] *= q;
            return false;
        }
        v[i] = quotient;
    }
    return true;
}

/* The step that divides all times of the chunk, after dividing them by it. */
static uint64_t divide_by_step(uint64_t *gap, uint64_t *dur, size_t n)
{
    uint64_t q = 0, offender = 0;

    for (size_t i = 0; i < n && i < 64; i++)
        q = gcd(gcd(q, gap[i]), dur[i]);
    while (q > 1) {
        if (divide_all(gap, n, q, &offender)) {
            if (divide_all(dur, n, q, &offender))
                return q;
            for (size_t i = 0; i < n; i++)
                gap[i] *= q;
        }
        q = gcd(q, offender);
    }
    return 1;
}

static inline unsigned bit_length(uint64_t v)
{
    return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* The width that makes the group smallest: narrower costs two bytes and more per value that sticks
 * out. */
static unsigned choose_width(const uint64_t *v)
{
    uint8_t count[65] = { 0 };
    uint64_t all = 0;
    unsigned best = 0, best_cost = UINT32_MAX, above = 0;

    for (unsigned i = 0; i < PACK_GROUP; i++) {
        all |= v[i];
        count[bit_length(v[i])]++;
    }
    for (unsigned w = bit_length(all);; w--) {
        unsigned cost = w * (PACK_GROUP / 8) + above * 2 + above / 2;

        if (cost < best_cost) {
            best_cost = cost;
            best = w;
        }
        if (!w)
            return best;
        above += count[w];
    }
}

static uint8_t *pack_group(uint8_t *out, const uint64_t *v)
{
    unsigned w = choose_width(v), filled = 0, nlarge = 0;
    uint64_t mask = w == 64 ? UINT64_MAX : (1ull << w) - 1, acc = 0;
    uint8_t *head = out;

    out += 2;
    if (w == 64) {
        memcpy(out, v, PACK_GROUP * 8);
        out += PACK_GROUP * 8;
    } else if (w) {
        for (unsigned i = 0; i < PACK_GROUP; i++) {
            uint64_t low = v[i] & mask;

            acc |= low << filled;
            filled += w;
            if (filled >= 64) {
                memcpy(out, &acc, 8);
                out += 8;
                filled -= 64;
                acc = filled ? low >> (w - filled) : 0;
            }
        }
    }
    if (w < 64) {
        for (unsigned i = 0; i < PACK_GROUP; i++) {
            if (UNLIKELY(v[i] > mask)) {
                *out++ = (uint8_t)i;
                out = varint_put(out, v[i] >> w);
                nlarge++;
            }
        }
    }
    head[0] = (uint8_t)w;
    head[1] = (uint8_t)nlarge;
    return out;
}

static uint8_t *pack_column(uint8_t *out, uint64_t *v, size_t n)
{
    for (size_t i = n; i % PACK_GROUP; i++)
        v[i] = 0;
    for (size_t i = 0; i < n; i += PACK_GROUP)
        out = pack_group(out, v + i);
    return out;
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

size_t opm__pack(struct packer *p, const struct opm_unit *units, size_t n, uint8_t *out,
                 uint64_t *out_spans)
{
    size_t nspan = 0, nother = 0;
    uint8_t *start = out;
    uint64_t base = first_start(units, n), last_end = base, last_ticks = base, step;

    for (size_t i = 0; i < n;) {
        const struct opm_unit *u = &units[i];
        unsigned kind = unit_kind(u), count = unit_count(kind);
        uint64_t end = u->ticks + unit_value(u), gap = end - last_end;
        bool around = u->ticks < last_end;

        if (!count || count > n - i)
            break;
        i += count;
        if (UNLIKELY(kind != UNIT_SPAN || gap > INT64_MAX / 2)) {
            p->other[nother++] = (uint32_t)(u - units);
            *out_spans += kind == UNIT_SPAN || kind == UNIT_LONG_SPAN || kind == UNIT_DEVICE_SPAN;
            continue;
        }
        p->id[nspan] = unit_id(u);
        p->dur[nspan] = unit_value(u);
        p->gap[nspan] = around ? gap : u->ticks - last_end;
        p->around[nspan++] = around;
        last_end = end;
    }
    *out_spans += nspan;
    step = divide_by_step(p->gap, p->dur, nspan);
    for (size_t i = 0; i < nspan; i++)
        p->gap[i] = p->gap[i] << 1 | p->around[i];
    out = varint_put(out, nspan);
    out = varint_put(out, nother);
    out = varint_put(out, step);
    memcpy(out, &base, 8);
    out += 8;
    for (size_t i = 0; i < nother; i++)
        out = pack_other(out, &units[p->other[i]], &last_ticks);
    if (nspan) {
        out = pack_ids(p, out, nspan);
        out = pack_column(out, p->gap, nspan);
        out = pack_column(out, p->dur, nspan);
    }
    return (size_t)(out - start);
}
