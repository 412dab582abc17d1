/* deform_conv.c -- DeformConv: a convolution whose taps are moved by offsets that are data.
 *
 * Positions are taken in blocks: where the taps of a block lie between elements is found once for
 * all channels of an offset group, the elements are gathered into a matrix, and a product by the
 * weights gives all output channels of a group. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/window.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define CORNERS 4
#define FMA_NS 0.02 /* of one thread, about */

struct deform {
    struct window w;
    int64_t n, ic, oc, groups, offset_groups;
    int64_t block; /* positions at a time */
    /* Floats of scratch memory of a thread: corners and their weights, matrix, matrix packed. */
    int64_t corner_floats, matrix_floats, packed_floats;
};

static int deform_operands(const struct op *op, const struct deform *c, opm_error *err)
{
    const struct nt *offset = kernel_in(op, 2), *bias = kernel_in(op, 3), *mask = kernel_in(op, 4);
    int64_t taps = c->offset_groups * window_kernel(&c->w);
    struct shape want = { 4, { c->n, 2 * taps, c->w.out[1], c->w.out[2] } };

    if (c->offset_groups < 1 || c->ic % c->offset_groups)
        return kernel_fail(op, OPM_EINVAL, err, "%lld input channels in %lld offset groups",
                           (long long)c->ic, (long long)c->offset_groups);
    if (!shape_equal(&offset->shape, &want))
        return kernel_fail(op, OPM_EINVAL, err,
                           "offsets must be %lld x %lld x %lld x %lld for this input and kernel",
                           (long long)want.dim[0], (long long)want.dim[1], (long long)want.dim[2],
                           (long long)want.dim[3]);
    want.dim[1] = taps;
    if (mask && !shape_equal(&mask->shape, &want))
        return kernel_fail(op, OPM_EINVAL, err,
                           "the mask must be %lld x %lld x %lld x %lld for this input and kernel",
                           (long long)want.dim[0], (long long)want.dim[1], (long long)want.dim[2],
                           (long long)want.dim[3]);
    if (bias && bias->count != c->oc)
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)c->oc);
    return 0;
}

int deformconv_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *weight = kernel_in(op, 1);
    struct deform *c = kernel_new_state(op, sizeof(*c));
    const struct isa *isa = kernel_isa(op);
    struct shape s;
    int64_t k, all;
    int rc = c ? 0 : kernel_nomem(op, err);

    for (uint32_t i = 0; i < 5 && !rc; i++)
        if (i < 3 || kernel_in(op, i))
            rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    if (!rc && (x->shape.rank != 4 || weight->shape.rank != 4))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel but for N x C x H x W");
    if (!rc)
        rc = window_conv(&c->w, op, &x->shape, &weight->shape, &s, err);
    if (rc)
        return rc;
    c->groups = node_attr_int(op->node, "group", 1);
    c->offset_groups = node_attr_int(op->node, "offset_group", 1);
    c->n = s.dim[0];
    c->ic = x->shape.dim[1];
    c->oc = s.dim[1];
    rc = deform_operands(op, c, err);
    if (!rc)
        rc = kernel_set(op, 0, TENSOR_F32, &s, err);
    if (rc)
        return rc;
    k = c->ic / c->groups * window_kernel(&c->w);
    c->block = 4 * isa->nr;
    c->corner_floats = 2 * CORNERS * c->block;
    c->packed_floats = gemm_size_b(isa, k, c->block);
    if (window_in(&c->w) > INT32_MAX || c->packed_floats < 0 ||
        __builtin_mul_overflow(k, c->block, &c->matrix_floats) ||
        c->matrix_floats > PTRDIFF_MAX / 64 || c->packed_floats > PTRDIFF_MAX / 64 ||
        __builtin_mul_overflow(c->corner_floats + c->matrix_floats + c->packed_floats,
                               (int64_t)pool_threads(kernel_pool(op)) * 4, &all))
        return kernel_fail(op, OPM_ELIMIT, err, "the input is too big");
    op->scratch_bytes = (size_t)all;
    return 0;
}

/* One tap of the kernel, of `len` positions from `pos` on: the four elements around the place
 * where it is moved to, zero outside, weighted. */
static void corners(const struct op *op, const struct deform *c, int64_t image, int64_t group,
                    int64_t tap, int64_t pos, int64_t len, int32_t *at, float *weight)
{
    const struct window *w = &c->w;
    int64_t cols = window_out(w), taps = window_kernel(w),
            row = (image * c->offset_groups + group) * taps + tap, h = w->in[1], wide = w->in[2];
    const float *dy = (const float *)kernel_in(op, 2)->data + 2 * row * cols + pos, *dx = dy + cols,
                *mask = kernel_in(op, 4) ? (const float *)kernel_in(op, 4)->data + row * cols + pos
                                         : NULL;

    for (int64_t i = 0; i < len; i++) {
        double y = (double)((pos + i) / w->out[2] * w->stride[1] - w->before[1] +
                            tap / w->kernel[2] * w->dilation[1]) +
                   (double)dy[i],
               x = (double)((pos + i) % w->out[2] * w->stride[2] - w->before[2] +
                            tap % w->kernel[2] * w->dilation[2]) +
                   (double)dx[i];
        double m = mask ? (double)mask[i] : 1, fy, fx;
        int64_t y0, x0;

        if (!(y > -1 && y < (double)h && x > -1 && x < (double)wide))
            y = x = -2; /* not a number, too */
        y0 = (int64_t)floor(y);
        x0 = (int64_t)floor(x);
        fy = y - (double)y0;
        fx = x - (double)x0;
        for (int k = 0; k < CORNERS; k++) {
            int64_t cy = y0 + k / 2, cx = x0 + k % 2;
            bool in = cy >= 0 && cy < h && cx >= 0 && cx < wide;

            at[k * len + i] = in ? (int32_t)(cy * wide + cx) : -1;
            weight[k * len + i] = (float)((k / 2 ? fy : 1 - fy) * (k % 2 ? fx : 1 - fx) * m);
        }
    }
}

struct deform_job {
    const struct op *op;
    const struct deform *c;
    int64_t blocks;
};

static void deform_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct deform_job *j = arg;
    const struct op *op = j->op;
    const struct deform *c = j->c;
    const struct isa *isa = kernel_isa(op);
    int64_t cols = window_out(&c->w), plane = window_in(&c->w), taps = window_kernel(&c->w),
            icg = c->ic / c->groups, ocg = c->oc / c->groups, k = icg * taps,
            per = c->ic / c->offset_groups;
    float *weight = (float *)op->scratch +
                    thread * (c->corner_floats + c->matrix_floats + c->packed_floats),
          *matrix = weight + c->corner_floats, *packed = matrix + c->matrix_floats;
    int32_t *at = (int32_t *)(void *)(weight + CORNERS * c->block);

    for (int64_t i = begin; i < end; i++) {
        int64_t pos = i % j->blocks * c->block, len = MIN(c->block, cols - pos),
                g = i / j->blocks % c->groups, image = i / (j->blocks * c->groups);
        const float *in = (const float *)kernel_in(op, 0)->data + (image * c->ic + g * icg) * plane,
                    *bias =
                        kernel_in(op, 3) ? (const float *)kernel_in(op, 3)->data + g * ocg : NULL;
        struct gemm m = { .isa = isa,
                          .m = ocg,
                          .n = len,
                          .k = k,
                          .a = (const float *)kernel_in(op, 1)->data + g * ocg * k,
                          .ars = k,
                          .aks = 1,
                          .b = packed,
                          .c = (float *)kernel_out(op, 0)->data + (image * c->oc + g * ocg) * cols +
                               pos,
                          .ldc = cols,
                          .alpha = 1,
                          .add = bias,
                          .add_rs = 1 };
        struct gemm_grid grid;

        for (int64_t t = 0; t < taps; t++)
            for (int64_t ch = 0; ch < icg; ch++) {
                int64_t channel = g * icg + ch;

                if (ch == 0 || channel % per == 0)
                    corners(op, c, image, channel / per, t, pos, len, at, weight);
                isa->loops->taps(matrix + (ch * taps + t) * len, in + ch * plane, at, weight, len,
                                 CORNERS);
            }
        gemm_pack_b(isa, packed, matrix, k, len, len, 1, 0, gemm_panels(len, isa->nr));
        gemm_grid(&grid, isa, ocg, len, k, 1, 1);
        for (int64_t item = 0; item < grid.nmb * grid.nnb; item++)
            gemm_item(&m, &grid, item);
    }
}

int deformconv_run(struct op *op, opm_error *err)
{
    const struct deform *c = op->state;
    struct nt *out = kernel_out(op, 0);
    struct deform_job j = { op, c, (window_out(&c->w) + c->block - 1) / c->block };
    int64_t k = c->ic / c->groups * window_kernel(&c->w);

    (void)err;
    if (out->count == 0)
        return 0;
    if (k == 0 || kernel_in(op, 0)->count == 0) { /* nothing but the bias */
        const float *bias = kernel_in(op, 3) ? kernel_in(op, 3)->data : NULL;

        for (int64_t i = 0; i < out->count; i++)
            ((float *)out->data)[i] = bias ? bias[i / window_out(&c->w) % c->oc] : 0;
        return 0;
    }
    pool_for(kernel_pool(op), c->n * c->groups * j.blocks,
             pool_grain(2 * FMA_NS * (double)(c->oc / c->groups * k) * (double)c->block),
             deform_part, &j);
    return 0;
}
