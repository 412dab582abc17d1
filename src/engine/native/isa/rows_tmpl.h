/* rows_tmpl.h -- body of rows_isa.c, once per instruction set: N(name) is the includer's. No
 * include guard. Loops are for the compiler to make vectors of: strides are known, and both sides
 * of a choice are loaded. */

/* -- two elements -- */

#define ROWS_LOOP(O, expr)                  \
    do {                                    \
        if (sa && sb)                       \
            ROWS_FOR                        \
            {                               \
                const T x = a[i], y = b[i]; \
                out[i] = (O)(expr);         \
            }                               \
        else if (sa) {                      \
            const T y = *b;                 \
            ROWS_FOR                        \
            {                               \
                const T x = a[i];           \
                out[i] = (O)(expr);         \
            }                               \
        } else {                            \
            const T x = *a;                 \
            ROWS_FOR                        \
            {                               \
                const T y = b[i];           \
                out[i] = (O)(expr);         \
            }                               \
        }                                   \
    } while (0)

#define ROWS_PAIR(kind, TYPE, WRAP, name, O, expr)                                             \
    static void N(name##_##kind)(void *to, const void *from_a, int64_t sa, const void *from_b, \
                                 int64_t sb, int64_t n)                                        \
    {                                                                                          \
        typedef TYPE T;                                                                        \
        typedef WRAP U ROWS_UNUSED;                                                            \
        O *out = to;                                                                           \
        const T *a = from_a, *b = from_b;                                                      \
        ROWS_LOOP(O, expr);                                                                    \
    }

/* Whether all numbers, with `bias` added, have 32 bits. */
static bool N(narrow)(const void *from, int64_t n, uint64_t bias)
{
    const uint64_t *x = from;
    uint64_t bits = 0;

    for (int64_t i = 0; i < n; i++)
        bits |= x[i] + bias;
    return bits >> 32 == 0;
}

/* Quotients of integers by doubles where they have up to 32 bits. */
#define ROWS_PAIR_RATIO(kind, TYPE, WRAP, name, O, expr)                                         \
    ROWS_INLINE void N(name##_loop_##kind)(TYPE * out, const TYPE *a, int64_t sa, const TYPE *b, \
                                           int64_t sb, int64_t n, const bool narrow)             \
    {                                                                                            \
        typedef TYPE T;                                                                          \
        typedef WRAP U;                                                                          \
        ROWS_LOOP(O, expr);                                                                      \
    }                                                                                            \
    static void N(name##_##kind)(void *to, const void *from_a, int64_t sa, const void *from_b,   \
                                 int64_t sb, int64_t n)                                          \
    {                                                                                            \
        const uint64_t bias = (TYPE)-1 < (TYPE)1 ? (uint64_t)1 << 31 : 0;                        \
        TYPE *out = to;                                                                          \
        const TYPE *a = from_a, *b = from_b;                                                     \
        if (sizeof(TYPE) < 8) {                                                                  \
            N(name##_loop_##kind)(out, a, sa, b, sb, n, true);                                   \
            return;                                                                              \
        }                                                                                        \
        for (int64_t i = 0; i < n; i += ROWS_PIECE) {                                            \
            int64_t m = MIN(n - i, (int64_t)ROWS_PIECE);                                         \
            if (N(narrow)(a + i * sa, sa ? m : 1, bias) &&                                       \
                N(narrow)(b + i * sb, sb ? m : 1, bias))                                         \
                N(name##_loop_##kind)(out + i, a + i * sa, sa, b + i * sb, sb, m, true);         \
            else                                                                                 \
                N(name##_loop_##kind)(out + i, a + i * sa, sa, b + i * sb, sb, m, false);        \
        }                                                                                        \
    }

#define PAIR(name, ints, out, real, whole) \
    ROWS_REAL(ROWS_PAIR, name, out, real)  \
    ROWS_##ints(ROWS_PAIR_##ints, name, out, whole)
#define INTS(name, ints, out, whole) ROWS_##ints(ROWS_PAIR_##ints, name, out, whole)
#include "engine/native/isa/rows.def"

/* All at once: the exponents' bits one after the other. */
static void N(power)(uint64_t *out, uint64_t *base, const uint64_t *exponent, int64_t n)
{
    uint64_t bits = 0;

    for (int64_t i = 0; i < n; i++) {
        bits |= exponent[i];
        out[i] = 1;
    }
    for (int k = 0; bits >> k != 0; k++)
        ROWS_FOR
        {
            const uint64_t b = base[i], r = out[i];

            out[i] = exponent[i] >> k & 1 ? r * b : r;
            base[i] = b * b;
        }
}

/* -- one element -- */

#define ROWS_ONE(kind, TYPE, WRAP, name, O, expr)                                           \
    static void N(name##_##kind)(void *to, const void *from, int64_t n, double p, double q) \
    {                                                                                       \
        typedef TYPE T;                                                                     \
        typedef WRAP U ROWS_UNUSED;                                                         \
        O *out = to;                                                                        \
        const T *in = from;                                                                 \
        (void)p;                                                                            \
        (void)q;                                                                            \
        ROWS_FOR                                                                            \
        {                                                                                   \
            const T x = in[i];                                                              \
            out[i] = (O)(expr);                                                             \
        }                                                                                   \
    }

#define ONE(name, ints, out, real, whole) \
    ROWS_REAL(ROWS_ONE, name, out, real)  \
    ROWS_##ints(ROWS_ONE, name, out, whole)
#define FLOAT(name, out, real) ROWS_REAL(ROWS_ONE, name, out, real)
#define FLOAT32(name, out, real) ROWS_ONE(F32, float, float, name, out, real)
#define INTS1(name, ints, out, whole) ROWS_##ints(ROWS_ONE, name, out, whole)
#include "engine/native/isa/rows.def"

#define ROWS_CLIP(kind, T, U, name)                                                       \
    static void N(name##_##kind)(void *to, const void *from, int64_t n, const void *low_, \
                                 const void *high_)                                       \
    {                                                                                     \
        T *out = to;                                                                      \
        const T *in = from, *low = low_, *high = high_;                                   \
        if (low && high) {                                                                \
            const T p = *low, q = *high;                                                  \
            ROWS_FOR                                                                      \
            {                                                                             \
                T x = in[i];                                                              \
                x = x < p ? p : x;                                                        \
                out[i] = x > q ? q : x;                                                   \
            }                                                                             \
        } else if (low) {                                                                 \
            const T p = *low;                                                             \
            ROWS_FOR out[i] = in[i] < p ? p : in[i];                                      \
        } else if (high) {                                                                \
            const T q = *high;                                                            \
            ROWS_FOR out[i] = in[i] > q ? q : in[i];                                      \
        } else                                                                            \
            memmove(out, in, (size_t)n * sizeof(T));                                      \
    }
ROWS_REAL(ROWS_CLIP, CLIP)
ROWS_EACH(ROWS_CLIP, CLIP)

/* -- choices -- */

#define ROWS_WHERE(kind, T, U, name)                                                            \
    static void N(name##_##kind)(void *to, const uint8_t *cond, int64_t sc, const void *from_a, \
                                 int64_t sa, const void *from_b, int64_t sb, int64_t n)         \
    {                                                                                           \
        T *out = to;                                                                            \
        const T *a = from_a, *b = from_b;                                                       \
        const T ca = *a, cb = *b;                                                               \
        if (!sc) {                                                                              \
            const T *from = *cond ? a : b;                                                      \
            const T c = *from;                                                                  \
            if (*cond ? sa : sb)                                                                \
                memmove(out, from, (size_t)n * sizeof(T));                                      \
            else                                                                                \
                ROWS_FOR out[i] = c;                                                            \
        } else if (sa && sb)                                                                    \
            ROWS_FOR                                                                            \
            {                                                                                   \
                const T x = a[i], y = b[i];                                                     \
                out[i] = cond[i] ? x : y;                                                       \
            }                                                                                   \
        else if (sa)                                                                            \
            ROWS_FOR                                                                            \
            {                                                                                   \
                const T x = a[i];                                                               \
                out[i] = cond[i] ? x : cb;                                                      \
            }                                                                                   \
        else if (sb)                                                                            \
            ROWS_FOR                                                                            \
            {                                                                                   \
                const T y = b[i];                                                               \
                out[i] = cond[i] ? ca : y;                                                      \
            }                                                                                   \
        else                                                                                    \
            ROWS_FOR out[i] = cond[i] ? ca : cb;                                                \
    }
ROWS_SAME(ROWS_WHERE, WHERE)

/* -- conversions -- */

#define ROWS_CAST(kind, TYPE, U, from_kind, FROM)                                   \
    static void N(cast_##from_kind##_##kind)(void *to, const void *from, int64_t n) \
    {                                                                               \
        TYPE *out = to;                                                             \
        const FROM *in = from;                                                      \
        ROWS_FOR out[i] = (TYPE)in[i];                                              \
    }

/* Floats to integers: whatever 32 bits hold at once, else one by one. */
#define ROWS_WHOLE(kind, TYPE, U, from_kind, FROM)                                  \
    static void N(cast_##from_kind##_##kind)(void *to, const void *from, int64_t n) \
    {                                                                               \
        TYPE *out = to;                                                             \
        const FROM *in = from;                                                      \
        for (; n > 0; n -= ROWS_PIECE, in += ROWS_PIECE, out += ROWS_PIECE) {       \
            int64_t m = MIN(n, (int64_t)ROWS_PIECE);                                \
            if (N(within_##from_kind)(in, m))                                       \
                for (int64_t i = 0; i < m; i++)                                     \
                    out[i] = (TYPE)(int32_t)in[i];                                  \
            else                                                                    \
                for (int64_t i = 0; i < m; i++)                                     \
                    out[i] = (TYPE)whole((double)in[i]);                            \
        }                                                                           \
    }

#define ROWS_WITHIN(kind, T, U, name)                         \
    static bool N(name##_##kind)(const T *x, int64_t n)       \
    {                                                         \
        int32_t beyond = 0;                                   \
        for (int64_t i = 0; i < n; i++)                       \
            beyond |= !(x[i] > -0x1p31f) | !(x[i] < 0x1p31f); \
        return !beyond;                                       \
    }
ROWS_REAL(ROWS_WITHIN, within)

#define ROWS_BOOL(kind, T)                                                   \
    static void N(cast_##kind##_BOOL)(void *to, const void *from, int64_t n) \
    {                                                                        \
        uint8_t *out = to;                                                   \
        const T *in = from;                                                  \
        ROWS_FOR out[i] = in[i] != 0;                                        \
    }

#define ROWS_FROM(kind, T, ints)    \
    ROWS_REAL(ROWS_CAST, kind, T)   \
    ROWS_EACH(ROWS_##ints, kind, T) \
    ROWS_BOOL(kind, T)
ROWS_SOURCES(ROWS_FROM)

/* -- indices -- */

#define ROWS_PLACES(T)                                                                  \
    static bool N(places_##T)(int64_t * out, const void *from, int64_t n, int64_t size, \
                              int64_t step, int64_t along)                              \
    {                                                                                   \
        const T *index = from;                                                          \
        int64_t beyond = 0;                                                             \
        ROWS_FOR                                                                        \
        {                                                                               \
            const int64_t v = index[i], at = v + (v < 0 ? size : 0);                    \
            beyond |= at | (size - 1 - at);                                             \
            out[i] = (int64_t)((uint64_t)at * (uint64_t)step + (uint64_t)(i * along));  \
        }                                                                               \
        return beyond >= 0;                                                             \
    }
ROWS_PLACES(int32_t)
ROWS_PLACES(int64_t)

/* -- distances -- */

#define ROWS_DISTANCE(kind, T, U, name)                                                            \
    typedef T N(vec_##T) __attribute__((vector_size(ROWS_VECTOR), aligned(sizeof(T)), may_alias)); \
    ROWS_INLINE void N(name##_some_##kind)(N(vec_##T) * out, const T *x, const T *columns,         \
                                           int64_t n, int64_t wide, const int vectors)             \
    {                                                                                              \
        N(vec_##T) sum[4] = { { 0 } };                                                             \
        for (int64_t c = 0; c < n; c++, columns += wide)                                           \
            UNROLL for (int k = 0; k < vectors; k++)                                               \
            {                                                                                      \
                N(vec_##T) d = x[c] - ((const N(vec_##T) *)columns)[k];                            \
                sum[k] += d * d;                                                                   \
            }                                                                                      \
        UNROLL for (int k = 0; k < vectors; k++) out[k] = sum[k];                                  \
    }                                                                                              \
    static void N(name##_##kind)(void *to, const void *x, const void *columns, int64_t n,          \
                                 int64_t wide)                                                     \
    {                                                                                              \
        enum { L = ROWS_VECTOR / (int)sizeof(T) };                                                 \
        int64_t j = 0;                                                                             \
        for (; j + 4 * L <= wide; j += 4 * L)                                                      \
            N(name##_some_##kind)                                                                  \
        ((N(vec_##T) *)((T *)to + j), x, (const T *)columns + j, n, wide, 4);                      \
        for (; j + 2 * L <= wide; j += 2 * L)                                                      \
            N(name##_some_##kind)                                                                  \
        ((N(vec_##T) *)((T *)to + j), x, (const T *)columns + j, n, wide, 2);                      \
        for (; j < wide; j += L)                                                                   \
            N(name##_some_##kind)                                                                  \
        ((N(vec_##T) *)((T *)to + j), x, (const T *)columns + j, n, wide, 1);                      \
    }
ROWS_REAL(ROWS_DISTANCE, distance)

/* -- the table -- */

#define ROWS_PUT(kind, T, U, name) [ROWS_##name][TENSOR_##kind] = N(name##_##kind),
#define ROWS_PUT_REAL(name) ROWS_REAL(ROWS_PUT, name)
#define ROWS_PUT_EACH(name) ROWS_EACH(ROWS_PUT, name)
#define ROWS_PUT_RATIO(name) ROWS_EACH(ROWS_PUT, name)
#define ROWS_PUT_SAME(name)                                                               \
    ROWS_SAME(ROWS_PUT, name)                                                             \
    [ROWS_##name][TENSOR_BOOL] = N(name##_U8), [ROWS_##name][TENSOR_I8] = N(name##_U8),   \
    [ROWS_##name][TENSOR_I16] = N(name##_U16), [ROWS_##name][TENSOR_I32] = N(name##_U32), \
    [ROWS_##name][TENSOR_I64] = N(name##_U64),
#define ROWS_PUT_CLIP(kind, T, U, name) [TENSOR_##kind] = N(name##_##kind),
#define ROWS_PUT_CAST(kind, T, U, from_kind) [TENSOR_##kind] = N(cast_##from_kind##_##kind),
#define ROWS_PUT_CASTS(kind, T, ints)                  \
    [TENSOR_##kind] = { ROWS_REAL(ROWS_PUT_CAST, kind) \
                            ROWS_EACH(ROWS_PUT_CAST, kind)[TENSOR_BOOL] = N(cast_##kind##_BOOL) },

const struct rows_isa N(rows) = {
    .pair = {
#define PAIR(name, ints, out, real, whole) ROWS_PUT_REAL(name) ROWS_PUT_##ints(name)
#define INTS(name, ints, out, whole) ROWS_PUT_##ints(name)
#include "engine/native/isa/rows.def"
    },
    .one = {
#define ONE(name, ints, out, real, whole) ROWS_PUT_REAL(name) ROWS_PUT_##ints(name)
#define FLOAT(name, out, real) ROWS_PUT_REAL(name)
#define FLOAT32(name, out, real) ROWS_PUT(F32, float, float, name)
#define INTS1(name, ints, out, whole) ROWS_PUT_##ints(name)
#include "engine/native/isa/rows.def"
    },
    .power = N(power),
    .where = { N(WHERE_U8), N(WHERE_U16), N(WHERE_U32), N(WHERE_U64) },
    .clip = { ROWS_REAL(ROWS_PUT_CLIP, CLIP) ROWS_EACH(ROWS_PUT_CLIP, CLIP) },
    .cast = { ROWS_SOURCES(ROWS_PUT_CASTS) },
    .distance = { [TENSOR_F32] = N(distance_F32), [TENSOR_F64] = N(distance_F64) },
    .places = { N(places_int32_t), N(places_int64_t) },
    .folds = &N(folds),
    .real = &N(fp64),
};

#undef N
