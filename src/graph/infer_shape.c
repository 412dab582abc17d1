/* infer_shape.c -- operators whose result's shape is itself computed: Reshape, Expand, Resize, ...
 */
#include "graph/infer_int.h"

#include <math.h>
#include <string.h>

int infer_shape(const struct op *o)
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

int infer_size(const struct op *o)
{
    struct shape s = shape_scalar();

    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

/* Targets of Reshape: what each number in the list stands for. */
enum { TAKE_REST = -1 };

/* What -1 stands for: the elements that the other dimensions leave over. Open dimensions that are
 * on both sides cancel each other. */
static int fill_rest(const struct op *o, const struct shape *x, struct shape *s, int rest)
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

int infer_reshape(const struct op *o)
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

int infer_flatten(const struct op *o)
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

int infer_squeeze(const struct op *o)
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

int infer_unsqueeze(const struct op *o)
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
static struct shape shape_from(const struct op *o, uint32_t slot)
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

int infer_expand(const struct op *o)
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

int infer_constant_of_shape(const struct op *o)
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

int infer_eye_like(const struct op *o)
{
    int64_t t = op_int(o, "dtype", op_type(o, 0));

    if (t < 0 || t >= TENSOR_NTYPES)
        return op_fail(o, "attribute 'dtype' is %lld, which is no element type", (long long)t);
    op_set(o, 0, (enum tensor_type)t, op_shape(o, 0));
    return 0;
}

int infer_range(const struct op *o)
{
    double start, limit, delta, n;
    struct shape s = shape_1d(DIM_OPEN);

    if (op_known_float(o, 0, &start) && op_known_float(o, 1, &limit) &&
        op_known_float(o, 2, &delta)) {
        if (delta == 0)
            return op_fail(o, "a step of 0");
        n = ceil((limit - start) / delta);
        if (n < 0x1p53)
            s.dim[0] = n > 0 ? (int64_t)n : 0;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Resize and Upsample. */

struct resize {
    struct shape s;
    int naxes;
    int axis[SHAPE_RANK_MAX];
};

static int resize_axes(const struct op *o, struct resize *r)
{
    size_t len;
    const int64_t *axes = node_attr_ints(o->n, "axes", &len);
    int rc = 0;

    r->naxes = axes ? (int)MIN(len, (size_t)SHAPE_RANK_MAX) : r->s.rank;
    for (int i = 0; !rc && i < r->naxes; i++) {
        r->axis[i] = i;
        if (axes)
            rc = op_axis(o, axes[i], r->s.rank, &r->axis[i]);
    }
    return rc;
}

static int resize_by_scales(const struct op *o, struct resize *r, const double *scale, int64_t n)
{
    const struct shape *x = op_shape(o, 0);
    const struct elems *roi = op_known(o, 1);
    const char *mode = node_attr_str(o->n, "coordinate_transformation_mode", "");
    bool crop = strcmp(mode, "tf_crop_and_resize") == 0;

    if (n != r->naxes)
        return op_fail(o, "%lld scales for %d dimensions", (long long)n, r->naxes);
    for (int i = 0; i < r->naxes; i++) {
        int64_t *d = &r->s.dim[r->axis[i]], dim = x->dim[r->axis[i]];
        float size = (float)dim * (float)scale[i];

        if (!(scale[i] > 0))
            return op_fail(o, "a scale of %g", scale[i]);
        if (scale[i] == 1.0 && !crop)
            continue;
        *d = DIM_OPEN;
        if (crop && roi && tensor_type_float(roi->type) && roi->n == 2 * n)
            size = (float)dim * (float)(roi->f[i + n] - roi->f[i]) * (float)scale[i];
        else if (crop)
            continue;
        if (dim >= 0 && size < 0x1p53f && size >= 0)
            *d = (int64_t)floorf(size);
    }
    return 0;
}

static int resize_to_sizes(const struct op *o, struct resize *r, const struct elems *size)
{
    const char *policy = node_attr_str(o->n, "keep_aspect_ratio_policy", "stretch");
    const struct shape *x = op_shape(o, 0);
    double ratio = -1;

    if (size->n != r->naxes)
        return op_fail(o, "%lld sizes for %d dimensions", (long long)size->n, r->naxes);
    if (strcmp(policy, "stretch") == 0) {
        for (int i = 0; i < r->naxes; i++) {
            if (!elem_open(size->i[i]) && size->i[i] < 0)
                return op_fail(o, "a size of %lld", (long long)size->i[i]);
            r->s.dim[r->axis[i]] = dim_of_elem(size->i[i]);
        }
        return 0;
    }
    for (int i = 0; i < r->naxes; i++) {
        int64_t dim = x->dim[r->axis[i]];
        double one = dim > 0 && !elem_open(size->i[i]) ? (double)size->i[i] / (double)dim : -1;

        if (one < 0) {
            r->s = shape_of_rank(r->s.rank);
            return 0;
        }
        if (ratio < 0 || (strcmp(policy, "not_larger") == 0 ? one < ratio : one > ratio))
            ratio = one;
    }
    for (int i = 0; i < r->naxes; i++) {
        double d = floor(ratio * (double)x->dim[r->axis[i]] + 0.5);

        r->s.dim[r->axis[i]] = d < 0x1p53 ? (int64_t)d : DIM_OPEN;
    }
    return 0;
}

static int resize(const struct op *o, uint32_t scales_slot, uint32_t sizes_slot)
{
    struct resize r = { .s = *op_shape(o, 0) };
    const struct elems *sizes = op_known_ints(o, sizes_slot);
    const struct elems *scales = op_known(o, scales_slot);
    double attr[SHAPE_RANK_MAX];
    size_t len;
    const float *list = node_attr_floats(o->n, "scales", &len);
    int rc;

    op_set(o, 0, op_type(o, 0), NULL);
    if (r.s.rank < 0)
        return 0;
    rc = resize_axes(o, &r);
    if (rc)
        return rc;
    if (list && len <= SHAPE_RANK_MAX) {
        for (size_t i = 0; i < len; i++)
            attr[i] = list[i];
        rc = resize_by_scales(o, &r, attr, (int64_t)len);
    } else if (sizes && sizes->n)
        rc = resize_to_sizes(o, &r, sizes);
    else if (scales && tensor_type_float(scales->type) && scales->n)
        rc = resize_by_scales(o, &r, scales->f, scales->n);
    else
        for (int i = 0; i < r.naxes; i++)
            r.s.dim[r.axis[i]] = DIM_OPEN;
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &r.s);
    return 0;
}

int infer_resize(const struct op *o)
{
    if (o->n->opset < 11 && o->n->domain[0] == '\0')
        return resize(o, 1, UINT32_MAX);
    return resize(o, 2, 3);
}

int infer_upsample(const struct op *o)
{
    return resize(o, 1, UINT32_MAX);
}
