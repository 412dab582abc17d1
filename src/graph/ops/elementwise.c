/* elementwise.c -- operators that work element by element, with broadcasting. */
#include "graph/ops/known.h"

#include <math.h>
#include <string.h>

/* Identity keeps whatever its input is, and knows what is known about it. */
int infer_identity(const struct opview *o)
{
    const struct value *from = o->g ? node_in(o->g, o->n, 0) : NULL;
    struct value *to = o->g ? node_out(o->g, o->n, 0) : NULL;

    op_same(o, 0, 0);
    if (!from || !to)
        return 0;
    to->kind = from->kind;
    if (from->data) {
        to->data = from->data;
        to->flags |= VALUE_FOLDED;
    }
    o->g->known[o->n->out[0]] = o->g->known[o->n->in[0]];
    return 0;
}

/* Same shape, but true or false. */
int infer_test(const struct opview *o)
{
    op_set(o, 0, TENSOR_BOOL, op_shape(o, 0));
    return 0;
}

/* Before opset 7 the second operand was fitted into the first by attributes. */
static bool old_broadcast(const struct opview *o)
{
    return o->n->domain[0] == '\0' && o->n->opset < 7;
}

static int broadcast_pair(const struct opview *o, struct shape *s)
{
    if (old_broadcast(o)) {
        *s = *op_shape(o, 0);
        return 0;
    }
    return op_broadcast(o, op_shape(o, 0), op_shape(o, 1), s);
}

int infer_binary(const struct opview *o)
{
    enum tensor_type type = op_type(o, 0);
    struct shape s;
    int rc = broadcast_pair(o, &s);

    if (rc)
        return rc;
    if (type == TENSOR_NONE && strcmp(o->n->op_type, "Pow") != 0)
        type = op_type(o, 1);
    op_set(o, 0, type, &s);
    return 0;
}

int infer_compare(const struct opview *o)
{
    struct shape s;
    int rc = broadcast_pair(o, &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_BOOL, &s);
    return 0;
}

/* Any number of operands: Max, Min, Sum, Mean. */
int infer_variadic(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    enum tensor_type type = op_type(o, 0);
    int rc = 0;

    for (uint32_t i = 1; !rc && i < o->nin; i++) {
        rc = op_broadcast(o, &s, op_shape(o, i), &s);
        if (type == TENSOR_NONE)
            type = op_type(o, i);
    }
    if (rc)
        return rc;
    op_set(o, 0, type, &s);
    return 0;
}

int infer_where(const struct opview *o)
{
    enum tensor_type type = op_type(o, 1);
    struct shape s;
    int rc = op_broadcast(o, op_shape(o, 1), op_shape(o, 2), &s);

    if (!rc)
        rc = op_broadcast(o, op_shape(o, 0), &s, &s);
    if (rc)
        return rc;
    op_set(o, 0, type != TENSOR_NONE ? type : op_type(o, 2), &s);
    return 0;
}

int infer_cast(const struct opview *o)
{
    enum tensor_type type = TENSOR_NONE;
    int rc = op_type_attr(o, "to", TENSOR_NONE, &type);

    if (rc)
        return rc;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_cast_like(const struct opview *o)
{
    op_set(o, 0, op_type(o, 1), op_shape(o, 0));
    return 0;
}

/* Same shape; the type is an attribute, or else the input's: EyeLike, RandomNormalLike, ... */
int infer_same_dtype(const struct opview *o)
{
    enum tensor_type type = TENSOR_NONE;
    int rc = op_type_attr(o, "dtype", op_type(o, 0), &type);

    if (rc)
        return rc;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dropout(const struct opview *o)
{
    op_same(o, 0, 0);
    op_set(o, 1, o->n->opset >= 10 ? TENSOR_BOOL : op_type(o, 0), op_shape(o, 0));
    return 0;
}

static void binary(const struct opview *o, enum arith op)
{
    const struct elems *a = op_known(o, 0), *b = op_known(o, 1);
    struct elems *out;
    bool bad = false, floats;

    if (!a || !b)
        return;
    out = fold_result(o, 0);
    floats = tensor_type_float(a->type);
    if (!out || floats != tensor_type_float(b->type))
        return;
    for (int64_t i = 0; i < out->n && !bad; i++) {
        int64_t x = fold_index(&out->shape, &a->shape, i),
                y = fold_index(&out->shape, &b->shape, i);

        if (!floats)
            out->i[i] = arith_int(op, a->i[x], b->i[y], &bad);
        else if (op >= ARITH_EQUAL)
            out->i[i] = arith_compare(op, a->f[x], b->f[y]);
        else
            out->f[i] = arith_float(op, a->f[x], b->f[y], &bad);
    }
    if (!bad)
        fold_set(o, 0, out);
}

#define BINARY(name, code)                   \
    void fold_##name(const struct opview *o) \
    {                                        \
        binary(o, code);                     \
    }
BINARY(add, ARITH_ADD)
BINARY(sub, ARITH_SUB)
BINARY(mul, ARITH_MUL)
BINARY(div, ARITH_DIV)
BINARY(pow, ARITH_POW)
BINARY(and, ARITH_AND)
BINARY(or, ARITH_OR)
BINARY(xor, ARITH_XOR)
BINARY(equal, ARITH_EQUAL)
BINARY(less, ARITH_LESS)
BINARY(greater, ARITH_GREATER)
BINARY(less_equal, ARITH_LESS_EQUAL)
BINARY(greater_equal, ARITH_GREATER_EQUAL)

void fold_mod(const struct opview *o)
{
    if (op_int(o, "fmod", 0) == 0)
        binary(o, ARITH_MOD);
}

/* Max and Min take any number of operands; two is what shape arithmetic has. */
void fold_max(const struct opview *o)
{
    if (o->nin == 2)
        binary(o, ARITH_MAX);
}

void fold_min(const struct opview *o)
{
    if (o->nin == 2)
        binary(o, ARITH_MIN);
}

enum unary { U_NEG, U_ABS, U_FLOOR, U_CEIL, U_ROUND, U_SQRT, U_NOT, U_SIGN, U_RECIPROCAL, U_RELU };

static int64_t int_unary(enum unary op, int64_t a, bool *bad)
{
    if (elem_open(a))
        return (op == U_ABS || op == U_RELU) && elem_is_dim(a) ? a : ELEM_ANY;
    switch (op) {
    case U_NEG:
        return (int64_t)(0 - (uint64_t)a);
    case U_ABS:
        return a < 0 ? (int64_t)(0 - (uint64_t)a) : a;
    case U_NOT:
        return !a;
    case U_SIGN:
        return (a > 0) - (a < 0);
    case U_RELU:
        return MAX(a, (int64_t)0);
    default:
        *bad = true;
        return 0;
    }
}

/* To the nearest, ties to even, whatever the rounding mode of the process is. */
static double round_even(double a)
{
    double r = floor(a + 0.5);

    return r - a == 0.5 && fmod(r, 2.0) != 0 ? r - 1 : r;
}

static double float_unary(enum unary op, double a, bool *bad)
{
    switch (op) {
    case U_NEG:
        return -a;
    case U_ABS:
        return fabs(a);
    case U_FLOOR:
        return floor(a);
    case U_CEIL:
        return ceil(a);
    case U_ROUND:
        return round_even(a);
    case U_SQRT:
        return sqrt(a);
    case U_SIGN:
        return (a > 0) - (a < 0);
    case U_RECIPROCAL:
        return 1.0 / a;
    case U_RELU:
        return a < 0 ? 0 : a;
    default:
        *bad = true;
        return 0;
    }
}

static void unary(const struct opview *o, enum unary op)
{
    const struct elems *a = op_known(o, 0);
    struct elems *out = a ? fold_result(o, 0) : NULL;
    bool bad = false;

    if (!out)
        return;
    for (int64_t i = 0; i < out->n && !bad; i++) {
        if (tensor_type_float(a->type))
            out->f[i] = float_unary(op, a->f[i], &bad);
        else
            out->i[i] = int_unary(op, a->i[i], &bad);
    }
    if (!bad)
        fold_set(o, 0, out);
}

#define UNARY(name, code)                    \
    void fold_##name(const struct opview *o) \
    {                                        \
        unary(o, code);                      \
    }
UNARY(neg, U_NEG)
UNARY(abs, U_ABS)
UNARY(floor, U_FLOOR)
UNARY(ceil, U_CEIL)
UNARY(round, U_ROUND)
UNARY(sqrt, U_SQRT)
UNARY(not, U_NOT)
UNARY(sign, U_SIGN)
UNARY(reciprocal, U_RECIPROCAL)
UNARY(relu, U_RELU)

void fold_where(const struct opview *o)
{
    const struct elems *c = op_known_ints(o, 0), *a = op_known(o, 1), *b = op_known(o, 2);
    struct elems *out = c && a && b ? fold_result(o, 0) : NULL;

    if (!out || tensor_type_float(a->type) != tensor_type_float(b->type))
        return;
    for (int64_t i = 0; i < out->n; i++) {
        int64_t cond = c->i[fold_index(&out->shape, &c->shape, i)];
        int64_t x = fold_index(&out->shape, &a->shape, i),
                y = fold_index(&out->shape, &b->shape, i);

        if (tensor_type_float(a->type)) {
            if (elem_open(cond))
                return;
            out->f[i] = cond ? a->f[x] : b->f[y];
        } else if (elem_open(cond))
            out->i[i] = a->i[x] == b->i[y] ? a->i[x] : ELEM_ANY;
        else
            out->i[i] = cond ? a->i[x] : b->i[y];
    }
    fold_set(o, 0, out);
}

void fold_cast(const struct opview *o)
{
    const struct elems *a = op_known(o, 0);
    struct elems *out = a ? fold_result(o, 0) : NULL;
    bool from, to;

    if (!out)
        return;
    from = tensor_type_float(a->type);
    to = tensor_type_float(out->type);
    for (int64_t i = 0; i < out->n; i++) {
        if (from && to)
            out->f[i] = a->f[i];
        else if (from) {
            if (!(fabs(a->f[i]) < 0x1p62))
                return; /* what comes of it depends on the machine */
            out->i[i] = out->type == TENSOR_BOOL ? a->f[i] != 0 : (int64_t)a->f[i];
        } else if (to) {
            if (elem_open(a->i[i]))
                return;
            out->f[i] = (double)a->i[i];
        } else if (elem_open(a->i[i]) && out->type != TENSOR_I64 && out->type != TENSOR_I32)
            out->i[i] = ELEM_ANY;
        else
            out->i[i] = a->i[i];
    }
    fold_set(o, 0, out);
}

/* Sum, Max, ...: one less than operands */
int64_t flops_variadic(const struct graph *g, const struct node *n, int cost)
{
    (void)cost;
    return count_mul(node_out_count(g, n), MAX((int64_t)n->nin, (int64_t)2) - 1);
}

/* com.microsoft's BiasSplitGelu: a bias is added, then one half of the last dimension is multiplied
 * by the Gelu of the other. */
int infer_bias_split_gelu(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank > 0 && s.dim[s.rank - 1] >= 0) {
        if (s.dim[s.rank - 1] % 2)
            return op_fail(o, "the last dimension has no halves: %lld",
                           (long long)s.dim[s.rank - 1]);
        s.dim[s.rank - 1] /= 2;
    } else if (s.rank > 0)
        s.dim[s.rank - 1] = DIM_OPEN;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* The slope broadcasts to the input, never the other way. */
int infer_prelu(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape s;
    int rc = o->n->opset < 7 ? 0 : op_broadcast(o, x, op_shape(o, 1), &s);

    if (!rc && o->n->opset >= 7 && shape_concrete(x) && shape_concrete(&s) && !shape_equal(x, &s))
        rc = op_fail(o, "the slope is larger than the input");
    if (rc)
        return rc;
    op_same(o, 0, 0);
    return 0;
}
