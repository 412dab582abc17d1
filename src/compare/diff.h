/* diff.h -- two profiles side by side: latencies, and operators aligned by name and type.
 *
 * What is compared of an operator is its own time in one iteration (a measured step; the whole
 * trace where it has no steps), so that two runs of different lengths compare. A trace without
 * operators is compared by the names of its spans instead. */
#ifndef COMPARE_DIFF_H
#define COMPARE_DIFF_H

#include "base/arena.h"
#include <opmeter/opmeter_trace.h>

enum diff_side { DIFF_A, DIFF_B, DIFF_SIDES };

/* The latency of a model or of a labelled region; see table latency. */
#define DIFF_METRICS(X) X(median) X(mean) X(min) X(p90) X(p95) X(p99) X(p999) X(max)
enum diff_metric {
#define X(name) DIFF_##name,
    DIFF_METRICS(X)
#undef X
        DIFF_NMETRICS
};
extern const char *const diff_metric_names[]; /* ends with NULL */

struct diff_latency {
    const char *scope; /* step or record */
    const char *name[DIFF_SIDES];
    bool there[DIFF_SIDES];
    int64_t count[DIFF_SIDES];
    double stdev_ns[DIFF_SIDES]; /* NAN: unknown */
    double ns[DIFF_NMETRICS][DIFF_SIDES];
};

struct diff_row {
    const char *name; /* NULL: it has none */
    const char *type; /* NULL: not known; of A where the two differ */
    bool there[DIFF_SIDES];
    double ns[DIFF_SIDES];       /* in one iteration; 0 where it is not there */
    double variance[DIFF_SIDES]; /* of that mean; NAN: not known */
    bool certain;                /* more than what iterations differ by; see compare/discovery.h */
};

struct diff {
    struct arena text;
    struct diff_latency *latency;
    size_t nlatency, latency_cap;
    struct diff_row *row; /* the largest change first */
    size_t n, cap;
    bool spans;                     /* rows are names of spans, not operators */
    int64_t iterations[DIFF_SIDES]; /* 0: no steps */
    double total_ns[DIFF_SIDES];    /* of all rows */
};

/* Read what both traces have, each from one thread at a time. `d` starts as {0}; diff_release() it
 * in any case. 0 or a negative code. by_type: one row per operator type. */
int diff_read(struct diff *d, opm_trace *const trace[DIFF_SIDES], bool by_type, opm_error *err);
void diff_release(struct diff *d);

/* All rows together, named "all". */
struct diff_row diff_total(const struct diff *d);
/* The verdict: "slower", "faster", "~" (not certain), "only A" or "only B". */
const char *diff_state(const struct diff_row *r);
/* (B - A) / A; NAN without A. */
double diff_share(double a, double b);

#endif
