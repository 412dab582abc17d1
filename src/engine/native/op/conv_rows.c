/* conv_rows.c -- Conv where each channel has few output positions.
 *
 * There, positions are the rows of a matrix product and channels its columns: the weights are read
 * once, in order, and no column is computed in vain. What comes out is turned round at the end. */
#include "engine/native/math/gemm.h"
#include "engine/native/op/conv.h"

#include <string.h>

#define POSITIONS_MAX 12
#define PACK_NS 0.2

bool conv_rows_fit(const struct conv *c)
{
    return c->groups == 1 && c->weights_const && window_out(&c->w) <= POSITIONS_MAX &&
           window_out(&c->w) < c->oc && c->icg * window_kernel(&c->w) > 0 && c->n > 0;
}

int conv_rows_prepare(struct op *op, struct conv *c, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t k = c->icg * window_kernel(&c->w), floats = gemm_size_b(isa, k, c->oc), rows, size;

    if (floats < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    if (!c->packed_rows) {
        c->packed_rows = native_alloc((size_t)floats * sizeof(float));
        if (!c->packed_rows)
            return kernel_nomem(op, err);
        gemm_pack_b(isa, c->packed_rows, kernel_in(op, 1)->data, k, c->oc, 1, k, 0,
                    gemm_panels(c->oc, isa->nr));
    }
    rows = c->n * window_out(&c->w);
    if (__builtin_mul_overflow(rows, k + c->oc + 32, &size) || size > PTRDIFF_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the input is too big");
    op->scratch_bytes = (size_t)size * sizeof(float);
    return 0;
}

/* One window of one image: channel by channel, tap by tap. */
static void gather_row(const struct conv *c, const float *in, int64_t pos, float *to)
{
    const struct window *w = &c->w;
    int64_t x0 = pos % w->out[2] * w->stride[2] - w->before[2],
            y0 = pos / w->out[2] % w->out[1] * w->stride[1] - w->before[1],
            z0 = pos / (w->out[2] * w->out[1]) * w->stride[0] - w->before[0];
    bool whole = w->dilation[2] == 1 && x0 >= 0 && x0 + w->kernel[2] <= w->in[2];

    for (int64_t ch = 0; ch < c->icg; ch++, in += window_in(w))
        for (int64_t kz = 0; kz < w->kernel[0]; kz++)
            for (int64_t ky = 0; ky < w->kernel[1]; ky++, to += w->kernel[2]) {
                int64_t z = z0 + kz * w->dilation[0], y = y0 + ky * w->dilation[1];
                const float *row = in + (z * w->in[1] + y) * w->in[2];
                bool out = z < 0 || z >= w->in[0] || y < 0 || y >= w->in[1];

                if (!out && whole && w->kernel[2] > 8) {
                    memcpy(to, row + x0, (size_t)w->kernel[2] * sizeof(*to));
                    continue;
                }
                for (int64_t kx = 0; kx < w->kernel[2]; kx++) {
                    int64_t x = x0 + kx * w->dilation[2];

                    to[kx] = out || x < 0 || x >= w->in[2] ? 0 : row[x];
                }
            }
}

struct rows_job {
    const struct op *op;
    const struct conv *c;
    const float *in;
    float *a;
};

static void gather_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct rows_job *j = arg;
    const struct conv *c = j->c;
    int64_t cols = window_out(&c->w), k = c->icg * window_kernel(&c->w);

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        gather_row(c, j->in + i / cols * c->ic * window_in(&c->w), i % cols, j->a + i * k);
}

/* What follows does not look at where an element lies. */
static bool unary_only(const struct op *op)
{
    for (int i = 0; i < op->npost; i++)
        if (op->post[i].kind != POST_UNARY && op->post[i].kind != POST_SCALE)
            return false;
    return true;
}

int conv_rows_run(struct op *op, const struct conv *c)
{
    int64_t cols = window_out(&c->w), rows = c->n * cols, k = c->icg * window_kernel(&c->w);
    const struct nt *bias = kernel_in(op, 2);
    bool simple = unary_only(op);
    struct posts posts;
    struct rows_job j = { op, c, kernel_in(op, 0)->data, op->scratch };
    float *turned = j.a + rows * k, *out = kernel_out(op, 0)->data;
    struct gemm g = { .isa = kernel_isa(op),
                      .m = rows,
                      .n = c->oc,
                      .k = k,
                      .a = j.a,
                      .ars = k,
                      .aks = 1,
                      .b = c->packed_rows,
                      .c = turned,
                      .ldc = c->oc,
                      .alpha = 1,
                      .add = bias ? bias->data : NULL,
                      .add_cs = 1,
                      .posts = simple && op->npost ? &posts : NULL };

    posts_begin(&posts, op, true);
    pool_for(kernel_pool(op), rows, pool_grain((double)k), gather_part, &j);
    gemm_run_all(&g, kernel_pool(op));
    for (int64_t n = 0; n < c->n; n++)
        for (int64_t o = 0; o < c->oc; o++)
            for (int64_t p = 0; p < cols; p++)
                out[(n * c->oc + o) * cols + p] = turned[(n * cols + p) * c->oc + o];
    for (int64_t n = 0; n < c->n && !simple; n++)
        posts_apply(&posts, out + n * c->oc * cols, cols, c->oc, cols, 0, 0, n * c->oc * cols);
    return 0;
}
