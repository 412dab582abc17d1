/* reduce.c -- reductions, ArgMax, TopK. */
#include "graph/infer_int.h"
#include "graph/ops/args.h"
#include "graph/ops/known.h"

/* Shape of a reduction over axes, which are within range. */
static struct shape reduced(const struct shape *x, const bool *drop, bool keep)
{
    struct shape s = { 0 };

    for (int32_t i = 0; i < x->rank; i++) {
        if (!drop[i])
            s.dim[s.rank++] = x->dim[i];
        else if (keep)
            s.dim[s.rank++] = 1;
    }
    return s;
}

int reduce_axes(const struct opview *o, int rank, bool *on, bool *known)
{
    int64_t axes[SHAPE_RANK_MAX], n;
    bool given, all;
    int rc = op_list(o, "axes", 1, axes, SHAPE_RANK_MAX, &n, &given), axis;

    *known = !rc && n >= 0;
    all = n == 0 && !op_int(o, "noop_with_empty_axes", 0);
    for (int i = 0; i < rank; i++)
        on[i] = all;
    for (int64_t i = 0; !rc && i < n; i++) {
        rc = op_axis(o, axes[i], rank, &axis);
        if (!rc)
            on[axis] = true;
    }
    return rc;
}

int infer_reduce(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    bool keep = op_int(o, "keepdims", 1) != 0, drop[SHAPE_RANK_MAX], known = false;
    struct shape s = shape_unknown();
    int rc = x->rank < 0 ? 0 : reduce_axes(o, x->rank, drop, &known);

    if (rc)
        return rc;
    if (known)
        s = reduced(x, drop, keep);
    else if (x->rank >= 0 && keep)
        s = shape_of_rank(x->rank);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_arg(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    bool drop[SHAPE_RANK_MAX] = { 0 };
    struct shape s;
    int axis, rc;

    if (x->rank < 0) {
        op_set(o, 0, TENSOR_I64, NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    drop[axis] = true;
    s = reduced(x, drop, op_int(o, "keepdims", 1) != 0);
    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_topk(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t k = op_int(o, "k", -1);
    const struct elems *e = op_known_ints(o, 1);
    int axis, rc;

    if (s.rank > 0) {
        rc = op_axis(o, op_int(o, "axis", -1), s.rank, &axis);
        if (rc)
            return rc;
        if (e && e->n == 1)
            k = dim_of_elem(e->i[0]);
        if (k >= 0 && s.dim[axis] >= 0 && k > s.dim[axis])
            return op_fail(o, "wants the first %lld of %lld", (long long)k, (long long)s.dim[axis]);
        if (k < 0 && (e ? !elem_open(e->i[0]) : !op_has(o, 1)))
            return op_fail(o, "wants the first %lld", (long long)k);
        s.dim[axis] = MAX(k, (int64_t)DIM_OPEN);
    }
    op_set(o, 0, op_type(o, 0), &s);
    op_set(o, 1, TENSOR_I64, &s);
    return 0;
}

/* Reductions: the operation between elements, and what is done at the end. */
static void reduce(const struct opview *o, enum arith op, bool mean)
{
    const struct elems *a = op_known(o, 0);
    struct elems *out = a ? fold_result(o, 0) : NULL;
    struct shape at;
    bool bad = false, *seen, floats, drop[SHAPE_RANK_MAX], known;
    int64_t each;

    if (!out || out->n == 0 || a->n == 0 || (mean && !tensor_type_float(a->type)))
        return;
    seen = arena_alloc(&o->inf->m->impl->folded, (size_t)out->n);
    if (!seen) {
        o->inf->nomem = true;
        return;
    }
    if (reduce_axes(o, a->shape.rank, drop, &known) || !known)
        return;
    at = reduced(&a->shape, drop, true);
    if (shape_count(&at) != out->n)
        return;
    floats = tensor_type_float(a->type);
    each = a->n / out->n;
    for (int64_t i = 0; i < a->n && !bad; i++) {
        int64_t k = fold_index(&a->shape, &at, i);

        if (floats)
            out->f[k] = seen[k] ? arith_float(op, out->f[k], a->f[i], &bad) : a->f[i];
        else
            out->i[k] = seen[k] ? arith_int(op, out->i[k], a->i[i], &bad) : a->i[i];
        seen[k] = true;
    }
    for (int64_t k = 0; mean && k < out->n; k++)
        out->f[k] /= (double)each;
    if (!bad)
        fold_set(o, 0, out);
}

void fold_reduce_sum(const struct opview *o)
{
    reduce(o, ARITH_ADD, false);
}

void fold_reduce_prod(const struct opview *o)
{
    reduce(o, ARITH_MUL, false);
}

void fold_reduce_max(const struct opview *o)
{
    reduce(o, ARITH_MAX, false);
}

void fold_reduce_min(const struct opview *o)
{
    reduce(o, ARITH_MIN, false);
}

void fold_reduce_mean(const struct opview *o)
{
    reduce(o, ARITH_ADD, true);
}
