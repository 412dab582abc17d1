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
    /* out[i] = x[i] to the power of y[i]; NULL: none. out may be x or y. */
    void (*pow)(double *out, const double *x, const double *y, int64_t n);
    /* Of n rows of n numbers: such a part of row c is taken from others that their column c becomes
     * 0. From those below it, where columns up to c are not needed any more; */
    void (*eliminate)(double *a, int64_t n, int64_t c);
    /* from all others, whose column c counts as one of the unit matrix that it has become, and
     * becomes what that has. a[c][c] stands for 1 and is divided by already, as all of row c. */
    void (*invert)(double *a, int64_t n, int64_t c);
};

extern const struct fp64_isa fp64_c, fp64_avx2, fp64_avx512, fp64_neon;

#endif
