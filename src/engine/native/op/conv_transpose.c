/* conv_transpose.c -- ConvTranspose, gathered output by output. */
#include "engine/native/op/conv_transpose.h"

#include "engine/native/op/kernels.h"

#include <string.h>

#define DIM_MAX ((int64_t)1 << 31)

/* Output size and pads of dimension d; the window's own formulas run the other way. */
static int convt_dim(struct convt *c, struct op *op, int d, int64_t wanted, int64_t extra,
                     opm_error *err)
{
    struct window *w = &c->w;
    const char *pad = node_attr_str(op->node, "auto_pad", "NOTSET");
    int64_t full;

    if (__builtin_mul_overflow(w->stride[d], w->in[d] - 1, &full) ||
        __builtin_add_overflow(full, extra + (w->kernel[d] - 1) * w->dilation[d] + 1, &full) ||
        w->in[d] < 1)
        return kernel_fail(op, OPM_EINVAL, err, "sizes do not fit");
    if (wanted < 0 && strncmp(pad, "SAME", 4) == 0)
        wanted = w->in[d] * w->stride[d];
    if (wanted >= 0) {
        int64_t total = MAX(full - wanted, (int64_t)0);

        /* The end gets the larger half, except for SAME_LOWER. */
        w->before[d] = strcmp(pad, "SAME_LOWER") == 0 ? total - total / 2 : total / 2;
        w->after[d] = total - w->before[d];
        w->out[d] = wanted;
    } else
        w->out[d] = full - w->before[d] - w->after[d];
    if (w->out[d] < 0 || w->out[d] > DIM_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "output would have size %lld",
                           (long long)w->out[d]);
    return 0;
}

int convtranspose_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *wt = kernel_in(op, 1), *bias = kernel_in(op, 2);
    struct convt *c = kernel_new_state(op, sizeof(*c));
    size_t nout, nextra;
    const int64_t *wanted, *extra;
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err), lead;

    if (!c)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(in->type), err);
    if (!rc && bias)
        rc = kernel_want(op, 2, TYPE_BIT(in->type), err);
    if (rc)
        return rc;
    if (in->shape.rank < 3 || wt->shape.rank != in->shape.rank)
        return kernel_fail(op, OPM_EINVAL, err, "input and weights do not fit in rank");
    rc = window_init(&c->w, op, &in->shape, wt->shape.dim + 2, err);
    if (rc)
        return rc;
    c->groups = node_attr_int(op->node, "group", 1);
    c->n = in->shape.dim[0];
    c->ic = in->shape.dim[1];
    if (c->groups < 1 || c->ic % c->groups || wt->shape.dim[0] != c->ic ||
        __builtin_mul_overflow(wt->shape.dim[1], c->groups, &c->oc))
        return kernel_fail(op, OPM_EINVAL, err, "channels do not fit the weights");
    if (bias && bias->count != c->oc)
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit %lld channels",
                           (long long)c->oc);
    wanted = node_attr_ints(op->node, "output_shape", &nout);
    extra = node_attr_ints(op->node, "output_padding", &nextra);
    if (nout == (size_t)in->shape.rank) { /* some models give all dimensions */
        wanted += 2;
        nout -= 2;
    }
    if ((nout && nout != (size_t)c->w.nd) || (nextra && nextra != (size_t)c->w.nd))
        return kernel_fail(op, OPM_EINVAL, err, "output_shape or output_padding does not fit");
    lead = 3 - c->w.nd;
    c->w.out[0] = c->w.out[1] = 1;
    for (int d = lead; d < 3 && !rc; d++) {
        int64_t e = nextra ? extra[d - lead] : 0, want = nout ? wanted[d - lead] : -1;

        if (e < 0 || e > DIM_MAX || want > DIM_MAX)
            return kernel_fail(op, OPM_EINVAL, err, "output_padding is %lld", (long long)e);
        rc = convt_dim(c, op, d, want, e, err);
    }
    if (rc)
        return rc;
    window_shape(&c->w, c->n, c->oc, &s);
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
