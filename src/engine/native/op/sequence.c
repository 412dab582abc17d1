/* sequence.c -- sequences and optionals. All of these decide about their outputs while running. */
#include "engine/native/op/kernels.h"

#include <string.h>

WHILE_RUNNING(handover)
WHILE_RUNNING(has_element)
WHILE_RUNNING(seq_construct)
WHILE_RUNNING(seq_insert)
WHILE_RUNNING(seq_erase)
WHILE_RUNNING(seq_at)
WHILE_RUNNING(seq_length)
WHILE_RUNNING(seq_concat)
WHILE_RUNNING(seq_split)

/* Whether memory of an input stays as it is until the end of the run. */
static bool lasts(const struct op *op, uint32_t i)
{
    const struct val *v = &op->plan->val[op->in[i]];

    return !op->plan->inner && (v->kind == VAL_INPUT || v->kind == VAL_OWN);
}

/* What goes in comes out; nothing in, an empty optional out. */
int handover_run(struct op *op, opm_error *err)
{
    static char none[NATIVE_ALIGN];
    const struct nt *x = kernel_in(op, 0);
    struct nt nothing = { .data = none, .kind = VALUE_OPTIONAL };
    struct val *v = kernel_out(op, 0) ? &op->plan->val[op->out[0]] : NULL;

    if (!v)
        return 0;
    if (x && x->kind == VALUE_OPTIONAL && strcmp(op->node->op_type, "OptionalGetElement") == 0)
        return kernel_fail(op, OPM_EINVAL, err, "there is nothing in the optional");
    if (x && lasts(op, 0)) {
        kernel_give(op, 0, x);
        return 0;
    }
    v->kind = VAL_OWN;
    return val_copy(v, x ? x : &nothing) ? kernel_nomem(op, err) : 0;
}

static int give_scalar(struct op *op, enum tensor_type type, int64_t value, opm_error *err)
{
    struct shape s = { 0 };
    struct nt *t = kernel_new_item(op, type, &s);

    if (!t)
        return kernel_nomem(op, err);
    if (type == TENSOR_BOOL)
        *(uint8_t *)t->data = value != 0;
    else
        *(int64_t *)t->data = value;
    kernel_give(op, 0, t);
    return 0;
}

int has_element_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);

    return give_scalar(op, TENSOR_BOOL, x && x->kind != VALUE_OPTIONAL, err);
}

/* A tensor that nothing else will change. */
static const struct nt *own_item(const struct op *op, const struct nt *t)
{
    struct nt *copy = kernel_new_item(op, t->type, &t->shape);

    if (copy && t->bytes)
        memcpy(copy->data, t->data, t->bytes);
    return copy;
}

int seq_construct_run(struct op *op, opm_error *err)
{
    const struct nt **list;
    int rc = kernel_set_list(op, 0, VALUE_SEQUENCE, op->nin, &list, err);

    for (uint32_t i = 0; i < op->nin && !rc; i++) {
        const struct nt *t = kernel_in(op, i);

        if (!t || t->kind != VALUE_TENSOR)
            return kernel_fail(op, OPM_EINVAL, err, "input %u is no tensor", i);
        list[i] = own_item(op, t);
        if (!list[i])
            rc = kernel_nomem(op, err);
    }
    return rc;
}

static int want_sequence(const struct op *op, const struct nt *s, opm_error *err)
{
    if (!s || s->kind != VALUE_SEQUENCE)
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is no sequence");
    return 0;
}

/* The place that input i names, from 0 to n; `missing` if it is left out. */
static int place(struct op *op, uint32_t i, int64_t n, int64_t missing, int64_t *out,
                 opm_error *err)
{
    const struct nt *t = kernel_in(op, i);

    *out = missing;
    if (!t)
        return 0;
    if (!(TYPE_BIT(t->type) & TYPES_INDEX) || t->count != 1)
        return kernel_fail(op, OPM_EINVAL, err, "the place is not one integer");
    *out = nt_int(t, 0);
    if (*out < 0)
        *out += n;
    if (*out < 0 || *out > n)
        return kernel_fail(op, OPM_EINVAL, err, "place %lld of %lld is out of range",
                           (long long)nt_int(t, 0), (long long)n);
    return 0;
}

int seq_insert_run(struct op *op, opm_error *err)
{
    const struct nt *s = kernel_in(op, 0), *t = kernel_in(op, 1), **list;
    int64_t at;
    int rc = want_sequence(op, s, err);

    if (!rc && (!t || t->kind != VALUE_TENSOR))
        rc = kernel_fail(op, OPM_EINVAL, err, "input 1 is no tensor");
    if (!rc)
        rc = place(op, 2, s->count, s->count, &at, err);
    if (rc)
        return rc;
    struct nt before = *s; /* the output may be the same value of a loop */

    rc = kernel_set_list(op, 0, VALUE_SEQUENCE, before.count + 1, &list, err);
    for (int64_t i = 0; i < before.count && !rc; i++)
        list[i + (i >= at)] = nt_item(&before, i);
    if (!rc) {
        list[at] = own_item(op, t);
        rc = list[at] ? 0 : kernel_nomem(op, err);
    }
    return rc;
}

int seq_erase_run(struct op *op, opm_error *err)
{
    const struct nt *s = kernel_in(op, 0), **list;
    int64_t at;
    int rc = want_sequence(op, s, err);

    if (!rc)
        rc = place(op, 1, s->count, s->count - 1, &at, err);
    if (!rc && (at < 0 || at >= s->count))
        rc = kernel_fail(op, OPM_EINVAL, err, "place %lld of %lld is out of range", (long long)at,
                         (long long)s->count);
    if (rc)
        return rc;
    struct nt before = *s;

    rc = kernel_set_list(op, 0, VALUE_SEQUENCE, before.count - 1, &list, err);
    for (int64_t i = 0; i < before.count && !rc; i++)
        if (i != at)
            list[i - (i > at)] = nt_item(&before, i);
    return rc;
}

int seq_at_run(struct op *op, opm_error *err)
{
    const struct nt *s = kernel_in(op, 0);
    int64_t at;
    int rc = want_sequence(op, s, err);

    if (!rc)
        rc = place(op, 1, s->count, 0, &at, err);
    if (!rc && at >= s->count)
        rc = kernel_fail(op, OPM_EINVAL, err, "place %lld of %lld is out of range", (long long)at,
                         (long long)s->count);
    if (!rc)
        kernel_give(op, 0, nt_item(s, at));
    return rc;
}

int seq_length_run(struct op *op, opm_error *err)
{
    int rc = want_sequence(op, kernel_in(op, 0), err);

    return rc ? rc : give_scalar(op, TENSOR_I64, kernel_in(op, 0)->count, err);
}

/* Do two elements fit side by side along axis, or, as slices of a new one, equal each other? */
static bool fit(const struct nt *a, const struct nt *b, int axis, bool new_axis)
{
    bool ok = b->kind == VALUE_TENSOR && a->type == b->type && a->shape.rank == b->shape.rank;

    for (int32_t d = 0; ok && d < a->shape.rank; d++)
        ok = a->shape.dim[d] == b->shape.dim[d] || (d == axis && !new_axis);
    return ok;
}

int seq_concat_run(struct op *op, opm_error *err)
{
    const struct nt *s = kernel_in(op, 0), *first;
    bool new_axis = node_attr_int(op->node, "new_axis", 0) != 0;
    struct shape shape;
    struct val *v;
    int64_t sum = 0, outer, bytes;
    int axis, rc = want_sequence(op, s, err);

    if (!rc && s->count == 0)
        rc = kernel_fail(op, OPM_EINVAL, err, "the sequence is empty");
    if (rc)
        return rc;
    first = nt_item(s, 0);
    axis = nt_axis(node_attr_int(op->node, "axis", 0), first->shape.rank + new_axis);
    if (axis < 0 || first->shape.rank + new_axis > SHAPE_RANK_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "the axis is out of range");
    for (int64_t i = 0; i < s->count; i++) {
        if (!fit(first, nt_item(s, i), axis, new_axis))
            return kernel_fail(op, OPM_EINVAL, err, "element %lld does not fit the first",
                               (long long)i);
        sum += new_axis ? 1 : nt_item(s, i)->shape.dim[axis];
    }
    shape = first->shape;
    if (new_axis) {
        memmove(shape.dim + axis + 1, shape.dim + axis,
                (size_t)(shape.rank - axis) * sizeof(*shape.dim));
        shape.rank++;
    }
    shape.dim[axis] = sum;
    bytes = nt_sane(&shape) ? engine_bytes(&shape, first->type) : -1;
    if (!kernel_out(op, 0))
        return 0;
    v = &op->plan->val[op->out[0]];
    if (bytes < 0 || val_own(v, (size_t)bytes))
        return kernel_nomem(op, err);
    v->kind = VAL_OWN;
    v->t = (struct nt){ .type = first->type,
                        .shape = shape,
                        .count = shape_count(&shape),
                        .bytes = (size_t)bytes,
                        .data = v->own };
    outer = nt_span(&shape, 0, axis);
    size_t row = outer ? v->t.bytes / (size_t)outer : 0, at = 0;

    for (int64_t i = 0; i < s->count && outer; i++) {
        const struct nt *t = nt_item(s, i);
        size_t part = t->bytes / (size_t)outer;

        for (int64_t o = 0; o < outer && part; o++)
            memcpy((char *)v->own + (size_t)o * row + at, (const char *)t->data + (size_t)o * part,
                   part);
        at += part;
    }
    return 0;
}

/* Part [from, from + n) of axis. */
static const struct nt *part_of(const struct op *op, const struct nt *x, int axis, int64_t from,
                                int64_t n, bool keep)
{
    int64_t outer = nt_span(&x->shape, 0, axis), len = x->shape.dim[axis];
    size_t inner = (size_t)nt_span(&x->shape, axis + 1, x->shape.rank) * nt_width(x->type);
    struct shape s = x->shape;
    struct nt *t;

    s.dim[axis] = n;
    if (!keep) {
        s.rank--;
        memmove(s.dim + axis, s.dim + axis + 1, (size_t)(s.rank - axis) * sizeof(*s.dim));
    }
    t = kernel_new_item(op, x->type, &s);
    for (int64_t o = 0; t && o < outer && n && inner; o++)
        memcpy((char *)t->data + (size_t)(o * n) * inner,
               (const char *)x->data + (size_t)(o * len + from) * inner, (size_t)n * inner);
    return t;
}

int seq_split_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *split = kernel_in(op, 1), **list;
    int axis, rc = kernel_want(op, 0, TYPES_BYTES, err);
    int64_t len, n, at = 0, chunk = 1;

    if (rc)
        return rc;
    axis = nt_axis(node_attr_int(op->node, "axis", 0), x->shape.rank);
    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "the axis is out of range");
    if (split && (!(TYPE_BIT(split->type) & TYPES_INDEX) || split->shape.rank > 1))
        return kernel_fail(op, OPM_EINVAL, err, "input 1 must be integers");
    len = x->shape.dim[axis];
    if (split && split->shape.rank == 0)
        chunk = nt_int(split, 0);
    if (chunk < 1)
        return kernel_fail(op, OPM_EINVAL, err, "parts of %lld", (long long)chunk);
    n = split && split->shape.rank == 1 ? split->count : len / chunk + (len % chunk != 0);
    struct nt from = *x;

    rc = kernel_set_list(op, 0, VALUE_SEQUENCE, n, &list, err);
    for (int64_t i = 0; i < n && !rc; i++) {
        int64_t part = split && split->shape.rank == 1 ? nt_int(split, i) : MIN(chunk, len - at);

        if (part < 0 || part > len - at)
            return kernel_fail(op, OPM_EINVAL, err, "parts do not sum up to %lld", (long long)len);
        list[i] = part_of(op, &from, axis, at, part,
                          split || node_attr_int(op->node, "keepdims", 1) != 0);
        at += part;
        if (!list[i])
            rc = kernel_nomem(op, err);
    }
    if (!rc && at != len)
        rc = kernel_fail(op, OPM_EINVAL, err, "parts sum up to %lld of %lld", (long long)at,
                         (long long)len);
    return rc;
}
