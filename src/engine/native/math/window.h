/* window.h -- sliding windows: what convolution and pooling share. */
#ifndef NATIVE_WINDOW_H
#define NATIVE_WINDOW_H

#include "engine/native/op.h"

/* Up to three spatial dimensions; fewer are filled up in front with size 1. */
struct window {
    int nd; /* 1..3, as given */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], before[3], after[3];
};

/* From the attributes kernel_shape, strides, dilations, pads, auto_pad and ceil_mode, for an input
 * N x C x ...; kernel NULL: the attribute gives it. */
int window_init(struct window *w, const struct op *op, const struct shape *in,
                const int64_t *kernel, opm_error *err);
/* N x C x out. */
void window_shape(const struct window *w, int64_t n, int64_t c, struct shape *out);
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
