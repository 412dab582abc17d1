/* counters.h -- samples at a level of detail: what a chart of so many pixels can show.
 *
 * Samples of one track are found without looking at those of others. Used by one thread at a time,
 * while the store lives. */
#ifndef STORE_COUNTERS_H
#define STORE_COUNTERS_H

#include "store/store.h"

struct counters;

struct counter_point {
    int64_t ts_ns;
    double value;
};

int counters_new(const struct store *st, struct counters **out); /* 0 or OPM_ENOMEM */
void counters_free(struct counters *c);                          /* NULL is fine */

/* The points of [from, to), by time: of every pixel_ns the first, the lowest, the highest and the
 * last sample; before them the last sample at or before from. *out belongs to the caller
 * (mem_free). OPM_ELIMIT if there are more than max. */
int counters_query(const struct counters *c, uint32_t track, int64_t from_ns, int64_t to_ns,
                   int64_t pixel_ns, size_t max, struct counter_point **out, size_t *n);

#endif
