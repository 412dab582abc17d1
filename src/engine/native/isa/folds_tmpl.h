/* folds_tmpl.h -- body of folds_isa.c, once per instruction set: N(name) is the includer's. No
 * include guard. Loops are for the compiler to make vectors of, and it may add in another order. */
#include "engine/native/isa/shuffle.h"

/* Rows of a few elements: one after the other, of a length that the compiler knows. */
#define FOLD_FEW(count, A, MAP, JOIN)               \
    for (int64_t i = 0; i < rows; i++, x += step) { \
        A a = acc[i];                               \
        for (int64_t k = 0; k < (count); k++)       \
            a = JOIN(a, MAP((A)x[k]));              \
        acc[i] = a;                                 \
    }

#define FOLD_ROWS(kind, T, A, M, name, START, MAP, JOIN)                                   \
    FOLD_INLINE A N(name##_row_##kind)(const T *x, int64_t n)                              \
    {                                                                                      \
        A a = START, b = START, c = START, d = START;                                      \
        int64_t q = n >= LONG_ROW ? n / 4 : 0;                                             \
        for (int64_t k = 0; k < q; k++) {                                                  \
            a = JOIN(a, MAP((A)x[k]));                                                     \
            b = JOIN(b, MAP((A)x[k + q]));                                                 \
            c = JOIN(c, MAP((A)x[k + 2 * q]));                                             \
            d = JOIN(d, MAP((A)x[k + 3 * q]));                                             \
        }                                                                                  \
        for (int64_t k = 4 * q; k < n; k++)                                                \
            a = JOIN(a, MAP((A)x[k]));                                                     \
        a = JOIN(a, b);                                                                    \
        c = JOIN(c, d);                                                                    \
        return JOIN(a, c);                                                                 \
    }                                                                                      \
    static void N(name##_rows_##kind)(void *to, const void *from, int64_t n, int64_t step, \
                                      int64_t rows)                                        \
    {                                                                                      \
        A *acc = to;                                                                       \
        const T *x = from;                                                                 \
        if (n == 2)                                                                        \
            FOLD_FEW(2, A, MAP, JOIN)                                                      \
        else if (n == 3)                                                                   \
            FOLD_FEW(3, A, MAP, JOIN)                                                      \
        else if (n == 4)                                                                   \
            FOLD_FEW(4, A, MAP, JOIN)                                                      \
        else                                                                               \
            for (int64_t i = 0; i < rows; i++, x += step) {                                \
                A a = N(name##_row_##kind)(x, n);                                          \
                acc[i] = JOIN(acc[i], a);                                                  \
            }                                                                              \
    }

/* The greatest and least of floats: vectors, of which the last may have elements of the one before
 * it again. */
#ifdef FOLD_512
#define FOLD_PICK(kind, OP, a, b) FOLD_512_##kind(OP, a, b)
#else
#define FOLD_PICK(kind, OP, a, b)                                                       \
    do {                                                                                \
        const lanes_##kind b_ = (b);                                                    \
        const mask_##kind m_ = (mask_##kind)(b_ FOLD_##OP a) | (mask_##kind)(b_ != b_); \
        a = (lanes_##kind)((m_ & (mask_##kind)b_) | (~m_ & (mask_##kind)a));            \
    } while (0)
#endif
#define FOLD_EXTREME(kind, T, name, OP, JOIN, LAST)                                        \
    FOLD_INLINE T N(name##_row_##kind)(const T *x, int64_t n)                              \
    {                                                                                      \
        const int64_t lanes = (int64_t)(sizeof(lanes_##kind) / sizeof(T));                 \
        lanes_##kind a, b;                                                                 \
        int64_t k = 2 * lanes;                                                             \
        T best = *x;                                                                       \
        if (n < lanes) {                                                                   \
            for (int64_t i = 1; i < n; i++)                                                \
                best = JOIN(best, x[i]);                                                   \
            return best;                                                                   \
        }                                                                                  \
        a = *(const lanes_##kind *)x;                                                      \
        b = *(const lanes_##kind *)(x + MIN(lanes, n - lanes));                            \
        for (; k + 2 * lanes <= n; k += 2 * lanes) {                                       \
            FOLD_PICK(kind, OP, a, *(const lanes_##kind *)(x + k));                        \
            FOLD_PICK(kind, OP, b, *(const lanes_##kind *)(x + k + lanes));                \
        }                                                                                  \
        for (; k < n; k += lanes)                                                          \
            FOLD_PICK(kind, OP, a, *(const lanes_##kind *)(x + MIN(k, n - lanes)));        \
        FOLD_PICK(kind, OP, a, b);                                                         \
        LAST(OP)                                                                           \
        return a[0];                                                                       \
    }                                                                                      \
    static void N(name##_rows_##kind)(void *to, const void *from, int64_t n, int64_t step, \
                                      int64_t rows)                                        \
    {                                                                                      \
        T *acc = to;                                                                       \
        const T *x = from;                                                                 \
        if (n == 2)                                                                        \
            FOLD_FEW(2, T, SELF, JOIN)                                                     \
        else if (n == 3)                                                                   \
            FOLD_FEW(3, T, SELF, JOIN)                                                     \
        else if (n == 4)                                                                   \
            FOLD_FEW(4, T, SELF, JOIN)                                                     \
        else                                                                               \
            for (int64_t i = 0; n && i < rows; i++, x += step) {                           \
                T a = N(name##_row_##kind)(x, n);                                          \
                acc[i] = JOIN(acc[i], a);                                                  \
            }                                                                              \
    }
#define FOLD_LAST_F64(OP)                                                         \
    FOLD_PICK(f64, OP, a, __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3)); \
    FOLD_PICK(f64, OP, a, __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5)); \
    FOLD_PICK(f64, OP, a, __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6));
#define FOLD_LAST_F32(OP)                                                                     \
    FOLD_PICK(                                                                                \
        f32, OP, a,                                                                           \
        __builtin_shufflevector(a, a, 8, 9, 10, 11, 12, 13, 14, 15, 0, 1, 2, 3, 4, 5, 6, 7)); \
    FOLD_PICK(                                                                                \
        f32, OP, a,                                                                           \
        __builtin_shufflevector(a, a, 4, 5, 6, 7, 0, 1, 2, 3, 12, 13, 14, 15, 8, 9, 10, 11)); \
    FOLD_PICK(                                                                                \
        f32, OP, a,                                                                           \
        __builtin_shufflevector(a, a, 2, 3, 0, 1, 6, 7, 4, 5, 10, 11, 8, 9, 14, 15, 12, 13)); \
    FOLD_PICK(                                                                                \
        f32, OP, a,                                                                           \
        __builtin_shufflevector(a, a, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14));

/* Four rows at a time: accumulators are loaded and stored once for them. */
#define FOLD_COLUMNS(kind, T, A, M, name, START, MAP, JOIN)                                     \
    static void N(name##_columns_##kind)(void *to, const void *from, int64_t n, int64_t step,   \
                                         int64_t rows)                                          \
    {                                                                                           \
        A *restrict acc = to;                                                                   \
        const T *x = from;                                                                      \
        int64_t k = 0;                                                                          \
        for (; k + 4 <= rows; k += 4, x += 4 * step)                                            \
            for (int64_t i = 0; i < n; i++) {                                                   \
                const M p = MAP((M)x[i]), q = MAP((M)x[i + step]), r = MAP((M)x[i + 2 * step]), \
                        s = MAP((M)x[i + 3 * step]), pq = JOIN(p, q), rs = JOIN(r, s),          \
                        all = JOIN(pq, rs);                                                     \
                const A a = acc[i], b = (A)all;                                                 \
                acc[i] = JOIN(a, b);                                                            \
            }                                                                                   \
        for (; k < rows; k++, x += step)                                                        \
            for (int64_t i = 0; i < n; i++) {                                                   \
                const A a = acc[i], b = (A)MAP((M)x[i]);                                        \
                acc[i] = JOIN(a, b);                                                            \
            }                                                                                   \
    }

/* Columns of the greatest and least, two rows at a time. */
#define FOLD_EXTREME_COLUMNS(kind, T, name, OP, JOIN)                                         \
    static void N(name##_columns_##kind)(void *to, const void *from, int64_t n, int64_t step, \
                                         int64_t rows)                                        \
    {                                                                                         \
        const int64_t lanes = (int64_t)(sizeof(lanes_##kind) / sizeof(T));                    \
        T *acc = to;                                                                          \
        const T *x = from;                                                                    \
        int64_t i = 0;                                                                        \
        for (; i + lanes <= n; i += lanes) {                                                  \
            lanes_##kind a = *(const lanes_##kind *)(acc + i), b = a;                         \
            int64_t k = 0;                                                                    \
            for (; k + 2 <= rows; k += 2) {                                                   \
                FOLD_PICK(kind, OP, a, *(const lanes_##kind *)(x + i + k * step));            \
                FOLD_PICK(kind, OP, b, *(const lanes_##kind *)(x + i + (k + 1) * step));      \
            }                                                                                 \
            if (k < rows)                                                                     \
                FOLD_PICK(kind, OP, a, *(const lanes_##kind *)(x + i + k * step));            \
            FOLD_PICK(kind, OP, a, b);                                                        \
            *(lanes_##kind *)(acc + i) = a;                                                   \
        }                                                                                     \
        for (; i < n; i++)                                                                    \
            for (int64_t k = 0; k < rows; k++)                                                \
                acc[i] = JOIN(acc[i], x[i + k * step]);                                       \
    }

FOLDS_REAL(FOLD_ROWS, SUM, 0, SELF, PLUS)
FOLDS_REAL(FOLD_ROWS, ABS, 0, ABS_REAL, PLUS)
FOLDS_REAL(FOLD_ROWS, SQUARES, 0, SQUARE, PLUS)
FOLDS_REAL(FOLD_ROWS, PROD, 1, SELF, TIMES)
FOLD_EXTREME(f64, double, MAX, MORE, MORE_REAL, FOLD_LAST_F64)
FOLD_EXTREME(f64, double, MIN, LESS, LESS_REAL, FOLD_LAST_F64)
FOLD_EXTREME(f32, float, MAX, MORE, MORE_REAL, FOLD_LAST_F32)
FOLD_EXTREME(f32, float, MIN, LESS, LESS_REAL, FOLD_LAST_F32)
FOLDS_WHOLE(FOLD_ROWS, SUM, 0, SELF, PLUS)
FOLDS_WHOLE(FOLD_ROWS, ABS, 0, ABS_WHOLE, PLUS)
FOLDS_WHOLE(FOLD_ROWS, SQUARES, 0, SQUARE, PLUS)
FOLDS_WHOLE(FOLD_ROWS, PROD, 1, SELF, TIMES)
FOLDS_WHOLE_ITSELF(FOLD_ROWS, MAX, *x, SELF, MORE_WHOLE)
FOLDS_WHOLE_ITSELF(FOLD_ROWS, MIN, *x, SELF, LESS_WHOLE)

FOLDS_REAL(FOLD_COLUMNS, SUM, 0, SELF, PLUS)
FOLDS_REAL(FOLD_COLUMNS, ABS, 0, ABS_REAL, PLUS)
FOLDS_REAL(FOLD_COLUMNS, SQUARES, 0, SQUARE, PLUS)
FOLDS_DOUBLE(FOLD_COLUMNS, PROD, 1, SELF, TIMES)
FOLD_EXTREME_COLUMNS(f64, double, MAX, MORE, MORE_REAL)
FOLD_EXTREME_COLUMNS(f64, double, MIN, LESS, LESS_REAL)
FOLD_EXTREME_COLUMNS(f32, float, MAX, MORE, MORE_REAL)
FOLD_EXTREME_COLUMNS(f32, float, MIN, LESS, LESS_REAL)
FOLDS_WHOLE(FOLD_COLUMNS, SUM, 0, SELF, PLUS)
FOLDS_WHOLE(FOLD_COLUMNS, ABS, 0, ABS_WHOLE, PLUS)
FOLDS_WHOLE(FOLD_COLUMNS, SQUARES, 0, SQUARE, PLUS)
FOLDS_WHOLE(FOLD_COLUMNS, PROD, 1, SELF, TIMES)
FOLDS_WHOLE_ITSELF(FOLD_COLUMNS, MAX, 0, SELF, MORE_WHOLE)
FOLDS_WHOLE_ITSELF(FOLD_COLUMNS, MIN, 0, SELF, LESS_WHOLE)

#define FOLD_PUT(kind, T, A, M, name, way) [TENSOR_##kind] = N(name##_##way##_##kind),
#define FOLD_PUT_ALL(name, way) \
    [FOLD_##name] = { FOLDS_REAL(FOLD_PUT, name, way) FOLDS_WHOLE(FOLD_PUT, name, way) }
#define FOLD_PUT_EXTREME(name, way, small, big)                                                 \
    [FOLD_##name] = { FOLDS_WHOLE(FOLD_PUT, name, way)[TENSOR_F32] = small, [TENSOR_F64] = big, \
                      [TENSOR_BOOL] = N(name##_##way##_U8) }

const struct folds_isa N(folds) = {
    .rows = { FOLD_PUT_ALL(SUM, rows), FOLD_PUT_ALL(ABS, rows), FOLD_PUT_ALL(SQUARES, rows),
              FOLD_PUT_ALL(PROD, rows),
              FOLD_PUT_EXTREME(MAX, rows, N(MAX_rows_f32), N(MAX_rows_f64)),
              FOLD_PUT_EXTREME(MIN, rows, N(MIN_rows_f32), N(MIN_rows_f64)) },
    .columns = { FOLD_PUT_ALL(SUM, columns), FOLD_PUT_ALL(ABS, columns),
                 FOLD_PUT_ALL(SQUARES, columns), FOLD_PUT_ALL(PROD, columns),
                 FOLD_PUT_EXTREME(MAX, columns, N(MAX_columns_f32), N(MAX_columns_f64)),
                 FOLD_PUT_EXTREME(MIN, columns, N(MIN_columns_f32), N(MIN_columns_f64)) },
};

#undef FOLD_FEW
#undef FOLD_ROWS
#undef FOLD_EXTREME
#undef FOLD_PICK
#undef FOLD_LAST_F64
#undef FOLD_LAST_F32
#undef FOLD_COLUMNS
#undef FOLD_EXTREME_COLUMNS
#undef FOLD_PUT
#undef FOLD_PUT_ALL
#undef FOLD_PUT_EXTREME
#undef N
