/* device_time.h -- how long the device worked for every execution of an operator.
 *
 * An execution on the host may launch several kernels, which run later; the time of it is the sum
 * of theirs. */
#ifndef ANALYZE_DEVICE_TIME_H
#define ANALYZE_DEVICE_TIME_H

#include "analyze/groups.h"

struct device_time {
    int64_t *value_ns; /* of executions that launched something and are no warm-up, by operator */
    size_t *first;     /* [nop + 1] into value_ns */
    bool *unplaced;    /* [nop]: some of its kernels belong to no execution that was recorded */
};

/* owner: per span, as in attribution.h, for what its site does not give to an operator; or NULL. 0
 * or OPM_ENOMEM; release in any case. */
int device_time_find(struct device_time *d, const struct store *st, const uint32_t *owner);
void device_time_release(struct device_time *d);

#endif
