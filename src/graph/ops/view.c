/* view.c -- how a rule sees a node, and arithmetic on shapes; see ops.h. */
#include "graph/ops/known.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const struct shape unknown = { .rank = -1 };

struct shape shape_unknown(void)
{
    return unknown;
}

struct shape shape_of_rank(int rank)
{
    struct shape s = { .rank = rank };

    for (int i = 0; i < rank; i++)
        s.dim[i] = DIM_OPEN;
    return s;
}

struct shape shape_scalar(void)
{
    return (struct shape){ 0 };
}

struct shape shape_1d(int64_t n)
{
    return (struct shape){ .rank = 1, .dim = { n } };
}

int64_t dim_add(int64_t a, int64_t b)
{
    int64_t sum;

    if (a == 0)
        return b;
    if (b == 0)
        return a;
    if (a < 0 || b < 0 || __builtin_add_overflow(a, b, &sum))
        return DIM_OPEN;
    return sum;
}

int64_t dim_mul(int64_t a, int64_t b)
{
    int64_t product;

    if (a == 0 || b == 0)
        return 0;
    if (a == 1)
        return b;
    if (b == 1)
        return a;
    if (a < 0 || b < 0 || __builtin_mul_overflow(a, b, &product))
        return DIM_OPEN;
    return product;
}

void shape_join(struct shape *a, const struct shape *b)
{
    if (a->rank != b->rank)
        a->rank = -1;
    for (int32_t i = 0; i < a->rank; i++)
        if (a->dim[i] != b->dim[i])
            a->dim[i] = DIM_OPEN;
}

struct shape shape_stacked(const struct shape *s, int64_t n, int axis)
{
    struct shape out = *s;

    if (s->rank < 0 || s->rank == SHAPE_RANK_MAX)
        return unknown;
    out.rank++;
    for (int32_t i = out.rank - 1; i > axis; i--)
        out.dim[i] = out.dim[i - 1];
    out.dim[axis] = n;
    return out;
}

bool op_has(const struct opview *o, uint32_t slot)
{
    enum tensor_type type;
    const struct shape *s;

    return o->as->in(o, slot, &type, &s);
}

enum tensor_type op_type(const struct opview *o, uint32_t slot)
{
    enum tensor_type type;
    const struct shape *s;

    return o->as->in(o, slot, &type, &s) ? type : TENSOR_NONE;
}

const struct shape *op_shape(const struct opview *o, uint32_t slot)
{
    enum tensor_type type;
    const struct shape *s;

    return o->as->in(o, slot, &type, &s) ? s : &unknown;
}

int64_t op_dim(const struct opview *o, uint32_t slot, int at)
{
    const struct shape *s = op_shape(o, slot);

    return at < s->rank ? s->dim[at] : DIM_OPEN;
}

int op_rank(const struct opview *o, uint32_t slot)
{
    return op_shape(o, slot)->rank;
}

int64_t op_int(const struct opview *o, const char *attr, int64_t missing)
{
    return node_attr_int(o->n, attr, missing);
}

int op_type_attr(const struct opview *o, const char *name, enum tensor_type missing,
                 enum tensor_type *out)
{
    int64_t t = op_int(o, name, missing);

    *out = TENSOR_NONE;
    if (t < 0 || t >= TENSOR_NTYPES)
        return op_fail(o, "attribute '%s' is %lld, which is no element type", name, (long long)t);
    *out = (enum tensor_type)t;
    return 0;
}

const struct elems *op_known(const struct opview *o, uint32_t slot)
{
    return o->as->known(o, slot);
}

const struct elems *op_known_ints(const struct opview *o, uint32_t slot)
{
    const struct elems *e = op_known(o, slot);

    return e && !tensor_type_float(e->type) ? e : NULL;
}

bool op_known_int(const struct opview *o, uint32_t slot, int64_t *out)
{
    const struct elems *e = op_known_ints(o, slot);

    if (!e || e->n != 1 || e->open)
        return false;
    *out = e->i[0];
    return true;
}

bool op_known_float(const struct opview *o, uint32_t slot, double *out)
{
    const struct elems *e = op_known(o, slot);

    if (!e || e->n != 1 || e->open)
        return false;
    *out = tensor_type_float(e->type) ? e->f[0] : (double)e->i[0];
    return true;
}

int op_list(const struct opview *o, const char *attr, uint32_t slot, int64_t *out, int64_t max,
            int64_t *n, bool *given)
{
    size_t len;
    const int64_t *list = node_attr_ints(o->n, attr, &len);
    const struct elems *e;

    *given = true;
    *n = -1;
    if (list) {
        if (len > (size_t)max)
            return op_fail(o, "attribute '%s' has %zu numbers", attr, len);
        *n = (int64_t)len;
        memcpy(out, list, len * sizeof(*out));
        return 0;
    }
    if (!op_has(o, slot)) {
        *given = false;
        *n = 0;
        return 0;
    }
    e = op_known_ints(o, slot);
    if (!e || e->open)
        return 0;
    if (e->n > max)
        return op_fail(o, "input %u has %lld numbers", slot, (long long)e->n);
    *n = e->n;
    memcpy(out, e->i, (size_t)e->n * sizeof(*out));
    return 0;
}

void op_set(const struct opview *o, uint32_t slot, enum tensor_type type, const struct shape *s)
{
    o->as->set(o, slot, type, s ? s : &unknown);
}

void op_same(const struct opview *o, uint32_t slot, uint32_t in)
{
    op_set(o, slot, op_type(o, in), op_shape(o, in));
}

int op_fail(const struct opview *o, const char *fmt, ...)
{
    char text[240];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return o->as->fail(o, text);
}

int op_axis(const struct opview *o, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return op_fail(o, "axis %lld of a tensor with %d dimensions", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return 0;
}

int op_broadcast(const struct opview *o, const struct shape *a, const struct shape *b,
                 struct shape *out)
{
    struct shape s = { .rank = MAX(a->rank, b->rank) };
    char x[120], y[120];

    if (a->rank < 0 || b->rank < 0) {
        *out = unknown;
        return 0;
    }
    for (int32_t i = 0; i < s.rank; i++) {
        int32_t ia = i - (s.rank - a->rank), ib = i - (s.rank - b->rank);
        int64_t da = ia < 0 ? 1 : a->dim[ia], db = ib < 0 ? 1 : b->dim[ib];

        if (da == db || db == 1)
            s.dim[i] = da;
        else if (da == 1)
            s.dim[i] = db;
        else if (da < 0 || db < 0) /* the open one is 1 or equals the other */
            s.dim[i] = da < 0 && db < 0 ? DIM_OPEN : MAX(da, db);
        else {
            shape_text(a, x, sizeof(x));
            shape_text(b, y, sizeof(y));
            return op_fail(o, "shapes %s and %s do not broadcast", x, y);
        }
    }
    *out = s;
    return 0;
}
