/* sample.c -- GridSample, RoiAlign, MaxRoiPool: elements at coordinates that data gives. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

enum grid_mode { GRID_LINEAR, GRID_NEAREST, GRID_CUBIC };
enum grid_padding { GRID_ZEROS, GRID_BORDER, GRID_REFLECTION };

#define GRID_DIMS 3
#define GRID_SIDE 4    /* elements around a coordinate, at most */
#define GRID_ROOM 4096 /* taps that are found at a time, for all channels */

struct grid {
    enum grid_mode mode;
    enum grid_padding padding;
    bool align;
    int nd;
    int64_t dim[GRID_DIMS]; /* of a plane */
};

static int grid_modes(const struct op *op, struct grid *g, opm_error *err)
{
    static const char *const modes[] = { "linear", "nearest", "cubic", "bilinear", "", "bicubic" };
    static const char *const pads[] = { "zeros", "border", "reflection" };
    const char *mode = node_attr_str(op->node, "mode", "linear"),
               *pad = node_attr_str(op->node, "padding_mode", "zeros");
    int m = -1, p = -1;

    for (int i = 0; i < (int)ARRAY_SIZE(modes); i++)
        if (strcmp(mode, modes[i]) == 0)
            m = i % 3;
    for (int i = 0; i < (int)ARRAY_SIZE(pads); i++)
        if (strcmp(pad, pads[i]) == 0)
            p = i;
    if (m < 0 || p < 0 || mode[0] == '\0')
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for mode '%s' with padding '%s'",
                           mode, pad);
    g->mode = (enum grid_mode)m;
    g->padding = (enum grid_padding)p;
    g->align = node_attr_int(op->node, "align_corners", 0);
    return 0;
}

int gridsample_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *at = kernel_in(op, 1);
    struct grid *g = kernel_new_state(op, sizeof(*g));
    int rc = g ? kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc)
        rc = grid_modes(op, g, err);
    if (rc)
        return rc;
    g->nd = x->shape.rank - 2;
    if (g->nd < 1 || g->nd > GRID_DIMS || at->shape.rank != x->shape.rank ||
        at->shape.dim[g->nd + 1] != g->nd || at->shape.dim[0] != x->shape.dim[0])
        return kernel_fail(op, OPM_EUNSUPPORTED, err,
                           "wants N x C x up to three dimensions, and as many coordinates");
    if (nt_span(&x->shape, 2, g->nd + 2) > INT32_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "the planes are too big");
    memcpy(g->dim, x->shape.dim + 2, (size_t)g->nd * sizeof(*g->dim));
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

static double place(const struct grid *g, double x, int64_t n)
{
    x = g->align ? (x + 1) / 2 * (double)(n - 1) : ((x + 1) * (double)n - 1) / 2;
    if (!(fabs(x) < 1e9))
        x = -1e9;
    return x;
}

/* Element x of n, outside handled as the padding says; -1: nowhere. */
static int32_t pixel(const struct grid *g, int64_t n, int64_t x)
{
    if (x >= 0 && x < n)
        return (int32_t)x;
    if (g->padding == GRID_ZEROS)
        return -1;
    if (g->padding == GRID_REFLECTION)
        x = (int64_t)reflect((double)x, g->align ? 0 : -0.5, (double)n - (g->align ? 1 : 0.5));
    return (int32_t)MIN(MAX(x, (int64_t)0), n - 1);
}

static void cubic(double f, double *w)
{
    double a = -0.75;

    w[0] = ((a * (f + 1) - 5 * a) * (f + 1) + 8 * a) * (f + 1) - 4 * a;
    w[1] = ((a + 2) * f - (a + 3)) * f * f + 1;
    w[2] = ((a + 2) * (1 - f) - (a + 3)) * (1 - f) * (1 - f) + 1;
    w[3] = ((a * (2 - f) - 5 * a) * (2 - f) + 8 * a) * (2 - f) - 4 * a;
}

/* Elements of one dimension around a coordinate. */
struct around {
    int32_t at[GRID_SIDE];
    double w[GRID_SIDE];
};

/* Of two nearest elements the even one counts, as ONNX's cases and ONNX Runtime have it. */
static int grid_around(const struct grid *g, int d, double x, struct around *a)
{
    int64_t n = g->dim[d], first;
    double lo = g->align ? 0 : -0.5, hi = (double)n - (g->align ? 1 : 0.5), f;
    int side = g->mode == GRID_CUBIC ? 4 : 2;

    x = place(g, x, n);
    if (g->mode == GRID_NEAREST)
        x = nearbyint(x);
    if (!(x >= lo && x <= hi)) { /* elements around it may still be outside: pixel() */
        if (g->padding == GRID_BORDER)
            x = fmin(fmax(x, 0), (double)(n - 1));
        else if (g->padding == GRID_REFLECTION)
            x = reflect(x, lo, hi);
    }
    if (g->mode == GRID_NEAREST) {
        a->at[0] = pixel(g, n, (int64_t)nearbyint(x));
        a->w[0] = 1;
        return 1;
    }
    first = (int64_t)floor(x);
    f = x - (double)first;
    a->w[0] = 1 - f;
    a->w[1] = f;
    if (side == 4) {
        cubic(f, a->w);
        first--;
    }
    for (int k = 0; k < side; k++)
        a->at[k] = pixel(g, n, first + k);
    return side;
}

struct grid_job {
    const struct op *op;
    const struct grid *g;
    int64_t cols, per; /* positions, and of these at a time */
    int taps;
};

struct grid_block {
    int32_t at[GRID_ROOM];
    float w[GRID_ROOM];
};

/* Position i of n in a block; coordinates come in reverse order of the dimensions. */
static void grid_taps(const struct grid *g, struct grid_block *b, int64_t i, int64_t n,
                      const float *coord)
{
    struct around a[GRID_DIMS] = { { .at = { 0 }, .w = { 1 } }, { .at = { 0 }, .w = { 1 } } };
    int side = 1, first = GRID_DIMS - g->nd;
    int64_t h = g->nd > 1 ? g->dim[g->nd - 2] : 1, w = g->dim[g->nd - 1];
    int nz, ny;

    for (int d = 0; d < g->nd; d++)
        side = grid_around(g, d, (double)coord[g->nd - 1 - d], &a[first + d]);
    nz = g->nd > 2 ? side : 1;
    ny = g->nd > 1 ? side : 1;
    for (int z = 0; z < nz; z++)
        for (int y = 0; y < ny; y++)
            for (int x = 0; x < side; x++, i += n) {
                bool in = (a[0].at[z] | a[1].at[y] | a[2].at[x]) >= 0;

                b->at[i] = in ? (int32_t)((a[0].at[z] * h + a[1].at[y]) * w + a[2].at[x]) : -1;
                b->w[i] = (float)(a[0].w[z] * a[1].w[y] * a[2].w[x]);
            }
}

/* The two elements beside a coordinate and the share of the second, as grid_around() has them. */
static inline double grid_beside(const struct grid *g, int d, float coord, int32_t at[2])
{
    int64_t n = g->dim[d], first;
    double lo = g->align ? 0 : -0.5, hi = (double)n - (g->align ? 1 : 0.5),
           x = place(g, (double)coord, n);

    if (!(x >= lo && x <= hi)) {
        if (g->padding == GRID_BORDER)
            x = fmin(fmax(x, 0), (double)(n - 1));
        else if (g->padding == GRID_REFLECTION)
            x = reflect(x, lo, hi);
    }
    first = (int64_t)x;
    first -= (double)first > x;
    if (first >= 0 && first + 1 < n) {
        at[0] = (int32_t)first;
        at[1] = (int32_t)first + 1;
    } else {
        at[0] = pixel(g, n, first);
        at[1] = pixel(g, n, first + 1);
    }
    return x - (double)first;
}

/* All n positions of a block, in planes and by the four elements around each: the usual case. */
static void grid_four(const struct grid *g, struct grid_block *b, int64_t n, const float *coord)
{
    int32_t w = (int32_t)g->dim[1];

    for (int64_t i = 0; i < n; i++) {
        int32_t y[2], x[2];
        double fy = grid_beside(g, 0, coord[2 * i + 1], y), fx = grid_beside(g, 1, coord[2 * i], x);

        for (int k = 0; k < 4; k++) {
            int32_t row = y[k / 2], column = x[k % 2];

            b->at[k * n + i] = (row | column) < 0 ? -1 : row * w + column;
        }
        b->w[i] = (float)((1 - fy) * (1 - fx));
        b->w[n + i] = (float)((1 - fy) * fx);
        b->w[2 * n + i] = (float)(fy * (1 - fx));
        b->w[3 * n + i] = (float)(fy * fx);
    }
}

static void grid_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct grid_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0), *out = kernel_out(j->op, 0);
    int64_t c = in->shape.dim[1], plane = nt_span(&in->shape, 2, in->shape.rank),
            blocks = (j->cols + j->per - 1) / j->per;
    struct grid_block b;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / blocks, first = i % blocks * j->per, n = MIN(j->cols - first, j->per);
        const float *coord =
            (const float *)kernel_in(j->op, 1)->data + (image * j->cols + first) * j->g->nd;

        if (j->g->nd == 2 && j->g->mode == GRID_LINEAR)
            grid_four(j->g, &b, n, coord);
        for (int64_t k = 0; k < n && (j->g->nd != 2 || j->g->mode != GRID_LINEAR); k++)
            grid_taps(j->g, &b, k, n, coord + k * j->g->nd);
        for (int64_t ch = image * c; ch < (image + 1) * c; ch++)
            kernel_isa(j->op)->loops->taps((float *)out->data + ch * j->cols + first,
                                           (const float *)in->data + ch * plane, b.at, b.w, n,
                                           j->taps);
    }
}

int gridsample_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0);
    struct grid_job j = { .op = op, .g = op->state, .taps = 1 };

    (void)err;
    if (in->count == 0 || out->count == 0) {
        memset(out->data, 0, out->bytes);
        return 0;
    }
    for (int d = 0; d < j.g->nd && j.g->mode != GRID_NEAREST; d++)
        j.taps *= j.g->mode == GRID_CUBIC ? 4 : 2;
    j.cols = nt_span(&out->shape, 2, out->shape.rank);
    j.per = MIN(GRID_ROOM / j.taps, 256);
    pool_for(kernel_pool(op), in->shape.dim[0] * ((j.cols + j.per - 1) / j.per), 1, grid_part, &j);
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
    if (nt_span(&x->shape, 2, 4) > INT32_MAX ||
        node_attr_int(op->node, "sampling_ratio", 0) > 1 << 15)
        return kernel_fail(op, OPM_ELIMIT, err, "the planes or the samples of a bin are too many");
    return kernel_infer(op, err);
}

/* The four elements around (y, x) of a plane, and what each counts; element i of n in a block. */
static void roi_taps(struct grid_block *t, int64_t i, int64_t n, int64_t h, int64_t w, double y,
                     double x, double share)
{
    int64_t y0, x0, y1, x1;
    double fy, fx;

    if (!(y >= -1 && x >= -1 && y <= (double)h && x <= (double)w)) {
        for (int k = 0; k < 4; k++, i += n) {
            t->at[i] = -1;
            t->w[i] = 0;
        }
        return;
    }
    y = fmax(y, 0);
    x = fmax(x, 0);
    y0 = MIN((int64_t)y, h - 1);
    x0 = MIN((int64_t)x, w - 1);
    y1 = MIN(y0 + 1, h - 1);
    x1 = MIN(x0 + 1, w - 1);
    fy = y0 == h - 1 ? 0 : y - (double)y0;
    fx = x0 == w - 1 ? 0 : x - (double)x0;
    for (int k = 0; k < 4; k++, i += n) {
        t->at[i] = (int32_t)((k / 2 ? y1 : y0) * w + (k % 2 ? x1 : x0));
        t->w[i] = (float)((k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx) * share);
    }
}

/* A region: where it begins, how big a bin is, samples of a bin. */
struct roi {
    double y0, x0, bh, bw;
    int64_t gy, gx;
};

struct roi_job {
    const struct op *op;
    bool max, half;
    double scale;
    int64_t ratio, h, w;
};

static bool roi_of(const struct roi_job *j, int64_t r, struct roi *out)
{
    const int64_t *d = kernel_out(j->op, 0)->shape.dim;
    const float *roi = (const float *)kernel_in(j->op, 1)->data + 4 * r;
    double off = j->half ? 0.5 : 0, x0 = (double)roi[0] * j->scale - off,
           y0 = (double)roi[1] * j->scale - off, rw = (double)roi[2] * j->scale - off - x0,
           rh = (double)roi[3] * j->scale - off - y0;

    if (!j->half) {
        rw = fmax(rw, 1);
        rh = fmax(rh, 1);
    }
    *out = (struct roi){ y0, x0, rh / (double)d[2], rw / (double)d[3], 0, 0 };
    if (!(fabs(rw) < 1e6 && fabs(rh) < 1e6))
        return false;
    out->gy = MAX(j->ratio > 0 ? j->ratio : (int64_t)ceil(out->bh), (int64_t)0);
    out->gx = MAX(j->ratio > 0 ? j->ratio : (int64_t)ceil(out->bw), (int64_t)0);
    return true;
}

/* Samples [s0, s1) of bins [first, first + n). */
static void roi_block(const struct roi_job *j, const struct roi *r, struct grid_block *t,
                      int64_t first, int64_t n, int64_t s0, int64_t s1)
{
    int64_t cols = kernel_out(j->op, 0)->shape.dim[3];
    double share = j->max ? 1 : 1 / (double)(r->gy * r->gx);

    for (int64_t s = s0; s < s1; s++)
        for (int64_t i = 0; i < n; i++) {
            double y = (double)((first + i) / cols) + ((double)(s / r->gx) + 0.5) / (double)r->gy,
                   x = (double)((first + i) % cols) + ((double)(s % r->gx) + 0.5) / (double)r->gx;

            roi_taps(t, (s - s0) * 4 * n + i, n, j->h, j->w, r->y0 + r->bh * y, r->x0 + r->bw * x,
                     share);
        }
}

/* The greatest of what elements count, 0 where there is none. */
static void roi_most(float *out, const float *plane, const struct grid_block *t, int64_t n,
                     int64_t taps)
{
    for (int64_t k = 0; k < taps; k++)
        for (int64_t i = 0; i < n; i++) {
            float v = t->at[k * n + i] < 0 ? 0 : t->w[k * n + i] * plane[t->at[k * n + i]];

            out[i] = k == 0 ? v : fmaxf(out[i], v);
        }
}

#define ROI_BINS 64 /* at a time */

static void roi_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct roi_job *j = arg;
    const struct nt *x = kernel_in(j->op, 0), *out = kernel_out(j->op, 0);
    const struct isa *isa = kernel_isa(j->op);
    const int64_t *index = kernel_in(j->op, 2)->data, *d = out->shape.dim;
    int64_t bins = d[2] * d[3];

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *to = (float *)out->data + r * d[1] * bins;
        struct roi roi;
        int64_t samples;

        roi_of(j, r, &roi);
        samples = roi.gy * roi.gx;
        if (samples == 0)
            memset(to, 0, (size_t)(d[1] * bins) * sizeof(*to));
        for (int64_t first = 0; first < bins; first += ROI_BINS) {
            int64_t n = MIN(bins - first, (int64_t)ROI_BINS), at_once = GRID_ROOM / 4 / n;

            for (int64_t s = 0; s < samples; s += at_once) {
                int64_t few = MIN(samples - s, at_once);
                struct grid_block t;

                roi_block(j, &roi, &t, first, n, s, s + few);
                for (int64_t c = 0; c < d[1]; c++) {
                    const float *plane =
                        (const float *)x->data + (index[r] * d[1] + c) * j->h * j->w;
                    float *bin = to + c * bins + first, more[ROI_BINS];

                    if (j->max)
                        roi_most(s ? more : bin, plane, &t, n, 4 * few);
                    else
                        isa->loops->taps(s ? more : bin, plane, t.at, t.w, n, (int)(4 * few));
                    if (s)
                        isa->binary(j->max ? B_MAX : B_ADD, bin, bin, 1, more, 1, n);
                }
            }
        }
    }
}

int roialign_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *out = kernel_out(op, 0);
    const int64_t *index = kernel_in(op, 2)->data, *d = out->shape.dim;
    struct roi_job j = { .op = op,
                         .max = node_attr_is(op->node, "mode", "max", "avg"),
                         .half = op->node->opset >= 16 &&
                                 node_attr_is(op->node, "coordinate_transformation_mode",
                                              "half_pixel", "half_pixel"),
                         .scale = (double)node_attr_float(op->node, "spatial_scale", 1),
                         .ratio = node_attr_int(op->node, "sampling_ratio", 0),
                         .h = x->shape.dim[2],
                         .w = x->shape.dim[3] };

    for (int64_t r = 0; r < d[0]; r++) {
        struct roi roi;

        if (index[r] < 0 || index[r] >= x->shape.dim[0])
            return kernel_fail(op, OPM_EINVAL, err, "batch index %lld", (long long)index[r]);
        if (!roi_of(&j, r, &roi))
            return kernel_fail(op, OPM_EINVAL, err, "a region is too big");
    }
    if (x->count == 0 && out->count)
        memset(out->data, 0, out->bytes);
    else if (out->count)
        pool_for(kernel_pool(op), d[0], 1, roi_part, &j);
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
    int64_t h = x->shape.dim[2], w = x->shape.dim[3], bins = d[2] * d[3];
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
        for (int64_t i = 0; i < bins; i++) {
            int64_t rows = (int64_t)fmax(v[3] - v[1] + 1, 1),
                    cols = (int64_t)fmax(v[2] - v[0] + 1, 1), y0 = i / d[3], x0 = i % d[3];
            /* Whole numbers: a bin that ends with the region never takes one pixel more. */
            int64_t ya = MAX((int64_t)v[1] + y0 * rows / d[2], (int64_t)0),
                    yb = MIN((int64_t)v[1] + ((y0 + 1) * rows + d[2] - 1) / d[2], h),
                    xa = MAX((int64_t)v[0] + x0 * cols / d[3], (int64_t)0),
                    xb = MIN((int64_t)v[0] + ((x0 + 1) * cols + d[3] - 1) / d[3], w);

            for (int64_t c = 0; c < d[1]; c++) {
                const float *p = (const float *)x->data + ((int64_t)roi[0] * d[1] + c) * h * w;
                float best = -INFINITY;

                for (int64_t y = ya; y < yb; y++)
                    for (int64_t q = xa; q < xb; q++)
                        best = MAX(best, p[y * w + q]);
                to[(r * d[1] + c) * bins + i] = best == -INFINITY ? 0 : best;
            }
        }
    }
    return 0;
}
