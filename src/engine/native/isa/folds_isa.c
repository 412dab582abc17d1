/* folds_isa.c -- see folds_isa.h. */
#include "engine/native/isa/folds_isa.h"
#include "engine/native/isa/target.h"

#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* F(tensor type, type, accumulator, type that a few elements are joined in first, ...). */
#define FOLDS_REAL(F, ...)                    \
    F(F32, float, double, float, __VA_ARGS__) \
    F(F64, double, double, double, __VA_ARGS__)
#define FOLDS_DOUBLE(F, ...)                   \
    F(F32, float, double, double, __VA_ARGS__) \
    F(F64, double, double, double, __VA_ARGS__)
#define FOLDS_WHOLE(F, ...)                           \
    F(U8, uint8_t, uint64_t, uint64_t, __VA_ARGS__)   \
    F(U16, uint16_t, uint64_t, uint64_t, __VA_ARGS__) \
    F(U32, uint32_t, uint64_t, uint64_t, __VA_ARGS__) \
    F(U64, uint64_t, uint64_t, uint64_t, __VA_ARGS__) \
    F(I8, int8_t, uint64_t, uint64_t, __VA_ARGS__)    \
    F(I16, int16_t, uint64_t, uint64_t, __VA_ARGS__)  \
    F(I32, int32_t, uint64_t, uint64_t, __VA_ARGS__)  \
    F(I64, int64_t, uint64_t, uint64_t, __VA_ARGS__)
/* Accumulators of the type itself. */
#define FOLDS_WHOLE_ITSELF(F, ...)                    \
    F(U8, uint8_t, uint8_t, uint8_t, __VA_ARGS__)     \
    F(U16, uint16_t, uint16_t, uint16_t, __VA_ARGS__) \
    F(U32, uint32_t, uint32_t, uint32_t, __VA_ARGS__) \
    F(U64, uint64_t, uint64_t, uint64_t, __VA_ARGS__) \
    F(I8, int8_t, int8_t, int8_t, __VA_ARGS__)        \
    F(I16, int16_t, int16_t, int16_t, __VA_ARGS__)    \
    F(I32, int32_t, int32_t, int32_t, __VA_ARGS__)    \
    F(I64, int64_t, int64_t, int64_t, __VA_ARGS__)

/* What an element counts as, and how two are joined. */
#define SELF(x) (x)
#define SQUARE(x) ((x) * (x))
#define ABS_REAL(x) ((x) < 0 ? -(x) : (x))
#define ABS_WHOLE(x) ((int64_t)(x) < 0 ? 0 - (x) : (x))
#define PLUS(a, b) ((a) + (b))
#define TIMES(a, b) ((a) * (b))
/* NaN comes through and stays. */
#define MORE_REAL(a, b) ((((b) > (a)) | ((b) != (b))) ? (b) : (a))
#define LESS_REAL(a, b) ((((b) < (a)) | ((b) != (b))) ? (b) : (a))
#define MORE_WHOLE(a, b) ((b) > (a) ? (b) : (a))
#define LESS_WHOLE(a, b) ((b) < (a) ? (b) : (a))

typedef float lanes_f32 __attribute__((vector_size(64), aligned(4), may_alias));
typedef double lanes_f64 __attribute__((vector_size(64), aligned(8), may_alias));
typedef int32_t mask_f32 __attribute__((vector_size(64)));
typedef int64_t mask_f64 __attribute__((vector_size(64)));
#define FOLD_MORE >
#define FOLD_LESS <
#define FOLD_INLINE static inline __attribute__((always_inline))

/* Rows from this length on have four sums at once. */
#define LONG_ROW 256

/* Beside better ones it need not be fast, but small. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize")
#endif
#define N(name) name##_c
#include "engine/native/isa/folds_tmpl.h"
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#ifdef __x86_64__
TARGET_PUSH(TARGET_AVX2)
#define N(name) name##_avx2
#include "engine/native/isa/folds_tmpl.h"
TARGET_POP
TARGET_PUSH(TARGET_AVX512)
/* The second operand is the result where either is NaN: a NaN in it stays, one in b is put there.
 */
#define FOLD_512 1
#define FOLD_512_f64(OP, a, b)                                                           \
    do {                                                                                 \
        const __m512d b_ = (__m512d)(b);                                                 \
        a = (lanes_f64)_mm512_mask_mov_pd(FOLD_512_##OP##_pd(b_, (__m512d)(a)),          \
                                          _mm512_cmp_pd_mask(b_, b_, _CMP_UNORD_Q), b_); \
    } while (0)
#define FOLD_512_f32(OP, a, b)                                                           \
    do {                                                                                 \
        const __m512 b_ = (__m512)(b);                                                   \
        a = (lanes_f32)_mm512_mask_mov_ps(FOLD_512_##OP##_ps(b_, (__m512)(a)),           \
                                          _mm512_cmp_ps_mask(b_, b_, _CMP_UNORD_Q), b_); \
    } while (0)
#define FOLD_512_MORE_pd _mm512_max_pd
#define FOLD_512_LESS_pd _mm512_min_pd
#define FOLD_512_MORE_ps _mm512_max_ps
#define FOLD_512_LESS_ps _mm512_min_ps
#define N(name) name##_avx512
#include "engine/native/isa/folds_tmpl.h"
TARGET_POP
#endif

static uint64_t bits_of(double x, enum tensor_type t)
{
    uint64_t bits = 0;
    float small = (float)x;

    if (t == TENSOR_F32)
        memcpy(&bits, &small, sizeof(small));
    else
        memcpy(&bits, &x, sizeof(x));
    return bits;
}

uint64_t fold_start(enum fold f, enum tensor_type t)
{
    bool real = t == TENSOR_F32 || t == TENSOR_F64;
    int width = tensor_type_bits(t);
    uint64_t all = ~(uint64_t)0 >> (64 - width), top = (uint64_t)1 << (width - 1);

    if (f == FOLD_PROD)
        return real ? bits_of(1, TENSOR_F64) : 1;
    if (f != FOLD_MAX && f != FOLD_MIN)
        return 0;
    if (real)
        return bits_of(f == FOLD_MAX ? -(double)INFINITY : (double)INFINITY, t);
    if (t == TENSOR_BOOL)
        return f == FOLD_MIN;
    if (fold_acc(FOLD_SUM, t) == TENSOR_I64)
        return f == FOLD_MAX ? top : all - top;
    return f == FOLD_MAX ? 0 : all;
}
