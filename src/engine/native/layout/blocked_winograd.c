/* blocked_winograd.c -- 3 x 3 convolutions of stride 1 by Winograd's F(4x4, 3x3): 4 x 4 outputs
 * from 36 products instead of 144.
 *
 * A chunk of tiles at a time: inputs are transformed to v[36][block][tile], multiplied by the
 * transformed weights u[36] to m[36][block][tile], and transformed back. Threads take chunks of
 * their own; where there are few tiles and many weights they share each chunk, first by input
 * blocks, then by output blocks, so that each reads only its part of the weights. */
#include "engine/native/layout/blocked_conv.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define POINTS 36
/* v and m of a chunk should stay in the second-level cache. */
#define CHUNK_BYTES (640 * 1024)
/* Transformed weights beyond this come from memory in each run. */
#define CACHE_BYTES (8 * 1024 * 1024)

static int64_t tiles_of(const struct blk_conv *b)
{
    const struct window *w = &b->c.w;

    return b->c.n * ((w->out[1] + 3) / 4) * ((w->out[2] + 3) / 4);
}

static int64_t chunk_of(const struct op *op, const struct blk_conv *b, int64_t tiles)
{
    int64_t px = kernel_isa(op)->blk->px,
            fit = CHUNK_BYTES / (POINTS * 4 * (b->icb + b->ocb) * kernel_isa(op)->blk->block);

    fit = MAX(fit / px * px, 2 * px);
    return MIN(fit, tiles);
}

/* Estimated cycles, counting one vector product per cycle: what counts are the products, the
 * transforms of each tile, and the weights, which are four times as many. */
bool wino_wins(const struct op *op, const struct blk_conv *b)
{
    const struct window *w = &b->c.w;
    int64_t block = kernel_isa(op)->blk->block, tiles = tiles_of(b), out = window_out(w) * b->c.n;
    double direct, wino, bytes, chunks;

    /* Groups that were joined to a single one still have the weights of several. */
    if (w->nd != 2 || w->kernel[1] != 3 || w->kernel[2] != 3 || w->stride[1] != 1 ||
        w->stride[2] != 1 || w->dilation[1] != 1 || w->dilation[2] != 1 || b->c.groups != 1 ||
        b->plain || tiles == 0 || b->icg < 8 || b->ocg < 8)
        return false;
    chunks = (double)((tiles + chunk_of(op, b, tiles) - 1) / chunk_of(op, b, tiles));
    bytes = (double)(POINTS * b->icg * b->ocb * block) * 4;
    direct = (double)(out * b->ocb * b->icg * 9) * 1.1;
    wino = (double)(tiles * POINTS * b->ocb * b->icg) * 1.2;
    wino = MAX(wino, chunks * bytes / (bytes > CACHE_BYTES ? 4 : 16));
    wino += (double)tiles * (double)(b->icb * 160 + b->ocb * 140);
    return wino < 0.9 * direct;
}

int wino_prepare(struct op *op, struct blk_conv *b, opm_error *err)
{
    const struct window *w = &b->c.w;
    struct blk_wino *q = &b->w;
    int64_t v = kernel_isa(op)->blk->block, threads = pool_threads(kernel_pool(op)), copies;

    q->th = (w->out[1] + 3) / 4;
    q->tw = (w->out[2] + 3) / 4;
    q->tiles = tiles_of(b);
    q->chunk = chunk_of(op, b, q->tiles);
    q->chunks = (q->tiles + q->chunk - 1) / q->chunk;
    q->together = threads > 1 && q->chunks < 2 * threads &&
                  q->tiles * (b->icg + b->ocg) < 2 * b->icg * b->ocg;
    if (threads > 1 && !q->together) {
        q->chunks = (q->chunks + threads - 1) / threads * threads;
        q->chunk = (q->tiles + q->chunks - 1) / q->chunks;
        q->chunks = (q->tiles + q->chunk - 1) / q->chunk;
    }
    copies = q->together ? 1 : MIN(threads, q->chunks);
    op->scratch_bytes =
        (size_t)(copies * POINTS * q->chunk * (b->icb + b->ocb) * v) * sizeof(float);
    mem_free(q->off);
    q->off = mem_calloc((size_t)b->icb + 1, sizeof(*q->off));
    if (!q->off)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < b->icb; i++)
        q->off[i] = i * q->chunk * v;
    return 0;
}

struct pack_job {
    const struct op *op;
    const struct blk_conv *b;
    const float *w;
};

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    const struct blk_conv *b = j->b;
    const struct blk *blk = kernel_isa(j->op)->blk;
    int64_t v = blk->block;

    (void)thread;
    for (int64_t ob = begin; ob < end; ob++)
        for (int64_t ic = 0; ic < b->icg; ic++)
            blk->wino_weights(b->weights + (ob * b->icg + ic) * v, b->ocb * b->icg * v,
                              j->w + (ob * v * b->icg + ic) * 9, b->icg * 9,
                              (int)MIN(v, b->ocg - ob * v));
}

void wino_pack(const struct op *op, const struct blk_conv *b, const float *w)
{
    struct pack_job j = { op, b, w };

    pool_for(kernel_pool(op), b->ocb, 1, pack_part, &j);
}

struct wino_job {
    const struct op *op;
    const struct blk_conv *b;
    const struct blk *blk;
    struct blk_ending ending;
    const float *in;
    float *out, *v, *m;
    int64_t chunk; /* that all work on, if they do */
};

/* Where tile number t lies. */
static void tile_at(const struct blk_wino *q, int64_t t, int64_t *n, int64_t *y, int64_t *x)
{
    *x = t % q->tw * 4;
    *y = t / q->tw % q->th * 4;
    *n = t / (q->tw * q->th);
}

static void transform_in(const struct wino_job *j, float *v, int64_t chunk, int64_t ib0,
                         int64_t ib1)
{
    const struct blk_conv *b = j->b;
    const struct window *w = &b->c.w;
    const struct blk_wino *q = &b->w;
    int64_t bl = j->blk->block, t0 = chunk * q->chunk, t1 = MIN(t0 + q->chunk, q->tiles);
    int64_t gap = b->icb * q->chunk * bl, plane = w->in[1] * w->in[2] * bl;
    float frame[36 * 16] __attribute__((aligned(64)));

    for (int64_t ib = ib0; ib < ib1; ib++)
        for (int64_t t = t0; t < t1; t++) {
            int64_t n, y, x;
            float *to = v + (ib * q->chunk + t - t0) * bl;
            const float *from;

            tile_at(q, t, &n, &y, &x);
            y -= w->before[1];
            x -= w->before[2];
            from = j->in + (n * b->icb + ib) * plane;
            if (y >= 0 && x >= 0 && y + 6 <= w->in[1] && x + 6 <= w->in[2]) {
                j->blk->wino_in(to, gap, from + (y * w->in[2] + x) * bl, w->in[2] * bl);
                continue;
            }
            int64_t lo = MIN(MAX(-x, (int64_t)0), (int64_t)6),
                    hi = MAX(MIN(w->in[2] - x, (int64_t)6), lo);

            memset(frame, 0, (size_t)(36 * bl) * sizeof(*frame));
            for (int64_t r = 0; r < 6; r++)
                if (y + r >= 0 && y + r < w->in[1])
                    memcpy(frame + (r * 6 + lo) * bl, from + ((y + r) * w->in[2] + x + lo) * bl,
                           (size_t)((hi - lo) * bl) * sizeof(*frame));
            j->blk->wino_in(to, gap, frame, 6 * bl);
        }
}

static void multiply(const struct wino_job *j, const float *v, float *m, int64_t chunk, int64_t ob0,
                     int64_t ob1)
{
    const struct blk_conv *b = j->b;
    const struct blk_wino *q = &b->w;
    int64_t bl = j->blk->block, n = MIN(q->chunk, q->tiles - chunk * q->chunk),
            parts = (n + j->blk->px - 1) / j->blk->px;
    struct blk_tile t = { .step = bl,
                          .w_block = b->icg * bl,
                          .off = q->off,
                          .steps = b->icg / bl,
                          .tail_steps = b->icg % bl != 0,
                          .run = bl,
                          .tail_run = b->icg % bl,
                          .out_block = q->chunk * bl };

    for (int64_t p = 0; p < POINTS; p++)
        for (int64_t ob = ob0; ob < ob1; ob += 2) {
            int blocks = (int)MIN((int64_t)2, ob1 - ob);

            t.w = b->weights + (p * b->ocb + ob) * b->icg * bl;
            for (int64_t i = 0; i < parts; i++) {
                int64_t a = n * i / parts, px = n * (i + 1) / parts - a;

                t.in = v + (p * b->icb * q->chunk + a) * bl;
                t.out = m + ((p * b->ocb + ob) * q->chunk + a) * bl;
                j->blk->tile[STEP_BLOCK][blocks - 1][px - 1](&t);
            }
        }
}

static void transform_out(const struct wino_job *j, const float *m, int64_t chunk, int64_t ob0,
                          int64_t ob1)
{
    const struct blk_conv *b = j->b;
    const struct window *w = &b->c.w;
    const struct blk_wino *q = &b->w;
    int64_t bl = j->blk->block, t0 = chunk * q->chunk, t1 = MIN(t0 + q->chunk, q->tiles);
    int64_t gap = b->ocb * q->chunk * bl, pitch = w->out[2] * bl;
    struct blk_end end = j->ending.end;

    for (int64_t ob = ob0; ob < ob1; ob++)
        for (int64_t t = t0; t < t1; t++) {
            int64_t n, y, x, at;
            int rows, cols;

            tile_at(q, t, &n, &y, &x);
            at = ((n * b->ocb + ob) * w->out[1] + y) * pitch + x * bl;
            rows = (int)MIN((int64_t)4, w->out[1] - y);
            cols = (int)MIN((int64_t)4, w->out[2] - x);
            if (end.add)
                end.add = j->ending.end.add + at;
            j->blk->wino_out(j->out + at, pitch, rows, cols, m + (ob * q->chunk + t - t0) * bl, gap,
                             b->bias ? b->bias + ob * bl : NULL, &end);
            if (j->ending.rest < j->op->npost)
                for (int r = 0; r < rows; r++)
                    blk_ending_rest(&j->ending, j->out, at + r * pitch, cols * bl);
        }
}

static void chunk_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct wino_job *j = arg;
    const struct blk_conv *b = j->b;
    int64_t bl = j->blk->block, per = POINTS * b->w.chunk * (b->icb + b->ocb) * bl;
    float *v = j->v + thread * per, *m = v + POINTS * b->w.chunk * b->icb * bl;

    for (int64_t c = begin; c < end; c++) {
        transform_in(j, v, c, 0, b->icb);
        multiply(j, v, m, c, 0, b->ocb);
        transform_out(j, m, c, 0, b->ocb);
    }
}

static void in_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct wino_job *j = arg;

    (void)thread;
    transform_in(j, j->v, j->chunk, begin, end);
}

static void out_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct wino_job *j = arg;

    (void)thread;
    multiply(j, j->v, j->m, j->chunk, begin, end);
    transform_out(j, j->m, j->chunk, begin, end);
}

void wino_run(struct op *op, struct blk_conv *b)
{
    struct wino_job j = { .op = op, .b = b, .blk = kernel_isa(op)->blk };

    blk_ending_begin(&j.ending, op);
    j.in = kernel_in(op, 0)->data;
    j.out = kernel_out(op, 0)->data;
    j.v = op->scratch;
    j.m = j.v + POINTS * b->w.chunk * b->icb * j.blk->block;
    if (!b->w.together) {
        pool_for(kernel_pool(op), b->w.chunks, 1, chunk_part, &j);
        return;
    }
    for (j.chunk = 0; j.chunk < b->w.chunks; j.chunk++) {
        pool_for(kernel_pool(op), b->icb, 1, in_part, &j);
        pool_for(kernel_pool(op), b->ocb, 1, out_part, &j);
    }
}
