/* resize.c -- resizing and sampling of images. */
#include "graph/ops/known.h"

#include <math.h>
#include <string.h>

struct resize {
    struct shape s;
    int naxes;
    int axis[SHAPE_RANK_MAX];
};

static int resize_axes(const struct opview *o, struct resize *r)
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

static int resize_by_scales(const struct opview *o, struct resize *r, const double *scale,
                            int64_t n)
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

static int resize_to_sizes(const struct opview *o, struct resize *r, const struct elems *size)
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

static int resize(const struct opview *o, uint32_t scales_slot, uint32_t sizes_slot)
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

int infer_resize(const struct opview *o)
{
    return resize(o, 2, 3);
}

/* Upsample, and Resize of opset 10: scales alone. */
int infer_upsample(const struct opview *o)
{
    return resize(o, 1, UINT32_MAX);
}

int infer_center_crop_pad(const struct opview *o)
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

int infer_affine_grid(const struct opview *o)
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

int infer_grid_sample(const struct opview *o)
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

/* How many dimensions a resize changes. */
static int scaled_dims(const struct graph *g, const struct node *n)
{
    const struct shape *x = node_in_shape(g, n, 0);
    const struct value *y = node_out(g, n, 0);
    int d = 0;

    for (int32_t i = 0; y && x->rank == y->shape.rank && i < x->rank; i++)
        d += x->dim[i] != y->shape.dim[i];
    return d;
}

/* Interpolation between 2 (linear: 3 operations) or 4 (cubic: 7) points, dimension by dimension. */
static int64_t interpolate(const char *mode, int64_t out, int dims)
{
    int64_t points = strstr(mode, "cubic") ? 4 : strstr(mode, "linear") ? 2 : 1, lerps = 0, all = 1;

    if (points == 1)
        return out;
    for (int i = 0; i < dims; i++, all *= points)
        lerps += all;
    return count_mul(out, MAX(lerps * (points == 4 ? 7 : 3), (int64_t)1));
}

int64_t flops_resize(const struct graph *g, const struct node *n, int cost)
{
    (void)cost;
    return interpolate(node_attr_str(n, "mode", "nearest"), node_out_count(g, n),
                       scaled_dims(g, n));
}

int64_t flops_grid_sample(const struct graph *g, const struct node *n, int cost)
{
    int rank = node_in_shape(g, n, 0)->rank;

    (void)cost;
    return rank < 3 ? -1
                    : interpolate(node_attr_str(n, "mode", "linear"), node_out_count(g, n),
                                  MIN(rank - 2, 3));
}
