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
    int64_t min_ns;
    int64_t max_ns;
    double mean_ns;
    double stdev_ns; /* sample standard deviation; NaN below two */
    double q[QUANTILE_MAX];
};

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
