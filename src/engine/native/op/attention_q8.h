/* attention_q8.h -- the product that makes Q, K and V of bytes, for QAttention. */
#ifndef NATIVE_ATTENTION_Q8_H
#define NATIVE_ATTENTION_Q8_H

#include "engine/native/math/q8.h"

/* Of the operator's inputs: bytes, weights, bias, scales of both, and their zero points. */
enum { QA_INPUT, QA_WEIGHTS, QA_BIAS, QA_SCALE, QA_ZERO = 6 };

struct q8_projection {
    int64_t m, n, k;
    struct q8_b b; /* of weights that are known, in memory */
    void *memory;
    int64_t b_bytes;
    size_t at_a, at_b, at_add, at_sum, at_zero, at_scale; /* in its room */
    size_t bytes;                                         /* of its room */
};

/* Checks scales and zero points, packs weights that are known and says how much room a run takes;
 * at is where that begins in the operator's scratch memory. m, n and k are set. */
int q8_projection_plan(struct op *op, struct q8_projection *p, size_t at, opm_error *err);
void q8_projection_release(struct q8_projection *p);
/* m x n floats, with the bias. */
void q8_projection_run(struct op *op, const struct q8_projection *p, float *out);

#endif
