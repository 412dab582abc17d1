/* layout.c -- which values are kept channel-blocked (blocked_isa.h), or if of 8 bits with their
 * channels last (nhwc.h); called blocked as well here.
 *
 * Convolutions are what it pays for: each that can be is computed on blocked tensors, and what
 * follows it stays blocked as long as its operators have a blocked form. In the plan a graph's
 * value always means the plain tensor; its blocked form is a value of the plan's own. An operator
 * that moves a value from one to the other is put in front of the first reader that needs it. */
#include "engine/native/isa/half.h"
#include "engine/native/layout/blocked_conv.h"
#include "engine/native/layout/blocked_ops.h"
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/rewrite/layout_int.h"

#include <string.h>

/* In the form of floats. */
static bool is_blocked(const struct layout *l, uint32_t v)
{
    return layout_blocked(l, v) && !l->last[v];
}

/* Only output 0 is asked for. */
static bool one_output(const struct op *op)
{
    for (uint32_t i = 1; i < op->nout; i++)
        if (op->out[i] != NO_VALUE)
            return false;
    return op->nout && op->out[0] != NO_VALUE && op->out[0] < op->plan->graph->nvalue;
}

/* The shape of an input that is the same float tensor in all runs, or NULL. */
static const struct shape *fixed_shape(const struct layout *l, const struct op *op, uint32_t i)
{
    const struct value *v;

    if (kernel_fixed(op, i))
        return kernel_in(op, i)->type == TENSOR_F32 ? &kernel_in(op, i)->shape : NULL;
    if (i >= op->nin || op->in[i] >= l->p->graph->nvalue || !l->fixed[op->in[i]])
        return NULL;
    v = &l->p->graph->value[op->in[i]];
    return half_inside(v->type) == TENSOR_F32 && shape_concrete(&v->shape) ? &v->shape : NULL;
}

static bool is_fixed(const struct layout *l, const struct op *op, uint32_t i)
{
    return kernel_fixed(op, i) || (op->in[i] < l->p->graph->nvalue && l->fixed[op->in[i]]);
}

/* What is added to or multiplied with the output must be of its shape, so it can be blocked. */
static bool posts_fit(const struct layout *l, const struct op *op)
{
    for (int i = 0; i < op->npost; i++)
        if (op->post[i].kind == POST_BIAS ||
            (op->post[i].slot >= 0 && (op->in[op->post[i].slot] >= op->plan->graph->nvalue ||
                                       is_fixed(l, op, (uint32_t)op->post[i].slot))))
            return false;
    return true;
}

static int64_t conv_channels(const struct layout *l, const struct op *op)
{
    const struct value *in =
        op->in[0] < l->p->graph->nvalue ? &l->p->graph->value[op->in[0]] : NULL;
    const struct shape *w = op->nin > 1 ? fixed_shape(l, op, 1) : NULL;

    if (op->kernel->kind != KERNEL_conv || op->nin < 2 || !in ||
        half_inside(in->type) != TENSOR_F32 || is_fixed(l, op, 0) || !w ||
        (kernel_in(op, 2) && !fixed_shape(l, op, 2)) || !posts_fit(l, op) ||
        !blk_conv_fits(op, w, l->block))
        return 0;
    return w->dim[0];
}

/* ReduceMean over exactly the spatial dimensions, which stay with size 1. */
static bool is_global_mean(const struct layout *l, const struct op *op)
{
    const struct tensor *t = kernel_const(op, 1);
    int32_t rank = l->rank[op->in[0]];
    size_t n;
    const int64_t *attr = node_attr_ints(op->node, "axes", &n);
    uint32_t seen = 0;

    if (!node_is(op->node, "ReduceMean") || !node_attr_int(op->node, "keepdims", 1))
        return false;
    if (!n && t && t->type == TENSOR_I64)
        n = (size_t)t->count;
    for (size_t i = 0; i < n; i++) {
        int axis = nt_axis(t ? tensor_int(t, (int64_t)i) : attr[i], rank);

        if (axis < 2)
            return false;
        seen |= 1u << axis;
    }
    return seen == (1u << rank) - 4;
}

static int64_t pool_channels(const struct layout *l, const struct op *op)
{
    size_t n;
    const int64_t *kernel = node_attr_ints(op->node, "kernel_shape", &n);

    if (node_is(op->node, "GlobalAveragePool") || is_global_mean(l, op))
        return l->channels[op->in[0]];
    if ((!node_is(op->node, "MaxPool") && !node_is(op->node, "AveragePool")) || n < 1 || n > 2 ||
        (n == 2 && kernel[0] > BLK_POOL_ROWS))
        return 0;
    return l->channels[op->in[0]];
}

/* A constant that is a scalar, or has one number for each of `channels` of a tensor of `rank`. */
static bool per_channel(const struct layout *l, const struct op *op, uint32_t i, int64_t channels,
                        int32_t rank)
{
    const struct shape *s = fixed_shape(l, op, i);
    int32_t at = s ? s->rank - (rank - 1) : -1; /* dimension that meets the channels */

    if (!s)
        return false;
    if (shape_count(s) == 1)
        return s->rank <= rank;
    return shape_count(s) == channels && at >= 0 && at < s->rank && s->dim[at] == channels;
}

static int64_t binary_channels(const struct layout *l, const struct op *op)
{
    int64_t channels = 0;
    int32_t rank = 0;

    if (op->nin != 2 ||
        (op->kernel->kind != KERNEL_binary && op->kernel->kind != KERNEL_variadic) ||
        blk_binary_of(op) < 0 || op->node->opset < 7 || op->npost || op->in[0] == NO_VALUE ||
        op->in[1] == NO_VALUE)
        return 0;
    for (uint32_t i = 0; i < 2; i++)
        if (is_blocked(l, op->in[i])) {
            if (channels && channels != l->channels[op->in[i]])
                return 0;
            channels = l->channels[op->in[i]];
            rank = l->rank[op->in[i]];
        }
    for (uint32_t i = 0; i < 2; i++)
        if (!is_blocked(l, op->in[i]) && !per_channel(l, op, i, channels, rank))
            return 0;
    return channels;
}

static int64_t concat_channels(const struct layout *l, const struct op *op)
{
    int64_t axis = node_attr_int(op->node, "axis", 1), sum = 0;

    if (axis < 0)
        axis += l->rank[op->in[0]];
    if (axis != 1 || op->node->opset < 4)
        return 0;
    for (uint32_t i = 0; i < op->nin; i++) {
        if (op->in[i] == NO_VALUE || !layout_blocked(l, op->in[i]))
            return 0;
        sum += l->channels[op->in[i]];
    }
    return sum;
}

static int64_t resize_channels(const struct layout *l, const struct op *op)
{
    const struct value *out =
        op->out[0] < l->p->graph->nvalue ? &l->p->graph->value[op->out[0]] : NULL;
    bool nearest = node_attr_is(op->node, "mode", "nearest", "nearest");

    if (!out || (!nearest && !node_attr_is(op->node, "mode", "linear", "nearest")) ||
        (!nearest && node_attr_int(op->node, "antialias", 0)) ||
        node_attr_is(op->node, "coordinate_transformation_mode", "tf_crop_and_resize", "") ||
        out->shape.rank < 3 || out->shape.rank > 4 || out->shape.dim[1] != l->channels[op->in[0]])
        return 0;
    return l->channels[op->in[0]];
}

static int64_t convt_channels(const struct layout *l, const struct op *op)
{
    const struct value *in =
        op->in[0] < l->p->graph->nvalue ? &l->p->graph->value[op->in[0]] : NULL;
    const struct shape *w = op->nin > 1 ? fixed_shape(l, op, 1) : NULL;

    if (op->kernel->kind != KERNEL_convtranspose || !in || half_inside(in->type) != TENSOR_F32 ||
        is_fixed(l, op, 0) || !w || (kernel_in(op, 2) && !fixed_shape(l, op, 2)) ||
        node_attr_int(op->node, "group", 1) != 1 || w->rank < 3 || w->rank > 4 ||
        shape_count(w) == 0)
        return 0;
    return w->dim[1];
}

static bool norm_fits(const struct layout *l, const struct op *op)
{
    for (uint32_t i = 1; i < 5; i++)
        if (!fixed_shape(l, op, i))
            return false;
    return op->nin == 5 && !node_attr_int(op->node, "training_mode", 0);
}

/* The kernel and the channels of the output; NULL: stays plain. */
static const struct kernel *blocked_form(const struct layout *l, struct op *op, struct post *post,
                                         int64_t *channels)
{
    const struct kernel *k = op->kernel, *q8;

    if (op->nin == 0 || op->in[0] == NO_VALUE || !one_output(op))
        return NULL;
    *channels = conv_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_bconv, 0);
    q8 = layout_q8_form(l, op, channels);
    if (q8)
        return q8;
    *channels = convt_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_bconvt, *channels < l->block / 2 ? TO_PLAIN : TO_OWN_FORM);
    *channels = binary_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_bbinary, 0);
    if (!is_blocked(l, op->in[0]) || op->npost)
        return NULL;
    *channels = l->channels[op->in[0]];
    if (unary_as_post(op, post) || clip_as_post(op, post))
        return kernel_form(KERNEL_bunary, 0);
    if (k->kind == KERNEL_identity || (k->kind == KERNEL_dropout && !kernel_in(op, 2)))
        return kernel_form(KERNEL_bidentity, 0);
    if (k->kind == KERNEL_batchnorm && norm_fits(l, op))
        return kernel_form(KERNEL_bnorm, 0);
    *channels = pool_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_bpool, 0);
    *channels = k->kind == KERNEL_concat ? concat_channels(l, op) : 0;
    if (*channels)
        return kernel_form(KERNEL_bconcat, 0);
    *channels = k->kind == KERNEL_resize ? resize_channels(l, op) : 0;
    return *channels ? kernel_form(KERNEL_bresize, 0) : NULL;
}

static int new_value(struct layout *l, uint32_t of, uint32_t *out)
{
    *out = plan_add_val(l->p);
    if (*out == NO_VALUE)
        return OPM_ENOMEM;
    l->p->val[*out].blocked = true;
    l->p->val[*out].of = of;
    return 0;
}

/* An operator that moves value v of the graph from one form to the other, on behalf of a node. */
static int add_reorder(struct layout *l, const struct node *node, uint32_t v, bool to_plain)
{
    struct op *op;

    if (!GROW(l->op, l->cap, l->nop + 1))
        return OPM_ENOMEM;
    op = &l->op[l->nop++];
    *op = (struct op){ .plan = l->p, .node = node, .zero_ratio = -1, .epsilon = 0 };
    op->type = "Reorder";
    op->algorithm = to_plain ? "to plain" : l->last[v] ? "to channels last" : "to blocked";
    op->kernel = kernel_form(l->last[v] ? KERNEL_nreorder : KERNEL_reorder,
                             to_plain ? TO_PLAIN : TO_OWN_FORM);
    assert(op->kernel);
    op->in = mem_calloc(1, sizeof(*op->in));
    op->out = mem_calloc(1, sizeof(*op->out));
    if (!op->in || !op->out)
        return OPM_ENOMEM;
    op->in[0] = to_plain ? l->blocked[v] : v;
    op->out[0] = to_plain ? v : l->blocked[v];
    op->nin = op->nout = 1;
    return 0;
}

static int want_plain(struct layout *l, const struct node *node, uint32_t v)
{
    if (v == NO_VALUE || v >= l->p->graph->nvalue || l->blocked[v] == NO_VALUE || l->plain[v])
        return 0;
    l->plain[v] = true;
    return add_reorder(l, node, v, true);
}

static int want_blocked(struct layout *l, const struct node *node, uint32_t *slot, bool last)
{
    uint32_t v = *slot;
    int rc;

    if (l->blocked[v] == NO_VALUE) {
        l->plain[v] = true;
        l->last[v] = last;
        rc = new_value(l, v, &l->blocked[v]);
        if (!rc)
            rc = add_reorder(l, node, v, false);
        if (rc)
            return rc;
    }
    *slot = l->blocked[v];
    return 0;
}

/* Inputs of a blocked operator that are blocked: not constants, not a few plain channels. */
static bool reads_blocked(const struct layout *l, const struct op *op, uint32_t i)
{
    if (op->in[i] == NO_VALUE || op->in[i] >= l->p->graph->nvalue)
        return false;
    if (layout_q8_is(op))
        return layout_q8_reads(l, op, i);
    if (is_fixed(l, op, i) || (op->kernel->kind == KERNEL_bresize && i > 0)) /* sizes, scales */
        return false;
    return op->kernel->kind != KERNEL_bconv || i > 0 || layout_blocked(l, op->in[0]) ||
           !blk_conv_plain(op, fixed_shape(l, op, 1));
}

/* Of the output, when inputs are rewritten. */
static int32_t rank_of(const struct layout *l, const struct op *op, bool conv)
{
    if (conv)
        return fixed_shape(l, op, 1)->rank;
    if (op->kernel->kind == KERNEL_nconv)
        return kernel_const(op, 3)->shape.rank;
    for (uint32_t i = 0;; i++)
        if (op->in[i] != NO_VALUE && l->p->val[op->in[i]].blocked)
            return l->rank[l->p->val[op->in[i]].of];
}

static int rewrite(struct layout *l, struct op *op)
{
    struct post post = { POST_NONE, U_RELU, 0, 0, -1 };
    int64_t channels = 0;
    const struct kernel *form = blocked_form(l, op, &post, &channels);
    int rc = 0;

    for (uint32_t i = 0; i < op->nin && !form && !rc; i++) {
        uint32_t v = op->in[i];

        if ((op->kernel->flags & K_SHAPE) && layout_blocked(l, v) && !l->plain[v])
            op->in[i] = l->blocked[v]; /* the shape is the same */
        else
            rc = want_plain(l, op->node, v);
    }
    if (rc || !form)
        return rc;
    op->kernel = form;
    if (post.kind == POST_UNARY) {
        struct post *own = kernel_new_state(op, sizeof(post));

        if (!own)
            return OPM_ENOMEM;
        *own = post;
        op->nin = 1; /* limits of Clip are in it */
    } else if (op->kernel->kind == KERNEL_bpool || op->kernel->kind == KERNEL_bidentity)
        op->nin = 1; /* what else there is, is known */
    for (uint32_t i = 0; i < op->nin && !rc; i++)
        if (reads_blocked(l, op, i))
            rc = want_blocked(l, op->node, &op->in[i], layout_q8_is(op));
        else
            rc = want_plain(l, op->node, op->in[i]);
    uint32_t v = op->out[0];
    bool conv = op->kernel->kind == KERNEL_bconv || op->kernel->kind == KERNEL_bconvt;

    if ((op->kernel->kind == KERNEL_bconvt && op->kernel->arg == TO_PLAIN) ||
        layout_q8_gives_plain(op))
        return rc; /* gives a plain tensor */
    l->rank[v] = rank_of(l, op, conv);
    if (!rc)
        rc = new_value(l, v, &op->out[0]);
    l->channels[v] = channels;
    l->last[v] = layout_q8_is(op);
    l->blocked[v] = op->out[0];
    return rc;
}

/* One part of a Split as an operator of its own; the first covers the node. */
static int add_part(struct layout *l, struct op *split, uint32_t i)
{
    struct op op = { .plan = l->p, .node = split->node, .zero_ratio = -1, .epsilon = 0 };
    int rc;

    op.type = "Split";
    op.kernel = kernel_form(KERNEL_qpick, QPICK_SPLIT);
    op.in = slots_new(1);
    op.out = slots_new(1);
    if (i == 0) {
        op.cover = split->cover;
        op.ncover = split->ncover;
        split->cover = NULL;
        split->ncover = 0;
    }
    rc = op.in && op.out ? 0 : OPM_ENOMEM;
    if (!rc) {
        op.in[0] = split->in[0];
        op.out[0] = split->out[i];
        op.nin = op.nout = 1;
        rc = rewrite(l, &op);
    }
    if (!rc && !GROW(l->op, l->cap, l->nop + 1))
        rc = OPM_ENOMEM;
    if (rc)
        op_release(&op);
    else
        l->op[l->nop++] = op;
    return rc;
}

static int rewrite_split(struct layout *l, struct op *split)
{
    int rc = 0;

    for (uint32_t i = 0; i < split->nout && !rc; i++)
        rc = add_part(l, split, i);
    op_release(split);
    return rc;
}

/* Operators move to the new list one by one, so that each is in one of the two. */
static int rewrite_all(struct layout *l)
{
    struct plan *p = l->p;
    int rc = 0;

    for (uint32_t i = 0; i < p->nop && !rc; i++) {
        if (layout_q8_splits(l, &p->op[i])) {
            rc = rewrite_split(l, &p->op[i]);
            continue;
        }
        rc = rewrite(l, &p->op[i]);
        if (rc || !GROW(l->op, l->cap, l->nop + 1))
            return rc ? rc : OPM_ENOMEM;
        l->op[l->nop++] = p->op[i];
        p->op[i] = (struct op){ 0 };
    }
    for (uint32_t i = 0; i < p->graph->noutput && !rc; i++)
        rc = want_plain(l, l->nop ? l->op[l->nop - 1].node : NULL, p->graph->output[i]);
    return rc;
}

static void find_fixed(struct layout *l)
{
    const struct plan *p = l->p;

    for (uint32_t v = 0; v < p->graph->nvalue; v++)
        l->fixed[v] = p->val[v].fixed;
    for (uint32_t i = 0; i < p->nop; i++) {
        const struct op *op = &p->op[i];
        bool fixed = !(op->kernel->flags & (K_IMPURE | K_DYNAMIC));

        for (uint32_t k = 0; k < op->nin && fixed; k++)
            fixed = op->in[k] == NO_VALUE || is_fixed(l, op, k);
        for (uint32_t k = 0; k < op->nout && fixed; k++)
            if (op->out[k] < p->graph->nvalue)
                l->fixed[op->out[k]] = true;
    }
}

static bool has_conv(const struct plan *p)
{
    for (uint32_t i = 0; i < p->nop; i++)
        if (p->op[i].kernel->kind == KERNEL_conv || p->op[i].kernel->kind == KERNEL_qconv ||
            p->op[i].kernel->kind == KERNEL_nconv)
            return true;
    return false;
}

int plan_layout(struct plan *p, opm_error *err)
{
    size_t n = (size_t)p->graph->nvalue + 1;
    struct layout l = { .p = p, .block = p->engine->isa->blk->block, .err = err };
    int rc;

    if (!has_conv(p))
        return 0;
    l.channels = mem_calloc(n, sizeof(*l.channels));
    l.blocked = mem_calloc(n, sizeof(*l.blocked));
    l.plain = mem_calloc(n, sizeof(*l.plain));
    l.last = mem_calloc(n, sizeof(*l.last));
    l.rank = mem_calloc(n, sizeof(*l.rank));
    l.fixed = mem_calloc(n, sizeof(*l.fixed));
    rc = l.rank && l.last && l.fixed && l.channels && l.blocked && l.plain ? 0 : OPM_ENOMEM;
    for (size_t i = 0; i < n && !rc; i++)
        l.blocked[i] = NO_VALUE;
    if (!rc) {
        find_fixed(&l);
        rc = rewrite_all(&l);
    }
    for (uint32_t i = 0; i < p->nop && rc; i++)
        op_release(&p->op[i]);
    mem_free(p->op);
    p->op = l.op;
    p->nop = (uint32_t)l.nop;
    mem_free(l.channels);
    mem_free(l.last);
    mem_free(l.rank);
    mem_free(l.fixed);
    mem_free(l.blocked);
    mem_free(l.plain);
    return rc ? opm__fail(err, rc, "native engine: out of memory") : 0;
}
