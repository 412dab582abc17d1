/* elementwise.h -- functions of one element: which there are, and which can follow another
 * operator. */
#ifndef NATIVE_ELEMENTWISE_H
#define NATIVE_ELEMENTWISE_H

#include "engine/native/op/kernels.h"

/* The kernel's arg of unary_run(). */
enum un {
    UN_ABS,
    UN_ACOS,
    UN_ACOSH,
    UN_ASIN,
    UN_ASINH,
    UN_ATAN,
    UN_ATANH,
    UN_CEIL,
    UN_CELU,
    UN_COS,
    UN_COSH,
    UN_ELU,
    UN_ERF,
    UN_EXP,
    UN_FLOOR,
    UN_GELU,
    UN_GELU_TANH,
    UN_HARDSIGMOID,
    UN_HARDSWISH,
    UN_LEAKY,
    UN_LOG,
    UN_MISH,
    UN_NEG,
    UN_RECIPROCAL,
    UN_RELU,
    UN_ROUND,
    UN_SELU,
    UN_SHRINK,
    UN_SIGMOID,
    UN_SIGN,
    UN_SILU,
    UN_SIN,
    UN_SINH,
    UN_SOFTPLUS,
    UN_SOFTSIGN,
    UN_SQRT,
    UN_TAN,
    UN_TANH,
    UN_THRESHOLDED,
};

bool unary_as_post(const struct op *op, struct post *out);
bool clip_as_post(const struct op *op, struct post *out);

#endif
