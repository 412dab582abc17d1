/* fp64_isa.h -- functions of doubles, once per instruction set, within a few units of the last
 * place of what libm has; and of floats by way of them. */
#ifndef NATIVE_FP64_ISA_H
#define NATIVE_FP64_ISA_H

#include "base/common.h"

/* X(name) of each function; F64_SINGLE are those that floats have, too, or alone, and their results
 * are right to the last bit or so. */
#define F64_FUNCTIONS(X) \
    X(EXP)               \
    X(LOG)               \
    X(TANH)              \
    X(SIGMOID)           \
    X(SIN)               \
    X(COS)               \
    X(TAN)               \
    X(SINH)              \
    X(COSH)              \
    X(ERF)
#define F64_SINGLE(X) \
    X(TAN)            \
    X(SINH)           \
    X(COSH)           \
    X(ASINH)          \
    X(ACOSH)          \
    X(ATANH)

enum f64_function {
#define X(name) F64_##name,
    F64_FUNCTIONS(X)
#undef X
        F64_ASINH,
    F64_ACOSH,
    F64_ATANH,
    F64_N
};

/* out may be in. */
typedef void f64_fn(double *out, const double *in, int64_t n);
typedef void f64_single_fn(float *out, const float *in, int64_t n);

struct fp64_isa {
    f64_fn *unary[F64_N];         /* NULL: none */
    f64_single_fn *single[F64_N]; /* likewise */
};

extern const struct fp64_isa fp64_c, fp64_avx2, fp64_avx512, fp64_neon;

#endif
