/* blocked_conv_transpose.c -- ConvTranspose of channel-blocked tensors (blocked_isa.h).
 *
 * A product of all pixels by the weights of all taps, then each row of the output collects what the
 * taps bring to it, in a fixed order. With few output channels (kernel arg 1) the output is plain,
 * and the product has taps and channels side by side in its blocks. */
#include "engine/native/op/conv_transpose.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

/* Bytes of input that one pass over the weights works on. */
#define CHUNK_BYTES (128 * 1024)

struct bconvt {
    struct convt c; /* first: convtranspose_prepare() fills it in */
    float *weights, *bias;
    int64_t *off;
    int64_t taps, icb, blocks; /* blocks of products for a pixel */
    int64_t pixels, chunk;
};

static void bconvt_release(void *state)
{
    struct bconvt *q = state;

    native_free(q->weights);
    native_free(q->bias);
    mem_free(q->off);
}

/* Where channel oc's product for a tap is. */
static int64_t lane_of(const struct op *op, const struct bconvt *q, int64_t oc, int64_t tap)
{
    int64_t v = kernel_isa(op)->blk->block;

    return op->kernel->arg == TO_PLAIN ? oc * q->taps + tap : (oc / v * q->taps + tap) * v + oc % v;
}

static int pack(struct op *op, struct bconvt *q, opm_error *err)
{
    const struct nt *bias = kernel_in(op, 2);
    const float *w = kernel_in(op, 1)->data;
    int64_t v = kernel_isa(op)->blk->block, oc = q->c.oc, room = (oc + v - 1) / v * v;

    if (q->weights)
        return 0;
    op->packed_bytes = (size_t)(q->blocks * q->c.ic * v) * sizeof(float);
    q->weights = native_alloc(op->packed_bytes);
    q->bias = native_alloc((size_t)room * sizeof(float));
    if (!q->weights || !q->bias)
        return kernel_nomem(op, err);
    memset(q->weights, 0, op->packed_bytes);
    memset(q->bias, 0, (size_t)room * sizeof(float));
    if (bias)
        memcpy(q->bias, bias->data, bias->bytes);
    for (int64_t ic = 0; ic < q->c.ic; ic++)
        for (int64_t o = 0; o < oc; o++)
            for (int64_t t = 0; t < q->taps; t++) {
                int64_t lane = lane_of(op, q, o, t);

                q->weights[(lane / v * q->c.ic + ic) * v + lane % v] =
                    w[(ic * oc + o) * q->taps + t];
            }
    return 0;
}

int bconvt_prepare(struct op *op, opm_error *err)
{
    struct bconvt *q = kernel_new_state(op, sizeof(*q));
    int64_t v = kernel_isa(op)->blk->block, px = kernel_isa(op)->blk->px,
            threads = pool_threads(kernel_pool(op)), floats;
    int rc;

    if (!q)
        return kernel_nomem(op, err);
    op->release = bconvt_release;
    rc = convtranspose_prepare(op, err);
    if (rc)
        return rc;
    if (op->kernel->arg != TO_PLAIN) {
        struct shape s = kernel_out(op, 0)->shape;

        rc = kernel_set_blocked(op, 0, &s, err);
        if (rc)
            return rc;
    }
    q->taps = window_kernel(&q->c.w);
    q->icb = (q->c.ic + v - 1) / v;
    q->blocks = op->kernel->arg == TO_PLAIN ? (q->c.oc * q->taps + v - 1) / v
                                            : (q->c.oc + v - 1) / v * q->taps;
    q->pixels = window_in(&q->c.w);
    q->chunk = MAX(CHUNK_BYTES / (q->icb * v * 4) / px, (int64_t)1) * px;
    if (__builtin_mul_overflow(q->pixels, q->blocks * v, &floats) || floats > PTRDIFF_MAX / 16)
        return kernel_fail(op, OPM_ELIMIT, err, "the products are too big");
    if (op->kernel->arg == TO_PLAIN)
        floats += threads * q->blocks * v * q->c.w.in[2];
    op->scratch_bytes = (size_t)floats * sizeof(float);
    op->algorithm = "product and collect";
    mem_free(q->off);
    q->off = mem_calloc((size_t)q->icb + 1, sizeof(*q->off));
    if (!q->off)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < q->icb; i++)
        q->off[i] = i * q->pixels * v;
    return pack(op, q, err);
}

struct bconvt_job {
    const struct op *op;
    const struct bconvt *q;
    const struct blk *blk;
    const float *in;
    float *out;     /* of this image */
    float *product; /* [block][pixel] */
};

static void product_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct bconvt_job *j = arg;
    const struct bconvt *q = j->q;
    int64_t v = j->blk->block;
    struct blk_tile t = { .step = v,
                          .w_block = q->c.ic * v,
                          .off = q->off,
                          .steps = q->c.ic / v,
                          .tail_steps = q->c.ic % v != 0,
                          .run = v,
                          .tail_run = q->c.ic % v,
                          .out_block = q->pixels * v };

    (void)thread;
    for (int64_t c = begin; c < end; c++) {
        int64_t x0 = c * q->chunk, n = MIN(q->chunk, q->pixels - x0),
                tiles = (n + j->blk->px - 1) / j->blk->px;

        for (int64_t b = 0; b < q->blocks; b += 2)
            for (int64_t i = 0; i < tiles; i++) {
                int64_t a = x0 + n * i / tiles, px = x0 + n * (i + 1) / tiles - a;
                int blocks = (int)MIN((int64_t)2, q->blocks - b);

                t.w = q->weights + b * t.w_block;
                t.in = j->in + a * v;
                t.out = j->product + (b * q->pixels + a) * v;
                j->blk->tile[STEP_BLOCK][blocks - 1][px - 1](&t);
            }
    }
}

/* The input row that tap k brings to output row y; -1: none. */
static int64_t row_of(const struct window *w, int64_t y, int64_t k)
{
    int64_t at = y + w->before[1] - k * w->dilation[1];

    return at < 0 || at % w->stride[1] || at / w->stride[1] >= w->in[1] ? -1 : at / w->stride[1];
}

/* Input pixels [*x0, *x1) of a row that tap k brings to the output; where the first goes. */
static int64_t span_of(const struct window *w, int64_t k, int64_t *x0, int64_t *x1)
{
    int64_t shift = k * w->dilation[2] - w->before[2], s = w->stride[2];

    *x0 = shift < 0 ? (-shift + s - 1) / s : 0;
    *x1 = w->out[2] - 1 - shift < 0 ? 0 : MIN((w->out[2] - 1 - shift) / s + 1, w->in[2]);
    return *x0 * s + shift;
}

static void collect_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct bconvt_job *j = arg;
    const struct bconvt *q = j->q;
    const struct window *w = &q->c.w;
    int64_t v = j->blk->block;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t ob = i / w->out[1], y = i % w->out[1];
        float *out = j->out + i * w->out[2] * v;

        for (int64_t x = 0; x < w->out[2]; x++)
            memcpy(out + x * v, q->bias + ob * v, (size_t)v * sizeof(*out));
        for (int64_t ky = 0; ky < w->kernel[1]; ky++) {
            int64_t iy = row_of(w, y, ky);

            for (int64_t kx = 0; kx < w->kernel[2] && iy >= 0; kx++) {
                int64_t x0, x1, at = span_of(w, kx, &x0, &x1),
                                b = ob * q->taps + ky * w->kernel[2] + kx;

                if (x0 < x1)
                    j->blk->strew(out + at * v, w->stride[2],
                                  j->product + (b * q->pixels + iy * w->in[2] + x0) * v, x1 - x0);
            }
        }
    }
}

static void collect_plain_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct bconvt_job *j = arg;
    const struct bconvt *q = j->q;
    const struct window *w = &q->c.w;
    int64_t v = j->blk->block, iw = w->in[2], s = w->stride[2];
    float *rows = j->product + q->blocks * q->pixels * v + thread * q->blocks * v * iw;

    for (int64_t y = begin; y < end; y++) {
        for (int64_t o = 0; o < q->c.oc; o++)
            for (int64_t x = 0; x < w->out[2]; x++)
                j->out[(o * w->out[1] + y) * w->out[2] + x] = q->bias[o];
        for (int64_t ky = 0; ky < w->kernel[1]; ky++) {
            int64_t iy = row_of(w, y, ky);

            for (int64_t b = 0; b < q->blocks && iy >= 0; b++)
                j->blk->unpack(rows + b * v * iw, j->product + (b * q->pixels + iy * iw) * v, iw,
                               (int)v, iw);
            for (int64_t o = 0; o < q->c.oc && iy >= 0; o++)
                for (int64_t kx = 0; kx < w->kernel[2]; kx++) {
                    int64_t x0, x1, at = span_of(w, kx, &x0, &x1);
                    const float *from = rows + lane_of(j->op, q, o, ky * w->kernel[2] + kx) * iw;
                    float *to = j->out + (o * w->out[1] + y) * w->out[2] + at;

                    for (int64_t x = x0; x < x1; x++)
                        to[(x - x0) * s] += from[x];
                }
        }
    }
}

int bconvt_run(struct op *op, opm_error *err)
{
    const struct bconvt *q = op->state;
    const struct window *w = &q->c.w;
    struct bconvt_job j = { .op = op, .q = q, .blk = kernel_isa(op)->blk, .product = op->scratch };
    int64_t v = j.blk->block, ocb = (q->c.oc + v - 1) / v,
            image = window_out(w) * (op->kernel->arg == TO_PLAIN ? q->c.oc : ocb * v);

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    for (int64_t n = 0; n < q->c.n; n++) {
        j.in = (const float *)kernel_in(op, 0)->data + n * q->icb * q->pixels * v;
        j.out = (float *)kernel_out(op, 0)->data + n * image;
        pool_for(kernel_pool(op), (q->pixels + q->chunk - 1) / q->chunk, 1, product_part, &j);
        if (op->kernel->arg == TO_PLAIN)
            pool_for(kernel_pool(op), w->out[1], 4, collect_plain_part, &j);
        else
            pool_for(kernel_pool(op), ocb * w->out[1], 4, collect_part, &j);
    }
    return 0;
}
