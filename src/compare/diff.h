/* diff.h -- two profiles side by side: latencies, and operators aligned (compare/align.h).
 *
 * What is compared of an operator is its own time in one iteration (a measured step; the whole
 * trace where it has no steps), so that two runs of different lengths compare. A trace without
 * operators is compared by the names of its spans instead. Of several runs at once in a trace (run
 * --instances), an operator's time is the mean of theirs. */
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

/* Whether the tail of the steps' durations moved, p99, by the durations themselves. */
struct diff_tail {
    int64_t n[DIFF_SIDES]; /* steps of the model that both have; 0: there is no such */
    double ns[DIFF_SIDES];
    bool enough;  /* there are so many that it can be told */
    bool certain; /* it moved by more than chance explains */
};

struct diff_row {
    const char *name; /* NULL: it has none; of several operators see struct align_group */
    const char *type; /* NULL: not known; where they differ, that of the longest */
    bool there[DIFF_SIDES];
    size_t ops[DIFF_SIDES];          /* operators that it stands for */
    const char *op_name[DIFF_SIDES]; /* NULL: it has none, or there are several */
    double ns[DIFF_SIDES];           /* in one iteration; 0 where it is not there */
    double variance[DIFF_SIDES];     /* of that mean; NAN: not known */
    bool certain; /* more than what iterations differ by; see compare/discovery.h */
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
    double alone_ns[DIFF_SIDES];    /* of those that have no counterpart */
    struct diff_tail tail;
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
/* Of the tail: "slower", "faster", "~" or "cannot tell". */
const char *diff_tail_state(const struct diff_tail *t);

#endif
