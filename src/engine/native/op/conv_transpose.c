/* conv_transpose.c -- ConvTranspose, and com.microsoft's whose padding is an input.
 *
 * What a tap of the kernel adds to a row of the output lies a stride apart. So a row is put
 * together as `stride` rows, one for each rest x % stride, whose elements are neighbours, and these
 * are interleaved at the end. With many input channels, what each tap adds is a product of
 * matrices. */
#include "engine/native/op/conv_transpose.h"

#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/gemm.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define FEW_CHANNELS 4                 /* of a group: each is added on its own */
#define BLOCK_TAPS 48                  /* output channels at a time: about so many taps in all */
#define SCRATCH_MAX ((int64_t)1 << 28) /* floats */

/* Scratch memory, in floats: packed input, then for each thread products and rows. */
struct rows_plan {
    int64_t packed, products, phases, block;
};

static void rows_sizes(const struct convt *c, const struct isa *isa, struct rows_plan *r)
{
    const struct window *w = &c->w;
    int64_t icg = c->ic / c->groups, taps = window_kernel(w);

    *r = (struct rows_plan){ .phases = w->out[2] + w->stride[2] + 32 };
    if (icg < FEW_CHANNELS)
        return;
    r->block = MAX(MIN(BLOCK_TAPS / MAX(taps, (int64_t)1), c->oc / c->groups), (int64_t)1);
    r->packed = (gemm_size_b(isa, icg, window_in(w)) + 15) / 16 * 16;
    if (__builtin_mul_overflow(r->block * taps, window_in(w), &r->products))
        r->products = SCRATCH_MAX;
    r->products = (r->products + 15) / 16 * 16;
}

/* Bytes; 0: not by rows. */
static size_t plan_rows(const struct convt *c, const struct isa *isa, int threads)
{
    struct rows_plan r;

    if (!window_in(&c->w) || !window_out(&c->w) || !c->ic || c->w.out[2] >= SCRATCH_MAX ||
        c->w.stride[2] >= SCRATCH_MAX)
        return 0;
    rows_sizes(c, isa, &r);
    if (r.packed < 0 || r.packed >= SCRATCH_MAX || r.products >= SCRATCH_MAX / threads)
        return 0;
    return (size_t)(r.packed + (r.products + r.phases + 16) * threads) * sizeof(float);
}

static const struct nt *bias_of(const struct op *op)
{
    return kernel_in(op, op->kernel->kind == KERNEL_convtpads ? 3 : 2);
}

int convtranspose_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *wt = kernel_in(op, 1), *bias = bias_of(op);
    uint32_t pads = op->kernel->kind == KERNEL_convtpads ? 2 : 0;
    struct convt *c = kernel_new_state(op, sizeof(*c));
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!c)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(in->type), err);
    if (!rc && bias)
        rc = kernel_want(op, pads ? 3 : 2, TYPE_BIT(in->type), err);
    if (!rc && pads && kernel_in(op, pads))
        rc = kernel_want(op, pads, TYPE_BIT(TENSOR_I64), err);
    if (rc)
        return rc;
    if (pads && kernel_in(op, pads) && !kernel_data(op, pads))
        return NEED_DATA;
    rc = window_conv_transpose(&c->w, op, &in->shape, &wt->shape, pads, &s, err);
    if (rc)
        return rc;
    c->groups = node_attr_int(op->node, "group", 1);
    c->n = in->shape.dim[0];
    c->ic = in->shape.dim[1];
    c->oc = s.dim[1];
    if (bias && bias->count != c->oc)
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)c->oc);
    rc = kernel_set(op, 0, in->type, &s, err);
    op->scratch_bytes = 0;
    if (!rc && in->type == TENSOR_F32)
        op->scratch_bytes = plan_rows(c, kernel_isa(op), pool_threads(kernel_pool(op)));
    return rc;
}

struct convt_job {
    const struct op *op;
    const struct convt *c;
};

/* Input coordinate that tap k of dimension d brings to output o; -1: none. */
static inline int64_t from(const struct window *w, int d, int64_t o, int64_t k)
{
    int64_t x = o + w->before[d] - k * w->dilation[d];

    return x < 0 || x % w->stride[d] || x / w->stride[d] >= w->in[d] ? -1 : x / w->stride[d];
}

#define CONVT_PLANE(T)                                                                          \
    do {                                                                                        \
        const T *in = (const T *)kernel_in(j->op, 0)->data + (n * c->ic + g * icg) * plane;     \
        const T *wt = (const T *)kernel_in(j->op, 1)->data + (g * icg * ocg + oc % ocg) * taps; \
        T *out = (T *)kernel_out(j->op, 0)->data + i * cols;                                    \
        T b = bias_of(j->op) ? ((const T *)bias_of(j->op)->data)[oc] : 0;                       \
        for (int64_t pos = 0; pos < cols; pos++)                                                \
            out[pos] = b;                                                                       \
        for (int64_t ch = 0; ch < icg; ch++)                                                    \
            for (int64_t t = 0; t < taps; t++) {                                                \
                T weight = wt[ch * ocg * taps + t];                                             \
                int64_t kx = t % w->kernel[2], ky = t / w->kernel[2] % w->kernel[1],            \
                        kz = t / (w->kernel[2] * w->kernel[1]);                                 \
                for (int64_t z = 0; z < w->out[0]; z++) {                                       \
                    int64_t iz = from(w, 0, z, kz);                                             \
                    for (int64_t y = 0; y < w->out[1] && iz >= 0; y++) {                        \
                        int64_t iy = from(w, 1, y, ky);                                         \
                        int64_t x0 = kx * w->dilation[2] - w->before[2];                        \
                        if (iy < 0)                                                             \
                            continue;                                                           \
                        for (int64_t ix = 0; ix < w->in[2]; ix++) {                             \
                            int64_t x = x0 + ix * w->stride[2];                                 \
                            if (x >= 0 && x < w->out[2])                                        \
                                out[(z * w->out[1] + y) * w->out[2] + x] +=                     \
                                    weight *                                                    \
                                    in[ch * plane + (iz * w->in[1] + iy) * w->in[2] + ix];      \
                        }                                                                       \
                    }                                                                           \
                }                                                                               \
            }                                                                                   \
    } while (0)

static void convt_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct convt_job *j = arg;
    const struct convt *c = j->c;
    const struct window *w = &c->w;
    int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups, plane = window_in(w),
            cols = window_out(w), taps = window_kernel(w);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t oc = i % c->oc, n = i / c->oc, g = oc / ocg;

        if (kernel_in(j->op, 0)->type == TENSOR_F32)
            CONVT_PLANE(float);
        else
            CONVT_PLANE(double);
    }
}

struct rows_job {
    const struct op *op;
    const struct convt *c;
    struct rows_plan r;
    const float *in; /* of this image and group */
    int64_t image, group;
    float *scratch;
    int64_t each, full; /* elements of a rest's row, of which those from `full` on have one less */
};

/* row[ix], times weight, goes to x = ix * stride + off. */
static void add_tap(const struct rows_job *j, float *phases, const float *row, float weight,
                    int64_t rest, int64_t by)
{
    const struct window *w = &j->c->w;
    int64_t len = j->each - (rest >= j->full), first = MAX(by, (int64_t)0),
            end = MIN(w->in[2] + by, len);

    if (first < end)
        kernel_isa(j->op)->loops->axpy(phases + rest * j->each + first, row + (first - by), weight,
                                       end - first);
}

/* Every s'th element of out comes from a row of its own; b: the second. */
static void interleave(float *restrict out, const float *restrict a, const float *restrict b,
                       int64_t s, int64_t each, int64_t n, float bias)
{
    int64_t i = 0;

    for (; s == 2 && i < n / 2; i++) {
        out[2 * i] = a[i] + bias;
        out[2 * i + 1] = b[i] + bias;
    }
    if (s == 2 && n % 2)
        out[n - 1] = a[i] + bias;
    for (int64_t r = 0; r < s && s != 2; r++)
        for (int64_t x = r, k = r * each; x < n; x += s, k++)
            out[x] = a[k] + bias;
}

/* Windows that do not overlap: each output has one tap. The row of a channel at z, y. */
static void apart_row(const struct rows_job *j, int64_t oc, int64_t z, int64_t y,
                      const float *products)
{
    const struct convt *c = j->c;
    const struct window *w = &c->w;
    int64_t k = (z % w->kernel[0] * w->kernel[1] + y % w->kernel[1]) * w->kernel[2],
            at = (z / w->kernel[0] * w->in[1] + y / w->kernel[1]) * w->in[2], plane = window_in(w);
    float *out = (float *)kernel_out(j->op, 0)->data +
                 ((j->image * c->oc + oc) * w->out[0] * w->out[1] + z * w->out[1] + y) * w->out[2];
    const float *first = products + k * plane + at;

    interleave(out, first, first + plane, w->stride[2], plane, w->out[2],
               bias_of(j->op) ? ((const float *)bias_of(j->op)->data)[oc] : 0);
}

static bool is_apart(const struct window *w)
{
    for (int d = 0; d < 3; d++)
        if (w->kernel[d] != w->stride[d] || (w->kernel[d] > 1 && w->dilation[d] > 1) ||
            w->before[d] || w->out[d] != w->in[d] * w->stride[d])
            return false;
    return true;
}

/* The row of output channel oc at z, y. products: of this channel, or NULL. */
static void one_row(const struct rows_job *j, int64_t oc, int64_t z, int64_t y,
                    const float *products, float *phases)
{
    const struct convt *c = j->c;
    const struct window *w = &c->w;
    int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups, taps = window_kernel(w),
            plane = window_in(w), s = w->stride[2], each = j->each;
    const float *wt =
        (const float *)kernel_in(j->op, 1)->data + (j->group * icg * ocg + oc % ocg) * taps;
    float *out = (float *)kernel_out(j->op, 0)->data +
                 ((j->image * c->oc + oc) * w->out[0] * w->out[1] + z * w->out[1] + y) * w->out[2];
    float bias = bias_of(j->op) ? ((const float *)bias_of(j->op)->data)[oc] : 0;

    memset(phases, 0, (size_t)(each * s) * sizeof(float));
    for (int64_t k = 0; k < w->kernel[0] * w->kernel[1]; k++) {
        int64_t iz = w->kernel[0] > 1 || w->out[0] > 1 ? from(w, 0, z, k / w->kernel[1]) : 0,
                iy = from(w, 1, y, k % w->kernel[1]), row = (iz * w->in[1] + iy) * w->in[2];
        int64_t off = -w->before[2], rest = (off % s + s) % s, by = (off - rest) / s;

        if (iz < 0 || iy < 0)
            continue;
        for (int64_t kx = 0, t = k * w->kernel[2]; kx < w->kernel[2]; kx++, t++) {
            if (products)
                add_tap(j, phases, products + t * plane + row, 1, rest, by);
            for (int64_t ch = 0; ch < icg && !products; ch++)
                add_tap(j, phases, j->in + ch * plane + row, wt[ch * ocg * taps + t], rest, by);
            for (rest += w->dilation[2]; rest >= s; rest -= s)
                by++;
        }
    }
    if (s == 1) {
        kernel_isa(j->op)->unary(U_AFFINE, out, phases, w->out[2], 1, bias);
        return;
    }
    interleave(out, phases, phases + each, s, each, w->out[2], bias);
}

/* A long kernel of one dimension: what an input element adds are neighbours. */
static void long_row(const struct rows_job *j, int64_t oc)
{
    const struct convt *c = j->c;
    const struct window *w = &c->w;
    int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups, k = w->kernel[2];
    const float *wt =
        (const float *)kernel_in(j->op, 1)->data + (j->group * icg * ocg + oc % ocg) * k;
    float *out = (float *)kernel_out(j->op, 0)->data + (j->image * c->oc + oc) * w->out[2];
    float bias = bias_of(j->op) ? ((const float *)bias_of(j->op)->data)[oc] : 0;

    for (int64_t x = 0; x < w->out[2]; x++)
        out[x] = bias;
    for (int64_t ch = 0; ch < icg; ch++)
        for (int64_t ix = 0; ix < w->in[2]; ix++) {
            int64_t x = ix * w->stride[2] - w->before[2], first = MAX(-x, (int64_t)0),
                    end = MIN(k, w->out[2] - x);

            if (first < end)
                kernel_isa(j->op)->loops->axpy(out + x + first, wt + ch * ocg * k + first,
                                               j->in[ch * w->in[2] + ix], end - first);
        }
}

/* Blocks of output channels of a group. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct rows_job *j = arg;
    const struct convt *c = j->c;
    const struct window *w = &c->w;
    int64_t icg = c->ic / c->groups, ocg = c->oc / c->groups, taps = window_kernel(w);
    float *mine = j->scratch + j->r.packed + (j->r.products + j->r.phases + 16) * thread,
          *phases = mine + j->r.products;
    bool flat = w->nd == 1 && w->dilation[2] == 1 && w->kernel[2] >= 32 && !j->r.block,
         apart = j->r.block && is_apart(w);

    for (int64_t b = begin; b < end; b++) {
        int64_t step = MAX(j->r.block, (int64_t)1), first = b * step, n = MIN(step, ocg - first);

        if (j->r.block) {
            struct gemm g = { .isa = kernel_isa(j->op),
                              .m = n * taps,
                              .n = window_in(w),
                              .k = icg,
                              .a = (const float *)kernel_in(j->op, 1)->data +
                                   (j->group * icg * ocg + first) * taps,
                              .ars = 1,
                              .aks = ocg * taps,
                              .b = j->scratch,
                              .c = mine,
                              .ldc = window_in(w),
                              .alpha = 1 };
            struct gemm_grid grid;

            gemm_grid(&grid, g.isa, g.m, g.n, g.k, 1, 1);
            for (int64_t i = 0; i < grid.nmb * grid.nnb; i++)
                gemm_item(&g, &grid, i);
        }
        for (int64_t o = 0; o < n; o++) {
            int64_t oc = j->group * ocg + first + o;

            if (flat)
                long_row(j, oc);
            for (int64_t i = 0; i < w->out[0] * w->out[1] && apart; i++)
                apart_row(j, oc, i / w->out[1], i % w->out[1], mine + o * taps * window_in(w));
            for (int64_t i = 0; i < w->out[0] * w->out[1] && !flat && !apart; i++)
                one_row(j, oc, i / w->out[1], i % w->out[1],
                        j->r.block ? mine + o * taps * window_in(w) : NULL, phases);
        }
    }
}

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct rows_job *j = arg;
    int64_t plane = window_in(&j->c->w);

    (void)thread;
    gemm_pack_b(kernel_isa(j->op), j->scratch, j->in, j->c->ic / j->c->groups, plane, plane, 1,
                begin, end);
}

static void run_rows(struct op *op)
{
    struct rows_job j = { .op = op, .c = op->state, .scratch = op->scratch };
    const struct convt *c = j.c;
    int64_t ocg = c->oc / c->groups, icg = c->ic / c->groups;

    rows_sizes(c, kernel_isa(op), &j.r);
    j.each = (c->w.out[2] + c->w.stride[2] - 1) / c->w.stride[2];
    j.full = c->w.out[2] - (j.each - 1) * c->w.stride[2];
    for (j.image = 0; j.image < c->n; j.image++)
        for (j.group = 0; j.group < c->groups; j.group++) {
            int64_t step = MAX(j.r.block, (int64_t)1);

            j.in = (const float *)kernel_in(op, 0)->data +
                   (j.image * c->ic + j.group * icg) * window_in(&c->w);
            if (j.r.block)
                pool_for(kernel_pool(op), gemm_panels(window_in(&c->w), kernel_isa(op)->nr), 8,
                         pack_part, &j);
            pool_for(kernel_pool(op), (ocg + step - 1) / step, 1, rows_part, &j);
        }
}

int convtranspose_run(struct op *op, opm_error *err)
{
    struct convt_job j = { op, op->state };

    (void)err;
    if (kernel_in(op, 0)->type == TENSOR_F32 && op->scratch_bytes && op->scratch)
        run_rows(op);
    else
        pool_for(kernel_pool(op), j.c->n * j.c->oc, 1, convt_part, &j);
    return 0;
}

int convtpads_prepare(struct op *op, opm_error *err)
{
    return convtranspose_prepare(op, err);
}

int convtpads_run(struct op *op, opm_error *err)
{
    return convtranspose_run(op, err);
}
