/* sample.c -- GridSample, RoiAlign, MaxRoiPool: elements at coordinates that data gives. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

enum { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

struct grid_job {
    const struct op *op;
    int mode, padding;
    bool align;
};

int gridsample_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *g = kernel_in(op, 1);
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    if (x->shape.rank != 4 || g->shape.rank != 4 || g->shape.dim[3] != 2 ||
        g->shape.dim[0] != x->shape.dim[0])
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "wants N x C x H x W and N x H x W x 2");
    if (nt_span(&x->shape, 2, 4) > INT32_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "the planes are too big");
    return kernel_infer(op, err);
}

static double reflect(double x, double lo, double hi)
{
    double span = hi - lo, d;

    if (span <= 0)
        return 0;
    d = fmod(fabs(x - lo), 2 * span);
    return d > span ? hi - (d - span) : lo + d;
}

static double place(const struct grid_job *j, double x, int64_t n)
{
    x = j->align ? (x + 1) / 2 * (double)(n - 1) : ((x + 1) * (double)n - 1) / 2;
    if (!(fabs(x) < 1e9))
        x = -1e9;
    return x;
}

/* Where a pixel is in its plane, outside handled as the padding says; -1: nowhere. */
static int32_t pixel(const struct grid_job *j, int64_t h, int64_t w, int64_t y, int64_t x)
{
    if (j->padding == GRID_ZEROS && (y < 0 || x < 0 || y >= h || x >= w))
        return -1;
    if (j->padding == GRID_REFLECTION && (y < 0 || x < 0 || y >= h || x >= w)) {
        double lo = j->align ? 0 : -0.5, off = j->align ? -1 : -0.5;

        y = (int64_t)reflect((double)y, lo, (double)h + off);
        x = (int64_t)reflect((double)x, lo, (double)w + off);
    }
    y = MIN(MAX(y, (int64_t)0), h - 1);
    x = MIN(MAX(x, (int64_t)0), w - 1);
    return (int32_t)(y * w + x);
}

static void cubic(double f, double *w)
{
    double a = -0.75;

    w[0] = ((a * (f + 1) - 5 * a) * (f + 1) + 8 * a) * (f + 1) - 4 * a;
    w[1] = ((a + 2) * f - (a + 3)) * f * f + 1;
    w[2] = ((a + 2) * (1 - f) - (a + 3)) * (1 - f) * (1 - f) + 1;
    w[3] = ((a * (2 - f) - 5 * a) * (2 - f) + 8 * a) * (2 - f) - 4 * a;
}

#define GRID_TAPS 16
#define GRID_BLOCK 256 /* positions whose taps are found at a time, for all channels */

struct grid_block {
    int32_t at[GRID_TAPS * GRID_BLOCK];
    float w[GRID_TAPS * GRID_BLOCK];
};

/* Position i of n in a block. */
static void grid_taps(const struct grid_job *j, struct grid_block *b, int64_t i, int64_t n,
                      int64_t h, int64_t w, double y, double x)
{
    int64_t y0 = (int64_t)floor(y), x0 = (int64_t)floor(x);
    double fy = y - (double)y0, fx = x - (double)x0, wy[4] = { 1 - fy, fy }, wx[4] = { 1 - fx, fx };
    int side = j->mode == GRID_CUBIC ? 4 : 2;

    if (j->mode == GRID_NEAREST) {
        b->at[i] = pixel(j, h, w, (int64_t)nearbyint(y), (int64_t)nearbyint(x));
        b->w[i] = 1;
        return;
    }
    if (side == 4) {
        cubic(fy, wy);
        cubic(fx, wx);
        y0--;
        x0--;
    }
    for (int p = 0; p < side; p++)
        for (int q = 0; q < side; q++) {
            b->at[(p * side + q) * n + i] = pixel(j, h, w, y0 + p, x0 + q);
            b->w[(p * side + q) * n + i] = (float)(wy[p] * wx[q]);
        }
}

/* Coordinates beyond the edge are moved; those of pixels around them later, by pixel(). */
static void grid_inside(const struct grid_job *j, int64_t h, int64_t w, double *y, double *x)
{
    double lo = j->align ? 0 : -0.5, off = j->align ? -1 : -0.5;

    if (j->mode == GRID_NEAREST) {
        *x = nearbyint(*x);
        *y = nearbyint(*y);
    }
    if (*x >= lo && *x <= (double)w + off && *y >= lo && *y <= (double)h + off)
        return;
    if (j->padding == GRID_BORDER) {
        *x = fmin(fmax(*x, 0), (double)(w - 1));
        *y = fmin(fmax(*y, 0), (double)(h - 1));
    } else if (j->padding == GRID_REFLECTION) {
        *x = reflect(*x, lo, (double)w + off);
        *y = reflect(*y, lo, (double)h + off);
    }
}

static void grid_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct grid_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0), *out = kernel_out(j->op, 0);
    int64_t c = in->shape.dim[1], h = in->shape.dim[2], w = in->shape.dim[3],
            cols = out->shape.dim[2] * out->shape.dim[3],
            blocks = (cols + GRID_BLOCK - 1) / GRID_BLOCK;
    int ntaps = j->mode == GRID_NEAREST ? 1 : j->mode == GRID_LINEAR ? 4 : 16;
    struct grid_block b;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / blocks, first = i % blocks * GRID_BLOCK,
                n = MIN(cols - first, (int64_t)GRID_BLOCK);
        const float *grid = (const float *)kernel_in(j->op, 1)->data + (image * cols + first) * 2;

        for (int64_t k = 0; k < n; k++) {
            double x = place(j, (double)grid[2 * k], w), y = place(j, (double)grid[2 * k + 1], h);

            grid_inside(j, h, w, &y, &x);
            grid_taps(j, &b, k, n, h, w, y, x);
        }
        for (int64_t ch = image * c; ch < (image + 1) * c; ch++)
            kernel_isa(j->op)->loops->taps((float *)out->data + ch * cols + first,
                                           (const float *)in->data + ch * h * w, b.at, b.w, n,
                                           ntaps);
    }
}

int gridsample_run(struct op *op, opm_error *err)
{
    const char *mode = node_attr_str(op->node, "mode", "bilinear"),
               *pad = node_attr_str(op->node, "padding_mode", "zeros");
    struct grid_job j = { .op = op };
    const struct nt *in = kernel_in(op, 0);

    (void)err;
    j.mode = strstr(mode, "cubic")          ? GRID_CUBIC
             : strcmp(mode, "nearest") == 0 ? GRID_NEAREST
                                            : GRID_LINEAR;
    j.padding = strcmp(pad, "border") == 0       ? GRID_BORDER
                : strcmp(pad, "reflection") == 0 ? GRID_REFLECTION
                                                 : GRID_ZEROS;
    j.align = node_attr_int(op->node, "align_corners", 0);
    if (in->count == 0) {
        memset(kernel_out(op, 0)->data, 0, kernel_out(op, 0)->bytes);
        return 0;
    }
    pool_for(
        kernel_pool(op),
        in->shape.dim[0] *
            ((kernel_out(op, 0)->shape.dim[2] * kernel_out(op, 0)->shape.dim[3] + GRID_BLOCK - 1) /
             GRID_BLOCK),
        1, grid_part, &j);
    return 0;
}

int roialign_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *rois = kernel_in(op, 1), *index = kernel_in(op, 2);
    int64_t h = node_attr_int(op->node, "output_height", 1),
            w = node_attr_int(op->node, "output_width", 1);
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_I64), err);
    if (rc)
        return rc;
    if (x->shape.rank != 4 || rois->shape.rank != 2 || rois->shape.dim[1] != 4 ||
        index->count != rois->shape.dim[0] || h < 1 || w < 1)
        return kernel_fail(op, OPM_EINVAL, err, "inputs do not fit");
    return kernel_infer(op, err);
}

static double bilinear(const float *p, int64_t h, int64_t w, double y, double x, bool max)
{
    int64_t y0, x0, y1, x1;
    double fy, fx, v[4];

    if (!(y >= -1 && x >= -1 && y <= (double)h && x <= (double)w))
        return 0;
    y = fmax(y, 0);
    x = fmax(x, 0);
    y0 = MIN((int64_t)y, h - 1);
    x0 = MIN((int64_t)x, w - 1);
    y1 = MIN(y0 + 1, h - 1);
    x1 = MIN(x0 + 1, w - 1);
    fy = y0 == h - 1 ? 0 : y - (double)y0;
    fx = x0 == w - 1 ? 0 : x - (double)x0;
    v[0] = (1 - fy) * (1 - fx) * (double)p[y0 * w + x0];
    v[1] = (1 - fy) * fx * (double)p[y0 * w + x1];
    v[2] = fy * (1 - fx) * (double)p[y1 * w + x0];
    v[3] = fy * fx * (double)p[y1 * w + x1];
    if (max)
        return fmax(fmax(v[0], v[1]), fmax(v[2], v[3]));
    return v[0] + v[1] + v[2] + v[3];
}

int roialign_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *out = kernel_out(op, 0);
    const float *roi = kernel_in(op, 1)->data;
    const int64_t *index = kernel_in(op, 2)->data, *d = out->shape.dim;
    int64_t h = x->shape.dim[2], w = x->shape.dim[3],
            ratio = node_attr_int(op->node, "sampling_ratio", 0);
    double scale = (double)node_attr_float(op->node, "spatial_scale", 1);
    bool max = node_attr_is(op->node, "mode", "max", "avg"),
         half = op->node->opset >= 16 && node_attr_is(op->node, "coordinate_transformation_mode",
                                                      "half_pixel", "half_pixel");
    float *to = out->data;

    for (int64_t r = 0; r < d[0]; r++) {
        double off = half ? 0.5 : 0, x0 = (double)roi[4 * r] * scale - off,
               y0 = (double)roi[4 * r + 1] * scale - off,
               rw = (double)roi[4 * r + 2] * scale - off - x0,
               rh = (double)roi[4 * r + 3] * scale - off - y0;
        int64_t gy, gx;

        if (index[r] < 0 || index[r] >= x->shape.dim[0])
            return kernel_fail(op, OPM_EINVAL, err, "batch index %lld", (long long)index[r]);
        if (!half) {
            rw = fmax(rw, 1);
            rh = fmax(rh, 1);
        }
        if (!(fabs(rw) < 1e6 && fabs(rh) < 1e6))
            return kernel_fail(op, OPM_EINVAL, err, "a region is too big");
        gy = ratio > 0 ? ratio : (int64_t)ceil(rh / (double)d[2]);
        gx = ratio > 0 ? ratio : (int64_t)ceil(rw / (double)d[3]);
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t i = 0; i < d[2] * d[3]; i++) {
                const float *p = (const float *)x->data + (index[r] * d[1] + c) * h * w;
                double acc = max ? -(double)INFINITY : 0, bh = rh / (double)d[2],
                       bw = rw / (double)d[3];

                for (int64_t a = 0; a < gy; a++)
                    for (int64_t b = 0; b < gx; b++) {
                        double v = bilinear(
                            p, h, w,
                            y0 + bh * ((double)(i / d[3]) + ((double)a + 0.5) / (double)gy),
                            x0 + bw * ((double)(i % d[3]) + ((double)b + 0.5) / (double)gx), max);

                        acc = max ? fmax(acc, v) : acc + v;
                    }
                *to++ = (float)(max ? (gx > 0 && gy > 0 ? acc : 0)
                                    : acc / (double)MAX(gx * gy, (int64_t)1));
            }
    }
    return 0;
}

int maxroipool_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *rois = kernel_in(op, 1);
    size_t n;
    const int64_t *p = node_attr_ints(op->node, "pooled_shape", &n);
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    if (x->shape.rank != 4 || rois->shape.rank != 2 || rois->shape.dim[1] != 5 || n != 2 ||
        p[0] < 1 || p[1] < 1)
        return kernel_fail(op, OPM_EINVAL, err, "inputs do not fit");
    return kernel_infer(op, err);
}

int maxroipool_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *out = kernel_out(op, 0);
    const int64_t *d = out->shape.dim;
    int64_t h = x->shape.dim[2], w = x->shape.dim[3];
    double scale = (double)node_attr_float(op->node, "spatial_scale", 1);
    float *to = out->data;

    for (int64_t r = 0; r < d[0]; r++) {
        const float *roi = (const float *)kernel_in(op, 1)->data + 5 * r;
        double v[4];

        for (int k = 0; k < 4; k++) {
            v[k] = round((double)roi[k + 1] * scale);
            if (!(fabs(v[k]) < 1e9))
                return kernel_fail(op, OPM_EINVAL, err, "a region is too big");
        }
        if (!(roi[0] >= 0 && roi[0] < (float)x->shape.dim[0]))
            return kernel_fail(op, OPM_EINVAL, err, "batch index %g", (double)roi[0]);
        for (int64_t c = 0; c < d[1]; c++)
            for (int64_t i = 0; i < d[2] * d[3]; i++) {
                const float *p = (const float *)x->data + ((int64_t)roi[0] * d[1] + c) * h * w;
                double bh = fmax(v[3] - v[1] + 1, 1) / (double)d[2],
                       bw = fmax(v[2] - v[0] + 1, 1) / (double)d[3];
                int64_t ya = (int64_t)(floor((double)(i / d[3]) * bh) + v[1]),
                        yb = (int64_t)(ceil((double)(i / d[3] + 1) * bh) + v[1]),
                        xa = (int64_t)(floor((double)(i % d[3]) * bw) + v[0]),
                        xb = (int64_t)(ceil((double)(i % d[3] + 1) * bw) + v[0]);
                float best = -INFINITY;

                for (int64_t y = MAX(ya, (int64_t)0); y < MIN(yb, h); y++)
                    for (int64_t q = MAX(xa, (int64_t)0); q < MIN(xb, w); q++)
                        best = MAX(best, p[y * w + q]);
                *to++ = best == -INFINITY ? 0 : best;
            }
    }
    return 0;
}
