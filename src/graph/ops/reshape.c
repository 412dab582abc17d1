/* reshape.c -- operators that look at a tensor in another way, or make one of a given shape. */
#include "graph/ops/known.h"

#include <math.h>
#include <string.h>

int infer_shape(const struct opview *o)
{
    int64_t rank = op_rank(o, 0), start = op_int(o, "start", 0), end = op_int(o, "end", INT64_MAX);
    struct shape s = shape_1d(DIM_OPEN);

    if (rank >= 0) {
        start = start < 0 ? MAX(start + rank, (int64_t)0) : MIN(start, rank);
        end = end < 0 ? MAX(end + rank, (int64_t)0) : MIN(end, rank);
        s.dim[0] = MAX(end - start, (int64_t)0);
    }
    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_size(const struct opview *o)
{
    struct shape s = shape_scalar();

    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

/* Targets of Reshape: what each number in the list stands for. */
enum { TAKE_REST = -1 };

/* What -1 stands for: the elements that the other dimensions leave over. Open dimensions that are
 * on both sides cancel each other. */
static int fill_rest(const struct opview *o, const struct shape *x, struct shape *s, int rest)
{
    int64_t have = 1, want = 1, open[SHAPE_RANK_MAX];
    int nopen = 0;

    for (int32_t i = 0; i < x->rank; i++) {
        if (x->dim[i] < 0)
            open[nopen++] = x->dim[i];
        else if (__builtin_mul_overflow(have, x->dim[i], &have))
            return 0;
    }
    for (int32_t i = 0; i < s->rank; i++) {
        int k;

        if (i == rest)
            continue;
        if (s->dim[i] >= 0) {
            if (__builtin_mul_overflow(want, s->dim[i], &want))
                return 0;
            continue;
        }
        for (k = 0; k < nopen && (open[k] != s->dim[i] || s->dim[i] == DIM_OPEN); k++)
            ;
        if (k == nopen)
            return 0; /* something open that is not in the input: nothing to say */
        open[k] = open[--nopen];
    }
    if (want == 0) {
        if (nopen == 0 && have != 0 && rest >= 0)
            return op_fail(o, "%lld elements in dimensions with a 0", (long long)have);
        return 0;
    }
    if (rest < 0) {
        if (nopen == 0 && have != want)
            goto misfit;
        return 0;
    }
    if (nopen == 0) {
        if (have % want != 0)
            goto misfit;
        s->dim[rest] = have / want;
    } else if (nopen == 1 && have == want)
        s->dim[rest] = open[0];
    return 0;
misfit : {
    char from[120], to[120];

    shape_text(x, from, sizeof(from));
    shape_text(s, to, sizeof(to));
    return op_fail(o, "shape %s cannot become %s", from, to);
}
}

int infer_reshape(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    const struct elems *e = op_known_ints(o, 1);
    size_t len = 0;
    const int64_t *to = o->n->opset < 5 ? node_attr_ints(o->n, "shape", &len) : NULL;
    bool keep_zero = op_int(o, "allowzero", 0) != 0;
    struct shape s = shape_unknown();
    bool any = false;
    int rest = -1, rc = 0;

    if (e) {
        to = e->i;
        len = (size_t)e->n;
    }
    if (!to) {
        if (op_rank(o, 1) == 1 && op_shape(o, 1)->dim[0] >= 0 &&
            op_shape(o, 1)->dim[0] <= SHAPE_RANK_MAX)
            s = shape_of_rank((int)op_shape(o, 1)->dim[0]);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    if (len > SHAPE_RANK_MAX)
        return op_fail(o, "%zu dimensions", len);
    s = shape_of_rank((int)len);
    for (size_t i = 0; i < len; i++) {
        if (to[i] == 0 && !keep_zero) {
            if (x->rank >= 0 && (size_t)x->rank <= i)
                return op_fail(o, "dimension %zu is copied from an input of %d dimensions", i,
                               x->rank);
            s.dim[i] = x->rank >= 0 ? x->dim[i] : DIM_OPEN;
            any = any || x->rank < 0;
        } else if (to[i] == TAKE_REST) {
            if (rest >= 0)
                return op_fail(o, "two dimensions of -1");
            rest = (int)i;
        } else if (to[i] < 0 && !elem_open(to[i]))
            return op_fail(o, "a dimension of %lld", (long long)to[i]);
        else {
            s.dim[i] = dim_of_elem(to[i]);
            any = any || to[i] == ELEM_ANY; /* it may turn out to be -1 or 0 */
        }
    }
    if (x->rank >= 0 && !any)
        rc = fill_rest(o, x, &s, rest);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_flatten(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t axis = op_int(o, "axis", 1);
    struct shape s = { 2, { 1, 1 } };

    if (x->rank < 0)
        s = shape_of_rank(2);
    else if (axis < -x->rank || axis > x->rank)
        return op_fail(o, "axis %lld of a tensor with %d dimensions", (long long)axis, x->rank);
    if (axis < 0)
        axis += x->rank;
    for (int32_t i = 0; i < x->rank; i++)
        s.dim[i >= axis] = dim_mul(s.dim[i >= axis], x->dim[i]);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_squeeze(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t axes[SHAPE_RANK_MAX], n;
    bool drop[SHAPE_RANK_MAX] = { 0 }, given;
    struct shape s = { 0 };
    int rc = op_list(o, "axes", 1, axes, SHAPE_RANK_MAX, &n, &given), axis;

    if (rc)
        return rc;
    if (x->rank < 0 || n < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    for (int64_t i = 0; i < n; i++) {
        rc = op_axis(o, axes[i], x->rank, &axis);
        if (rc)
            return rc;
        if (x->dim[axis] >= 0 && x->dim[axis] != 1)
            return op_fail(o, "squeezes dimension %d, which has size %lld", axis,
                           (long long)x->dim[axis]);
        drop[axis] = true;
    }
    for (int32_t i = 0; !given && i < x->rank; i++) {
        drop[i] = x->dim[i] == 1;
        if (x->dim[i] < 0) { /* may be 1, too */
            op_set(o, 0, op_type(o, 0), NULL);
            return 0;
        }
    }
    for (int32_t i = 0; i < x->rank; i++)
        if (!drop[i])
            s.dim[s.rank++] = x->dim[i];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_unsqueeze(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t axes[SHAPE_RANK_MAX], n;
    bool new[SHAPE_RANK_MAX] = { 0 }, given;
    struct shape s;
    int rc = op_list(o, "axes", 1, axes, SHAPE_RANK_MAX, &n, &given), axis, from = 0;

    if (rc)
        return rc;
    if (x->rank < 0 || n < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    if (x->rank + n > SHAPE_RANK_MAX)
        return op_fail(o, "more than %d dimensions", SHAPE_RANK_MAX);
    s.rank = x->rank + (int)n;
    for (int64_t i = 0; i < n; i++) {
        rc = op_axis(o, axes[i], s.rank, &axis);
        if (rc)
            return rc;
        if (new[axis])
            return op_fail(o, "dimension %d is added twice", axis);
        new[axis] = true;
    }
    for (int32_t i = 0; i < s.rank; i++)
        s.dim[i] = new[i] ? 1 : x->dim[from++];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* A shape that is an input's value; rank -1 if its length is not known. */
static struct shape shape_from(const struct opview *o, uint32_t slot)
{
    const struct elems *e = op_known_ints(o, slot);
    const struct shape *list = op_shape(o, slot);
    struct shape s = shape_unknown();

    if (e && e->n <= SHAPE_RANK_MAX) {
        s = shape_of_rank((int)e->n);
        for (int64_t i = 0; i < e->n; i++)
            s.dim[i] = MAX(dim_of_elem(e->i[i]), INT64_MIN / 2);
    } else if (list->rank == 1 && list->dim[0] >= 0 && list->dim[0] <= SHAPE_RANK_MAX)
        s = shape_of_rank((int)list->dim[0]);
    return s;
}

int infer_expand(const struct opview *o)
{
    const struct elems *e = op_known_ints(o, 1);
    struct shape to = shape_from(o, 1), s;
    int rc;

    for (int64_t i = 0; e && i < e->n && i < to.rank; i++)
        if (!elem_open(e->i[i]) && e->i[i] < 0)
            return op_fail(o, "a dimension of %lld", (long long)e->i[i]);
    rc = op_broadcast(o, op_shape(o, 0), &to, &s);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_constant_of_shape(const struct opview *o)
{
    const struct tensor *t = node_attr_tensor(o->n, "value");
    const struct elems *e = op_known_ints(o, 0);
    struct shape s = shape_from(o, 0);

    for (int64_t i = 0; e && i < e->n && i < s.rank; i++)
        if (!elem_open(e->i[i]) && e->i[i] < 0)
            return op_fail(o, "a dimension of %lld", (long long)e->i[i]);
    op_set(o, 0, t ? t->type : TENSOR_F32, &s);
    return 0;
}

int infer_eye_like(const struct opview *o)
{
    int64_t t = op_int(o, "dtype", op_type(o, 0));

    if (t < 0 || t >= TENSOR_NTYPES)
        return op_fail(o, "attribute 'dtype' is %lld, which is no element type", (long long)t);
    op_set(o, 0, (enum tensor_type)t, op_shape(o, 0));
    return 0;
}

int infer_range(const struct opview *o)
{
    double start, limit, delta = 1, n;
    struct shape s = shape_1d(DIM_OPEN);

    if (op_known_float(o, 0, &start) && op_known_float(o, 1, &limit) &&
        (!op_has(o, 2) || op_known_float(o, 2, &delta))) {
        if (delta == 0)
            return op_fail(o, "a step of 0");
        n = ceil((limit - start) / delta);
        if (!(n < 0x1p50))
            return op_fail(o, "has no end");
        s.dim[0] = n > 0 ? (int64_t)n : 0;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Same elements in the same order, another shape. */
void fold_copy(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;

    if (!out || out->n != e->n || out->type != e->type)
        return;
    memcpy(out->i, e->i, (size_t)e->n * sizeof(*e->i));
    fold_set(o, 0, out);
}

void fold_shape(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct elems *out = x->rank >= 0 ? fold_result(o, 0) : NULL;
    int64_t start = op_int(o, "start", 0);

    if (!out)
        return;
    start = start < 0 ? MAX(start + x->rank, (int64_t)0) : MIN(start, (int64_t)x->rank);
    for (int64_t i = 0; i < out->n; i++)
        out->i[i] = elem_of_dim(x->dim[start + i]);
    fold_set(o, 0, out);
}

void fold_size(const struct opview *o)
{
    int64_t n = shape_count(op_shape(o, 0));
    struct elems *out = n >= 0 ? fold_result(o, 0) : NULL;

    if (!out)
        return;
    out->i[0] = n;
    fold_set(o, 0, out);
}

void fold_constant_of_shape(const struct opview *o)
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
    fold_set(o, 0, out);
}

void fold_range(const struct opview *o)
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
    fold_set(o, 0, out);
}

/* Expand, and whatever else only broadcasts. */
void fold_expand(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;

    if (!out)
        return;
    for (int64_t i = 0; i < out->n; i++)
        fold_move(out, i, e, fold_index(&out->shape, &e->shape, i));
    fold_set(o, 0, out);
}
