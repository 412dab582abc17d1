/* gather.c -- operators that pick elements: Gather, Compress, NonZero, Unique, OneHot,
 * NonMaxSuppression. */
#include "graph/ops/known.h"

int infer_gather(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0), *at = op_shape(o, 1);
    struct shape s = { 0 };
    int axis, rc;

    if (x->rank < 0 || at->rank < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    if (x->rank - 1 + at->rank > SHAPE_RANK_MAX)
        return op_fail(o, "more than %d dimensions", SHAPE_RANK_MAX);
    for (int i = 0; i < axis; i++)
        s.dim[s.rank++] = x->dim[i];
    for (int i = 0; i < at->rank; i++)
        s.dim[s.rank++] = at->dim[i];
    for (int i = axis + 1; i < x->rank; i++)
        s.dim[s.rank++] = x->dim[i];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's GatherBlockQuantized: as Gather, of numbers that may be packed into bytes along
 * the last dimension; the scales have the result's type. */
int infer_gather_block(const struct opview *o)
{
    struct shape x = *op_shape(o, 0), s = { 0 };
    const struct shape *at = op_shape(o, 1);
    int64_t bits = op_int(o, "bits", 4);
    int axis, rc;

    if (x.rank < 0 || at->rank < 0 || op_type(o, 0) == TENSOR_NONE) {
        op_set(o, 0, op_type(o, 2), NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "gather_axis", 0), x.rank, &axis);
    if (rc)
        return rc;
    if (x.rank - 1 + at->rank > SHAPE_RANK_MAX)
        return op_fail(o, "more than %d dimensions", SHAPE_RANK_MAX);
    if (op_type(o, 0) == TENSOR_U8 && bits > 0 && bits < 8)
        x.dim[x.rank - 1] = dim_mul(x.dim[x.rank - 1], 8 / bits);
    for (int i = 0; i < axis; i++)
        s.dim[s.rank++] = x.dim[i];
    for (int i = 0; i < at->rank; i++)
        s.dim[s.rank++] = at->dim[i];
    for (int i = axis + 1; i < x.rank; i++)
        s.dim[s.rank++] = x.dim[i];
    op_set(o, 0, op_type(o, 2), &s);
    return 0;
}

/* Indices have the operand's rank, and along other dimensions than the axis at most its size. */
static int check_elements(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0), *at = op_shape(o, 1);
    int axis, rc;

    if (x->rank < 0 || at->rank < 0)
        return 0;
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    if (x->rank != at->rank)
        return op_fail(o, "indices of %d dimensions into %d", at->rank, x->rank);
    for (int32_t i = 0; i < x->rank; i++)
        if (i != axis && x->dim[i] >= 0 && at->dim[i] > x->dim[i])
            return op_fail(o, "%lld indices for %lld elements in dimension %d",
                           (long long)at->dim[i], (long long)x->dim[i], i);
    return 0;
}

int infer_gather_elements(const struct opview *o)
{
    int rc = check_elements(o);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), op_shape(o, 1));
    return 0;
}

static int check_updates(const struct opview *o, const struct shape *want)
{
    const struct shape *have = op_shape(o, 2);
    char a[120], b[120];

    if (!shape_concrete(want) || !shape_concrete(have) || shape_equal(want, have))
        return 0;
    shape_text(have, a, sizeof(a));
    shape_text(want, b, sizeof(b));
    return op_fail(o, "updates of shape %s where indices want %s", a, b);
}

int infer_scatter_elements(const struct opview *o)
{
    int rc = check_elements(o);

    if (!rc)
        rc = check_updates(o, op_shape(o, 1));
    if (rc)
        return rc;
    op_same(o, 0, 0);
    return 0;
}

/* What indices pick of x after `batch` dimensions that both share: of GatherND the result, of
 * ScatterND the updates. Unknown if a rank is. */
static int picked(const struct opview *o, int64_t batch, struct shape *out)
{
    const struct shape *x = op_shape(o, 0), *at = op_shape(o, 1);
    struct shape s = { 0 };
    int64_t last;

    *out = shape_unknown();
    if (x->rank < 0 || at->rank < 0)
        return 0;
    if (at->rank < 1 || x->rank < 1 || batch < 0 || batch >= at->rank || batch >= x->rank)
        return op_fail(o, "indices of %d dimensions into %d, %lld of them shared", at->rank,
                       x->rank, (long long)batch);
    last = at->dim[at->rank - 1];
    if (last < 0)
        return 0;
    if (last > x->rank - batch || at->rank - 1 + x->rank - batch - last > SHAPE_RANK_MAX)
        return op_fail(o, "indices of %lld numbers into %d dimensions", (long long)last, x->rank);
    for (int64_t i = 0; i < batch; i++)
        if (x->dim[i] >= 0 && at->dim[i] >= 0 && x->dim[i] != at->dim[i])
            return op_fail(o, "%lld and %lld in shared dimension %lld", (long long)x->dim[i],
                           (long long)at->dim[i], (long long)i);
    for (int i = 0; i < at->rank - 1; i++)
        s.dim[s.rank++] = at->dim[i];
    for (int64_t i = batch + last; i < x->rank; i++)
        s.dim[s.rank++] = x->dim[i];
    *out = s;
    return 0;
}

int infer_gather_nd(const struct opview *o)
{
    struct shape s;
    int rc = picked(o, op_int(o, "batch_dims", 0), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_scatter_nd(const struct opview *o)
{
    struct shape s;
    int rc = picked(o, 0, &s);

    if (!rc)
        rc = check_updates(o, &s);
    if (rc)
        return rc;
    op_same(o, 0, 0);
    return 0;
}

int infer_compress(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    const struct attr *a = node_attr(o->n, "axis");
    const struct elems *keep = op_known_ints(o, 1);
    struct shape s = shape_1d(DIM_OPEN);
    int64_t total = shape_count(x), kept = 0;
    int axis = 0, rc;

    if (a && x->rank < 0)
        s = shape_unknown();
    else if (a) {
        rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
        if (rc)
            return rc;
        s = *x;
        total = x->dim[axis];
        s.dim[axis] = DIM_OPEN;
    }
    for (int64_t i = 0; keep && !keep->open && i < keep->n; i++)
        kept += keep->i[i] != 0;
    if (keep && !keep->open && s.rank > 0 && total >= 0 && keep->n <= total)
        s.dim[a ? axis : 0] = kept;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_nonzero(const struct opview *o)
{
    struct shape s = { 2, { DIM_OPEN, DIM_OPEN } };
    const struct elems *e = op_known(o, 0);

    if (op_rank(o, 0) >= 0)
        s.dim[0] = op_rank(o, 0);
    if (e && !e->open) {
        s.dim[1] = 0;
        for (int64_t i = 0; i < e->n; i++)
            s.dim[1] += tensor_type_float(e->type) ? e->f[i] != 0 : e->i[i] != 0;
    }
    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_unique(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape y = shape_1d(DIM_OPEN), open = shape_1d(DIM_OPEN);
    struct shape inverse = shape_1d(DIM_OPEN);
    int axis, rc;

    if (!node_attr(o->n, "axis"))
        inverse.dim[0] = shape_count(x);
    else if (x->rank < 0)
        y = shape_unknown();
    else {
        rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
        if (rc)
            return rc;
        y = *x;
        y.dim[axis] = DIM_OPEN;
        inverse.dim[0] = x->dim[axis];
    }
    op_set(o, 0, op_type(o, 0), &y);
    op_set(o, 1, TENSOR_I64, &open);
    op_set(o, 2, TENSOR_I64, &inverse);
    op_set(o, 3, TENSOR_I64, &open);
    return 0;
}

int infer_one_hot(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t axis = op_int(o, "axis", -1), depth = DIM_OPEN;
    const struct elems *e = op_known(o, 1);
    struct shape s = { 0 };

    if (x->rank < 0 || x->rank == SHAPE_RANK_MAX) {
        op_set(o, 0, op_type(o, 2), NULL);
        return 0;
    }
    if (axis < -x->rank - 1 || axis > x->rank)
        return op_fail(o, "axis %lld of %d dimensions", (long long)axis, x->rank + 1);
    if (axis < 0)
        axis += x->rank + 1;
    if (e && e->n == 1 && (tensor_type_float(e->type) ? e->f[0] < 0 : e->i[0] < 0) &&
        (tensor_type_float(e->type) || !elem_open(e->i[0])))
        return op_fail(o, "a negative depth");
    if (e && e->n == 1)
        depth = tensor_type_float(e->type)
                    ? (e->f[0] >= 0 && e->f[0] < 0x1p40 ? (int64_t)e->f[0] : DIM_OPEN)
                    : MAX(dim_of_elem(e->i[0]), (int64_t)DIM_OPEN);
    for (int32_t i = 0; i <= x->rank; i++)
        s.dim[s.rank++] = i == axis ? depth : x->dim[i > axis ? i - 1 : i];
    op_set(o, 0, op_type(o, 2), &s);
    return 0;
}

/* NonMaxSuppression finds as many boxes as it finds. */
int infer_nms(const struct opview *o)
{
    struct shape s = { 2, { DIM_OPEN, 3 } };

    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

void fold_gather(const struct opview *o)
{
    const struct elems *e = op_known(o, 0), *at = op_known_ints(o, 1);
    struct elems *out = e && at && !at->open ? fold_result(o, 0) : NULL;
    int64_t outer, inner, dim;
    int axis;

    if (!out || op_axis(o, op_int(o, "axis", 0), e->shape.rank, &axis))
        return;
    fold_around(&e->shape, axis, &outer, &inner);
    dim = e->shape.dim[axis];
    for (int64_t i = 0; i < outer; i++)
        for (int64_t k = 0; k < at->n; k++)
            for (int64_t j = 0; j < inner; j++) {
                int64_t index = at->i[k] < 0 ? at->i[k] + dim : at->i[k];

                if (index < 0 || index >= dim)
                    return; /* for running it to report */
                fold_move(out, (i * at->n + k) * inner + j, e, (i * dim + index) * inner + j);
            }
    fold_set(o, 0, out);
}

void fold_nonzero(const struct opview *o)
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
    fold_set(o, 0, out);
}

/* com.microsoft's RelativePositionBias: a table [buckets, heads], how many queries and keys. */
int infer_relative_bias(const struct opview *o)
{
    struct shape s = { 4, { 1, op_dim(o, 0, 1), DIM_OPEN, DIM_OPEN } };

    for (uint32_t i = 1; i < 3; i++) {
        int64_t n;

        if (!op_known_int(o, i, &n))
            continue;
        if (n < 0)
            return op_fail(o, "a length of %lld", (long long)n);
        s.dim[1 + i] = n;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}
