/* folds_isa.h -- many elements of one type made one, once per instruction set: sums, products,
 * extremes of rows and of columns. Types are indices as in tensor.h. */
#ifndef NATIVE_FOLDS_ISA_H
#define NATIVE_FOLDS_ISA_H

#include "base/common.h"
#include "graph/tensor.h"

/* Integers wrap at 64 bits; of the extremes NaN comes through. */
enum fold { FOLD_SUM, FOLD_ABS, FOLD_SQUARES, FOLD_PROD, FOLD_MAX, FOLD_MIN, FOLD_N };

/* What the elements of a type are joined in: the greatest and the least are of that type, floats
 * are double otherwise, integers int64 or uint64. */
static inline enum tensor_type fold_acc(enum fold f, enum tensor_type t)
{
    if (f == FOLD_MAX || f == FOLD_MIN)
        return t;
    if (t == TENSOR_F32 || t == TENSOR_F64)
        return TENSOR_F64;
    return t == TENSOR_U8 || t == TENSOR_U16 || t == TENSOR_U32 || t == TENSOR_U64 ? TENSOR_U64
                                                                                   : TENSOR_I64;
}

/* acc[i], i < rows, is joined with x[i * step + k], k < n. */
typedef void fold_rows_fn(void *acc, const void *x, int64_t n, int64_t step, int64_t rows);
/* acc[i], i < n, is joined with x[i + k * step], k < rows. */
typedef void fold_columns_fn(void *acc, const void *x, int64_t n, int64_t step, int64_t rows);

struct folds_isa {
    /* Of all integers and float32 and float64; others are NULL. */
    fold_rows_fn *rows[FOLD_N][TENSOR_NTYPES];
    fold_columns_fn *columns[FOLD_N][TENSOR_NTYPES];
};

extern const struct folds_isa folds_c, folds_avx2, folds_avx512;

/* What joining begins with, of the accumulators' type. */
uint64_t fold_start(enum fold f, enum tensor_type t);

#endif
