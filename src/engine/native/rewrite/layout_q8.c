/* layout_q8.c -- which 8-bit operators work on tensors whose channels come last (nhwc.h). */
#include "engine/native/layout/nhwc.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/rewrite/layout_int.h"

#include <string.h>

static bool is_last(const struct layout *l, uint32_t v)
{
    return layout_blocked(l, v) && l->last[v];
}

/* One constant number, or none where there may be none. */
static bool number(const struct op *op, uint32_t i, bool needed)
{
    const struct tensor *t = kernel_const(op, i);

    if (i >= op->nin || op->in[i] == NO_VALUE)
        return !needed;
    return t && t->count == 1;
}

static bool scaled(const struct op *op, uint32_t scale)
{
    return number(op, scale, true) && kernel_const(op, scale)->type == TENSOR_F32 &&
           number(op, scale + 1, false);
}

static bool is_bytes(const struct layout *l, uint32_t v)
{
    return v < l->p->graph->nvalue && (TYPE_BIT(l->p->graph->value[v].type) & TYPES_Q8);
}

static int64_t conv_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->kind == KERNEL_nconv) /* fusing saw to it */
        return kernel_const(op, 3)->shape.dim[0];
    if (op->kernel->kind != KERNEL_qconv || op->kernel->arg != QCONV_LINEAR ||
        !is_bytes(l, op->in[0]) || l->fixed[op->in[0]] || !nhwc_conv_fits(op))
        return 0;
    return kernel_const(op, 3)->shape.dim[0];
}

static int64_t binary_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->kind != KERNEL_qbinary || op->nin < 7 || !is_last(l, op->in[0]) ||
        !is_last(l, op->in[3]) || l->channels[op->in[0]] != l->channels[op->in[3]] ||
        l->rank[op->in[0]] != l->rank[op->in[3]] || !scaled(op, 1) || !scaled(op, 4) ||
        !scaled(op, 6) || !nhwc_add_fits(op, 1, 4, 6))
        return 0;
    return l->channels[op->in[0]];
}

static int64_t pool_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->kind != KERNEL_qpool || !is_last(l, op->in[0]) ||
        node_attr_int(op->node, "channels_last", 0) ||
        (op->kernel->arg != QPOOL_MAX && (op->nin < 4 || !scaled(op, 1) || !scaled(op, 3))))
        return 0;
    return l->channels[op->in[0]];
}

static int64_t concat_channels(const struct layout *l, const struct op *op)
{
    int64_t sum = 0;

    if (op->kernel->kind != KERNEL_qconcat || op->nin < 5 || (op->nin - 2) % 3 || !scaled(op, 0))
        return 0;
    for (uint32_t i = 2; i < op->nin; i += 3) {
        if (!is_last(l, op->in[i]) || !scaled(op, i + 1) ||
            l->rank[op->in[i]] != l->rank[op->in[2]])
            return 0;
        sum += l->channels[op->in[i]];
    }
    return nt_axis(node_attr_int(op->node, "axis", 1), l->rank[op->in[2]]) == 1 ? sum : 0;
}

static const struct kernel *unary_form(const struct layout *l, const struct op *op)
{
    if (op->kernel->kind != KERNEL_qunary || op->nin < 4 || !is_last(l, op->in[0]) ||
        !scaled(op, 1) || !scaled(op, 3))
        return NULL;
    return kernel_form(KERNEL_nunary, op->kernel->arg);
}

/* Parts and shuffles; of those that do not fit, preparing complains. */
static int64_t pick_channels(const struct layout *l, const struct op *op)
{
    struct q8_pick pick;

    if (op->kernel->kind != KERNEL_qpick || !is_last(l, op->in[0]) ||
        (op->kernel->arg == QPICK_SPLIT && op->nin > 1 && (!scaled(op, 1) || !scaled(op, 3))))
        return 0;
    if (op->kernel->arg == QPICK_SHUFFLE)
        return l->channels[op->in[0]];
    q8_pick_part(op, &pick);
    return pick.first + pick.n <= l->channels[op->in[0]] ? pick.n : 0;
}

const struct kernel *layout_q8_form(const struct layout *l, const struct op *op, int64_t *channels)
{
    *channels = conv_channels(l, op);
    if (*channels)
        return op->kernel->kind == KERNEL_nconv ? op->kernel
                                                : kernel_form(KERNEL_nconv, NCONV_ALONE);
    *channels = binary_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_nbinary, op->kernel->arg);
    *channels = pool_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_npool, op->kernel->arg);
    *channels = concat_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_nconcat, 0);
    *channels = pick_channels(l, op);
    if (*channels)
        return kernel_form(KERNEL_npick, op->kernel->arg);
    *channels = is_last(l, op->in[0]) ? l->channels[op->in[0]] : 0;
    return unary_form(l, op);
}

bool layout_q8_splits(const struct layout *l, const struct op *op)
{
    const struct graph *g = l->p->graph;

    if (op->kernel->kind != KERNEL_split || !is_last(l, op->in[0]) ||
        nt_axis(node_attr_int(op->node, "axis", 0), l->rank[op->in[0]]) != 1)
        return false;
    for (uint32_t i = 0; i < op->nout; i++)
        if (op->out[i] >= g->nvalue || g->value[op->out[i]].shape.rank != l->rank[op->in[0]] ||
            g->value[op->out[i]].shape.dim[1] <= 0)
            return false;
    return op->nout > 0;
}

bool layout_q8_gives_plain(const struct op *op)
{
    return op->kernel->kind == KERNEL_npool && op->kernel->arg == QPOOL_MEAN &&
           !node_attr_int(op->node, "keepdims", 1);
}

bool layout_q8_is(const struct op *op)
{
    return op->kernel->kind == KERNEL_nconv || op->kernel->kind == KERNEL_nbinary ||
           op->kernel->kind == KERNEL_npool || op->kernel->kind == KERNEL_nunary ||
           op->kernel->kind == KERNEL_nconcat || op->kernel->kind == KERNEL_npick;
}

bool layout_q8_reads(const struct layout *l, const struct op *op, uint32_t i)
{
    if (op->kernel->kind == KERNEL_nconv)
        return i == NCONV_ADD || (i == 0 && (is_last(l, op->in[0]) || !nhwc_conv_plain(op)));
    if (op->kernel->kind == KERNEL_nbinary)
        return i == 0 || i == 3;
    if (op->kernel->kind == KERNEL_nconcat)
        return i >= 2 && i % 3 == 2;
    return i == 0;
}
