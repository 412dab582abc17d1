/* diff_check.h -- what a comparison must not exceed: the conditions of opmeter diff --fail-if. */
#ifndef CLI_DIFF_CHECK_H
#define CLI_DIFF_CHECK_H

#include "cli/cli.h"
#include "compare/diff.h"

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
