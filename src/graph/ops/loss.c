/* loss.c -- losses, and the optimisers of ai.onnx.preview.training. */
#include "graph/ops/ops.h"

#include <string.h>

static bool reduces(const struct opview *o)
{
    return strcmp(node_attr_str(o->n, "reduction", "mean"), "none") != 0;
}

int infer_nll_loss(const struct opview *o)
{
    struct shape scalar = shape_scalar();

    op_set(o, 0, op_type(o, 0), reduces(o) ? &scalar : op_shape(o, 1));
    return 0;
}

int infer_softmax_loss(const struct opview *o)
{
    int rc = infer_nll_loss(o);

    op_same(o, 1, 0);
    return rc;
}

/* Optimisers of ai.onnx.preview.training: after R and T come n tensors, their gradients, and one or
 * two states each; results are the tensors and states. */
int infer_optimizer(const struct opview *o)
{
    bool adam = strcmp(o->n->op_type, "Adam") == 0;
    uint32_t groups = adam ? 4 : 3, n = o->nin >= 2 ? (o->nin - 2) / groups : 0;

    for (uint32_t i = 0; i < n; i++) {
        op_same(o, i, 2 + i);
        op_same(o, n + i, 2 + 2 * n + i);
        if (adam)
            op_same(o, 2 * n + i, 2 + 3 * n + i);
    }
    return 0;
}

/* Of every element that is learnt. */
int64_t flops_optimizer(const struct graph *g, const struct node *n, int cost)
{
    uint32_t groups = strcmp(n->op_type, "Adam") == 0 ? 4 : 3,
             tensors = n->nin >= 2 ? (n->nin - 2) / groups : 0;
    int64_t sum = 0;

    for (uint32_t i = 0; i < tensors; i++)
        sum = count_add(sum, node_in_count(g, n, 2 + i));
    return count_mul(sum, cost);
}
