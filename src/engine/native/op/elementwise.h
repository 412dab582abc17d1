/* elementwise.h -- functions of one element: which there are, and which can follow another
 * operator. */
#ifndef NATIVE_ELEMENTWISE_H
#define NATIVE_ELEMENTWISE_H

#include "engine/native/op/kernels.h"

/* The kernel's arg of unary_run(): as enum rows_one, then others. */
enum un {
#define ONE(name, ints, out, real, whole) UN_##name,
#define FLOAT(name, out, real) UN_##name,
#define FLOAT32(name, out, real) UN_##name,
#define INTS1(name, ints, out, whole) UN_##name,
#include "engine/native/isa/rows.def"
    UN_ACOSH,
    UN_ASINH,
    UN_ATANH,
    UN_AFFINE,
    UN_CELU,
    UN_COS,
    UN_COSH,
    UN_ELU,
    UN_ERF,
    UN_EXP,
    UN_GELU,
    UN_GELU_TANH,
    UN_HARDSIGMOID,
    UN_HARDSWISH,
    UN_LOG,
    UN_MISH,
    UN_PARAMETRIC_SOFTPLUS,
    UN_SCALE,
    UN_SCALED_TANH,
    UN_SELU,
    UN_SIGMOID,
    UN_SILU,
    UN_SIN,
    UN_SINH,
    UN_SOFTPLUS,
    UN_TAN,
    UN_TANH,
};

bool unary_as_post(const struct op *op, struct post *out);
bool clip_as_post(const struct op *op, struct post *out);

#endif
