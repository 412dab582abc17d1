/* fold_math.c -- compute small constants: arithmetic, comparison, reduction.
 *
 * Floats are computed in double and rounded to their type after each operator, which for + - * /
 * and square roots of float32 gives what float32 arithmetic gives. */
#include "graph/fold.h"

#include <math.h>

enum binary {
    B_ADD,
    B_SUB,
    B_MUL,
    B_DIV,
    B_MOD,
    B_MIN,
    B_MAX,
    B_POW,
    B_AND,
    B_OR,
    B_XOR,
    B_EQUAL,
    B_LESS,
    B_GREATER,
    B_LESS_EQUAL,
    B_GREATER_EQUAL,
};

/* With at least one operand open: what can still be said. Open dimensions are not negative. */
static int64_t open_binary(enum binary op, int64_t a, int64_t b)
{
    switch (op) {
    case B_ADD:
        return a == 0 ? b : b == 0 ? a : ELEM_ANY;
    case B_SUB:
        return b == 0 ? a : a == b && a != ELEM_ANY && a != elem_of_dim(DIM_OPEN) ? 0 : ELEM_ANY;
    case B_MUL:
        if (a == 0 || b == 0)
            return 0;
        return a == 1 ? b : b == 1 ? a : ELEM_ANY;
    case B_DIV:
        return b == 1 ? a : ELEM_ANY;
    case B_EQUAL:
        if ((elem_is_dim(a) && !elem_open(b) && b < 0) ||
            (elem_is_dim(b) && !elem_open(a) && a < 0))
            return 0;
        return a == b && a != ELEM_ANY && a != elem_of_dim(DIM_OPEN) ? 1 : ELEM_ANY;
    case B_LESS:
        return elem_is_dim(a) && !elem_open(b) && b <= 0 ? 0 : ELEM_ANY;
    case B_GREATER_EQUAL:
        return elem_is_dim(a) && !elem_open(b) && b <= 0 ? 1 : ELEM_ANY;
    case B_GREATER:
        return elem_is_dim(a) && !elem_open(b) && b < 0 ? 1 : ELEM_ANY;
    case B_MAX: /* Max(dim, 0) and the like */
        if (elem_is_dim(a) && !elem_open(b) && b <= 0)
            return a;
        return elem_is_dim(b) && !elem_open(a) && a <= 0 ? b : ELEM_ANY;
    case B_MIN:
        if (elem_is_dim(a) && b == INT64_MAX)
            return a;
        return elem_is_dim(b) && a == INT64_MAX ? b : ELEM_ANY;
    case B_AND:
        return a == 0 || b == 0 ? 0 : ELEM_ANY;
    case B_OR:
        return (!elem_open(a) && a) || (!elem_open(b) && b) ? 1 : ELEM_ANY;
    default:
        return ELEM_ANY;
    }
}

static int64_t int_pow(int64_t a, int64_t b, bool *bad)
{
    uint64_t r = 1, x = (uint64_t)a;

    *bad = *bad || b < 0;
    for (; b > 0; b >>= 1, x *= x)
        if (b & 1)
            r *= x;
    return (int64_t)r;
}

/* Wraps around like the machine; *bad for what has no result. */
static int64_t int_binary(enum binary op, int64_t a, int64_t b, bool *bad)
{
    int64_t r;

    if (elem_open(a) || elem_open(b))
        return open_binary(op, a, b);
    switch (op) {
    case B_ADD:
        return (int64_t)((uint64_t)a + (uint64_t)b);
    case B_SUB:
        return (int64_t)((uint64_t)a - (uint64_t)b);
    case B_MUL:
        return (int64_t)((uint64_t)a * (uint64_t)b);
    case B_DIV:
    case B_MOD:
        if (b == 0 || (b == -1 && a == INT64_MIN)) {
            *bad = true;
            return 0;
        }
        if (op == B_DIV)
            return a / b;
        r = a % b;
        return r && (r < 0) != (b < 0) ? r + b : r;
    case B_MIN:
        return MIN(a, b);
    case B_MAX:
        return MAX(a, b);
    case B_POW:
        return int_pow(a, b, bad);
    case B_AND:
        return a && b;
    case B_OR:
        return a || b;
    case B_XOR:
        return !a != !b;
    case B_EQUAL:
        return a == b;
    case B_LESS:
        return a < b;
    case B_GREATER:
        return a > b;
    case B_LESS_EQUAL:
        return a <= b;
    case B_GREATER_EQUAL:
        return a >= b;
    }
    return 0;
}

static double float_binary(enum binary op, double a, double b, bool *bad)
{
    switch (op) {
    case B_ADD:
        return a + b;
    case B_SUB:
        return a - b;
    case B_MUL:
        return a * b;
    case B_DIV:
        return a / b;
    case B_MIN:
        return isnan(a) || a < b ? a : b;
    case B_MAX:
        return isnan(a) || a > b ? a : b;
    case B_POW:
        return pow(a, b);
    default:
        *bad = true;
        return 0;
    }
}

static bool float_compare(enum binary op, double a, double b)
{
    switch (op) {
    case B_EQUAL:
        return a == b;
    case B_LESS:
        return a < b;
    case B_GREATER:
        return a > b;
    case B_LESS_EQUAL:
        return a <= b;
    default:
        return a >= b;
    }
}

static void binary(const struct op *o, enum binary op)
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
            out->i[i] = int_binary(op, a->i[x], b->i[y], &bad);
        else if (op >= B_EQUAL)
            out->i[i] = float_compare(op, a->f[x], b->f[y]);
        else
            out->f[i] = float_binary(op, a->f[x], b->f[y], &bad);
    }
    if (!bad)
        op_set_known(o, 0, out);
}

#define BINARY(name, code)               \
    void fold_##name(const struct op *o) \
    {                                    \
        binary(o, code);                 \
    }
BINARY(add, B_ADD)
BINARY(sub, B_SUB)
BINARY(mul, B_MUL)
BINARY(div, B_DIV)
BINARY(pow, B_POW)
BINARY(and, B_AND)
BINARY(or, B_OR)
BINARY(xor, B_XOR)
BINARY(equal, B_EQUAL)
BINARY(less, B_LESS)
BINARY(greater, B_GREATER)
BINARY(less_equal, B_LESS_EQUAL)
BINARY(greater_equal, B_GREATER_EQUAL)

void fold_mod(const struct op *o)
{
    if (op_int(o, "fmod", 0) == 0)
        binary(o, B_MOD);
}

/* Max and Min take any number of operands; two is what shape arithmetic has. */
void fold_max(const struct op *o)
{
    if (o->n->nin == 2)
        binary(o, B_MAX);
}

void fold_min(const struct op *o)
{
    if (o->n->nin == 2)
        binary(o, B_MIN);
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

static void unary(const struct op *o, enum unary op)
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
        op_set_known(o, 0, out);
}

#define UNARY(name, code)                \
    void fold_##name(const struct op *o) \
    {                                    \
        unary(o, code);                  \
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

void fold_where(const struct op *o)
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
    op_set_known(o, 0, out);
}

void fold_cast(const struct op *o)
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
    op_set_known(o, 0, out);
}

/* Reductions: the operation between elements, and what is done at the end. */
static void reduce(const struct op *o, enum binary op, bool mean)
{
    const struct elems *a = op_known(o, 0);
    struct elems *out = a ? fold_result(o, 0) : NULL;
    struct shape at;
    bool bad = false, *seen, floats;
    int64_t each;

    if (!out || out->n == 0 || a->n == 0 || (mean && !tensor_type_float(a->type)))
        return;
    seen = arena_alloc(&o->inf->m->impl->folded, (size_t)out->n);
    if (!seen) {
        o->inf->nomem = true;
        return;
    }
    /* The result's shape with the reduced dimensions kept: those that differ, or are gone. */
    if (!fold_reduced_shape(o, &a->shape, &at) || shape_count(&at) != out->n)
        return;
    floats = tensor_type_float(a->type);
    each = a->n / out->n;
    for (int64_t i = 0; i < a->n && !bad; i++) {
        int64_t k = fold_index(&a->shape, &at, i);

        if (floats)
            out->f[k] = seen[k] ? float_binary(op, out->f[k], a->f[i], &bad) : a->f[i];
        else
            out->i[k] = seen[k] ? int_binary(op, out->i[k], a->i[i], &bad) : a->i[i];
        seen[k] = true;
    }
    for (int64_t k = 0; mean && k < out->n; k++)
        out->f[k] /= (double)each;
    if (!bad)
        op_set_known(o, 0, out);
}

void fold_reduce_sum(const struct op *o)
{
    reduce(o, B_ADD, false);
}

void fold_reduce_prod(const struct op *o)
{
    reduce(o, B_MUL, false);
}

void fold_reduce_max(const struct op *o)
{
    reduce(o, B_MAX, false);
}

void fold_reduce_min(const struct op *o)
{
    reduce(o, B_MIN, false);
}

void fold_reduce_mean(const struct op *o)
{
    reduce(o, B_ADD, true);
}
