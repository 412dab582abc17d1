/* pooling.c -- MaxPool, AveragePool, LpPool, their global forms, and MaxUnpool; 1 to 3 spatial
 * dimensions. */
#include "engine/native/isa/loops_isa.h"
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
    bool rows;        /* by rows_part() */
    size_t pad_bytes; /* of scratch, for each thread; a row of counts is behind all of them */
};

static void plan_rows(struct op *op, struct pooling *q);

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
    if (!rc)
        rc = kernel_set(op, 1, TENSOR_I64, &s, err);
    if (!rc)
        plan_rows(op, q);
    return rc;
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

/* Number of taps in dimension d that an average is divided by, for an output at o. */
static int64_t divisor(const struct pooling *q, int d, int64_t o)
{
    int64_t s, lo, hi;

    if (q->include_pad)
        return padded_taps(&q->w, d, o);
    inside(&q->w, d, o, &s, &lo, &hi);
    return hi - lo;
}

/* The window is all there is. */
static bool whole(const struct window *w)
{
    for (int d = 0; d < 3; d++)
        if (w->out[d] != 1 || w->kernel[d] != w->in[d] || w->before[d] || w->after[d] ||
            (w->dilation[d] != 1 && w->kernel[d] != 1))
            return false;
    return true;
}

static void whole_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct isa *isa = kernel_isa(j->op);
    int what = j->op->kernel->arg & POOL_WHAT;
    int64_t n = window_in(&j->q->w);
    enum isa_reduce f = what == POOL_MAX       ? R_MAX
                        : what == POOL_AVERAGE ? R_SUM
                        : j->q->p == 2         ? R_SQUARES
                                               : R_ABS;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        float r = isa->reduce(f, (const float *)kernel_in(j->op, 0)->data + i * n, n);

        ((float *)kernel_out(j->op, 0)->data)[i] = f == R_SUM       ? r / (float)n
                                                   : f == R_SQUARES ? sqrtf(r)
                                                                    : r;
    }
}

#define ROWS_MAX 64 /* that are put together at a time */

/* Floats, by vectors along x. Every window has at least one element. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pooling_job *j = arg;
    const struct pooling *q = j->q;
    const struct window *w = &q->w;
    const struct isa *isa = kernel_isa(j->op);
    int what = j->op->kernel->arg & POOL_WHAT;
    char *scratch = (char *)j->op->scratch + q->pad_bytes * (size_t)thread;
    const float *counts =
        (const float *)(const void *)((char *)j->op->scratch +
                                      q->pad_bytes * (size_t)pool_threads(kernel_pool(j->op)));
    float *shared = (float *)(void *)scratch, *sums = shared + w->out[2];
    const float *row[ROWS_MAX];
    struct loops_pool p = { .row = row,
                            .width = w->in[2],
                            .before = w->before[2],
                            .after = w->after[2],
                            .fill = what == POOL_MAX ? -INFINITY : 0,
                            .pad = sums + w->out[2],
                            .n = w->out[2],
                            .taps = (int)w->kernel[2],
                            .stride = w->stride[2],
                            .dilation = w->dilation[2],
                            .max = what == POOL_MAX,
                            .pre = what != POOL_LP ? PRE_NONE
                                   : q->p == 2     ? PRE_SQUARE
                                                   : PRE_ABS };

    for (int64_t i = 0; i < p.before; i++)
        p.pad[i] = p.fill;
    for (int64_t i = begin * w->out[0] * w->out[1]; i < end * w->out[0] * w->out[1]; i++) {
        int64_t y = i % w->out[1], z = i / w->out[1] % w->out[0],
                plane = i / (w->out[0] * w->out[1]);
        const float *in = (const float *)kernel_in(j->op, 0)->data + plane * window_in(w);
        int64_t s[2], lo[2], hi[2];
        float *out = (float *)kernel_out(j->op, 0)->data + i * w->out[2];
        bool more = false;

        inside(w, 0, z, &s[0], &lo[0], &hi[0]);
        inside(w, 1, y, &s[1], &lo[1], &hi[1]);
        p.rows = 0;
        for (int64_t a = lo[0]; a < hi[0]; a++)
            for (int64_t b = lo[1]; b < hi[1]; b++) {
                row[p.rows++] =
                    in +
                    ((s[0] + a * w->dilation[0]) * w->in[1] + s[1] + b * w->dilation[1]) * w->in[2];
                if (p.rows < ROWS_MAX && !(a + 1 == hi[0] && b + 1 == hi[1]))
                    continue;
                p.out = more ? sums : out;
                isa->loops->pool(&p);
                if (more)
                    isa->binary(p.max ? B_MAX : B_ADD, out, out, 1, sums, 1, p.n);
                more = true;
                p.rows = 0;
            }
        if (what == POOL_AVERAGE) {
            isa->unary(U_AFFINE, shared, counts, p.n, (float)(divisor(q, 0, z) * divisor(q, 1, y)),
                       0);
            isa->binary(B_DIV, out, out, 1, shared, 1, p.n);
        } else if (p.pre == PRE_SQUARE)
            isa->unary(U_SQRT, out, out, p.n, 0, 0);
    }
}

/* Whether rows_part() can do it, and its scratch memory. */
static void plan_rows(struct op *op, struct pooling *q)
{
    const struct window *w = &q->w;
    int what = op->kernel->arg & POOL_WHAT;
    int64_t reach = w->kernel[2] * w->dilation[2] + w->out[2] * w->stride[2];

    q->rows = kernel_in(op, 0)->type == TENSOR_F32 && !kernel_out(op, 1) &&
              (what != POOL_LP || q->p == 2 || q->p == 1) && q->planes && window_out(w) &&
              reach < 1 << 24 && w->in[2] < 1 << 24 && w->before[2] < 1 << 24 &&
              w->after[2] < 1 << 24 && w->kernel[2] < 1 << 20;
    for (int d = 0; d < 3 && q->rows; d++)
        for (int64_t o = 0; o < w->out[d] && q->rows; o++) {
            int64_t s, lo, hi;

            inside(w, d, o, &s, &lo, &hi);
            q->rows = lo < hi;
        }
    if (!q->rows)
        return;
    q->pad_bytes =
        ((size_t)(LOOPS_PAD(w->in[2], w->before[2], w->after[2], reach) + 2 * w->out[2]) *
             sizeof(float) +
         63) /
        64 * 64;
    op->scratch_bytes =
        q->pad_bytes * (size_t)pool_threads(kernel_pool(op)) + (size_t)w->out[2] * sizeof(float);
}

int pooling_run(struct op *op, opm_error *err)
{
    struct pooling_job j = { op, op->state };
    const struct window *w = &j.q->w;

    (void)err;
    if (j.q->rows && op->scratch) {
        char *pads = op->scratch;
        float *counts =
            (float *)(void *)(pads + j.q->pad_bytes * (size_t)pool_threads(kernel_pool(op)));

        for (int64_t x = 0; x < w->out[2]; x++)
            counts[x] = (float)divisor(j.q, 2, x);
    }
    pool_for(kernel_pool(op), window_out(w) ? j.q->planes : 0,
             pool_grain((double)(window_out(w) * window_kernel(w)) / 8),
             !j.q->rows    ? pooling_part
             : whole(w)    ? whole_part
             : op->scratch ? rows_part
                           : pooling_part,
             &j);
    return 0;
}

int maxpool_prepare(struct op *op, opm_error *err)
{
    return pooling_prepare(op, err);
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

        if (in->type == TENSOR_F32 && n > 0) {
            ((float *)kernel_out(op, 0)->data)[i] =
                kernel_isa(op)->reduce(R_SUM, (const float *)in->data + i * n, n) / (float)n;
            continue;
        }
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
