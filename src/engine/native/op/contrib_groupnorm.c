/* contrib_groupnorm.c -- com.microsoft's GroupNorm and SkipGroupNorm: channels last as a rule, with
 * an activation, and with what is added before. */
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* GroupNorm: X, gamma, beta; SkipGroupNorm: X, gamma, beta, skip, bias, whose output 1 is their
 * sum with X. */
struct msgroup {
    int64_t n, c, groups, pixels;
    bool last;   /* channels are the last dimension */
    bool spread; /* skip is the same for all pixels */
};

int msgroupnorm_prepare(struct op *op, opm_error *err)
{
    struct msgroup *g = kernel_new_state(op, sizeof(*g));
    const struct nt *x, *skip, *bias = NULL;
    int rc = g ? 0 : kernel_nomem(op, err);
    bool adds = op->kernel->arg == GROUP_SKIP;

    for (uint32_t i = 0; i < (adds ? 5u : 3u) && !rc; i++)
        if (i < (adds ? 4u : 3u) || kernel_in(op, i))
            rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    x = kernel_in(op, 0);
    skip = adds ? kernel_in(op, 3) : NULL;
    bias = adds ? kernel_in(op, 4) : NULL;
    g->last = node_attr_int(op->node, "channels_last", 1) != 0;
    g->groups = node_attr_int(op->node, "groups", 0);
    if (x->shape.rank < 3)
        return kernel_fail(op, OPM_EINVAL, err, "wants a batch of images");
    g->n = x->shape.dim[0];
    g->c = x->shape.dim[g->last ? x->shape.rank - 1 : 1];
    g->pixels =
        g->last ? nt_span(&x->shape, 1, x->shape.rank - 1) : nt_span(&x->shape, 2, x->shape.rank);
    if (g->groups < 1 || g->c % g->groups)
        return kernel_fail(op, OPM_EINVAL, err, "%lld channels in %lld groups", (long long)g->c,
                           (long long)g->groups);
    g->spread = skip && skip->count == g->n * g->c && skip->count != x->count;
    if (kernel_in(op, 1)->count != g->c || kernel_in(op, 2)->count != g->c ||
        (bias && bias->count != g->c) ||
        (skip && !g->spread && !shape_equal(&skip->shape, &x->shape)))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit %lld channels",
                           (long long)g->c);
    return kernel_infer(op, err);
}

/* Channels of group i of all pixels of an image, pixel by pixel or channel by channel. */
static void group_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct msgroup *g = op->state;
    const float *x = kernel_in(op, 0)->data, *gamma = kernel_in(op, 1)->data,
                *beta = kernel_in(op, 2)->data;
    const struct nt *skip = op->kernel->arg == GROUP_SKIP ? kernel_in(op, 3) : NULL,
                    *bias = op->kernel->arg == GROUP_SKIP ? kernel_in(op, 4) : NULL;
    float *out = kernel_out(op, 0)->data, *sum = kernel_out(op, 1) ? kernel_out(op, 1)->data : out;
    double eps = (double)node_attr_float(op->node, "epsilon", 1e-5f);
    bool silu = node_attr_int(op->node, "activation", 0) != 0;
    int64_t per = g->c / g->groups, rows = g->last ? g->pixels : per, n = g->last ? per : g->pixels,
            step = g->last ? g->c : g->pixels;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t image = i / g->groups, ch = i % g->groups * per,
                first = image * g->c * g->pixels + (g->last ? ch : ch * g->pixels);
        double mean = 0, var = 0, inv;

        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < n; k++) {
                int64_t at = first + r * step + k, c = ch + (g->last ? k : r);
                float v = x[at];

                if (skip)
                    v += ((const float *)skip->data)[g->spread ? image * g->c + c : at];
                if (bias)
                    v += ((const float *)bias->data)[c];
                sum[at] = v;
                mean += (double)v;
            }
        mean /= (double)(rows * n);
        for (int64_t r = 0; r < rows; r++)
            for (int64_t k = 0; k < n; k++) {
                double d = (double)sum[first + r * step + k] - mean;

                var += d * d;
            }
        inv = 1 / sqrt(var / (double)(rows * n) + eps);
        for (int64_t r = 0; r < rows; r++) {
            float *to = out + first + r * step;

            for (int64_t k = 0; k < n; k++) {
                int64_t c = ch + (g->last ? k : r);

                to[k] =
                    (float)(((double)sum[first + r * step + k] - mean) * inv) * gamma[c] + beta[c];
            }
            if (silu)
                kernel_isa(op)->unary(U_SILU, to, to, n, 1, 0);
        }
    }
}

int msgroupnorm_run(struct op *op, opm_error *err)
{
    const struct msgroup *g = op->state;

    (void)err;
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), g->n * g->groups, 1, group_part, op);
    return 0;
}
