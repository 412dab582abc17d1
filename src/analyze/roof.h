/* roof.h -- the least time in which the machine of a trace could do what an operator does, and what
 * sets that limit: its arithmetic, or the cache or memory that the operator's data fits in.
 *
 * The speeds are facts of the trace (base/peak.h), which were measured with the threads that it was
 * made with. Each level counts for as much as it holds: of data that is a little too large for a
 * cache, most may still have come from it. So no operator stands above its roof by more than the
 * error of measuring. An algorithm that needs less than is counted has a higher roof, and is named
 * with it: Winograd's, by the multiplications that it saves, and block-sparse products, by what
 * their zeros spare. */
#ifndef ANALYZE_ROOF_H
#define ANALYZE_ROOF_H

#include "base/peak.h"
#include "store/store.h"

#define ROOF_WORDS(X)             \
    X(FP32, "fp32")               \
    X(INT8, "int8")               \
    X(WINOGRAD, "fp32 winograd")  \
    X(FP32_SPARSE, "fp32 sparse") \
    X(INT8_SPARSE, "int8 sparse") \
    X(L1, "L1")                   \
    X(L2, "L2")                   \
    X(L3, "L3")                   \
    X(MEMORY, "memory")

struct roofs {
    const struct store *st;
    bool known; /* the trace, or who reads it, says what the machine reaches */
    struct peak peak;
    bool *bytes; /* [nop]: computes with bytes */
};

/* 0 or OPM_ENOMEM; release in any case. */
int roofs_read(struct roofs *r, const struct store *st);
void roofs_release(struct roofs *r);

/* For an execution of op that took ns: the name of its roof, and what share of it it reaches. Both
 * NULL if the machine or the operator's work is not known, or if it computes nothing: then it may
 * only look at its data in another way. */
void roof_of(const struct roofs *r, size_t op, double ns, struct cell *name, struct cell *share);

#endif
