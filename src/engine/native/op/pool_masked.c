/* pool_masked.c -- com.microsoft's MaxpoolWithMask: where the mask is 0, a row of a window ends.
 *
 * The first element of a plane of more than one dimension is never masked, as ONNX Runtime has it.
 * Planes of a mask of fewer are taken by turns. */
#include "engine/native/math/window.h"
#include "engine/native/op/kernels.h"

#include <float.h>

int maskedpool_prepare(struct op *op, opm_error *err)
{
    struct window *w = kernel_new_state(op, sizeof(*w));
    const struct nt *x = kernel_in(op, 0), *mask = kernel_in(op, 1);
    struct shape s;
    int rc = w ? kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I32), err);
    if (!rc)
        rc = window_pool(w, op, &x->shape, &s, err);
    if (rc)
        return rc;
    if (mask->shape.rank != x->shape.rank || (x->count && !mask->count))
        return kernel_fail(op, OPM_EINVAL, err, "the mask does not fit");
    for (int32_t d = 2; d < x->shape.rank; d++)
        if (mask->shape.dim[d] != x->shape.dim[d])
            return kernel_fail(op, OPM_EINVAL, err, "the mask does not fit");
    for (int d = 0; d < 3; d++)
        if (w->dilation[d] != 1)
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for dilations");
    op->scratch_bytes = mask->bytes;
    return kernel_set(op, 0, TENSOR_F32, &s, err);
}

/* The part of a window that is inside: [*lo, result). */
static int64_t inside(const struct window *w, int d, int64_t o, int64_t *lo)
{
    int64_t start = o * w->stride[d] - w->before[d];

    *lo = MAX(start, (int64_t)0);
    return MIN(start + w->kernel[d], w->in[d]);
}

/* For each element of the mask, where the next one is that ends a row, within its row. */
static void find_stops(const struct op *op)
{
    const struct window *w = op->state;
    const struct nt *m = kernel_in(op, 1);
    const int32_t *mask = m->data;
    int32_t *stop = op->scratch;
    int64_t plane = window_in(w), cols = w->in[2];

    for (int64_t i = m->count - 1; i >= 0; i--) {
        int64_t x = i % cols;
        bool ends = !mask[i] && (w->nd == 1 || i % plane);

        stop[i] = (int32_t)(ends ? x : x == cols - 1 ? cols : stop[i + 1]);
    }
}

/* The greatest of rows [y0, y1) of x from x0 on. */
static float greatest(const float *x, const int32_t *stop, int64_t y0, int64_t y1, int64_t x0,
                      int64_t x1, int64_t cols, float best)
{
    for (int64_t y = y0; y < y1; y++) {
        int64_t end = MIN(x1, (int64_t)stop[y * cols + x0]);

        for (int64_t i = x0; i < end; i++)
            best = x[y * cols + i] > best ? x[y * cols + i] : best;
    }
    return best;
}

static void maskedpool_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct window *w = op->state;
    const struct shape *m = &kernel_in(op, 1)->shape;
    int64_t size = window_in(w), area = w->in[1] * w->in[2];

    (void)thread;
    for (int64_t plane = begin; plane < end; plane++) {
        const float *x = (const float *)kernel_in(op, 0)->data + plane * size;
        const int32_t *stop = (const int32_t *)op->scratch + plane % (m->dim[0] * m->dim[1]) * size;
        float *out = (float *)kernel_out(op, 0)->data + plane * window_out(w);

        for (int64_t oz = 0; oz < w->out[0]; oz++)
            for (int64_t oy = 0; oy < w->out[1]; oy++)
                for (int64_t ox = 0; ox < w->out[2]; ox++) {
                    int64_t z0, y0, x0, z1 = inside(w, 0, oz, &z0), y1 = inside(w, 1, oy, &y0),
                                        x1 = inside(w, 2, ox, &x0);
                    float best = -FLT_MAX;

                    for (int64_t z = z0; z < z1 && x0 < x1; z++)
                        best =
                            greatest(x + z * area, stop + z * area, y0, y1, x0, x1, w->in[2], best);
                    *out++ = best;
                }
    }
}

int maskedpool_run(struct op *op, opm_error *err)
{
    const struct window *w = op->state;
    const struct shape *s = &kernel_in(op, 0)->shape;

    (void)err;
    if (!kernel_out(op, 0)->count)
        return 0;
    find_stops(op);
    pool_for(kernel_pool(op), s->dim[0] * s->dim[1],
             pool_grain((double)(window_out(w) * window_kernel(w))), maskedpool_part, op);
    return 0;
}
