/* recording.h -- what one process took, as its trace has it. */
#ifndef COMPARE_RECORDING_H
#define COMPARE_RECORDING_H

#include "compare/trials.h"
#include <opmeter/opmeter_trace.h>

/* What its latency is: iterations without recording, if it has such, since what measuring costs
 * differs from engine to engine; else steps; else the time of the whole program. */
enum recording_basis {
    RECORDING_UNKNOWN,
    RECORDING_BARE,
    RECORDING_STEPS,
    RECORDING_WHOLE,
};
extern const char *const recording_basis_names[];

/* Runs at once in one trace, such as those of `run --instances`. */
int recording_instances(opm_trace *trace, int64_t *out, opm_error *err);

/* SQL of an inner query `of_source` that says which source an operator is of, for traces of
 * several; and of what an operator computes, in words, of a row `o` of table op. */
extern const char recording_sources_sql[];
#define RECORDING_WORK_SQL                                                       \
    "iif(o.flops IS NULL AND o.weight_shape IS NULL, '', coalesce(o.flops, '') " \
    "|| ' ' || coalesce(o.bytes, '') || ' ' || coalesce(o.weight_shape, ''))"

/* The process of a trace: *out starts as {0} and is the caller's in any case. Its operators get
 * numbers of t. *basis RECORDING_UNKNOWN: the first that it has; else that one, and *out has no
 * iterations if it has none. 0 or a negative code. */
int recording_read(struct trials *t, opm_trace *trace, struct trial *out,
                   enum recording_basis *basis, opm_error *err);

#endif
