/* op.c -- what kernels use to look at their operands and to complain. */
#include "engine/native/op.h"
#include "base/human.h"
#include "engine/native/isa/half.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int kernel_fail(const struct op *op, int code, opm_error *err, const char *fmt, ...)
{
    char node[300], text[300];
    va_list ap;

    node_text(op->plan->graph, op->node, node, sizeof(node));
    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    return opm__fail(err, code, "%s: %s", node, text);
}

int kernel_nomem(const struct op *op, opm_error *err)
{
    const struct budget *b = &op->plan->engine->budget;
    char more[HUMAN_ROOM], most[HUMAN_ROOM];

    if (b->refused)
        return kernel_fail(op, OPM_ELIMIT, err,
                           "needs %s more, which exceeds the limit of %s of memory; raise it "
                           "(max_memory) if the model is sound",
                           human_bytes(more, b->refused), human_bytes(most, (uint64_t)b->most));
    return kernel_fail(op, OPM_ENOMEM, err, "out of memory");
}

const void *kernel_data(struct op *op, uint32_t i)
{
    struct val *v;

    if (i >= op->nin || op->in[i] == NO_VALUE)
        return NULL;
    v = &op->plan->val[op->in[i]];
    if (v->kind == VAL_CONST)
        return val_materialize(v) ? NULL : v->t.data;
    if (v->kind == VAL_KNOWN)
        return v->t.data;
    op->looked = true;
    /* Before running there is nothing, or what the last run left, where operators write. */
    return v->kind == VAL_INPUT || op->plan->engine->running ? v->t.data : NULL;
}

/* Bigger 16-bit constants have no float32 form before operators are prepared. */
#define WIDEN_EARLY 65536

const struct tensor *kernel_const(const struct op *op, uint32_t i)
{
    struct val *v = i < op->nin && op->in[i] != NO_VALUE ? &op->plan->val[op->in[i]] : NULL;

    if (!v || !v->src)
        return NULL;
    if (!op->plan->built && v->src->shape.rank > 1 && v->src->count > WIDEN_EARLY)
        return v->src;
    return val_widen(v) ? NULL : v->src;
}

const struct tensor *kernel_half(const struct op *op, uint32_t i)
{
    return i < op->nin && op->in[i] != NO_VALUE ? op->plan->val[op->in[i]].half : NULL;
}

static struct tensor as_tensor(const struct nt *t)
{
    return (struct tensor){ "", t->type, t->shape, t->count, t->data, t->bytes, false };
}

int64_t nt_int(const struct nt *t, int64_t i)
{
    struct tensor x = as_tensor(t);

    return tensor_int(&x, i);
}

double nt_float(const struct nt *t, int64_t i)
{
    struct tensor x = as_tensor(t);

    return tensor_float(&x, i);
}

int kernel_ints(struct op *op, uint32_t i, int64_t *out, size_t room, size_t *n, opm_error *err)
{
    const struct nt *t = kernel_in(op, i);

    *n = 0;
    if (!t)
        return 0;
    if (!(TYPE_BIT(t->type) & TYPES_INT) || t->shape.rank > 1)
        return kernel_fail(op, OPM_EINVAL, err, "input %u must be a list of integers", i);
    if (!kernel_data(op, i))
        return NEED_DATA;
    if ((uint64_t)t->count > room)
        return kernel_fail(op, OPM_EINVAL, err, "input %u has %lld entries", i,
                           (long long)t->count);
    for (int64_t k = 0; k < t->count; k++)
        out[k] = nt_int(t, k);
    *n = (size_t)t->count;
    return 0;
}

bool nt_sane(const struct shape *s)
{
    int64_t n = 16; /* bytes of the widest element */

    for (int32_t i = 0; i < s->rank; i++)
        if (__builtin_mul_overflow(n, MAX(s->dim[i], (int64_t)1), &n))
            return false;
    return true;
}

int kernel_set(struct op *op, uint32_t i, enum tensor_type type, const struct shape *s,
               opm_error *err)
{
    struct nt *t = kernel_out(op, i);
    int64_t bytes, most = op->plan->engine->opts.max_tensor_bytes;
    int64_t budget = op->plan->engine->budget.most;
    char text[100];

    type = half_inside(type);
    bytes = engine_bytes(s, type);

    if (bytes > 0 && budget && bytes > budget && bytes <= PTRDIFF_MAX / 4 && nt_sane(s)) {
        char has[HUMAN_ROOM], may[HUMAN_ROOM];

        shape_text(s, text, sizeof(text));
        return kernel_fail(
            op, OPM_ELIMIT, err,
            "output %u would be %s of %s, %s; the limit is %s of memory (max_memory)", i, text,
            tensor_type_name(type), human_bytes(has, (uint64_t)bytes),
            human_bytes(may, (uint64_t)budget));
    }
    if (bytes < 0 || bytes > PTRDIFF_MAX / 4 || (most && bytes > most) || !nt_sane(s)) {
        shape_text(s, text, sizeof(text));
        return kernel_fail(op, OPM_ELIMIT, err, "output %u would be %s of %s, which is too big", i,
                           text, tensor_type_name(type));
    }
    if (!t)
        return 0;
    t->type = type;
    t->shape = *s;
    t->count = shape_count(s);
    t->bytes = (size_t)bytes;
    t->kind = VALUE_TENSOR;
    return 0;
}

void *kernel_heap(const struct op *op, size_t bytes)
{
    struct native *e = op->plan->engine;

    return keep_alloc(e->running ? &e->fleeting : &e->lasting, bytes);
}

struct nt *kernel_new_item(const struct op *op, enum tensor_type type, const struct shape *s)
{
    int64_t bytes = engine_bytes(s, type);
    struct nt *t = bytes < 0 || !nt_sane(s) ? NULL : kernel_heap(op, sizeof(*t));

    if (!t)
        return NULL;
    *t = (struct nt){ .type = type, .shape = *s, .count = shape_count(s), .bytes = (size_t)bytes };
    t->data = kernel_heap(op, MAX(t->bytes, (size_t)1));
    return t->data ? t : NULL;
}

int kernel_set_list(struct op *op, uint32_t i, enum value_kind kind, int64_t n,
                    const struct nt ***list, opm_error *err)
{
    struct nt t = { .shape = { 1, { n } }, .count = n, .kind = kind };

    if (n < 0 || n > PTRDIFF_MAX / 64)
        return kernel_fail(op, OPM_ELIMIT, err, "a list of %lld is too long", (long long)n);
    t.bytes = (size_t)n * sizeof(**list);
    t.data = kernel_heap(op, t.bytes + 1);
    if (!t.data)
        return kernel_nomem(op, err);
    *list = t.data;
    kernel_give(op, i, &t);
    return 0;
}

void kernel_give(struct op *op, uint32_t i, const struct nt *t)
{
    struct val *v;

    if (!kernel_out(op, i))
        return;
    v = &op->plan->val[op->out[i]];
    v->kind = VAL_OWN;
    v->t = *t;
}

int kernel_set_blocked(struct op *op, uint32_t i, const struct shape *s, opm_error *err)
{
    int64_t b = kernel_isa(op)->blk->block;
    struct shape padded = *s;
    int rc;

    padded.dim[1] = (s->dim[1] + b - 1) / b * b;
    rc = kernel_set(op, i, TENSOR_F32, &padded, err);
    if (rc)
        return rc;
    size_t bytes = kernel_out(op, i)->bytes;

    rc = kernel_set(op, i, TENSOR_F32, s, err);
    kernel_out(op, i)->bytes = bytes;
    return rc;
}

int kernel_want(const struct op *op, uint32_t i, uint64_t types, opm_error *err)
{
    const struct nt *t = kernel_in(op, i);

    if (!t)
        return kernel_fail(op, OPM_EINVAL, err, "input %u is missing", i);
    if (!(TYPE_BIT(t->type) & types))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %s as input %u",
                           tensor_type_name(t->type), i);
    return 0;
}

int nt_axis(int64_t axis, int32_t rank)
{
    if (axis < 0)
        axis += rank;
    return axis >= 0 && axis < rank ? (int)axis : -1;
}

int64_t nt_span(const struct shape *s, int from, int to)
{
    int64_t n = 1;

    for (int i = from; i < to; i++)
        n *= s->dim[i];
    return n;
}

bool node_attr_is(const struct node *n, const char *name, const char *value, const char *missing)
{
    return strcmp(node_attr_str(n, name, missing), value) == 0;
}

void *kernel_new_state(struct op *op, size_t size)
{
    if (!op->state)
        op->state = mem_calloc(1, size);
    return op->state;
}

int val_own(struct val *v, size_t bytes)
{
    void *p;

    bytes = MAX(bytes, (size_t)1);
    if (v->own && v->own_bytes >= bytes)
        return 0;
    p = native_alloc(bytes);
    if (!p)
        return OPM_ENOMEM;
    native_free(v->own);
    v->own = p;
    v->own_bytes = bytes;
    return 0;
}

int val_copy(struct val *v, const struct nt *from)
{
    if (val_own(v, from->bytes))
        return OPM_ENOMEM;
    if (from->bytes)
        memmove(v->own, from->data, from->bytes);
    v->t = *from;
    v->t.data = v->own;
    return 0;
}

int val_widen(struct val *v)
{
    float *data;

    if (!v->half || v->wide->data)
        return 0;
    data = native_alloc(MAX(v->wide->bytes, (size_t)1));
    if (!data)
        return OPM_ENOMEM;
    half_to_float(data, v->half->data, v->half->count, v->half->type);
    v->wide->data = data;
    return 0;
}

int val_set_half(struct val *v, const struct tensor *half)
{
    v->half = half;
    v->wide = mem_calloc(1, sizeof(*v->wide));
    if (!v->wide)
        return OPM_ENOMEM;
    *v->wide = *half;
    v->wide->type = TENSOR_F32;
    v->wide->data = NULL;
    v->wide->bytes = (size_t)half->count * sizeof(float);
    v->src = v->wide;
    return 0;
}

void val_narrow(struct val *v, const struct model *m)
{
    if (!v->wide || !v->wide->data || v->t.data)
        return;
    native_free((void *)(uintptr_t)v->wide->data);
    v->wide->data = NULL;
    model_forget(m, v->half->data, v->half->bytes);
}

int val_materialize(struct val *v)
{
    size_t align = MIN(MAX(nt_width(v->src->type), (size_t)1), (size_t)8);

    if (v->t.data)
        return 0;
    if (val_widen(v))
        return OPM_ENOMEM;
    if ((uintptr_t)v->src->data % align == 0) {
        v->t.data = (void *)(uintptr_t)v->src->data;
        return 0;
    }
    if (val_own(v, v->t.bytes))
        return OPM_ENOMEM;
    memcpy(v->own, v->src->data, v->t.bytes);
    v->t.data = v->own;
    return 0;
}
