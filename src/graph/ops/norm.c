/* norm.c -- normalisation. */
#include "graph/ops/ops.h"

int infer_batch_norm(const struct opview *o)
{
    op_same(o, 0, 0);
    for (uint32_t i = 1; i < o->nout; i++)
        op_set(o, i, op_type(o, 3), op_shape(o, 3));
    return 0;
}

/* LayerNormalization and the forms of it that ONNX Runtime has: the statistics have size 1 from
 * axis on, and the type of the computation. */
int infer_layer_norm(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t stash = op_int(o, "stash_type", TENSOR_F32);
    enum tensor_type type =
        stash > 0 && stash < TENSOR_NTYPES ? (enum tensor_type)stash : TENSOR_NONE;
    int axis, rc;

    op_same(o, 0, 0);
    if (s.rank > 0) {
        rc = op_axis(o, op_int(o, "axis", -1), s.rank, &axis);
        if (rc)
            return rc;
        for (int i = axis; i < s.rank; i++)
            s.dim[i] = 1;
    } else
        s.rank = -1;
    op_set(o, 1, type, &s);
    op_set(o, 2, type, &s);
    return 0;
}

/* com.microsoft's SkipLayerNormalization: output 3 is the sum that was normalised. */
int infer_skip_layer_norm(const struct opview *o)
{
    int rc = infer_layer_norm(o);

    op_same(o, 3, 0);
    return rc;
}

/* com.microsoft's SkipGroupNorm: output 1 is the sum that was normalised. */
int infer_skip_group_norm(const struct opview *o)
{
    op_same(o, 0, 0);
    op_same(o, 1, 0);
    return 0;
}

/* com.microsoft's EmbedLayerNormalization: input_ids [B, S], ..., word embedding [V, D]. */
static void embed(const struct opview *o, enum tensor_type type)
{
    struct shape s = shape_of_rank(3), mask = shape_1d(op_dim(o, 0, 0));

    s.dim[0] = op_dim(o, 0, 0);
    s.dim[1] = op_dim(o, 0, 1);
    s.dim[2] = op_dim(o, 2, 1);
    op_set(o, 0, type, &s);
    op_set(o, 1, TENSOR_I32, &mask);
    op_set(o, 2, type, &s);
}

int infer_embed_layer_norm(const struct opview *o)
{
    embed(o, op_type(o, 2));
    return 0;
}

/* Its tables are of 8 bits, with a scale each from input 8 on. */
int infer_qembed_layer_norm(const struct opview *o)
{
    embed(o, op_type(o, 8));
    return 0;
}

/* LayerNormalization and relatives: cost per element, one less without a bias */
int64_t flops_norm(const struct graph *g, const struct node *n, int cost)
{
    return count_mul(node_in_count(g, n, 0), cost - (node_in(g, n, 2) == NULL));
}

int64_t flops_lrn(const struct graph *g, const struct node *n, int cost)
{
    return count_mul(node_out_count(g, n), count_add(node_attr_int(n, "size", -1), cost));
}

/* Rows of the tables for words, positions and perhaps segments, each `cost` per element to bring to
 * float; their sum, and a LayerNormalization. */
int64_t flops_embed_norm(const struct graph *g, const struct node *n, int cost)
{
    int tables = node_in(g, n, 4) ? 3 : 2;

    return count_mul(node_out_count(g, n), tables * cost + tables - 1 + 7);
}
