/* coverage.c -- see coverage.h. */
#include "analyze/coverage.h"

#include "analyze/span_class.h"
#include "base/alloc.h"
#include "base/u64map.h"

#define CUT_BELOW 0.75 /* of the least that a step in between has */
#define BETWEEN_MIN 2

static int logs_list(struct coverage *c, const struct store *st, size_t ntrack)
{
    struct u64map index = { 0 };
    int rc = 0;

    for (size_t i = 0; i < ntrack && rc == 0; i++) {
        struct cell source = store_cell(st, TABLE_track, i, track_col_source);
        struct cell log = store_cell(st, TABLE_track, i, track_col_log);
        uint64_t key = (uint64_t)(source.kind == CELL_I64 ? source.i64 : OPM_NULL_ID) << 32 |
                       (log.kind == CELL_STR ? log.str : 0);
        const uint64_t *at = u64map_get(&index, key);

        c->log_of[i] = at ? (uint32_t)*at : (uint32_t)index.n;
        if (!at)
            rc = u64map_put(&index, key, index.n);
    }
    c->log_of[ntrack] = (uint32_t)index.n; /* of spans without a track */
    c->nlog = 2 * (index.n + 1);
    u64map_release(&index);
    return rc;
}

/* Work by log and step. */
static int count(const struct coverage *c, const struct store *st, uint32_t *n)
{
    str_id hardware = strpool_find(store_strings(st), "hardware", 8);
    size_t nsite, ntrack = store_nrow(st, TABLE_track), nspan = store_nrow(st, TABLE_span);
    const struct site *sites = store_sites(st, &nsite);
    const uint32_t *site = store_span_site(st), *track, *step;
    const void *tracks = NULL, *steps = NULL;
    uint8_t *class = span_classes(st);

    if (!class || store_column(st, TABLE_span, span_col_track, &tracks) < 0 ||
        store_column(st, TABLE_span, span_col_step, &steps) < 0) {
        mem_free(class);
        return OPM_ENOMEM;
    }
    track = tracks;
    step = steps;
    for (size_t i = 0; step && i < nspan; i++) {
        uint32_t t = track && track[i] < ntrack ? track[i] : (uint32_t)ntrack;

        if (step[i] < c->nstep && class[site[i]] != CLASS_NONE)
            n[coverage_log(c, t, hardware && sites[site[i]].layer == hardware) * c->nstep +
              step[i]]++;
    }
    mem_free(class);
    return 0;
}

/* The steps of one model on one thread, as a log has them. */
struct series {
    uint32_t first, last; /* with anything in them */
    uint32_t between;     /* how many, */
    uint32_t least;       /* and the least that one of these has */
};

/* last_n: of what was the last step until now. */
static void series_add(struct series *s, uint32_t step, uint32_t last_n)
{
    if (s->last != s->first) {
        s->least = s->between ? MIN(s->least, last_n) : last_n;
        s->between++;
    }
    s->last = step;
}

static bool is_cut(const struct series *s, uint32_t n)
{
    return s->between >= BETWEEN_MIN && n < CUT_BELOW * s->least;
}

static int decide(struct coverage *c, const struct store *st, const uint32_t *n)
{
    struct series *series = mem_alloc((c->nstep + 1) * sizeof(*series));
    struct u64map index = { 0 };
    int rc = series ? 0 : OPM_ENOMEM;

    for (size_t log = 0; log < c->nlog && rc == 0; log++) {
        const uint32_t *of = n + log * c->nstep;
        bool *recorded = c->recorded + log * c->nstep;

        for (uint32_t i = 0; i < c->nstep && rc == 0; i++) {
            struct cell model = store_cell(st, TABLE_step, i, step_col_model);
            struct cell track = store_cell(st, TABLE_step, i, step_col_track);
            uint64_t key = (uint64_t)(track.kind == CELL_I64 ? track.i64 : OPM_NULL_ID) << 32 |
                           (model.kind == CELL_STR ? model.str : 0);
            const uint64_t *at = u64map_get(&index, key);

            recorded[i] = of[i] > 0;
            if (!of[i])
                continue;
            if (at) {
                series_add(&series[*at], i, of[series[*at].last]);
                continue;
            }
            series[index.n] = (struct series){ .first = i, .last = i };
            rc = u64map_put(&index, key, index.n);
        }
        for (size_t i = 0; i < index.n; i++) {
            recorded[series[i].first] &= !is_cut(&series[i], of[series[i].first]);
            recorded[series[i].last] &= !is_cut(&series[i], of[series[i].last]);
        }
        u64map_release(&index);
    }
    mem_free(series);
    return rc;
}

int coverage_find(struct coverage *c, const struct store *st)
{
    size_t ntrack = store_nrow(st, TABLE_track);
    uint32_t *n = NULL;
    int rc;

    *c = (struct coverage){ .nstep = store_nrow(st, TABLE_step) };
    c->log_of = mem_alloc((ntrack + 1) * sizeof(*c->log_of));
    rc = c->log_of ? logs_list(c, st, ntrack) : OPM_ENOMEM;
    if (rc == 0) {
        c->recorded = mem_calloc(c->nlog * c->nstep + 1, sizeof(*c->recorded));
        n = mem_calloc(c->nlog * c->nstep + 1, sizeof(*n));
        rc = c->recorded && n ? count(c, st, n) : OPM_ENOMEM;
    }
    if (rc == 0)
        rc = decide(c, st, n);
    mem_free(n);
    return rc;
}

void coverage_release(struct coverage *c)
{
    mem_free(c->log_of);
    mem_free(c->recorded);
    *c = (struct coverage){ 0 };
}
