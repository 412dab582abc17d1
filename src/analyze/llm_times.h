/* llm_times.h -- which iteration of a language model every work of a device was launched in; where
 * no device was recorded, in which one every operator ran. */
#ifndef ANALYZE_LLM_TIMES_H
#define ANALYZE_LLM_TIMES_H

#include "store/store.h"

struct llm_times {
    uint32_t *of; /* per span: iteration.id of what a device ran, else OPM_NULL_ID. NULL: the trace
                     has no iterations, or nothing that a device ran */
    int64_t *own_ns; /* per span: of an operator, without those inside it. NULL: devices count */
    size_t nspan;
    int64_t *device_ns; /* per iteration, */
    int64_t *kernels;   /* likewise */
    size_t niteration;
};

/* An iteration has what threads of its process launched while it lasted. 0 or OPM_ENOMEM; release.
 */
int llm_times_find(struct llm_times *t, const struct store *st);
void llm_times_release(struct llm_times *t);

#endif
