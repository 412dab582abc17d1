/* args.h -- arguments that the rule of an operator and whoever executes it both need: read and
 * checked in one place. Functions return 0, or what op_fail() returned. */
#ifndef GRAPH_OPS_ARGS_H
#define GRAPH_OPS_ARGS_H

#include "graph/ops/ops.h"

/* reduce.c: on[i] for each of `rank` dimensions that a reduction runs over; *known false: they are
 * not known yet. */
int reduce_axes(const struct opview *o, int rank, bool *on, bool *known);

/* quant.c: the same for com.microsoft's QLinearReduceMean, whose dimensions are always known. */
int qmean_axes(const struct opview *o, int rank, bool *on);

/* move.c: Transpose: dimension i of the result is dimension perm[i] of an operand of `rank`. */
int transpose_perm(const struct opview *o, int rank, int *perm);
/* Pad: elements added before and after each of `rank` dimensions, or cut off if negative. *known
 * false: they are not known yet. */
int pad_read(const struct opview *o, int rank, int64_t *before, int64_t *after, bool *known);

/* matmul.c: NumPy's product of two operands, and that of two matrices with Gemm's attributes. */
int matmul_shape(const struct opview *o, const struct shape *a, const struct shape *b,
                 struct shape *out);
int gemm_shape(const struct opview *o, const struct shape *a, const struct shape *b,
               struct shape *out);
/* com.microsoft's FusedMatMul multiplies operand `slot` with its dimensions in this order; of
 * others, which have no such attributes, as they are. */
void fused_matmul_order(const struct node *n, uint32_t slot, int rank, int *perm);

/* resize.c: Resize and Upsample of an operand of known rank. */
struct resizing {
    struct shape out;             /* open where it is not known yet */
    bool on[SHAPE_RANK_MAX];      /* resized at all */
    double scale[SHAPE_RANK_MAX]; /* result / operand, as far as out is known; else 1 */
    int naxes;                    /* that the node names, or all */
    int axis[SHAPE_RANK_MAX];
};
int resize_read(const struct opview *o, struct resizing *r);

#endif
