/* fold_move.c -- compute small constants: shapes, and operators that only move elements. */
#include "graph/fold.h"

#include <string.h>

struct elems *fold_result(const struct op *o, uint32_t slot)
{
    const struct value *v = node_out(o->g, o->n, slot);

    return v && v->type != TENSOR_NONE ? op_new_known(o, v->type, &v->shape) : NULL;
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

bool fold_reduced_shape(const struct op *o, const struct shape *x, struct shape *out)
{
    int64_t axes[SHAPE_RANK_MAX], n;
    bool given;
    int axis;

    if (op_list(o, "axes", 1, axes, SHAPE_RANK_MAX, &n, &given) || n < 0)
        return false;
    *out = *x;
    if (n == 0 && op_int(o, "noop_with_empty_axes", 0))
        return true;
    for (int32_t i = 0; n == 0 && i < x->rank; i++)
        out->dim[i] = 1;
    for (int64_t i = 0; i < n; i++) {
        if (op_axis(o, axes[i], x->rank, &axis))
            return false;
        out->dim[axis] = 1;
    }
    return true;
}

/* Elements of e at `from` to out at `to`; integers and floats alike are 8 bytes. */
static void move(struct elems *out, int64_t to, const struct elems *e, int64_t from)
{
    out->i[to] = e->i[from];
}

/* Same elements in the same order, another shape. */
void fold_copy(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;

    if (!out || out->n != e->n || out->type != e->type)
        return;
    memcpy(out->i, e->i, (size_t)e->n * sizeof(*e->i));
    op_set_known(o, 0, out);
}

void fold_shape(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    struct elems *out = x->rank >= 0 ? fold_result(o, 0) : NULL;
    int64_t start = op_int(o, "start", 0);

    if (!out)
        return;
    start = start < 0 ? MAX(start + x->rank, (int64_t)0) : MIN(start, (int64_t)x->rank);
    for (int64_t i = 0; i < out->n; i++)
        out->i[i] = elem_of_dim(x->dim[start + i]);
    op_set_known(o, 0, out);
}

void fold_size(const struct op *o)
{
    int64_t n = shape_count(op_shape(o, 0));
    struct elems *out = n >= 0 ? fold_result(o, 0) : NULL;

    if (!out)
        return;
    out->i[0] = n;
    op_set_known(o, 0, out);
}

void fold_constant_of_shape(const struct op *o)
{
    const struct tensor *t = node_attr_tensor(o->n, "value");
    struct elems *out = fold_result(o, 0);

    if (!out || (t && t->count != 1))
        return;
    for (int64_t i = 0; i < out->n; i++) {
        if (tensor_type_float(out->type))
            out->f[i] = t ? tensor_float(t, 0) : 0;
        else
            out->i[i] = t ? tensor_int(t, 0) : 0;
        if (!tensor_type_float(out->type) && elem_open(out->i[i]))
            return;
    }
    op_set_known(o, 0, out);
}

void fold_range(const struct op *o)
{
    struct elems *out = fold_result(o, 0);
    double fstart, fdelta;
    int64_t start, delta;

    if (!out)
        return;
    if (tensor_type_float(out->type)) {
        if (!op_known_float(o, 0, &fstart) || !op_known_float(o, 2, &fdelta))
            return;
        for (int64_t i = 0; i < out->n; i++)
            out->f[i] = fstart + (double)i * fdelta;
    } else {
        if (!op_known_int(o, 0, &start) || !op_known_int(o, 2, &delta))
            return;
        for (int64_t i = 0; i < out->n; i++)
            out->i[i] = (int64_t)((uint64_t)start + (uint64_t)i * (uint64_t)delta);
    }
    op_set_known(o, 0, out);
}

/* The elements before and after an axis. */
static void around(const struct shape *s, int axis, int64_t *outer, int64_t *inner)
{
    *outer = *inner = 1;
    for (int i = 0; i < axis; i++)
        *outer *= s->dim[i];
    for (int i = axis + 1; i < s->rank; i++)
        *inner *= s->dim[i];
}

void fold_gather(const struct op *o)
{
    const struct elems *e = op_known(o, 0), *at = op_known_ints(o, 1);
    struct elems *out = e && at && !at->open ? fold_result(o, 0) : NULL;
    int64_t outer, inner, dim;
    int axis;

    if (!out || op_axis(o, op_int(o, "axis", 0), e->shape.rank, &axis))
        return;
    around(&e->shape, axis, &outer, &inner);
    dim = e->shape.dim[axis];
    for (int64_t i = 0; i < outer; i++)
        for (int64_t k = 0; k < at->n; k++)
            for (int64_t j = 0; j < inner; j++) {
                int64_t index = at->i[k] < 0 ? at->i[k] + dim : at->i[k];

                if (index < 0 || index >= dim)
                    return; /* for running it to report */
                move(out, (i * at->n + k) * inner + j, e, (i * dim + index) * inner + j);
            }
    op_set_known(o, 0, out);
}

void fold_concat(const struct op *o)
{
    struct elems *out = NULL;
    int64_t outer, inner, width, filled = 0;
    int axis;

    for (uint32_t i = 0; i < o->n->nin; i++)
        if (!op_known(o, i))
            return;
    out = fold_result(o, 0);
    if (!out || op_axis(o, op_int(o, "axis", 1), out->shape.rank, &axis))
        return;
    around(&out->shape, axis, &outer, &inner);
    width = out->shape.dim[axis] * inner;
    for (uint32_t i = 0; i < o->n->nin; i++) {
        const struct elems *e = op_known(o, i);
        int64_t part = e->shape.rank == out->shape.rank ? e->shape.dim[axis] * inner : -1;

        if (part < 0 || filled + part > width || e->n != outer * part || e->type != out->type)
            return;
        for (int64_t k = 0; k < outer; k++)
            for (int64_t j = 0; j < part; j++)
                move(out, k * width + filled + j, e, k * part + j);
        filled += part;
    }
    if (filled == width)
        op_set_known(o, 0, out);
}

void fold_split(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    int64_t outer, inner, width, done = 0;
    int axis;

    if (!e || op_axis(o, op_int(o, "axis", 0), e->shape.rank, &axis))
        return;
    around(&e->shape, axis, &outer, &inner);
    width = e->shape.dim[axis] * inner;
    for (uint32_t i = 0; i < o->n->nout; i++) {
        const struct value *v = node_out(o->g, o->n, i);
        struct elems *out = fold_result(o, i);
        int64_t part = v && v->shape.rank > axis ? v->shape.dim[axis] * inner : -1;

        if (!out || part < 0 || done + part > width)
            return;
        for (int64_t k = 0; k < outer; k++)
            for (int64_t j = 0; j < part; j++)
                move(out, k * part + j, e, k * width + done + j);
        done += part;
        op_set_known(o, i, out);
    }
}

/* A list of Slice as attribute or input: element i, or `missing`. False if it is not known. */
static bool slice_number(const struct op *o, const char *attr, uint32_t slot, int64_t i,
                         int64_t missing, int64_t *out)
{
    const struct elems *e;
    size_t len;
    const int64_t *v;

    *out = missing;
    if (o->n->opset < 10) {
        v = node_attr_ints(o->n, attr, &len);
        if (v && i < (int64_t)len)
            *out = v[i];
        return true;
    }
    if (!op_has(o, slot))
        return true;
    e = op_known_ints(o, slot);
    if (!e || i >= e->n || elem_open(e->i[i]))
        return false;
    *out = e->i[i];
    return true;
}

void fold_slice(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;
    int64_t first[SHAPE_RANK_MAX] = { 0 }, by[SHAPE_RANK_MAX], stride[SHAPE_RANK_MAX], n, step = 1;
    size_t len;

    if (!out)
        return;
    for (int32_t d = e->shape.rank - 1; d >= 0; d--) {
        stride[d] = step;
        by[d] = 1;
        step *= e->shape.dim[d];
    }
    n = op_rank(o, 1) == 1 ? op_shape(o, 1)->dim[0] : 0;
    if (o->n->opset < 10) {
        node_attr_ints(o->n, "starts", &len);
        n = (int64_t)len;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t start, jump, a, dim;
        int axis;

        if (!slice_number(o, "starts", 1, i, 0, &start) || !slice_number(o, "axes", 3, i, i, &a) ||
            !slice_number(o, "steps", 4, i, 1, &jump) || op_axis(o, a, e->shape.rank, &axis))
            return;
        dim = e->shape.dim[axis];
        if (start < 0)
            start = start < -dim ? (jump > 0 ? 0 : -1) : start + dim;
        first[axis] = MIN(start, jump > 0 ? dim : dim - 1);
        by[axis] = jump;
    }
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, rest = i;

        for (int32_t d = out->shape.rank - 1; d >= 0; d--) {
            at += (first[d] + rest % out->shape.dim[d] * by[d]) * stride[d];
            rest /= out->shape.dim[d];
        }
        if (at < 0 || at >= e->n)
            return;
        move(out, i, e, at);
    }
    op_set_known(o, 0, out);
}

void fold_transpose(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;
    int64_t stride[SHAPE_RANK_MAX], step = 1;
    size_t len;
    const int64_t *perm = node_attr_ints(o->n, "perm", &len);

    if (!out)
        return;
    for (int32_t d = e->shape.rank - 1; d >= 0; d--) {
        stride[d] = step;
        step *= e->shape.dim[d];
    }
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, rest = i;

        for (int32_t d = out->shape.rank - 1; d >= 0; d--) {
            int64_t p = perm ? perm[d] : out->shape.rank - 1 - d;

            at += rest % out->shape.dim[d] * stride[p < 0 ? p + out->shape.rank : p];
            rest /= out->shape.dim[d];
        }
        move(out, i, e, at);
    }
    op_set_known(o, 0, out);
}

/* Expand, and whatever else only broadcasts. */
void fold_expand(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;

    if (!out)
        return;
    for (int64_t i = 0; i < out->n; i++)
        move(out, i, e, fold_index(&out->shape, &e->shape, i));
    op_set_known(o, 0, out);
}

void fold_tile(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e && e->n ? fold_result(o, 0) : NULL;

    if (!out || out->shape.rank != e->shape.rank)
        return;
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, step = 1, rest = i;

        for (int32_t d = out->shape.rank - 1; d >= 0; d--) {
            at += rest % out->shape.dim[d] % e->shape.dim[d] * step;
            rest /= out->shape.dim[d];
            step *= e->shape.dim[d];
        }
        move(out, i, e, at);
    }
    op_set_known(o, 0, out);
}

void fold_nonzero(const struct op *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e && !e->open ? fold_result(o, 0) : NULL;
    int64_t found = 0;

    if (!out || out->shape.rank != 2)
        return;
    for (int64_t i = 0; i < e->n; i++) {
        int64_t rest = i;

        if (!(tensor_type_float(e->type) ? e->f[i] != 0 : e->i[i] != 0))
            continue;
        for (int32_t d = e->shape.rank - 1; d >= 0; d--) {
            out->i[d * out->shape.dim[1] + found] = rest % e->shape.dim[d];
            rest /= e->shape.dim[d];
        }
        found++;
    }
    op_set_known(o, 0, out);
}
