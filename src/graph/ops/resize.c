/* resize.c -- resizing and sampling of images. */
#include "graph/ops/args.h"
#include "graph/ops/known.h"

#include <math.h>
#include <string.h>

/* The dimensions that an attribute names, or all. */
static int resized_axes(const struct opview *o, struct resizing *r)
{
    size_t len;
    const int64_t *axes = node_attr_ints(o->n, "axes", &len);
    int rc = 0;

    if (len > SHAPE_RANK_MAX)
        return op_fail(o, "attribute 'axes' has %zu numbers", len);
    r->naxes = len ? (int)len : r->out.rank;
    for (int i = 0; !rc && i < r->naxes; i++) {
        r->axis[i] = i;
        if (len)
            rc = op_axis(o, axes[i], r->out.rank, &r->axis[i]);
    }
    return rc;
}

static int resize_by_scales(const struct opview *o, struct resizing *r, const double *scale,
                            int64_t n, bool crop)
{
    const struct elems *roi = crop ? op_known(o, 1) : NULL;

    if (n != r->naxes)
        return op_fail(o, "%lld scales for %d dimensions", (long long)n, r->naxes);
    for (int i = 0; i < r->naxes; i++) {
        int axis = r->axis[i];
        int64_t dim = r->out.dim[axis];
        float size = (float)dim * (float)scale[i];

        if (!(scale[i] > 0))
            return op_fail(o, "a scale of %g", scale[i]);
        r->scale[axis] = scale[i];
        r->on[axis] = scale[i] != 1.0 || crop;
        if (!r->on[axis])
            continue;
        r->out.dim[axis] = DIM_OPEN;
        if (crop && roi && tensor_type_float(roi->type) && roi->n == 2 * n)
            size = (float)dim * (float)(roi->f[i + n] - roi->f[i]) * (float)scale[i];
        else if (crop)
            continue;
        if (dim < 0)
            continue;
        if (!(size >= 0 && size < 0x1p40f))
            return op_fail(o, "a scale of %g for %lld elements", scale[i], (long long)dim);
        r->out.dim[axis] = (int64_t)floorf(size);
    }
    return 0;
}

/* A size for each dimension. */
static int stretch(const struct opview *o, struct resizing *r, const struct elems *size, bool crop)
{
    for (int i = 0; i < r->naxes; i++) {
        int axis = r->axis[i];
        int64_t from = r->out.dim[axis], to = dim_of_elem(size->i[i]);

        if (!elem_open(size->i[i]) && (to < 0 || (to && from == 0)))
            return op_fail(o, "a size of %lld for %lld elements", (long long)to, (long long)from);
        r->out.dim[axis] = to;
        r->on[axis] = to != from || crop;
        if (to >= 0 && from > 0)
            r->scale[axis] = (double)to / (double)from;
    }
    return 0;
}

/* The same ratio for all dimensions: the smallest or the largest of those that sizes give. */
static int keep_aspect(const struct opview *o, struct resizing *r, const struct elems *size)
{
    bool smallest = strcmp(node_attr_str(o->n, "keep_aspect_ratio_policy", ""), "not_larger") == 0;
    double ratio = -1;

    for (int i = 0; i < r->naxes; i++) {
        int64_t dim = r->out.dim[r->axis[i]];
        double one = dim > 0 && !elem_open(size->i[i]) ? (double)size->i[i] / (double)dim : -1;

        if (one < 0) {
            r->out = shape_of_rank(r->out.rank);
            return 0;
        }
        if (ratio < 0 || (smallest ? one < ratio : one > ratio))
            ratio = one;
    }
    for (int i = 0; i < r->naxes; i++) {
        int axis = r->axis[i];
        double d = floor(ratio * (double)r->out.dim[axis] + 0.5);

        r->on[axis] = true;
        r->scale[axis] = ratio;
        r->out.dim[axis] = d < 0x1p53 ? (int64_t)d : DIM_OPEN;
    }
    return 0;
}

int resize_read(const struct opview *o, struct resizing *r)
{
    /* Upsample and the first Resize have scales alone: an attribute, or input 1. */
    bool old = o->n->opset < 11 && o->n->domain[0] == '\0';
    const char *mode = node_attr_str(o->n, "coordinate_transformation_mode", "");
    const char *policy = node_attr_str(o->n, "keep_aspect_ratio_policy", "stretch");
    bool crop = strcmp(mode, "tf_crop_and_resize") == 0;
    const struct elems *sizes = old ? NULL : op_known_ints(o, 3);
    const struct elems *scales = op_known(o, old ? 1 : 2);
    double attr[SHAPE_RANK_MAX];
    size_t len;
    const float *list = node_attr_floats(o->n, "scales", &len);
    int rc;

    *r = (struct resizing){ .out = *op_shape(o, 0) };
    for (int i = 0; i < SHAPE_RANK_MAX; i++)
        r->scale[i] = 1;
    rc = resized_axes(o, r);
    if (rc)
        return rc;
    if (list && len <= SHAPE_RANK_MAX) {
        for (size_t i = 0; i < len; i++)
            attr[i] = list[i];
        return resize_by_scales(o, r, attr, (int64_t)len, crop);
    }
    if (scales && tensor_type_float(scales->type) && scales->n)
        return resize_by_scales(o, r, scales->f, scales->n, crop);
    if (sizes && sizes->n) {
        if (sizes->n != r->naxes)
            return op_fail(o, "%lld sizes for %d dimensions", (long long)sizes->n, r->naxes);
        return strcmp(policy, "stretch") == 0 ? stretch(o, r, sizes, crop)
                                              : keep_aspect(o, r, sizes);
    }
    if (!op_has(o, old ? 1 : 2) && (old || !op_has(o, 3)))
        return op_fail(o, "has neither scales nor sizes");
    for (int i = 0; i < r->naxes; i++)
        r->out.dim[r->axis[i]] = DIM_OPEN;
    return 0;
}

int infer_resize(const struct opview *o)
{
    struct resizing r;
    int rc;

    if (op_rank(o, 0) < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    rc = resize_read(o, &r);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &r.out);
    return 0;
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

/* How big the picture is, only its bytes tell. */
int infer_image_decoder(const struct opview *o)
{
    bool gray = strcmp(node_attr_str(o->n, "pixel_format", "RGB"), "Grayscale") == 0;
    struct shape y = { 3, { DIM_OPEN, DIM_OPEN, gray ? 1 : 3 } };

    op_set(o, 0, TENSOR_U8, &y);
    return 0;
}
