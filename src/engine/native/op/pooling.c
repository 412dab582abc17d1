/* pooling.c -- MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool; 1 to 3 spatial
 * dimensions. */
#include "engine/native/math/infer.h"
#include "engine/native/math/window.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

struct pooling {
    struct window w;
    int64_t planes, c;
    bool include_pad;
    double p;
};

int pooling_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct pooling *q = kernel_new_state(op, sizeof(*q));
    int what = op->kernel->arg & POOL_WHAT;
    uint64_t types =
        what == POOL_MAX ? TYPES_FLOAT | TYPE_BIT(TENSOR_I8) | TYPE_BIT(TENSOR_U8) : TYPES_FLOAT;
    struct shape s;
    int rc = kernel_want(op, 0, types, err);

    if (!q)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    if (!(op->kernel->arg & POOL_GLOBAL))
        rc = window_pool(&q->w, op, &in->shape, &s, err);
    else if (in->shape.rank < 3 || in->shape.rank > 5)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d dimensions", in->shape.rank);
    else
        window_global(&q->w, &in->shape, &s);
    if (rc)
        return rc;
    q->c = in->shape.dim[1];
    q->planes = in->shape.dim[0] * q->c;
    q->include_pad = node_attr_int(op->node, "count_include_pad", 0);
    q->p = node_attr(op->node, "p") && node_attr(op->node, "p")->type == ATTR_FLOAT
               ? (double)node_attr_float(op->node, "p", 2)
               : (double)node_attr_int(op->node, "p", 2);
    rc = kernel_set(op, 0, in->type, &s, err);
    return rc ? rc : kernel_set(op, 1, TENSOR_I64, &s, err);
}

struct pooling_job {
    const struct op *op;
    const struct pooling *q;
};

/* Taps [*lo, *hi) of dimension d that lie inside for an output at o. */
static void inside(const struct window *w, int d, int64_t o, int64_t *start, int64_t *lo,
                   int64_t *hi)
{
    int64_t s = o * w->stride[d] - w->before[d], dl = w->dilation[d];

    *start = s;
    *lo = s < 0 ? MIN((-s + dl - 1) / dl, w->kernel[d]) : 0;
    *hi = s >= w->in[d] ? *lo : MIN((w->in[d] - 1 - s) / dl + 1, w->kernel[d]);
    *hi = MAX(*hi, *lo);
}

/* Taps that count for an average with padding: those within the padded input. */
static int64_t padded_taps(const struct window *w, int d, int64_t o)
{
    int64_t s = o * w->stride[d], end = w->in[d] + w->before[d] + w->after[d];

    return s >= end ? 0 : MIN((end - 1 - s) / w->dilation[d] + 1, w->kernel[d]);
}

#define POOL_BODY(T)                                                                            \
    do {                                                                                        \
        const T *in = (const T *)kernel_in(j->op, 0)->data + plane * window_in(w);              \
        T *out = (T *)kernel_out(j->op, 0)->data + plane * window_out(w);                       \
        double sum = 0;                                                                         \
        T best = 0;                                                                             \
        int64_t at = -1, count = 0;                                                             \
        for (int64_t a = lo[0]; a < hi[0]; a++)                                                 \
            for (int64_t b = lo[1]; b < hi[1]; b++)                                             \
                for (int64_t c = lo[2]; c < hi[2]; c++) {                                       \
                    int64_t k =                                                                 \
                        ((s[0] + a * w->dilation[0]) * w->in[1] + s[1] + b * w->dilation[1]) *  \
                            w->in[2] +                                                          \
                        s[2] + c * w->dilation[2];                                              \
                    T x = in[k];                                                                \
                    if (what == POOL_MAX) {                                                     \
                        if (at < 0 || x > best || x != x) {                                     \
                            best = x;                                                           \
                            at = k;                                                             \
                        }                                                                       \
                    } else if (what == POOL_AVERAGE)                                            \
                        sum += (double)x;                                                       \
                    else                                                                        \
                        sum += pow(fabs((double)x), q->p);                                      \
                    count++;                                                                    \
                }                                                                               \
        if (what == POOL_MAX)                                                                   \
            out[pos] = best;                                                                    \
        else if (what == POOL_AVERAGE)                                                          \
            out[pos] = (T)(sum / (double)MAX(q->include_pad ? taps : count, (int64_t)1));       \
        else                                                                                    \
            out[pos] = (T)pow(sum, 1 / q->p);                                                   \
        if (index)                                                                              \
            index[plane * window_out(w) + pos] =                                                \
                plane * window_in(w) +                                                          \
                (column ? (MAX(at, (int64_t)0) / (w->in[1] * w->in[2])) * w->in[1] * w->in[2] + \
                              MAX(at, (int64_t)0) % w->in[2] * w->in[1] +                       \
                              MAX(at, (int64_t)0) / w->in[2] % w->in[1]                         \
                        : MAX(at, (int64_t)0));                                                 \
    } while (0)

static void pooling_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct pooling *q = j->q;
    const struct window *w = &q->w;
    int what = j->op->kernel->arg & POOL_WHAT;
    int64_t *index = kernel_out(j->op, 1) ? kernel_out(j->op, 1)->data : NULL;
    bool column = node_attr_int(j->op->node, "storage_order", 0);

    (void)thread;
    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t pos = 0; pos < window_out(w); pos++) {
            int64_t o[3] = { pos / (w->out[2] * w->out[1]), pos / w->out[2] % w->out[1],
                             pos % w->out[2] };
            int64_t s[3], lo[3], hi[3], taps = 1;

            for (int d = 0; d < 3; d++) {
                inside(w, d, o[d], &s[d], &lo[d], &hi[d]);
                taps *= padded_taps(w, d, o[d]);
            }
            switch (kernel_in(j->op, 0)->type) {
            case TENSOR_F32:
                POOL_BODY(float);
                break;
            case TENSOR_F64:
                POOL_BODY(double);
                break;
            case TENSOR_I8:
                POOL_BODY(int8_t);
                break;
            default:
                POOL_BODY(uint8_t);
            }
        }
}

/* Max of rows that a window spans, by vectors along x: the usual float case. */
static void max_f32_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct window *w = &j->q->w;
    const struct isa *isa = kernel_isa(j->op);
    const float *src = kernel_in(j->op, 0)->data;
    float *dst = kernel_out(j->op, 0)->data;
    int64_t wide = w->in[2];
    float *row = (float *)j->op->scratch + (int64_t)thread * (wide + 16);

    for (int64_t plane = begin; plane < end; plane++)
        for (int64_t y = 0; y < w->out[1]; y++) {
            const float *in = src + plane * window_in(w);
            float *out = dst + plane * window_out(w) + y * w->out[2];
            int64_t s, lo, hi;

            inside(w, 1, y, &s, &lo, &hi);
            if (lo == hi) {
                memset(out, 0, (size_t)w->out[2] * sizeof(*out));
                continue;
            }
            memcpy(row, in + (s + lo * w->dilation[1]) * wide, (size_t)wide * sizeof(*row));
            for (int64_t k = lo + 1; k < hi; k++)
                isa->binary(B_MAX, row, row, 1, in + (s + k * w->dilation[1]) * wide, 1, wide);
            for (int64_t x = 0; x < w->out[2]; x++) {
                float best = 0;

                inside(w, 2, x, &s, &lo, &hi);
                for (int64_t k = lo; k < hi; k++) {
                    float v = row[s + k * w->dilation[2]];

                    best = k == lo || v > best || v != v ? v : best;
                }
                out[x] = best;
            }
        }
}

int pooling_run(struct op *op, opm_error *err)
{
    struct pooling_job j = { op, op->state };
    const struct window *w = &j.q->w;
    int what = op->kernel->arg & POOL_WHAT;
    bool fast = what == POOL_MAX && kernel_in(op, 0)->type == TENSOR_F32 && !kernel_out(op, 1) &&
                w->nd <= 2 && op->scratch;

    (void)err;
    pool_for(kernel_pool(op), window_out(w) ? j.q->planes : 0, 1,
             fast ? max_f32_part : pooling_part, &j);
    return 0;
}

int maxpool_prepare(struct op *op, opm_error *err)
{
    int rc = pooling_prepare(op, err);

    if (!rc && kernel_in(op, 0)->type == TENSOR_F32)
        op->scratch_bytes = (size_t)((((struct pooling *)op->state)->w.in[2] + 16) *
                                     pool_threads(kernel_pool(op))) *
                            sizeof(float);
    return rc;
}

int maxpool_run(struct op *op, opm_error *err)
{
    return pooling_run(op, err);
}

static void global_avg_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *in = kernel_in(op, 0);
    int64_t n = nt_span(&in->shape, 2, in->shape.rank);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        double sum = 0;

        for (int64_t k = 0; k < n; k++)
            sum += in->type == TENSOR_F32 ? (double)((const float *)in->data)[i * n + k]
                                          : ((const double *)in->data)[i * n + k];
        sum /= (double)MAX(n, (int64_t)1);
        if (in->type == TENSOR_F32)
            ((float *)kernel_out(op, 0)->data)[i] = (float)sum;
        else
            ((double *)kernel_out(op, 0)->data)[i] = sum;
    }
}

int globalavg_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    return rc ? rc : kernel_infer(op, err);
}

int globalavg_run(struct op *op, opm_error *err)
{
    (void)err;
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, 4, global_avg_part, op);
    return 0;
}

int maxunpool_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    if (!rc && !shape_equal(&kernel_in(op, 0)->shape, &kernel_in(op, 1)->shape))
        rc = kernel_fail(op, OPM_EINVAL, err, "indices do not fit the input");
    return rc ? rc : kernel_infer(op, err);
}

/* Indices count over the output that the strides give, whatever output shape is asked for. */
int maxunpool_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1);
    struct nt *out = kernel_out(op, 0);
    size_t wd = nt_width(in->type);
    struct shape from = out->shape;
    struct sliding w;
    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = sliding_read(&v.base, from.rank - 2, NULL, &w);
    if (!rc)
        rc = sliding_transposed(&v.base, &w, in->shape.dim + 2);
    view_end(&v);
    if (rc)
        return rc;
    for (int i = 0; i < w.n; i++)
        from.dim[2 + i] = w.out[i];
    memset(out->data, 0, out->bytes);
    for (int64_t i = 0; i < in->count; i++) {
        int64_t rest = ((const int64_t *)index->data)[i], at = 0, step = 1;
        bool ok = rest >= 0;

        for (int32_t d = from.rank - 1; d >= 0 && ok; d--) {
            int64_t x = d ? rest % MAX(from.dim[d], (int64_t)1) : rest;

            rest /= MAX(from.dim[d], (int64_t)1);
            ok = x < out->shape.dim[d];
            at += x * step;
            step *= out->shape.dim[d];
        }
        if (!ok)
            return kernel_fail(op, OPM_EINVAL, err, "an index is out of range");
        memcpy((char *)out->data + (size_t)at * wd, (const char *)in->data + (size_t)i * wd, wd);
    }
    return 0;
}
