/* attention.c -- attention, in the forms of ONNX and of com.microsoft. */
#include "graph/ops/ops.h"

/* Q, K or V: [batch, heads, length, width], or [batch, length, heads * width] with the number of
 * heads given. What is not known is open. */
struct operand {
    int64_t heads, len, width;
};

static int64_t share(int64_t all, int64_t parts)
{
    return all >= 0 && parts > 0 ? all / parts : DIM_OPEN;
}

static struct operand operand_of(const struct opview *o, uint32_t slot, int64_t heads)
{
    if (op_rank(o, slot) == 4)
        return (struct operand){ op_dim(o, slot, 1), op_dim(o, slot, 2), op_dim(o, slot, 3) };
    if (op_rank(o, slot) == 3)
        return (struct operand){ heads > 0 ? heads : DIM_OPEN, op_dim(o, slot, 1),
                                 share(op_dim(o, slot, 2), heads) };
    return (struct operand){ DIM_OPEN, DIM_OPEN, DIM_OPEN };
}

/* Output `slot`, the present keys or values: those of earlier calls at `past`, and new ones. */
static void set_present(const struct opview *o, uint32_t slot, struct operand x, uint32_t past)
{
    int64_t before = op_has(o, past) ? op_dim(o, past, 2) : 0;
    struct shape s = { 4, { op_dim(o, 0, 0), x.heads, dim_add(x.len, before), x.width } };

    op_set(o, slot, op_type(o, slot), &s);
}

/* Attention of opset 23: Q, K, V, mask, past_key, past_value; 3-D with head counts as attributes,
 * or 4-D. */
int infer_attention(const struct opview *o)
{
    int64_t kv_heads = op_int(o, "kv_num_heads", DIM_OPEN);
    struct operand q = operand_of(o, 0, op_int(o, "q_num_heads", DIM_OPEN)),
                   k = operand_of(o, 1, kv_heads), v = operand_of(o, 2, kv_heads);
    struct shape y = *op_shape(o, 0), scores = { 4, { op_dim(o, 0, 0), q.heads, q.len, k.len } };

    if (op_has(o, 4))
        scores.dim[3] = dim_add(k.len, op_dim(o, 4, 2));
    if (y.rank == 3)
        y.dim[2] = dim_mul(q.heads, v.width);
    else if (y.rank == 4)
        y.dim[3] = v.width;
    else
        y.rank = -1;
    op_set(o, 0, op_type(o, 0), &y);
    set_present(o, 1, k, 4);
    set_present(o, 2, v, 5);
    op_set(o, 3, op_type(o, 0), &scores);
    return 0;
}

/* com.microsoft's Attention and QAttention: input [B, S, D], weight [D, 3 x hidden] -> [B, S,
 * hidden], and the present keys and values [2, B, heads, T, width]. */
static void projected(const struct opview *o, enum tensor_type type, uint32_t past)
{
    struct shape s = *op_shape(o, 0), present = shape_of_rank(5);
    size_t len;
    const int64_t *sizes = node_attr_ints(o->n, "qkv_hidden_sizes", &len);
    int64_t third = share(op_dim(o, 1, 1), 3), heads = op_int(o, "num_heads", DIM_OPEN),
            before = op_has(o, past) ? op_dim(o, past, 3) : 0;
    bool given = sizes && len == 3;

    present.dim[0] = 2;
    present.dim[1] = op_dim(o, 0, 0);
    present.dim[2] = heads > 0 ? heads : DIM_OPEN;
    present.dim[3] =
        op_int(o, "past_present_share_buffer", 0) ? before : dim_add(op_dim(o, 0, 1), before);
    present.dim[4] = share(given ? sizes[1] : third, heads);
    if (s.rank == 3)
        s.dim[2] = given ? MAX(sizes[2], (int64_t)DIM_OPEN) : third;
    else
        s.rank = -1;
    op_set(o, 0, type, &s);
    op_set(o, 1, type, &present);
}

int infer_ms_attention(const struct opview *o)
{
    projected(o, op_type(o, 0), 4);
    return 0;
}

/* Of bytes; the scale of the input is of the result's type. */
int infer_ms_qattention(const struct opview *o)
{
    projected(o, op_type(o, 3), 8);
    return 0;
}

/* com.microsoft's MultiHeadAttention: query [B, S, D], key, value [B, T, Dv] or [B, heads, T,
 * width]
 * -> [B, S, Dv], and the present keys and values. */
int infer_ms_multi_head(const struct opview *o)
{
    int64_t heads = op_int(o, "num_heads", DIM_OPEN);
    struct operand k = operand_of(o, 1, heads), v = operand_of(o, 2, heads);
    struct shape s = *op_shape(o, 0), scores = { 4, { op_dim(o, 0, 0), k.heads, op_dim(o, 0, 1) } };

    scores.dim[3] = dim_add(k.len, op_has(o, 6) ? op_dim(o, 6, 2) : 0);
    if (s.rank != 3 || op_rank(o, 2) < 3 || op_rank(o, 2) > 4)
        s.rank = -1; /* packed forms */
    else
        s.dim[2] = op_rank(o, 2) == 3 ? op_dim(o, 2, 2) : dim_mul(v.heads, v.width);
    op_set(o, 0, op_type(o, 0), &s);
    set_present(o, 1, k, 6);
    set_present(o, 2, v, 7);
    op_set(o, 3, op_type(o, 0), &scores);
    return 0;
}

/* com.microsoft's GroupQueryAttention: the query's shape, unless keys and values are packed with
 * it; the present ones are as long as the past ones, or as the longest row. */
int infer_ms_group_query(const struct opview *o)
{
    int64_t heads = op_int(o, "num_heads", DIM_OPEN), kv = op_int(o, "kv_num_heads", DIM_OPEN),
            before = op_has(o, 3) ? op_dim(o, 3, 2) : 0, longest = DIM_OPEN, width;
    struct shape s = *op_shape(o, 0), present = shape_of_rank(4), scores = shape_of_rank(4);

    if (op_has(o, 1))
        width = share(s.rank == 3 ? s.dim[2] : DIM_OPEN, heads);
    else
        width = share(s.rank == 3 ? s.dim[2] : DIM_OPEN, dim_add(heads, dim_mul(kv, 2)));
    if (!op_has(o, 1) && s.rank == 3)
        s.dim[2] = dim_mul(heads, width);
    present.dim[0] = op_dim(o, 0, 0);
    present.dim[1] = kv > 0 ? kv : DIM_OPEN;
    present.dim[2] = op_known_int(o, 6, &longest) && before >= 0 && longest >= 0
                         ? MAX(before, longest)
                         : DIM_OPEN;
    present.dim[3] = width;
    scores.dim[0] = op_dim(o, 0, 0);
    scores.dim[1] = MAX(heads, (int64_t)DIM_OPEN);
    scores.dim[2] = op_dim(o, 0, 1);
    scores.dim[3] = MAX(longest, (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    op_set(o, 1, op_type(o, 0), &present);
    op_set(o, 2, op_type(o, 0), &present);
    op_set(o, 3, op_type(o, 0), &scores);
    return 0;
}

/* com.microsoft's DecoderMaskedMultiHeadAttention: one row of query, key and value, apart or one
 * behind the other; past keys and values, how many of these there are. Keys and values of four
 * dimensions are those of an encoder, and nothing is past. */
int infer_ms_decoder(const struct opview *o)
{
    int64_t heads = op_int(o, "num_heads", DIM_OPEN), past, total = DIM_OPEN;
    bool packed = !op_has(o, 1), cross = op_rank(o, 1) == 4,
         shared = op_int(o, "past_present_share_buffer", 0) != 0;
    struct operand q = operand_of(o, 0, heads), v = operand_of(o, 2, heads);
    struct shape s = *op_shape(o, 0), present = *op_shape(o, 5), scores;

    if (packed)
        v.width = share(q.width, 3);
    if (s.rank == 3)
        s.dim[2] = dim_mul(heads, v.width);
    if (present.rank == 4 && !shared)
        present.dim[2] = dim_add(present.dim[2], 1);
    if (cross)
        total = op_dim(o, 1, 2);
    else if (!shared)
        total = present.rank == 4 ? present.dim[2] : DIM_OPEN;
    else if (op_known_int(o, 7, &past) && past >= 0)
        total = dim_add(past, 1);
    scores = (struct shape){ 4, { op_dim(o, 0, 0), MAX(heads, (int64_t)DIM_OPEN), 1, total } };
    op_set(o, 0, op_type(o, 0), &s);
    op_set(o, 1, op_type(o, 0), &present);
    op_set(o, 2, op_type(o, 0), &present);
    op_set(o, 3, op_type(o, 0), &scores);
    return 0;
}

/* com.microsoft's SparseAttention: as GroupQueryAttention, and the present keys and values are as
 * long as the past ones. */
int infer_ms_sparse(const struct opview *o)
{
    int64_t heads = op_int(o, "num_heads", DIM_OPEN), kv = op_int(o, "kv_num_heads", DIM_OPEN);
    struct shape s = *op_shape(o, 0);

    if (!op_has(o, 1) && s.rank == 3)
        s.dim[2] = dim_mul(heads, share(s.dim[2], dim_add(heads, dim_mul(kv, 2))));
    op_set(o, 0, op_type(o, 0), &s);
    op_same(o, 1, 3);
    op_same(o, 2, 4);
    return 0;
}

/* LinearAttention: query, key, value, all [B, T, heads x width], past state, ...; the present state
 * is [B, heads of keys, width of keys, width of values]. */
int infer_linear_attention(const struct opview *o)
{
    int64_t heads = op_int(o, "q_num_heads", DIM_OPEN), kv = op_int(o, "kv_num_heads", DIM_OPEN);
    struct operand q = operand_of(o, 0, heads), v = operand_of(o, 2, kv);
    struct shape y = shape_of_rank(3),
                 state = { 4, { op_dim(o, 0, 0), v.heads, q.width, v.width } };

    y.dim[0] = op_dim(o, 0, 0);
    y.dim[1] = q.len;
    y.dim[2] = dim_mul(q.heads, v.width);
    op_set(o, 0, op_type(o, 0), &y);
    op_set(o, 1, op_type(o, op_has(o, 3) ? 3 : 0), &state);
    return 0;
}

/* CausalConvWithState: input [B, C, L], or channels last, weight [C, 1, k], bias, past state. This
 * is what is before an input: the taps' reach less one, in the input's order; com.microsoft's may
 * have several such, in front. */
int infer_causal_conv(const struct opview *o)
{
    int64_t dilation = op_int(o, "dilation", 1), window = op_int(o, "state_window", 0),
            k = op_dim(o, 1, 2);
    bool last = op_int(o, "channels_last", 0) != 0;
    struct shape state = *op_shape(o, 0), x = state;

    if (k == 0)
        return op_fail(o, "a kernel of no elements");
    if (dilation < 1 || window < 0 || op_int(o, "ndim", 1) != 1)
        return op_fail(o, "attributes dilation, state_window or ndim");
    op_set(o, 0, op_type(o, 0), &x);
    if (state.rank >= 3)
        state.dim[last ? 1 : 2] = k < 0 ? DIM_OPEN : dim_mul(k - 1, dilation);
    if (state.rank >= 3 && k < 0)
        state.dim[last ? 1 : 2] = op_dim(o, 3, (last ? 1 : 2) + (window > 0));
    if (window > 0 && state.rank >= 0)
        state = shape_stacked(&state, window, 0);
    op_set(o, 1, op_type(o, op_has(o, 3) ? 3 : 0), &state);
    return 0;
}

/* For every token a state fades, forgets and learns, 7 per element, and is read, 2 for each head of
 * queries. */
int64_t flops_linear_attention(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *q = node_in_shape(g, n, 0), *v = node_in_shape(g, n, 2);
    int64_t heads = node_attr_int(n, "q_num_heads", -1), kv = node_attr_int(n, "kv_num_heads", -1),
            tokens = count_mul(shape_at(q, 0), shape_at(q, 1)), dk, dv;

    (void)cost;
    if (heads < 1 || kv < 1 || q->rank != 3 || v->rank != 3 || q->dim[2] < 0 || v->dim[2] < 0)
        return -1;
    dk = q->dim[2] / heads;
    dv = v->dim[2] / kv;
    return count_mul(
        tokens, count_mul(count_mul(dk, dv), count_add(count_mul(kv, 7), count_mul(heads, 2))));
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

/* com.microsoft's GroupQueryAttention: likewise, over all the present keys. */
int64_t flops_group_query(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *q = node_in_shape(g, n, 0);
    const struct value *out = node_out(g, n, 0), *present = node_out(g, n, 1);
    int64_t heads = node_attr_int(n, "num_heads", -1), pairs;

    (void)cost;
    if (heads < 1 || !out || !present || shape_at(&out->shape, 2) < 0 || present->shape.rank != 4)
        return -1;
    pairs = count_mul(count_mul(shape_at(q, 0), heads),
                      count_mul(shape_at(q, 1), shape_at(&present->shape, 2)));
    return count_mul(pairs, count_add(count_mul(shape_at(&out->shape, 2) / heads, 4), 6));
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

/* com.microsoft's DecoderMaskedMultiHeadAttention: over all that the cache has room for. */
int64_t flops_decoder(const struct graph *g, const struct node *n, int cost)
{
    const struct value *out = node_out(g, n, 0);
    const struct shape *keys = node_in_shape(g, n, node_in(g, n, 5) ? 5 : 1);
    int64_t heads = node_attr_int(n, "num_heads", -1), pairs;

    (void)cost;
    if (heads < 1 || !out || shape_at(&out->shape, 2) < 0 || keys->rank != 4)
        return -1;
    pairs = count_mul(count_mul(shape_at(&out->shape, 0), heads), shape_at(keys, 2));
    return count_mul(pairs, count_add(count_mul(shape_at(&out->shape, 2) / heads, 4), 6));
}

/* com.microsoft's SparseAttention: over the blocks that are looked at, which are not known here. */
int64_t flops_sparse_attention(const struct graph *g, const struct node *n, int cost)
{
    (void)g;
    (void)n;
    (void)cost;
    return -1;
}

/* com.microsoft's LinearAttentionGate: decay and, of input 3, beta; of input 0's shape. */
int infer_attention_gate(const struct opview *o)
{
    op_same(o, 0, 0);
    op_same(o, 1, 0);
    return 0;
}

/* A sum, softplus and a product; a sigmoid for what is learnt. */
int64_t flops_attention_gate(const struct graph *g, const struct node *n, int cost)
{
    (void)cost;
    return count_mul(node_out_count(g, n), 1 + 3 + 1 + (node_out(g, n, 1) ? 4 : 0));
}
