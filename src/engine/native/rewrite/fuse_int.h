/* fuse_int.h -- what the files that fuse share; see fuse.c. */
#ifndef NATIVE_FUSE_INT_H
#define NATIVE_FUSE_INT_H

#include "engine/native/op/kernels.h"

struct fuser {
    struct plan *p;
    uint32_t *made_by; /* operator by value, or UINT32_MAX */
    uint32_t *read_by; /* one reader, the only one where uses is 1 */
    uint32_t *uses;    /* how many read it; the graph's outputs count */
    opm_error *err;
};

/* Look at all operators anew. Values that fusing added are not followed. */
void fuse_links(struct fuser *f);
/* The node is of this type, and nothing was fused to it yet. */
bool fuse_is(const struct op *op, const char *type);
/* The only reader of an operator's only output; NULL if there are others. */
struct op *fuse_follower(const struct fuser *f, const struct op *op);
struct op *fuse_maker(const struct fuser *f, uint32_t v);
/* The value is read once, and not by the caller. */
bool fuse_only(const struct fuser *f, uint32_t v);
/* The value is of a floating-point type that is float32 inside of the engine. */
bool fuse_real(const struct fuser *f, uint32_t v);
/* The one float that a constant input is. */
bool fuse_scalar(const struct op *op, uint32_t slot, float *out);
/* A product or sum with a constant scalar, and the other operand. */
bool fuse_by_scalar(const struct op *op, float *s, uint32_t *x);
/* Is the constant a about b? */
bool fuse_near(float a, double b);
/* The other factor or term, if one of the two is the value v. */
uint32_t fuse_other(const struct op *op, uint32_t v);
/* op takes over what next covers, and next is gone. OPM_ENOMEM. */
int fuse_cover(struct op *op, struct op *next);
/* Turn op into an operator of another kernel that reads `in` only and covers what is gone.
 * OPM_ENOMEM. */
int fuse_become(struct fuser *f, struct op *op, const struct kernel *k, const char *type,
                const uint32_t *in, uint32_t nin, struct op **gone, int ngone);

/* The same, and op gives what next gave. OPM_ENOMEM. */
int fuse_absorb(struct fuser *f, struct op *op, struct op *next);
/* One more input, in a slot from `first` on: absent ones fill up before it. The slot, or -1 when
 * out of memory. */
int fuse_input(struct op *op, uint32_t first, uint32_t v);
/* The float tensor of a constant, or NULL. */
const struct tensor *fuse_f32(const struct op *op, uint32_t slot);

/* fuse_conv.c */
int fuse_affine(struct fuser *f, struct op *conv, struct op *next, bool *done);
int fuse_hardswish(struct fuser *f, struct op *mul);
/* fuse_contrib.c: the activation of FusedConv and FusedGemm. */
int fuse_contrib(struct fuser *f, struct op *op);
/* fuse_q8.c: what lies between DequantizeLinear and QuantizeLinear. */
int fuse_q8(struct fuser *f);
/* QLinearConv, and QLinearAdd after it. */
int fuse_residuals(struct fuser *f);
/* MatMulInteger and ConvInteger with the scaling after them. */
int fuse_integer(struct fuser *f);
/* fuse_attention.c */
int fuse_attention(struct fuser *f, struct op *softmax);
/* fuse_gelu.c */
int fuse_gelu(struct fuser *f, struct op *erf);
int fuse_gelu_tanh(struct fuser *f, struct op *tanh);

#endif
