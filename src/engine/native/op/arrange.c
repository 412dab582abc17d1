/* arrange.c -- Col2Im, CenterCropPad, TensorScatter: pieces of a tensor at other places;
 * AffineGrid: places by a linear map. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <string.h>

/* -- Col2Im: columns [N, C * block, L], sizes of the image, sizes of the block -- */

struct col2im {
    int n; /* dimensions of the image */
    int64_t image[SHAPE_RANK_MAX], block[SHAPE_RANK_MAX], places[SHAPE_RANK_MAX];
    int64_t stride[SHAPE_RANK_MAX], dilation[SHAPE_RANK_MAX], begin[SHAPE_RANK_MAX];
    int64_t pixels, taps, count; /* of an image, a block, places of blocks */
};

/* An attribute with n numbers, or the default for all. False if it has another number of them. */
static bool list_of(const struct op *op, const char *name, int64_t *out, int n, int64_t missing)
{
    size_t have;
    const int64_t *v = node_attr_ints(op->node, name, &have);

    for (int i = 0; i < n; i++)
        out[i] = have ? v[MIN((size_t)i, have - 1)] : missing;
    return have == 0 || have == (size_t)n;
}

/* The product, or -1 if it is too big or a factor is below 1. */
static int64_t product(const int64_t *v, int n)
{
    int64_t p = 1;

    for (int i = 0; i < n; i++)
        if (v[i] < 1 || __builtin_mul_overflow(p, v[i], &p) || p > INT32_MAX)
            return -1;
    return p;
}

int col2im_prepare(struct op *op, opm_error *err)
{
    struct col2im *s = kernel_new_state(op, sizeof(*s));
    const struct nt *x = kernel_in(op, 0);
    int64_t pads[2 * SHAPE_RANK_MAX];
    size_t n = 0, m = 0;
    int rc = s ? kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_ints(op, 1, s->image, SHAPE_RANK_MAX - 2, &n, err);
    if (!rc)
        rc = kernel_ints(op, 2, s->block, SHAPE_RANK_MAX - 2, &m, err);
    if (rc)
        return rc;
    s->n = (int)n;
    if (n < 1 || n != m || x->shape.rank != 3 || !list_of(op, "strides", s->stride, s->n, 1) ||
        !list_of(op, "dilations", s->dilation, s->n, 1) || !list_of(op, "pads", pads, 2 * s->n, 0))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    s->pixels = product(s->image, s->n);
    s->taps = product(s->block, s->n);
    for (int i = 0; i < s->n && s->pixels > 0 && s->taps > 0; i++) {
        int64_t reach, room;

        s->begin[i] = pads[i];
        if (s->stride[i] < 1 || s->dilation[i] < 1 || s->stride[i] > INT32_MAX ||
            s->dilation[i] > INT32_MAX || pads[i] < 0 || pads[i] > INT32_MAX ||
            pads[s->n + i] < 0 || pads[s->n + i] > INT32_MAX)
            return kernel_fail(op, OPM_EINVAL, err, "strides, dilations or pads are out of range");
        reach = s->dilation[i] * (s->block[i] - 1) + 1;
        room = s->image[i] + pads[i] + pads[s->n + i] - reach;
        s->places[i] = room < 0 ? 0 : room / s->stride[i] + 1;
    }
    s->count = product(s->places, s->n);
    if (s->pixels < 1 || s->taps < 1 || s->count < 1 || x->shape.dim[1] % s->taps ||
        x->shape.dim[2] != s->count)
        return kernel_fail(op, OPM_EINVAL, err, "columns do not fit the image and the block");
    return kernel_infer(op, err);
}

/* Row `row` of places (all dimensions but the last) with one tap of the block: the pixel that place
 * 0 of the last dimension has, of which [*from, *to) are in the image; false: none is. */
static bool col2im_row(const struct col2im *s, int64_t tap, int64_t row, int64_t *at, int64_t *from,
                       int64_t *to)
{
    int last = s->n - 1;
    int64_t first = tap % s->block[last] * s->dilation[last] - s->begin[last], by = s->stride[last],
            step = s->image[last], width = s->image[last];

    *at = first;
    *from = first < 0 ? (by - 1 - first) / by : 0;
    *to = first < width ? MIN(s->places[last], (width - 1 - first) / by + 1) : 0;
    tap /= s->block[last];
    for (int i = last - 1; i >= 0; i--) {
        int64_t p =
            row % s->places[i] * s->stride[i] - s->begin[i] + tap % s->block[i] * s->dilation[i];

        if (p < 0 || p >= s->image[i])
            return false;
        *at += p * step;
        step *= s->image[i];
        tap /= s->block[i];
        row /= s->places[i];
    }
    return *from < *to;
}

static void col2im_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct col2im *s = op->state;
    int64_t width = s->places[s->n - 1], rows = s->count / width, by = s->stride[s->n - 1];

    (void)thread;
    for (int64_t c = begin; c < end; c++) {
        float *out = (float *)kernel_out(op, 0)->data + c * s->pixels;
        const float *in = (const float *)kernel_in(op, 0)->data + c * s->taps * s->count;

        memset(out, 0, (size_t)s->pixels * sizeof(*out));
        for (int64_t i = 0; i < s->taps * rows; i++, in += width) {
            int64_t at, from, to;

            if (!col2im_row(s, i / rows, i % rows, &at, &from, &to))
                continue;
            if (by == 1)
                kernel_isa(op)->binary(B_ADD, out + at + from, out + at + from, 1, in + from, 1,
                                       to - from);
            else
                for (int64_t k = from; k < to; k++)
                    out[at + k * by] += in[k];
        }
    }
}

int col2im_run(struct op *op, opm_error *err)
{
    const struct col2im *s = op->state;

    (void)err;
    pool_for(kernel_pool(op), kernel_in(op, 0)->count / (s->taps * s->count),
             pool_grain((double)(s->taps * s->count) / 4), col2im_part, op);
    return 0;
}

/* -- CenterCropPad: input, sizes -- */

int centercroppad_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    return rc ? rc : kernel_infer(op, err);
}

int centercroppad_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int32_t rank = x->shape.rank;
    int64_t from[SHAPE_RANK_MAX] = { 0 }, to[SHAPE_RANK_MAX] = { 0 }, len[SHAPE_RANK_MAX], rows = 1;
    size_t w = nt_width(x->type);

    (void)err;
    memset(out->data, 0, out->bytes);
    if (!x->count || !out->count)
        return 0;
    for (int32_t i = 0; i < rank; i++) {
        int64_t have = x->shape.dim[i], want = out->shape.dim[i];

        from[i] = have > want ? (have - want) / 2 : 0;
        to[i] = want > have ? (want - have) / 2 : 0;
        len[i] = MIN(have, want);
        rows *= i < rank - 1 ? len[i] : 1;
    }
    if (rank == 0) {
        memcpy(out->data, x->data, w);
        return 0;
    }
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r, a = from[rank - 1], b = to[rank - 1], astep = x->shape.dim[rank - 1],
                bstep = out->shape.dim[rank - 1];

        for (int32_t i = rank - 2; i >= 0; i--) {
            a += (from[i] + rest % len[i]) * astep;
            b += (to[i] + rest % len[i]) * bstep;
            astep *= x->shape.dim[i];
            bstep *= out->shape.dim[i];
            rest /= len[i];
        }
        memcpy((char *)out->data + (size_t)b * w, (const char *)x->data + (size_t)a * w,
               (size_t)len[rank - 1] * w);
    }
    return 0;
}

/* -- TensorScatter: cache, update, where in the cache each batch item's update begins -- */

int tensorscatter_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *u, *at = kernel_in(op, 2);
    int axis, rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(x->type), err);
    if (!rc && at)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_I64), err);
    if (rc)
        return rc;
    u = kernel_in(op, 1);
    axis = nt_axis(node_attr_int(op->node, "axis", -2), x->shape.rank);
    if (axis < 1 || u->shape.rank != x->shape.rank || (at && at->count != x->shape.dim[0]) ||
        (!node_attr_is(op->node, "mode", "linear", "linear") &&
         !node_attr_is(op->node, "mode", "circular", "linear")))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    for (int32_t i = 0; i < x->shape.rank; i++)
        if (i == axis ? u->shape.dim[i] > x->shape.dim[i] : u->shape.dim[i] != x->shape.dim[i])
            return kernel_fail(op, OPM_EINVAL, err, "the update does not fit");
    return kernel_infer(op, err);
}

int tensorscatter_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *u = kernel_in(op, 1), *at = kernel_in(op, 2);
    int32_t axis = nt_axis(node_attr_int(op->node, "axis", -2), x->shape.rank);
    bool circular = node_attr_is(op->node, "mode", "circular", "linear");
    int64_t size = x->shape.dim[axis], n = u->shape.dim[axis], middle = nt_span(&x->shape, 1, axis);
    size_t row = (size_t)nt_span(&x->shape, axis + 1, x->shape.rank) * nt_width(x->type);
    char *out = kernel_out(op, 0)->data;
    const char *in = u->data;

    if (x->bytes)
        memcpy(out, x->data, x->bytes);
    for (int64_t o = 0; size && o < x->shape.dim[0] * middle; o++, out += (size_t)size * row) {
        int64_t first = at ? nt_int(at, o / middle) : 0;

        if (first < 0 || (circular ? first >= size : first > size - n))
            return kernel_fail(op, OPM_EINVAL, err, "index %lld is out of range", (long long)first);
        for (int64_t i = 0; i < n; i++, in += row)
            memcpy(out + (size_t)((first + i) % size) * row, in, row);
    }
    return 0;
}

/* -- AffineGrid: theta [N, d, d + 1], sizes N, C, spatial -- */

int affinegrid_prepare(struct op *op, opm_error *err)
{
    const struct shape *theta, *out;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc)
        rc = kernel_infer(op, err);
    if (rc)
        return rc;
    theta = &kernel_in(op, 0)->shape;
    out = &kernel_out(op, 0)->shape;
    if (theta->rank != 3 || theta->dim[0] != out->dim[0] ||
        theta->dim[1] != out->dim[out->rank - 1] || theta->dim[2] != theta->dim[1] + 1)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return 0;
}

int affinegrid_run(struct op *op, opm_error *err)
{
    const struct nt *out = kernel_out(op, 0);
    bool corners = node_attr_int(op->node, "align_corners", 0) != 0;
    int d = out->shape.rank - 2; /* of space */
    int64_t points = nt_span(&out->shape, 1, 1 + d);
    float *to = out->data;

    (void)err;
    for (int64_t i = 0; i < out->count / d; i++, to += d) {
        const float *theta = (const float *)kernel_in(op, 0)->data + i / points * d * (d + 1);
        float place[3]; /* x first: the last dimension */
        int64_t rest = i % points;

        for (int k = 0; k < d; k++) {
            int64_t size = out->shape.dim[d - k], at = rest % size;

            rest /= size;
            place[k] = corners ? (size > 1 ? -1 + 2 * (float)at / (float)(size - 1) : -1)
                               : (2 * (float)at + 1) / (float)size - 1;
        }
        for (int r = 0; r < d; r++) {
            to[r] = theta[r * (d + 1) + d];
            for (int k = 0; k < d; k++)
                to[r] += theta[r * (d + 1) + k] * place[k];
        }
    }
    return 0;
}
