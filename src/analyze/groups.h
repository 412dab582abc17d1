/* groups.h -- durations of spans, summed up by a group that their site decides.
 *
 * The one pass over all spans that operator and span statistics share. */
#ifndef ANALYZE_GROUPS_H
#define ANALYZE_GROUPS_H

#include "base/quantile.h"
#include "store/store.h"

#define GROUP_NONE UINT32_MAX

/* What to count. group[] has one entry per site: a group below ngroup, or GROUP_NONE to skip. */
struct groups_query {
    const uint32_t *group;
    const uint32_t *row_group; /* per span, for those whose site has none; or NULL */
    const uint32_t *passed_on; /* per span, as in redispatch.h; or NULL: their self time counts with
                                  the span that executes their call, and nothing else of them */
    uint32_t ngroup;
    bool skip_warmup; /* leave out spans of warm-up steps and records, but count them */
    bool wait;        /* sum up how long they waited, too */
    const double *q;  /* rising quantiles */
    size_t nq;
};

/* With count 0 only warmup_count and open_count have meaning. */
struct group_stats {
    int64_t count; /* spans that ended and are not warm-up: all other figures are about these */
    int64_t warmup_count;
    int64_t open_count; /* spans that never ended */
    int64_t total_ns;   /* sums stop at INT64_MAX instead of overflowing */
    int64_t self_ns;
    int64_t wait_ns;    /* of those whose wait is known ... */
    int64_t wait_count; /* ... and how many they are; 0 unless asked for */
    int64_t max_self_ns;
    int64_t interrupted;    /* executions that were, as interrupted.h finds them; else 0 ... */
    int64_t interrupted_ns; /* ... and how much of self_ns that is */
    int64_t min_ns;
    int64_t max_ns;
    double mean_ns;
    double stdev_ns; /* sample standard deviation; NaN below two */
    double q[QUANTILE_MAX];
};

/* Self time as it is when nothing interrupts: what operators are ranked by. */
static inline int64_t group_typical_ns(const struct group_stats *s)
{
    return s->self_ns - s->interrupted_ns;
}

/* The columns that say which spans count, and in which group. */
struct group_rows {
    const struct groups_query *query;
    size_t nrow;
    const uint32_t *site;
    const int64_t *dur;
    const int64_t *self;    /* or NULL */
    const int64_t *wait;    /* or NULL */
    const uint32_t *step;   /* NULL unless a step is warm-up */
    const uint32_t *record; /* NULL unless a record is warm-up */
    const int64_t *step_warmup;
    const int64_t *record_warmup;
};

int group_rows_open(struct group_rows *r, const struct store *st, const struct groups_query *query);

static inline bool group_rows_warmup(const struct group_rows *r, size_t row)
{
    if (r->step && r->step[row] != OPM_NULL_ID && r->step_warmup[r->step[row]] == 1)
        return true;
    return r->record && r->record[row] != OPM_NULL_ID && r->record_warmup[r->record[row]] == 1;
}

/* Whether it counts or not. */
static inline uint32_t group_rows_of(const struct group_rows *r, size_t row)
{
    uint32_t g = r->query->group[r->site[row]];

    return g == GROUP_NONE && r->query->row_group ? r->query->row_group[row] : g;
}

static inline bool group_rows_passed_on(const struct group_rows *r, size_t row)
{
    return r->query->passed_on && r->query->passed_on[row] != OPM_NULL_ID;
}

/* The group that it counts in, or GROUP_NONE. */
static inline uint32_t group_rows_counted(const struct group_rows *r, size_t row)
{
    uint32_t g = group_rows_of(r, row);

    if (g == GROUP_NONE || r->dur[row] < 0 || group_rows_passed_on(r, row) ||
        group_rows_warmup(r, row))
        return GROUP_NONE;
    return g;
}

/* Figures of values[0..n); the order of values is lost. */
void group_stats_of(struct group_stats *s, int64_t *values, size_t n, const double *q, size_t nq);

/* out has ngroup entries. 0 or OPM_ENOMEM. */
int groups_compute(const struct store *st, const struct groups_query *query,
                   struct group_stats *out);

/* a + b, INT64_MAX where that would overflow; for sums of times. */
static inline int64_t add_ns(int64_t a, int64_t b)
{
    int64_t sum;

    return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

#endif
