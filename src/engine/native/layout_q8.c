/* layout_q8.c -- which 8-bit operators work on tensors whose channels come last (nhwc.h). */
#include "engine/native/families.h"
#include "engine/native/kernels.h"
#include "engine/native/layout_int.h"
#include "engine/native/nhwc.h"
#include "engine/native/q8.h"

#include <string.h>

/* One constant number, or none where there may be none. */
static bool number(const struct op *op, uint32_t i, bool needed)
{
    const struct tensor *t = kop_const(op, i);

    if (i >= op->nin || op->in[i] == NO_VALUE)
        return !needed;
    return t && t->count == 1;
}

static bool scaled(const struct op *op, uint32_t scale)
{
    return number(op, scale, true) && kop_const(op, scale)->type == TENSOR_F32 &&
           number(op, scale + 1, false);
}

static bool is_bytes(const struct layout *l, uint32_t v)
{
    return v < l->p->graph->nvalue && (TYPE_BIT(l->p->graph->value[v].type) & TYPES_Q8);
}

static int64_t conv_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->run == nconv_run) /* fusing saw to it */
        return kop_const(op, 3)->shape.dim[0];
    if (op->kernel->run != qconv_run || op->kernel->arg != QCONV_LINEAR ||
        !is_bytes(l, op->in[0]) || l->fixed[op->in[0]] || !nhwc_conv_fits(op))
        return 0;
    return kop_const(op, 3)->shape.dim[0];
}

static int64_t binary_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->run != qbinary_run || op->nin < 7 || !layout_blocked(l, op->in[0]) ||
        !layout_blocked(l, op->in[3]) || l->channels[op->in[0]] != l->channels[op->in[3]] ||
        l->rank[op->in[0]] != l->rank[op->in[3]] || !scaled(op, 1) || !scaled(op, 4) ||
        !scaled(op, 6) || !nhwc_add_fits(op, 1, 4, 6))
        return 0;
    return l->channels[op->in[0]];
}

static int64_t pool_channels(const struct layout *l, const struct op *op)
{
    if (op->kernel->run != qpool_run || !layout_blocked(l, op->in[0]) ||
        node_attr_int(op->node, "channels_last", 0) ||
        (op->kernel->arg != QPOOL_MAX && (op->nin < 4 || !scaled(op, 1) || !scaled(op, 3))))
        return 0;
    return l->channels[op->in[0]];
}

const char *layout_q8_form(const struct layout *l, const struct op *op, int64_t *channels)
{
    *channels = conv_channels(l, op);
    if (*channels)
        return op->kernel->run == nconv_run ? op->kernel->op_type : "QLinearConvLast";
    *channels = binary_channels(l, op);
    if (*channels)
        return op->kernel->arg == QELEM_MUL ? "QLinearMulLast" : "QLinearAddLast";
    *channels = pool_channels(l, op);
    if (*channels)
        return op->kernel->arg == QPOOL_MAX      ? "QLinearMaxPoolLast"
               : op->kernel->arg == QPOOL_GLOBAL ? "QLinearGlobalAveragePoolLast"
                                                 : "QLinearAveragePoolLast";
    return NULL;
}

bool layout_q8_is(const struct op *op)
{
    return op->kernel->run == nconv_run || op->kernel->run == nbinary_run ||
           op->kernel->run == npool_run;
}

bool layout_q8_reads(const struct layout *l, const struct op *op, uint32_t i)
{
    if (op->kernel->run == nconv_run)
        return i == NCONV_ADD || (i == 0 && (layout_blocked(l, op->in[0]) || !nhwc_conv_plain(op)));
    if (op->kernel->run == nbinary_run)
        return i == 0 || i == 3;
    return i == 0;
}
