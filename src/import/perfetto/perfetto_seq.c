/* perfetto_seq.c -- what a sequence of packets has said so far: interned things, defaults, clocks.
 */
#include "import/perfetto/perfetto_int.h"

#include "base/alloc.h"

#include <stdlib.h>
#include <string.h>

struct pf_seq *pf_seq(struct pf *p, uint32_t id)
{
    const uint64_t *at = u64map_get(&p->seq_at, id);
    struct pf_seq *s;

    if (at)
        return (struct pf_seq *)(uintptr_t)*at;
    s = arena_alloc(&p->arena, sizeof(*s));
    if (!s || u64map_put(&p->seq_at, id, (uint64_t)(uintptr_t)s)) {
        p->b.rc = OPM_ENOMEM;
        return NULL;
    }
    s->id = id;
    return s;
}

void pf_seq_clear(struct pf_seq *s)
{
    for (int i = 0; i < PF_INTERN_COUNT; i++)
        u64map_release(&s->text[i]);
    u64map_release(&s->counter);
    s->has_track = false;
    s->clock = 0;
    if (s->counters)
        s->counters->n = s->counters->nreal = 0;
    s->has_state = true;
}

void pf_seqs_release(struct pf *p)
{
    for (size_t i = 0; i < p->seq_at.cap; i++)
        if (p->seq_at.used[i])
            pf_seq_clear((struct pf_seq *)(uintptr_t)p->seq_at.entry[i].value);
    u64map_release(&p->seq_at);
}

/* Number and text of one interned thing. */
struct interned {
    uint64_t iid, line;
    const char *text, *function;
    size_t len, function_len;
    uint64_t ids[64]; /* of a frame its function, of a callstack its frames */
    size_t nid;
};

static bool interned_read(const struct pb_field *f, enum pf_intern kind, struct interned *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    *out = (struct interned){ 0 };
    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            out->iid = g.value;
        else if (g.number == 2 && g.wire == PB_LEN && kind != PF_CALLSTACKS) {
            out->text = (const char *)g.p;
            out->len = g.len;
        } else if (g.number == 2 && g.wire == PB_VARINT && out->nid < ARRAY_SIZE(out->ids)) {
            out->ids[out->nid++] = g.value;
        } else if (g.number == 2 && g.wire == PB_LEN) {
            struct rd ids = rd_of(g.p, g.len); /* packed */

            while (rd_left(&ids) && !ids.bad && out->nid < ARRAY_SIZE(out->ids))
                out->ids[out->nid++] = rd_varint(&ids);
        } else if (g.number == 3 && g.wire == PB_LEN) {
            out->function = (const char *)g.p;
            out->function_len = g.len;
        } else if (g.number == 4 && g.wire == PB_VARINT) {
            out->line = g.value;
        }
    }
    return !r.bad && out->iid;
}

/* "file:line function" */
static str_id location_text(struct pf *p, const struct interned *in)
{
    buf_clear(&p->scratch);
    buf_add(&p->scratch, in->text ? in->text : "", in->len);
    if (in->line)
        buf_addf(&p->scratch, ":%llu", (unsigned long long)in->line);
    if (in->function_len) {
        if (p->scratch.len)
            buf_addc(&p->scratch, ' ');
        buf_add(&p->scratch, in->function, in->function_len);
    }
    return build_buf(&p->b, &p->scratch);
}

/* Frames from the outermost in, as "main;step;conv". */
static str_id callstack_text(struct pf *p, struct pf_seq *s, const struct interned *in)
{
    buf_clear(&p->scratch);
    for (size_t i = 0; i < in->nid; i++) {
        const uint64_t *frame = u64map_get(&s->text[PF_FRAMES], in->ids[i]);
        const char *text = frame ? store_text(p->b.st, (str_id)*frame) : NULL;

        buf_addf(&p->scratch, "%s%s", i ? ";" : "", text ? text : "?");
    }
    return build_buf(&p->b, &p->scratch);
}

void pf_interned(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    static const struct {
        uint32_t field;
        enum pf_intern kind;
    } fields[] = {
        { 1, PF_CATEGORIES },       { 2, PF_NAMES },
        { 3, PF_ANNOTATION_NAMES }, { 4, PF_LOCATIONS },
        { 5, PF_FUNCTIONS },        { 6, PF_FRAMES },
        { 7, PF_CALLSTACKS },       { 29, PF_ANNOTATION_STRINGS },
    };
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    struct interned in;

    while (pb_next(&r, &g) && !p->b.rc) {
        str_id text = 0;

        for (size_t i = 0; i < ARRAY_SIZE(fields); i++) {
            enum pf_intern kind = fields[i].kind;

            if (fields[i].field != g.number || g.wire != PB_LEN || !interned_read(&g, kind, &in))
                continue;
            if (kind == PF_LOCATIONS)
                text = location_text(p, &in);
            else if (kind == PF_CALLSTACKS)
                text = callstack_text(p, s, &in);
            else if (kind == PF_FRAMES) {
                const uint64_t *function =
                    in.nid ? u64map_get(&s->text[PF_FUNCTIONS], in.ids[0]) : NULL;

                text = function ? (str_id)*function : 0;
            } else {
                text = build_str(&p->b, in.text ? in.text : "", in.len);
            }
            if (!p->b.rc && u64map_put(&s->text[kind], in.iid, text))
                p->b.rc = OPM_ENOMEM;
        }
    }
}

str_id pf_text(struct pf *p, struct pf_seq *s, enum pf_intern kind, uint64_t iid)
{
    const uint64_t *at = u64map_get(&s->text[kind], iid);

    if (!at)
        store_stat(p->b.st, STAT_intern_missing, 1);
    return at ? (str_id)*at : 0;
}

static size_t read_list(const struct pb_field *f, uint64_t *out, size_t n)
{
    struct rd r;

    if (f->wire == PB_VARINT && n < PF_COUNTERS_MAX)
        out[n++] = f->value;
    if (f->wire == PB_LEN)
        for (r = rd_of(f->p, f->len); rd_left(&r) && !r.bad && n < PF_COUNTERS_MAX;)
            out[n++] = rd_varint(&r);
    return n;
}

/* Made when the first default names one. */
static struct pf_counters *counters_of(struct pf *p, struct pf_seq *s)
{
    if (!s->counters)
        s->counters = arena_alloc(&p->arena, sizeof(*s->counters));
    if (!s->counters)
        p->b.rc = OPM_ENOMEM;
    return s->counters;
}

void pf_defaults(struct pf *p, struct pf_seq *s, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g, h;

    s->has_track = false;
    s->clock = 0;
    if (s->counters)
        s->counters->n = s->counters->nreal = 0;
    while (pb_next(&r, &g)) {
        if (g.number == 58 && g.wire == PB_VARINT) {
            s->clock = g.value;
        } else if (g.number == 11 && g.wire == PB_LEN) {
            struct rd inner = rd_of(g.p, g.len);

            while (pb_next(&inner, &h)) {
                if (h.number == 11 && h.wire == PB_VARINT) {
                    s->track = h.value;
                    s->has_track = true;
                } else if ((h.number == 31 || h.number == 45) && counters_of(p, s)) {
                    struct pf_counters *c = s->counters;

                    if (h.number == 31)
                        c->n = read_list(&h, c->track, c->n);
                    else
                        c->nreal = read_list(&h, c->real_track, c->nreal);
                }
            }
        }
    }
}

struct clock_reading {
    uint32_t id;
    bool incremental;
    uint64_t ts, unit_ns;
};

static size_t readings_read(const struct pb_field *f, struct clock_reading *out, size_t max,
                            uint32_t *primary)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g, h;
    size_t n = 0;

    while (pb_next(&r, &g)) {
        if (g.number == 2 && g.wire == PB_VARINT)
            *primary = (uint32_t)g.value;
        if (g.number != 1 || g.wire != PB_LEN || n == max)
            continue;
        out[n] = (struct clock_reading){ .unit_ns = 1 };
        for (struct rd c = rd_of(g.p, g.len); pb_next(&c, &h);) {
            if (h.wire != PB_VARINT)
                continue;
            if (h.number == 1)
                out[n].id = (uint32_t)h.value;
            else if (h.number == 2)
                out[n].ts = h.value;
            else if (h.number == 3)
                out[n].incremental = h.value != 0;
            else if (h.number == 4 && h.value)
                out[n].unit_ns = h.value;
        }
        n++;
    }
    return n;
}

static const struct clock_reading *reading_of(const struct clock_reading *c, size_t n, uint32_t id)
{
    for (size_t i = 0; i < n; i++)
        if (c[i].id == id)
            return &c[i];
    return NULL;
}

static int64_t reading_ns(const struct clock_reading *c)
{
    return (int64_t)(c->ts * c->unit_ns);
}

/* The clock that all times are brought to: the primary one of the first snapshot, else boot time.
 */
static void choose_reference(struct pf *p, const struct clock_reading *c, size_t n,
                             uint32_t primary)
{
    const struct clock_reading *realtime, *ref;

    if (p->ref_clock)
        return;
    p->ref_clock = primary                                ? primary
                   : reading_of(c, n, PF_CLOCK_BOOTTIME)  ? PF_CLOCK_BOOTTIME
                   : reading_of(c, n, PF_CLOCK_MONOTONIC) ? PF_CLOCK_MONOTONIC
                                                          : PF_CLOCK_BOOTTIME;
    ref = reading_of(c, n, p->ref_clock);
    realtime = reading_of(c, n, PF_CLOCK_REALTIME);
    if (!ref)
        return;
    p->base_ns = reading_ns(ref);
    if (realtime)
        import_set_realtime(p->b.src, reading_ns(realtime));
}

void pf_clock_snapshot(struct pf *p, struct pf_seq *s, const struct pb_field *f, bool first_pass)
{
    struct clock_reading c[32];
    uint32_t primary = 0;
    size_t n = readings_read(f, c, ARRAY_SIZE(c), &primary);
    const struct clock_reading *ref;

    choose_reference(p, c, n, primary);
    ref = reading_of(c, n, p->ref_clock);
    for (size_t i = 0; i < n; i++) {
        if (first_pass && ref && c[i].id != p->ref_clock && c[i].id < PF_SEQ_CLOCK_FIRST) {
            if (!GROW(p->clock, p->clock_cap, p->nclock + 1)) {
                p->b.rc = OPM_ENOMEM;
                return;
            }
            p->clock[p->nclock++] =
                (struct pf_clock_pair){ c[i].id, reading_ns(&c[i]), reading_ns(ref) };
        }
        if (!first_pass && s && c[i].id >= PF_SEQ_CLOCK_FIRST &&
            c[i].id < PF_SEQ_CLOCK_FIRST + PF_SEQ_CLOCKS) {
            struct pf_seq_clock *k;

            if (!s->clocks)
                s->clocks = arena_alloc(&p->arena, PF_SEQ_CLOCKS * sizeof(*s->clocks));
            if (!s->clocks) {
                p->b.rc = OPM_ENOMEM;
                return;
            }
            k = &s->clocks[c[i].id - PF_SEQ_CLOCK_FIRST];
            *k = (struct pf_seq_clock){ .known = ref != NULL,
                                        .incremental = c[i].incremental,
                                        .unit_ns = c[i].unit_ns,
                                        .at = reading_ns(&c[i]),
                                        .now = reading_ns(&c[i]) };
            if (ref)
                k->ref_ns = reading_ns(ref);
        }
    }
}

/* Sums wrap around: times of a damaged file may be anything. */
static int64_t add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static int64_t sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static int by_clock(const void *va, const void *vb)
{
    const struct pf_clock_pair *a = va, *b = vb;

    if (a->clock != b->clock)
        return a->clock < b->clock ? -1 : 1;
    return a->clock_ns < b->clock_ns ? -1 : a->clock_ns > b->clock_ns;
}

void pf_clocks_sort(struct pf *p)
{
    if (p->nclock)
        qsort(p->clock, p->nclock, sizeof(*p->clock), by_clock);
}

/* The first reading of a clock that is not before ts, or of a later clock, or the end. */
static size_t clock_at(const struct pf *p, uint32_t clock, int64_t ts)
{
    size_t lo = 0, hi = p->nclock;

    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        const struct pf_clock_pair *c = &p->clock[mid];

        if (c->clock < clock || (c->clock == clock && c->clock_ns < ts))
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* By the last snapshot before it, else the first. */
static int64_t global_time(struct pf *p, int64_t ts, uint32_t clock)
{
    const struct pf_clock_pair *best;
    size_t first, after;

    if (clock == p->ref_clock || (!p->ref_clock && clock == PF_CLOCK_BOOTTIME))
        return ts;
    first = clock_at(p, clock, INT64_MIN);
    after = clock_at(p, clock, ts < INT64_MAX ? ts + 1 : ts);
    if (first == p->nclock || p->clock[first].clock != clock) {
        store_stat(p->b.st, STAT_clock_unconverted, 1);
        return ts;
    }
    best = &p->clock[after > first ? after - 1 : first];
    return add(best->ref_ns, sub(ts, best->clock_ns));
}

int64_t pf_time(struct pf *p, struct pf_seq *s, uint64_t ts, uint64_t clock)
{
    struct pf_seq_clock *k;
    int64_t ns;

    if (!clock)
        clock = s->clock ? s->clock : p->ref_clock ? PF_CLOCK_BOOTTIME : 0;
    if (clock == PF_CLOCK_BOOTTIME && p->ref_clock != PF_CLOCK_BOOTTIME && !s->clock) {
        /* Nothing was said: the trace's own clock is meant, which is boot time unless a snapshot
         * names another one. */
        size_t at = clock_at(p, PF_CLOCK_BOOTTIME, INT64_MIN);

        if (at == p->nclock || p->clock[at].clock != PF_CLOCK_BOOTTIME)
            return sub((int64_t)ts, p->base_ns);
    }
    if (clock < PF_SEQ_CLOCK_FIRST || clock >= PF_SEQ_CLOCK_FIRST + PF_SEQ_CLOCKS)
        return sub(clock ? global_time(p, (int64_t)ts, (uint32_t)clock) : (int64_t)ts, p->base_ns);
    k = s->clocks ? &s->clocks[clock - PF_SEQ_CLOCK_FIRST] : NULL;
    if (!k || !k->known) {
        store_stat(p->b.st, STAT_clock_unconverted, 1);
        return sub((int64_t)ts, p->base_ns);
    }
    ns = (int64_t)(ts * k->unit_ns);
    k->now = k->incremental ? add(k->now, ns) : ns;
    return sub(add(k->ref_ns, sub(k->now, k->at)), p->base_ns);
}
