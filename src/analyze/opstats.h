/* opstats.h -- figures per operator, shared by op_stats and type_stats. */
#ifndef ANALYZE_OPSTATS_H
#define ANALYZE_OPSTATS_H

#include "analyze/groups.h"

struct opstats {
    size_t nop;
    struct group_stats *op; /* [nop], by op.id */
    int64_t *reshape_ns;    /* [nop], OPM_NULL_I64 if there was no reshape */
    int64_t self_ns;        /* of all operators: their time, an operator inside another once */
};

/* Spans of an operator whose phase is forward or none; quantiles as asked. 0 or OPM_ENOMEM; release
 * in any case. */
int opstats_compute(struct opstats *s, const struct store *st, const double *q, size_t nq);
void opstats_release(struct opstats *s);

#endif
