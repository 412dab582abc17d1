/* footprint.c -- FLOPs and bytes of a node; see footprint.h.
 *
 * The formulas of MegEngine's load_and_run, which users compare with, extended to the operators for
 * which it has none. N(x) is the number of elements of x.
 *
 *   - elementwise operators cost a number per element of the result, given in the table:
 * arithmetic, a comparison, a root, an exponential or another elementary function is 1 each. A
 * fused operator costs what the graph of simple ones in its place would: Gelu = Div, Erf, Add, Mul,
 * Mul = 5.
 *   - operators that copy elements (Concat, Transpose, Gather, ...) cost 1 per element of the
 * result; those that only look at a tensor in another way (Reshape, Squeeze, ...) cost 0.
 *   - products cost a multiplication and an addition per term; a bias 1 more per element.
 *   - what depends on the data (NonMaxSuppression, Unique) is not known. */
#include "graph/footprint.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct row;
typedef int64_t (*formula)(const struct graph *g, const struct node *n, const struct row *r);

struct row {
    const char *domain;
    const char *name;
    formula fn;
    int cost;   /* what the formula makes of it; usually per element */
    int weight; /* the input that holds weights if it is a constant, or -1 */
};

/* A product that is -1 if a factor is, or if it does not fit. */
static int64_t mul(int64_t a, int64_t b)
{
    int64_t r;

    return a < 0 || b < 0 || __builtin_mul_overflow(a, b, &r) ? -1 : r;
}

static int64_t add(int64_t a, int64_t b)
{
    int64_t r;

    return a < 0 || b < 0 || __builtin_add_overflow(a, b, &r) ? -1 : r;
}

static const struct shape *in_shape(const struct graph *g, const struct node *n, uint32_t slot)
{
    static const struct shape unknown = { .rank = -1 };
    const struct value *v = node_in(g, n, slot);

    return v ? &v->shape : &unknown;
}

static int64_t in_count(const struct graph *g, const struct node *n, uint32_t slot)
{
    return shape_count(in_shape(g, n, slot));
}

static int64_t out_count(const struct graph *g, const struct node *n)
{
    const struct value *v = node_out(g, n, 0);

    return v ? shape_count(&v->shape) : -1;
}

/* Dimension i of a shape, from the end if i < 0; -1 if it has none. */
static int64_t dim(const struct shape *s, int i)
{
    int at = i < 0 ? s->rank + i : i;

    return at >= 0 && at < s->rank ? s->dim[at] : -1;
}

static int64_t f_none(const struct graph *g, const struct node *n, const struct row *r)
{
    (void)g;
    (void)n;
    (void)r;
    return 0;
}

static int64_t f_unknown(const struct graph *g, const struct node *n, const struct row *r)
{
    (void)g;
    (void)n;
    (void)r;
    return -1;
}

/* cost per element of the result */
static int64_t f_out(const struct graph *g, const struct node *n, const struct row *r)
{
    return mul(out_count(g, n), r->cost);
}

/* cost per element of the first input */
static int64_t f_in(const struct graph *g, const struct node *n, const struct row *r)
{
    return mul(in_count(g, n, 0), r->cost);
}

/* Sum, Max, ...: one less than operands */
static int64_t f_variadic(const struct graph *g, const struct node *n, const struct row *r)
{
    (void)r;
    return mul(out_count(g, n), MAX((int64_t)n->nin, (int64_t)2) - 1);
}

/* Conv, also of integers: cost is the slot of the weight. N(out) x kernel x channels / groups x 2,
 * where the last two are all of the weight but its first dimension. */
static int64_t f_conv(const struct graph *g, const struct node *n, const struct row *r)
{
    uint32_t slot = (uint32_t)r->cost, bias = slot == 3 ? 8 : 2;
    const struct shape *w = in_shape(g, n, slot);
    bool biased = strcmp(n->op_type, "ConvInteger") != 0 && node_in(g, n, bias);
    int64_t terms = shape_count(w);

    if (terms < 0 || w->rank < 2 || w->dim[0] <= 0)
        return -1;
    return mul(out_count(g, n), add(mul(terms / w->dim[0], 2), biased));
}

/* Each element of the input meets the whole of the kernel of its group. */
static int64_t f_conv_transpose(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *w = in_shape(g, n, 1);
    int64_t in = in_count(g, n, 0), terms = shape_count(w);

    (void)r;
    if (terms < 0 || w->rank < 2 || w->dim[0] <= 0)
        return -1;
    return add(mul(in, mul(terms / w->dim[0], 2)), node_in(g, n, 2) ? out_count(g, n) : 0);
}

static int64_t f_deform_conv(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *w = in_shape(g, n, 1);
    int64_t terms = shape_count(w);

    (void)r;
    return terms < 0 || w->rank < 2 || w->dim[0] <= 0
               ? -1
               : mul(out_count(g, n), mul(terms / w->dim[0], 3));
}

/* N(out) x size of the window */
static int64_t f_pool(const struct graph *g, const struct node *n, const struct row *r)
{
    size_t len;
    const int64_t *k = node_attr_ints(n, "kernel_shape", &len);
    int64_t c = mul(out_count(g, n), r->cost);

    for (size_t i = 0; i < len; i++)
        c = mul(c, k[i]);
    return c;
}

/* MatMul and the like: cost is the slot of the second operand. 2 x N(out) x inner dimension. */
static int64_t f_matmul(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *a = in_shape(g, n, 0);
    bool turned = node_attr_int(n, "transA", 0) != 0;

    (void)r;
    return mul(out_count(g, n), mul(dim(a, turned && a->rank >= 2 ? -2 : -1), 2));
}

static int64_t f_gemm(const struct graph *g, const struct node *n, const struct row *r)
{
    return add(f_matmul(g, n, r), node_in(g, n, 2) ? out_count(g, n) : 0);
}

/* How many letters a term of an equation has, up to ',', '-' or its end. */
static int term_letters(const char *p)
{
    int n = 0;

    for (; *p && *p != ',' && *p != '-'; p++)
        n += *p != ' ' && *p != '.';
    return n;
}

/* 2 x N(out) x the letters that are summed over; a single operand is only summed or turned */
static int64_t f_einsum(const struct graph *g, const struct node *n, const struct row *r)
{
    const char *p = node_attr_str(n, "equation", ""), *arrow = strstr(p, "->");
    int64_t size[128] = { 0 }, c = out_count(g, n);
    int seen[128] = { 0 }, at = 0;
    uint32_t slot = 0;

    (void)r;
    if (n->nin == 1)
        return in_count(g, n, 0);
    for (; *p && p != arrow; p++) {
        const struct shape *s = in_shape(g, n, slot);
        unsigned char letter = (unsigned char)*p;
        int64_t d;

        if (*p == ',') {
            slot++;
            at = 0;
        } else if (*p == '.') {
            at = s->rank - term_letters(p); /* what follows the dots is counted from the end */
        } else if (*p != ' ' && letter < 128) {
            d = dim(s, at++);
            if (d < 0)
                return -1;
            size[letter] = MAX(size[letter], d);
            seen[letter]++;
        }
    }
    for (int i = 0; i < 128; i++)
        if (seen[i] && (arrow ? !strchr(arrow, i) : seen[i] > 1))
            c = mul(c, size[i]);
    return mul(c, 2);
}

/* LSTM, GRU, RNN: cost is the number of gates. Per step and sequence: two products, their sum, two
 * biases, and what the gates compute (a sigmoid is 4, a tanh 1). */
static int64_t f_recurrent(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *x = in_shape(g, n, 0), *w = in_shape(g, n, 1), *rec = in_shape(g, n, 2);
    int64_t gates = r->cost, act = gates == 4 ? 18 : gates == 3 ? 14 : 1;
    int64_t dirs = dim(w, 0), hidden = dim(rec, 2), input = dim(x, 2);
    int64_t steps = mul(dim(x, 0), dim(x, 1)), per;

    if (strcmp(n->op_type, "DynamicQuantizeLSTM") == 0) { /* its weights are turned */
        hidden = node_attr_int(n, "hidden_size", -1);
        dirs = dim(w, 0);
    }
    per = mul(mul(gates, hidden), mul(add(input, hidden), 2));
    per = add(per, mul(hidden, gates + (node_in(g, n, 3) ? 2 * gates : 0) + act));
    return mul(mul(steps, dirs), per);
}

/* Q, K, V of opset 23, or com.microsoft's MultiHeadAttention: scores, their scaling and softmax,
 * and the weighted sum. Heads drop out of the product where they are not a dimension. */
static int64_t f_attention(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *q = in_shape(g, n, 0), *k = in_shape(g, n, 1), *v = in_shape(g, n, 2);
    bool flat = q->rank == 3;
    int64_t heads =
        flat ? node_attr_int(n, n->domain[0] ? "num_heads" : "q_num_heads", -1) : dim(q, 1);
    int64_t past = n->domain[0] == '\0' && node_in(g, n, 4) ? dim(in_shape(g, n, 4), 2) : 0;
    int64_t s = dim(q, -2), t = add(dim(k, -2), past), dk = dim(q, -1), pairs, kv, dv = dim(v, -1);

    (void)r;
    if (q->rank < 3 || k->rank != q->rank || v->rank != q->rank || heads <= 0)
        return -1;
    kv = node_attr_int(n, "kv_num_heads", heads);
    if (flat && kv > 0) {
        dk = dk < 0 ? -1 : dk / heads;
        dv = dv < 0 ? -1 : dv / kv;
    }
    pairs = mul(mul(dim(q, 0), heads), mul(s, t));
    return mul(pairs, add(add(mul(dk, 2), mul(dv, 2)), 6 + (node_in(g, n, 3) != NULL)));
}

/* com.microsoft's Attention: the projection to Q, K and V first. */
static int64_t f_ms_attention(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *x = in_shape(g, n, 0), *w = in_shape(g, n, 1);
    int64_t heads = node_attr_int(n, "num_heads", -1), rows = mul(dim(x, 0), dim(x, 1));
    int64_t hidden = dim(w, 1), pairs = mul(rows, dim(x, 1));

    (void)r;
    if (heads <= 0 || hidden < 0)
        return -1;
    return add(mul(rows, mul(mul(dim(x, 2), hidden), 2)),
               add(mul(pairs, mul(hidden / 3, 4)), mul(mul(pairs, heads), 6)));
}

/* LayerNormalization and relatives: cost per element, one less without a bias */
static int64_t f_norm(const struct graph *g, const struct node *n, const struct row *r)
{
    return mul(in_count(g, n, 0), r->cost - (node_in(g, n, 2) == NULL));
}

static int64_t f_lrn(const struct graph *g, const struct node *n, const struct row *r)
{
    return mul(out_count(g, n), add(node_attr_int(n, "size", -1), r->cost));
}

/* How many dimensions a resize changes. */
static int scaled_dims(const struct graph *g, const struct node *n)
{
    const struct shape *x = in_shape(g, n, 0);
    const struct value *y = node_out(g, n, 0);
    int d = 0;

    for (int32_t i = 0; y && x->rank == y->shape.rank && i < x->rank; i++)
        d += x->dim[i] != y->shape.dim[i];
    return d;
}

/* Interpolation between 2 (linear: 3 operations) or 4 (cubic: 7) points, dimension by dimension. */
static int64_t interpolate(const char *mode, int64_t out, int dims)
{
    int64_t points = strstr(mode, "cubic") ? 4 : strstr(mode, "linear") ? 2 : 1, lerps = 0, all = 1;

    if (points == 1)
        return out;
    for (int i = 0; i < dims; i++, all *= points)
        lerps += all;
    return mul(out, MAX(lerps * (points == 4 ? 7 : 3), (int64_t)1));
}

static int64_t f_resize(const struct graph *g, const struct node *n, const struct row *r)
{
    (void)r;
    return interpolate(node_attr_str(n, "mode", "nearest"), out_count(g, n), scaled_dims(g, n));
}

static int64_t f_grid_sample(const struct graph *g, const struct node *n, const struct row *r)
{
    int rank = in_shape(g, n, 0)->rank;

    (void)r;
    return rank < 3
               ? -1
               : interpolate(node_attr_str(n, "mode", "linear"), out_count(g, n), MIN(rank - 2, 3));
}

/* Samples of each bin are interpolated and averaged; how many is up to the data if not given. */
static int64_t f_roi_align(const struct graph *g, const struct node *n, const struct row *r)
{
    int64_t s = node_attr_int(n, "sampling_ratio", 0);

    return s <= 0 ? -1 : mul(out_count(g, n), mul(mul(s, s), r->cost));
}

/* 5 L log2 L for each transform of length L */
static int64_t f_dft(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct shape *x = in_shape(g, n, 0);
    int64_t count = shape_count(x), axis = node_attr_int(n, "axis", n->opset >= 20 ? -2 : 1);
    int64_t length = dim(x, (int)MIN(MAX(axis, (int64_t)-16), (int64_t)16));

    (void)r;
    if (count < 0 || length <= 0)
        return -1;
    return mul(count / MAX(dim(x, -1), (int64_t)1), (int64_t)ceil(5 * log2((double)length + 1)));
}

static int64_t f_stft(const struct graph *g, const struct node *n, const struct row *r)
{
    const struct value *y = node_out(g, n, 0);
    int64_t bins = y ? dim(&y->shape, 2) : -1, frames;

    (void)r;
    if (bins <= 0)
        return -1;
    frames = mul(dim(&y->shape, 0), dim(&y->shape, 1));
    return mul(mul(frames, mul(bins, 2)), (int64_t)ceil(5 * log2(2.0 * (double)bins)));
}

/* Elimination: 2/3 n^3 for each matrix */
static int64_t f_det(const struct graph *g, const struct node *n, const struct row *r)
{
    int64_t m = dim(in_shape(g, n, 0), -1);

    (void)r;
    return m < 0 ? -1 : mul(in_count(g, n, 0), m) / 3 * 2;
}

/* A wide row of the word table per token, and sums with position and segment. */
static int64_t f_embed_norm(const struct graph *g, const struct node *n, const struct row *r)
{
    return mul(out_count(g, n), r->cost);
}

static const struct row rows[] = {
#define FOOTPRINT(domain, name, fn, cost, weight) { domain, name, fn, cost, weight },
#include "graph/footprint_ops.def"
#undef FOOTPRINT
};

static int by_name(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    int order = strcmp(x->domain, y->domain);

    return order ? order : strcmp(x->name, y->name);
}

static const struct row *find_row(const struct node *n)
{
    struct row key = { .domain = n->domain, .name = n->op_type };

    return bsearch(&key, rows, ARRAY_SIZE(rows), sizeof(rows[0]), by_name);
}

bool footprint_knows(const char *domain, const char *op_type)
{
    struct node n = { .domain = domain, .op_type = op_type };

    return find_row(&n) != NULL;
}

/* Operators that read only part of their first input: as much as they return. */
static bool reads_part(const struct node *n)
{
    static const char *const names[] = { "Gather", "GatherElements", "GatherND", "Slice",
                                         "Compress" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (node_is(n, names[i]))
            return true;
    return false;
}

static int64_t value_bytes(const struct value *v)
{
    return v->kind == VALUE_TENSOR ? shape_bytes(&v->shape, v->type) : -1;
}

static int64_t read_bytes(const struct graph *g, const struct node *n)
{
    int64_t sum = 0;

    if (node_is(n, "Shape") || node_is(n, "Size"))
        return 0;
    for (uint32_t i = 0; i < n->nin; i++) {
        const struct value *v = node_in(g, n, i), *y = node_out(g, n, 0);
        bool again = false;

        for (uint32_t k = 0; k < MIN(i, 64u) && v; k++)
            again = again || n->in[k] == n->in[i];
        if (v && !again)
            sum = add(sum, i == 0 && y && reads_part(n) ? value_bytes(y) : value_bytes(v));
    }
    return sum;
}

static int64_t write_bytes(const struct graph *g, const struct node *n)
{
    int64_t sum = 0;

    for (uint32_t i = 0; i < n->nout; i++) {
        const struct value *v = node_out(g, n, i);

        if (v)
            sum = add(sum, value_bytes(v));
    }
    return sum;
}

/* The weight is where the table says; of a product either operand may be it. */
static int weight_slot(const struct graph *g, const struct node *n, const struct row *r)
{
    if (!r || r->weight < 0)
        return -1;
    if (node_const(g, n, (uint32_t)r->weight))
        return r->weight;
    return (r->fn == f_matmul || r->fn == f_gemm) && node_const(g, n, 0) ? 0 : -1;
}

void node_footprint(const struct graph *g, const struct node *n, struct footprint *out)
{
    const struct row *r = find_row(n);

    *out = (struct footprint){ .flops = r ? r->fn(g, n, r) : -1,
                               .read_bytes = read_bytes(g, n),
                               .write_bytes = write_bytes(g, n),
                               .weight_slot = weight_slot(g, n, r) };
}
