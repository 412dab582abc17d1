/* attention.c -- attention, in the forms of ONNX and of com.microsoft. */
#include "graph/ops/ops.h"

#include <string.h>

/* Attention of opset 23: Q, K, V, mask, past_key, past_value; 3-D with head counts as attributes,
 * or 4-D. */
int infer_attention(const struct opview *o)
{
    const struct shape *q = op_shape(o, 0), *v = op_shape(o, 2);
    int64_t qh = op_int(o, "q_num_heads", DIM_OPEN), kh = op_int(o, "kv_num_heads", DIM_OPEN);
    int64_t total, past = op_has(o, 4) ? op_dim(o, 4, 2) : 0;
    bool flat = q->rank == 3;
    struct shape y, k;

    if ((q->rank != 3 && q->rank != 4) || v->rank != q->rank) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    y = *q;
    total = dim_add(op_dim(o, 1, flat ? 1 : 2), past);
    if (flat) {
        int64_t head = v->dim[2] >= 0 && kh > 0 ? v->dim[2] / kh : DIM_OPEN;
        int64_t khead = op_dim(o, 1, 2) >= 0 && kh > 0 ? op_dim(o, 1, 2) / kh : DIM_OPEN;

        y.dim[2] = qh > 0 ? dim_mul(head, qh) : DIM_OPEN;
        k = (struct shape){ 4, { q->dim[0], kh, total, khead } };
        op_set(o, 1, op_type(o, 1), &k);
        k.dim[3] = head;
        op_set(o, 2, op_type(o, 2), &k);
        k = (struct shape){ 4, { q->dim[0], qh, q->dim[1], total } };
    } else {
        y.dim[3] = v->dim[3];
        k = *op_shape(o, 1);
        if (k.rank == 4)
            k.dim[2] = total;
        op_set(o, 1, op_type(o, 1), &k);
        k = *v;
        k.dim[2] = total;
        op_set(o, 2, op_type(o, 2), &k);
        k = (struct shape){ 4, { q->dim[0], q->dim[1], q->dim[2], total } };
    }
    op_set(o, 0, op_type(o, 0), &y);
    op_set(o, 3, op_type(o, 0), &k);
    return 0;
}

/* com.microsoft's Attention: input [B, S, D], weight [D, 3 x hidden] -> [B, S, hidden]. */
int infer_ms_attention(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    size_t len;
    const int64_t *sizes = node_attr_ints(o->n, "qkv_hidden_sizes", &len);
    int64_t w = op_dim(o, 1, 1);

    if (s.rank != 3) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    if (sizes && len == 3)
        s.dim[2] = MAX(sizes[2], (int64_t)DIM_OPEN);
    else
        s.dim[2] = w >= 0 ? w / 3 : DIM_OPEN;
    op_set(o, 0, strcmp(o->n->op_type, "QAttention") == 0 ? TENSOR_F32 : op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's MultiHeadAttention: query [B, S, D], key, value [B, T, Dv] -> [B, S, Dv]. */
int infer_ms_multi_head(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank != 3 || op_rank(o, 2) != 3)
        s.rank = -1; /* packed forms */
    else
        s.dim[2] = op_dim(o, 2, 2);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's GroupQueryAttention: the query's shape, unless it is packed. */
int infer_ms_group_query(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (!op_has(o, 1))
        s.rank = -1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Q, K, V of opset 23, or com.microsoft's MultiHeadAttention: scores, their scaling and softmax,
 * and the weighted sum. Heads drop out of the product where they are not a dimension. */
int64_t flops_attention(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *q = node_in_shape(g, n, 0), *k = node_in_shape(g, n, 1),
                       *v = node_in_shape(g, n, 2);
    bool flat = q->rank == 3;
    int64_t heads =
        flat ? node_attr_int(n, n->domain[0] ? "num_heads" : "q_num_heads", -1) : shape_at(q, 1);
    int64_t past =
        n->domain[0] == '\0' && node_in(g, n, 4) ? shape_at(node_in_shape(g, n, 4), 2) : 0;
    int64_t s = shape_at(q, -2), t = count_add(shape_at(k, -2), past), dk = shape_at(q, -1), pairs,
            kv, dv = shape_at(v, -1);

    (void)cost;
    if (q->rank < 3 || k->rank != q->rank || v->rank != q->rank || heads <= 0)
        return -1;
    kv = node_attr_int(n, "kv_num_heads", heads);
    if (flat && kv > 0) {
        dk = dk < 0 ? -1 : dk / heads;
        dv = dv < 0 ? -1 : dv / kv;
    }
    pairs = count_mul(count_mul(shape_at(q, 0), heads), count_mul(s, t));
    return count_mul(pairs, count_add(count_add(count_mul(dk, 2), count_mul(dv, 2)),
                                      6 + (node_in(g, n, 3) != NULL)));
}

/* com.microsoft's Attention: the projection to Q, K and V first. */
int64_t flops_ms_attention(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *x = node_in_shape(g, n, 0), *w = node_in_shape(g, n, 1);
    int64_t heads = node_attr_int(n, "num_heads", -1),
            rows = count_mul(shape_at(x, 0), shape_at(x, 1));
    int64_t hidden = shape_at(w, 1), pairs = count_mul(rows, shape_at(x, 1));

    (void)cost;
    if (heads <= 0 || hidden < 0)
        return -1;
    return count_add(count_mul(rows, count_mul(count_mul(shape_at(x, 2), hidden), 2)),
                     count_add(count_mul(pairs, count_mul(hidden / 3, 4)),
                               count_mul(count_mul(pairs, heads), 6)));
}
