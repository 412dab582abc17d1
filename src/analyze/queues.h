/* queues.h -- the queues of a trace and how full they were; queue_stats and pipeline_op share it.
 */
#ifndef ANALYZE_QUEUES_H
#define ANALYZE_QUEUES_H

#include "store/store.h"

struct queue {
    uint32_t track;
    str_id name, producer, consumer;
    int64_t
        rank; /* OPM_NULL_I64: none. Stages of different ranks have nothing to do with each other */
    int64_t workers, capacity; /* OPM_NULL_I64: not known */
    int64_t samples, empty, full;
    double empty_share, full_share, mean_size, max_size, usage; /* NAN: not known */
};

/* All tracks of kind queue, in their order. Free *out with mem_free(). 0 or OPM_ENOMEM. */
int queues_collect(const struct store *st, struct queue **out, size_t *n);

#endif
