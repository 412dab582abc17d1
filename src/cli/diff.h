/* diff.h -- two profiles side by side: latencies, and operators aligned by name and type.
 *
 * What is compared of an operator is its own time in one iteration (a measured step; the whole
 * trace where it has no steps), so that two runs of different lengths compare. A trace without
 * operators is compared by the names of its spans instead. */
#ifndef CLI_DIFF_H
#define CLI_DIFF_H

#include "base/arena.h"
#include "cli/cli.h"

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

/* Read what both traces have. `d` starts as {0}; diff_release() it in any case. An exit code, after
 * a message if it is a failure. by_type: one row per operator type. */
int diff_read(struct diff *d, opm_trace *const trace[DIFF_SIDES], bool by_type);
void diff_release(struct diff *d);

/* B - A beyond what the spread of both explains (about 99 % of the time); false if the spread is
 * not known and both have it. */
bool diff_certain(const struct diff_row *r);
/* (B - A) / A; NAN without A. */
double diff_share(double a, double b);

/* One --fail-if: METRIC>LIMIT. Metrics: latency (the median), those of DIFF_METRICS, operators (all
 * of them together), op (any that changed beyond its spread), op:NAME, type:NAME. */
struct diff_check {
    const char *text; /* as given */
    char metric[128];
    double limit; /* a share, or ns */
    bool share;
    /* What was found by diff_check_run(): */
    bool failed;
    const char *what; /* the operator or model that decided, or NULL */
    double a_ns, b_ns;
};

/* CLI_OK or the exit code after a message. */
int diff_check_parse(struct cli *cli, const char *text, struct diff_check *out);
/* CLI_OK, also if the check fails; CLI_FAILURE after a message if the traces cannot tell.
 * types: rows by type, for metric type:NAME. */
int diff_check_run(struct diff_check *c, const struct diff *ops, const struct diff *types);

#endif
