/* fuse_conv.c -- what follows convolutions: factors and terms per channel that go into the weights,
 * and HardSwish in several nodes. */
#include "engine/native/op/elementwise.h"
#include "engine/native/rewrite/fuse_int.h"

#include <math.h>
#include <string.h>

/* A constant of our own: val.src stays NULL, the data is in val.own. */
static float *new_const(struct plan *p, const struct shape *s, uint32_t *out)
{
    uint32_t v = plan_add_val(p);
    int64_t bytes = shape_bytes(s, TENSOR_F32);

    if (v == NO_VALUE || bytes < 0 || val_own(&p->val[v], (size_t)bytes))
        return NULL;
    p->val[v].kind = VAL_KNOWN;
    p->val[v].fixed = true;
    p->val[v].t =
        (struct nt){ TENSOR_F32, *s, shape_count(s), (size_t)bytes, p->val[v].own, VALUE_TENSOR };
    *out = v;
    return p->val[v].own;
}

static bool has_own(const struct fuser *f, const struct op *conv)
{
    return conv->in[1] != NO_VALUE && conv->in[1] >= f->p->graph->nvalue;
}

/* Weights and bias of a convolution as constants of our own, to be changed. */
static int own_weights(struct fuser *f, struct op *conv, float **weights, float **bias)
{
    const struct tensor *w = fuse_f32(conv, 1), *b = fuse_f32(conv, 2);
    struct shape bs = { .rank = 1 };
    uint32_t wv, bv;

    if (has_own(f, conv)) {
        *weights = f->p->val[conv->in[1]].own;
        *bias = f->p->val[conv->in[2]].own;
        return 0;
    }
    if (val_widen(&f->p->val[conv->in[1]]) || (b && val_widen(&f->p->val[conv->in[2]])))
        return OPM_ENOMEM;
    bs.dim[0] = w->shape.dim[0];
    *weights = new_const(f->p, &w->shape, &wv);
    *bias = *weights ? new_const(f->p, &bs, &bv) : NULL;
    if (!*bias)
        return OPM_ENOMEM;
    tensor_read_f32(w, 0, w->count, *weights);
    if (b)
        tensor_read_f32(b, 0, b->count, *bias);
    else
        memset(*bias, 0, (size_t)bs.dim[0] * sizeof(float));
    conv->in[1] = wv;
    if (conv->nin > 2)
        conv->in[2] = bv;
    else if (fuse_input(conv, 2, bv) < 0)
        return OPM_ENOMEM;
    return 0;
}

/* y * scale + shift for each channel, from constants; NULL: 1, 0, 0, no division. */
struct affine {
    const struct tensor *scale, *shift, *mean, *var;
    double eps;
};

static void affine_at(const struct affine *a, int64_t c, double *scale, double *shift)
{
    *scale = a->scale ? tensor_float(a->scale, a->scale->count == 1 ? 0 : c) : 1;
    if (a->var)
        *scale /= sqrt(tensor_float(a->var, c) + a->eps);
    *shift = a->shift ? tensor_float(a->shift, a->shift->count == 1 ? 0 : c) : 0;
    if (a->mean)
        *shift -= tensor_float(a->mean, c) * *scale;
}

/* The constant operand beside `mid` that is a number, or one for each channel of N x C x ... */
static const struct tensor *channel_const(const struct op *op, uint32_t mid, int64_t channels,
                                          int32_t rank)
{
    const struct tensor *t = fuse_f32(op, op->in[0] == mid);
    int32_t at = t ? t->shape.rank - (rank - 1) : -1;

    if (!t || !t->data || op->node->opset < 7 || op->nin != 2 || t->shape.rank > rank)
        return NULL;
    if (t->count == 1)
        return t;
    return t->count == channels && at >= 0 && at < t->shape.rank && t->shape.dim[at] == channels
               ? t
               : NULL;
}

static bool as_affine(const struct op *conv, const struct op *next, struct affine *a)
{
    const struct shape *w = &kernel_in(conv, 1)->shape;
    uint32_t mid = conv->out[0];

    *a = (struct affine){ 0 };
    if (fuse_is(next, "Mul")) {
        a->scale = channel_const(next, mid, w->dim[0], w->rank);
        return a->scale;
    }
    if (fuse_is(next, "Add")) {
        a->shift = channel_const(next, mid, w->dim[0], w->rank);
        return a->shift;
    }
    if (!fuse_is(next, "BatchNormalization") || next->nin < 5 || next->in[0] != mid ||
        node_attr_int(next->node, "training_mode", 0))
        return false;
    a->scale = fuse_f32(next, 1);
    a->shift = fuse_f32(next, 2);
    a->mean = fuse_f32(next, 3);
    a->var = fuse_f32(next, 4);
    a->eps = (double)node_attr_float(next->node, "epsilon", 1e-5f);
    return a->scale && a->shift && a->mean && a->var && a->scale->count == w->dim[0] &&
           a->shift->count == w->dim[0] && a->mean->count == w->dim[0] &&
           a->var->count == w->dim[0];
}

/* A product, sum or BatchNormalization after conv becomes other weights and another bias. */
int fuse_affine(struct fuser *f, struct op *conv, struct op *next, bool *done)
{
    const struct tensor *w = fuse_f32(conv, 1), *b = fuse_f32(conv, 2);
    struct affine a;
    int64_t oc, per;
    float *weights, *bias;
    int rc;

    *done = false;
    if (!has_own(f, conv) && (!w || w->shape.rank < 3 || w->count == 0 ||
                              (kernel_in(conv, 2) && (!b || b->count != w->shape.dim[0]))))
        return 0;
    if (!as_affine(conv, next, &a))
        return 0;
    rc = own_weights(f, conv, &weights, &bias);
    if (rc)
        return rc;
    oc = kernel_in(conv, 1)->shape.dim[0];
    per = kernel_in(conv, 1)->count / oc;
    for (int64_t c = 0; c < oc; c++) {
        double scale, shift;

        affine_at(&a, c, &scale, &shift);
        for (int64_t i = 0; i < per && scale != 1; i++)
            weights[c * per + i] = (float)((double)weights[c * per + i] * scale);
        bias[c] = (float)((double)bias[c] * scale + shift);
    }
    conv->folded_batchnorm = conv->folded_batchnorm || a.var;
    *done = true;
    return fuse_absorb(f, conv, next);
}

/* The value x of which v is clip(x + 3, 0, 6), and its two operators; NO_VALUE if it is not. */
static uint32_t relu6_of(const struct fuser *f, uint32_t v, struct op **gone)
{
    struct op *clip = fuse_maker(f, v), *add;
    struct post post;
    uint32_t x;
    float s;

    if (!clip || !clip->kernel || !fuse_only(f, v) || !clip_as_post(clip, &post) ||
        post.alpha != 0 || post.beta != 6)
        return NO_VALUE;
    add = fuse_maker(f, clip->in[0]);
    if (!add || !fuse_is(add, "Add") || !fuse_only(f, clip->in[0]) ||
        !fuse_by_scalar(add, &s, &x) || s != 3)
        return NO_VALUE;
    gone[0] = add;
    gone[1] = clip;
    return x;
}

/* x * clip(x + 3, 0, 6) / 6, the division before or after the product; x * hardsigmoid(x). */
int fuse_hardswish(struct fuser *f, struct op *mul)
{
    const struct kernel *k = kernel_form(KERNEL_unary, UN_HARDSWISH);

    for (int i = 0; i < 2 && fuse_real(f, mul->out[0]); i++) {
        uint32_t x = mul->in[!i], v = mul->in[i];
        struct op *gone[3], *d = fuse_maker(f, v), *next = fuse_follower(f, mul);
        float s;

        if (d && fuse_is(d, "HardSigmoid") && fuse_only(f, v) && d->in[0] == x &&
            fuse_near(node_attr_float(d->node, "alpha", 0.2f), 1.0 / 6) &&
            node_attr_float(d->node, "beta", 0.5f) == 0.5f)
            return fuse_become(f, mul, k, "HardSwish", &x, 1, &d, 1);
        if (d && fuse_is(d, "Div") && fuse_only(f, v) && fuse_scalar(d, 1, &s) && s == 6 &&
            relu6_of(f, d->in[0], gone) == x) {
            gone[2] = d;
            return fuse_become(f, mul, k, "HardSwish", &x, 1, gone, 3);
        }
        if (next && fuse_is(next, "Div") && next->in[0] == mul->out[0] &&
            fuse_scalar(next, 1, &s) && s == 6 && relu6_of(f, v, gone) == x) {
            gone[2] = mul;
            return fuse_become(f, next, k, "HardSwish", &x, 1, gone, 3);
        }
    }
    return 0;
}
