/* isa.h -- the inner loops that depend on the instruction set, once per set.
 *
 * Each kind of loops (floats, channel-blocked floats, bytes, bytes with channels last, block-sparse
 * weights, weights of a few bits, 16-bit floats, rows of any type) is there for plain C, AVX2 with
 * FMA, AVX-512 and NEON, and bytes for AMX, ARM's dot product and i8mm, too, products of bfloat16
 * for its BF16; isa.c picks for all of them. The loops work on one thread's part of one operator
 * and never allocate. Results may differ between instruction sets in the last bits, never between
 * runs or thread counts. */
#ifndef NATIVE_ISA_H
#define NATIVE_ISA_H

#include "base/common.h"
#include "engine/native/isa/blocked_isa.h"
#include <opmeter/opmeter_error.h>

/* Element-wise functions of one float; alpha and beta are what the operator calls them. */
enum isa_unary {
    U_RELU,
    U_CLIP, /* to alpha .. beta */
    U_LEAKY,
    U_SIGMOID,
    U_TANH,
    U_EXP,
    U_ERF,
    U_GELU,      /* with erf */
    U_GELU_TANH, /* its approximation */
    U_SILU,      /* x * sigmoid(alpha * x) */
    U_HARDSWISH,
    U_HARDSIGMOID,
    U_SQRT,
    U_RECIPROCAL,
    U_NEG,
    U_ABS,
    U_AFFINE, /* alpha * x + beta */
    U_SQUARE,
    U_FLOOR,
    U_CEIL,
    U_ROUND, /* half to even */
    U_LOG,
    U_SIN,
    U_COS,
    U_ELU,
    U_SOFTPLUS,
    U_MISH,
    U_NUNARY,
};

/* What a row is reduced by. */
enum isa_reduce { R_SUM, R_SQUARES, R_ABS, R_MAX, R_MIN };

enum isa_binary { B_ADD, B_SUB, B_MUL, B_DIV, B_MAX, B_MIN, B_NBINARY };

/* c[m x n] = init + a * b: m <= mr, n <= nr, rows of b as brs says, whose elements beyond n are
 * read: up to `lanes` or else up to nr. Packed they are nr, zero beyond n. Element (i, p) of
 * a is at a[i * ars + p * aks]. init NULL: 0; init may be c; row i of it is at init + i * irs. Of
 * one row, b may be given as 16-bit floats instead, if row_half of the instruction set is set. */
struct isa_tile {
    int m, n;
    int64_t k;
    const float *a;
    int64_t ars, aks;
    const float *b;
    int64_t brs;
    float *c;
    int64_t ldc;
    const float *init;
    int64_t irs;
    const uint16_t *half; /* NULL: b */
    bool bf16;            /* of half: bfloat16, not float16 */
};

struct isa {
    const char *name;
    int mr, nr; /* rows and columns of a GEMM tile */
    int lanes;  /* floats of a vector */
    /* c[m x n] (+)= a * b, a: k x mr packed (zero beyond m), b: k x nr packed; m <= mr, n <= nr. */
    void (*gemm)(int m, int n, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                 bool add);
    /* Strides are 0 or 1, not both 0 unless n is 1. out may be a or b. */
    void (*binary)(enum isa_binary f, float *out, const float *a, int64_t sa, const float *b,
                   int64_t sb, int64_t n);
    void (*unary)(enum isa_unary f, float *out, const float *in, int64_t n, float alpha,
                  float beta);
    void (*softmax)(float *out, const float *in, int64_t n);
    void (*logsoftmax)(float *out, const float *in, int64_t n); /* out may be in */
    /* Four rows of softmax() or logsoftmax(), one behind the other; n is at least `lanes`. */
    void (*soft4)(float *out, const float *in, int64_t n, bool log);
    /* (in - mean) / sqrt(var + eps) * scale + bias; scale and bias may be NULL. */
    void (*layernorm)(float *out, const float *in, const float *scale, const float *bias, int64_t n,
                      float eps, float *mean, float *inv);
    /* One channel's row: out[i] = bias + the sum over rows r and taps k of
     * w[r][k] * row[r][i * step + k * dilation], all of which must exist. */
    void (*depthwise)(float *out, int64_t n, const float *const *row, const float *const *w,
                      int rows, int taps, int64_t step, int64_t dilation, float bias);
    float (*dot)(const float *a, const float *b, int64_t n);
    void (*tile)(const struct isa_tile *t);
    bool row_half; /* tile takes 16-bit floats */
    /* n > 0; NaN comes through. */
    float (*reduce)(enum isa_reduce f, const float *x, int64_t n);
    /* x becomes exp(y - max y), y = scale * x + mask (NULL: none); their sum is returned. */
    float (*softexp)(float *x, int64_t n, float scale, const float *mask);
    /* One step of an LSTM of n, from gates i, o, f, c one after the other; c is the old state. */
    void (*lstm)(float *h, float *c, const float *gate, int64_t n);
    const struct blk *blk; /* on channel-blocked tensors */
    /* Set by isa.c: */
    const struct q8_isa *q8;
    const struct nhwc_isa *nhwc;
    const struct sparse_isa *sparse;
    const struct half_isa *half;
    const struct loops_isa *loops;
    const struct nbits_isa *nbits;
    const struct rows_isa *rows;
    const struct bf16_isa *bf16; /* NULL: nothing that multiplies bfloat16 */
};

/* Instruction sets and their names, the better later. */
#define ISA_SETS(X)       \
    X(C, "c")             \
    X(AVX2, "avx2")       \
    X(AVX512, "avx512")   \
    X(AMX, "amx")         \
    X(NEON, "neon")       \
    X(DOTPROD, "dotprod") \
    X(I8MM, "i8mm")       \
    X(BF16, "bf16")

enum isa_kind {
#define X(kind, name) ISA_##kind,
    ISA_SETS(X)
#undef X
        ISA_N
};
extern const char *const isa_names[ISA_N];

/* NULL if this processor, or the compiler, does not have it. */
const struct isa *isa_get(enum isa_kind kind);
/* The best there is, or the one whose name the environment has as OPMETER_ISA (for tests).
 * OPM_EINVAL if there is none of that name, or not on this processor. */
int isa_choose(const struct isa **out, opm_error *err);
/* The best there is. */
const struct isa *isa_host(void);

extern const struct isa isa_c, isa_avx2, isa_avx512, isa_neon; /* the floats of each */

#endif
