/* infer_conv.c -- convolutions, pooling, and others with windows. */
#include "graph/infer_int.h"

#include <string.h>

#define SPATIAL_MAX (SHAPE_RANK_MAX - 2)

/* The window of a convolution or a pool, per spatial dimension. */
struct window {
    int n;
    int64_t kernel[SPATIAL_MAX]; /* < 0: open */
    int64_t stride[SPATIAL_MAX];
    int64_t dilation[SPATIAL_MAX];
    int64_t begin[SPATIAL_MAX];
    int64_t end[SPATIAL_MAX];
    enum { PAD_GIVEN, PAD_SAME, PAD_VALID } pad;
    bool ceil;
};

/* A list attribute of n numbers in [low, high]; absent: all `missing`. */
static int take_list(const struct op *o, const char *name, int n, int64_t missing, int64_t low,
                     int64_t *out)
{
    size_t len;
    const int64_t *v = node_attr_ints(o->n, name, &len);

    for (int i = 0; i < n; i++)
        out[i] = missing;
    if (!v)
        return 0;
    if (len != (size_t)n)
        return op_fail(o, "attribute '%s' has %zu numbers instead of %d", name, len, n);
    for (int i = 0; i < n; i++) {
        if (v[i] < low || v[i] > INT32_MAX)
            return op_fail(o, "attribute '%s' has the value %lld", name, (long long)v[i]);
        out[i] = v[i];
    }
    return 0;
}

/* Attributes of a window over n spatial dimensions. kernel comes from the weight, or is NULL. */
static int read_window(const struct op *o, int n, const int64_t *kernel, struct window *w)
{
    const char *pad = node_attr_str(o->n, "auto_pad", "NOTSET");
    int64_t pads[2 * SPATIAL_MAX];
    int rc;

    *w = (struct window){ .n = n };
    if (n > SPATIAL_MAX)
        return op_fail(o, "%d spatial dimensions", n);
    rc = take_list(o, "kernel_shape", n, -1, 1, w->kernel);
    if (!rc)
        rc = take_list(o, "strides", n, 1, 1, w->stride);
    if (!rc)
        rc = take_list(o, "dilations", n, 1, 1, w->dilation);
    if (!rc)
        rc = take_list(o, "pads", 2 * n, 0, -(int64_t)INT32_MAX, pads);
    if (rc)
        return rc;
    for (int i = 0; i < n; i++) {
        w->begin[i] = pads[i];
        w->end[i] = pads[n + i];
        if (!kernel)
            continue;
        if (w->kernel[i] >= 0 && kernel[i] >= 0 && w->kernel[i] != kernel[i])
            return op_fail(o, "attribute 'kernel_shape' says %lld, the weight has %lld",
                           (long long)w->kernel[i], (long long)kernel[i]);
        if (w->kernel[i] < 0)
            w->kernel[i] = kernel[i];
    }
    if (strcmp(pad, "SAME_UPPER") == 0 || strcmp(pad, "SAME_LOWER") == 0)
        w->pad = PAD_SAME;
    else if (strcmp(pad, "VALID") == 0)
        w->pad = PAD_VALID;
    else if (strcmp(pad, "NOTSET") != 0 && pad[0])
        return op_fail(o, "attribute 'auto_pad' is '%.20s'", pad);
    w->ceil = op_int(o, "ceil_mode", 0) != 0;
    return 0;
}

/* Size of the result along one dimension of `in` elements. */
static int window_out(const struct op *o, const struct window *w, int i, int64_t in, int64_t *out)
{
    int64_t reach, room, steps;

    *out = DIM_OPEN;
    if (in < 0)
        return 0;
    if (w->pad == PAD_SAME) {
        *out = in / w->stride[i] + (in % w->stride[i] != 0);
        return 0;
    }
    if (w->kernel[i] < 0 || in > INT64_MAX / 2)
        return 0;
    if (w->kernel[i] == 0)
        return op_fail(o, "a kernel of size 0");
    if (__builtin_mul_overflow(w->kernel[i] - 1, w->dilation[i], &reach) || reach > INT64_MAX / 4)
        return 0;
    reach++;
    room = in - reach;
    if (w->pad == PAD_GIVEN)
        room += w->begin[i] + w->end[i];
    if (room < 0)
        return op_fail(o, "a window of %lld over %lld elements and %lld of padding",
                       (long long)reach, (long long)in,
                       (long long)(w->pad == PAD_GIVEN ? w->begin[i] + w->end[i] : 0));
    steps = room / w->stride[i];
    if (w->ceil && room % w->stride[i] != 0)
        steps++;
    /* With rounding up, a window that would start in the padding at the end is left out. */
    if (w->ceil && steps && steps * w->stride[i] >= in + (w->pad == PAD_GIVEN ? w->begin[i] : 0))
        steps--;
    *out = steps + 1;
    return 0;
}

/* Result of a window over x: its batch, `channels`, and what the window makes of the rest. */
static int windowed(const struct op *o, const struct shape *x, int64_t channels,
                    const struct window *w, struct shape *out)
{
    int rc = 0;

    *out = shape_of_rank(x->rank);
    out->dim[0] = x->dim[0];
    out->dim[1] = channels;
    for (int i = 0; !rc && i < w->n; i++)
        rc = window_out(o, w, i, x->dim[2 + i], &out->dim[2 + i]);
    return rc;
}

/* Conv and its relatives, whose x and w are at different slots. */
static int conv(const struct op *o, uint32_t xs, uint32_t ws, enum tensor_type type)
{
    const struct shape *x = op_shape(o, xs), *k = op_shape(o, ws);
    int64_t group = op_int(o, "group", 1), channels = DIM_OPEN;
    struct window w;
    struct shape out;
    int rc;

    if (x->rank < 0) {
        if (k->rank < 3) {
            op_set(o, 0, type, NULL);
            return 0;
        }
        out = shape_of_rank(k->rank);
        out.dim[1] = k->dim[0];
        op_set(o, 0, type, &out);
        return 0;
    }
    if (x->rank < 3 && !(x->rank == 2 && k->rank == 2))
        return op_fail(o, "input has %d dimensions", x->rank);
    if (k->rank >= 0 && k->rank != x->rank)
        return op_fail(o, "input has %d dimensions, weight has %d", x->rank, k->rank);
    if (group < 1)
        return op_fail(o, "attribute 'group' is %lld", (long long)group);
    if (k->rank >= 0) {
        channels = k->dim[0];
        if (x->dim[1] >= 0 && k->dim[1] >= 0 && x->dim[1] != dim_mul(k->dim[1], group))
            return op_fail(o, "input has %lld channels, the weight is for %lld in %lld groups",
                           (long long)x->dim[1], (long long)dim_mul(k->dim[1], group),
                           (long long)group);
    }
    rc = read_window(o, x->rank - 2, k->rank >= 0 ? k->dim + 2 : NULL, &w);
    if (!rc)
        rc = windowed(o, x, channels, &w, &out);
    if (rc)
        return rc;
    op_set(o, 0, type, &out);
    return 0;
}

int infer_conv(const struct op *o)
{
    return conv(o, 0, 1, op_type(o, 0));
}

int infer_conv_integer(const struct op *o)
{
    return conv(o, 0, 1, TENSOR_I32);
}

int infer_qlinear_conv(const struct op *o)
{
    /* com.microsoft's may keep channels last, which changes what every number means. */
    if (op_int(o, "channels_last", 0))
        return 0;
    return conv(o, 0, 3, op_type(o, 7));
}

/* X, W, offset, ...: windows as in Conv. */
int infer_deform_conv(const struct op *o)
{
    return conv(o, 0, 1, op_type(o, 0));
}

static int transposed_out(const struct op *o, const struct window *w, const int64_t *extra, int i,
                          int64_t in, int64_t *out)
{
    int64_t size, reach;

    *out = DIM_OPEN;
    if (in < 0 || in > INT32_MAX)
        return 0;
    if (w->pad == PAD_SAME) {
        *out = in * w->stride[i];
        return 0;
    }
    if (w->kernel[i] < 0 || w->kernel[i] > INT32_MAX)
        return 0;
    reach = (w->kernel[i] - 1) * w->dilation[i] + 1;
    size = w->stride[i] * (in - 1) + extra[i] + reach;
    if (w->pad == PAD_GIVEN)
        size -= w->begin[i] + w->end[i];
    if (size < 0)
        return op_fail(o, "the result would have size %lld", (long long)size);
    *out = size;
    return 0;
}

int infer_conv_transpose(const struct op *o)
{
    const struct shape *x = op_shape(o, 0), *k = op_shape(o, 1);
    int64_t group = op_int(o, "group", 1), extra[SPATIAL_MAX];
    size_t len;
    const int64_t *size = node_attr_ints(o->n, "output_shape", &len);
    struct window w;
    struct shape out;
    int rc, n;

    if (x->rank < 3) {
        op_set(o, 0, op_type(o, 0), NULL);
        return x->rank < 0 ? 0 : op_fail(o, "input has %d dimensions", x->rank);
    }
    n = x->rank - 2;
    if (k->rank >= 0 && k->rank != x->rank)
        return op_fail(o, "input has %d dimensions, weight has %d", x->rank, k->rank);
    if (k->rank >= 0 && x->dim[1] >= 0 && k->dim[0] >= 0 && x->dim[1] != k->dim[0])
        return op_fail(o, "input has %lld channels, the weight is for %lld", (long long)x->dim[1],
                       (long long)k->dim[0]);
    rc = read_window(o, n, k->rank >= 0 ? k->dim + 2 : NULL, &w);
    if (!rc)
        rc = take_list(o, "output_padding", n, 0, 0, extra);
    if (rc)
        return rc;
    out = shape_of_rank(x->rank);
    out.dim[0] = x->dim[0];
    if (k->rank >= 0 && group >= 1)
        out.dim[1] = dim_mul(k->dim[1], group);
    for (int i = 0; !rc && i < n; i++) {
        /* Some exporters put batch and channels into output_shape, too. */
        if (size && (len == (size_t)n || len == (size_t)n + 2))
            out.dim[2 + i] = MAX(size[len - (size_t)n + (size_t)i], (int64_t)DIM_OPEN);
        else
            rc = transposed_out(o, &w, extra, i, x->dim[2 + i], &out.dim[2 + i]);
    }
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    return 0;
}

int infer_pool(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    struct window w;
    struct shape out;
    int rc;

    if (op_int(o, "channels_last", 0))
        return 0;
    if (x->rank < 3) {
        op_set(o, 0, op_type(o, 0), NULL);
        op_set(o, 1, TENSOR_I64, NULL);
        return x->rank < 0 ? 0 : op_fail(o, "input has %d dimensions", x->rank);
    }
    rc = read_window(o, x->rank - 2, NULL, &w);
    if (!rc)
        rc = windowed(o, x, x->dim[1], &w, &out);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    op_set(o, 1, TENSOR_I64, &out);
    return 0;
}

int infer_global_pool(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (op_int(o, "channels_last", 0))
        return 0;
    for (int32_t i = 2; i < s.rank; i++)
        s.dim[i] = 1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_max_unpool(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    const struct elems *size = op_known_ints(o, 2);
    int64_t none[SPATIAL_MAX] = { 0 };
    struct window w;
    struct shape out;
    int rc;

    if (x->rank < 3) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    out = shape_of_rank(x->rank);
    if (op_has(o, 2)) {
        for (int32_t i = 0; size && size->n == x->rank && i < x->rank; i++)
            out.dim[i] = MAX(dim_of_elem(size->i[i]), (int64_t)DIM_OPEN);
        op_set(o, 0, op_type(o, 0), &out);
        return 0;
    }
    rc = read_window(o, x->rank - 2, NULL, &w);
    out.dim[0] = x->dim[0];
    out.dim[1] = x->dim[1];
    for (int i = 0; !rc && i < x->rank - 2; i++)
        rc = transposed_out(o, &w, none, i, x->dim[2 + i], &out.dim[2 + i]);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    return 0;
}

int infer_roi_align(const struct op *o)
{
    struct shape s = shape_of_rank(4);

    if (op_rank(o, 1) >= 1)
        s.dim[0] = op_shape(o, 1)->dim[0];
    if (op_rank(o, 0) == 4)
        s.dim[1] = op_shape(o, 0)->dim[1];
    s.dim[2] = MAX(op_int(o, "output_height", 1), (int64_t)DIM_OPEN);
    s.dim[3] = MAX(op_int(o, "output_width", 1), (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_max_roi_pool(const struct op *o)
{
    struct shape s = shape_of_rank(4);
    size_t len;
    const int64_t *size = node_attr_ints(o->n, "pooled_shape", &len);

    if (op_rank(o, 1) >= 1)
        s.dim[0] = op_shape(o, 1)->dim[0];
    if (op_rank(o, 0) == 4)
        s.dim[1] = op_shape(o, 0)->dim[1];
    for (size_t i = 0; size && len == 2 && i < 2; i++)
        s.dim[2 + i] = MAX(size[i], (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Columns to image: [N, C x block, L] -> [N, C, image...]. */
int infer_col2im(const struct op *o)
{
    const struct elems *image = op_known_ints(o, 1), *block = op_known_ints(o, 2);
    const struct shape *x = op_shape(o, 0);
    int64_t area = 1;
    struct shape s;

    if (!image || image->n > SPATIAL_MAX) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    s = shape_of_rank((int)image->n + 2);
    for (int64_t i = 0; i < image->n; i++)
        s.dim[2 + i] = MAX(dim_of_elem(image->i[i]), (int64_t)DIM_OPEN);
    for (int64_t i = 0; block && i < block->n; i++)
        area = dim_mul(area, MAX(dim_of_elem(block->i[i]), (int64_t)DIM_OPEN));
    if (x->rank == 3) {
        s.dim[0] = x->dim[0];
        if (block && area > 0 && x->dim[1] >= 0)
            s.dim[1] = x->dim[1] / area;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}
