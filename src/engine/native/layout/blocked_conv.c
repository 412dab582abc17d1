/* blocked_conv.c -- Conv on channel-blocked tensors: direct and depthwise; Winograd is in
 * blocked_winograd.c.
 *
 * Directly: tiles of up to blk->px pixels by two blocks of output channels are summed up in
 * registers over all input channels and taps, the weights lying in the order of use. Borders cost
 * nothing in the inner loop: where the window sticks out, the input is first copied, some rows at a
 * time, into a frame of zeros. */
#include "engine/native/layout/blocked_conv.h"

#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Bytes of input that one pass over the weights works on; they stay in the second-level cache. */
#define CHUNK_BYTES (256 * 1024)
/* Depthwise kernels with more rows are left to the plain way. */
#define DEPTHWISE_ROWS 16
/* Floats of an input with its borders, times the stride; beyond that nothing is meant seriously. */
#define PADDED_MAX 0x1p50
/* Windows of so many taps are packed the fast way. */
#define PACK_TAPS 25
/* Inputs of so few channels are read as they are. */
#define PLAIN_CHANNELS 4

static bool joins(int64_t icg, int64_t ocg, int64_t groups, int block)
{
    return icg == ocg && icg > 1 && icg < block && block % icg == 0 && groups % (block / icg) == 0;
}

static bool depthwise(int64_t icg, int64_t oc, int64_t groups)
{
    return icg == 1 && oc == groups && groups > 1;
}

bool blk_conv_plain(const struct op *op, const struct shape *w)
{
    return node_attr_int(op->node, "group", 1) == 1 && w->dim[1] <= PLAIN_CHANNELS &&
           nt_span(w, 2, w->rank) > 1;
}

bool blk_conv_fits(const struct op *op, const struct shape *w, int block)
{
    int64_t groups = node_attr_int(op->node, "group", 1), oc = w->dim[0], icg = w->dim[1];

    if (w->rank < 3 || w->rank > 4 || groups < 1 || oc < 1 || icg < 1 || oc % groups)
        return false;
    for (int32_t i = 2; i < w->rank; i++)
        if (w->dim[i] < 1 || w->dim[i] > 4096)
            return false;
    if (depthwise(icg, oc, groups))
        return w->rank == 3 || w->dim[2] <= DEPTHWISE_ROWS;
    return groups == 1 || (icg % block == 0 && oc / groups % block == 0) ||
           joins(icg, oc / groups, groups, block);
}

void blk_ending_begin(struct blk_ending *e, const struct op *op)
{
    posts_begin(&e->posts, op, true);
    e->end = (struct blk_end){ NULL, false, 0, 0 };
    e->rest = 0;
    if (e->rest < op->npost && op->post[e->rest].kind == POST_ADD)
        e->end.add = e->posts.operand[e->rest++];
    if (e->rest < op->npost && op->post[e->rest].kind == POST_UNARY &&
        (op->post[e->rest].unary == U_RELU || op->post[e->rest].unary == U_CLIP)) {
        const struct post *p = &op->post[e->rest++];

        e->end.limit = true;
        e->end.lo = p->unary == U_RELU ? 0 : p->alpha;
        e->end.hi = p->unary == U_RELU ? INFINITY : p->beta;
    }
}

void blk_ending_rest(const struct blk_ending *e, float *out, int64_t at, int64_t n)
{
    const struct isa *isa = e->posts.isa;

    for (int i = e->rest; i < e->posts.op->npost; i++) {
        const struct post *p = &e->posts.op->post[i];
        const float *x = e->posts.operand[i];

        if (p->kind == POST_UNARY)
            isa->unary(p->unary, out + at, out + at, n, p->alpha, p->beta);
        else if (p->kind == POST_SCALE)
            isa->unary(U_AFFINE, out + at, out + at, n, p->alpha, 0);
        else
            isa->binary(p->kind == POST_ADD ? B_ADD : B_MUL, out + at, out + at, 1, x + at, 1, n);
    }
}

static void bconv_release(void *state)
{
    struct blk_conv *b = state;

    native_free(b->weights);
    native_free(b->bias);
    mem_free(b->d.off);
    mem_free(b->w.off);
}

static void choose(struct op *op, struct blk_conv *b)
{
    struct conv *c = &b->c;
    int v = kernel_isa(op)->blk->block;

    b->groups = c->groups;
    b->icg = c->icg;
    b->ocg = c->oc / c->groups;
    if (joins(b->icg, b->ocg, b->groups, v)) {
        b->groups = c->groups / (v / c->icg);
        b->icg = b->ocg = v;
    }
    b->icb = (b->icg + v - 1) / v;
    b->ocb = (b->ocg + v - 1) / v;
    b->algorithm = depthwise(c->icg, c->oc, c->groups) ? BLK_DEPTHWISE : BLK_DIRECT;
    if (b->algorithm == BLK_DIRECT && op->plan->engine->opts.winograd && wino_wins(op, b))
        b->algorithm = BLK_WINOGRAD;
    op->algorithm = b->algorithm == BLK_DEPTHWISE  ? "depthwise"
                    : b->algorithm == BLK_WINOGRAD ? "winograd 4x4"
                    : b->plain                     ? "direct from plain"
                                                   : "direct";
}

/* Floats of packed weights for an output block, and these blocks. */
static int64_t packed_block(const struct op *op, const struct blk_conv *b, int64_t *blocks)
{
    int64_t v = kernel_isa(op)->blk->block, taps = window_kernel(&b->c.w);

    *blocks = b->algorithm == BLK_DEPTHWISE ? (b->c.oc + v - 1) / v : b->groups * b->ocb;
    return v * (b->algorithm == BLK_DEPTHWISE  ? taps
                : b->algorithm == BLK_WINOGRAD ? b->icg * 36
                                               : b->icg * taps);
}

static void count_packed(struct op *op, const struct blk_conv *b)
{
    int64_t blocks, per = packed_block(op, b, &blocks),
                    plain = b->c.oc * b->c.icg * window_kernel(&b->c.w);

    op->packed_bytes = (size_t)(blocks * per) * sizeof(float);
    op->extra_bytes =
        b->algorithm == BLK_WINOGRAD ? (size_t)(blocks * per - plain) * sizeof(float) : 0;
}

struct pack_job {
    const struct op *op;
    const struct blk_conv *b;
    const float *w;
};

/* A weight of the convolution as computed: zero between groups that were joined. */
static float weight_at(const struct blk_conv *b, const float *w, int64_t oc, int64_t ic,
                       int64_t tap)
{
    const struct conv *c = &b->c;
    int64_t taps = window_kernel(&c->w), g = oc / b->ocg, in = g * b->icg + ic;

    if (oc >= c->oc)
        return 0;
    if (b->groups == c->groups)
        return w[(oc * c->icg + ic) * taps + tap];
    if (in / c->icg != oc / (c->oc / c->groups))
        return 0;
    return w[(oc * c->icg + in % c->icg) * taps + tap];
}

/* One block of input by one of output channels: by tap instead of by input channel. */
static void pack_square(const struct blk *blk, float *to, const float *w, int64_t channel, int have,
                        int64_t run, int64_t taps)
{
    float by_channel[PACK_TAPS * 16 * 16];
    int64_t v = blk->block;

    if (taps == 1) {
        blk->pack(to, w, channel, have, run);
        return;
    }
    blk->pack(by_channel, w, channel, have, run * taps);
    for (int64_t t = 0; t < taps; t++)
        for (int64_t i = 0; i < run; i++, to += v)
            memcpy(to, by_channel + (i * taps + t) * v, (size_t)v * sizeof(*to));
}

/* Of output block ob (counted over all groups): by step, input channel, output channel. */
static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    const struct blk_conv *b = j->b;
    int64_t v = kernel_isa(j->op)->blk->block, taps = window_kernel(&b->c.w), per = b->icg * taps;
    bool simple = b->groups == b->c.groups;

    (void)thread;
    for (int64_t ob = begin; ob < end; ob++) {
        float *to = b->weights + ob * b->w_block;
        int64_t oc =
            b->algorithm == BLK_DEPTHWISE ? ob * v : ob / b->ocb * b->ocg + ob % b->ocb * v;
        int64_t have = MIN(v, b->c.oc - oc);

        if (b->algorithm == BLK_DEPTHWISE || b->plain) {
            kernel_isa(j->op)->blk->pack(to, j->w + oc * per, per, (int)have, per);
            continue;
        }
        for (int64_t ic = 0; ic < b->icg; ic += v) {
            int64_t run = MIN(v, b->icg - ic);

            if (taps <= PACK_TAPS && simple) {
                pack_square(kernel_isa(j->op)->blk, to, j->w + oc * per + ic * taps, per, (int)have,
                            run, taps);
                to += run * taps * v;
                continue;
            }
            for (int64_t t = 0; t < taps; t++)
                for (int64_t i = 0; i < run; i++, to += v)
                    for (int64_t o = 0; o < v; o++)
                        to[o] = o >= have ? 0
                                : simple  ? j->w[(oc + o) * per + (ic + i) * taps + t]
                                          : weight_at(b, j->w, oc + o, ic + i, t);
        }
    }
}

static int pack(struct op *op, struct blk_conv *b, opm_error *err)
{
    const struct nt *bias = kernel_in(op, 2);
    int64_t v = kernel_isa(op)->blk->block, blocks;
    struct pack_job j = { op, b,
                          kernel_half(op, 1) ? kernel_const(op, 1)->data : kernel_data(op, 1) };

    if (!j.w)
        return kernel_nomem(op, err);
    b->w_block = packed_block(op, b, &blocks);
    count_packed(op, b);
    if (b->weights && b->packed_for == b->algorithm)
        return 0;
    native_free(b->weights);
    native_free(b->bias);
    b->bias = NULL;
    b->weights = native_alloc(op->packed_bytes);
    if (bias)
        b->bias = native_alloc((size_t)(blocks * v) * sizeof(float));
    if (!b->weights || (bias && !b->bias))
        return kernel_nomem(op, err);
    b->packed_for = b->algorithm;
    if (bias) {
        memset(b->bias, 0, (size_t)(blocks * v) * sizeof(float));
        memcpy(b->bias, bias->data, bias->bytes);
    }
    if (b->algorithm == BLK_WINOGRAD)
        wino_pack(op, b, j.w);
    else
        pool_for(kernel_pool(op), blocks, 1, pack_part, &j);
    if (kernel_const(op, 1))
        model_forget(op->plan->engine->model, kernel_const(op, 1)->data,
                     kernel_const(op, 1)->bytes);
    return 0;
}

static bool sticks_out(const struct window *w, int d)
{
    return w->before[d] > 0 ||
           (w->out[d] - 1) * w->stride[d] + (w->kernel[d] - 1) * w->dilation[d] + 1 - w->before[d] >
               w->in[d];
}

/* How the work is cut: chunks of pixels whose input stays in the cache, and enough parts for all
 * threads, of output channels where the weights are the bigger operand. */
static void direct_cut(const struct op *op, struct blk_conv *b)
{
    const struct window *w = &b->c.w;
    struct blk_direct *d = &b->d;
    int64_t v = b->plain ? 1 : kernel_isa(op)->blk->block, px = kernel_isa(op)->blk->px,
            threads = pool_threads(kernel_pool(op)), ins = b->plain ? b->icg : b->icb,
            units = d->flat ? d->width : d->rows, images = b->c.n * b->groups;
    int64_t per = d->flat ? ins * v * 4 : ins * v * 4 * d->pitch * w->stride[1];
    int64_t input = images * ins * v * w->in[1] * w->in[2],
            weights = b->groups * b->ocb * b->w_block;

    d->split = weights > input ? MIN(threads, b->ocb) : 1;
    d->chunk = MAX(CHUNK_BYTES / MAX(per, (int64_t)1), (int64_t)1);
    if (d->flat)
        d->chunk = MAX(d->chunk / px * px, px);
    d->chunks = (units + d->chunk - 1) / d->chunk;
    if (d->split == 1 && images % threads)
        d->chunks = (d->chunks + threads - 1) / threads * threads;
    d->chunk = MAX((units + d->chunks - 1) / d->chunks, (int64_t)1);
    if (d->flat && d->chunk > px)
        d->chunk = (d->chunk + px - 1) / px * px;
    d->chunks = (units + d->chunk - 1) / d->chunk;
}

static int direct_prepare(struct op *op, struct blk_conv *b, opm_error *err)
{
    const struct window *w = &b->c.w;
    struct blk_direct *d = &b->d;
    int64_t v = b->plain ? 1 : kernel_isa(op)->blk->block, s = 0, kh = w->kernel[1],
            kw = w->kernel[2];
    int64_t threads = pool_threads(kernel_pool(op)), plane = w->in[1] * w->in[2] * v;
    int64_t span = (kh - 1) * w->dilation[1] + 1;

    d->padded = sticks_out(w, 1) || sticks_out(w, 2);
    d->flat = window_kernel(w) == 1 && w->stride[1] == 1 && w->stride[2] == 1 && !d->padded;
    d->rows = d->flat ? 1 : w->out[1];
    d->width = d->flat ? w->out[1] * w->out[2] : w->out[2];
    d->pitch =
        d->padded ? (w->out[2] - 1) * w->stride[2] + (kw - 1) * w->dilation[2] + 1 : w->in[2];
    if ((double)d->pitch * (double)((w->out[1] - 1) * w->stride[1] + span) * (double)(b->icg + v) *
            (double)w->stride[1] >
        PADDED_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "the padded input is too big");
    direct_cut(op, b);
    d->copy_rows = (d->chunk - 1) * w->stride[1] + span;
    d->block_pitch = d->padded ? d->copy_rows * d->pitch * v : plane;
    d->copy_floats = d->padded ? (b->plain ? b->icg : b->icb) * d->block_pitch : 0;
    op->scratch_bytes = (size_t)(d->copy_floats * threads) * sizeof(float);
    /* Plain: a step is a row of the window of one channel, if its taps lie side by side. */
    bool rows = b->plain && w->dilation[2] == 1;

    d->run = rows ? kw : b->plain ? 1 : v;
    d->tail_run = b->plain ? 0 : b->icg % v;
    d->steps = (b->plain ? b->icg : b->icg / v) * kh * (rows ? 1 : kw);
    d->tail_steps = d->tail_run ? kh * kw : 0;
    mem_free(d->off);
    d->off = mem_calloc((size_t)(d->steps + d->tail_steps) + 1, sizeof(*d->off));
    if (!d->off)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < (b->plain ? b->icg : b->icb); i++)
        for (int64_t y = 0; y < kh; y++)
            for (int64_t x = 0; x < (rows ? 1 : kw); x++)
                d->off[s++] =
                    i * d->block_pitch + y * w->dilation[1] * d->pitch * v + x * w->dilation[2] * v;
    return 0;
}

int bconv_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *w = kernel_in(op, 1), *bias = kernel_in(op, 2);
    struct blk_conv *b = kernel_new_state(op, sizeof(*b));
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!b)
        return kernel_nomem(op, err);
    op->release = bconv_release;
    if (!rc)
        rc = conv_init(&b->c, op, &in->shape, &w->shape, err);
    if (rc)
        return rc;
    window_flatten(&b->c.w);
    if (bias && (bias->shape.rank != 1 || bias->count != b->c.oc))
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)b->c.oc);
    rc = kernel_set_blocked(op, 0, &b->c.out, err);
    if (!rc)
        rc = posts_check(op, b->c.oc, err);
    if (rc)
        return rc;
    b->plain = !op->plan->val[op->in[0]].blocked;
    choose(op, b);
    rc = pack(op, b, err);
    if (rc || kernel_out(op, 0)->count == 0)
        return rc;
    if (b->algorithm == BLK_WINOGRAD)
        return wino_prepare(op, b, err);
    if (b->algorithm == BLK_DIRECT)
        return direct_prepare(op, b, err);
    return 0;
}

struct conv_job {
    const struct op *op;
    const struct blk_conv *b;
    const struct blk *blk;
    struct blk_ending ending;
    const float *in;
    float *out, *scratch;
};

/* Input rows [y0, y0 + rows) of a block or channel, zero outside. */
static void copy_frame(const struct window *w, float *to, const float *plane, int64_t y0,
                       int64_t rows, int64_t pitch, int64_t v)
{
    int64_t x0 = MIN(w->before[2], pitch), have = MIN(w->in[2], pitch - x0);

    for (int64_t y = y0; y < y0 + rows; y++, to += pitch * v) {
        if (y < 0 || y >= w->in[1] || have <= 0) {
            memset(to, 0, (size_t)(pitch * v) * sizeof(*to));
            continue;
        }
        memset(to, 0, (size_t)(x0 * v) * sizeof(*to));
        memcpy(to + x0 * v, plane + y * w->in[2] * v, (size_t)(have * v) * sizeof(*to));
        memset(to + (x0 + have) * v, 0, (size_t)((pitch - x0 - have) * v) * sizeof(*to));
    }
}

/* Pixels [x0, x1) of one row, which starts at in and out, for `blocks` output blocks. */
static void direct_row(const struct conv_job *j, struct blk_tile *t, enum blk_step kind, int blocks,
                       const float *in, int64_t at, int64_t x0, int64_t x1)
{
    int64_t v = j->blk->block, n = x1 - x0, tiles = (n + j->blk->px - 1) / j->blk->px;
    const float *add = j->ending.end.add;

    for (int64_t i = 0; i < tiles; i++) {
        int64_t a = x0 + n * i / tiles, px = x0 + n * (i + 1) / tiles - a;

        t->in = in + a * t->step;
        t->out = j->out + at + a * v;
        t->add = add ? add + at + a * v : NULL;
        j->blk->tile[kind][blocks - 1][px - 1](t);
        if (j->ending.rest < j->op->npost)
            for (int k = 0; k < blocks; k++)
                blk_ending_rest(&j->ending, j->out, at + k * t->out_block + a * v, px * v);
    }
}

static void direct_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct conv_job *j = arg;
    const struct blk_conv *b = j->b;
    const struct window *w = &b->c.w;
    const struct blk_direct *d = &b->d;
    int64_t v = j->blk->block, iv = b->plain ? 1 : v, plane = window_in(w) * iv;
    int64_t out_block = window_out(w) * v, ins = b->plain ? b->icg : b->icb;
    float *copy = j->scratch + thread * d->copy_floats;
    struct blk_tile t = { .step = w->stride[2] * iv,
                          .w_block = b->w_block,
                          .off = d->off,
                          .steps = d->steps,
                          .tail_steps = d->tail_steps,
                          .run = d->run,
                          .tail_run = d->tail_run,
                          .out_block = out_block,
                          .limit = j->ending.end.limit,
                          .lo = j->ending.end.lo,
                          .hi = j->ending.end.hi };
    enum blk_step kind = t.step == v && iv == v       ? STEP_BLOCK
                         : t.step == 2 * v && iv == v ? STEP_BLOCK2
                         : t.step == 1                ? STEP_1
                         : t.step == 2                ? STEP_2
                                                      : STEP_ANY;

    for (int64_t item = begin; item < end; item++) {
        int64_t chunk = item % d->chunks, ng = item / d->chunks % (b->c.n * b->groups),
                part = item / d->chunks / (b->c.n * b->groups), g = ng % b->groups;
        int64_t ob0 = b->ocb * part / d->split, ob1 = b->ocb * (part + 1) / d->split;
        int64_t u0 = chunk * d->chunk, u1 = MIN(u0 + d->chunk, d->flat ? d->width : d->rows);
        const float *in = j->in + ng * ins * plane, *from = in;
        int64_t y0 = d->flat ? 0 : u0 * w->stride[1] - w->before[1];

        if (u0 >= u1)
            continue;
        if (d->padded) {
            for (int64_t i = 0; i < ins; i++)
                copy_frame(w, copy + i * d->block_pitch, in + i * plane, y0,
                           (u1 - u0 - 1) * w->stride[1] + (w->kernel[1] - 1) * w->dilation[1] + 1,
                           d->pitch, iv);
            from = copy;
        } else
            from += y0 * d->pitch * iv;
        for (int64_t ob = ob0; ob < ob1; ob += 2) {
            int blocks = (int)MIN((int64_t)2, ob1 - ob);
            int64_t at = (ng * b->ocb + ob) * out_block;

            t.w = b->weights + (g * b->ocb + ob) * b->w_block;
            t.init = b->bias ? b->bias + (g * b->ocb + ob) * v : NULL;
            if (d->flat) {
                direct_row(j, &t, kind, blocks, from, at, u0, u1);
                continue;
            }
            for (int64_t y = u0; y < u1; y++)
                direct_row(j, &t, kind, blocks, from + (y - u0) * w->stride[1] * d->pitch * iv,
                           at + y * d->width * v, 0, d->width);
        }
    }
}

/* n / by of n from 0 on; a division takes as long as a pixel. */
static inline int64_t quotient(int64_t n, int64_t by)
{
    return by == 1 ? n : by == 2 ? n >> 1 : n / by;
}

/* One output row of one block. Pixels whose window sticks out are done one by one. */
static void depthwise_row(const struct conv_job *j, const float *in, const float *weights,
                          const float *bias, int64_t y, int64_t at)
{
    const struct window *w = &j->b->c.w;
    const float *row[DEPTHWISE_ROWS], *wt[DEPTHWISE_ROWS], *r1[DEPTHWISE_ROWS], *w1[DEPTHWISE_ROWS];
    int64_t v = j->blk->block, s = w->stride[2], dl = w->dilation[2], before = w->before[2],
            reach = w->in[2] - 1 - (w->kernel[2] - 1) * dl + before,
            lo = MIN(quotient(before + s - 1, s), w->out[2]),
            hi = reach < 0 ? lo : MAX(MIN(quotient(reach, s) + 1, w->out[2]), lo);
    struct blk_end end = j->ending.end;
    int rows = 0;

    for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
        int64_t iy = y * w->stride[1] - w->before[1] + kh * w->dilation[1];

        if (iy < 0 || iy >= w->in[1])
            continue;
        row[rows] = in + iy * w->in[2] * v;
        wt[rows++] = weights + kh * w->kernel[2] * v;
    }
    for (int64_t x = lo == 0 && lo < hi ? hi : 0; x < w->out[2];
         x = x + 1 == lo && lo < hi ? hi : x + 1) {
        int64_t ix = x * s - before, k0 = ix < 0 ? quotient(-ix + dl - 1, dl) : 0,
                k1 = ix >= w->in[2] ? 0 : MIN(quotient(w->in[2] - 1 - ix, dl) + 1, w->kernel[2]);

        for (int r = 0; r < rows; r++) {
            r1[r] = row[r] + (ix + k0 * dl) * v;
            w1[r] = wt[r] + k0 * v;
        }
        if (end.add)
            end.add = j->ending.end.add + at + x * v;
        j->blk->depthwise(j->out + at + x * v, 1, r1, w1, k1 > k0 ? rows : 0,
                          (int)MAX(k1 - k0, (int64_t)0), s, dl, bias, &end);
    }
    for (int r = 0; r < rows; r++)
        row[r] += (lo * s - before) * v;
    if (end.add)
        end.add = j->ending.end.add + at + lo * v;
    if (lo < hi)
        j->blk->depthwise(j->out + at + lo * v, hi - lo, row, wt, rows, (int)w->kernel[2], s, dl,
                          bias, &end);
    if (j->ending.rest < j->op->npost)
        blk_ending_rest(&j->ending, j->out, at, w->out[2] * v);
}

static void depthwise_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct conv_job *j = arg;
    const struct blk_conv *b = j->b;
    const struct window *w = &b->c.w;
    int64_t v = j->blk->block, cb = (b->c.oc + v - 1) / v;
    int64_t y = begin % w->out[1], block = begin / w->out[1], c = block % cb;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        depthwise_row(j, j->in + block * window_in(w) * v, b->weights + c * b->w_block,
                      b->bias ? b->bias + c * v : NULL, y, (block * w->out[1] + y) * w->out[2] * v);
        if (++y == w->out[1]) {
            y = 0;
            block++;
            c = c + 1 == cb ? 0 : c + 1;
        }
    }
}

int bconv_run(struct op *op, opm_error *err)
{
    struct blk_conv *b = op->state;
    struct conv_job j = { .op = op, .b = b, .blk = kernel_isa(op)->blk };

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (b->algorithm == BLK_WINOGRAD) {
        wino_run(op, b);
        return 0;
    }
    blk_ending_begin(&j.ending, op);
    j.in = kernel_in(op, 0)->data;
    j.out = kernel_out(op, 0)->data;
    j.scratch = op->scratch;
    if (b->algorithm == BLK_DEPTHWISE)
        pool_for(kernel_pool(op),
                 b->c.n * ((b->c.oc + j.blk->block - 1) / j.blk->block) * b->c.w.out[1], 4,
                 depthwise_part, &j);
    else
        pool_for(kernel_pool(op), b->c.n * b->groups * b->d.chunks * b->d.split, 1, direct_part,
                 &j);
    return 0;
}
