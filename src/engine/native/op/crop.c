/* crop.c -- parts of images: Crop and ImageScaler, which ONNX once had, com.microsoft's
 * CropAndResize, and its NhwcMaxPool. */
#include "engine/native/isa/nhwc_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/math/window.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define GRAIN 16384

int crop_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES & ~TYPE_BIT(TENSOR_STRING), err);

    return rc ? rc : kernel_infer(op, err);
}

int crop_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    size_t n, width = nt_width(in->type);
    const int64_t *border = node_attr_ints(op->node, "border", &n);
    int64_t planes = nt_span(&in->shape, 0, 2), h = out->shape.dim[2], w = out->shape.dim[3];

    (void)err;
    for (int64_t p = 0; p < planes; p++)
        for (int64_t y = 0; y < h; y++) {
            int64_t from = (p * in->shape.dim[2] + border[1] + y) * in->shape.dim[3] + border[0];

            memcpy((char *)out->data + (size_t)((p * h + y) * w) * width,
                   (const char *)in->data + (size_t)from * width, (size_t)w * width);
        }
    return 0;
}

int imagescaler_prepare(struct op *op, opm_error *err)
{
    size_t n;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (rc)
        return rc;
    node_attr_floats(op->node, "bias", &n);
    if (kernel_in(op, 0)->shape.rank < 2 || (n && (int64_t)n != kernel_in(op, 0)->shape.dim[1]))
        return kernel_fail(op, OPM_EINVAL, err, "wants a number of the bias for each channel");
    return kernel_infer(op, err);
}

static void scaler_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *in = kernel_in(op, 0);
    int64_t size = nt_span(&in->shape, 2, in->shape.rank);
    size_t n;
    const float *bias = node_attr_floats(op->node, "bias", &n);
    float scale = node_attr_float(op->node, "scale", 1);

    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        const float *x = (const float *)in->data + p * size;
        float *y = (float *)kernel_out(op, 0)->data + p * size;
        float add = n ? bias[p % in->shape.dim[1]] : 0;

        for (int64_t i = 0; i < size; i++)
            y[i] = x[i] * scale + add;
    }
}

int imagescaler_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);

    (void)err;
    pool_for(kernel_pool(op), nt_span(&in->shape, 0, 2),
             MAX(GRAIN / MAX(nt_span(&in->shape, 2, in->shape.rank), (int64_t)1), (int64_t)1),
             scaler_part, op);
    return 0;
}

/* CropAndResize: X, boxes (y, x, y, x from 0 to 1), the image of each, height and width. */
int cropresize_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *box, *image;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    for (uint32_t i = 1; i < 4 && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(i == 1 ? TENSOR_F32 : TENSOR_I32), err);
    if (rc)
        return rc;
    box = kernel_in(op, 1);
    image = kernel_in(op, 2);
    if (x->shape.rank != 4 || box->shape.rank != 2 || box->shape.dim[1] != 4 ||
        image->shape.rank != 1 || image->count != box->shape.dim[0] || !x->shape.dim[2] ||
        !x->shape.dim[3])
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (!node_attr_is(op->node, "mode", "bilinear", "bilinear") &&
        !node_attr_is(op->node, "mode", "nearest", "bilinear"))
        return kernel_fail(op, OPM_EINVAL, err, "no such mode");
    return kernel_infer(op, err);
}

/* Where row or column i of n lies among `size`, from `from` to `to` of it. */
static float place_of(int64_t i, int64_t n, float from, float to, int64_t size)
{
    float last = (float)(size - 1);

    if (n == 1)
        return .5f * (from + to) * last;
    return from * last + (float)i * ((to - from) * last / (float)(n - 1));
}

#define COLUMNS 64 /* at a time */

/* Columns of a crop: those of the image on either side, and how far from the first. */
struct columns {
    int64_t n;
    int32_t left[COLUMNS], right[COLUMNS];
    float far[COLUMNS];
    bool inside[COLUMNS];
};

static void place_columns(struct columns *c, int64_t first, int64_t n, int64_t of, const float *box,
                          int64_t width, bool nearest)
{
    c->n = n;
    for (int64_t i = 0; i < n; i++) {
        float x = place_of(first + i, of, box[1], box[3], width);

        c->inside[i] = x >= 0 && x <= (float)(width - 1);
        x = c->inside[i] ? x : 0;
        c->left[i] = (int32_t)(nearest ? roundf(x) : floorf(x));
        c->right[i] = (int32_t)MIN((int64_t)c->left[i] + 1, width - 1);
        c->far[i] = x - (float)c->left[i];
    }
}

static void mix_columns(float *out, const struct columns *c, const float *top, const float *low,
                        float dy, float beyond)
{
    for (int64_t i = 0; i < c->n; i++) {
        float a = top[c->left[i]] + (top[c->right[i]] - top[c->left[i]]) * c->far[i];
        float b = low[c->left[i]] + (low[c->right[i]] - low[c->left[i]]) * c->far[i];

        out[i] = c->inside[i] ? a + (b - a) * dy : beyond;
    }
}

static void cropresize_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *x = kernel_in(op, 0);
    const struct nt *out = kernel_out(op, 0);
    int64_t channels = x->shape.dim[1], height = x->shape.dim[2], width = x->shape.dim[3];
    int64_t h = out->shape.dim[2], w = out->shape.dim[3];
    float beyond = node_attr_float(op->node, "extrapolation_value", 0);
    bool nearest = node_attr_is(op->node, "mode", "nearest", "bilinear");

    (void)thread;
    for (int64_t row = begin; row < end; row++) { /* of a box, its rows for all channels */
        int64_t roi = row / h;
        const float *box = (const float *)kernel_in(op, 1)->data + 4 * roi;
        int64_t image = ((const int32_t *)kernel_in(op, 2)->data)[roi];
        const float *in = (const float *)x->data + image * channels * height * width;
        float *to = (float *)out->data + (roi * channels * h + row % h) * w;
        float y = place_of(row % h, h, box[0], box[2], height);
        bool inside = y >= 0 && y <= (float)(height - 1);
        int64_t top = !inside ? 0 : (int64_t)(nearest ? roundf(y) : floorf(y));
        int64_t low = MIN(top + 1, height - 1);
        struct columns c;

        for (int64_t first = 0; first < w; first += COLUMNS) {
            place_columns(&c, first, MIN(w - first, (int64_t)COLUMNS), w, box, width, nearest);
            for (int64_t k = 0; k < channels; k++) {
                const float *plane = in + k * height * width;
                float *part = to + k * h * w + first;

                if (inside && !nearest)
                    mix_columns(part, &c, plane + top * width, plane + low * width, y - (float)top,
                                beyond);
                else
                    for (int64_t i = 0; i < c.n; i++)
                        part[i] = inside && c.inside[i] ? plane[top * width + c.left[i]] : beyond;
            }
        }
    }
}

int cropresize_run(struct op *op, opm_error *err)
{
    const struct nt *image = kernel_in(op, 2);
    const struct shape *s = &kernel_out(op, 0)->shape;

    for (int64_t i = 0; i < image->count; i++)
        if (nt_int(image, i) < 0 || nt_int(image, i) >= kernel_in(op, 0)->shape.dim[0])
            return kernel_fail(op, OPM_EINVAL, err, "box %lld is of no image", (long long)i);
    pool_for(kernel_pool(op), s->dim[0] * s->dim[2],
             MAX(GRAIN / 8 / MAX(s->dim[1] * s->dim[3], (int64_t)1), (int64_t)1), cropresize_part,
             op);
    return 0;
}

/* N x C x ... of N x ... x C. */
static struct shape channels_second(struct shape s)
{
    int64_t channels = s.dim[s.rank - 1];

    for (int i = s.rank - 1; i > 1; i--)
        s.dim[i] = s.dim[i - 1];
    s.dim[1] = channels;
    return s;
}

int nhwcpool_prepare(struct op *op, opm_error *err)
{
    struct window *w = kernel_new_state(op, sizeof(*w));
    struct shape s, out;
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (!w)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    if (kernel_in(op, 0)->shape.rank < 3)
        return kernel_fail(op, OPM_EINVAL, err, "input has %d dimensions",
                           kernel_in(op, 0)->shape.rank);
    s = channels_second(kernel_in(op, 0)->shape);
    rc = window_pool(w, op, &s, &out, err);
    return rc ? rc : kernel_infer(op, err);
}

static void larger(uint8_t *to, const uint8_t *from, int64_t n, bool is_signed)
{
    if (is_signed)
        for (int64_t i = 0; i < n; i++)
            to[i] = (uint8_t)MAX((int8_t)to[i], (int8_t)from[i]);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = MAX(to[i], from[i]);
}

static int64_t quotient(int64_t n, int64_t by)
{
    return by == 1 ? n : n / by;
}

/* Of unsigned bytes, whole units of channels: first and last tap inside, by dimension. */
static bool by_rows(const struct op *op, const struct window *w, const int64_t at[3],
                    const uint8_t *x, uint8_t *y, int64_t channels)
{
    int64_t from[3], n[3];

    for (int d = 0; d < 3; d++) {
        int64_t first = at[d] * w->stride[d] - w->before[d], dl = w->dilation[d];
        int64_t k0 = first < 0 ? quotient(dl - 1 - first, dl) : 0;
        int64_t k1 =
            MIN(w->kernel[d], first < w->in[d] ? quotient(w->in[d] - 1 - first, dl) + 1 : 0);

        from[d] = first + k0 * dl;
        n[d] = k1 - k0;
    }
    if (n[0] != 1 || n[1] < 1 || n[2] < 1)
        return false;
    kernel_isa(op)->nhwc->largest(
        y, x + ((from[0] * w->in[1] + from[1]) * w->in[2] + from[2]) * channels, channels, n[1],
        w->dilation[1] * w->in[2] * channels, n[2], w->dilation[2] * channels);
    return true;
}

static void by_taps(const struct window *w, const int64_t at[3], const uint8_t *x, uint8_t *y,
                    int64_t channels, bool is_signed)
{
    memset(y, is_signed ? 0x80 : 0, (size_t)channels);
    for (int64_t tap = 0; tap < window_kernel(w); tap++) {
        int64_t k[3] = { tap / (w->kernel[1] * w->kernel[2]), tap / w->kernel[2] % w->kernel[1],
                         tap % w->kernel[2] };
        int64_t from = 0;
        bool inside = true;

        for (int d = 0; d < 3; d++) {
            int64_t i = at[d] * w->stride[d] - w->before[d] + k[d] * w->dilation[d];

            inside = inside && i >= 0 && i < w->in[d];
            from = from * w->in[d] + i;
        }
        if (inside)
            larger(y, x + from * channels, channels, is_signed);
    }
}

static void nhwcpool_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct window *w = op->state;
    const struct nt *in = kernel_in(op, 0);
    int64_t channels = in->shape.dim[in->shape.rank - 1], places = window_out(w);
    int64_t image = begin / places, rest = begin % places;
    int64_t at[3] = { rest / (w->out[1] * w->out[2]), rest / w->out[2] % w->out[1],
                      rest % w->out[2] };
    bool rows = in->type == TENSOR_U8 && channels % NHWC_UNIT == 0;

    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        const uint8_t *x = (const uint8_t *)in->data + image * window_in(w) * channels;
        uint8_t *y = (uint8_t *)kernel_out(op, 0)->data + p * channels;

        if (!rows || !by_rows(op, w, at, x, y, channels))
            by_taps(w, at, x, y, channels, in->type == TENSOR_I8);
        for (int d = 2; d >= 0 && ++at[d] == w->out[d]; d--) {
            at[d] = 0;
            image += d == 0;
        }
    }
}

int nhwcpool_run(struct op *op, opm_error *err)
{
    const struct window *w = op->state;
    const struct nt *in = kernel_in(op, 0);
    int64_t channels = MAX(in->shape.dim[in->shape.rank - 1], (int64_t)1);

    (void)err;
    pool_for(kernel_pool(op), in->shape.dim[0] * window_out(w),
             MAX(GRAIN / (channels * window_kernel(w)), (int64_t)1), nhwcpool_part, op);
    return 0;
}
