/* softmax.h -- softmax and its kin along one dimension, for operators that have it inside. */
#ifndef NATIVE_SOFTMAX_H
#define NATIVE_SOFTMAX_H

#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

/* in and out: outer x n x inner elements, none of them 0, along n. */
struct softmax {
    enum soft_kind what;
    enum tensor_type type; /* float32 or float64 */
    const void *in;
    void *out;
    int64_t outer, n, inner;
};

void softmax_all(const struct op *op, const struct softmax *s);

#endif
