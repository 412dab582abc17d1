/* fuse_q8.c -- operators between DequantizeLinear and QuantizeLinear become 8-bit ones, and
 * products of integers take over the scaling that follows them.
 *
 * The fused operator takes the place of the last one in its chain, where everything that it reads
 * is there. A DequantizeLinear whose value nobody else reads goes away with it. */
#include "engine/native/layout/nhwc.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/rewrite/fuse_q8_int.h"

#include <math.h>
#include <string.h>

bool q8_is(const struct op *op, const char *type)
{
    return op && op->kernel && !op->type && strcmp(op->node->op_type, type) == 0 &&
           (op->node->domain[0] == '\0' || strcmp(op->node->domain, "com.microsoft") == 0);
}

struct op *q8_dequantizer(const struct fuser *f, uint32_t v)
{
    struct op *d = fuse_maker(f, v);
    enum tensor_type t;

    if (!q8_is(d, "DequantizeLinear") || d->nin < 2 || d->in[0] >= f->p->graph->nvalue ||
        !kernel_const(d, 1) || kernel_const(d, 1)->type != TENSOR_F32 ||
        (kernel_in(d, 2) && !kernel_const(d, 2)) || node_attr_int(d->node, "block_size", 0))
        return NULL;
    t = kernel_const(d, 0) ? kernel_const(d, 0)->type : f->p->graph->value[d->in[0]].type;
    return t == TENSOR_U8 || t == TENSOR_I8 || t == TENSOR_I32 ? d : NULL;
}

bool q8_of_8_bits(const struct fuser *f, const struct op *d)
{
    enum tensor_type t =
        kernel_const(d, 0) ? kernel_const(d, 0)->type : f->p->graph->value[d->in[0]].type;

    return t == TENSOR_U8 || t == TENSOR_I8;
}

bool q8_per_tensor(const struct op *d)
{
    return kernel_const(d, 1)->count == 1;
}

/* Per tensor, or n scales along `axis`. */
static bool scaled_along(const struct op *d, int axis, int rank, int64_t n)
{
    return q8_per_tensor(d) || (kernel_const(d, 1)->count == n &&
                                nt_axis(node_attr_int(d->node, "axis", 1), rank) == axis);
}

uint32_t q8_slot(const struct op *op, uint32_t i)
{
    return i < op->nin ? op->in[i] : NO_VALUE;
}

int q8_zero_slot(struct fuser *f, const struct op *q, uint32_t *out)
{
    static const int8_t none = 0;
    static const struct tensor zero = { "", TENSOR_I8, { 0 }, 1, &none, 1, false };
    struct val *v;

    *out = q8_slot(q, 2);
    if (*out != NO_VALUE || node_attr_int(q->node, "output_dtype", 0) != TENSOR_I8)
        return 0;
    *out = plan_add_val(f->p);
    if (*out == NO_VALUE)
        return OPM_ENOMEM;
    v = &f->p->val[*out];
    v->kind = VAL_CONST;
    v->fixed = true;
    v->src = &zero;
    v->t = (struct nt){ .type = zero.type, .count = 1, .bytes = 1 };
    return 0;
}

void q8_drop(struct q8_chain *c, struct op *d)
{
    if (fuse_only(c->f, d->out[0]) && c->ngone < Q8_GONE_MAX)
        c->gone[c->ngone++] = d;
}

static bool is_clamp(const struct op *op, struct post *post)
{
    return (unary_as_post(op, post) && post->unary == U_RELU) || clip_as_post(op, post);
}

bool q8_quantizes(const struct op *q)
{
    const struct tensor *scale, *zero;

    if (!q8_is(q, "QuantizeLinear"))
        return false;
    scale = kernel_const(q, 1);
    zero = kernel_const(q, 2);
    return scale && scale->type == TENSOR_F32 && scale->count == 1 &&
           node_attr_int(q->node, "output_dtype", 0) <= TENSOR_I8 &&
           !node_attr_int(q->node, "block_size", 0) &&
           (!kernel_in(q, 2) || (zero && zero->count == 1 && (TYPE_BIT(zero->type) & TYPES_Q8)));
}

struct op *q8_quantizer(struct q8_chain *c, bool clamps)
{
    struct op *at = c->main, *next;
    struct post post;

    c->npost = 0;
    for (;;) {
        next = fuse_follower(c->f, at);
        if (!next || !next->kernel || !clamps || next->type || c->npost >= POST_MAX ||
            next->in[0] != at->out[0] || !is_clamp(next, &post))
            break;
        c->post[c->npost++] = post;
        c->gone[c->ngone++] = at;
        at = next;
    }
    if (!next || !q8_quantizes(next) || next->in[0] != at->out[0])
        return NULL;
    c->gone[c->ngone++] = at;
    c->last = next;
    c->y_scale = next->in[1];
    if (q8_zero_slot(c->f, next, &c->y_zero))
        return NULL; /* not fused is not wrong */
    return next;
}

struct q8_chain q8_chain_of(struct fuser *f, struct op *op)
{
    return (
        struct q8_chain){ .f = f, .main = op, .last = op, .y_scale = NO_VALUE, .y_zero = NO_VALUE };
}

int q8_become(struct q8_chain *c, const struct kernel *k, const char *type, const uint32_t *in,
              uint32_t nin)
{
    const struct node *node = c->main->node;
    int rc;

    rc = fuse_become(c->f, c->last, k, type, in, nin, c->gone, c->ngone);
    c->last->node = node;
    memcpy(c->last->post, c->post, sizeof(c->post));
    c->last->npost = c->npost;
    fuse_links(c->f);
    return rc;
}

/* The bias is in units of the products. */
static bool bias_fits(const struct op *b, const struct op *x, const struct op *w)
{
    const struct tensor *bs = kernel_const(b, 1), *xs = kernel_const(x, 1),
                        *ws = kernel_const(w, 1), *bias = kernel_const(b, 0);
    const struct tensor *zero = kernel_const(b, 2);

    if (bias->type != TENSOR_I32 || (bs->count != 1 && bs->count != bias->count) ||
        (ws->count != 1 && ws->count != bias->count))
        return false;
    for (int64_t i = 0; zero && i < zero->count; i++)
        if (tensor_int(zero, i))
            return false;
    for (int64_t i = 0; i < bias->count; i++) {
        double want = tensor_float(xs, 0) * tensor_float(ws, ws->count == 1 ? 0 : i),
               have = tensor_float(bs, bs->count == 1 ? 0 : i);

        if (!(fabs(have - want) <= 1e-6 * fabs(want)))
            return false;
    }
    return true;
}

/* A bias of n numbers: integers as they are where they count products, else the floats. */
struct bias {
    uint32_t value; /* NO_VALUE: none */
    struct op *d;   /* the DequantizeLinear that is not needed then, or NULL */
};

static bool find_bias(struct fuser *f, uint32_t v, const struct op *x, const struct op *w,
                      int64_t n, struct bias *out)
{
    const struct tensor *t;

    *out = (struct bias){ v, NULL };
    if (v == NO_VALUE)
        return true;
    if (v >= f->p->graph->nvalue)
        return false;
    if (f->p->val[v].kind == VAL_CONST)
        return f->p->val[v].t.type == TENSOR_F32 && f->p->val[v].t.shape.rank == 1 &&
               f->p->val[v].t.count == n;
    out->d = q8_dequantizer(f, v);
    t = out->d ? kernel_const(out->d, 0) : NULL;
    if (!t || t->shape.rank != 1 || t->count != n)
        return false;
    if (bias_fits(out->d, x, w))
        out->value = out->d->in[0];
    else
        out->d = NULL;
    return true;
}

static int fuse_conv(struct fuser *f, struct op *op)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *x = q8_dequantizer(f, op->in[0]), *w = q8_dequantizer(f, q8_slot(op, 1));
    const struct tensor *weights = w ? kernel_const(w, 0) : NULL;
    struct bias b;

    if (!x || !q8_of_8_bits(f, x) || !q8_per_tensor(x) || !weights || !q8_of_8_bits(f, w) ||
        weights->shape.rank < 3 || weights->shape.rank > 4 ||
        !scaled_along(w, 0, weights->shape.rank, weights->shape.dim[0]) ||
        !find_bias(f, q8_slot(op, 2), x, w, weights->shape.dim[0], &b) || !q8_quantizer(&c, true))
        return 0;
    q8_drop(&c, x);
    q8_drop(&c, w);
    if (b.d)
        q8_drop(&c, b.d);
    return q8_become(&c, kernel_form(KERNEL_qconv, QCONV_LINEAR), "QLinearConv",
                     (uint32_t[]){ x->in[0], x->in[1], q8_slot(x, 2), w->in[0], w->in[1],
                                   q8_slot(w, 2), c.y_scale, c.y_zero, b.value },
                     9);
}

static int fuse_gemm(struct fuser *f, struct op *op)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *x = q8_dequantizer(f, op->in[0]), *w = q8_dequantizer(f, q8_slot(op, 1));
    const struct tensor *weights = w ? kernel_const(w, 0) : NULL;
    int columns = !node_attr_int(op->node, "transB", 0);
    struct bias b;

    if (!x || !q8_of_8_bits(f, x) || !q8_per_tensor(x) || !weights || !q8_of_8_bits(f, w) ||
        weights->shape.rank != 2 || !scaled_along(w, columns, 2, weights->shape.dim[columns]) ||
        node_attr_float(op->node, "alpha", 1) != 1 || node_attr_float(op->node, "beta", 1) != 1 ||
        !find_bias(f, q8_slot(op, 2), x, w, weights->shape.dim[columns], &b))
        return 0;
    if (!q8_quantizer(&c, true))
        c = q8_chain_of(f, op);
    q8_drop(&c, x);
    q8_drop(&c, w);
    if (b.d)
        q8_drop(&c, b.d);
    return q8_become(&c, kernel_form(KERNEL_qmatmul, QMM_GEMM), "QGemm",
                     (uint32_t[]){ x->in[0], x->in[1], q8_slot(x, 2), w->in[0], w->in[1],
                                   q8_slot(w, 2), b.value, c.y_scale, c.y_zero },
                     9);
}

static int fuse_matmul(struct fuser *f, struct op *op)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *a = q8_dequantizer(f, op->in[0]), *b = q8_dequantizer(f, q8_slot(op, 1)), *q;
    const struct tensor *weights = b ? kernel_const(b, 0) : NULL;

    if (!a || !b || a == b || !q8_of_8_bits(f, a) || !q8_of_8_bits(f, b) || !q8_per_tensor(a) ||
        !(q8_per_tensor(b) ||
          (weights && weights->shape.rank == 2 && scaled_along(b, 1, 2, weights->shape.dim[1]))))
        return 0;
    q = q8_quantizer(&c, true);
    if (!q)
        c = q8_chain_of(f, op);
    q8_drop(&c, a);
    q8_drop(&c, b);
    if (!q)
        return q8_become(
            &c, kernel_form(KERNEL_qmatmul, QMM_TO_FLOAT), "MatMulIntegerToFloat",
            (uint32_t[]){ a->in[0], b->in[0], a->in[1], b->in[1], q8_slot(a, 2), q8_slot(b, 2) },
            6);
    return q8_become(&c, kernel_form(KERNEL_qmatmul, QMM_LINEAR), "QLinearMatMul",
                     (uint32_t[]){ a->in[0], a->in[1], q8_slot(a, 2), b->in[0], b->in[1],
                                   q8_slot(b, 2), c.y_scale, c.y_zero },
                     8);
}

static int fuse_binary(struct fuser *f, struct op *op, enum qelem_kind what, const char *type)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *a = q8_dequantizer(f, op->in[0]), *b = q8_dequantizer(f, q8_slot(op, 1)), *q;

    if (!a || !b || a == b || !q8_of_8_bits(f, a) || !q8_of_8_bits(f, b) || !q8_per_tensor(a) ||
        !q8_per_tensor(b) || op->node->opset < 7)
        return 0;
    q = q8_quantizer(&c, true);
    if (!q)
        return 0;
    q8_drop(&c, a);
    q8_drop(&c, b);
    return q8_become(&c, kernel_form(KERNEL_qbinary, (int)what), type,
                     (uint32_t[]){ a->in[0], a->in[1], q8_slot(a, 2), b->in[0], b->in[1],
                                   q8_slot(b, 2), c.y_scale, c.y_zero },
                     8);
}

/* What d reads is of the type that q makes. */
static bool same_type(const struct fuser *f, const struct op *d, const struct op *q)
{
    const struct graph *g = f->p->graph;

    return q && q->nout && q->out[0] < g->nvalue &&
           g->value[d->in[0]].type == g->value[q->out[0]].type;
}

/* One operand: an activation, a pool, softmax. */
static int fuse_unary(struct fuser *f, struct op *op, const struct kernel *k, const char *type)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *x = q8_dequantizer(f, op->in[0]), *q;
    struct post post;
    bool posts = strcmp(type, "QLinearUnary") == 0;

    if (!x || !q8_of_8_bits(f, x) || !q8_per_tensor(x))
        return 0;
    if (k->kind == KERNEL_qpool && !same_type(f, x, fuse_follower(f, op)))
        return 0;
    if (posts && !unary_as_post(op, &post) && !clip_as_post(op, &post))
        return 0;
    q = q8_quantizer(&c, false);
    if (!q)
        return 0;
    if (posts) {
        c.post[0] = post;
        c.npost = 1;
    }
    q8_drop(&c, x);
    return q8_become(&c, k, type,
                     (uint32_t[]){ x->in[0], x->in[1], q8_slot(x, 2), c.y_scale, c.y_zero }, 5);
}

/* Scale and zero point at slot i of one operator are those at slot k of another. */
static bool same_scale(const struct op *a, uint32_t i, const struct op *b, uint32_t k)
{
    const struct tensor *az = kernel_const(a, i + 1), *bz = kernel_const(b, k + 1);

    return tensor_float(kernel_const(a, i), 0) == tensor_float(kernel_const(b, k), 0) &&
           (az ? tensor_int(az, 0) : 0) == (bz ? tensor_int(bz, 0) : 0) &&
           (az ? az->type : TENSOR_U8) == (bz ? bz->type : TENSOR_U8);
}

/* Softmax as the 8-bit kernel has it: over the last axis. */
static bool last_axis(const struct fuser *f, const struct op *op)
{
    const struct shape *s =
        op->in[0] < f->p->graph->nvalue ? &f->p->graph->value[op->in[0]].shape : NULL;

    return s && op->node->opset >= 13 && s->rank > 0 &&
           nt_axis(node_attr_int(op->node, "axis", -1), s->rank) == s->rank - 1;
}

static int fuse_one(struct fuser *f, struct op *op)
{
    if (fuse_is(op, "MaxPool") && op->nin && op->in[0] < f->p->graph->nvalue &&
        (TYPE_BIT(f->p->graph->value[op->in[0]].type) & TYPES_Q8))
        return fuse_q8_max(f, op);
    if (op->type || !op->nin || op->in[0] == NO_VALUE || !fuse_maker(f, op->in[0]) ||
        !q8_is(fuse_maker(f, op->in[0]), "DequantizeLinear"))
        return 0;
    if (fuse_is(op, "Conv"))
        return fuse_conv(f, op);
    if (fuse_is(op, "Gemm"))
        return fuse_gemm(f, op);
    if (fuse_is(op, "MatMul"))
        return fuse_matmul(f, op);
    if (fuse_is(op, "Add"))
        return fuse_binary(f, op, QELEM_ADD, "QLinearAdd");
    if (fuse_is(op, "Mul"))
        return fuse_binary(f, op, QELEM_MUL, "QLinearMul");
    if (fuse_is(op, "GlobalAveragePool"))
        return fuse_unary(f, op, kernel_form(KERNEL_qpool, QPOOL_GLOBAL),
                          "QLinearGlobalAveragePool");
    if (q8_is_mean(f, op))
        return fuse_unary(f, op, kernel_form(KERNEL_qpool, QPOOL_MEAN), "QLinearReduceMean");
    if (fuse_is(op, "AveragePool"))
        return fuse_unary(f, op, kernel_form(KERNEL_qpool, QPOOL_AVERAGE), "QLinearAveragePool");
    if (fuse_is(op, "Softmax") && last_axis(f, op))
        return fuse_unary(f, op, kernel_form(KERNEL_qsoftmax, 0), "QLinearSoftmax");
    if (q8_moves(op))
        return fuse_q8_move(f, op);
    return fuse_unary(f, op, kernel_form(KERNEL_qunary, QELEM_POSTS), "QLinearUnary");
}

/* One constant number, or none where there may be none. */
static bool one_number(const struct op *op, uint32_t i, bool needed)
{
    return q8_slot(op, i) == NO_VALUE ? !needed
                                      : kernel_const(op, i) && kernel_const(op, i)->count == 1;
}

/* Of bytes, and known to be of the same shape. */
static bool same_bytes(const struct fuser *f, uint32_t a, uint32_t b)
{
    const struct value *x = &f->p->graph->value[a], *y = &f->p->graph->value[b];

    return (TYPE_BIT(x->type) & TYPES_Q8) && (TYPE_BIT(y->type) & TYPES_Q8) &&
           (x->shape.rank == 3 || x->shape.rank == 4) && shape_equal(&x->shape, &y->shape);
}

/* QLinearAdd of a convolution and something else: added while the sums are in registers. */
static int fuse_residual(struct fuser *f, struct op *add, uint32_t side)
{
    struct op *conv = fuse_maker(f, add->in[side]);
    uint32_t other = 3 - side, in[NCONV_N];
    const struct node *node;
    int rc;

    if (!conv || conv->kernel->kind != KERNEL_qconv || conv->kernel->arg != QCONV_LINEAR ||
        conv->npost || node_attr_int(conv->node, "group", 1) != 1 || !fuse_only(f, add->in[side]) ||
        add->in[other] >= f->p->graph->nvalue || conv->in[0] >= f->p->graph->nvalue ||
        !fuse_maker(f, add->in[other]) || add->npost >= POST_MAX ||
        !same_bytes(f, add->in[side], add->in[other]) ||
        !(TYPE_BIT(f->p->graph->value[conv->in[0]].type) & TYPES_Q8) || !nhwc_conv_fits(conv))
        return 0;
    for (uint32_t i = 1; i < 8; i++)
        if (i != 3 && !one_number(add, i, i == 1 || i == 4 || i == 6))
            return 0;
    if (!same_scale(conv, 6, add, side + 1) || !nhwc_add_fits(add, 1, 4, 6))
        return 0;
    for (uint32_t i = 0; i < NCONV_ADD; i++)
        in[i] = q8_slot(conv, i);
    for (uint32_t i = 0; i < 3; i++)
        in[NCONV_ADD + i] = q8_slot(add, other + i);
    in[NCONV_SUM_SCALE] = add->in[6];
    in[NCONV_SUM_ZERO] = q8_slot(add, 7);
    node = conv->node;
    rc = fuse_become(f, add, kernel_form(KERNEL_nconv, side ? NCONV_SECOND : NCONV_FIRST),
                     "QLinearConv", in, NCONV_N, &conv, 1);
    add->node = node;
    memmove(add->post + 1, add->post, (size_t)add->npost * sizeof(*add->post));
    add->post[0] = (struct post){ POST_ADD, U_RELU, 0, 0, NCONV_ADD };
    add->npost++;
    fuse_links(f);
    return rc;
}

int fuse_residuals(struct fuser *f)
{
    int rc = 0;

    for (uint32_t i = 0; i < f->p->nop && !rc; i++)
        for (uint32_t side = 0; side <= 3 && !rc; side += 3) {
            struct op *op = &f->p->op[i];

            if (op->kernel && op->kernel->kind == KERNEL_qbinary && op->kernel->arg == QELEM_ADD &&
                op->nin >= 7)
                rc = fuse_residual(f, op, side);
        }
    return rc;
}

int fuse_q8(struct fuser *f)
{
    struct plan *p = f->p;
    int rc = 0;

    q8_skip_identities(f);
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (p->op[i].kernel && p->op[i].nout && p->op[i].out[0] != NO_VALUE) {
            rc = fuse_q8_blocks(f, &p->op[i]);
            if (!rc)
                rc = fuse_one(f, &p->op[i]);
        }
    if (!rc)
        rc = fuse_q8_shuffles(f);
    /* Those that several operators read, none of which is left. */
    for (uint32_t i = 0; i < p->nop && !rc; i++)
        if (q8_is(&p->op[i], "DequantizeLinear") && p->op[i].out[0] != NO_VALUE &&
            f->uses[p->op[i].out[0]] == 0)
            op_release(&p->op[i]);
    return rc;
}

/* One number, or one for each of n channels along `axis` counted from the last. */
static bool scales_channels(const struct fuser *f, uint32_t v, int axis, int64_t n)
{
    const struct shape *s;

    if (v >= f->p->graph->nvalue || !fuse_real(f, v))
        return false;
    s = &f->p->graph->value[v].shape;
    if (shape_count(s) == 1)
        return true;
    return shape_count(s) == n && s->rank > axis && s->dim[s->rank - 1 - axis] == n;
}

/* As float, times a scale, plus a bias, and an activation. */
static int fuse_scaled(struct fuser *f, struct op *op, bool conv)
{
    struct q8_chain c = q8_chain_of(f, op);
    const struct tensor *w = kernel_const(op, 1);
    struct op *cast = fuse_follower(f, op), *mul, *next;
    uint32_t
        in[6] = { op->in[0], q8_slot(op, 1), q8_slot(op, 2), q8_slot(op, 3), NO_VALUE, NO_VALUE },
        nin = 5, bias;
    struct post post;
    int axis = 0;
    int64_t n;

    if (!w || !cast || !fuse_is(cast, "Cast") || node_attr_int(cast->node, "to", 0) != TENSOR_F32 ||
        (conv ? w->shape.rank < 3 || w->shape.rank > 4 : w->shape.rank != 2))
        return 0;
    n = w->shape.dim[conv ? 0 : 1];
    axis = conv ? w->shape.rank - 2 : 0;
    mul = fuse_follower(f, cast);
    if (!mul || !fuse_is(mul, "Mul") || mul->node->opset < 7)
        return 0;
    in[4] = fuse_other(mul, cast->out[0]);
    if (in[4] == NO_VALUE || in[4] == cast->out[0] || !scales_channels(f, in[4], axis, n))
        return 0;
    c.gone[c.ngone++] = op;
    c.gone[c.ngone++] = cast;
    c.last = mul;
    next = fuse_follower(f, mul);
    if (next && fuse_is(next, "Add") && next->node->opset >= 7) {
        bias = fuse_other(next, mul->out[0]);
        if (bias != NO_VALUE && bias != mul->out[0] && scales_channels(f, bias, axis, n) &&
            shape_count(&f->p->graph->value[bias].shape) == n) {
            in[nin] = bias;
            c.post[c.npost++] = (struct post){ POST_BIAS, U_RELU, 0, 0, (int)nin++ };
            c.gone[c.ngone++] = c.last;
            c.last = next;
            next = fuse_follower(f, next);
        }
    }
    if (next && next->kernel && next->npost == 0 && next->nin && next->in[0] == c.last->out[0] &&
        (unary_as_post(next, &post) || clip_as_post(next, &post))) {
        c.post[c.npost++] = post;
        c.gone[c.ngone++] = c.last;
        c.last = next;
    }
    return conv ? q8_become(&c, kernel_form(KERNEL_qconv, QCONV_SCALED), "ConvIntegerScaled", in,
                            nin)
                : q8_become(&c, kernel_form(KERNEL_qmatmul, QMM_SCALED), "MatMulIntegerScaled", in,
                            nin);
}

int fuse_integer(struct fuser *f)
{
    int rc = 0;

    for (uint32_t i = 0; i < f->p->nop && !rc; i++) {
        struct op *op = &f->p->op[i];

        if (fuse_is(op, "MatMulInteger"))
            rc = fuse_scaled(f, op, false);
        else if (fuse_is(op, "ConvInteger"))
            rc = fuse_scaled(f, op, true);
    }
    return rc;
}
