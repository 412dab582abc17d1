/* blocked_ops.c -- what stands between convolutions, on channel-blocked tensors (blocked_isa.h):
 * pooling, functions of one and two operands, BatchNormalization, Concat of channels, Resize. */
#include "engine/native/layout/blocked_ops.h"

#include "engine/native/math/window.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/resize.h"

#include <math.h>
#include <string.h>

/* Floats of element-wise work that are worth a thread. */
#define GRAIN 16384

static int64_t blocks_of(const struct op *op, int64_t channels)
{
    int64_t v = kernel_isa(op)->blk->block;

    return (channels + v - 1) / v;
}

static int64_t pixels_of(const struct shape *s)
{
    return nt_span(s, 2, s->rank);
}

/* Pooling */

struct bpool {
    struct window w;
    bool max, include_pad, mean;
};

int bpool_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct bpool *q = kernel_new_state(op, sizeof(*q));
    struct shape s;
    int rc;

    if (!q)
        return kernel_nomem(op, err);
    q->max = node_is(op->node, "MaxPool");
    q->mean = !q->max && !node_is(op->node, "AveragePool");
    q->include_pad = node_attr_int(op->node, "count_include_pad", 0);
    if (q->mean) {
        s = in->shape;
        for (int32_t i = 2; i < s.rank; i++)
            s.dim[i] = 1;
        return kernel_set_blocked(op, 0, &s, err);
    }
    rc = window_pool(&q->w, op, &in->shape, &s, err);
    if (rc)
        return rc;
    return kernel_set_blocked(op, 0, &s, err);
}

/* Taps [*lo, *hi) of dimension d that lie inside for an output at o; *start: where the first of
 * them is. */
static void inside(const struct window *w, int d, int64_t o, int64_t *start, int64_t *lo,
                   int64_t *hi)
{
    int64_t s = o * w->stride[d] - w->before[d], dl = w->dilation[d];

    *lo = s < 0 ? MIN((-s + dl - 1) / dl, w->kernel[d]) : 0;
    *hi = s >= w->in[d] ? *lo : MIN((w->in[d] - 1 - s) / dl + 1, w->kernel[d]);
    *hi = MAX(*hi, *lo);
    *start = s + *lo * dl;
}

static int64_t padded_taps(const struct window *w, int d, int64_t o)
{
    int64_t s = o * w->stride[d], end = w->in[d] + w->before[d] + w->after[d];

    return s >= end ? 0 : MIN((end - 1 - s) / w->dilation[d] + 1, w->kernel[d]);
}

static void pool_pixels(const struct op *op, const struct bpool *q, float *out, int64_t n,
                        const float *const *row, int64_t rows, int64_t taps, int64_t divisor)
{
    const struct blk *blk = kernel_isa(op)->blk;
    const struct window *w = &q->w;
    float scale = 1.0f / (float)MAX(divisor, (int64_t)1);

    if (rows <= 0 || taps <= 0)
        memset(out, 0, (size_t)(n * blk->block) * sizeof(*out));
    else
        blk->pool(q->max ? BLK_MAX : BLK_SUM, out, n, row, (int)rows, (int)taps, w->stride[2],
                  w->dilation[2], scale);
}

static void pool_row(const struct op *op, const struct bpool *q, const float *plane, int64_t y,
                     float *out)
{
    const struct window *w = &q->w;
    int64_t v = kernel_isa(op)->blk->block, y0, ylo, yhi, x0, xlo, xhi, x = 0;
    const float *row[BLK_POOL_ROWS], *at[BLK_POOL_ROWS];

    inside(w, 1, y, &y0, &ylo, &yhi);
    for (int64_t k = 0; k < yhi - ylo; k++)
        row[k] = plane + (y0 + k * w->dilation[1]) * w->in[2] * v;
    while (x < w->out[2]) {
        int64_t n = 1, count;

        inside(w, 2, x, &x0, &xlo, &xhi);
        if (xhi - xlo == w->kernel[2]) { /* as many as are whole */
            int64_t last = w->in[2] - 1 - (w->kernel[2] - 1) * w->dilation[2] + w->before[2];

            n = MIN(last / w->stride[2], w->out[2] - 1) - x + 1;
        }
        count = q->include_pad ? padded_taps(w, 1, y) * padded_taps(w, 2, x)
                               : (yhi - ylo) * (xhi - xlo);
        for (int64_t k = 0; k < yhi - ylo; k++)
            at[k] = row[k] + x0 * v;
        pool_pixels(op, q, out + x * v, n, at, yhi - ylo, xhi - xlo, count);
        x += n;
    }
}

static void pool_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct bpool *q = op->state;
    const struct window *w = &q->w;
    int64_t v = kernel_isa(op)->blk->block;
    const float *in = kernel_in(op, 0)->data;
    float *out = kernel_out(op, 0)->data;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        pool_row(op, q, in + i / w->out[1] * window_in(w) * v, i % w->out[1],
                 out + i * w->out[2] * v);
}

static void mean_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct blk *blk = kernel_isa(op)->blk;
    int64_t n = pixels_of(&kernel_in(op, 0)->shape), v = blk->block;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        blk->mean((float *)kernel_out(op, 0)->data + i * v,
                  (const float *)kernel_in(op, 0)->data + i * n * v, n);
}

int bpool_run(struct op *op, opm_error *err)
{
    const struct bpool *q = op->state;
    const struct shape *s = &kernel_in(op, 0)->shape;
    int64_t planes = s->dim[0] * blocks_of(op, s->dim[1]);

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (q->mean)
        pool_for(kernel_pool(op), planes,
                 GRAIN / (pixels_of(s) * kernel_isa(op)->blk->block + 1) + 1, mean_part, op);
    else
        pool_for(kernel_pool(op), planes * q->w.out[1], 4, pool_part, op);
    return 0;
}

/* The same tensor under another name */

int bidentity_prepare(struct op *op, opm_error *err)
{
    return kernel_set_blocked(op, 0, &kernel_in(op, 0)->shape, err);
}

int bidentity_run(struct op *op, opm_error *err)
{
    (void)op;
    (void)err;
    return 0;
}

/* Functions of one operand */

int bunary_prepare(struct op *op, opm_error *err)
{
    return kernel_set_blocked(op, 0, &kernel_in(op, 0)->shape, err);
}

static void unary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct post *p = op->state;
    int64_t v = kernel_isa(op)->blk->block;

    (void)thread;
    kernel_isa(op)->unary(p->unary, (float *)kernel_out(op, 0)->data + begin * v,
                          (const float *)kernel_in(op, 0)->data + begin * v, (end - begin) * v,
                          p->alpha, p->beta);
}

int bunary_run(struct op *op, opm_error *err)
{
    const struct shape *s = &kernel_in(op, 0)->shape;
    int64_t v = kernel_isa(op)->blk->block;

    (void)err;
    pool_for(kernel_pool(op), s->dim[0] * blocks_of(op, s->dim[1]) * pixels_of(s), GRAIN / v,
             unary_part, op);
    return 0;
}

/* Functions of two operands */

int blk_binary_of(const struct op *op)
{
    static const struct {
        const char *type;
        int f;
    } known[] = {
        { "Add", B_ADD }, { "Sub", B_SUB }, { "Mul", B_MUL }, { "Div", B_DIV },
        { "Max", B_MAX }, { "Min", B_MIN }, { "Sum", B_ADD }, { "PRelu", BLK_PRELU },
    };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++)
        if (node_is(op->node, known[i].type))
            return known[i].f;
    return -1;
}

struct bbinary {
    int f;
    float *vector[2]; /* of a constant operand: one number per channel, padded */
    int64_t n[2], h[2], w[2];
    int64_t on, oh, ow;
};

static void bbinary_release(void *state)
{
    struct bbinary *q = state;

    native_free(q->vector[0]);
    native_free(q->vector[1]);
}

/* A scalar, or one number per channel. */
static int spread(struct op *op, struct bbinary *q, uint32_t i, int64_t channels, opm_error *err)
{
    const struct nt *t = kernel_in(op, i);
    int64_t room = blocks_of(op, channels) * kernel_isa(op)->blk->block;

    if (t->type != TENSOR_F32 || (t->count != 1 && t->count != channels))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (q->vector[i])
        return 0;
    q->vector[i] = native_alloc((size_t)room * sizeof(float));
    if (!q->vector[i])
        return kernel_nomem(op, err);
    for (int64_t c = 0; c < room; c++)
        q->vector[i][c] = ((const float *)t->data)[t->count == 1 ? 0 : MIN(c, channels - 1)];
    return 0;
}

static int64_t broadcast(int64_t a, int64_t b)
{
    return a == b || b == 1 ? a : a == 1 ? b : -1;
}

int bbinary_prepare(struct op *op, opm_error *err)
{
    struct bbinary *q = kernel_new_state(op, sizeof(*q));
    const struct shape *big = NULL;
    struct shape s = { 0 };

    if (!q)
        return kernel_nomem(op, err);
    op->release = bbinary_release;
    q->f = blk_binary_of(op);
    for (uint32_t i = 0; i < 2; i++)
        if (op->plan->val[op->in[i]].blocked)
            big = &kernel_in(op, i)->shape;
    s = *big;
    q->on = q->oh = q->ow = 1;
    for (uint32_t i = 0; i < 2; i++) {
        const struct shape *t = &kernel_in(op, i)->shape;

        if (!op->plan->val[op->in[i]].blocked) {
            int rc = spread(op, q, i, big->dim[1], err);

            if (rc)
                return rc;
            q->n[i] = q->h[i] = q->w[i] = 1;
        } else if (t->rank != big->rank || t->dim[1] != big->dim[1]) {
            return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
        } else {
            q->n[i] = t->dim[0];
            q->h[i] = t->rank == 4 ? t->dim[2] : 1;
            q->w[i] = t->dim[t->rank - 1];
        }
        q->on = broadcast(q->on, q->n[i]);
        q->oh = broadcast(q->oh, q->h[i]);
        q->ow = broadcast(q->ow, q->w[i]);
        if (q->on < 0 || q->oh < 0 || q->ow < 0)
            return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    }
    s.dim[0] = q->on;
    s.dim[2] = q->oh;
    s.dim[s.rank - 1] = q->ow;
    return kernel_set_blocked(op, 0, &s, err);
}

struct bbinary_job {
    const struct op *op;
    const struct bbinary *q;
    const float *in[2];
    int64_t blocks, rows, width;
    bool once[2];
};

static void binary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct bbinary_job *j = arg;
    const struct bbinary *q = j->q;
    const struct blk *blk = kernel_isa(j->op)->blk;
    int64_t v = blk->block;
    float *out = kernel_out(j->op, 0)->data;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t y = i % j->rows, c = i / j->rows % j->blocks, n = i / j->rows / j->blocks;
        const float *p[2];

        for (int k = 0; k < 2; k++) {
            int64_t plane = (q->n[k] == 1 ? 0 : n) * j->blocks + c;

            p[k] = q->vector[k]
                       ? q->vector[k] + c * v
                       : j->in[k] + (plane * q->h[k] + (q->h[k] == 1 ? 0 : y)) * q->w[k] * v;
        }
        blk->binary(q->f, out + i * j->width * v, p[0], p[1], j->once[0], j->once[1], j->width);
    }
}

int bbinary_run(struct op *op, opm_error *err)
{
    struct bbinary_job j = { .op = op, .q = op->state };
    const struct bbinary *q = j.q;
    bool flat = true;

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    j.blocks = blocks_of(op, kernel_out(op, 0)->shape.dim[1]);
    j.rows = q->oh;
    j.width = q->ow;
    for (int k = 0; k < 2; k++) {
        j.in[k] = kernel_in(op, (uint32_t)k)->data;
        j.once[k] = q->w[k] == 1 && q->ow != 1;
        flat = flat && ((q->h[k] == q->oh && q->w[k] == q->ow) || (q->h[k] == 1 && q->w[k] == 1));
    }
    struct bbinary whole = *q;

    if (flat) { /* planes are rows */
        for (int k = 0; k < 2; k++) {
            bool full = q->h[k] == q->oh && q->w[k] == q->ow;

            whole.w[k] = full ? q->oh * q->ow : 1;
            whole.h[k] = 1;
            j.once[k] = !full;
        }
        j.width = q->oh * q->ow;
        j.rows = 1;
        j.q = &whole;
    }
    pool_for(kernel_pool(op), q->on * j.blocks * j.rows,
             GRAIN / (j.width * kernel_isa(op)->blk->block + 1) + 1, binary_part, &j);
    return 0;
}

/* BatchNormalization */

struct bnorm {
    float *scale, *shift;
};

static void bnorm_release(void *state)
{
    struct bnorm *q = state;

    native_free(q->scale);
}

int bnorm_prepare(struct op *op, opm_error *err)
{
    struct bnorm *q = kernel_new_state(op, sizeof(*q));
    const struct nt *in = kernel_in(op, 0);
    int64_t c = in->shape.dim[1], room = blocks_of(op, c) * kernel_isa(op)->blk->block;
    double eps = (double)node_attr_float(op->node, "epsilon", 1e-5f);

    if (!q)
        return kernel_nomem(op, err);
    op->release = bnorm_release;
    for (uint32_t i = 1; i < 5; i++)
        if (!kernel_in(op, i) || kernel_in(op, i)->type != TENSOR_F32 ||
            kernel_in(op, i)->count != c)
            return kernel_fail(op, OPM_EINVAL, err, "input %u does not fit %lld channels", i,
                               (long long)c);
    if (!q->scale) {
        q->scale = native_alloc((size_t)(2 * room) * sizeof(float));
        if (!q->scale)
            return kernel_nomem(op, err);
        memset(q->scale, 0, (size_t)(2 * room) * sizeof(float));
        q->shift = q->scale + room;
        for (int64_t i = 0; i < c; i++) {
            double s = nt_float(kernel_in(op, 1), i) / sqrt(nt_float(kernel_in(op, 4), i) + eps);

            q->scale[i] = (float)s;
            q->shift[i] =
                (float)(nt_float(kernel_in(op, 2), i) - nt_float(kernel_in(op, 3), i) * s);
        }
    }
    return kernel_set_blocked(op, 0, &in->shape, err);
}

static void norm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct bnorm *q = op->state;
    const struct blk *blk = kernel_isa(op)->blk;
    const struct shape *s = &kernel_in(op, 0)->shape;
    int64_t v = blk->block, blocks = blocks_of(op, s->dim[1]), n = pixels_of(s);

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        blk->affine((float *)kernel_out(op, 0)->data + i * n * v,
                    (const float *)kernel_in(op, 0)->data + i * n * v, q->scale + i % blocks * v,
                    q->shift + i % blocks * v, n);
}

int bnorm_run(struct op *op, opm_error *err)
{
    const struct shape *s = &kernel_in(op, 0)->shape;

    (void)err;
    pool_for(kernel_pool(op), s->dim[0] * blocks_of(op, s->dim[1]),
             GRAIN / (pixels_of(s) * kernel_isa(op)->blk->block + 1) + 1, norm_part, op);
    return 0;
}

/* Concat of channels. An input that does not end with a block leaves the next one in the middle of
 * a block; lanes are moved then. */

int bconcat_prepare(struct op *op, opm_error *err)
{
    struct shape s = kernel_in(op, 0)->shape;

    s.dim[1] = 0;
    for (uint32_t i = 0; i < op->nin; i++) {
        const struct shape *t = &kernel_in(op, i)->shape;

        if (t->rank != s.rank || t->dim[0] != s.dim[0] || t->dim[2] != s.dim[2] ||
            t->dim[t->rank - 1] != s.dim[s.rank - 1])
            return kernel_fail(op, OPM_EINVAL, err, "input %u does not fit the first", i);
        s.dim[1] += t->dim[1];
    }
    return kernel_set_blocked(op, 0, &s, err);
}

/* Channels [c0, c1) of output image n, which lie in one block. */
static void concat_block(const struct op *op, float *out, int64_t n, int64_t c0, int64_t c1)
{
    const struct blk *blk = kernel_isa(op)->blk;
    int64_t v = blk->block, pixels = pixels_of(&kernel_out(op, 0)->shape), base = 0, lane = c0;

    for (uint32_t k = 0; k < op->nin && c0 < c1; k++) {
        const struct nt *t = kernel_in(op, k);
        int64_t have = t->shape.dim[1];

        while (c0 < c1 && c0 < base + have) {
            int64_t at = c0 - base, run = MIN(MIN(c1, base + have) - c0, v - at % v);
            const float *in =
                (const float *)t->data + (n * blocks_of(op, have) + at / v) * pixels * v + at % v;

            if (run == v)
                memcpy(out, in, (size_t)(pixels * v) * sizeof(*out));
            else
                blk->lanes(out + (c0 - lane), in, (int)run, pixels);
            c0 += run;
        }
        base += have;
    }
}

static void concat_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct shape *s = &kernel_out(op, 0)->shape;
    int64_t v = kernel_isa(op)->blk->block, blocks = blocks_of(op, s->dim[1]);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i % blocks * v;

        concat_block(op, (float *)kernel_out(op, 0)->data + i * pixels_of(s) * v, i / blocks, c,
                     MIN(c + v, s->dim[1]));
    }
}

int bconcat_run(struct op *op, opm_error *err)
{
    const struct shape *s = &kernel_out(op, 0)->shape;
    int64_t v = kernel_isa(op)->blk->block;

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (s->dim[1] % v) /* nothing else writes the last block's other channels */
        for (int64_t n = 1; n <= s->dim[0]; n++)
            memset((float *)kernel_out(op, 0)->data +
                       (n * blocks_of(op, s->dim[1]) - 1) * pixels_of(s) * v,
                   0, (size_t)(pixels_of(s) * v) * sizeof(float));
    pool_for(kernel_pool(op), s->dim[0] * blocks_of(op, s->dim[1]),
             GRAIN / (pixels_of(s) * v + 1) + 1, concat_part, op);
    return 0;
}

/* Resize of the spatial dimensions, nearest or linear */

struct bresize {
    struct resize r; /* first: resize_prepare() fills it in */
    struct tap *tap[2];
};

static void bresize_release(void *state)
{
    struct bresize *q = state;

    mem_free(q->tap[0]);
    mem_free(q->tap[1]);
}

int bresize_prepare(struct op *op, opm_error *err)
{
    struct bresize *q = kernel_new_state(op, sizeof(*q));
    const struct shape *in = &kernel_in(op, 0)->shape;
    struct shape s;
    int rc;

    if (!q)
        return kernel_nomem(op, err);
    op->release = bresize_release;
    rc = resize_prepare(op, err);
    if (rc)
        return rc;
    s = kernel_out(op, 0)->shape;
    if (s.rank != in->rank || s.dim[0] != in->dim[0] || s.dim[1] != in->dim[1])
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "resizes more than the spatial dimensions");
    for (int k = 0; k < 2; k++) { /* y, x */
        int axis = s.rank - 2 + k;
        int64_t n = axis < 2 ? 1 : s.dim[axis], from = axis < 2 ? 1 : in->dim[axis];

        mem_free(q->tap[k]);
        q->tap[k] = mem_calloc((size_t)n + 1, sizeof(struct tap));
        if (!q->tap[k])
            return kernel_nomem(op, err);
        for (int64_t o = 0; o < n; o++) {
            struct tap *t = &q->tap[k][o];

            if (axis >= 2 && q->r.on[axis])
                resize_tap(&q->r, axis, o, from, n, t);
            else
                *t = (struct tap){ .at = { o }, .w = { 1 }, .n = 1 };
        }
    }
    op->scratch_bytes = (size_t)(pool_threads(kernel_pool(op)) * in->dim[in->rank - 1] *
                                 kernel_isa(op)->blk->block) *
                        sizeof(float);
    return kernel_set_blocked(op, 0, &s, err);
}

static void resize_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct bresize *q = op->state;
    const struct blk *blk = kernel_isa(op)->blk;
    const struct shape *in = &kernel_in(op, 0)->shape, *to = &kernel_out(op, 0)->shape;
    int64_t v = blk->block, iw = in->dim[in->rank - 1], ow = to->dim[to->rank - 1];
    int64_t ih = pixels_of(in) / MAX(iw, (int64_t)1), oh = pixels_of(to) / MAX(ow, (int64_t)1);
    float *mixed = (float *)op->scratch + thread * iw * v;

    for (int64_t i = begin; i < end; i++) {
        const struct tap *ty = &q->tap[0][i % oh];
        const float *plane = (const float *)kernel_in(op, 0)->data + i / oh * ih * iw * v;
        const float *row = plane + ty->at[0] * iw * v;
        float *out = (float *)kernel_out(op, 0)->data + i * ow * v;

        if (ty->n == 2) {
            blk->mix(mixed, row, plane + ty->at[1] * iw * v, ty->w[0], ty->w[1], iw);
            row = mixed;
        }
        for (int64_t x = 0; x < ow; x++, out += v) {
            const struct tap *tx = &q->tap[1][x];

            if (tx->n == 2)
                blk->mix(out, row + tx->at[0] * v, row + tx->at[1] * v, tx->w[0], tx->w[1], 1);
            else
                memcpy(out, row + tx->at[0] * v, (size_t)v * sizeof(*out));
        }
    }
}

int bresize_run(struct op *op, opm_error *err)
{
    const struct shape *s = &kernel_out(op, 0)->shape;

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    pool_for(kernel_pool(op), s->dim[0] * blocks_of(op, s->dim[1]) * (s->rank == 4 ? s->dim[2] : 1),
             4, resize_part, op);
    return 0;
}
