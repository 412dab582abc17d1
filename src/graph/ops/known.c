/* known.c -- small constants: what inference knows of the elements of a value; see known.h. */
#include "graph/ops/known.h"

#include "graph/infer_int.h"

#include <string.h>

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
bool elems_fit(enum tensor_type type, const struct shape *s)
{
    int64_t n = 1;

    for (int32_t i = 0; i < s->rank; i++) {
        if (s->dim[i] < 0 || s->dim[i] > FOLD_ELEMS_MAX)
            return false;
        n *= MAX(s->dim[i], (int64_t)1);
        if (n > FOLD_ELEMS_MAX)
            return false;
    }
    return s->rank >= 0 && foldable(type);
}

bool elems_read(struct elems *e, const struct tensor *t)
{
    for (int64_t i = 0; i < e->n; i++) {
        if (tensor_type_float(e->type)) {
            e->f[i] = tensor_float(t, i);
            continue;
        }
        e->i[i] = tensor_int(t, i);
        if (elem_open(e->i[i]))
            return false; /* a real number in the range of the unreal ones: better unknown */
    }
    return true;
}

static struct elems *elems_new(struct infer *inf, enum tensor_type type, const struct shape *s)
{
    struct arena *a = &inf->m->impl->folded;
    struct elems *e;

    if (!elems_fit(type, s) || a->used > FOLD_MAX_BYTES)
        return NULL;
    e = arena_alloc(a, sizeof(*e));
    if (e)
        e->i = arena_alloc(a, (size_t)shape_count(s) * sizeof(*e->i));
    if (!e || !e->i) {
        inf->nomem = true;
        return NULL;
    }
    e->type = type;
    e->shape = *s;
    e->n = shape_count(s);
    return e;
}

const struct elems *infer_elems(struct infer *inf, const struct tensor *t)
{
    struct elems *e = elems_new(inf, t->type, &t->shape);

    return e && elems_read(e, t) ? e : NULL;
}

struct elems *fold_result(const struct opview *o, uint32_t slot)
{
    const struct value *v = node_out(o->g, o->n, slot);

    return v && v->type != TENSOR_NONE ? elems_new(o->inf, v->type, &v->shape) : NULL;
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

void fold_set(const struct opview *o, uint32_t slot, struct elems *e)
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

int64_t fold_index(const struct shape *out, const struct shape *in, int64_t i)
{
    int64_t at = 0, step = 1;

    for (int32_t d = out->rank - 1; d >= 0; d--) {
        int32_t k = d - (out->rank - in->rank);
        int64_t c = i % out->dim[d];

        i /= out->dim[d];
        if (k < 0)
            continue;
        if (in->dim[k] != 1)
            at += c * step;
        step *= in->dim[k];
    }
    return at;
}

void fold_strides(const struct shape *s, int64_t *stride)
{
    int64_t step = 1;

    for (int32_t d = s->rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= s->dim[d];
    }
}

void fold_around(const struct shape *s, int axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < axis; i++)
        *outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        *inner *= s->dim[i];
}
