/* op_figures.h -- figures per operator, shared by op_stats, op_times and type_stats.
 *
 * An operator's spans on hardware say what the device did for it, and so do those of no operator
 * that one of its spans launched (same correlation number); all others say what the host did. In a
 * trace where no operator ran on hardware of its own, where they ran is the device. One execution
 * may launch several kernels (phase kernel, or by correlation): they are no executions. */
#ifndef ANALYZE_OP_FIGURES_H
#define ANALYZE_OP_FIGURES_H

#include "analyze/groups.h"

enum section { SECTION_DEVICE, SECTION_HOST, SECTION_COUNT };

struct op_figures {
    size_t nop;
    struct group_stats *in[SECTION_COUNT]; /* [nop] each, by op.id */
    struct group_stats *op; /* [nop]: executions, on the device if it has any there, else on the
                               host */
    bool kernels;           /* what is in the device's section are kernels, not executions */
    int64_t *reshape_ns;    /* [nop], OPM_NULL_I64 if there was no reshape */
    int64_t self_ns;        /* of op[]: an operator inside another once */
};

/* Spans of an operator whose phase is forward or none; quantiles as asked. 0 or OPM_ENOMEM; release
 * in any case. */
int op_figures_compute(struct op_figures *s, const struct store *st, const double *q, size_t nq,
                       bool wait);
void op_figures_release(struct op_figures *s);

#endif
