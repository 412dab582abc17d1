/* nhwc_ops.c -- what stands between 8-bit convolutions, on tensors whose channels come last
 * (nhwc.h): sums and products, functions of one operand, pooling, Concat of channels. */
#include "engine/native/isa/shuffle.h"
#include "engine/native/isa/target.h"
#include "engine/native/layout/nhwc.h"
#include "engine/native/math/q8.h"
#include "engine/native/math/window.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Bytes of element-wise work that are worth a thread. */
#define GRAIN 16384

static float real(const struct op *op, uint32_t slot)
{
    return *(const float *)kernel_in(op, slot)->data;
}

/* A zero point as that of unsigned bytes. */
static int32_t zero_of(const struct op *op, uint32_t value, uint32_t zero)
{
    return q8_zero(kernel_in(op, zero), 0) + nhwc_flip(kernel_in(op, value)->type);
}

static int64_t pixels_of(const struct shape *s)
{
    return nt_span(s, 2, s->rank);
}

/* Two operands: A, its scale and zero point, B and its, the scale and zero point of the result. */

int nbinary_prepare(struct op *op, opm_error *err)
{
    const struct nt *a = kernel_in(op, 0), *b = kernel_in(op, 3), *z = kernel_in(op, 7);
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (!rc)
        rc = kernel_want(op, 3, TYPES_Q8, err);
    if (rc)
        return rc;
    s = a->shape;
    for (int32_t i = 0; i < s.rank; i++) {
        if (a->shape.dim[i] != b->shape.dim[i] && a->shape.dim[i] != 1 && b->shape.dim[i] != 1)
            return kernel_fail(op, OPM_EINVAL, err, "operands do not broadcast");
        s.dim[i] = a->shape.dim[i] == 1 ? b->shape.dim[i] : a->shape.dim[i];
    }
    return nhwc_set(op, 0, z ? z->type : TENSOR_U8, &s, err);
}

void nhwc_add_of(const struct op *op, uint32_t a_scale, enum tensor_type a, uint32_t b_scale,
                 enum tensor_type b, uint32_t y_scale, struct nhwc_add *out)
{
    struct nhwc_end end = nhwc_end_of(op, y_scale, y_scale + 1);
    int32_t flip = nhwc_flip(kernel_out(op, 0)->type);
    struct q8_pair p = { .a_zero = q8_zero(kernel_in(op, a_scale + 1), 0),
                         .b_zero = q8_zero(kernel_in(op, b_scale + 1), 0) };

    q8_pair_scales(&p, real(op, a_scale), real(op, b_scale), real(op, y_scale), end.zero - flip);
    *out = (struct nhwc_add){ .a_scale = p.a_scale,
                              .b_scale = p.b_scale,
                              .offset = p.offset,
                              .a_flip = (float)nhwc_flip(a),
                              .b_flip = (float)nhwc_flip(b),
                              .flip = flip,
                              .lo = end.lo,
                              .hi = end.hi };
}

bool nhwc_add_fits(const struct op *op, uint32_t a_scale, uint32_t b_scale, uint32_t y_scale)
{
    double a = tensor_float(kernel_const(op, a_scale), 0),
           b = tensor_float(kernel_const(op, b_scale), 0),
           y = tensor_float(kernel_const(op, y_scale), 0);

    return (fabs(a / y) + fabs(b / y)) * 1024 < 0x1p30;
}

struct nbinary_job {
    const struct q8_isa *isa;
    const struct nhwc_isa *nhwc;
    struct q8_pair pair;
    struct nhwc_add add;
    const uint8_t *a, *b;
    uint8_t *out;
    int64_t pitch, h, w;
    int64_t a_step[3], b_step[3]; /* in bytes, by image, row and pixel; 0: the same for all */
};

static void pairs(const struct nbinary_job *j, uint8_t *out, const uint8_t *a, const uint8_t *b,
                  int64_t n)
{
    if (j->pair.product)
        j->isa->pair(out, a, b, n, &j->pair);
    else
        j->nhwc->add(out, a, b, n, &j->add);
}

/* Units, where both have the same pixels. */
static void nbinary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct nbinary_job *j = arg;
    int64_t at = begin * NHWC_UNIT;

    (void)thread;
    pairs(j, j->out + at, j->a + at, j->b + at, (end - begin) * NHWC_UNIT);
}

/* Pixels, where one operand has fewer. */
static void spread_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct nbinary_job *j = arg;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t at[3] = { i / (j->h * j->w), i / j->w % j->h, i % j->w };
        const uint8_t *a = j->a, *b = j->b;

        for (int d = 0; d < 3; d++) {
            a += at[d] * j->a_step[d];
            b += at[d] * j->b_step[d];
        }
        pairs(j, j->out + i * j->pitch, a, b, j->pitch);
    }
}

static void steps_of(const struct shape *s, int64_t pitch, int64_t *step)
{
    int64_t h = s->rank == 4 ? s->dim[2] : 1, w = s->dim[s->rank - 1];

    step[0] = s->dim[0] == 1 ? 0 : h * w * pitch;
    step[1] = h == 1 ? 0 : w * pitch;
    step[2] = w == 1 ? 0 : pitch;
}

int nbinary_run(struct op *op, opm_error *err)
{
    const struct nt *a = kernel_in(op, 0), *b = kernel_in(op, 3), *out = kernel_out(op, 0);
    float a_scale = real(op, 1), b_scale = real(op, 4), y = real(op, 6);
    struct nhwc_end end = nhwc_end_of(op, 6, 7);
    struct nbinary_job j = {
        .isa = kernel_q8(op), .nhwc = kernel_nhwc(op), .a = a->data, .b = b->data, .out = out->data
    };
    int64_t pixels = out->shape.dim[0] * pixels_of(&out->shape);

    (void)err;
    if (!out->count)
        return 0;
    j.pair = (struct q8_pair){ .product = op->kernel->arg == QELEM_MUL,
                               .a_step = 1,
                               .b_step = 1,
                               .a_zero = zero_of(op, 0, 2),
                               .b_zero = zero_of(op, 3, 5),
                               .lo = end.lo,
                               .hi = end.hi };
    q8_pair_scales(&j.pair, a_scale, b_scale, y, end.zero);
    nhwc_add_of(op, 1, a->type, 4, b->type, 6, &j.add);
    j.pitch = nhwc_pitch(out->shape.dim[1]);
    if (shape_equal(&a->shape, &b->shape)) {
        pool_for(kernel_pool(op), pixels * j.pitch / NHWC_UNIT, GRAIN / NHWC_UNIT, nbinary_part,
                 &j);
        return 0;
    }
    j.h = out->shape.rank == 4 ? out->shape.dim[2] : 1;
    j.w = out->shape.dim[out->shape.rank - 1];
    steps_of(&a->shape, j.pitch, j.a_step);
    steps_of(&b->shape, j.pitch, j.b_step);
    pool_for(kernel_pool(op), pixels, MAX(GRAIN / j.pitch, (int64_t)1), spread_part, &j);
    return 0;
}

/* Pooling */

/* X, its scale and zero point, the scale and zero point of the result. MaxPool: X only. */
struct npool {
    struct window w;
    int64_t in_h, in_w, pitch, channels;
};

int npool_prepare(struct op *op, opm_error *err)
{
    struct npool *q = kernel_new_state(op, sizeof(*q));
    const struct nt *x = kernel_in(op, 0),
                    *z = op->kernel->arg == QPOOL_MAX ? NULL : kernel_in(op, 4);
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (!q)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    if (z && z->type != x->type)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    q->pitch = nhwc_pitch(x->shape.dim[1]);
    if (op->kernel->arg == QPOOL_GLOBAL || op->kernel->arg == QPOOL_MEAN) {
        s = qpool_mean_shape(op);
        return s.rank == 2 ? kernel_set(op, 0, x->type, &s, err)
                           : nhwc_set(op, 0, x->type, &s, err);
    }
    rc = window_pool(&q->w, op, &x->shape, &s, err);
    if (rc)
        return rc;
    op->scratch_bytes = (size_t)q->pitch * sizeof(int32_t) * (size_t)pool_threads(kernel_pool(op));
    return nhwc_set(op, 0, x->type, &s, err);
}

/* n sums of `count` bytes each on their way out. */
static void emit_means(const struct op *op, const int32_t *sum, int64_t n, int64_t count,
                       uint8_t *out)
{
    struct nhwc_end end = nhwc_end_of(op, 3, 4);
    float scale = real(op, 1) / (real(op, 3) * (float)MAX(count, (int64_t)1));
    int32_t add = -(int32_t)count * zero_of(op, 0, 2);
    struct q8_out o = {
        .add = &add, .scale = &scale, .lo = end.lo, .hi = end.hi, .zero = end.zero
    };

    kernel_q8(op)->to_bytes(out, sum, n, &o);
}

/* The same for a unit of channels of a plain result N x C. */
static void plain_means(const struct op *op, const int32_t *sum, int64_t n, int64_t c,
                        int64_t count)
{
    const struct nt *out = kernel_out(op, 0);
    int64_t channels = out->shape.dim[1], have = MIN((int64_t)NHWC_UNIT, channels - c);
    uint8_t unit[NHWC_UNIT], *to = (uint8_t *)out->data + n * channels + c;

    emit_means(op, sum, NHWC_UNIT, count, unit);
    for (int64_t i = 0; i < have; i++)
        to[i] = unit[i] ^ nhwc_flip(out->type);
}

/* One unit of channels of one image. */
static void global_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct npool *q = op->state;
    const struct nt *x = kernel_in(op, 0);
    int64_t pixels = pixels_of(&x->shape), units = q->pitch / NHWC_UNIT;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / units, c = i % units * NHWC_UNIT;
        const uint8_t *in = (const uint8_t *)x->data + n * pixels * q->pitch + c;
        int32_t sum[NHWC_UNIT];

        kernel_nhwc(op)->sum(sum, in, pixels, q->pitch);
        if (kernel_out(op, 0)->shape.rank > 2)
            emit_means(op, sum, NHWC_UNIT, pixels,
                       (uint8_t *)kernel_out(op, 0)->data + n * q->pitch + c);
        else
            plain_means(op, sum, n, c, pixels);
    }
}

/* Taps [*lo, *hi) of dimension d that lie inside for an output at o. */
static void inside(const struct window *w, int d, int64_t o, int64_t *start, int64_t *lo,
                   int64_t *hi)
{
    int64_t s = o * w->stride[d] - w->before[d], dl = w->dilation[d];

    *lo = s < 0 ? MIN((-s + dl - 1) / dl, w->kernel[d]) : 0;
    *hi = s >= w->in[d] ? *lo : MIN((w->in[d] - 1 - s) / dl + 1, w->kernel[d]);
    *hi = MAX(*hi, *lo);
    *start = s;
}

static void average_pixel(const struct op *op, const struct npool *q, const uint8_t *in,
                          int64_t rows, int64_t cols, int32_t *sum, uint8_t *out)
{
    const struct window *w = &q->w;
    int64_t row = w->in[2] * w->dilation[1] * q->pitch, n = rows * cols;

    memset(sum, 0, (size_t)q->pitch * sizeof(*sum));
    for (int64_t r = 0; r < rows; r++)
        for (int64_t k = 0; k < cols; k++) {
            const uint8_t *from = in + r * row + k * w->dilation[2] * q->pitch;

            for (int64_t c = 0; c < q->pitch; c++)
                sum[c] += from[c];
        }
    if (node_attr_int(op->node, "count_include_pad", 0)) { /* they hold the zero point */
        int32_t pads = (int32_t)(w->kernel[1] * w->kernel[2] - n) * zero_of(op, 0, 2);

        for (int64_t c = 0; c < q->pitch; c++)
            sum[c] += pads;
        n = w->kernel[1] * w->kernel[2];
    }
    emit_means(op, sum, q->pitch, n, out);
}

static void window_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct npool *q = op->state;
    const struct window *w = &q->w;
    int32_t *sum = (int32_t *)op->scratch + thread * q->pitch;

    for (int64_t i = begin; i < end; i++) {
        int64_t ox = i % w->out[2], oy = i / w->out[2] % w->out[1], n = i / (w->out[2] * w->out[1]),
                y, y0, y1, x, x0, x1;
        uint8_t *out = (uint8_t *)kernel_out(op, 0)->data + i * q->pitch;
        const uint8_t *in;

        inside(w, 1, oy, &y, &y0, &y1);
        inside(w, 2, ox, &x, &x0, &x1);
        if (y1 == y0 || x1 == x0)
            y1 = y0, x1 = x0, y = -y0 * w->dilation[1], x = -x0 * w->dilation[2];
        in = (const uint8_t *)kernel_in(op, 0)->data +
             ((n * w->in[1] + y + y0 * w->dilation[1]) * w->in[2] + x + x0 * w->dilation[2]) *
                 q->pitch;
        if (op->kernel->arg == QPOOL_MAX)
            kernel_nhwc(op)->largest(out, in, q->pitch, y1 - y0,
                                     w->in[2] * w->dilation[1] * q->pitch, x1 - x0,
                                     w->dilation[2] * q->pitch);
        else
            average_pixel(op, q, in, y1 - y0, x1 - x0, sum, out);
    }
}

int npool_run(struct op *op, opm_error *err)
{
    const struct npool *q = op->state;
    const struct nt *out = kernel_out(op, 0);

    (void)err;
    if (!out->count)
        return 0;
    if (op->kernel->arg == QPOOL_GLOBAL || op->kernel->arg == QPOOL_MEAN)
        pool_for(kernel_pool(op), out->shape.dim[0] * q->pitch / NHWC_UNIT,
                 MAX(GRAIN / (NHWC_UNIT * pixels_of(&kernel_in(op, 0)->shape) + 1), (int64_t)1),
                 global_part, op);
    else
        pool_for(kernel_pool(op), out->shape.dim[0] * pixels_of(&out->shape),
                 MAX(GRAIN / (q->pitch * q->w.kernel[1] * q->w.kernel[2]), (int64_t)1), window_part,
                 op);
    return 0;
}

/* Functions of one operand, and Concat: by tables, as the plain ones */

struct lookup_job {
    const struct q8_isa *isa;
    uint8_t table[256];
    const uint8_t *in;
    uint8_t *out;
    int64_t bytes, in_pitch, out_pitch; /* of a pixel: those that are moved */
};

/* For bytes that are unsigned here. */
static void flip_table(uint8_t *table, enum tensor_type in, enum tensor_type out)
{
    uint8_t plain[256];

    memcpy(plain, table, sizeof(plain));
    for (int i = 0; i < 256; i++)
        table[i] = plain[i ^ nhwc_flip(in)] ^ nhwc_flip(out);
}

static void lookup_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct lookup_job *j = arg;

    (void)thread;
    if (j->in_pitch == j->bytes && j->out_pitch == j->bytes) {
        j->isa->lookup(j->out + begin * j->bytes, j->in + begin * j->bytes,
                       (end - begin) * j->bytes, j->table);
        return;
    }
    for (int64_t p = begin; p < end; p++)
        j->isa->lookup(j->out + p * j->out_pitch, j->in + p * j->in_pitch, j->bytes, j->table);
}

int nunary_prepare(struct op *op, opm_error *err)
{
    const struct nt *z = kernel_in(op, 4);
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    return rc ? rc : nhwc_set(op, 0, z ? z->type : TENSOR_U8, &kernel_in(op, 0)->shape, err);
}

int nunary_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0);
    struct lookup_job j = { .isa = kernel_q8(op), .in = in->data, .out = out->data };

    (void)err;
    q8_table_unary(op, j.table);
    flip_table(j.table, in->type, out->type);
    j.bytes = j.in_pitch = j.out_pitch = nhwc_pitch(in->shape.dim[1]);
    if (out->count)
        pool_for(kernel_pool(op), in->shape.dim[0] * pixels_of(&in->shape),
                 MAX(GRAIN / j.bytes, (int64_t)1), lookup_part, &j);
    return 0;
}

/* Scale and zero point of the result, then for each input itself, its scale and zero point. */
int nconcat_prepare(struct op *op, opm_error *err)
{
    const struct nt *z = kernel_in(op, 1);
    struct shape s = { 0 };
    int rc = 0;

    for (uint32_t i = 2; i < op->nin && !rc; i += 3) {
        const struct nt *x = kernel_in(op, i);

        rc = kernel_want(op, i, TYPES_Q8, err);
        if (rc)
            return rc;
        for (int32_t d = 0; d < s.rank; d++)
            if (x->shape.rank != s.rank || (d != 1 && x->shape.dim[d] != s.dim[d]))
                return kernel_fail(op, OPM_EINVAL, err, "inputs do not fit");
        if (i == 2)
            s = x->shape;
        else
            s.dim[1] += x->shape.dim[1];
    }
    return nhwc_set(op, 0, z ? z->type : TENSOR_U8, &s, err);
}

int nconcat_run(struct op *op, opm_error *err)
{
    const struct nt *out = kernel_out(op, 0);
    int64_t at = 0;

    (void)err;
    for (uint32_t i = 2; i < op->nin && out->count; i += 3) {
        const struct nt *in = kernel_in(op, i);
        struct lookup_job j = { .isa = kernel_q8(op),
                                .in = in->data,
                                .out = (uint8_t *)out->data + at,
                                .bytes = in->shape.dim[1],
                                .in_pitch = nhwc_pitch(in->shape.dim[1]),
                                .out_pitch = nhwc_pitch(out->shape.dim[1]) };

        q8_table_concat(op, i, j.table);
        flip_table(j.table, in->type, out->type);
        pool_for(kernel_pool(op), out->shape.dim[0] * pixels_of(&out->shape),
                 MAX(GRAIN / MAX(j.bytes, (int64_t)1), (int64_t)1), lookup_part, &j);
        at += j.bytes;
    }
    return 0;
}

/* A part of the channels, or all of them in another order */

int npick_prepare(struct op *op, opm_error *err)
{
    enum tensor_type type;
    struct shape s;
    int rc = q8_pick_gives(op, &type, &s, err);

    return rc ? rc : nhwc_set(op, 0, type, &s, err);
}

struct npick_job {
    struct q8_pick pick;
    const struct q8_isa *isa;
    const uint8_t *in;
    uint8_t *out;
    int64_t in_pitch, out_pitch, channels;
};

/* Two groups: their channels in turn. */
static void zip(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n)
{
    typedef uint8_t unit __attribute__((vector_size(16)));
    int64_t i = 0;

    for (; i + 16 <= n; i += 16) {
        unit x, y, z[2];

        memcpy(&x, a + i, sizeof(x));
        memcpy(&y, b + i, sizeof(y));
        z[0] =
            __builtin_shufflevector(x, y, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        z[1] = __builtin_shufflevector(x, y, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30,
                                       15, 31);
        memcpy(out + 2 * i, z, sizeof(z));
    }
    for (; i < n; i++) {
        out[2 * i] = a[i];
        out[2 * i + 1] = b[i];
    }
}

static void npick_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct npick_job *j = arg;
    int64_t groups = j->pick.groups, per = groups ? j->channels / groups : 0;

    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        const uint8_t *in = j->in + p * j->in_pitch;
        uint8_t *out = j->out + p * j->out_pitch;

        if (!groups && j->pick.moves)
            memcpy(out, in + j->pick.first, (size_t)j->pick.n);
        else if (!groups)
            j->isa->lookup(out, in + j->pick.first, j->pick.n, j->pick.table);
        else if (groups == 2)
            zip(out, in, in + per, per);
        else
            for (int64_t i = 0; i < per; i++)
                for (int64_t g = 0; g < groups; g++)
                    out[i * groups + g] = in[g * per + i];
    }
}

int npick_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0);
    struct npick_job j = { .isa = kernel_q8(op),
                           .in = in->data,
                           .out = out->data,
                           .in_pitch = nhwc_pitch(in->shape.dim[1]),
                           .out_pitch = nhwc_pitch(out->shape.dim[1]),
                           .channels = in->shape.dim[1] };

    (void)err;
    q8_pick_of(op, &j.pick);
    flip_table(j.pick.table, in->type, out->type);
    j.pick.moves = j.pick.moves && in->type == out->type;
    if (out->count)
        pool_for(kernel_pool(op), in->shape.dim[0] * pixels_of(&in->shape),
                 MAX(GRAIN / j.out_pitch, (int64_t)1), npick_part, &j);
    return 0;
}

/* Plain tensors to pixels and back */

struct nreorder_job {
    const uint8_t *in;
    uint8_t *out;
    int64_t channels, pixels, pitch;
    uint8_t flip;
};

#define SQUARE 16
typedef uint8_t line __attribute__((vector_size(SQUARE)));

/* Rows i and i + 8, place by place: four times over, rows are columns. */
static inline __attribute__((always_inline)) void turn(line *v)
{
    UNROLL for (int step = 0; step < 4; step++)
    {
        line w[SQUARE];

        UNROLL for (int i = 0; i < SQUARE / 2; i++)
        {
            w[2 * i] = __builtin_shufflevector(v[i], v[i + 8], 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5,
                                               21, 6, 22, 7, 23);
            w[2 * i + 1] = __builtin_shufflevector(v[i], v[i + 8], 8, 24, 9, 25, 10, 26, 11, 27, 12,
                                                   28, 13, 29, 14, 30, 15, 31);
        }
        memcpy(v, w, sizeof(w));
    }
}

/* out[i][k] = in[k][i] ^ flip of a square, of which `rows` rows and `columns` columns are there;
 * rows of the input that are not become zeros. */
static inline __attribute__((always_inline)) void turn_square(uint8_t *out, int64_t out_pitch,
                                                              const uint8_t *in, int64_t in_pitch,
                                                              int64_t rows, int64_t columns,
                                                              int64_t width, uint8_t flip)
{
    line v[SQUARE];

    memset(v, flip, sizeof(v));
    for (int64_t i = 0; i < rows; i++)
        memcpy(&v[i], in + i * in_pitch, (size_t)columns);
    turn(v);
    for (int64_t i = 0; i < columns; i++) {
        v[i] ^= flip;
        memcpy(out + i * out_pitch, &v[i], (size_t)width);
    }
}

/* SQUARE pixels of one image at a time. */
static void to_pixels(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct nreorder_job *j = arg;
    int64_t per = (j->pixels + SQUARE - 1) / SQUARE;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / per, p = i % per * SQUARE, pixels = MIN((int64_t)SQUARE, j->pixels - p);
        const uint8_t *in = j->in + n * j->channels * j->pixels + p;
        uint8_t *out = j->out + (n * j->pixels + p) * j->pitch;

        for (int64_t c = 0; c < j->pitch; c += SQUARE) {
            int64_t channels = MIN((int64_t)SQUARE, j->channels - c);

            if (channels == SQUARE && pixels == SQUARE)
                turn_square(out + c, j->pitch, in + c * j->pixels, j->pixels, SQUARE, SQUARE,
                            SQUARE, j->flip);
            else
                turn_square(out + c, j->pitch, in + c * j->pixels, j->pixels, channels, pixels,
                            SQUARE, j->flip);
        }
    }
}

static void to_planes(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct nreorder_job *j = arg;
    int64_t per = (j->pixels + SQUARE - 1) / SQUARE;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / per, p = i % per * SQUARE, pixels = MIN((int64_t)SQUARE, j->pixels - p);
        const uint8_t *in = j->in + (n * j->pixels + p) * j->pitch;
        uint8_t *out = j->out + n * j->channels * j->pixels + p;

        for (int64_t c = 0; c < j->channels; c += SQUARE) {
            int64_t channels = MIN((int64_t)SQUARE, j->channels - c);

            if (channels == SQUARE && pixels == SQUARE)
                turn_square(out + c * j->pixels, j->pixels, in + c, j->pitch, SQUARE, SQUARE,
                            SQUARE, j->flip);
            else
                turn_square(out + c * j->pixels, j->pixels, in + c, j->pitch, pixels, channels,
                            pixels, j->flip);
        }
    }
}

int nreorder_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (rc)
        return rc;
    if (in->shape.rank < 3 || in->shape.rank > 4)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x one or two dimensions");
    return op->kernel->arg == TO_PLAIN ? kernel_set(op, 0, in->type, &in->shape, err)
                                       : nhwc_set(op, 0, in->type, &in->shape, err);
}

int nreorder_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nreorder_job j = { .in = in->data,
                              .out = kernel_out(op, 0)->data,
                              .channels = in->shape.dim[1],
                              .pixels = pixels_of(&in->shape),
                              .pitch = nhwc_pitch(in->shape.dim[1]),
                              .flip = nhwc_flip(in->type) };

    (void)err;
    if (in->count)
        pool_for(kernel_pool(op), in->shape.dim[0] * ((j.pixels + SQUARE - 1) / SQUARE),
                 MAX(GRAIN / (SQUARE * j.pitch), (int64_t)1),
                 op->kernel->arg == TO_PLAIN ? to_planes : to_pixels, &j);
    return 0;
}
