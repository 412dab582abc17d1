/* nhwc_conv.c -- QLinearConv on tensors whose channels come last (nhwc.h).
 *
 * Tiles of a few output pixels by up to 64 output channels are summed up in registers over all taps
 * and input channels, and leave them as bytes. A tap's input is a run of channels at the same
 * distance from where each pixel's window begins, so pixels may lie anywhere: tiles go on over the
 * ends of rows. Where the window sticks out, some rows at a time are first copied into a frame of
 * the zero point. */
#include "engine/native/layout/nhwc.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/conv.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Bytes of input that one pass over the weights works on; they stay in the second-level cache. */
#define CHUNK_BYTES (192 * 1024)
/* Output pixels at a time are a multiple of this, so that tiles are full. */
#define CHUNK_PIXELS 24
/* Groups of four bytes that a window has at least, for blocks to be worth it; bytes of the windows
 * of a block at most. */
#define BLOCK_GROUPS 8
#define LINES_MAX (1 << 20)
/* Inputs of so few channels are read as they are, four bytes to a pixel. */
#define PLAIN_CHANNELS 4
/* Depthwise windows with more rows, larger strides or dilations are left to the plain way. */
#define DEPTHWISE_ROWS 16
#define DEPTHWISE_STEP 16

enum { IN_X, IN_X_SCALE, IN_X_ZERO, IN_W, IN_W_SCALE, IN_W_ZERO, IN_Y_SCALE, IN_Y_ZERO, IN_BIAS };

struct nconv {
    struct conv c;
    bool plain, depthwise, padded, flat;
    int64_t in_pitch, out_pitch;   /* bytes of a pixel: as the tiles read it, as they write it */
    int64_t row_bytes;             /* of the input, or of the copy */
    int64_t chunk, chunks, pixels; /* output pixels at a time; how often; all of an image */
    int64_t copy_rows, copy_bytes; /* input rows of a chunk */
    int64_t room_bytes;            /* depthwise: a row of zeros, and the isa's */
    int64_t zero_bytes;
    int64_t sum_bytes;  /* of the sums of a chunk's windows, if there is less */
    int64_t line_bytes; /* of windows that are put together for blocks; 0: none are */
    bool blocks;        /* the isa's */
    int64_t split;      /* of a chunk's tiles, between threads */
    int64_t taps, k4;
    int32_t *tap, *px;
    int64_t units, tiles; /* of output channels in a group */
    bool packed;
    uint8_t *weights;
    int32_t *init;
    int32_t *less; /* NULL: weights have no zero points */
    float *scale, *shift;
    uint8_t *mask; /* of the bytes that a tap reads, those of channels; if there is less */
    struct nhwc_end end;
    struct nhwc_add add; /* if there is a residual */
    uint8_t zero;        /* of the input */
};

static void nconv_release(void *state)
{
    struct nconv *s = state;

    native_free(s->weights);
    native_free(s->init);
    native_free(s->less);
    native_free(s->scale);
    native_free(s->shift);
    mem_free(s->mask);
    mem_free(s->tap);
    mem_free(s->px);
}

static bool is_depthwise(int64_t icg, int64_t oc, int64_t groups)
{
    return icg == 1 && oc == groups && groups > 1;
}

/* Constant numbers of a type, one or n of them. */
static bool numbers(const struct op *op, uint32_t i, uint64_t types, int64_t n, bool needed)
{
    const struct tensor *t = kernel_const(op, i);

    if (i >= op->nin || op->in[i] == NO_VALUE)
        return !needed;
    return t && (TYPE_BIT(t->type) & types) && (t->count == 1 || t->count == n);
}

static double number(const struct op *op, uint32_t i, int64_t at, double missing)
{
    const struct tensor *t = kernel_const(op, i);

    return !t                      ? missing
           : t->type == TENSOR_F32 ? tensor_float(t, t->count == 1 ? 0 : at)
                                   : (double)tensor_int(t, t->count == 1 ? 0 : at);
}

/* Some weights have zero points even as signed numbers. */
static bool has_zeros(const struct op *op, const struct tensor *w)
{
    for (int64_t oc = 0; oc < w->shape.dim[0]; oc++)
        if (number(op, IN_W_ZERO, oc, 0) != (w->type == TENSOR_U8 ? 128 : 0))
            return true;
    return false;
}

/* Integers that join the sums, or floats that join what these are scaled to. */
static bool is_real(const struct op *op, uint32_t i)
{
    return kernel_const(op, i) ? kernel_const(op, i)->type == TENSOR_F32
                               : i < op->nin && op->in[i] < op->plan->graph->nvalue &&
                                     op->plan->graph->value[op->in[i]].type == TENSOR_F32;
}

static bool bias_fits(const struct op *op, int64_t oc)
{
    const struct tensor *t = kernel_const(op, IN_BIAS);

    if (!t)
        return IN_BIAS >= op->nin || op->in[IN_BIAS] == NO_VALUE || is_real(op, IN_BIAS);
    return (t->type == TENSOR_I32 || t->type == TENSOR_F32) && t->count == oc;
}

/* No scaled sum leaves the 32 bits. */
static bool in_range(const struct op *op, const struct tensor *w)
{
    double most = (double)nt_span(&w->shape, 1, w->shape.rank) * 255 * 256;

    for (int64_t oc = 0; oc < w->shape.dim[0]; oc++) {
        double scale = number(op, IN_X_SCALE, 0, 1) * number(op, IN_W_SCALE, oc, 1) /
                       number(op, IN_Y_SCALE, 0, 1);

        double bias = is_real(op, IN_BIAS) ? 0 : fabs(number(op, IN_BIAS, oc, 0));

        if (!((most + bias) * fabs(scale) < 0x1p30) || most + bias >= 0x1p31)
            return false;
    }
    return true;
}

static bool none_beyond(const struct op *op, const char *name, int64_t most)
{
    size_t n;
    const int64_t *a = node_attr_ints(op->node, name, &n);

    for (size_t i = 0; i < n; i++)
        if (a[i] > most)
            return false;
    return true;
}

bool nhwc_conv_fits(const struct op *op)
{
    const struct tensor *w = kernel_const(op, IN_W);
    const uint64_t real = TYPE_BIT(TENSOR_F32);
    int64_t groups = node_attr_int(op->node, "group", 1), oc;

    if (!w || !(TYPE_BIT(w->type) & TYPES_Q8) || w->shape.rank < 3 || w->shape.rank > 4 ||
        shape_count(&w->shape) == 0 || groups < 1 || w->shape.dim[0] % groups ||
        node_attr_int(op->node, "channels_last", 0))
        return false;
    for (int32_t i = 2; i < w->shape.rank; i++)
        if (w->shape.dim[i] > 4096)
            return false;
    oc = w->shape.dim[0];
    if (!numbers(op, IN_X_SCALE, real, 1, true) || !numbers(op, IN_W_SCALE, real, oc, true) ||
        !numbers(op, IN_Y_SCALE, real, 1, true) || !numbers(op, IN_X_ZERO, TYPES_Q8, 1, false) ||
        !numbers(op, IN_W_ZERO, TYPE_BIT(w->type), oc, false) ||
        !numbers(op, IN_Y_ZERO, TYPES_Q8, 1, false) || !bias_fits(op, oc) || !in_range(op, w))
        return false;
    if (is_depthwise(w->shape.dim[1], oc, groups))
        return (w->shape.rank == 3 || w->shape.dim[2] <= DEPTHWISE_ROWS) &&
               nt_span(&w->shape, 2, w->shape.rank) <= NHWC_TAPS_MAX &&
               none_beyond(op, "strides", DEPTHWISE_STEP) &&
               none_beyond(op, "dilations", DEPTHWISE_STEP);
    return groups == 1 || (w->shape.dim[1] % (has_zeros(op, w) ? NHWC_UNIT : 4) == 0 &&
                           oc / groups % NHWC_UNIT == 0);
}

bool nhwc_conv_plain(const struct op *op)
{
    const struct shape *w = &kernel_const(op, IN_W)->shape;

    return node_attr_int(op->node, "group", 1) == 1 && w->dim[1] <= PLAIN_CHANNELS &&
           nt_span(w, 2, w->rank) > 1;
}

int nhwc_set(struct op *op, uint32_t i, enum tensor_type type, const struct shape *s,
             opm_error *err)
{
    struct shape filled = *s;
    size_t bytes;
    int rc;

    filled.dim[1] = nhwc_pitch(s->dim[1]);
    rc = kernel_set(op, i, type, &filled, err);
    if (rc)
        return rc;
    bytes = kernel_out(op, i)->bytes;
    rc = kernel_set(op, i, type, s, err);
    kernel_out(op, i)->bytes = bytes;
    return rc;
}

struct nhwc_end nhwc_end_of(const struct op *op, uint32_t y_scale, uint32_t y_zero)
{
    uint8_t flip = nhwc_flip(kernel_out(op, 0)->type);
    int32_t lo, hi, zero;

    q8_limits(op, *(const float *)kernel_in(op, y_scale)->data, kernel_in(op, y_zero), &lo, &hi,
              &zero);
    return (struct nhwc_end){ zero + flip, (uint8_t)(lo + flip), (uint8_t)(hi + flip) };
}

/* The first `more` tiles of a group have one unit more than the others. */
static int64_t tile_units(const struct nconv *s, int64_t tile, int64_t *first)
{
    int64_t less = s->units / s->tiles, more = s->units % s->tiles;

    *first = tile * less + MIN(tile, more);
    return less + (tile < more);
}

static void pack_depthwise(const struct op *op, const struct nconv *s, const uint8_t *w,
                           uint8_t flip)
{
    int64_t kw = s->c.w.kernel[2], window = s->c.w.kernel[1] * kw;
    bool deep = kernel_nhwc(op)->deep;

    for (int64_t i = 0; i < s->c.oc * window; i++) {
        int zero = deep ? q8_zero(kernel_in(op, IN_W_ZERO), i / window) - flip : 0;

        kernel_nhwc(op)->put_tap(s->weights, s->out_pitch, (int)s->c.w.kernel[1], (int)kw,
                                 i / window, (int)(i % window / kw), (int)(i % kw),
                                 (int16_t)((int8_t)(w[i] ^ flip) - zero));
    }
}

struct pack_job {
    const struct op *op;
    const struct nconv *s;
    const uint8_t *w;
    uint8_t flip;
};

/* Which output channel of its group each place of a tile has. */
static void tile_channels(const struct nhwc_isa *isa, int64_t first, int64_t units, int64_t *oc)
{
    for (int c = 0; c < units * NHWC_UNIT; c++)
        oc[isa->place((int)units, c)] = first * NHWC_UNIT + c;
}

/* Tiles counted over all groups. Input channels come before taps here, as they do in the model. */
static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    const struct nconv *s = j->s;
    const struct nhwc_isa *isa = kernel_nhwc(j->op);
    int64_t window = window_kernel(&s->c.w), k4 = q8_groups(s->c.icg), ocg = s->c.oc / s->c.groups,
            per = s->c.icg * window;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t g = item / s->tiles, first, units = tile_units(s, item % s->tiles, &first),
                places = units * NHWC_UNIT, oc[NHWC_WIDE];
        uint8_t *to =
            s->weights + (g * s->units + first) * NHWC_UNIT * s->taps * s->k4 * isa->lane_bytes;

        tile_channels(isa, first, units, oc);
        for (int64_t k = 0; k < k4; k++)
            for (int64_t t = 0; t < window; t++) {
                uint8_t four[NHWC_WIDE][4];
                int64_t have = MIN((int64_t)4, s->c.icg - 4 * k);

                /* bounded: a tile has at most NHWC_WIDE places, and have is at most 4 */
                for (int64_t p = 0; p < places; p++) {
                    const uint8_t *from = j->w + (g * ocg + oc[p]) * per + 4 * k * window + t;

                    if (oc[p] >= ocg || have < 4)
                        memset(four[p], 0, 4);
                    for (int64_t i = 0; i < have && oc[p] < ocg; i++)
                        four[p][i] = from[i * window] ^ j->flip;
                }
                isa->put(to + (t * k4 + k) * places * isa->lane_bytes, (int)places,
                         (const int8_t *)four);
            }
    }
}

/* Where init and scale have an output channel. */
static int64_t term_place(const struct op *op, const struct nconv *s, int64_t oc)
{
    int64_t ocg = s->c.oc / s->c.groups, at = oc % ocg, tile = 0, first, units;

    if (s->depthwise)
        return kernel_nhwc(op)->place_wide(s->out_pitch, oc);
    do
        units = tile_units(s, tile++, &first);
    while (at >= (first + units) * NHWC_UNIT);
    return (oc / ocg * s->units + first) * NHWC_UNIT +
           kernel_nhwc(op)->place((int)units, (int)(at - first * NHWC_UNIT));
}

/* sum - zero point * sum of the weights + bias, and the scale. Beyond any byte one shift is as good
 * as another. */
static void set_terms(const struct op *op, struct nconv *s, const struct tensor *w)
{
    const struct tensor *bias = kernel_const(op, IN_BIAS);
    const struct nt *real = is_real(op, IN_BIAS) ? kernel_in(op, IN_BIAS) : NULL;
    float y_scale = *(const float *)kernel_in(op, IN_Y_SCALE)->data;
    int64_t per = s->c.icg * window_kernel(&s->c.w);
    uint8_t flip = w->type == TENSOR_U8 ? 0x80 : 0;

    s->zero =
        (uint8_t)(q8_zero(kernel_in(op, IN_X_ZERO), 0) + nhwc_flip(kernel_in(op, IN_X)->type));
    s->end = nhwc_end_of(op, IN_Y_SCALE, IN_Y_ZERO);
    if (kernel_in(op, NCONV_ADD)) {
        const struct nt *yz = kernel_in(op, IN_Y_ZERO);
        enum tensor_type own = yz ? yz->type : TENSOR_U8, other = kernel_in(op, NCONV_ADD)->type;

        s->end = (struct nhwc_end){ q8_zero(yz, 0) + nhwc_flip(own), 0, 255 };
        if (op->kernel->arg == NCONV_SECOND)
            nhwc_add_of(op, NCONV_ADD_SCALE, other, IN_Y_SCALE, own, NCONV_SUM_SCALE, &s->add);
        else
            nhwc_add_of(op, IN_Y_SCALE, own, NCONV_ADD_SCALE, other, NCONV_SUM_SCALE, &s->add);
        s->add.swapped = op->kernel->arg == NCONV_SECOND;
    }
    for (int64_t oc = 0; oc < s->c.oc; oc++) {
        const uint8_t *from = (const uint8_t *)w->data + oc * per;
        int64_t at = term_place(op, s, oc);
        uint32_t sum = 0;
        float f = *(const float *)kernel_in(op, IN_X_SCALE)->data;
        const struct nt *ws = kernel_in(op, IN_W_SCALE);

        for (int64_t i = 0; i < per; i++)
            sum += (uint32_t)(int8_t)(from[i] ^ flip);
        f *= ((const float *)ws->data)[ws->count == 1 ? 0 : oc];
        s->init[at] = (int32_t)((bias && !real ? (uint32_t)tensor_int(bias, oc) : 0) -
                                (uint32_t)s->zero * sum);
        s->scale[at] = f / y_scale;
        if (real)
            s->shift[at] =
                fminf(fmaxf(((const float *)real->data)[oc] / y_scale, -0x1p30f), 0x1p30f);
        if (s->less) {
            int32_t zero = q8_zero(kernel_in(op, IN_W_ZERO), oc) - flip;

            s->less[at] = -zero;
            s->init[at] += (int32_t)((uint32_t)per * s->zero * (uint32_t)zero);
        }
    }
}

/* Of what a tap reads, as window_sums() wants it. */
static int64_t tap_bytes(const struct nconv *s)
{
    return (s->k4 * 4 + NHWC_UNIT - 1) / NHWC_UNIT * NHWC_UNIT;
}

static int pack(struct op *op, struct nconv *s, opm_error *err)
{
    const struct nhwc_isa *isa = kernel_nhwc(op);
    const struct tensor *w = kernel_const(op, IN_W);
    struct pack_job j = { op, s, w->data, w->type == TENSOR_U8 ? 0x80 : 0 };
    bool zeros = has_zeros(op, w);
    int64_t places = s->c.groups * s->units * NHWC_UNIT, bytes;

    for (uint32_t i = 0; i < op->nin; i++)
        if (i != IN_X && i != IN_W && i != NCONV_ADD && kernel_in(op, i) && !kernel_data(op, i))
            return kernel_nomem(op, err);
    if (s->packed)
        return 0;
    bytes = s->depthwise
                ? isa->bytes(s->out_pitch, (int)s->c.w.kernel[1], (int)s->c.w.kernel[2])
                : places * s->taps * s->k4 * isa->lane_bytes + (isa->block ? Q8_BLOCK_BEYOND : 0);
    places = (MAX(places, s->out_pitch) + NHWC_WIDE - 1) / NHWC_WIDE * NHWC_WIDE;
    s->weights = native_alloc((size_t)bytes);
    s->init = native_alloc((size_t)places * sizeof(*s->init));
    s->scale = native_alloc((size_t)places * sizeof(*s->scale));
    s->shift = native_alloc((size_t)places * sizeof(*s->shift));
    s->less = zeros ? native_alloc((size_t)places * sizeof(*s->less)) : NULL;
    s->mask = zeros ? mem_calloc((size_t)tap_bytes(s), 1) : NULL;
    if (!s->weights || !s->init || !s->scale || !s->shift || (zeros && (!s->less || !s->mask)))
        return kernel_nomem(op, err);
    s->packed = true;
    memset(s->weights, 0, (size_t)bytes);
    memset(s->init, 0, (size_t)places * sizeof(*s->init));
    memset(s->scale, 0, (size_t)places * sizeof(*s->scale));
    memset(s->shift, 0, (size_t)places * sizeof(*s->shift));
    if (zeros)
        memset(s->less, 0, (size_t)places * sizeof(*s->less));
    for (int64_t i = 0; zeros && i < s->k4 * 4; i++)
        s->mask[i] = i % (s->plain ? PLAIN_CHANNELS : s->k4 * 4) < s->c.icg ? 255 : 0;
    set_terms(op, s, w);
    if (s->depthwise)
        pack_depthwise(op, s, j.w, j.flip);
    else
        pool_for(kernel_pool(op), s->c.groups * s->tiles, 1, pack_part, &j);
    op->packed_bytes = (size_t)bytes;
    model_forget(op->plan->engine->model, w->data, w->bytes);
    return 0;
}

static bool sticks_out(const struct window *w, int d)
{
    return w->before[d] > 0 ||
           (w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - w->before[d] >
               w->in[d];
}

/* How the work is cut: chunks of output pixels whose input stays in the cache, and enough parts for
 * all threads, of output channels where the weights are the bigger operand. */
static void cut(const struct op *op, struct nconv *s)
{
    const struct window *w = &s->c.w;
    int64_t threads = pool_threads(kernel_pool(op)), line = s->flat ? CHUNK_PIXELS : w->out[2],
            lines = (s->pixels + line - 1) / line,
            per = MAX(s->flat ? line * s->in_pitch : s->row_bytes * w->stride[1], (int64_t)1),
            images = s->c.n * (s->depthwise ? 1 : s->c.groups),
            parts = threads > 1 ? 4 * threads : 1, most;
    bool by_tile =
        !s->depthwise && s->c.oc * s->c.icg * window_kernel(w) > s->c.ic * w->in[1] * w->in[2];

    most = MAX(CHUNK_BYTES / per, (int64_t)1);
    s->split = by_tile ? MIN(s->tiles, (parts + images - 1) / images) : 1;
    most = MIN(most, MAX(lines * images * s->split / parts, (int64_t)1));
    s->chunks = (lines + most - 1) / most;
    most = (lines + s->chunks - 1) / s->chunks;
    s->chunks = (lines + most - 1) / most;
    s->chunk = MIN(most * line, s->pixels);
}

static int geometry(struct op *op, struct nconv *s, opm_error *err)
{
    const struct window *w = &s->c.w;
    int64_t kh = w->kernel[1], kw = w->kernel[2], span = (kh - 1) * w->dilation[1] + 1, width,
            bytes;

    s->in_pitch = s->plain ? PLAIN_CHANNELS : nhwc_pitch(s->c.ic);
    s->out_pitch = nhwc_pitch(s->c.oc);
    s->padded = !s->depthwise && (s->plain || sticks_out(w, 1) || sticks_out(w, 2));
    s->flat = kh * kw == 1 && w->stride[1] == 1 && w->stride[2] == 1 && !s->padded && !s->depthwise;
    s->pixels = w->out[1] * w->out[2];
    width = s->padded ? (w->out[2] - 1) * w->stride[2] + (kw - 1) * w->dilation[2] + 1 : w->in[2];
    if (__builtin_mul_overflow(width, s->in_pitch, &s->row_bytes) || s->row_bytes > INT32_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the image is too big");
    cut(op, s);
    s->copy_rows = s->flat ? 0 : (s->chunk / w->out[2] - 1) * w->stride[1] + span;
    if (__builtin_mul_overflow(MAX(s->copy_rows, (int64_t)1), s->row_bytes, &bytes) ||
        bytes > INT32_MAX / 2 || s->chunk * s->in_pitch > INT32_MAX / 2)
        return kernel_fail(op, OPM_ELIMIT, err, "the image is too big");
    s->copy_bytes =
        s->padded ? (bytes + NHWC_UNIT + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN : 0;
    s->room_bytes = 0;
    if (s->depthwise) {
        s->zero_bytes = (s->row_bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
        s->room_bytes =
            kernel_nhwc(op)->room((int)kh, (int)kw, w->stride[2], w->dilation[2]) + s->zero_bytes;
    }
    s->blocks = kernel_nhwc(op)->block && !s->depthwise && s->taps * s->k4 >= BLOCK_GROUPS;
    s->line_bytes = 0;
    if (s->blocks && !s->flat &&
        (__builtin_mul_overflow(s->taps * s->k4 * 4, Q8_BLOCK_ROWS, &s->line_bytes) ||
         s->line_bytes > LINES_MAX))
        s->blocks = false;
    s->line_bytes =
        s->blocks ? (s->line_bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN : 0;
    s->sum_bytes = 0;
    if (!s->depthwise && has_zeros(op, kernel_const(op, IN_W)))
        s->sum_bytes = (s->chunk * 4 + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
    op->scratch_bytes = (size_t)(s->copy_bytes + s->room_bytes + s->sum_bytes + s->line_bytes) *
                        (size_t)pool_threads(kernel_pool(op));
    return 0;
}

/* Where taps and pixels are, from the begin of a chunk. */
static int offsets(struct op *op, struct nconv *s, opm_error *err)
{
    const struct window *w = &s->c.w;
    int64_t kw = w->kernel[2];

    mem_free(s->tap);
    mem_free(s->px);
    s->tap = mem_calloc((size_t)s->taps, sizeof(*s->tap));
    s->px = mem_calloc((size_t)s->chunk, sizeof(*s->px));
    if (!s->tap || !s->px)
        return kernel_nomem(op, err);
    for (int64_t t = 0; t < s->taps; t++) {
        int64_t y = s->taps == w->kernel[1] ? t : t / kw, x = s->taps == w->kernel[1] ? 0 : t % kw;

        s->tap[t] = (int32_t)(y * w->dilation[1] * s->row_bytes + x * w->dilation[2] * s->in_pitch);
    }
    for (int64_t i = 0; i < s->chunk; i++)
        s->px[i] = (int32_t)(s->flat ? i * s->in_pitch
                                     : i / w->out[2] * w->stride[1] * s->row_bytes +
                                           i % w->out[2] * w->stride[2] * s->in_pitch);
    return 0;
}

int nconv_prepare(struct op *op, opm_error *err)
{
    struct nconv *s = kernel_new_state(op, sizeof(*s));
    const struct nt *x = kernel_in(op, IN_X), *add = kernel_in(op, NCONV_ADD),
                    *yz = kernel_in(op, add ? NCONV_SUM_ZERO : IN_Y_ZERO),
                    *xz = kernel_in(op, IN_X_ZERO);
    bool runs;
    struct shape out;
    int rc = kernel_want(op, IN_X, TYPES_Q8, err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = nconv_release;
    if (rc)
        return rc;
    if (xz && xz->type != x->type)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "zero point does not fit");
    rc = conv_init(&s->c, op, &x->shape, &kernel_in(op, IN_W)->shape, err);
    if (rc)
        return rc;
    if (kernel_in(op, IN_BIAS) &&
        (!kernel_fixed(op, IN_BIAS) || kernel_in(op, IN_BIAS)->count != s->c.oc))
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit");
    out = s->c.out;
    if (add && (!(TYPE_BIT(add->type) & TYPES_Q8) || !shape_equal(&add->shape, &out)))
        return kernel_fail(op, OPM_EINVAL, err, "what is added does not fit");
    rc = nhwc_set(op, 0, yz ? yz->type : TENSOR_U8, &out, err);
    if (rc || shape_count(&out) == 0)
        return rc;
    s->plain = !op->plan->val[op->in[IN_X]].blocked;
    s->depthwise = is_depthwise(s->c.icg, s->c.oc, s->c.groups);
    /* Of plain inputs a row of the window is one run, if its taps lie side by side. */
    runs = s->plain && s->c.w.dilation[2] == 1;
    s->taps = runs ? s->c.w.kernel[1] : window_kernel(&s->c.w);
    s->k4 = runs ? s->c.w.kernel[2] : q8_groups(s->c.icg);
    s->units = nhwc_pitch(s->c.oc / s->c.groups) / NHWC_UNIT;
    s->tiles = (s->units + kernel_nhwc(op)->units - 1) / kernel_nhwc(op)->units;
    op->algorithm = s->depthwise ? "depthwise" : s->plain ? "direct from plain" : "direct";
    rc = geometry(op, s, err);
    if (!rc)
        rc = offsets(op, s, err);
    return rc ? rc : pack(op, s, err);
}

struct nconv_job {
    const struct op *op;
    const struct nconv *s;
    const struct nhwc_isa *isa;
    const struct q8_isa *q8;
    const uint8_t *in, *add;
    uint8_t *out;
    uint8_t flip; /* of a plain input */
};

/* One input row into the middle of a row of the copy. */
static void copy_row(const struct nconv_job *j, uint8_t *to, int64_t n, int64_t y, int64_t cols)
{
    const struct nconv *s = j->s;
    const struct window *w = &s->c.w;
    int64_t plane = w->in[1] * w->in[2];
    const uint8_t *row[PLAIN_CHANNELS];

    if (!s->plain) {
        memcpy(to, j->in + ((n * w->in[1] + y) * w->in[2]) * s->in_pitch,
               (size_t)(cols * s->in_pitch));
        return;
    }
    for (int64_t c = 0; c < PLAIN_CHANNELS; c++)
        row[c] = c < s->c.ic ? j->in + (n * s->c.ic + c) * plane + y * w->in[2] : NULL;
    j->q8->interleave(to, row, cols, j->flip);
}

/* Input rows from y0 on, with their frame. */
static void copy_rows(const struct nconv_job *j, uint8_t *to, int64_t n, int64_t y0, int64_t rows)
{
    const struct nconv *s = j->s;
    const struct window *w = &s->c.w;
    int64_t width = s->row_bytes / s->in_pitch, left = MIN(w->before[2], width),
            cols = MIN(w->in[2], width - left);

    for (int64_t r = 0; r < rows; r++, to += s->row_bytes) {
        int64_t y = y0 + r;

        if (y < 0 || y >= w->in[1]) {
            memset(to, s->zero, (size_t)s->row_bytes);
            continue;
        }
        memset(to, s->zero, (size_t)(left * s->in_pitch));
        copy_row(j, to + left * s->in_pitch, n, y, cols);
        memset(to + (left + cols) * s->in_pitch, s->zero,
               (size_t)((width - left - cols) * s->in_pitch));
    }
}

/* What a tile of output channels has, from that one on. */
static void set_tile(const struct nconv *s, struct nhwc_tile *t, int64_t at)
{
    t->init = s->init + at;
    t->less = s->less ? s->less + at : NULL;
    t->scale = s->scale + at;
    t->shift = s->shift + at;
}

/* Tiles t0 to t1 of output channels, block by block of pixels, whose windows are put together in
 * lines, where they do not lie at the same distance anyway. */
static void run_blocks(const struct nconv_job *j, struct nhwc_tile *t, int64_t g, int64_t n,
                       uint8_t *out, int64_t t0, int64_t t1, int32_t *sums, int *state)
{
    const struct nconv *s = j->s;
    int64_t width = s->taps * s->k4 * 4;
    uint8_t *lines = (uint8_t *)sums + s->sum_bytes;
    int32_t tile[Q8_BLOCK_ROWS * Q8_BLOCK_COLUMNS] __attribute__((aligned(64)));

    for (int64_t p = 0; p < n; p += Q8_BLOCK_ROWS) {
        int m = (int)MIN((int64_t)Q8_BLOCK_ROWS, n - p);
        const uint8_t *a = lines;

        if (s->line_bytes)
            j->isa->windows(lines, width, m, t->in, s->px + p, s->tap, s->taps, s->k4 * 4);
        else
            a = t->in + s->px[p];
        t->sum = sums + p;
        for (int64_t i = t0; i < t1; i++) {
            int64_t first, units = tile_units(s, i, &first),
                           at = (g * s->units + first) * NHWC_UNIT;

            set_tile(s, t, at);
            t->out = out + p * s->out_pitch + at;
            if (j->add)
                t->residual = j->add + (t->out - j->out);
            j->isa->block->tile(state, m, (int)units * NHWC_UNIT, s->taps * s->k4,
                                s->weights + at * s->taps * s->k4 * j->isa->lane_bytes,
                                units * NHWC_UNIT * 4, a, s->line_bytes ? width : s->in_pitch,
                                tile);
            j->isa->end[units - 1](t, m, tile);
        }
    }
}

static void run_tiles(const struct nconv_job *j, const uint8_t *in, int64_t g, int64_t n,
                      uint8_t *out, int64_t t0, int64_t t1, int32_t *sums, int *state)
{
    const struct nconv *s = j->s;
    struct nhwc_tile t = { .in = in + g * s->c.icg,
                           .tap = s->tap,
                           .taps = s->taps,
                           .k4 = s->k4,
                           .pitch = s->out_pitch,
                           .end = s->end,
                           .add = j->add ? &s->add : NULL };

    if (s->less)
        j->isa->window_sums(sums, n, t.in, s->px, s->tap, s->taps, s->mask, tap_bytes(s));
    if (s->blocks) {
        run_blocks(j, &t, g, n, out, t0, t1, sums, state);
        return;
    }
    for (int64_t tile = t0; tile < t1; tile++) {
        int64_t first, units = tile_units(s, tile, &first), px = j->isa->px[units - 1],
                       at = (g * s->units + first) * NHWC_UNIT;

        t.w = s->weights + at * s->taps * s->k4 * j->isa->lane_bytes;
        set_tile(s, &t, at);
        for (int64_t p = 0; p < n; p += px) {
            int64_t m = MIN(px, n - p);

            t.px = s->px + p;
            t.sum = sums + p;
            t.out = out + p * s->out_pitch + at;
            if (j->add)
                t.residual = j->add + (t.out - j->out);
            j->isa->tile[units - 1][m - 1](&t);
        }
    }
}

/* Output rows from y0 on. Rows beyond the image are one of zeros. */
static void run_depthwise(const struct nconv_job *j, const uint8_t *in, int64_t y0, int64_t rows,
                          uint8_t *out, uint8_t *room)
{
    const struct nconv *s = j->s;
    const struct window *w = &s->c.w;
    const uint8_t *row[DEPTHWISE_ROWS];
    struct nhwc_depthwise d = { .row = row,
                                .rows = (int)w->kernel[1],
                                .taps = (int)w->kernel[2],
                                .first = -w->before[2],
                                .step = w->stride[2],
                                .dilation = w->dilation[2],
                                .width = w->in[2],
                                .n = w->out[2],
                                .pitch = s->out_pitch,
                                .w = s->weights,
                                .init = s->init,
                                .less = j->isa->deep ? NULL : s->less,
                                .scale = s->scale,
                                .shift = s->shift,
                                .end = s->end,
                                .zero = s->zero,
                                .room = room + s->zero_bytes };

    memset(room, s->zero, (size_t)s->row_bytes);
    for (int64_t i = y0; i < y0 + rows; i++) {
        for (int64_t r = 0; r < d.rows; r++) {
            int64_t y = i * w->stride[1] - w->before[1] + r * w->dilation[1];

            row[r] = y < 0 || y >= w->in[1] ? room : in + y * s->row_bytes;
        }
        d.out = out + (i - y0) * w->out[2] * s->out_pitch;
        j->isa->depthwise(&d);
    }
}

static void nconv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct nconv_job *j = arg;
    const struct nconv *s = j->s;
    const struct window *w = &s->c.w;
    uint8_t *copy = (uint8_t *)j->op->scratch +
                    thread * (s->copy_bytes + s->room_bytes + s->sum_bytes + s->line_bytes);
    int64_t groups = s->depthwise ? 1 : s->c.groups;
    int state = 0;

    for (int64_t item = begin; item < end; item++) {
        int64_t split = item % s->split, chunk = item / s->split % s->chunks,
                g = item / s->split / s->chunks % groups, n = item / s->split / s->chunks / groups,
                p0 = chunk * s->chunk, pixels = MIN(s->chunk, s->pixels - p0),
                y0 = p0 / w->out[2] * w->stride[1];
        const uint8_t *in = j->in + n * w->in[1] * w->in[2] * s->in_pitch;
        uint8_t *out = j->out + (n * s->pixels + p0) * s->out_pitch;

        if (s->depthwise) {
            run_depthwise(j, in, p0 / w->out[2], pixels / w->out[2], out, copy);
            continue;
        }
        if (s->padded) {
            copy_rows(j, copy, n, y0 - w->before[1],
                      (pixels / w->out[2] - 1) * w->stride[1] +
                          (w->kernel[1] - 1) * w->dilation[1] + 1);
            in = copy;
        } else
            in += s->flat ? p0 * s->in_pitch : y0 * s->row_bytes;
        run_tiles(j, in, g, pixels, out, s->tiles * split / s->split,
                  s->tiles * (split + 1) / s->split,
                  (int32_t *)(copy + s->copy_bytes + s->room_bytes), &state);
    }
    if (s->blocks)
        j->isa->block->end(&state);
}

int nconv_run(struct op *op, opm_error *err)
{
    const struct nconv *s = op->state;
    const struct nt *x = kernel_in(op, IN_X);
    struct nconv_job j = { .op = op,
                           .s = s,
                           .isa = kernel_nhwc(op),
                           .q8 = kernel_q8(op),
                           .in = x->data,
                           .add = kernel_in(op, NCONV_ADD) ? kernel_in(op, NCONV_ADD)->data : NULL,
                           .out = kernel_out(op, 0)->data,
                           .flip = nhwc_flip(x->type) };
    int64_t items, work;

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    items = s->c.n * (s->depthwise ? 1 : s->c.groups) * s->chunks * s->split;
    work = s->c.n * s->pixels * s->c.oc * s->c.icg * window_kernel(&s->c.w) / items;
    pool_for(kernel_pool(op), items, pool_grain((double)work * (s->depthwise ? 0.04 : 0.006)),
             nconv_part, &j);
    return 0;
}
