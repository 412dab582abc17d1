/* busy.h -- what device and host were doing, every nanosecond of every step.
 *
 * Each instant falls into one bucket: the first in the order below that applies. Where the trace
 * has no hardware spans the operators on the host are the computation, but for what telling of them
 * cost (measuring.h). */
#ifndef ANALYZE_BUSY_H
#define ANALYZE_BUSY_H

#include "analyze/window.h"

#define BUSY_BUCKETS(X)                                                                         \
    X(overlap, "the device computes and communicates at once")                                  \
    X(compute, "the device computes; without a device: operators run")                          \
    X(communication, "the device communicates and computes nothing meanwhile")                  \
    X(copy, "the device only copies or clears memory")                                          \
    X(data, "the device is idle while the host waits for input data")                           \
    X(measuring, "the device is idle while whoever records is at work")                         \
    X(runtime, "the device is idle while the host is in its runtime: launching, synchronizing") \
    X(host, "the device is idle while the host runs operators or the program")                  \
    X(idle, "the device is idle, and nothing that the host did was recorded")                   \
    X(not_recorded, "nobody recorded what the device did")

enum bucket {
#define X(name, doc) BUCKET_##name,
    BUSY_BUCKETS(X)
#undef X
        BUCKET_COUNT,
};
extern const char *const bucket_names[BUCKET_COUNT];

/* A stretch of time to account for. */
struct stretch {
    int64_t from_ns, to_ns;
    int64_t rank;   /* spans of this rank only; OPM_NULL_I64: of all */
    uint32_t place; /* and work of this device only (windows.place); OPM_NULL_ID: of all */
    uint32_t track; /* that marked the step: what the host does for steps that others mark is not
                       this one's. OPM_NULL_ID: none */
};

/* ns[i * BUCKET_COUNT + bucket] for each stretch; they add up to its length, all of it taken as
 * recorded. w may be NULL if no stretch has a place. 0 or OPM_ENOMEM. */
int busy_compute(const struct store *st, const struct windows *w, const struct stretch *s, size_t n,
                 int64_t *ns);

#endif
