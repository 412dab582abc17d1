/* conv.c -- Conv.
 *
 * The general way is a matrix product, weights (packed once) by columns of windows, which each
 * thread gathers block by block in packed form (im2col without the matrix). Depthwise convolutions
 * go row by row. */
#include "engine/native/op/conv.h"

#include "engine/native/math/gemm.h"
#include "engine/native/op/kernels.h"

#include <string.h>

/* Panels of columns that are gathered at a time. */
#define COLS 4
/* Columns of a panel at most. */
#define COLUMNS_MAX 64
/* Depthwise kernels with more rows go by the matrix product. */
#define DEPTHWISE_ROWS 16
/* What things take on one thread, about. */
#define TAP_NS 0.1
#define FMA_NS 0.02

static void conv_release(void *state)
{
    struct conv *c = state;

    native_free(c->packed);
    native_free(c->packed_rows);
}

static int pack_weights(struct op *op, struct conv *c, const float *w, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t m = c->oc / c->groups, k = c->icg * window_kernel(&c->w),
            floats = gemm_size_a(isa, m, k);

    c->packed_group = floats;
    if (floats < 0 || floats > PTRDIFF_MAX / 8 / c->groups)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    if (!c->packed)
        c->packed = native_alloc((size_t)MAX(floats * c->groups, (int64_t)1) * sizeof(float));
    if (!c->packed)
        return kernel_nomem(op, err);
    for (int64_t g = 0; g < c->groups; g++)
        gemm_pack_a(isa, c->packed + g * floats,
                    (const char *)w + (size_t)(g * m * k) * sizeof(float), m, k, k, 1, 0,
                    gemm_panels(m, isa->mr));
    return 0;
}

int conv_init(struct conv *c, struct op *op, const struct shape *in, const struct shape *w,
              opm_error *err)
{
    int rc = window_conv(&c->w, op, in, w, &c->out, err);

    if (rc)
        return rc;
    c->groups = node_attr_int(op->node, "group", 1);
    c->n = in->dim[0];
    c->ic = in->dim[1];
    c->oc = w->dim[0];
    c->icg = w->dim[1];
    return 0;
}

int conv_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *w = kernel_in(op, 1), *bias = kernel_in(op, 2);
    const struct isa *isa = kernel_isa(op);
    struct conv *c = kernel_new_state(op, sizeof(*c));
    int64_t kc, per;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!c)
        return kernel_nomem(op, err);
    op->release = conv_release;
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(in->type), err);
    if (!rc && bias)
        rc = kernel_want(op, 2, TYPE_BIT(in->type), err);
    if (!rc)
        rc = conv_init(c, op, &in->shape, &w->shape, err);
    if (rc)
        return rc;
    window_flatten(&c->w);
    if (bias && (bias->shape.rank != 1 || bias->count != c->oc))
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)c->oc);
    rc = kernel_set(op, 0, in->type, &c->out, err);
    if (!rc)
        rc = posts_check(op, c->oc, err);
    if (rc || in->type != TENSOR_F32)
        return rc ? rc : kernel_const(op, 1) && !kernel_data(op, 1) ? kernel_nomem(op, err) : 0;
    c->depthwise = c->icg == 1 && c->oc == c->groups && c->w.nd <= 2 &&
                   c->w.kernel[1] <= DEPTHWISE_ROWS && c->w.kernel[2] <= INT32_MAX;
    c->weights_const = kernel_fixed(op, 1);
    c->pointwise = window_kernel(&c->w) == 1;
    for (int d = 0; d < 3; d++)
        c->pointwise = c->pointwise && c->w.stride[d] == 1 && !c->w.before[d] && !c->w.after[d];
    if (c->weights_const && !kernel_data(op, 1))
        return kernel_nomem(op, err);
    if (c->depthwise)
        return 0;
    c->rows = conv_rows_fit(c);
    if (c->rows)
        return conv_rows_prepare(op, c, err);
    if (c->weights_const && !c->packed) {
        rc = pack_weights(op, c, w->data, err);
        if (rc)
            return rc;
    }
    kc = gemm_kc(c->icg * window_kernel(&c->w));
    per = kc * COLS * isa->nr;
    op->scratch_bytes = (size_t)(per * pool_threads(kernel_pool(op))) * sizeof(float);
    return 0;
}

struct conv_job {
    const struct op *op;
    const struct conv *c;
    const struct posts *posts;
    const float *in, *bias;
    float *out, *scratch;
    int64_t blocks, msplit;
    int64_t kc;
};

/* Columns of the window matrix that lie in one row of the output and in one panel. */
struct run {
    int64_t to;   /* in the panels, of row 0 */
    int64_t x;    /* in the output */
    int64_t y, z; /* where its windows begin, padding included */
    int64_t len;
};

static int split_runs(const struct window *w, int nr, int64_t kc, int64_t pos, int64_t n,
                      struct run *run)
{
    int64_t x = pos % w->out[2], y = pos / w->out[2] % w->out[1], z = pos / (w->out[2] * w->out[1]);
    int nrun = 0;

    for (int64_t at = 0; at < n;) {
        int64_t in_panel = at % nr, len = MIN(MIN(n - at, nr - in_panel), w->out[2] - x);

        run[nrun++] = (struct run){ .to = at / nr * nr * kc + in_panel,
                                    .x = x,
                                    .y = y * w->stride[1] - w->before[1],
                                    .z = z * w->stride[0] - w->before[0],
                                    .len = len };
        at += len;
        x += len;
        if (x < w->out[2])
            continue;
        x = 0;
        if (++y < w->out[1])
            continue;
        y = 0;
        z++;
    }
    return nrun;
}

static inline void copy_floats(float *to, const float *from, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 <= n; i += 4)
        memcpy(to + i, from + i, 4 * sizeof(*to));
    for (; i < n; i++)
        to[i] = from[i];
}

/* One tap of one channel, whose plane is at src. */
static void gather_tap(const struct window *w, const float *src, int64_t kd, int64_t kh, int64_t kw,
                       const struct run *run, int nrun, float *out)
{
    const int64_t s = w->stride[2], off = kw * w->dilation[2] - w->before[2],
                  last = w->in[2] - 1 - off; /* columns of the output whose tap is inside: */
    const int64_t from = off >= 0 ? 0
                         : s == 1 ? -off
                                  : (-off + s - 1) / s,
                  end = last < 0 ? 0
                        : s == 1 ? last + 1
                                 : last / s + 1;

    for (const struct run *r = run; r < run + nrun; r++) {
        int64_t iz = r->z + kd * w->dilation[0], iy = r->y + kh * w->dilation[1], lo, hi;
        float *to = out + r->to;
        const float *row;

        if (iz < 0 || iz >= w->in[0] || iy < 0 || iy >= w->in[1]) {
            for (int64_t i = 0; i < r->len; i++)
                to[i] = 0;
            continue;
        }
        lo = MIN(MAX(from - r->x, (int64_t)0), r->len);
        hi = MIN(MAX(end - r->x, lo), r->len);
        row = src + (iz * w->in[1] + iy) * w->in[2];
        for (int64_t i = 0; i < lo; i++)
            to[i] = 0;
        if (s == 1 && hi > lo)
            copy_floats(to + lo, row + (r->x + lo + off), hi - lo);
        else if (s == 2) /* known to the compiler */
            for (int64_t i = lo; i < hi; i++)
                to[i] = row[(r->x + i) * 2 + off];
        else
            for (int64_t i = lo; i < hi; i++)
                to[i] = row[(r->x + i) * s + off];
        for (int64_t i = hi; i < r->len; i++)
            to[i] = 0;
    }
}

/* Rows [k0, k0 + kc) of the window matrix, columns [pos, pos + n), as panels. */
static void gather(const struct conv *c, const float *in, int nr, int64_t k0, int64_t kc,
                   int64_t pos, int64_t n, float *out)
{
    const struct window *w = &c->w;
    int64_t taps = window_kernel(w), plane = window_in(w), ch = k0 / taps, kw = k0 % w->kernel[2],
            kh = k0 / w->kernel[2] % w->kernel[1], kd = k0 % taps / (w->kernel[2] * w->kernel[1]);
    struct run run[COLS * COLUMNS_MAX];
    int nrun = c->pointwise ? 0 : split_runs(w, nr, kc, pos, n, run);

    for (int64_t k = 0; k < kc; k++) {
        for (int64_t p = 0; p * nr < n && c->pointwise; p++)
            memcpy(out + p * nr * kc + k * nr, in + ch * plane + pos + p * nr,
                   (size_t)MIN((int64_t)nr, n - p * nr) * sizeof(*out));
        gather_tap(w, in + ch * plane, kd, kh, kw, run, nrun, out + k * nr);
        for (int64_t i = n; i % nr; i++)
            out[i / nr * nr * kc + k * nr + i % nr] = 0;
        if (++kw < w->kernel[2])
            continue;
        kw = 0;
        if (++kh < w->kernel[1])
            continue;
        kh = 0;
        if (++kd < w->kernel[0])
            continue;
        kd = 0;
        ch++;
    }
}

static void conv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct conv_job *j = arg;
    const struct conv *c = j->c;
    const struct isa *isa = kernel_isa(j->op);
    int64_t m = c->oc / c->groups, k = c->icg * window_kernel(&c->w), cols = window_out(&c->w);
    int64_t mp = gemm_panels(m, isa->mr), plane = window_in(&c->w);
    float *panel = j->scratch + (int64_t)thread * j->kc * COLS * isa->nr;

    for (int64_t item = begin; item < end; item++) {
        int64_t ms = item % j->msplit, block = item / j->msplit % j->blocks,
                ng = item / (j->msplit * j->blocks), g = ng % c->groups;
        int64_t c0 = block * COLS * isa->nr, nc = MIN((int64_t)COLS * isa->nr, cols - c0);
        int64_t i0 = mp * ms / j->msplit, i1 = mp * (ms + 1) / j->msplit;
        int64_t r0 = i0 * isa->mr, r1 = MIN(i1 * isa->mr, m);
        const float *in = j->in + ng * c->icg * plane;
        const float *a = c->packed + g * c->packed_group;
        float *out = j->out + ng * m * cols + c0;

        for (int64_t k0 = 0; k0 < k; k0 += j->kc) {
            int64_t kc = MIN(j->kc, k - k0);

            gather(c, in, isa->nr, k0, kc, c0, nc, panel);
            for (int64_t p = 0; p * isa->nr < nc; p++)
                for (int64_t i = i0; i < i1; i++)
                    isa->gemm((int)MIN((int64_t)isa->mr, m - i * isa->mr),
                              (int)MIN((int64_t)isa->nr, nc - p * isa->nr), kc,
                              a + i * isa->mr * k + k0 * isa->mr, panel + p * isa->nr * kc,
                              out + i * isa->mr * cols + p * isa->nr, cols, k0 > 0);
        }
        struct posts posts = *j->posts;

        posts.bias_base = g * m;
        for (int64_t r = r0; r < r1 && j->bias; r++)
            isa->binary(B_ADD, out + r * cols, out + r * cols, 1, j->bias + g * m + r, 0, nc);
        if (j->op->npost)
            posts_apply(&posts, out + r0 * cols, cols, r1 - r0, nc, r0, c0, ng * m * cols);
    }
}

/* One output row of one channel; columns whose window sticks out are done one by one. */
static void depthwise_row(const struct isa *isa, const struct window *w, const float *in,
                          const float *taps, float bias, int64_t y, float *out)
{
    const float *row[DEPTHWISE_ROWS], *wt[DEPTHWISE_ROWS];
    int64_t s = w->stride[2], dl = w->dilation[2], before = w->before[2],
            reach = w->in[2] - 1 - (w->kernel[2] - 1) * dl + before,
            lo = MIN((before + s - 1) / s, w->out[2]),
            hi = reach < 0 ? lo : MAX(MIN(reach / s + 1, w->out[2]), lo);
    int rows = 0;

    for (int64_t kh = 0; kh < w->kernel[1]; kh++) {
        int64_t iy = y * w->stride[1] - w->before[1] + kh * w->dilation[1];

        if (iy < 0 || iy >= w->in[1])
            continue;
        row[rows] = in + iy * w->in[2];
        wt[rows++] = taps + kh * w->kernel[2];
    }
    for (int64_t x = lo == 0 && lo < hi ? hi : 0; x < w->out[2];
         x = x + 1 == lo && lo < hi ? hi : x + 1) {
        float acc = bias;

        for (int r = 0; r < rows; r++)
            for (int64_t k = 0; k < w->kernel[2]; k++) {
                int64_t ix = x * s - before + k * dl;

                if (ix >= 0 && ix < w->in[2])
                    acc += wt[r][k] * row[r][ix];
            }
        out[x] = acc;
    }
    for (int r = 0; r < rows; r++)
        row[r] += lo * s - before;
    if (lo < hi)
        isa->depthwise(out + lo, hi - lo, row, wt, rows, (int)w->kernel[2], s, dl, bias);
}

static void depthwise_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct conv_job *j = arg;
    const struct conv *c = j->c;
    const struct window *w = &c->w;
    const float *weights = kernel_in(j->op, 1)->data;
    int64_t cols = window_out(w);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t ch = i % c->oc;
        float *out = j->out + i * cols;
        struct posts posts = *j->posts;

        posts.bias_base = ch;
        for (int64_t y = 0; y < w->out[1]; y++)
            depthwise_row(kernel_isa(j->op), w, j->in + i * window_in(w),
                          weights + ch * window_kernel(w), j->bias ? j->bias[ch] : 0, y,
                          out + y * w->out[2]);
        if (j->op->npost)
            posts_apply(&posts, out, cols, 1, cols, 0, 0, i * cols);
    }
}

/* Any float type, one output at a time. */
static void conv_plain_f64(const struct op *op, const struct conv *c)
{
    const struct window *w = &c->w;
    const double *in = kernel_in(op, 0)->data, *wt = kernel_in(op, 1)->data,
                 *bias = kernel_in(op, 2) ? kernel_in(op, 2)->data : NULL;
    double *out = kernel_out(op, 0)->data;
    int64_t m = c->oc / c->groups, cols = window_out(w), taps = window_kernel(w);

    for (int64_t i = 0; i < kernel_out(op, 0)->count; i++) {
        int64_t pos = i % cols, oc = i / cols % c->oc, n = i / (cols * c->oc), g = oc / m;
        double sum = bias ? bias[oc] : 0;

        for (int64_t k = 0; k < c->icg * taps; k++) {
            int64_t t = k % taps, ch = k / taps;
            int64_t x = pos % w->out[2] * w->stride[2] - w->before[2] +
                        t % w->kernel[2] * w->dilation[2],
                    y = pos / w->out[2] % w->out[1] * w->stride[1] - w->before[1] +
                        t / w->kernel[2] % w->kernel[1] * w->dilation[1],
                    z = pos / (w->out[2] * w->out[1]) * w->stride[0] - w->before[0] +
                        t / (w->kernel[2] * w->kernel[1]) * w->dilation[0];

            if (x < 0 || y < 0 || z < 0 || x >= w->in[2] || y >= w->in[1] || z >= w->in[0])
                continue;
            sum += wt[(oc * c->icg + ch) * taps + t] *
                   in[((n * c->ic + g * c->icg + ch) * w->in[0] + z) * w->in[1] * w->in[2] +
                      y * w->in[2] + x];
        }
        out[i] = sum;
    }
}

int conv_run(struct op *op, opm_error *err)
{
    struct conv *c = op->state;
    const struct isa *isa = kernel_isa(op);
    struct posts posts;
    struct conv_job j = { .op = op, .c = c, .posts = &posts };
    int64_t m = c->oc / c->groups, work;

    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (kernel_in(op, 0)->type == TENSOR_F64) {
        conv_plain_f64(op, c);
        return 0;
    }
    if (c->rows && !c->depthwise)
        return conv_rows_run(op, c);
    if (!c->weights_const && !c->depthwise) {
        int rc = pack_weights(op, c, kernel_in(op, 1)->data, err);

        if (rc)
            return rc;
    }
    posts_begin(&posts, op, true);
    j.in = kernel_in(op, 0)->data;
    j.bias = kernel_in(op, 2) ? kernel_in(op, 2)->data : NULL;
    j.out = kernel_out(op, 0)->data;
    j.scratch = op->scratch;
    if (c->depthwise) {
        pool_for(kernel_pool(op), c->n * c->oc,
                 pool_grain((double)(window_out(&c->w) * window_kernel(&c->w)) * TAP_NS),
                 depthwise_part, &j);
        return 0;
    }
    if (c->icg * window_kernel(&c->w) == 0) {
        memset(j.out, 0, kernel_out(op, 0)->bytes);
        return 0;
    }
    j.kc = gemm_kc(c->icg * window_kernel(&c->w));
    j.blocks = (window_out(&c->w) + COLS * isa->nr - 1) / (COLS * isa->nr);
    work = c->n * c->groups * j.blocks;
    j.msplit = work >= pool_threads(kernel_pool(op))
                   ? 1
                   : MIN((int64_t)pool_threads(kernel_pool(op)), gemm_panels(m, isa->mr));
    pool_for(kernel_pool(op), work * j.msplit,
             pool_grain(2 * FMA_NS * (double)(m * c->icg * window_kernel(&c->w)) *
                        (double)MIN(window_out(&c->w), (int64_t)COLS * isa->nr) / (double)j.msplit),
             conv_part, &j);
    return 0;
}
