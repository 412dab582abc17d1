/* qconv.c -- ConvInteger and QLinearConv.
 *
 * The input is brought, once per image, into planes of four channels together, padded with the zero
 * point: one plane for each phase of the stride. There the values that one tap of the window meets
 * for consecutive output positions lie one after the other, so that convolution is a product whose
 * vectors are read at a shifted place for each tap. Positions run over the planes' width: what they
 * give beyond the output's width is dropped. Depthwise convolutions have a loop of their own. */
#include "engine/native/math/q8.h"
#include "engine/native/op/conv.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define NONE 31
#define MR_MAX 8
#define NR_MAX 64
#define DEPTHWISE_ROWS 16
#define DEPTHWISE_STEP 4
#define SUMS 1024

static const struct slots {
    uint32_t x, x_scale, x_zero, w, w_scale, w_zero, y_scale, y_zero, bias;
} slots[] = {
    [QCONV_INTEGER] = { 0, NONE, 2, 1, NONE, 3, NONE, NONE, NONE },
    [QCONV_LINEAR] = { 0, 1, 2, 3, 4, 5, 6, 7, 8 },
    [QCONV_SCALED] = { 0, 4, 2, 1, NONE, 3, NONE, NONE, NONE },
};

struct qconv {
    struct conv c;
    const struct slots *at;
    enum q8_kind kind;
    bool depthwise;
    int64_t m;                     /* output channels of a group */
    int64_t taps, quads, groups4;  /* quads of channels in a group; quads * taps */
    int64_t plane_h, plane_w;      /* in positions */
    int64_t plane;                 /* bytes of one, room to read beyond included */
    int64_t sums;                  /* depthwise: of whole rows, that are kept at a time */
    int64_t phases;                /* planes of a quad */
    int64_t tiles, tile_bytes;     /* of packed weights, in a group */
    uint8_t *weights;              /* packed, all groups */
    uint8_t *ones;                 /* a row of weights 1 */
    int32_t *off, *w_sum, *w_zero; /* of groups4, oc and oc numbers */
    bool w_zeros;                  /* some w_zero is not 0 */
    bool bordered;                 /* planes have more than the image */
    bool panels;                   /* one tap: the planes' parts that go together lie together */
    void *memory;
    size_t at_add, at_scale, at_shift, at_planes;
};

static void qconv_release(void *state)
{
    native_free(((struct qconv *)state)->memory);
}

static int check_inputs(const struct op *op, const struct slots *at, opm_error *err)
{
    const struct nt *x = kernel_in(op, at->x), *w, *xz = kernel_in(op, at->x_zero),
                    *wz = kernel_in(op, at->w_zero), *bias = kernel_in(op, at->bias), *ws, *xs;
    int64_t oc;
    int rc = kernel_want(op, at->x, TYPES_Q8, err);

    if (!rc)
        rc = kernel_want(op, at->w, TYPES_Q8, err);
    if (!rc && at->x_scale != NONE)
        rc = kernel_want(op, at->x_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && at->w_scale != NONE)
        rc = kernel_want(op, at->w_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && at->y_scale != NONE)
        rc = kernel_want(op, at->y_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kernel_in(op, at->y_zero))
        rc = kernel_want(op, at->y_zero, TYPES_Q8, err);
    if (rc)
        return rc;
    w = kernel_in(op, at->w);
    ws = kernel_in(op, at->w_scale);
    xs = kernel_in(op, at->x_scale);
    oc = w->shape.rank ? w->shape.dim[0] : 0;
    if ((xz && (xz->count != 1 || xz->type != x->type)) ||
        (wz && ((wz->count != 1 && wz->count != oc) || wz->type != w->type)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "zero point does not fit");
    if ((ws && ws->count != 1 && ws->count != oc) ||
        (xs && xs->count != 1 && !(op->kernel->arg == QCONV_SCALED && xs->count == oc)) ||
        (at->y_scale != NONE &&
         (kernel_in(op, at->y_scale)->count != 1 ||
          (kernel_in(op, at->y_zero) && kernel_in(op, at->y_zero)->count != 1))))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "scale does not fit");
    /* Where fused, the bias may be of floats, which what is scaled is shifted by. */
    if (bias && ((bias->type != TENSOR_I32 && !(op->type && bias->type == TENSOR_F32)) ||
                 bias->count != oc))
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit");
    return 0;
}

/* Where tap (ky, kx) finds its values: the phase, and the shift in positions. */
static int64_t tap_shift(const struct qconv *s, int64_t ky, int64_t kx, int64_t *phase)
{
    const struct window *w = &s->c.w;
    int64_t y = ky * w->dilation[1], x = kx * w->dilation[2];

    *phase = y % w->stride[1] * w->stride[2] + x % w->stride[2];
    return y / w->stride[1] * s->plane_w + x / w->stride[2];
}

static int geometry(struct op *op, struct qconv *s, opm_error *err)
{
    const struct window *w = &s->c.w;
    int64_t positions, all;

    s->m = s->c.oc / s->c.groups;
    s->taps = w->kernel[1] * w->kernel[2];
    s->quads = q8_groups(s->c.icg);
    s->depthwise = s->c.icg == 1 && w->dilation[1] == 1 && w->dilation[2] == 1 &&
                   w->kernel[1] <= DEPTHWISE_ROWS && w->stride[2] <= DEPTHWISE_STEP;
    s->groups4 = s->depthwise ? w->kernel[1] * q8_groups(w->kernel[2]) : s->quads * s->taps;
    s->plane_h = w->out[1] + (w->kernel[1] - 1) * w->dilation[1] / w->stride[1];
    s->plane_w = w->out[2] + (w->kernel[2] - 1) * w->dilation[2] / w->stride[2];
    s->phases = w->stride[1] * w->stride[2];
    s->bordered = s->phases > 1 || s->plane_h != w->in[1] || s->plane_w != w->in[2] ||
                  w->before[1] || w->before[2];
    if (s->depthwise) {
        s->plane_h = (w->out[1] - 1) * w->stride[1] + w->kernel[1];
        s->plane_w = (w->out[2] - 1) * w->stride[2] + w->kernel[2];
        s->phases = 1;
        s->sums = MAX((w->out[2] + 15) / 16 * 16, (int64_t)SUMS);
    }
    s->panels = !s->depthwise && !s->bordered && s->taps == 1;
    s->tiles = (s->m + kernel_q8(op)->mr - 1) / kernel_q8(op)->mr;
    s->tile_bytes = s->groups4 * kernel_q8(op)->mr * 4;
    if (__builtin_mul_overflow(s->plane_h, s->plane_w, &positions) || positions > INT32_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the image is too big");
    s->plane = (positions * (s->depthwise ? 1 : 4) + Q8_BEYOND + NR_MAX * 4 + NATIVE_ALIGN) /
               NATIVE_ALIGN * NATIVE_ALIGN;
    if (__builtin_mul_overflow(s->plane * s->phases, s->quads, &all) || all > INT32_MAX ||
        __builtin_mul_overflow(all, s->c.groups, &all) || all > PTRDIFF_MAX / 8 ||
        s->groups4 > INT32_MAX / 32)
        return kernel_fail(op, OPM_ELIMIT, err, "the image is too big");
    return 0;
}

static uint8_t weight_at(const struct nt *w, const struct qconv *s, int64_t oc, int64_t ch,
                         int64_t tap)
{
    return ((const uint8_t *)w->data)[(oc * s->c.icg + ch) * s->taps + tap] ^
           (w->type == TENSOR_U8 ? 0x80 : 0);
}

/* Group k of four bytes of one output channel. */
static void four_weights(const struct nt *w, const struct qconv *s, int64_t oc, int64_t k,
                         uint8_t *out, uint8_t *ones)
{
    for (int64_t t = 0; t < 4; t++) {
        int64_t ch, tap;
        bool real;

        if (s->depthwise) { /* by rows of the window */
            int64_t per = q8_groups(s->c.w.kernel[2]), x = k % per * 4 + t;

            ch = 0;
            tap = k / per * s->c.w.kernel[2] + x;
            real = x < s->c.w.kernel[2];
        } else {
            ch = k / s->taps * 4 + t;
            tap = k % s->taps;
            real = ch < s->c.icg;
        }
        out[t] = real ? weight_at(w, s, oc, ch, tap) : 0;
        ones[t] = real;
    }
}

static void pack_weights(const struct op *op, struct qconv *s)
{
    const struct nt *w = kernel_in(op, s->at->w);
    int64_t mr = kernel_q8(op)->mr;

    for (int64_t oc = 0; oc < s->c.oc; oc++) {
        int64_t g = oc / s->m, row = oc % s->m;
        uint8_t *tile = s->weights + (g * s->tiles + row / mr) * s->tile_bytes + row % mr * 4;
        uint32_t sum = 0;

        for (int64_t k = 0; k < s->groups4; k++) {
            uint8_t *to = s->depthwise ? s->weights + (oc * s->groups4 + k) * 4 : tile + k * mr * 4;

            four_weights(w, s, oc, k, to, s->ones + k * 4);
            for (int t = 0; t < 4; t++)
                sum += (uint32_t)(int8_t)to[t];
        }
        s->w_sum[oc] = (int32_t)sum;
    }
    for (int64_t k = 0; k < s->groups4 && !s->depthwise; k++) {
        int64_t tap = k % s->taps, phase,
                shift = tap_shift(s, tap / s->c.w.kernel[2], tap % s->c.w.kernel[2], &phase);

        s->off[k] = (int32_t)(s->panels ? k * kernel_q8(op)->nr * 4
                                        : (k / s->taps * s->phases + phase) * s->plane + shift * 4);
    }
}

static int64_t take(int64_t *total, int64_t n, int64_t width)
{
    int64_t at = *total, bytes;

    if (*total < 0 || __builtin_mul_overflow(n, width, &bytes) || bytes > PTRDIFF_MAX / 8)
        *total = -1;
    else
        *total += (bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
    return at;
}

/* Memory for what pack_weights() fills. */
static int weight_memory(struct op *op, struct qconv *s, opm_error *err)
{
    int64_t total = 0, oc = s->c.oc, packed, ones, off, sum, zero;

    packed = s->depthwise ? take(&total, oc * s->groups4, 4)
                          : take(&total, s->c.groups * s->tiles, s->tile_bytes);
    ones = take(&total, s->groups4, 4);
    off = take(&total, s->groups4, 4);
    sum = take(&total, oc, 4);
    zero = take(&total, oc, 4);
    if (total < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    native_free(s->memory);
    s->memory = native_alloc((size_t)MAX(total, (int64_t)1));
    if (!s->memory)
        return kernel_nomem(op, err);
    memset(s->memory, 0, (size_t)total);
    s->weights = (uint8_t *)s->memory + packed;
    s->ones = (uint8_t *)s->memory + ones;
    s->off = (int32_t *)((char *)s->memory + off);
    s->w_sum = (int32_t *)((char *)s->memory + sum);
    s->w_zero = (int32_t *)((char *)s->memory + zero);
    return 0;
}

int qconv_prepare(struct op *op, opm_error *err)
{
    struct qconv *s = kernel_new_state(op, sizeof(*s));
    const struct slots *at = &slots[op->kernel->arg];
    int64_t total = 0;
    struct shape out;
    int rc = check_inputs(op, at, err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = qconv_release;
    s->at = at;
    if (!rc && node_attr_int(op->node, "channels_last", 0))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for channels last");
    if (!rc)
        rc = conv_init(&s->c, op, &kernel_in(op, at->x)->shape, &kernel_in(op, at->w)->shape, err);
    if (rc)
        return rc;
    if (s->c.w.nd > 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d spatial dimensions",
                           s->c.w.nd);
    s->kind = op->kernel->arg == QCONV_INTEGER  ? Q8_INT32
              : op->kernel->arg == QCONV_LINEAR ? Q8_BYTES
                                                : Q8_FLOAT;
    out = s->c.out;
    rc = kernel_set(op, 0,
                    s->kind == Q8_INT32         ? TENSOR_I32
                    : s->kind == Q8_FLOAT       ? TENSOR_F32
                    : kernel_in(op, at->y_zero) ? kernel_in(op, at->y_zero)->type
                                                : TENSOR_U8,
                    &out, err);
    if (!rc)
        rc = posts_check(op, s->c.oc, err);
    if (!rc && shape_count(&out))
        rc = geometry(op, s, err);
    if (rc || shape_count(&out) == 0)
        return rc;
    rc = weight_memory(op, s, err);
    if (!rc && kernel_fixed(op, at->w)) {
        if (!kernel_data(op, at->w))
            return kernel_nomem(op, err);
        pack_weights(op, s);
    }
    s->at_add = (size_t)take(&total, s->c.oc, 4);
    s->at_scale = (size_t)take(&total, s->c.oc, 4);
    s->at_shift = (size_t)take(&total, s->c.oc, 4);
    s->at_planes = (size_t)take(
        &total, s->depthwise ? pool_threads(kernel_pool(op)) : s->c.groups * s->quads * s->phases,
        s->depthwise ? s->plane + 2 * s->sums * 4 : s->plane);
    if (!rc && total < 0)
        rc = kernel_fail(op, OPM_ELIMIT, err, "the image is too big");
    op->scratch_bytes = (size_t)MAX(total, (int64_t)0);
    return rc;
}

struct qconv_job {
    const struct op *op;
    const struct qconv *s;
    const struct q8_isa *isa;
    const struct posts *posts;
    const uint8_t *in; /* of the image */
    char *out;         /* of the image */
    int64_t base;      /* index of its first element */
    uint8_t *planes;
    uint8_t flip, zero; /* of the input: zero is its zero point as unsigned */
    int32_t *add;
    float *scale, *shift; /* shift: NULL if there is none */
    struct q8_out out_as;
    int64_t positions, npanel, nsplit; /* tiles of output channels are split that many times */
};

/* One phase of four channels; columns of the plane that the image has. */
static void fill_phase(const struct qconv_job *j, const uint8_t *const *in, int64_t py, int64_t px,
                       uint8_t *plane)
{
    const struct qconv *s = j->s;
    const struct window *w = &s->c.w;
    int64_t sy = w->stride[1], sx = w->stride[2];
    /* First column whose input exists, and the one after the last. */
    int64_t c0 = MAX((w->before[2] - px + sx - 1) / sx, (int64_t)0),
            c1 = MIN((w->in[2] + w->before[2] - px + sx - 1) / sx, s->plane_w);

    for (int64_t r = 0; r < s->plane_h; r++, plane += s->plane_w * 4) {
        int64_t y = r * sy + py - w->before[1];
        const uint8_t *row[4];

        if (y < 0 || y >= w->in[1] || c1 <= c0)
            continue;
        for (int t = 0; t < 4; t++)
            row[t] = in[t] ? in[t] + y * w->in[2] + c0 * sx + px - w->before[2] : NULL;
        if (sx == 1) {
            j->isa->interleave(plane + c0 * 4, row, c1 - c0, j->flip);
            continue;
        }
        for (int64_t c = c0; c < c1; c++)
            for (int t = 0; t < 4; t++)
                plane[c * 4 + t] = row[t] ? row[t][(c - c0) * sx] ^ j->flip : 0;
    }
}

/* The same for one tap: panels of all quads of a group, one after the other. */
static void fill_panels(const struct qconv_job *j, const uint8_t *const *in, uint8_t *out)
{
    const struct qconv *s = j->s;
    int64_t nr = j->isa->nr;

    for (int64_t p = 0; p < j->npanel; p++, out += s->quads * nr * 4) {
        int64_t n = MIN(nr, j->positions - p * nr);
        const uint8_t *row[4];

        for (int t = 0; t < 4; t++)
            row[t] = in[t] ? in[t] + p * nr : NULL;
        j->isa->interleave(out, row, n, j->flip);
        memset(out + n * 4, 0, (size_t)(nr - n) * 4);
    }
}

static void fill_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct qconv_job *j = arg;
    const struct qconv *s = j->s;
    const struct window *w = &s->c.w;
    int64_t image = w->in[1] * w->in[2];

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t g = i / s->quads, ch = i % s->quads * 4;
        uint8_t *plane = j->planes + i * s->phases * s->plane;
        const uint8_t *in[4];

        for (int t = 0; t < 4; t++)
            in[t] = ch + t < s->c.icg ? j->in + (g * s->c.icg + ch + t) * image : NULL;
        if (s->panels) {
            fill_panels(j, in, j->planes + g * s->quads * s->plane + i % s->quads * j->isa->nr * 4);
            continue;
        }
        if (s->bordered)
            memset(plane, j->zero, (size_t)(s->phases * s->plane));
        else /* what is read beyond the image is dropped, but shall be there */
            memset(plane + image * 4, 0, (size_t)(s->plane - image * 4));
        for (int64_t p = 0; p < s->phases; p++)
            fill_phase(j, in, p / w->stride[2], p % w->stride[2], plane + p * s->plane);
    }
}

/* Sums of one output channel for n consecutive positions of one row, on their way out. */
static void emit(const struct qconv_job *j, int32_t *sum, int64_t oc, int64_t at, int64_t n)
{
    const struct qconv *s = j->s;
    struct q8_out o = j->out_as;
    int64_t to = oc * s->c.w.out[1] * s->c.w.out[2] + at;

    o.add = j->add + oc;
    o.scale = j->scale + oc;
    o.shift = j->shift ? j->shift + oc : NULL;
    switch (s->kind) {
    case Q8_BYTES:
        j->isa->to_bytes((uint8_t *)j->out + to, sum, n, &o);
        break;
    case Q8_FLOAT:
        j->isa->to_floats((float *)j->out + to, sum, n, &o);
        if (j->posts)
            posts_apply(j->posts, (float *)j->out + to, s->c.w.out[1] * s->c.w.out[2], 1, n, oc, at,
                        j->base);
        break;
    default:
        j->isa->add_scaled(sum, o.add, 0, 1, n);
        memcpy((int32_t *)j->out + to, sum, (size_t)n * sizeof(*sum));
    }
}

/* Sums of positions [p0, p0 + n) of the planes: only those within the output's width count. */
static void emit_positions(const struct qconv_job *j, int32_t *sum, int64_t oc, int64_t p0,
                           int64_t n)
{
    const struct qconv *s = j->s;
    int64_t ow = s->c.w.out[2];

    for (int64_t i = 0; i < n;) {
        int64_t y = (p0 + i) / s->plane_w, x = (p0 + i) % s->plane_w,
                run = MIN(s->plane_w - x, n - i);

        if (x < ow)
            emit(j, sum + i, oc, y * ow + x, MIN(ow - x, run));
        i += run;
    }
}

static void sums_tile(const struct qconv_job *j, int64_t g, int64_t t, int64_t p0, int64_t n,
                      const uint8_t *vec, const int32_t *x_sum)
{
    const struct qconv *s = j->s;
    int32_t tile[MR_MAX * NR_MAX] __attribute__((aligned(64)));
    int mr = j->isa->mr, nr = j->isa->nr, rows = (int)MIN((int64_t)mr, s->m - t * mr);

    j->isa->tile_uv(rows, (int)n, s->groups4, s->off, vec,
                    s->weights + (g * s->tiles + t) * s->tile_bytes, 4, mr * 4, tile);
    for (int i = 0; i < rows; i++) {
        int64_t oc = g * s->m + t * mr + i;

        if (s->w_zero[oc])
            j->isa->add_scaled(tile + i * nr, x_sum, 1, -s->w_zero[oc], n);
        emit_positions(j, tile + i * nr, oc, p0, n);
    }
}

/* Bytes, and no zero points of the weights: from the registers into the output, or by a detour
 * where not all of the vectors' columns belong there. */
static void bytes_tile(const struct qconv_job *j, int64_t g, int64_t t, int64_t p0, int64_t n,
                       const uint8_t *vec)
{
    const struct qconv *s = j->s;
    const struct window *w = &s->c.w;
    uint8_t tile[MR_MAX * NR_MAX];
    int mr = j->isa->mr, nr = j->isa->nr, rows = (int)MIN((int64_t)mr, s->m - t * mr);
    int64_t oc = g * s->m + t * mr, ow = w->out[2], per = w->out[1] * ow;
    bool direct = s->plane_w == ow && n == nr;
    uint8_t *out = (uint8_t *)j->out + oc * per;
    struct q8_out o = j->out_as;

    o.add = j->add + oc;
    o.scale = j->scale + oc;
    j->isa->tile_bytes(rows, (int)n, s->groups4, s->off, vec,
                       s->weights + (g * s->tiles + t) * s->tile_bytes, 4, mr * 4,
                       direct ? out + p0 : tile, direct ? per : nr, &o);
    for (int64_t i = direct ? n : 0; i < n;) {
        int64_t y = (p0 + i) / s->plane_w, x = (p0 + i) % s->plane_w,
                run = MIN(s->plane_w - x, n - i);

        for (int r = 0; r < rows && x < ow; r++)
            memcpy(out + r * per + y * ow + x, tile + r * nr + i, (size_t)MIN(ow - x, run));
        i += run;
    }
}

static void conv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct qconv_job *j = arg;
    const struct qconv *s = j->s;
    int32_t x_sum[NR_MAX];
    int nr = j->isa->nr;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t split = item % j->nsplit, panel = item / j->nsplit % j->npanel,
                g = item / j->nsplit / j->npanel, p0 = panel * nr,
                n = MIN((int64_t)nr, j->positions - p0), t0 = s->tiles * split / j->nsplit,
                t1 = s->tiles * (split + 1) / j->nsplit;
        const uint8_t *vec =
            j->planes + g * s->quads * s->phases * s->plane + p0 * 4 * (s->panels ? s->quads : 1);

        if (s->w_zeros)
            j->isa->tile_uv(1, (int)n, s->groups4, s->off, vec, s->ones, 4, 4, x_sum);
        for (int64_t t = t0; t < t1; t++) {
            if (s->kind == Q8_BYTES && !s->w_zeros && !j->shift)
                bytes_tile(j, g, t, p0, n, vec);
            else
                sums_tile(j, g, t, p0, n, vec, x_sum);
        }
    }
}

/* Rows [y0, y1) of one channel. */
static void depthwise_rows(const struct qconv_job *j, const uint8_t *plane, int64_t oc, int64_t y0,
                           int64_t y1, int32_t *sum, int32_t *x_sum)
{
    const struct qconv *s = j->s;
    const struct window *w = &s->c.w;
    int per = (int)q8_groups(w->kernel[2]), rows = (int)w->kernel[1], step = (int)w->stride[2];
    int64_t ow = w->out[2];

    for (int64_t y = y0; y < y1; y++) {
        const uint8_t *row[DEPTHWISE_ROWS];

        for (int r = 0; r < rows; r++)
            row[r] = plane + (y * w->stride[1] + r) * s->plane_w;
        j->isa->depthwise(sum + (y - y0) * ow, ow, row, rows, per, step,
                          (const int8_t *)s->weights + oc * s->groups4 * 4);
        if (s->w_zero[oc])
            j->isa->depthwise(x_sum + (y - y0) * ow, ow, row, rows, per, step,
                              (const int8_t *)s->ones);
    }
    if (s->w_zero[oc])
        j->isa->add_scaled(sum, x_sum, 1, -s->w_zero[oc], (y1 - y0) * ow);
    emit(j, sum, oc, y0 * ow, (y1 - y0) * ow);
}

static void depthwise_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct qconv_job *j = arg;
    const struct qconv *s = j->s;
    const struct window *w = &s->c.w;
    uint8_t *plane = j->planes + thread * (s->plane + 2 * s->sums * 4);
    int32_t *sum = (int32_t *)(plane + s->plane), *x_sum = sum + s->sums;
    int64_t rows = MAX(s->sums / w->out[2], (int64_t)1);
    int64_t width = MIN(w->in[2], s->plane_w - w->before[2]);

    for (int64_t g = begin; g < end; g++) {
        const uint8_t *in = j->in + g * w->in[1] * w->in[2];

        memset(plane, j->zero, (size_t)s->plane);
        for (int64_t y = 0; y < w->in[1] && y + w->before[1] < s->plane_h; y++) {
            uint8_t *to = plane + (y + w->before[1]) * s->plane_w + w->before[2];

            if (!j->flip && width > 0)
                memcpy(to, in + y * w->in[2], (size_t)width);
            for (int64_t x = 0; j->flip && x < width; x++)
                to[x] = in[y * w->in[2] + x] ^ 0x80;
        }
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t y = 0; y < w->out[1]; y += rows)
                depthwise_rows(j, plane, g * s->m + i, y, MIN(y + rows, w->out[1]), sum, x_sum);
    }
}

/* What follows from scales and zero points, which may be computed values. */
static void set_terms(const struct op *op, struct qconv *s, struct qconv_job *j)
{
    const struct nt *x = kernel_in(op, s->at->x), *w = kernel_in(op, s->at->w),
                    *xz = kernel_in(op, s->at->x_zero), *wz = kernel_in(op, s->at->w_zero),
                    *xs = kernel_in(op, s->at->x_scale), *ws = kernel_in(op, s->at->w_scale),
                    *ys = kernel_in(op, s->at->y_scale), *bias = kernel_in(op, s->at->bias);
    uint32_t k = (uint32_t)(s->c.icg * s->taps), zx;

    j->flip = x->type == TENSOR_I8 ? 0x80 : 0;
    j->zero = (uint8_t)(q8_zero(xz, 0) + (j->flip ? 128 : 0));
    zx = j->zero;
    s->w_zeros = false;
    for (int64_t oc = 0; oc < s->c.oc; oc++) {
        float f = xs ? ((const float *)xs->data)[xs->count == 1 ? 0 : oc] : 1;

        s->w_zero[oc] = q8_zero(wz, oc) - (w->type == TENSOR_U8 ? 128 : 0);
        s->w_zeros = s->w_zeros || s->w_zero[oc];
        j->add[oc] = (int32_t)((bias && !j->shift ? ((const uint32_t *)bias->data)[oc] : 0) -
                               zx * (uint32_t)s->w_sum[oc] + k * zx * (uint32_t)s->w_zero[oc]);
        if (ws)
            f *= ((const float *)ws->data)[ws->count == 1 ? 0 : oc];
        j->scale[oc] = ys ? f / *(const float *)ys->data : f;
        if (j->shift)
            j->shift[oc] = ((const float *)bias->data)[oc] / *(const float *)ys->data;
    }
    if (s->kind == Q8_BYTES)
        q8_limits(op, *(const float *)ys->data, kernel_in(op, s->at->y_zero), &j->out_as.lo,
                  &j->out_as.hi, &j->out_as.zero);
}

int qconv_run(struct op *op, opm_error *err)
{
    struct qconv *s = op->state;
    const struct window *w = &s->c.w;
    struct nt *out = kernel_out(op, 0);
    struct posts posts;
    struct qconv_job j = { .op = op, .s = s, .isa = kernel_q8(op) };
    int64_t per = s->c.oc * w->out[1] * w->out[2], work;

    (void)err;
    if (out->count == 0)
        return 0;
    if (!kernel_fixed(op, s->at->w)) {
        memset(s->weights, 0,
               (size_t)(s->depthwise ? s->c.oc * s->groups4 * 4
                                     : s->c.groups * s->tiles * s->tile_bytes));
        pack_weights(op, s);
    }
    j.add = (int32_t *)((char *)op->scratch + s->at_add);
    j.scale = (float *)((char *)op->scratch + s->at_scale);
    j.planes = (uint8_t *)op->scratch + s->at_planes;
    if (kernel_in(op, s->at->bias) && kernel_in(op, s->at->bias)->type == TENSOR_F32)
        j.shift = (float *)((char *)op->scratch + s->at_shift);
    set_terms(op, s, &j);
    posts_begin(&posts, op, true);
    j.posts = op->npost && s->kind == Q8_FLOAT ? &posts : NULL;
    j.positions = (w->out[1] - 1) * s->plane_w + w->out[2];
    j.npanel = (j.positions + j.isa->nr - 1) / j.isa->nr;
    j.nsplit = MAX(MIN(s->tiles, 16 / (j.npanel * s->c.groups)), (int64_t)1);
    work = s->groups4 * 4 * j.isa->nr * s->m / j.nsplit;
    for (int64_t n = 0; n < s->c.n; n++) {
        j.in = (const uint8_t *)kernel_in(op, s->at->x)->data + n * s->c.ic * w->in[1] * w->in[2];
        j.base = n * per;
        j.out = (char *)out->data + (size_t)j.base * nt_width(out->type);
        if (s->depthwise) {
            pool_for(kernel_pool(op), s->c.groups,
                     MAX(65536 / (w->out[1] * w->out[2] * s->taps + 1), (int64_t)1), depthwise_part,
                     &j);
            continue;
        }
        pool_for(kernel_pool(op), s->c.groups * s->quads,
                 MAX(16384 / (s->phases * s->plane + 1), (int64_t)1), fill_part, &j);
        pool_for(kernel_pool(op), s->c.groups * j.npanel * j.nsplit,
                 MAX(524288 / (work + 1), (int64_t)1), conv_part, &j);
    }
    return 0;
}
