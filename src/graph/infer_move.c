/* infer_move.c -- operators that cut, join and turn tensors: Concat, Split, Slice, Transpose, ...
 */
#include "graph/infer_int.h"

#include <string.h>

int infer_transpose(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    size_t len;
    const int64_t *perm = node_attr_ints(o->n, "perm", &len);
    bool used[SHAPE_RANK_MAX] = { 0 };
    struct shape s;

    if (x->rank < 0) {
        s = perm && len <= SHAPE_RANK_MAX ? shape_of_rank((int)len) : shape_unknown();
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    s.rank = x->rank;
    for (int32_t i = 0; i < x->rank && !perm; i++)
        s.dim[i] = x->dim[x->rank - 1 - i];
    if (perm && len != (size_t)x->rank)
        return op_fail(o, "attribute 'perm' has %zu numbers, the input %d dimensions", len,
                       x->rank);
    for (size_t i = 0; perm && i < len; i++) {
        int64_t p = perm[i] < 0 ? perm[i] + x->rank : perm[i];

        if (p < 0 || p >= x->rank || used[p])
            return op_fail(o, "attribute 'perm' is no permutation");
        used[p] = true;
        s.dim[i] = x->dim[p];
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_concat(const struct op *o)
{
    struct shape s = shape_unknown();
    enum tensor_type type = TENSOR_NONE;
    int64_t along = 0;
    int axis = 0, rc;

    for (uint32_t i = 0; i < o->n->nin; i++) {
        if (type == TENSOR_NONE)
            type = op_type(o, i);
        if (s.rank < 0)
            s = *op_shape(o, i);
    }
    if (s.rank < 0) {
        op_set(o, 0, type, NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 1), s.rank, &axis);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < o->n->nin; i++) {
        const struct shape *x = op_shape(o, i);

        if (x->rank < 0) {
            along = DIM_OPEN;
            continue;
        }
        if (x->rank != s.rank)
            return op_fail(o, "inputs of %d and %d dimensions", s.rank, x->rank);
        for (int k = 0; k < s.rank; k++) {
            if (k == axis)
                continue;
            if (s.dim[k] >= 0 && x->dim[k] >= 0 && s.dim[k] != x->dim[k])
                return op_fail(o, "inputs with %lld and %lld in dimension %d", (long long)s.dim[k],
                               (long long)x->dim[k], k);
            if (s.dim[k] < 0 && (x->dim[k] >= 0 || s.dim[k] == DIM_OPEN))
                s.dim[k] = x->dim[k];
        }
        along = along == DIM_OPEN ? DIM_OPEN : dim_add(along, x->dim[axis]);
    }
    s.dim[axis] = along;
    op_set(o, 0, type, &s);
    return 0;
}

/* Sizes of the pieces of Split: given, or equal, the last one smaller since opset 18. */
static int split_size(const struct op *o, const int64_t *given, int64_t n, int64_t dim, uint32_t i,
                      int64_t *out)
{
    uint32_t pieces = o->n->nout;
    int64_t size;

    *out = DIM_OPEN;
    if (n > 0) {
        if ((int64_t)i >= n)
            return op_fail(o, "%u outputs, but sizes for %lld", pieces, (long long)n);
        if (given[i] < 0)
            return op_fail(o, "a piece of %lld", (long long)given[i]);
        *out = given[i];
        return 0;
    }
    if (dim < 0 || n < 0)
        return 0;
    if (dim % pieces != 0 && !(o->n->opset >= 18 && op_int(o, "num_outputs", 0) > 0))
        return op_fail(o, "%lld elements in %u equal pieces", (long long)dim, pieces);
    size = dim / pieces + (dim % pieces != 0);
    *out = i + 1 < pieces ? size : dim - size * (pieces - 1);
    return *out < 0 ? op_fail(o, "%lld elements in %u pieces", (long long)dim, pieces) : 0;
}

#define SPLIT_MAX 4096

int infer_split(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t given[SPLIT_MAX], n, sum = 0;
    bool is_given;
    struct shape s;
    int rc = op_list(o, "split", 1, given, SPLIT_MAX, &n, &is_given), axis;

    if (rc)
        return rc;
    if (x->rank < 0) {
        for (uint32_t i = 0; i < o->n->nout; i++)
            op_set(o, i, op_type(o, 0), NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    for (uint32_t i = 0; !rc && i < o->n->nout; i++) {
        s = *x;
        rc = split_size(o, given, n, x->dim[axis], i, &s.dim[axis]);
        op_set(o, i, op_type(o, 0), &s);
    }
    for (int64_t i = 0; i < n; i++)
        sum = dim_add(sum, given[i]);
    if (!rc && n > 0 && sum >= 0 && x->dim[axis] >= 0 && sum != x->dim[axis])
        return op_fail(o, "pieces of %lld in all of %lld elements", (long long)sum,
                       (long long)x->dim[axis]);
    return rc;
}

/* Number of elements that [start : end : step] takes of dim. */
static int64_t slice_size(int64_t dim, int64_t start, int64_t end, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1, span;

    if (start < 0)
        start = start < -dim ? low : start + dim;
    if (end < 0)
        end = end < -dim ? low : end + dim;
    start = MIN(MAX(start, low), high);
    end = MIN(MAX(end, low), high);
    span = step > 0 ? end - start : start - end;
    if (span <= 0)
        return 0;
    if (step == INT64_MIN)
        return 1;
    step = step > 0 ? step : -step;
    return (span - 1) / step + 1;
}

/* One of the lists of Slice: an attribute, or an input whose elements may be open. */
struct slice_list {
    bool given;
    int64_t n; /* -1: not known */
    const int64_t *v;
};

static struct slice_list slice_list(const struct op *o, const char *attr, uint32_t slot)
{
    struct slice_list l = { 0 };
    const struct elems *e;
    size_t len;

    if (o->n->opset < 10 && o->n->domain[0] == '\0') {
        l.v = node_attr_ints(o->n, attr, &len);
        l.given = l.v != NULL;
        l.n = (int64_t)len;
        return l;
    }
    l.given = op_has(o, slot);
    e = op_known_ints(o, slot);
    l.n = e ? e->n : l.given ? -1 : 0;
    l.v = e ? e->i : NULL;
    return l;
}

int infer_slice(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    struct slice_list start = slice_list(o, "starts", 1), end = slice_list(o, "ends", 2);
    struct slice_list axes = slice_list(o, "axes", 3), step = slice_list(o, "steps", 4);
    int64_t n = start.given && start.n >= 0 ? start.n : end.given ? end.n : -1;

    if (n < 0 && op_rank(o, 1) == 1)
        n = op_shape(o, 1)->dim[0];
    if (s.rank < 0 || (axes.given && axes.n < 0) || n < 0) {
        /* Which dimensions are cut is not known. */
        s = s.rank < 0 ? shape_unknown() : shape_of_rank(s.rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    if (n > s.rank || (axes.given && axes.n != n) || (start.n >= 0 && start.n != n) ||
        (end.n >= 0 && end.n != n) || (step.given && step.n >= 0 && step.n != n))
        return op_fail(o, "lists of different lengths");
    for (int64_t i = 0; i < n; i++) {
        int64_t by = !step.given ? 1 : step.v ? step.v[i] : ELEM_ANY;
        int axis = (int)i, rc = 0;

        if (axes.given && elem_open(axes.v[i])) {
            s = shape_of_rank(s.rank);
            break;
        }
        if (axes.given)
            rc = op_axis(o, axes.v[i], s.rank, &axis);
        if (rc)
            return rc;
        if (by == 0)
            return op_fail(o, "a step of 0");
        if (start.v && end.v && start.v[i] == 0 && by == 1 && s.dim[axis] < 0 &&
            (end.v[i] == INT64_MAX || end.v[i] == INT32_MAX))
            continue; /* all of it, whatever it is */
        if (!start.v || !end.v || elem_open(start.v[i]) || elem_open(end.v[i]) || elem_open(by) ||
            s.dim[axis] < 0)
            s.dim[axis] = DIM_OPEN;
        else
            s.dim[axis] = slice_size(s.dim[axis], start.v[i], end.v[i], by);
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_gather(const struct op *o)
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

int infer_gather_elements(const struct op *o)
{
    op_set(o, 0, op_type(o, 0), op_shape(o, 1));
    return 0;
}

int infer_gather_nd(const struct op *o)
{
    const struct shape *x = op_shape(o, 0), *at = op_shape(o, 1);
    int64_t batch = op_int(o, "batch_dims", 0), last;
    struct shape s = { 0 };

    if (x->rank < 1 || at->rank < 1 || at->dim[at->rank - 1] < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    last = at->dim[at->rank - 1];
    if (batch < 0 || batch >= x->rank || last > x->rank - batch ||
        at->rank - 1 + x->rank - batch - last > SHAPE_RANK_MAX)
        return op_fail(o, "indices of %lld numbers into %d dimensions", (long long)last, x->rank);
    for (int i = 0; i < at->rank - 1; i++)
        s.dim[s.rank++] = at->dim[i];
    for (int64_t i = batch + last; i < x->rank; i++)
        s.dim[s.rank++] = x->dim[i];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_tile(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    const struct elems *times = op_known_ints(o, 1);

    if (o->n->opset < 6 && o->n->domain[0] == '\0') { /* tiles and axis, as inputs */
        s = s.rank < 0 ? s : shape_of_rank(s.rank);
    } else if (s.rank >= 0 && !times) {
        s = shape_of_rank(s.rank);
    } else if (s.rank >= 0) {
        if (times->n != s.rank)
            return op_fail(o, "%lld repeats of %d dimensions", (long long)times->n, s.rank);
        for (int32_t i = 0; i < s.rank; i++) {
            if (!elem_open(times->i[i]) && times->i[i] < 0)
                return op_fail(o, "repeats %lld times", (long long)times->i[i]);
            s.dim[i] = dim_mul(s.dim[i], dim_of_elem(times->i[i]));
        }
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_pad(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    const char *attr = node_attr(o->n, "paddings") ? "paddings" : "pads";
    int64_t pads[2 * SHAPE_RANK_MAX], axes[SHAPE_RANK_MAX], n, naxes;
    bool given, axes_given;
    struct shape s = *x;
    int rc = op_list(o, attr, 1, pads, 2 * SHAPE_RANK_MAX, &n, &given), axis;

    if (!rc)
        rc = op_list(o, "axes", 3, axes, SHAPE_RANK_MAX, &naxes, &axes_given);
    if (rc)
        return rc;
    if (x->rank < 0 || n < 0 || naxes < 0 || !given) {
        s = x->rank < 0 ? shape_unknown() : shape_of_rank(x->rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    if (!axes_given)
        naxes = x->rank;
    if (n != 2 * naxes)
        return op_fail(o, "%lld pads for %lld dimensions", (long long)n, (long long)naxes);
    for (int64_t i = 0; i < naxes; i++) {
        int64_t more;

        axis = (int)i;
        if (axes_given)
            rc = op_axis(o, axes[i], x->rank, &axis);
        if (rc)
            return rc;
        if (__builtin_add_overflow(pads[i], pads[i + naxes], &more))
            return op_fail(o, "pads of %lld and %lld", (long long)pads[i],
                           (long long)pads[i + naxes]);
        if (more == 0)
            continue;
        if (s.dim[axis] < 0 || __builtin_add_overflow(s.dim[axis], more, &s.dim[axis]))
            s.dim[axis] = DIM_OPEN;
        else if (s.dim[axis] < 0)
            return op_fail(o, "pads %lld elements by %lld", (long long)x->dim[axis],
                           (long long)more);
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_depth_to_space(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t b = op_int(o, "blocksize", 0);
    struct shape s = shape_of_rank(4);

    if (b < 1 || b > INT32_MAX)
        return op_fail(o, "attribute 'blocksize' is %lld", (long long)b);
    if (x->rank >= 0 && x->rank != 4)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (x->rank == 4) {
        if (x->dim[1] >= 0 && x->dim[1] % (b * b) != 0)
            return op_fail(o, "%lld channels in blocks of %lld", (long long)x->dim[1],
                           (long long)(b * b));
        s.dim[0] = x->dim[0];
        s.dim[1] = x->dim[1] >= 0 ? x->dim[1] / (b * b) : DIM_OPEN;
        s.dim[2] = dim_mul(x->dim[2], b);
        s.dim[3] = dim_mul(x->dim[3], b);
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_space_to_depth(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t b = op_int(o, "blocksize", 0);
    struct shape s = shape_of_rank(4);

    if (b < 1 || b > INT32_MAX)
        return op_fail(o, "attribute 'blocksize' is %lld", (long long)b);
    if (x->rank >= 0 && x->rank != 4)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (x->rank == 4) {
        s.dim[0] = x->dim[0];
        s.dim[1] = dim_mul(x->dim[1], b * b);
        for (int i = 2; i < 4; i++)
            s.dim[i] = x->dim[i] >= 0 ? x->dim[i] / b : DIM_OPEN;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_compress(const struct op *o)
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

int infer_nonzero(const struct op *o)
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

int infer_unique(const struct op *o)
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

int infer_one_hot(const struct op *o)
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
    if (e && e->n == 1)
        depth = tensor_type_float(e->type)
                    ? (e->f[0] >= 0 && e->f[0] < 0x1p40 ? (int64_t)e->f[0] : DIM_OPEN)
                    : MAX(dim_of_elem(e->i[0]), (int64_t)DIM_OPEN);
    for (int32_t i = 0; i <= x->rank; i++)
        s.dim[s.rank++] = i == axis ? depth : x->dim[i > axis ? i - 1 : i];
    op_set(o, 0, op_type(o, 2), &s);
    return 0;
}

int infer_center_crop_pad(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    const struct elems *size = op_known_ints(o, 1);
    size_t naxes;
    const int64_t *axes = node_attr_ints(o->n, "axes", &naxes);
    int axis, rc = 0;

    if (s.rank < 0 || !size || size->n != (axes ? (int64_t)naxes : (int64_t)s.rank)) {
        s = s.rank < 0 ? s : shape_of_rank(s.rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    for (int64_t i = 0; i < size->n; i++) {
        axis = (int)i;
        if (axes)
            rc = op_axis(o, axes[i], s.rank, &axis);
        if (rc)
            return rc;
        s.dim[axis] = MAX(dim_of_elem(size->i[i]), (int64_t)DIM_OPEN);
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_affine_grid(const struct op *o)
{
    const struct elems *size = op_known_ints(o, 1);
    struct shape s = shape_unknown();

    if (size && (size->n == 4 || size->n == 5)) {
        s = shape_of_rank((int)size->n);
        s.dim[0] = MAX(dim_of_elem(size->i[0]), (int64_t)DIM_OPEN);
        for (int64_t i = 2; i < size->n; i++)
            s.dim[i - 1] = MAX(dim_of_elem(size->i[i]), (int64_t)DIM_OPEN);
        s.dim[size->n - 1] = size->n - 2;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_grid_sample(const struct op *o)
{
    const struct shape *x = op_shape(o, 0), *grid = op_shape(o, 1);
    struct shape s = shape_unknown();

    if (x->rank >= 3 || grid->rank >= 3)
        s = shape_of_rank(MAX(x->rank, grid->rank));
    if (x->rank >= 3) {
        s.dim[0] = x->dim[0];
        s.dim[1] = x->dim[1];
    }
    for (int32_t i = 1; i < grid->rank - 1 && grid->rank == s.rank; i++)
        s.dim[i + 1] = grid->dim[i];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}
