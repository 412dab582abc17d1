/* run_report.h -- what `opmeter run` says about a run: on the terminal and in the result folder. */
#ifndef CLI_RUN_REPORT_H
#define CLI_RUN_REPORT_H

#include "base/arena.h"
#include "cli/cli.h"
#include "run/run.h"

/* An operator, as the trace has it. NAN: not known. */
struct report_op {
    const char *name, *type, *post_op, *device, *nodes;
    const char *in, *weight, *out; /* shapes, joined with ';' */
    int64_t count;
    int64_t flops, bytes; /* -1: not known */
    double total_ns;      /* of all executions */
    double self_ns;       /* the same without operators inside, such as those of an If's branch */
    int64_t interrupted;  /* executions that were, as in op_stats ... */
    double beyond_ns;     /* ... and what of self_ns that is */
    double iteration_ns;  /* own time in one iteration without that, all executions together */
    double mean_ns, median_ns, min_ns, max_ns, p90_ns, p99_ns;
    double share;
    double gflops, gbytes; /* per second */
    double of_peak;        /* share of what the machine could do with it under its roof */
    const char *roof;      /* what limits it; NULL: not known */
    double zero_ratio;
};

struct report {
    struct cli *cli;
    const struct run_result *res; /* one for each instance */
    int n;
    struct run_latency bare, metered; /* over all instances */
    double cost_ns, cost_error_ns;    /* see run_result */
    double per_second_bare, per_second_metered;
    struct peak peak;
    struct report_op *op; /* the longest first */
    size_t nop, op_cap;
    double steps, step_ns, op_ns, op_count; /* iterations measured, and what they add up to */
    double explained; /* share of the metered latency that operators account for */
    double spans_per_iteration;
    double span_cost_ns; /* as the recorder measured it itself; NAN: not known */
    const char *bias;    /* what the engine says about its times; NULL: nothing */
    int64_t lost_runs;   /* that the engine did not report */
    struct arena arena;
};

/* Add what the trace of an instance says; cli, res, n and peak are set already. An exit code. */
int report_add(struct report *r, opm_trace *t);
/* After the last one. Operators of the same name and type in several instances are one by now. */
void report_finish(struct report *r);
/* For people. dir: where the files are, NULL: nowhere. */
int report_print(struct report *r, int top, const char *dir);
int report_print_json(struct report *r);
int report_print_csv(struct report *r);
/* operators.csv, summary.json and summary.md. */
int report_write_files(struct report *r, const char *dir);
void report_release(struct report *r);

/* Parts that the terminal and the files share. Tables are NULL without memory. */
struct textable *report_latency_table(const struct report *r);
struct textable *report_ops_table(const struct report *r, size_t top);
struct textable *report_full_table(const struct report *r); /* every figure, in plain units */
void report_title(const struct report *r, struct buf *b);
void report_throughput(const struct report *r, struct buf *b);
void report_receipt(struct report *r, struct buf *out); /* indented lines */

/* run_generated.c: the same of a run that generated. */
void report_generated_title(const struct report *r, struct buf *b);
void report_generated_rates(const struct report *r, struct buf *b);
void report_generated_cache(const struct report *r, struct buf *b);
struct textable *report_generated_table(const struct report *r);

/* Whether the files that environment variables ask for may be written; see cli_may_write(). */
int run_env_may_write(bool force);
/* Those files, of the n instances whose results these are. */
int run_env_write(struct cli *cli, const struct run_result *res, int n);

#endif
