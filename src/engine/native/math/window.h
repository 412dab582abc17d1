/* window.h -- sliding windows: what convolution and pooling share. */
#ifndef NATIVE_WINDOW_H
#define NATIVE_WINDOW_H

#include "engine/native/op.h"
#include "graph/ops/window.h"

/* Up to three spatial dimensions; fewer are filled up in front with size 1. */
struct window {
    int nd; /* 1..3, as given */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};

/* By the rules of the operator (graph/ops/window.h) for an input N x C x ...; out is the shape of
 * the result. */
int window_conv(struct window *w, struct op *op, const struct shape *in, const struct shape *weight,
                struct shape *out, opm_error *err);
/* pads: the input that says them, or 0; its elements must be there. */
int window_conv_transpose(struct window *w, struct op *op, const struct shape *in,
                          const struct shape *weight, uint32_t pads, struct shape *out,
                          opm_error *err);
int window_pool(struct window *w, struct op *op, const struct shape *in, struct shape *out,
                opm_error *err);
/* Where the last dimension is 1 and the window as wide, those before it take its place: rows are
 * long then. Positions within a plane stay what they are. */
void window_flatten(struct window *w);
/* All of an input of rank 3 to 5. */
void window_global(struct window *w, const struct shape *in, struct shape *out);
static inline int64_t window_out(const struct window *w)
{
    return w->out[0] * w->out[1] * w->out[2];
}
static inline int64_t window_in(const struct window *w)
{
    return w->in[0] * w->in[1] * w->in[2];
}
static inline int64_t window_kernel(const struct window *w)
{
    return w->kernel[0] * w->kernel[1] * w->kernel[2];
}

#endif
