/* conv_transpose.c -- ConvTranspose, gathered output by output. */
#include "engine/native/op/conv_transpose.h"

#include "engine/native/op/kernels.h"

#include <string.h>

int convtranspose_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *wt = kernel_in(op, 1), *bias = kernel_in(op, 2);
    struct convt *c = kernel_new_state(op, sizeof(*c));
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!c)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(in->type), err);
    if (!rc && bias)
        rc = kernel_want(op, 2, TYPE_BIT(in->type), err);
    if (rc)
        return rc;
    rc = window_conv_transpose(&c->w, op, &in->shape, &wt->shape, &s, err);
    if (rc)
        return rc;
    c->groups = node_attr_int(op->node, "group", 1);
    c->n = in->shape.dim[0];
    c->ic = in->shape.dim[1];
    c->oc = s.dim[1];
    if (bias && bias->count != c->oc)
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)c->oc);
    return kernel_set(op, 0, in->type, &s, err);
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
        T b = kernel_in(j->op, 2) ? ((const T *)kernel_in(j->op, 2)->data)[oc] : 0;             \
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

int convtranspose_run(struct op *op, opm_error *err)
{
    struct convt_job j = { op, op->state };

    (void)err;
    pool_for(kernel_pool(op), j.c->n * j.c->oc, 1, convt_part, &j);
    return 0;
}
