/* iterations.c -- see iterations.h. */
#include "analyze/iterations.h"

#include "analyze/coverage.h"
#include "analyze/groups.h"
#include "analyze/parallel.h"
#include "base/alloc.h"
#include "base/u64map.h"

#define RECENT 1024 /* pairs of series and group that need no look-up, a power of two */

/* Whether a log was on in a step: the one that was asked for last. */
struct seen {
    uint32_t step;
    bool on;
};

/* What one thread found in its part of the rows. */
struct part {
    struct seen *seen;       /* per log */
    struct iterations *of;   /* per group */
    struct u64map met;       /* series and group -> the log that tells of it there */
    uint64_t recent[RECENT]; /* keys that are in `met` */
    int rc;
};

struct pass {
    const struct store *st;
    const struct iterations_query *q;
    struct coverage coverage;
    const struct site *sites;
    str_id hardware;
    const uint32_t *site, *step;
    struct span_tracks track;
    const int64_t *dur, *self, *wait;
    size_t nspan, nstep;
    bool *counts; /* per step: it ended and is no warm-up */
    int width;
    struct part *part;
};

static uint32_t group_of(const struct pass *p, size_t row)
{
    uint32_t g = p->q->group[p->site[row]];

    return g == GROUP_NONE && p->q->row_group ? p->q->row_group[row] : g;
}

static inline bool was_on(const struct pass *p, struct seen *seen, uint32_t log, uint32_t step)
{
    if (seen->step != step)
        *seen = (struct seen){ step, coverage_has(&p->coverage, log, step) };
    return seen->on;
}

/* A group has been met in a series. */
static int meet(struct part *part, uint32_t group, uint32_t series, uint32_t log)
{
    uint64_t key = (uint64_t)series << 32 | group;
    uint64_t *recent = &part->recent[(group + series * 67u) % RECENT];

    if (*recent == key)
        return 0;
    *recent = key;
    return u64map_get(&part->met, key) ? 0 : u64map_put(&part->met, key, log);
}

static void look(void *user, int thread)
{
    struct pass *p = user;
    struct part *part = &p->part[thread];
    size_t row = parallel_slice(p->nspan, p->width, thread);
    size_t end = parallel_slice(p->nspan, p->width, thread + 1);

    for (; row < end && !part->rc; row++) {
        uint32_t step = p->step[row], log, g;
        bool passed_on = p->q->passed_on && p->q->passed_on[row] != OPM_NULL_ID;
        struct iterations *it;

        g = group_of(p, passed_on ? p->q->passed_on[row] : row);
        if (g == GROUP_NONE || p->dur[row] < 0)
            continue;
        it = &part->of[g];
        if (step >= p->nstep && p->self)
            it->outside_ns = add_ns(it->outside_ns, p->self[row]);
        if (step >= p->nstep || !p->counts[step])
            continue;
        log = coverage_log(&p->coverage, span_tracks_get(&p->track, row),
                           p->hardware && p->sites[p->site[row]].layer == p->hardware);
        if (!was_on(p, &part->seen[log], log, step))
            continue;
        if (p->self)
            it->self_ns = add_ns(it->self_ns, p->self[row]);
        if (passed_on)
            continue;
        it->count++;
        if (p->wait && p->wait[row] != OPM_NULL_I64)
            it->wait_ns = add_ns(it->wait_ns, p->wait[row]);
        part->rc = meet(part, g, p->coverage.series[step], log);
    }
}

/* The parts in the order of their rows, so that of several logs the one which was met first tells
 * of a group, however many threads looked. */
static int merge(struct pass *p, struct iterations *out)
{
    struct u64map *met = &p->part[0].met;
    int rc = 0;

    for (int i = 0; i < p->width && !rc; i++) {
        const struct part *part = &p->part[i];

        rc = part->rc;
        for (uint32_t g = 0; g < p->q->ngroup; g++) {
            out[g].count += part->of[g].count;
            out[g].self_ns = add_ns(out[g].self_ns, part->of[g].self_ns);
            out[g].wait_ns = add_ns(out[g].wait_ns, part->of[g].wait_ns);
            out[g].outside_ns = add_ns(out[g].outside_ns, part->of[g].outside_ns);
        }
        for (size_t k = 0; i > 0 && k < part->met.cap && !rc; k++)
            if (part->met.used[k] && !u64map_get(met, part->met.entry[k].key))
                rc = u64map_put(met, part->met.entry[k].key, part->met.entry[k].value);
    }
    return rc;
}

static int columns_get(struct pass *p)
{
    const void *step = NULL, *dur = NULL, *self = NULL, *wait = NULL;
    size_t nsite;

    if (store_column(p->st, TABLE_span, span_col_step, &step) < 0 ||
        store_column(p->st, TABLE_span, span_col_dur, &dur) < 0 ||
        store_column(p->st, TABLE_span, span_col_self, &self) < 0 ||
        (p->q->wait && store_column(p->st, TABLE_span, span_col_wait, &wait) < 0))
        return OPM_ENOMEM;
    p->step = step;
    p->dur = dur;
    p->self = self;
    p->wait = wait;
    p->track = store_span_tracks(p->st);
    p->nspan = step && dur ? store_nrow(p->st, TABLE_span) : 0;
    p->sites = store_sites(p->st, &nsite);
    p->hardware = strpool_find(store_strings(p->st), "hardware", 8);
    for (size_t i = 0; i < p->nstep; i++)
        p->counts[i] = store_i64_or(p->st, TABLE_step, i, step_col_warmup, 0) != 1 &&
                       store_i64_or(p->st, TABLE_step, i, step_col_dur, -1) >= 0;
    return 0;
}

static int parts_make(struct pass *p)
{
    size_t ngroup = p->q->ngroup;

    /* Many groups and few spans in each: a part per thread would cost more than it saves. */
    p->width = ngroup > p->nspan / 16 ? 1 : parallel_width(p->nspan);
    p->part = mem_calloc((size_t)p->width, sizeof(*p->part));
    if (!p->part)
        return OPM_ENOMEM;
    for (int i = 0; i < p->width; i++) {
        struct part *part = &p->part[i];

        for (size_t k = 0; k < RECENT; k++)
            part->recent[k] = UINT64_MAX;
        part->of = mem_calloc(ngroup, sizeof(*part->of));
        part->seen = mem_alloc(p->coverage.nlog * sizeof(*part->seen));
        if (!part->of || !part->seen)
            return OPM_ENOMEM;
        for (size_t k = 0; k < p->coverage.nlog; k++)
            part->seen[k] = (struct seen){ .step = OPM_NULL_ID };
    }
    return 0;
}

/* counts[], series by series. */
static bool *counts_by_series(const struct pass *p, size_t *first)
{
    const struct coverage *c = &p->coverage;
    bool *counts = mem_alloc(p->nstep * sizeof(*counts));

    for (size_t s = 0; s < c->nseries; s++)
        first[s + 1] = first[s] + c->length[s];
    for (size_t step = 0; counts && step < p->nstep; step++)
        counts[first[c->series[step]] + c->nth[step]] = p->counts[step];
    return counts;
}

/* Steps of every series that a group was met in: all, and those that its log recorded. */
static int add_up(struct pass *p, struct iterations *out)
{
    const struct coverage *c = &p->coverage;
    const struct u64map *met = &p->part[0].met;
    size_t *first = mem_calloc(c->nseries + 1, sizeof(*first));
    int64_t *all = mem_calloc(c->nseries + 1, sizeof(*all));
    int64_t *recorded = mem_calloc(c->nlog * c->nseries + 1, sizeof(*recorded));
    bool *counts = first ? counts_by_series(p, first) : NULL;
    int rc = all && recorded && counts ? 0 : OPM_ENOMEM;

    for (size_t step = 0; !rc && step < p->nstep; step++)
        all[c->series[step]] += p->counts[step];
    for (size_t k = 0; !rc && k < c->nlog * c->nseries; k++) {
        const bool *counted = counts + first[k % c->nseries];

        for (uint32_t i = 0; c->recorded[k] && i < c->length[k % c->nseries]; i++)
            recorded[k] += c->recorded[k][i] && counted[i];
    }
    for (size_t k = 0; !rc && k < met->cap; k++) {
        uint32_t g = (uint32_t)met->entry[k].key, series = (uint32_t)(met->entry[k].key >> 32);

        if (!met->used[k])
            continue;
        out[g].steps += recorded[met->entry[k].value * c->nseries + series];
        out[g].all_steps += all[series];
    }
    mem_free(first);
    mem_free(all);
    mem_free(recorded);
    mem_free(counts);
    return rc;
}

static void pass_release(struct pass *p)
{
    for (int i = 0; p->part && i < p->width; i++) {
        mem_free(p->part[i].of);
        mem_free(p->part[i].seen);
        u64map_release(&p->part[i].met);
    }
    mem_free(p->part);
    mem_free(p->counts);
    coverage_release(&p->coverage);
}

int iterations_count(const struct store *st, const struct iterations_query *q,
                     struct iterations *out)
{
    struct pass p = {
        .st = st, .q = q, .site = store_span_site(st), .nstep = store_nrow(st, TABLE_step)
    };
    int rc;

    for (uint32_t g = 0; g < q->ngroup; g++)
        out[g] = (struct iterations){ 0 };
    if (!p.nstep || !store_nrow(st, TABLE_span) || !q->ngroup)
        return 0;
    p.counts = mem_alloc(p.nstep * sizeof(*p.counts));
    rc = p.counts ? columns_get(&p) : OPM_ENOMEM;
    if (rc == 0)
        rc = coverage_find(&p.coverage, st);
    if (rc == 0)
        rc = parts_make(&p);
    if (rc == 0)
        parallel_run(p.width, look, &p);
    if (rc == 0)
        rc = merge(&p, out);
    if (rc == 0)
        rc = add_up(&p, out);
    pass_release(&p);
    return rc;
}
