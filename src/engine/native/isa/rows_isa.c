/* rows_isa.c -- see rows_isa.h. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/isa/target.h"

#include <math.h>
#include <string.h>

#define ROWS_INLINE static inline __attribute__((always_inline))
#define ROWS_UNUSED __attribute__((unused))
#define ROWS_PIECE 512

/* No element depends on an earlier one: out is an operand as a whole, or lies elsewhere. To clang
 * that would be an order, which it complains of where it cannot follow. */
#ifdef __clang__
#define ROWS_FOR for (int64_t i = 0; i < n; i++)
#else
#define ROWS_FOR _Pragma("GCC ivdep") for (int64_t i = 0; i < n; i++)
#endif

/* Types: F(tensor type, type, unsigned one of at least 32 bits, ...). */
#define ROWS_REAL(F, ...) F(F32, float, float, __VA_ARGS__) F(F64, double, double, __VA_ARGS__)
#define ROWS_SAME(F, ...)                   \
    F(U8, uint8_t, uint32_t, __VA_ARGS__)   \
    F(U16, uint16_t, uint32_t, __VA_ARGS__) \
    F(U32, uint32_t, uint32_t, __VA_ARGS__) \
    F(U64, uint64_t, uint64_t, __VA_ARGS__)
#define ROWS_EACH(F, ...)                  \
    ROWS_SAME(F, __VA_ARGS__)              \
    F(I8, int8_t, uint32_t, __VA_ARGS__)   \
    F(I16, int16_t, uint32_t, __VA_ARGS__) \
    F(I32, int32_t, uint32_t, __VA_ARGS__) \
    F(I64, int64_t, uint64_t, __VA_ARGS__)
#define ROWS_RATIO(F, ...) ROWS_EACH(F, __VA_ARGS__)
#define ROWS_PAIR_SAME ROWS_PAIR
#define ROWS_PAIR_EACH ROWS_PAIR
/* Sources of conversions: F(tensor type, type, how it becomes integers). */
#define ROWS_SOURCES(F)    \
    F(F32, float, WHOLE)   \
    F(F64, double, WHOLE)  \
    F(U8, uint8_t, CAST)   \
    F(U16, uint16_t, CAST) \
    F(U32, uint32_t, CAST) \
    F(U64, uint64_t, CAST) \
    F(I8, int8_t, CAST)    \
    F(I16, int16_t, CAST)  \
    F(I32, int32_t, CAST)  \
    F(I64, int64_t, CAST)  \
    F(BOOL, uint8_t, CAST)

/* What rows.def speaks of. */
typedef uint8_t BYTE;
#define BELOW(v) ((v) < 1 && (v) != 0)
#define ODD(v) ((v) == 0 || (BELOW(v) && (v) == (T)-1))
#define DIVISOR (ODD(y) ? (T)1 : y)
/* Of numbers of 32 bits, x * (1 / y) is off by less than 2^-51 of itself, and a quotient that is no
 * whole number is below the next one by at least 2^-32: with a little more it is never too small,
 * and cut off what it should be. */
#define QUOT (narrow ? (T)((double)x * ((1 + 0x1p-40) / (double)DIVISOR)) : (T)(x / DIVISOR))
#define REST ((U)x - (U)QUOT * (U)y)

static inline double mod_real(double a, double b)
{
    double r = fmod(a, b);

    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static inline int64_t whole(double d)
{
    if (isnan(d))
        return 0;
    if (d >= 0x1p63)
        return d >= 0x1p64 ? INT64_MAX : (int64_t)(uint64_t)d;
    return d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

/* Cephes' polynomials, about 1 ulp: of 0 .. 0.5 for the arc sine, of which the rest of it and the
 * arc cosine are made by sqrt((1 - |x|) / 2). */
ROWS_INLINE float asin_near(float x, float z)
{
    float p = 4.2163199048e-2f;

    p = p * z + 2.4181311049e-2f;
    p = p * z + 4.5470025998e-2f;
    p = p * z + 7.4953002686e-2f;
    p = p * z + 1.6666752422e-1f;
    return p * z * x + x;
}

ROWS_INLINE float asin32(float x)
{
    const float a = fabsf(x), far = (1 - a) * 0.5f, s = asin_near(sqrtf(far), far),
                y = a > 0.5f ? 1.57079632679f - 2 * s : asin_near(a, a * a);

    return copysignf(y, x);
}

ROWS_INLINE float acos32(float x)
{
    const float a = fabsf(x), far = (1 - a) * 0.5f, s = 2 * asin_near(sqrtf(far), far),
                beyond = x < 0 ? 3.14159265359f - s : s;

    return a > 0.5f ? beyond : 1.57079632679f - asin_near(x, x * x);
}

ROWS_INLINE float atan32(float x)
{
    const float a = fabsf(x), big = -1 / a, mid = (a - 1) / (a + 1),
                t = a > 2.414213562373095f    ? big
                    : a > 0.4142135623730950f ? mid
                                              : a,
                from = a > 2.414213562373095f    ? 1.57079632679f
                       : a > 0.4142135623730950f ? 0.785398163397f
                                                 : 0,
                z = t * t;
    float p = 8.05374449538e-2f;

    p = p * z - 1.38776856032e-1f;
    p = p * z + 1.99777106478e-1f;
    p = p * z - 3.33329491539e-1f;
    return copysignf(from + (p * z * t + t), x);
}

/* Beside better ones it need not be fast, but small. */
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC push_options
#pragma GCC optimize("no-tree-vectorize")
#endif
#define N(name) name##_c
#define ROWS_VECTOR 16
#include "engine/native/isa/rows_tmpl.h"
#if defined(__x86_64__) && !defined(__clang__)
#pragma GCC pop_options
#endif

#ifdef __x86_64__
TARGET_PUSH(TARGET_AVX2)
#undef ROWS_VECTOR
#define ROWS_VECTOR 32
#define N(name) name##_avx2
#include "engine/native/isa/rows_tmpl.h"
TARGET_POP
TARGET_PUSH(TARGET_AVX512)
#undef ROWS_VECTOR
#define ROWS_VECTOR 64
#define N(name) name##_avx512
#include "engine/native/isa/rows_tmpl.h"
TARGET_POP
#endif
