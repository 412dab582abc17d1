/* window.h -- the sliding window of a convolution or a pool. */
#ifndef GRAPH_OPS_WINDOW_H
#define GRAPH_OPS_WINDOW_H

#include "graph/ops/ops.h"

#define WINDOW_DIMS_MAX (SHAPE_RANK_MAX - 2)

enum window_pad { PAD_GIVEN, PAD_SAME_UPPER, PAD_SAME_LOWER, PAD_VALID };

/* Per spatial dimension. Sizes below 0 are open. */
struct sliding {
    int n;
    enum window_pad pad;
    bool ceil;
    int64_t kernel[WINDOW_DIMS_MAX];
    int64_t stride[WINDOW_DIMS_MAX];
    int64_t dilation[WINDOW_DIMS_MAX];
    int64_t before[WINDOW_DIMS_MAX]; /* padding; of PAD_SAME_*: from sliding_over() on */
    int64_t after[WINDOW_DIMS_MAX];
    int64_t out[WINDOW_DIMS_MAX]; /* from sliding_over() on */
};

/* Padding that is given by an input, instead of the attribute's: before each dimension, then after
 * it. What is not known is open: *known. */
int sliding_pads(const struct opview *o, uint32_t slot, struct sliding *w, bool *known);
/* The attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode for n spatial
 * dimensions. kernel: what the weight has, or NULL: the attribute must say it. auto_pad "" is
 * NOTSET. */
int sliding_read(const struct opview *o, int n, const int64_t *kernel, struct sliding *w);
/* Over spatial dimensions of these sizes: fills in padding and out. */
int sliding_over(const struct opview *o, struct sliding *w, const int64_t *in);
/* The same for a transposed window, which has output_padding and output_shape, too. */
int sliding_transposed(const struct opview *o, struct sliding *w, const int64_t *in);

/* Convolution: kernel and out for operands x and k of known rank; out->dim[0], [1] are batch and
 * output channels. Says what does not fit. */
int conv_window(const struct opview *o, const struct shape *x, const struct shape *k,
                struct sliding *w, struct shape *out);
/* Padding may be given by input `pads` instead of the attribute; 0: it is not. */
int conv_transpose_window(const struct opview *o, const struct shape *x, const struct shape *k,
                          uint32_t pads, struct sliding *w, struct shape *out);
/* A pool over x of known rank. */
int pool_window(const struct opview *o, const struct shape *x, struct sliding *w,
                struct shape *out);

#endif
