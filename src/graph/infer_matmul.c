/* infer_matmul.c -- matrix products, Einsum, attention and recurrent layers. */
#include "graph/infer_int.h"

#include <string.h>

/* NumPy's matmul of two shapes. */
static int matmul(const struct op *o, const struct shape *a, const struct shape *b,
                  struct shape *out)
{
    struct shape x = *a, y = *b, batch;
    int64_t m, n, ka, kb;
    int rc;

    *out = shape_unknown();
    if (a->rank < 0 || b->rank < 0)
        return 0;
    if (a->rank == 0 || b->rank == 0)
        return op_fail(o, "a scalar operand");
    ka = a->dim[a->rank - 1];
    kb = b->dim[b->rank == 1 ? 0 : b->rank - 2];
    if (ka >= 0 && kb >= 0 && ka != kb) {
        char s[120], t[120];

        shape_text(a, s, sizeof(s));
        shape_text(b, t, sizeof(t));
        return op_fail(o, "shapes %s and %s cannot be multiplied", s, t);
    }
    m = a->rank >= 2 ? a->dim[a->rank - 2] : 0;
    n = b->rank >= 2 ? b->dim[b->rank - 1] : 0;
    x.rank = MAX(a->rank - 2, 0);
    y.rank = MAX(b->rank - 2, 0);
    rc = op_broadcast(o, &x, &y, &batch);
    if (rc)
        return rc;
    *out = batch;
    if (a->rank >= 2)
        out->dim[out->rank++] = m;
    if (b->rank >= 2)
        out->dim[out->rank++] = n;
    return 0;
}

int infer_matmul(const struct op *o)
{
    struct shape s;
    int rc = matmul(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0) != TENSOR_NONE ? op_type(o, 0) : op_type(o, 1), &s);
    return 0;
}

int infer_matmul_integer(const struct op *o)
{
    struct shape s;
    int rc = matmul(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_I32, &s);
    return 0;
}

int infer_qlinear_matmul(const struct op *o)
{
    struct shape s;
    int rc = matmul(o, op_shape(o, 0), op_shape(o, 3), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 7), &s);
    return 0;
}

/* com.microsoft: a product of integers that is scaled back to float. */
int infer_matmul_to_float(const struct op *o)
{
    struct shape s;
    int rc = matmul(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

/* com.microsoft's FusedMatMul: either operand may be transposed. */
int infer_fused_matmul(const struct op *o)
{
    struct shape a = *op_shape(o, 0), b = *op_shape(o, 1), s;
    int rc;

    if (op_int(o, "transBatchA", 0) || op_int(o, "transBatchB", 0))
        return 0;
    if (op_int(o, "transA", 0) && a.rank >= 2) {
        a.dim[a.rank - 1] = op_shape(o, 0)->dim[a.rank - 2];
        a.dim[a.rank - 2] = op_shape(o, 0)->dim[a.rank - 1];
    }
    if (op_int(o, "transB", 0) && b.rank >= 2) {
        b.dim[b.rank - 1] = op_shape(o, 1)->dim[b.rank - 2];
        b.dim[b.rank - 2] = op_shape(o, 1)->dim[b.rank - 1];
    }
    rc = matmul(o, &a, &b, &s);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's MatMulNBits: the packed weight has the attributes' K x N. */
int infer_matmul_nbits(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank > 0)
        s.dim[s.rank - 1] = MAX(op_int(o, "N", DIM_OPEN), (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_gemm(const struct op *o)
{
    const struct shape *a = op_shape(o, 0), *b = op_shape(o, 1);
    bool ta = op_int(o, "transA", 0) != 0, tb = op_int(o, "transB", 0) != 0;
    struct shape s = shape_of_rank(2);
    int64_t ka = DIM_OPEN, kb = DIM_OPEN;

    if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
        return op_fail(o, "operands of %d and %d dimensions", a->rank, b->rank);
    if (a->rank == 2) {
        s.dim[0] = a->dim[ta];
        ka = a->dim[!ta];
    }
    if (b->rank == 2) {
        s.dim[1] = b->dim[!tb];
        kb = b->dim[tb];
    }
    if (ka >= 0 && kb >= 0 && ka != kb)
        return op_fail(o, "operands have inner sizes %lld and %lld", (long long)ka, (long long)kb);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* One term of an Einsum equation. dots is where "..." stands, or -1. */
struct term {
    char letter[SHAPE_RANK_MAX];
    int n;
    int dots;
};

/* Read a term of *p up to ',', '-' or the end. */
static bool read_term(const char **p, struct term *t)
{
    *t = (struct term){ .dots = -1 };
    for (; **p && **p != ',' && **p != '-'; ++*p) {
        if (**p == ' ')
            continue;
        if (**p == '.') {
            if ((*p)[1] != '.' || (*p)[2] != '.' || t->dots >= 0)
                return false;
            t->dots = t->n;
            *p += 2;
            continue;
        }
        if (t->n == SHAPE_RANK_MAX || !((**p >= 'a' && **p <= 'z') || (**p >= 'A' && **p <= 'Z')))
            return false;
        t->letter[t->n++] = **p;
    }
    return true;
}

struct einsum {
    int64_t size[128]; /* by letter; 0 x 80: not seen */
    int seen[128];
    struct shape dots;
};

/* Match a term with an operand's shape. */
static int match_term(const struct op *o, struct einsum *e, const struct term *t,
                      const struct shape *s)
{
    int ndots = s->rank - t->n, at = 0;
    struct shape dots = { 0 };

    if (ndots < 0 || (t->dots < 0 && ndots > 0))
        return op_fail(o, "an operand has %d dimensions, the equation wants %d", s->rank, t->n);
    for (int i = 0; i <= t->n; i++) {
        if (i == t->dots) {
            for (int k = 0; k < ndots; k++)
                dots.dim[dots.rank++] = s->dim[at++];
        }
        if (i == t->n)
            break;
        int c = t->letter[i];
        int64_t d = s->dim[at++];

        if (e->seen[c] && e->size[c] != d && e->size[c] > 1 && d > 1)
            return op_fail(o, "'%c' is both %lld and %lld", c, (long long)e->size[c], (long long)d);
        if (!e->seen[c] || e->size[c] < 0 || e->size[c] == 1)
            e->size[c] = d;
        e->seen[c]++;
    }
    return op_broadcast(o, &e->dots, &dots, &e->dots);
}

int infer_einsum(const struct op *o)
{
    const char *p = node_attr_str(o->n, "equation", "");
    struct einsum e = { .dots = { 0 } };
    struct term t, out = { .dots = -1 };
    struct shape s = { 0 };
    uint32_t operand = 0;
    int rc = 0;

    op_set(o, 0, op_type(o, 0), NULL);
    for (;; p++, operand++) {
        if (!read_term(&p, &t))
            return op_fail(o, "cannot read the equation");
        if (op_rank(o, operand) < 0)
            return operand < o->n->nin ? 0 : op_fail(o, "the equation has too many operands");
        rc = match_term(o, &e, &t, op_shape(o, operand));
        if (rc)
            return rc;
        if (*p != ',')
            break;
    }
    if (*p == '-') {
        if (p[1] != '>')
            return op_fail(o, "cannot read the equation");
        p += 2;
        if (!read_term(&p, &out) || *p)
            return op_fail(o, "cannot read the equation");
    } else { /* implicit: the letters seen once, in order of the alphabet, after the dots */
        out.dots = 0;
        for (int c = 0; c < 128; c++)
            if (e.seen[c] == 1 && out.n < SHAPE_RANK_MAX)
                out.letter[out.n++] = (char)c;
    }
    for (int i = 0; i <= out.n; i++) {
        for (int32_t k = 0; i == out.dots && k < e.dots.rank && s.rank < SHAPE_RANK_MAX; k++)
            s.dim[s.rank++] = e.dots.dim[k];
        if (i < out.n && !e.seen[(int)out.letter[i]])
            return op_fail(o, "'%c' is in no operand", out.letter[i]);
        if (i < out.n && s.rank < SHAPE_RANK_MAX)
            s.dim[s.rank++] = e.size[(int)out.letter[i]];
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_det(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank >= 2)
        s.rank -= 2;
    else
        s.rank = -1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* RNN, GRU and LSTM: X, W, R, ... -> Y, Y_h, Y_c. */
int infer_recurrent(const struct op *o)
{
    const struct shape *x = op_shape(o, 0), *r = op_shape(o, 2);
    bool batch_first = op_int(o, "layout", 0) != 0;
    const char *direction = node_attr_str(o->n, "direction", "forward");
    int64_t dirs = strcmp(direction, "bidirectional") == 0 ? 2 : 1;
    int64_t hidden = op_int(o, "hidden_size", DIM_OPEN), seq = DIM_OPEN, batch = DIM_OPEN;
    struct shape y, h;

    if (x->rank >= 0 && x->rank != 3)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (hidden < 0 && r->rank == 3)
        hidden = r->dim[2];
    if (x->rank == 3) {
        seq = x->dim[batch_first];
        batch = x->dim[!batch_first];
    }
    y = batch_first ? (struct shape){ 4, { batch, seq, dirs, hidden } }
                    : (struct shape){ 4, { seq, dirs, batch, hidden } };
    h = batch_first ? (struct shape){ 3, { batch, dirs, hidden } }
                    : (struct shape){ 3, { dirs, batch, hidden } };
    op_set(o, 0, op_type(o, 0), &y);
    op_set(o, 1, op_type(o, 0), &h);
    op_set(o, 2, op_type(o, 0), &h);
    return 0;
}

/* Dimension `at` of an input, or open. */
static int64_t in_dim(const struct op *o, uint32_t slot, int at)
{
    const struct shape *s = op_shape(o, slot);

    return at < s->rank ? s->dim[at] : DIM_OPEN;
}

/* Attention of opset 23: Q, K, V, mask, past_key, past_value; 3-D with head counts as attributes,
 * or 4-D. */
int infer_attention(const struct op *o)
{
    const struct shape *q = op_shape(o, 0), *v = op_shape(o, 2);
    int64_t qh = op_int(o, "q_num_heads", DIM_OPEN), kh = op_int(o, "kv_num_heads", DIM_OPEN);
    int64_t total, past = op_has(o, 4) ? in_dim(o, 4, 2) : 0;
    bool flat = q->rank == 3;
    struct shape y, k;

    if ((q->rank != 3 && q->rank != 4) || v->rank != q->rank) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    y = *q;
    total = dim_add(in_dim(o, 1, flat ? 1 : 2), past);
    if (flat) {
        int64_t head = v->dim[2] >= 0 && kh > 0 ? v->dim[2] / kh : DIM_OPEN;
        int64_t khead = in_dim(o, 1, 2) >= 0 && kh > 0 ? in_dim(o, 1, 2) / kh : DIM_OPEN;

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
int infer_ms_attention(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    size_t len;
    const int64_t *sizes = node_attr_ints(o->n, "qkv_hidden_sizes", &len);
    int64_t w = in_dim(o, 1, 1);

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
int infer_ms_multi_head(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank != 3 || op_rank(o, 2) != 3)
        s.rank = -1; /* packed forms */
    else
        s.dim[2] = in_dim(o, 2, 2);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's GroupQueryAttention: the query's shape, unless it is packed. */
int infer_ms_group_query(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (!op_has(o, 1))
        s.rank = -1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}
