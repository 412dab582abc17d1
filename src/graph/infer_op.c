/* infer_op.c -- how the functions of shape inference see a node; see infer_int.h. */
#include "base/error.h"
#include "graph/infer_int.h"

#include <math.h>
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

bool op_has(const struct op *o, uint32_t slot)
{
    return node_in(o->g, o->n, slot) != NULL;
}

enum tensor_type op_type(const struct op *o, uint32_t slot)
{
    const struct value *v = node_in(o->g, o->n, slot);

    return v ? v->type : TENSOR_NONE;
}

const struct shape *op_shape(const struct op *o, uint32_t slot)
{
    const struct value *v = node_in(o->g, o->n, slot);

    return v ? &v->shape : &unknown;
}

int op_rank(const struct op *o, uint32_t slot)
{
    return op_shape(o, slot)->rank;
}

int64_t op_int(const struct op *o, const char *attr, int64_t missing)
{
    return node_attr_int(o->n, attr, missing);
}

/* Types whose elements can be held in struct elems. */
static bool foldable(enum tensor_type t)
{
    switch (t) {
    case TENSOR_U8:
    case TENSOR_I8:
    case TENSOR_U16:
    case TENSOR_I16:
    case TENSOR_I32:
    case TENSOR_U32:
    case TENSOR_I64:
    case TENSOR_BOOL:
    case TENSOR_F16:
    case TENSOR_F32:
    case TENSOR_F64:
        return true;
    default:
        return false;
    }
}

/* Few enough elements; 0 x huge x huge has none, but strides that do not fit. */
static bool small_enough(const struct shape *s)
{
    int64_t n = 1;

    for (int32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0 || s->dim[i] > FOLD_ELEMS_MAX)
            return false;
        n *= MAX(s->dim[i], (int64_t)1);
        if (n > FOLD_ELEMS_MAX)
            return false;
    }
    return s->rank >= 0;
}

static struct elems *elems_new(struct infer *inf, enum tensor_type type, const struct shape *s)
{
    struct arena *a = &inf->m->impl->folded;
    int64_t n = shape_count(s);
    struct elems *e;

    if (!small_enough(s) || !foldable(type) || a->used > FOLD_MAX_BYTES)
        return NULL;
    e = arena_alloc(a, sizeof(*e));
    if (e)
        e->i = arena_alloc(a, (size_t)n * sizeof(*e->i));
    if (!e || !e->i) {
        inf->nomem = true;
        return NULL;
    }
    e->type = type;
    e->shape = *s;
    e->n = n;
    return e;
}

struct elems *op_new_known(const struct op *o, enum tensor_type type, const struct shape *s)
{
    return elems_new(o->inf, type, s);
}

const struct elems *infer_elems(struct infer *inf, const struct tensor *t)
{
    struct elems *e = elems_new(inf, t->type, &t->shape);

    for (int64_t i = 0; e && i < e->n; i++) {
        if (tensor_type_float(e->type)) {
            e->f[i] = tensor_float(t, i);
            continue;
        }
        e->i[i] = tensor_int(t, i);
        if (elem_open(e->i[i]))
            return NULL; /* a real number in the range of the unreal ones: better unknown */
    }
    return e;
}

const struct elems *op_known(const struct op *o, uint32_t slot)
{
    const struct value *v = node_in(o->g, o->n, slot);
    const struct elems **known;

    if (!v)
        return NULL;
    known = &o->g->known[o->n->in[slot]];
    if (!*known && v->data)
        *known = infer_elems(o->inf, v->data);
    return *known;
}

const struct elems *op_known_ints(const struct op *o, uint32_t slot)
{
    const struct elems *e = op_known(o, slot);

    return e && !tensor_type_float(e->type) ? e : NULL;
}

bool op_known_int(const struct op *o, uint32_t slot, int64_t *out)
{
    const struct elems *e = op_known_ints(o, slot);

    if (!e || e->n != 1 || e->open)
        return false;
    *out = e->i[0];
    return true;
}

bool op_known_float(const struct op *o, uint32_t slot, double *out)
{
    const struct elems *e = op_known(o, slot);

    if (!e || e->n != 1 || e->open)
        return false;
    *out = tensor_type_float(e->type) ? e->f[0] : (double)e->i[0];
    return true;
}

int op_list(const struct op *o, const char *attr, uint32_t slot, int64_t *out, int64_t max,
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

void op_set(const struct op *o, uint32_t slot, enum tensor_type type, const struct shape *s)
{
    struct value *v = node_out(o->g, o->n, slot);

    if (!v)
        return;
    v->kind = VALUE_TENSOR;
    v->type = type;
    v->shape = s ? *s : unknown;
}

void op_set_kind(const struct op *o, uint32_t slot, enum value_kind kind)
{
    struct value *v = node_out(o->g, o->n, slot);

    if (v)
        v->kind = kind;
}

void op_same(const struct op *o, uint32_t slot, uint32_t in)
{
    op_set(o, slot, op_type(o, in), op_shape(o, in));
}

/* Bring an integer into the range of its type, as storing it would. */
static int64_t wrap(enum tensor_type t, int64_t v)
{
    switch (t) {
    case TENSOR_U8:
        return (uint8_t)v;
    case TENSOR_I8:
        return (int8_t)v;
    case TENSOR_U16:
        return (uint16_t)v;
    case TENSOR_I16:
        return (int16_t)v;
    case TENSOR_I32:
        return (int32_t)v;
    case TENSOR_U32:
        return (uint32_t)v;
    case TENSOR_BOOL:
        return v != 0;
    default:
        return v;
    }
}

static double round_to(enum tensor_type t, double v)
{
    if (t == TENSOR_F32)
        return (double)(float)v;
    return t == TENSOR_F16 ? (double)f16_to_f32(f32_to_f16((float)v)) : v;
}

static void store(struct tensor *t, const struct elems *e, int64_t i)
{
    uint8_t *p = (uint8_t *)(uintptr_t)t->data;
    size_t width = (size_t)tensor_type_bits(t->type) / 8;

    if (t->type == TENSOR_F32) {
        float f = (float)e->f[i];

        memcpy(p + (size_t)i * width, &f, width);
    } else if (t->type == TENSOR_F16) {
        uint16_t h = f32_to_f16((float)e->f[i]);

        memcpy(p + (size_t)i * width, &h, width);
    } else /* F64 and integers: the low bytes */
        memcpy(p + (size_t)i * width, &e->i[i], width);
}

void op_set_known(const struct op *o, uint32_t slot, struct elems *e)
{
    struct value *v = node_out(o->g, o->n, slot);
    struct tensor *t;

    if (!v || !e || v->type != e->type || !shape_equal(&v->shape, &e->shape))
        return;
    e->open = false;
    for (int64_t i = 0; i < e->n; i++) {
        if (tensor_type_float(e->type))
            e->f[i] = round_to(e->type, e->f[i]);
        else if (elem_open(e->i[i]))
            e->open = true;
        else
            e->i[i] = wrap(e->type, e->i[i]);
    }
    o->g->known[o->n->out[slot]] = e;
    if (e->open)
        return;
    t = model_new_folded(o->inf->m, e->type, &e->shape);
    if (!t) {
        o->inf->nomem = true;
        return;
    }
    for (int64_t i = 0; i < e->n; i++)
        store(t, e, i);
    v->data = t;
    v->flags |= VALUE_FOLDED;
}

int op_fail(const struct op *o, const char *fmt, ...)
{
    char where[260], text[240];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    node_text(o->g, o->n, where, sizeof(where));
    return opm__fail(o->inf->err, OPM_EINVAL, "%s: %s", where, text);
}

int op_axis(const struct op *o, int64_t axis, int rank, int *out)
{
    if (axis < -rank || axis >= rank)
        return op_fail(o, "axis %lld of a tensor with %d dimensions", (long long)axis, rank);
    *out = (int)(axis < 0 ? axis + rank : axis);
    return 0;
}

int op_broadcast(const struct op *o, const struct shape *a, const struct shape *b,
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
