/* iterations.c -- see iterations.h. */
#include "analyze/iterations.h"

#include "analyze/coverage.h"
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/u64map.h"

#define NO_SERIES UINT32_MAX

struct pass {
    const struct store *st;
    const struct iterations_query *q;
    struct coverage coverage;
    const struct site *sites;
    str_id hardware;
    const uint32_t *site, *step, *track;
    const int64_t *dur, *self, *wait;
    size_t nspan, nstep, nseries, ntrack;
    uint32_t *series;  /* per step, or NO_SERIES: warm-up, or it never ended */
    int64_t *all;      /* per series: its steps */
    int64_t *length;   /* per log and series: its recorded steps */
    uint32_t *last;    /* per group: the series that it was seen in last */
    struct u64map met; /* series and group -> the log that tells of it there */
};

static int64_t int_cell(const struct store *st, size_t row, int col, int64_t otherwise)
{
    struct cell c = store_cell(st, TABLE_step, row, col);

    return c.kind == CELL_I64 ? c.i64 : otherwise;
}

static int list_series(struct pass *p)
{
    struct u64map index = { 0 };
    int rc = 0;

    for (size_t i = 0; i < p->nstep && !rc; i++) {
        struct cell model = store_cell(p->st, TABLE_step, i, step_col_model);
        str_id id = model.kind == CELL_STR ? model.str : 0;
        uint64_t key = (uint64_t)int_cell(p->st, i, step_col_track, OPM_NULL_ID) << 32 | id;
        const uint64_t *at = u64map_get(&index, key);

        p->series[i] = NO_SERIES;
        if (int_cell(p->st, i, step_col_warmup, 0) == 1 || int_cell(p->st, i, step_col_dur, -1) < 0)
            continue;
        p->series[i] = at ? (uint32_t)*at : (uint32_t)p->nseries;
        if (!at)
            rc = u64map_put(&index, key, p->nseries++);
    }
    u64map_release(&index);
    return rc;
}

static uint32_t group_of(const struct pass *p, size_t row)
{
    uint32_t g = p->q->group[p->site[row]];

    return g == GROUP_NONE && p->q->row_group ? p->q->row_group[row] : g;
}

/* A group has been met in a series; few are in more than one. */
static int meet(struct pass *p, uint32_t group, uint32_t series, uint32_t log)
{
    uint64_t key = (uint64_t)series << 32 | group;

    if (p->last[group] == series)
        return 0;
    p->last[group] = series;
    return u64map_get(&p->met, key) ? 0 : u64map_put(&p->met, key, log);
}

static int look(struct pass *p, struct iterations *out)
{
    int rc = 0;

    for (size_t row = 0; row < p->nspan && !rc; row++) {
        uint32_t g = group_of(p, row), step = p->step[row], track, log;

        if (g == GROUP_NONE || p->dur[row] < 0)
            continue;
        if (step >= p->nstep && p->self)
            out[g].outside_ns = add_ns(out[g].outside_ns, p->self[row]);
        if (step >= p->nstep || p->series[step] == NO_SERIES)
            continue;
        track = p->track && p->track[row] < p->ntrack ? p->track[row] : (uint32_t)p->ntrack;
        log = coverage_log(&p->coverage, track,
                           p->hardware && p->sites[p->site[row]].layer == p->hardware);
        if (!coverage_has(&p->coverage, log, step))
            continue;
        out[g].count++;
        if (p->self)
            out[g].self_ns = add_ns(out[g].self_ns, p->self[row]);
        if (p->wait && p->wait[row] != OPM_NULL_I64)
            out[g].wait_ns = add_ns(out[g].wait_ns, p->wait[row]);
        rc = meet(p, g, p->series[step], log);
    }
    return rc;
}

static int columns_get(struct pass *p)
{
    const void *step = NULL, *dur = NULL, *self = NULL, *wait = NULL, *track = NULL;
    size_t nsite;

    if (store_column(p->st, TABLE_span, span_col_step, &step) < 0 ||
        store_column(p->st, TABLE_span, span_col_dur, &dur) < 0 ||
        store_column(p->st, TABLE_span, span_col_self, &self) < 0 ||
        store_column(p->st, TABLE_span, span_col_track, &track) < 0 ||
        (p->q->wait && store_column(p->st, TABLE_span, span_col_wait, &wait) < 0))
        return OPM_ENOMEM;
    p->step = step;
    p->dur = dur;
    p->self = self;
    p->wait = wait;
    p->track = track;
    p->sites = store_sites(p->st, &nsite);
    p->hardware = strpool_find(store_strings(p->st), "hardware", 8);
    return 0;
}

static void add_up(struct pass *p, struct iterations *out)
{
    const struct coverage *c = &p->coverage;

    for (uint32_t step = 0; step < p->nstep; step++)
        if (p->series[step] != NO_SERIES)
            p->all[p->series[step]]++;
    for (uint32_t log = 0; log < c->nlog; log++)
        for (uint32_t step = 0; step < p->nstep; step++)
            if (p->series[step] != NO_SERIES && coverage_has(c, log, step))
                p->length[log * p->nseries + p->series[step]]++;
    for (size_t series = 0; series < p->nseries; series++) {
        for (uint32_t g = 0; g < p->q->ngroup; g++) {
            const uint64_t *log =
                out[g].count ? u64map_get(&p->met, (uint64_t)series << 32 | g) : NULL;

            if (log) {
                out[g].steps += p->length[*log * p->nseries + series];
                out[g].all_steps += p->all[series];
            }
        }
    }
}

int iterations_count(const struct store *st, const struct iterations_query *q,
                     struct iterations *out)
{
    struct pass p = { .st = st,
                      .q = q,
                      .site = store_span_site(st),
                      .nspan = store_nrow(st, TABLE_span),
                      .ntrack = store_nrow(st, TABLE_track),
                      .nstep = store_nrow(st, TABLE_step) };
    int rc = OPM_ENOMEM;

    for (uint32_t g = 0; g < q->ngroup; g++)
        out[g] = (struct iterations){ 0 };
    if (!p.nstep || !p.nspan || !q->ngroup)
        return 0;
    p.series = mem_alloc(p.nstep * sizeof(*p.series));
    p.last = mem_alloc(q->ngroup * sizeof(*p.last));
    if (!p.series || !p.last || list_series(&p) || columns_get(&p) ||
        coverage_find(&p.coverage, st))
        goto out;
    for (uint32_t g = 0; g < q->ngroup; g++)
        p.last[g] = NO_SERIES;
    p.length = mem_calloc(p.coverage.nlog * p.nseries + 1, sizeof(*p.length));
    p.all = mem_calloc(p.nseries + 1, sizeof(*p.all));
    if (!p.length || !p.all)
        goto out;
    rc = p.step && p.dur ? look(&p, out) : 0;
    if (rc == 0)
        add_up(&p, out);
out:
    mem_free(p.series);
    coverage_release(&p.coverage);
    mem_free(p.length);
    mem_free(p.all);
    mem_free(p.last);
    u64map_release(&p.met);
    return rc;
}
