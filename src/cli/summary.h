/* summary.h -- the parts of `opmeter summary`: one page about a trace, and the reports of Furiosa's
 * profiler in their own layout. */
#ifndef CLI_SUMMARY_H
#define CLI_SUMMARY_H

#include "cli/cli.h"

struct summary {
    struct cli *cli;
    opm_trace *t;
    bool inferences, executions, streams, operators, external, histogram;
    bool furiosa; /* in the layout of its profiler */
    const char *method;
    int64_t limit; /* rows of the long reports; 0: all */
};

/* A long report. */
struct summary_report {
    const char *title, *sql;
    const char *shown; /* to people, where that differs; else NULL */
    const char *empty;
};

struct summary_series {
    char *scope, *name;
    int64_t count;
    double v[10]; /* min, max, mean, median, p90, p95, p97, p99, p99.9, stdev */
};
enum summary_value { V_MIN, V_MAX, V_MEAN, V_MEDIAN, V_P90, V_P95, V_P97, V_P99, V_P999, V_STDEV };

struct all_series {
    struct summary_series *s;
    size_t n, cap;
};

/* "Inference", "Step" for training, "Region" or "Execution". */
const char *summary_word(struct summary *s, const struct summary_series *x);
/* A line for each of n series: count, extremes, mean, percentiles. */
int summary_put_table(struct summary *s, const struct summary_series *x, size_t n,
                      const char *heading);
/* How the durations of a series are distributed. */
int summary_put_histogram(struct summary *s, const struct summary_series *x);
void summary_say_warmup(struct summary *s);
/* Where the time of the devices went, and how much of it is operators'. */
int summary_reconcile(struct summary *s);

/* CLI_OK or the exit code after a message. */
int summary_print_page(struct summary *s, const struct all_series *all);
int summary_print_furiosa(struct summary *s, const struct all_series *all);
int summary_print_furiosa_report(struct summary *s, const struct summary_report *rep);

#endif
