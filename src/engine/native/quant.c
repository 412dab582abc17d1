/* quant.c -- QuantizeLinear and its family, for 8-bit integers (and int32 to dequantize). */
#include "engine/native/bcast.h"
#include "engine/native/conv.h"
#include "engine/native/kernels.h"

#include <math.h>
#include <string.h>

#define TYPES_Q8 (TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8))
#define TYPES_Q (TYPES_Q8 | TYPE_BIT(TENSOR_U16) | TYPE_BIT(TENSOR_I16) | TYPE_BIT(TENSOR_I32))

/* One byte as an integer of either kind. */
static inline int32_t q8(const struct nt *t, int64_t i)
{
    return t->type == TENSOR_U8 ? ((const uint8_t *)t->data)[i] : ((const int8_t *)t->data)[i];
}

static int32_t saturate(double v, enum tensor_type t)
{
    double lo = t == TENSOR_U8 || t == TENSOR_U16 ? 0 : t == TENSOR_I8 ? -128 : -32768;
    double hi = t == TENSOR_U8 ? 255 : t == TENSOR_I8 ? 127 : t == TENSOR_U16 ? 65535 : 32767;

    return isnan(v) ? 0 : (int32_t)fmin(fmax(v, lo), hi);
}

static void put(struct nt *t, int64_t i, int32_t v)
{
    if (nt_width(t->type) == 1)
        ((uint8_t *)t->data)[i] = (uint8_t)v;
    else
        ((uint16_t *)t->data)[i] = (uint16_t)v;
}

/* Scale and zero point: one each, or one for each slice of an axis. */
static int scales(const struct op *op, int64_t *n, int64_t *inner, opm_error *err)
{
    const struct nt *in = kop_in(op, 0), *scale = kop_in(op, 1), *zero = kop_in(op, 2);
    int axis;

    *n = 1;
    *inner = MAX(in->count, (int64_t)1);
    if (zero && zero->count != scale->count)
        return kop_fail(op, OPM_EINVAL, err, "scale and zero point differ in length");
    if (scale->count == 1)
        return 0;
    axis = nt_axis(node_attr_int(op->node, "axis", 1), in->shape.rank);
    if (axis < 0 || scale->shape.rank != 1 || scale->count != in->shape.dim[axis])
        return kop_fail(op, OPM_EUNSUPPORTED, err, "scale does not fit an axis");
    *n = scale->count;
    *inner = nt_span(&in->shape, axis + 1, in->shape.rank);
    return 0;
}

int quantize_prepare(struct op *op, opm_error *err)
{
    const struct nt *zero = kop_in(op, 2);
    enum tensor_type t = zero ? zero->type : TENSOR_U8;
    int64_t n, inner;
    int rc = kop_want(op, 0, TYPES_FLOAT | TYPE_BIT(TENSOR_I32), err);

    if (!rc)
        rc = kop_want(op, 1, TYPES_FLOAT, err);
    if (!rc && zero)
        rc = kop_want(op, 2, TYPES_Q & ~TYPE_BIT(TENSOR_I32), err);
    if (!zero && node_attr_int(op->node, "output_dtype", 0))
        t = (enum tensor_type)node_attr_int(op->node, "output_dtype", 0);
    if (!rc && (t >= TENSOR_NTYPES || !(TYPE_BIT(t) & TYPES_Q & ~TYPE_BIT(TENSOR_I32))))
        rc = kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    if (!rc)
        rc = scales(op, &n, &inner, err);
    return rc ? rc : kop_set(op, 0, t, &kop_in(op, 0)->shape, err);
}

int quantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kop_in(op, 0), *scale = kop_in(op, 1), *zero = kop_in(op, 2);
    struct nt *out = kop_out(op, 0);
    int64_t n, inner;
    int rc = scales(op, &n, &inner, err);

    for (int64_t i = 0; i < in->count && !rc; i++) {
        int64_t k = n == 1 ? 0 : i / inner % n;
        double x = nt_float(in, i) / nt_float(scale, k); /* as if in float, then to even */

        put(out, i,
            saturate(nearbyint((double)(float)x) + (zero ? (double)nt_int(zero, k) : 0),
                     out->type));
    }
    return rc;
}

int dequantize_prepare(struct op *op, opm_error *err)
{
    int64_t n, inner;
    int rc = kop_want(op, 0, TYPES_Q, err);

    if (!rc)
        rc = kop_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kop_in(op, 2))
        rc = kop_want(op, 2, TYPE_BIT(kop_in(op, 0)->type), err);
    if (!rc)
        rc = scales(op, &n, &inner, err);
    return rc ? rc : kop_set(op, 0, TENSOR_F32, &kop_in(op, 0)->shape, err);
}

int dequantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kop_in(op, 0), *scale = kop_in(op, 1), *zero = kop_in(op, 2);
    float *out = kop_out(op, 0)->data;
    int64_t n, inner;
    int rc = scales(op, &n, &inner, err);

    for (int64_t i = 0; i < in->count && !rc; i++) {
        int64_t k = n == 1 ? 0 : i / inner % n;

        out[i] =
            (float)(nt_int(in, i) - (zero ? nt_int(zero, k) : 0)) * ((const float *)scale->data)[k];
    }
    return rc;
}

int dynquantize_prepare(struct op *op, opm_error *err)
{
    struct shape scalar = { 0 };
    int rc = kop_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kop_set(op, 0, TENSOR_U8, &kop_in(op, 0)->shape, err);
    if (!rc)
        rc = kop_set(op, 1, TENSOR_F32, &scalar, err);
    return rc ? rc : kop_set(op, 2, TENSOR_U8, &scalar, err);
}

int dynquantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kop_in(op, 0);
    const float *x = in->data;
    float lo = 0, hi = 0, scale;
    uint8_t *q = kop_out(op, 0) ? kop_out(op, 0)->data : NULL;
    int32_t zero;

    (void)err;
    for (int64_t i = 0; i < in->count; i++) {
        lo = MIN(lo, x[i]);
        hi = MAX(hi, x[i]);
    }
    scale = (hi - lo) / 255;
    zero = scale == 0 ? 0 : saturate(nearbyint((double)(0 - lo / scale)), TENSOR_U8);
    for (int64_t i = 0; q && i < in->count; i++)
        q[i] = (uint8_t)saturate(scale == 0 ? 0 : nearbyint((double)(x[i] / scale)) + (double)zero,
                                 TENSOR_U8);
    if (kop_out(op, 1))
        *(float *)kop_out(op, 1)->data = scale;
    if (kop_out(op, 2))
        *(uint8_t *)kop_out(op, 2)->data = (uint8_t)zero;
    return 0;
}

/* A product of 8-bit matrices: which slots hold what. */
struct qmm {
    uint32_t a, b, azero, bzero;
    struct shape batch;
    int64_t m, n, k;
};

static int qmm_init(const struct op *op, struct qmm *q, struct shape *out, opm_error *err)
{
    const struct nt *a = kop_in(op, q->a), *b = kop_in(op, q->b);
    struct shape sa, sb;
    int rc = kop_want(op, q->a, TYPES_Q8, err);

    if (!rc)
        rc = kop_want(op, q->b, TYPES_Q8, err);
    if (rc)
        return rc;
    sa = a->shape;
    sb = b->shape;
    if (sa.rank < 2 || sb.rank < 2)
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for vectors");
    q->m = sa.dim[sa.rank - 2];
    q->k = sa.dim[sa.rank - 1];
    q->n = sb.dim[sb.rank - 1];
    if (sb.dim[sb.rank - 2] != q->k)
        return kop_fail(op, OPM_EINVAL, err, "inner dimensions differ");
    sa.rank -= 2;
    sb.rank -= 2;
    q->batch = sa;
    if (!bcast_join(&q->batch, &sb) || q->batch.rank + 2 > SHAPE_RANK_MAX)
        return kop_fail(op, OPM_EINVAL, err, "batch dimensions do not fit");
    for (int i = 0; i < 2; i++) {
        const struct nt *z = kop_in(op, i ? q->bzero : q->azero);
        int64_t per = i ? q->n : q->m;

        if (z && (z->type != (i ? b : a)->type || (z->count != 1 && z->count != per)))
            return kop_fail(op, OPM_EUNSUPPORTED, err, "zero point does not fit");
    }
    *out = q->batch;
    out->dim[out->rank++] = q->m;
    out->dim[out->rank++] = q->n;
    return 0;
}

static int64_t batch_at(const struct shape *batch, const struct shape *s, int64_t i)
{
    int64_t at = 0, step = 1;
    int32_t rank = s->rank - 2;

    for (int32_t d = batch->rank - 1; d >= 0; d--) {
        int64_t x = i % batch->dim[d], own = d - (batch->rank - rank);

        i /= batch->dim[d];
        if (own >= 0) {
            at += s->dim[own] == 1 ? 0 : x * step;
            step *= s->dim[own];
        }
    }
    return at;
}

typedef void qmm_out(const struct op *op, int64_t at, int64_t col, int32_t v);

/* One row of the product at a time: sums by column, so that the inner loop runs along rows of B. */
static int qmm_run(struct op *op, const struct qmm *q, qmm_out *emit, opm_error *err)
{
    const struct nt *a = kop_in(op, q->a), *b = kop_in(op, q->b), *az = kop_in(op, q->azero),
                    *bz = kop_in(op, q->bzero);
    int64_t rows = shape_count(&q->batch) * q->m;
    uint32_t *sum = mem_calloc((size_t)q->n + 1, sizeof(*sum)); /* wraps around */

    if (!sum)
        return kop_nomem(op, err);
    for (int64_t r = 0; r < rows; r++) {
        int64_t batch = r / q->m, i = r % q->m;
        int64_t a0 = (batch_at(&q->batch, &a->shape, batch) * q->m + i) * q->k,
                b0 = batch_at(&q->batch, &b->shape, batch) * q->k * q->n;
        int32_t za = az ? q8(az, az->count == 1 ? 0 : i) : 0;

        memset(sum, 0, (size_t)q->n * sizeof(*sum));
        for (int64_t k = 0; k < q->k; k++) {
            int32_t x = q8(a, a0 + k) - za;

            if (b->type == TENSOR_U8) {
                const uint8_t *row = (const uint8_t *)b->data + b0 + k * q->n;

                for (int64_t j = 0; j < q->n; j++)
                    sum[j] += (uint32_t)(x * row[j]);
            } else {
                const int8_t *row = (const int8_t *)b->data + b0 + k * q->n;

                for (int64_t j = 0; j < q->n; j++)
                    sum[j] += (uint32_t)(x * row[j]);
            }
        }
        if (bz) { /* sum of x * (y - z) is sum of x * y less z times the row's sum */
            uint32_t total = 0;

            for (int64_t k = 0; k < q->k; k++)
                total += (uint32_t)(q8(a, a0 + k) - za);
            for (int64_t j = 0; j < q->n; j++)
                sum[j] -= total * (uint32_t)q8(bz, bz->count == 1 ? 0 : j);
        }
        for (int64_t j = 0; j < q->n; j++)
            emit(op, r * q->n + j, j, (int32_t)sum[j]);
    }
    mem_free(sum);
    return 0;
}

static void emit_i32(const struct op *op, int64_t at, int64_t col, int32_t v)
{
    (void)col;
    ((int32_t *)kop_out(op, 0)->data)[at] = v;
}

int matmulinteger_prepare(struct op *op, opm_error *err)
{
    struct qmm q = { .a = 0, .b = 1, .azero = 2, .bzero = 3 };
    struct shape s;
    int rc = qmm_init(op, &q, &s, err);

    return rc ? rc : kop_set(op, 0, TENSOR_I32, &s, err);
}

int matmulinteger_run(struct op *op, opm_error *err)
{
    struct qmm q = { .a = 0, .b = 1, .azero = 2, .bzero = 3 };
    struct shape s;
    int rc = qmm_init(op, &q, &s, err);

    return rc ? rc : qmm_run(op, &q, emit_i32, err);
}

/* Scales of QLinear operators must be there and be one number, or one for each output channel. */
static int qlinear_check(const struct op *op, int64_t channels, opm_error *err)
{
    static const uint32_t scale[] = { 1, 4, 6 };

    for (size_t i = 0; i < ARRAY_SIZE(scale); i++) {
        int rc = kop_want(op, scale[i], TYPE_BIT(TENSOR_F32), err);

        if (rc)
            return rc;
        if (kop_in(op, scale[i])->count != 1 &&
            !(i == 1 && kop_in(op, scale[i])->count == channels))
            return kop_fail(op, OPM_EUNSUPPORTED, err, "scale %u does not fit", scale[i]);
    }
    if (!kop_in(op, 7) || kop_in(op, 7)->count != 1)
        return kop_fail(op, OPM_EINVAL, err, "output zero point must be one number");
    return kop_want(op, 7, TYPES_Q8, err);
}

static void emit_qlinear(const struct op *op, int64_t at, int64_t channel, int32_t v)
{
    const struct nt *ws = kop_in(op, 4);
    float s = *(const float *)kop_in(op, 1)->data *
              ((const float *)ws->data)[ws->count == 1 ? 0 : channel] /
              *(const float *)kop_in(op, 6)->data;
    struct nt *out = kop_out(op, 0);

    put(out, at, saturate(nearbyint((double)((float)v * s)) + q8(kop_in(op, 7), 0), out->type));
}

int qlinearmatmul_prepare(struct op *op, opm_error *err)
{
    struct qmm q = { .a = 0, .b = 3, .azero = 2, .bzero = 5 };
    struct shape s;
    int rc = qmm_init(op, &q, &s, err);

    if (!rc)
        rc = qlinear_check(op, q.n, err);
    return rc ? rc : kop_set(op, 0, kop_in(op, 7)->type, &s, err);
}

int qlinearmatmul_run(struct op *op, opm_error *err)
{
    struct qmm q = { .a = 0, .b = 3, .azero = 2, .bzero = 5 };
    struct shape s;
    int rc = qmm_init(op, &q, &s, err);

    return rc ? rc : qmm_run(op, &q, emit_qlinear, err);
}

struct qconv_job {
    const struct op *op;
    const struct conv *c;
    uint32_t w, xzero, wzero, bias;
    qmm_out *emit;
};

static void qconv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct qconv_job *j = arg;
    const struct conv *c = j->c;
    const struct window *w = &c->w;
    const struct nt *in = kop_in(j->op, 0), *wt = kop_in(j->op, j->w),
                    *xz = kop_in(j->op, j->xzero), *wz = kop_in(j->op, j->wzero),
                    *bias = j->bias ? kop_in(j->op, j->bias) : NULL;
    int64_t cols = window_out(w), taps = window_kernel(w), m = c->oc / c->groups;
    int32_t zx = xz ? q8(xz, 0) : 0;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t oc = i % c->oc, n = i / c->oc, g = oc / m;
        int32_t zw = wz ? q8(wz, wz->count == 1 ? 0 : oc) : 0;

        for (int64_t pos = 0; pos < cols; pos++) {
            uint32_t sum = bias ? ((const uint32_t *)bias->data)[oc] : 0;
            int64_t o[3] = { pos / (w->out[2] * w->out[1]), pos / w->out[2] % w->out[1],
                             pos % w->out[2] };

            for (int64_t t = 0; t < taps; t++) {
                int64_t z = o[0] * w->stride[0] - w->before[0] +
                            t / (w->kernel[2] * w->kernel[1]) * w->dilation[0],
                        y = o[1] * w->stride[1] - w->before[1] +
                            t / w->kernel[2] % w->kernel[1] * w->dilation[1],
                        x = o[2] * w->stride[2] - w->before[2] + t % w->kernel[2] * w->dilation[2];

                if (x < 0 || y < 0 || z < 0 || x >= w->in[2] || y >= w->in[1] || z >= w->in[0])
                    continue;
                for (int64_t ch = 0; ch < c->icg; ch++)
                    sum += (uint32_t)((q8(in, ((n * c->ic + g * c->icg + ch) * w->in[0] + z) *
                                                      w->in[1] * w->in[2] +
                                                  y * w->in[2] + x) -
                                       zx) *
                                      (q8(wt, (oc * c->icg + ch) * taps + t) - zw));
            }
            j->emit(j->op, i * cols + pos, oc, (int32_t)sum);
        }
    }
}

static int qconv_prepare(struct op *op, const struct qconv_job *j, enum tensor_type out,
                         opm_error *err)
{
    struct conv *c = kop_new_state(op, sizeof(*c));
    const struct nt *wz, *xz;
    struct shape s;
    int rc = kop_want(op, 0, TYPES_Q8, err);

    if (!c)
        return kop_nomem(op, err);
    if (!rc)
        rc = kop_want(op, j->w, TYPES_Q8, err);
    if (!rc)
        rc = conv_init(c, op, &kop_in(op, 0)->shape, &kop_in(op, j->w)->shape, err);
    if (rc)
        return rc;
    xz = kop_in(op, j->xzero);
    wz = kop_in(op, j->wzero);
    if ((xz && (xz->count != 1 || xz->type != kop_in(op, 0)->type)) ||
        (wz && ((wz->count != 1 && wz->count != c->oc) || wz->type != kop_in(op, j->w)->type)))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "zero point does not fit");
    if (j->bias && kop_in(op, j->bias) &&
        (kop_in(op, j->bias)->type != TENSOR_I32 || kop_in(op, j->bias)->count != c->oc))
        return kop_fail(op, OPM_EINVAL, err, "bias does not fit");
    window_shape(&c->w, c->n, c->oc, &s);
    return kop_set(op, 0, out, &s, err);
}

static int qconv_run(struct op *op, struct qconv_job *j)
{
    j->op = op;
    j->c = op->state;
    pool_for(kop_pool(op), j->c->n * j->c->oc, 1, qconv_part, j);
    return 0;
}

int convinteger_prepare(struct op *op, opm_error *err)
{
    struct qconv_job j = { .w = 1, .xzero = 2, .wzero = 3, .emit = emit_i32 };

    return qconv_prepare(op, &j, TENSOR_I32, err);
}

int convinteger_run(struct op *op, opm_error *err)
{
    struct qconv_job j = { .w = 1, .xzero = 2, .wzero = 3, .emit = emit_i32 };

    (void)err;
    return qconv_run(op, &j);
}

int qlinearconv_prepare(struct op *op, opm_error *err)
{
    struct qconv_job j = { .w = 3, .xzero = 2, .wzero = 5, .bias = 8, .emit = emit_qlinear };
    int rc = kop_want(op, 3, TYPES_Q8, err);

    if (!rc)
        rc = qlinear_check(op, kop_in(op, 3)->shape.rank ? kop_in(op, 3)->shape.dim[0] : 0, err);
    return rc ? rc : qconv_prepare(op, &j, kop_in(op, 7)->type, err);
}

int qlinearconv_run(struct op *op, opm_error *err)
{
    struct qconv_job j = { .w = 3, .xzero = 2, .wzero = 5, .bias = 8, .emit = emit_qlinear };

    (void)err;
    return qconv_run(op, &j);
}
