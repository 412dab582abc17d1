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

/* All tracks of kind queue, in their order. One that was made anew, such as in every epoch, is the
 * same queue: the one that had its name, ends and capacity until then. Free *out with mem_free(). 0
 * or OPM_ENOMEM. */
int queues_collect(const struct store *st, struct queue **out, size_t *n);

/* of_track[i]: row of the queue that track i is, plus 1; 0: it is none. Has an entry per track;
 * free with mem_free(). 0 or OPM_ENOMEM. */
int queues_of_tracks(const struct store *st, struct queue **out, size_t *n, uint32_t **of_track);

#endif
