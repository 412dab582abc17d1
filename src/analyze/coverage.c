/* coverage.c -- see coverage.h. */
#include "analyze/coverage.h"

#include "analyze/groups.h"
#include "analyze/parallel.h"
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
        struct cell clock = store_cell(st, TABLE_track, i, track_col_clock);
        uint64_t key = (uint64_t)cell_i64_or(source, OPM_NULL_ID) << 32 | cell_text_id(log);
        const uint64_t *at = u64map_get(&index, key);
        struct coverage_log *of;

        c->log_of[i] = at ? (uint32_t)*at : (uint32_t)index.n;
        of = &c->log[2 * c->log_of[i]];
        of[0].source = of[1].source = cell_i64_or(source, OPM_NULL_I64);
        of[0].apart |= log.kind == CELL_STR || clock.kind == CELL_STR;
        of[1].apart = of[0].apart;
        if (!at)
            rc = u64map_put(&index, key, index.n);
    }
    c->log_of[ntrack] = (uint32_t)index.n; /* of spans without a track */
    c->nlog = 2 * (index.n + 1);
    u64map_release(&index);
    return rc;
}

static struct coverage_step step_of(const struct coverage *c, const struct store *st, size_t step)
{
    int64_t track = store_i64_or(st, TABLE_step, step, step_col_track, OPM_NULL_I64);
    int64_t dur = store_i64_or(st, TABLE_step, step, step_col_dur, -1);
    struct coverage_step s = { .log = OPM_NULL_ID };

    s.from_ns = store_i64_or(st, TABLE_step, step, step_col_ts, 0);
    s.to_ns = add_ns(s.from_ns, dur);
    if (track != OPM_NULL_I64 && dur >= 0 && !c->log[2 * c->log_of[track]].apart)
        s.log = 2 * c->log_of[track];
    return s;
}

static int series_list(struct coverage *c, const struct store *st)
{
    struct u64map index = { 0 };
    int rc = 0;

    for (size_t i = 0; i < c->nstep && rc == 0; i++) {
        struct cell model = store_cell(st, TABLE_step, i, step_col_model);
        struct cell track = store_cell(st, TABLE_step, i, step_col_track);
        uint64_t key = (uint64_t)cell_i64_or(track, OPM_NULL_ID) << 32 | cell_text_id(model);
        const uint64_t *at = u64map_get(&index, key);
        uint32_t series = at ? (uint32_t)*at : (uint32_t)index.n;

        if (!at)
            rc = u64map_put(&index, key, series);
        c->series[i] = series;
        c->nth[i] = c->length[series]++;
        c->step[i] = step_of(c, st, i);
    }
    c->nseries = index.n;
    u64map_release(&index);
    return rc;
}

/* From when to when a log has work. */
struct time {
    int64_t first_ns, end_ns;
};

/* Spans of work, by log, series and step of it, as one thread met them in its part of the rows. */
struct tally {
    uint32_t **n; /* as coverage.recorded */
    struct time *of;
    bool failed;
};

struct pass {
    const struct coverage *c;
    const struct site *sites;
    str_id hardware;
    const uint8_t *class;
    const uint32_t *site, *step;
    struct span_tracks track;
    const int64_t *ts, *dur;
    size_t nspan;
    int width;
    struct tally tally[PARALLEL_MAX];
};

static void count_slice(void *user, int thread)
{
    struct pass *p = user;
    struct tally *t = &p->tally[thread];
    size_t row = parallel_slice(p->nspan, p->width, thread);
    size_t end = parallel_slice(p->nspan, p->width, thread + 1);

    for (; row < end && !t->failed; row++) {
        uint32_t step = p->step[row], series, log;
        struct time *of;
        uint32_t **n;

        if (p->class[p->site[row]] == CLASS_NONE)
            continue;
        log = coverage_log(p->c, span_tracks_get(&p->track, row),
                           p->hardware && p->sites[p->site[row]].layer == p->hardware);
        of = &t->of[log];
        of->first_ns = MIN(of->first_ns, p->ts[row]);
        of->end_ns = MAX(of->end_ns, add_ns(p->ts[row], MAX(p->dur[row], (int64_t)0)));
        if (step >= p->c->nstep)
            continue;
        series = p->c->series[step];
        n = &t->n[log * p->c->nseries + series];
        if (!*n)
            *n = mem_calloc(p->c->length[series], sizeof(**n));
        if (*n)
            (*n)[p->c->nth[step]]++;
        else
            t->failed = true;
    }
}

/* What the others met joins the first thread's. */
static void merge(struct pass *p, struct coverage *c, size_t npair)
{
    for (int i = 0; i < p->width; i++) {
        for (size_t k = 0; k < c->nlog; k++) {
            c->log[k].first_ns = MIN(c->log[k].first_ns, p->tally[i].of[k].first_ns);
            c->log[k].end_ns = MAX(c->log[k].end_ns, p->tally[i].of[k].end_ns);
        }
    }
    for (int i = 1; i < p->width; i++) {
        for (size_t k = 0; k < npair; k++) {
            uint32_t **to = &p->tally[0].n[k], *from = p->tally[i].n[k];

            if (from && !*to) {
                *to = from;
                p->tally[i].n[k] = NULL;
            }
            for (uint32_t s = 0; from && *to != from && s < p->c->length[k % p->c->nseries]; s++)
                (*to)[s] += from[s];
        }
    }
}

/* A log's part of a series. */
static bool *decide(const uint32_t *n, uint32_t length, bool apart)
{
    bool *recorded = mem_alloc(length * sizeof(*recorded));
    uint32_t first = length, last = 0, between = 0, least = UINT32_MAX;

    if (!recorded)
        return NULL;
    for (uint32_t i = 0; i < length; i++) {
        recorded[i] = n[i] > 0;
        if (!n[i])
            continue;
        first = MIN(first, i);
        last = i;
    }
    for (uint32_t i = first + 1; i < last; i++) {
        between += recorded[i];
        least = recorded[i] ? MIN(least, n[i]) : least;
    }
    if (apart && between >= BETWEEN_MIN) {
        recorded[first] = n[first] >= CUT_BELOW * least;
        recorded[last] = n[last] >= CUT_BELOW * least;
    }
    return recorded;
}

/* Steps without work, of logs that have work in others of the series. */
static void add_idle(struct coverage *c)
{
    for (uint32_t step = 0; step < c->nstep; step++) {
        for (uint32_t i = 0; i < 2 && c->step[step].log != OPM_NULL_ID; i++) {
            uint32_t log = c->step[step].log + i;
            bool *of = c->recorded[log * c->nseries + c->series[step]];

            if (of)
                of[c->nth[step]] |= coverage_was_on(c, log, step);
        }
    }
}

static int count(struct coverage *c, const struct store *st)
{
    const void *steps = NULL, *ts = NULL, *dur = NULL;
    size_t nsite, npair = c->nlog * c->nseries;
    struct pass p = { .c = c,
                      .sites = store_sites(st, &nsite),
                      .hardware = strpool_find(store_strings(st), "hardware", 8),
                      .site = store_span_site(st),
                      .track = store_span_tracks(st) };
    uint8_t *class = span_classes(st);
    int rc = OPM_ENOMEM;

    if (!class || store_column(st, TABLE_span, span_col_step, &steps) < 0 ||
        store_column(st, TABLE_span, span_col_ts, &ts) < 0 ||
        store_column(st, TABLE_span, span_col_dur, &dur) < 0)
        goto out;
    p.class = class;
    p.step = steps;
    p.ts = ts;
    p.dur = dur;
    p.nspan = steps && ts && dur ? store_nrow(st, TABLE_span) : 0;
    /* Where logs and series are many and spans few, a tally for each thread costs more than it
     * saves. */
    p.width = npair > p.nspan / 16 ? 1 : parallel_width(p.nspan);
    rc = 0;
    for (int i = 0; i < p.width; i++) {
        p.tally[i].n = mem_calloc(npair + 1, sizeof(*p.tally[i].n));
        p.tally[i].of = mem_alloc((c->nlog + 1) * sizeof(*p.tally[i].of));
        if (!p.tally[i].n || !p.tally[i].of)
            rc = OPM_ENOMEM;
        for (size_t k = 0; k < c->nlog && rc == 0; k++)
            p.tally[i].of[k] = (struct time){ INT64_MAX, INT64_MIN };
    }
    if (rc)
        goto out;
    parallel_run(p.width, count_slice, &p);
    for (int i = 0; i < p.width; i++)
        rc = p.tally[i].failed ? OPM_ENOMEM : rc;
    if (rc)
        goto out;
    merge(&p, c, npair);
    for (size_t k = 0; k < npair && rc == 0; k++) {
        if (!p.tally[0].n[k])
            continue;
        c->recorded[k] =
            decide(p.tally[0].n[k], c->length[k % c->nseries], c->log[k / c->nseries].apart);
        rc = c->recorded[k] ? 0 : OPM_ENOMEM;
    }
    if (rc == 0)
        add_idle(c);
out:
    for (int i = 0; i < p.width; i++) {
        for (size_t k = 0; p.tally[i].n && k < npair; k++)
            mem_free(p.tally[i].n[k]);
        mem_free(p.tally[i].n);
        mem_free(p.tally[i].of);
    }
    mem_free(class);
    return rc;
}

int coverage_find(struct coverage *c, const struct store *st)
{
    size_t ntrack = store_nrow(st, TABLE_track), nstep = store_nrow(st, TABLE_step);

    *c = (struct coverage){ .nstep = nstep };
    c->log_of = mem_alloc((ntrack + 1) * sizeof(*c->log_of));
    c->log = mem_alloc(2 * (ntrack + 1) * sizeof(*c->log));
    c->step = mem_alloc((nstep + 1) * sizeof(*c->step));
    c->series = mem_alloc((nstep + 1) * sizeof(*c->series));
    c->nth = mem_alloc((nstep + 1) * sizeof(*c->nth));
    c->length = mem_calloc(nstep + 1, sizeof(*c->length));
    if (!c->log_of || !c->log || !c->step || !c->series || !c->nth || !c->length)
        return OPM_ENOMEM;
    for (size_t i = 0; i < 2 * (ntrack + 1); i++)
        c->log[i] = (struct coverage_log){ OPM_NULL_I64, INT64_MAX, INT64_MIN, false };
    if (logs_list(c, st, ntrack) || series_list(c, st))
        return OPM_ENOMEM;
    c->recorded = mem_calloc(c->nlog * c->nseries + 1, sizeof(*c->recorded));
    return c->recorded ? count(c, st) : OPM_ENOMEM;
}

void coverage_release(struct coverage *c)
{
    for (size_t k = 0; c->recorded && k < c->nlog * c->nseries; k++)
        mem_free(c->recorded[k]);
    mem_free(c->recorded);
    mem_free(c->log_of);
    mem_free(c->log);
    mem_free(c->step);
    mem_free(c->series);
    mem_free(c->nth);
    mem_free(c->length);
    *c = (struct coverage){ 0 };
}
