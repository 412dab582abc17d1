/* signal.c -- windows, DFT, STFT, MelWeightMatrix. */
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* kernel arg 0: Hann, 1: Hamming, 2: Blackman */
int window_prepare(struct op *op, opm_error *err)
{
    const struct nt *size = kernel_in(op, 0);
    int64_t type = node_attr_int(op->node, "output_datatype", TENSOR_F32);
    int rc = kernel_want(op, 0, TYPES_INDEX, err);

    if (rc)
        return rc;
    if (type != TENSOR_F32 && type != TENSOR_F64)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    if (size->count != 1)
        return kernel_fail(op, OPM_EINVAL, err, "size must be one number");
    return kernel_infer(op, err);
}

int window_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    double n = (double)out->count - (node_attr_int(op->node, "periodic", 1) ? 0 : 1);

    (void)err;
    for (int64_t i = 0; i < out->count; i++) {
        double a = 2 * M_PI * (double)i / n, v;

        if (op->kernel->arg == WINDOW_HANN)
            v = 0.5 - 0.5 * cos(a);
        else if (op->kernel->arg == WINDOW_HAMMING)
            v = 25.0 / 46 - 21.0 / 46 * cos(a);
        else
            v = 0.42 - 0.5 * cos(a) + 0.08 * cos(2 * a);
        if (out->type == TENSOR_F32)
            ((float *)out->data)[i] = (float)v;
        else
            ((double *)out->data)[i] = v;
    }
    return 0;
}

int mel_prepare(struct op *op, opm_error *err)
{
    for (uint32_t i = 0; i < 5; i++) {
        int rc = kernel_want(op, i, i < 3 ? TYPES_INDEX : TYPES_FLOAT, err);

        if (rc)
            return rc;
        if (kernel_in(op, i)->count != 1)
            return kernel_fail(op, OPM_EINVAL, err, "input %u must be one number", i);
        if (!kernel_data(op, i))
            return NEED_DATA;
    }
    if (nt_int(kernel_in(op, 2), 0) < 1)
        return kernel_fail(op, OPM_EINVAL, err, "sizes are out of range");
    if (node_attr_int(op->node, "output_datatype", TENSOR_F32) != TENSOR_F32)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    return kernel_infer(op, err);
}

static double to_mel(double hz)
{
    return 2595 * log10(1 + hz / 700);
}

int mel_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    int64_t bins = out->shape.dim[1], rows = out->shape.dim[0], dft = nt_int(kernel_in(op, 1), 0);
    double lo = to_mel(nt_float(kernel_in(op, 3), 0)), hi = to_mel(nt_float(kernel_in(op, 4), 0)),
           rate = (double)nt_int(kernel_in(op, 2), 0), step = (hi - lo) / (double)(bins + 2);
    float *m = out->data;

    (void)err;
    memset(m, 0, out->bytes);
    for (int64_t b = 0; b < bins; b++) {
        double edge[3];

        for (int k = 0; k < 3; k++) {
            double hz = 700 * (pow(10, ((double)(b + k) * step + lo) / 2595) - 1);

            edge[k] = floor((double)(dft + 1) * hz / rate);
        }
        if (edge[1] == edge[0] && edge[1] >= 0 && edge[1] < (double)rows)
            m[(int64_t)edge[1] * bins + b] = 1;
        for (int64_t i = 0; i < rows; i++) {
            double x = (double)i;

            if (x >= edge[0] && x <= edge[1] && edge[1] > edge[0])
                m[i * bins + b] = (float)((x - edge[0]) / (edge[1] - edge[0]));
            else if (x >= edge[1] && x < edge[2] && edge[2] > edge[1])
                m[i * bins + b] = (float)((edge[2] - x) / (edge[2] - edge[1]));
        }
    }
    return 0;
}

struct dft {
    int axis;
    int64_t n, out; /* points, and how many go out */
    bool inverse, onesided;
};

int dft_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *len = kernel_in(op, 1), *ax = kernel_in(op, 2);
    struct dft *d = kernel_new_state(op, sizeof(*d));
    struct shape s;
    int64_t axis = node_attr_int(op->node, "axis", 1);
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!d)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    s = in->shape;
    if (op->node->opset >= 20) {
        axis = -2;
        if (ax && !kernel_data(op, 2))
            return NEED_DATA;
        if (ax && ax->count == 1)
            axis = nt_int(ax, 0);
    }
    d->axis = nt_axis(axis, s.rank);
    d->inverse = node_attr_int(op->node, "inverse", 0);
    d->onesided = node_attr_int(op->node, "onesided", 0);
    if (s.rank < 2 || d->axis < 0 || d->axis == s.rank - 1 || s.dim[s.rank - 1] < 1 ||
        s.dim[s.rank - 1] > 2)
        return kernel_fail(op, OPM_EINVAL, err, "axis or last dimension does not fit");
    d->n = s.dim[d->axis];
    if (len) {
        if (len->count != 1 || !(TYPE_BIT(len->type) & TYPES_INDEX))
            return kernel_fail(op, OPM_EINVAL, err, "length must be one number");
        if (!kernel_data(op, 1))
            return NEED_DATA;
        d->n = nt_int(len, 0);
    }
    if (d->n < 1)
        return kernel_fail(op, OPM_EINVAL, err, "length %lld", (long long)d->n);
    if (d->inverse && d->onesided)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "inverse of a one-sided transform");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    d->out = kernel_out(op, 0)->shape.dim[d->axis];
    op->scratch_bytes = (size_t)d->n * 2 * sizeof(double);
    return 0;
}

static void put(struct nt *t, int64_t i, double v)
{
    if (t->type == TENSOR_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

/* By the definition; angles are reduced exactly, since k * t mod n is an integer. */
int dft_run(struct op *op, opm_error *err)
{
    const struct dft *d = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int32_t r = in->shape.rank;
    int64_t have = in->shape.dim[d->axis], parts = in->shape.dim[r - 1];
    int64_t inner = nt_span(&in->shape, d->axis + 1, r - 1),
            outer = nt_span(&in->shape, 0, d->axis);
    double *turn = op->scratch;

    (void)err;
    for (int64_t k = 0; k < d->n; k++) {
        double a = 2 * M_PI * (double)k / (double)d->n * (d->inverse ? 1 : -1);

        turn[2 * k] = cos(a);
        turn[2 * k + 1] = sin(a);
    }
    for (int64_t o = 0; o < outer * inner; o++) {
        int64_t base = (o / inner * have * inner + o % inner) * parts,
                to = (o / inner * d->out * inner + o % inner) * 2;

        for (int64_t k = 0; k < d->out; k++) {
            double re = 0, im = 0;

            for (int64_t t = 0, a = 0; t < MIN(have, d->n); t++, a = (a + k) % d->n) {
                double x = nt_float(in, base + t * inner * parts),
                       y = parts == 2 ? nt_float(in, base + t * inner * parts + 1) : 0;

                re += x * turn[2 * a] - y * turn[2 * a + 1];
                im += x * turn[2 * a + 1] + y * turn[2 * a];
            }
            put(out, to + k * inner * 2, d->inverse ? re / (double)d->n : re);
            put(out, to + k * inner * 2 + 1, d->inverse ? im / (double)d->n : im);
        }
    }
    return 0;
}

struct stft {
    int64_t step, n, frames, out;
};

int stft_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *step = kernel_in(op, 1), *window = kernel_in(op, 2),
                    *len = kernel_in(op, 3);
    struct stft *d = kernel_new_state(op, sizeof(*d));
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!d)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc && window)
        rc = kernel_want(op, 2, TYPE_BIT(in->type), err);
    if (rc)
        return rc;
    if (in->shape.rank < 2 || in->shape.rank > 3 ||
        (in->shape.rank == 3 && (in->shape.dim[2] < 1 || in->shape.dim[2] > 2)) ||
        step->count != 1 || (len && len->count != 1) || (!len && !window))
        return kernel_fail(op, OPM_EINVAL, err, "inputs do not fit");
    if (!kernel_data(op, 1) || (len && !kernel_data(op, 3)))
        return NEED_DATA;
    d->step = nt_int(step, 0);
    d->n = len ? nt_int(len, 0) : window->count;
    if (d->step < 1 || d->n < 1 || d->n > in->shape.dim[1] || (window && window->count != d->n))
        return kernel_fail(op, OPM_EINVAL, err, "step or frame length does not fit");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    d->frames = kernel_out(op, 0)->shape.dim[1];
    d->out = kernel_out(op, 0)->shape.dim[2];
    op->scratch_bytes = (size_t)d->n * 2 * sizeof(double);
    return 0;
}

int stft_run(struct op *op, opm_error *err)
{
    const struct stft *d = op->state;
    const struct nt *in = kernel_in(op, 0), *window = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    int64_t parts = in->shape.rank == 3 ? in->shape.dim[2] : 1, len = in->shape.dim[1];
    double *turn = op->scratch;

    (void)err;
    for (int64_t k = 0; k < d->n; k++) {
        turn[2 * k] = cos(-2 * M_PI * (double)k / (double)d->n);
        turn[2 * k + 1] = sin(-2 * M_PI * (double)k / (double)d->n);
    }
    for (int64_t i = 0; i < in->shape.dim[0] * d->frames * d->out; i++) {
        int64_t k = i % d->out, f = i / d->out % d->frames, b = i / (d->out * d->frames);
        double re = 0, im = 0;

        for (int64_t t = 0, a = 0; t < d->n; t++, a = (a + k) % d->n) {
            int64_t at = (b * len + f * d->step + t) * parts;
            double w = window ? nt_float(window, t) : 1, x = nt_float(in, at) * w,
                   y = parts == 2 ? nt_float(in, at + 1) * w : 0;

            re += x * turn[2 * a] - y * turn[2 * a + 1];
            im += x * turn[2 * a + 1] + y * turn[2 * a];
        }
        put(out, 2 * i, re);
        put(out, 2 * i + 1, im);
    }
    return 0;
}
