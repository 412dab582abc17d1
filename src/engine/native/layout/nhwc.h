/* nhwc.h -- 8-bit tensors whose channels come last: what the operators on them share.
 *
 * Within a region of such operators (layout.c) a tensor N x C x H x W lies in memory as N x H x W
 * pixels (nhwc_isa.h). Its bytes are unsigned: signed ones have their top bits flipped, so that
 * zero points are 128 more. The tensor's type stays what the graph says. */
#ifndef NATIVE_NHWC_H
#define NATIVE_NHWC_H

#include "engine/native/isa/nhwc_isa.h"
#include "engine/native/op.h"

static inline const struct nhwc_isa *kernel_nhwc(const struct op *op)
{
    return kernel_isa(op)->nhwc;
}
/* Bytes of a pixel. */
static inline int64_t nhwc_pitch(int64_t channels)
{
    return (channels + NHWC_UNIT - 1) / NHWC_UNIT * NHWC_UNIT;
}
/* What signed bytes are flipped by. */
static inline uint8_t nhwc_flip(enum tensor_type t)
{
    return t == TENSOR_I8 ? 0x80 : 0;
}
/* An output's type and shape, as kernel_set(). */
int nhwc_set(struct op *op, uint32_t i, enum tensor_type type, const struct shape *s,
             opm_error *err);
/* Zero point and range of the output as unsigned bytes, narrowed by the activations fused to it. */
struct nhwc_end nhwc_end_of(const struct op *op, uint32_t y_scale, uint32_t y_zero);

/* The sum of two values, given by the slots of their scales (zero points follow), of their types;
 * y_scale is the slot of the result's. */
void nhwc_add_of(const struct op *op, uint32_t a_scale, enum tensor_type a, uint32_t b_scale,
                 enum tensor_type b, uint32_t y_scale, struct nhwc_add *out);
/* Of such constants: no sum leaves the 32 bits. */
bool nhwc_add_fits(const struct op *op, uint32_t a_scale, uint32_t b_scale, uint32_t y_scale);

/* Slots of a QLinearConv that a value is added to: what, scales and zero points of it and of the
 * result. */
enum { NCONV_ADD = 9, NCONV_ADD_SCALE, NCONV_ADD_ZERO, NCONV_SUM_SCALE, NCONV_SUM_ZERO, NCONV_N };

/* A QLinearConv that can be computed so: constant weights without zero points, constant scales. */
bool nhwc_conv_fits(const struct op *op);
/* It reads its input plain: too few channels to be worth a pixel. */
bool nhwc_conv_plain(const struct op *op);

#endif
