/* whatif.h -- what `opmeter whatif` was asked, the SQL that answers it, and what it prints.
 *
 * The figures are those of the analyses whatif and sparse_ratio; the options only change which
 * ratio an operator's time is divided by, in one SQL statement. */
#ifndef CLI_WHATIF_H
#define CLI_WHATIF_H

#include "base/ratios.h"
#include "cli/cli.h"

/* A value for one weight shape or operator type. */
struct whatif_rule {
    char name[128];
    double value;
};

struct whatif_rules {
    struct whatif_rule *item;
    size_t n, cap;
};

struct whatif {
    struct cli *cli;
    bool sparse; /* project sparse weights, not speed-ups alone */
    double sparsity;
    bool sparsity_asked; /* else the source's aims count */
    const struct ratio_pattern *pattern;
    struct whatif_rules aims;     /* by weight shape: share of zeros */
    struct whatif_rules ratios;   /* by weight shape */
    struct whatif_rules speedups; /* by operator type */
};

bool whatif_add_rule(struct whatif_rules *to,
                     const struct whatif_rule *rule); /* false: no memory */
void whatif_release(struct whatif *w);

/* Measure the ratios that the trace's weights need and keep them in the cache; an exit code. To be
 * called before t is asked for sparse_ratio, which reads the cache once. */
int whatif_measure(struct whatif *w, opm_trace *t, int threads, bool again);
/* Whether the shapes and types that rules name are in the trace; an exit code. After measuring. */
int whatif_check(const struct whatif *w, opm_trace *t);
/* Print the projection, with the `top` operators that gain most. */
int whatif_print(struct whatif *w, opm_trace *t, size_t top);

#endif
