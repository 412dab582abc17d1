/* op_figures.h -- figures per operator, shared by op_stats, op_times and type_stats.
 *
 * An operator's spans on hardware say what the device did for it, and so does what else
 * attribution.h gives to it; all others say what the host did. In a trace where no operator ran on
 * hardware of its own, where they ran is the device. One execution may launch several kernels
 * (phase kernel, or by correlation): they are no executions. */
#ifndef ANALYZE_OP_FIGURES_H
#define ANALYZE_OP_FIGURES_H

#include "analyze/attribution.h"
#include "analyze/groups.h"
#include "analyze/iterations.h"
#include "analyze/redispatch.h"

enum section { SECTION_DEVICE, SECTION_HOST, SECTION_COUNT };

struct op_figures {
    size_t nop;
    size_t nowner;       /* whose work is no operator's */
    struct owner *owner; /* [nowner] */
    /* [nop + nowner] each, by op.id, then by owner, who has nothing on the host */
    struct group_stats *in[SECTION_COUNT];
    struct iterations *iterations[SECTION_COUNT];
    struct group_stats *op; /* [nop]: executions, on the device if it did anything there, else on
                               the host */
    struct iterations *op_iterations; /* [nop]: of those */
    bool kernels;        /* what is in the device's section are kernels, not executions */
    int64_t *reshape_ns; /* [nop], OPM_NULL_I64 if there was no reshape */
    double
        whole_ns; /* self time of op[] without interruptions, as if every step had been recorded */
};

/* For whom every span counts: those of the device's section first, nsection to each of the two,
 * operators by op.id, then owners. */
struct op_groups {
    size_t nop, nsection;
    uint32_t *site; /* group of every site, or GROUP_NONE */
    struct attribution whose;
    struct redispatch passed;
    bool kernels; /* operators launch kernels, and these are what the device's section counts */
};

int op_groups_find(struct op_groups *g, const struct store *st); /* 0 or OPM_ENOMEM; release */
void op_groups_release(struct op_groups *g);

/* Do times of op[] say how long an operator worked? Where operators launch kernels, the time on the
 * host of one that launches none says nothing: others inside it do, or it is no work. */
bool op_figures_timed(const struct op_figures *s, size_t op);
/* Self time in which an operator did its counted work, without interruptions. Where operators
 * launch kernels that is the time of these, and 0 for one that launched none: others inside it did,
 * or it was no work. */
int64_t op_figures_work_ns(const struct op_figures *s, size_t op);

/* Spans of an operator whose phase is forward or none; quantiles as asked. 0 or OPM_ENOMEM; release
 * in any case. */
int op_figures_compute(struct op_figures *s, const struct store *st, const double *q, size_t nq,
                       bool wait);
void op_figures_release(struct op_figures *s);

#endif
