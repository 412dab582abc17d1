/* softmax.c -- Softmax, LogSoftmax, Hardmax. */
#include "engine/native/op/softmax.h"

#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define STRIP 128
#define SOFT4_MAX 1024 /* rows of more go one by one: four stay in the first cache */
#define SHORT 16       /* rows of fewer elements go many at a time, */
#define SHORT_MANY 8   /* if there are as many */
#define SOFT_NS 0.5    /* for an element, about */

struct softmax_job {
    const struct isa *isa;
    const struct softmax *s;
};

int softmax_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (nt_axis(node_attr_int(op->node, "axis", op->node->opset < 13 ? 1 : -1),
                MAX(in->shape.rank, 1)) < 0 &&
        op->node->opset >= 13)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    return kernel_infer(op, err);
}

#define SOFT_GENERIC(T)                                                \
    do {                                                               \
        const T *in = (const T *)s->in + base;                         \
        T *out = (T *)s->out + base;                                   \
        double max = -(double)INFINITY, sum = 0;                       \
        int64_t best = 0;                                              \
        for (int64_t k = 0; k < s->n; k++)                             \
            if ((double)in[k * s->inner] > max) {                      \
                max = (double)in[k * s->inner];                        \
                best = k;                                              \
            }                                                          \
        if (!isfinite(max))                                            \
            max = 0;                                                   \
        for (int64_t k = 0; k < s->n; k++)                             \
            sum += exp((double)in[k * s->inner] - max);                \
        for (int64_t k = 0; k < s->n; k++) {                           \
            double d = (double)in[k * s->inner] - max;                 \
            out[k * s->inner] = (T)(what == SOFT_MAX   ? exp(d) / sum  \
                                    : what == SOFT_LOG ? d - log(sum)  \
                                                       : (k == best)); \
        }                                                              \
    } while (0)

/* The next number below a finite one. */
static float just_below(float x)
{
    uint32_t bits;

    if (x == 0)
        return -FLT_TRUE_MIN;
    memcpy(&bits, &x, sizeof(bits));
    bits += x > 0 ? (uint32_t)-1 : 1;
    memcpy(&x, &bits, sizeof(bits));
    return x;
}

#define HARD_ROWS 32
#define HARD_ELEMENTS 4096 /* that many, and a row at least, stay in the first cache */

/* Rows of floats. False, and nothing is done, where one has no greatest number. */
static bool hard_rows(const struct isa *isa, float *out, const float *in, int64_t n, int64_t rows)
{
    float max[HARD_ROWS];

    for (int64_t r = 0; r < rows; r++)
        max[r] = -INFINITY;
    isa->rows->folds->rows[FOLD_MAX][TENSOR_F32](max, in, n, n, rows);
    for (int64_t r = 0; r < rows; r++)
        if (!isfinite(max[r]))
            return false;
    memset(out, 0, (size_t)(rows * n) * sizeof(*out));
    for (int64_t r = 0; r < rows; r++)
        out[r * n + isa->loops->beyond(in + r * n, 0, n, just_below(max[r]), true)] = 1;
    return true;
}

/* False, and nothing is done, where there are no loops for it or no greatest number. */
static bool double_row(const struct isa *isa, double *out, const double *in, int64_t n)
{
    f64_fn *exps = isa->rows->real->unary[F64_EXP];
    fold_rows_fn *most = isa->rows->folds->rows[FOLD_MAX][TENSOR_F64];
    double max = -(double)INFINITY, sum[4] = { 0 };
    int64_t i = 0;

    if (!exps || !most || !n)
        return false;
    most(&max, in, n, n, 1);
    if (!isfinite(max))
        return false;
    for (int64_t k = 0; k < n; k++)
        out[k] = in[k] - max;
    exps(out, out, n);
    for (; i + 4 <= n; i += 4)
        for (int k = 0; k < 4; k++)
            sum[k] += out[i + k];
    for (; i < n; i++)
        sum[0] += out[i];
    sum[0] = (sum[0] + sum[1]) + (sum[2] + sum[3]);
    for (int64_t k = 0; k < n; k++)
        out[k] /= sum[0];
    return true;
}

static void softmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct softmax *s = j->s;
    enum soft_kind what = s->what;
    const struct isa *isa = j->isa;

    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        int64_t base = o / s->inner * s->n * s->inner + o % s->inner,
                hard = MIN(end - o, MAX(MIN((int64_t)HARD_ROWS, HARD_ELEMENTS / s->n), (int64_t)1));

        if (s->type == TENSOR_F32 && what != SOFT_HARD && s->inner == 1 && o + 4 <= end &&
            s->n >= isa->lanes && s->n <= SOFT4_MAX) {
            isa->soft4((float *)s->out + base, (const float *)s->in + base, s->n, what == SOFT_LOG);
            o += 3;
        } else if (s->type == TENSOR_F64 && what == SOFT_MAX && s->inner == 1 &&
                   double_row(isa, (double *)s->out + base, (const double *)s->in + base, s->n))
            continue;
        else if (s->type == TENSOR_F64)
            SOFT_GENERIC(double);
        else if (what == SOFT_MAX && s->inner == 1)
            isa->softmax((float *)s->out + base, (const float *)s->in + base, s->n);
        else if (what == SOFT_LOG && s->inner == 1 && s->n)
            isa->logsoftmax((float *)s->out + base, (const float *)s->in + base, s->n);
        else if (what == SOFT_HARD && s->inner == 1 &&
                 hard_rows(isa, (float *)s->out + base, (const float *)s->in + base, s->n, hard))
            o += hard - 1;
        else
            SOFT_GENERIC(float);
    }
}

/* Softmax or its logarithm of n rows of columns, as many as a strip has or fewer. */
static void columns_strip(const struct isa *isa, bool log, float *out, const float *in, int64_t n,
                          int64_t inner, int64_t cols)
{
    float max[STRIP], sum[STRIP] = { 0 };

    memcpy(max, in, (size_t)cols * sizeof(*max));
    for (int64_t k = 1; k < n; k++)
        isa->binary(B_MAX, max, max, 1, in + k * inner, 1, cols);
    for (int64_t i = 0; i < cols; i++)
        max[i] = isinf(max[i]) ? 0 : max[i];
    for (int64_t k = 0; k < n; k++) {
        float *o = out + k * inner, part[STRIP], *e = log ? part : o;

        isa->binary(B_SUB, o, in + k * inner, 1, max, 1, cols);
        isa->unary(U_EXP, e, o, cols, 0, 0);
        isa->binary(B_ADD, sum, sum, 1, e, 1, cols);
    }
    isa->unary(log ? U_LOG : U_RECIPROCAL, sum, sum, cols, 0, 0);
    for (int64_t k = 0; k < n; k++)
        isa->binary(log ? B_SUB : B_MUL, out + k * inner, out + k * inner, 1, sum, 1, cols);
}

/* Floats along a dimension that is not the last: a strip of columns at a time. */
static void columns_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct softmax *s = j->s;
    int64_t strips = (s->inner + STRIP - 1) / STRIP;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t c0 = item % strips * STRIP, base = item / strips * s->n * s->inner + c0;

        columns_strip(j->isa, s->what == SOFT_LOG, (float *)s->out + base,
                      (const float *)s->in + base, s->n, s->inner,
                      MIN((int64_t)STRIP, s->inner - c0));
    }
}

/* A one for the first greatest number of each column. */
static void hard_columns_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct softmax *s = j->s;
    int64_t strips = (s->inner + STRIP - 1) / STRIP;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t c0 = item % strips * STRIP, base = item / strips * s->n * s->inner + c0,
                cols = MIN((int64_t)STRIP, s->inner - c0);
        const float *in = (const float *)s->in + base;
        float *out = (float *)s->out + base, best[STRIP];
        int32_t at[STRIP] = { 0 };

        for (int64_t i = 0; i < cols; i++)
            best[i] = -INFINITY;
        for (int64_t k = 0; k < s->n; k++)
            j->isa->loops->arg_rows(best, at, in + k * s->inner, cols, (int32_t)k, true, false);
        for (int64_t k = 0; k < s->n; k++)
            memset(out + k * s->inner, 0, (size_t)cols * sizeof(*out));
        for (int64_t i = 0; i < cols; i++)
            out[at[i] * s->inner + i] = 1;
    }
}

/* Short rows of floats: a strip of them, turned. */
static void short_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct softmax *s = j->s;
    float turned[SHORT * STRIP];

    (void)thread;
    for (int64_t r = begin; r < end; r += STRIP) {
        int64_t rows = MIN(end - r, (int64_t)STRIP);
        const float *in = (const float *)s->in + r * s->n;
        float *out = (float *)s->out + r * s->n;

        for (int64_t k = 0; k < s->n; k++)
            for (int64_t i = 0; i < rows; i++)
                turned[k * STRIP + i] = in[i * s->n + k];
        columns_strip(j->isa, s->what == SOFT_LOG, turned, turned, s->n, STRIP, rows);
        for (int64_t k = 0; k < s->n; k++)
            for (int64_t i = 0; i < rows; i++)
                out[i * s->n + k] = turned[k * STRIP + i];
    }
}

static void short_hard_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct softmax *s = j->s;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *in = (const float *)s->in + r * s->n;
        float *out = (float *)s->out + r * s->n, max = -INFINITY;
        int64_t best = 0;

        for (int64_t k = 0; k < s->n; k++) {
            best = in[k] > max ? k : best;
            max = in[k] > max ? in[k] : max;
            out[k] = 0;
        }
        out[best] = 1;
    }
}

void softmax_all(const struct op *op, const struct softmax *s)
{
    struct softmax_job j = { kernel_isa(op), s };

    if (s->type == TENSOR_F32 && s->inner >= 4 && s->n <= INT32_MAX)
        pool_for(kernel_pool(op), s->outer * ((s->inner + STRIP - 1) / STRIP),
                 pool_grain((double)(s->n * MIN(s->inner, (int64_t)STRIP)) * SOFT_NS),
                 s->what == SOFT_HARD ? hard_columns_part : columns_part, &j);
    else if (s->type == TENSOR_F32 && s->inner == 1 && s->n && s->n < SHORT &&
             (s->what == SOFT_HARD || s->outer >= SHORT_MANY))
        pool_for(kernel_pool(op), s->outer, pool_grain((double)s->n * SOFT_NS),
                 s->what == SOFT_HARD ? short_hard_part : short_part, &j);
    else
        pool_for(kernel_pool(op), s->outer * s->inner, MAX(4096 / s->n, (int64_t)1), softmax_part,
                 &j);
}

/* Before opset 13 everything from axis on is one dimension. */
int softmax_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct softmax s = {
        (enum soft_kind)op->kernel->arg, in->type, in->data, kernel_out(op, 0)->data, 0, 0, 1
    };
    int64_t axis = node_attr_int(op->node, "axis", op->node->opset < 13 ? 1 : -1);

    (void)err;
    if (in->count == 0)
        return 0;
    axis = axis < 0 ? axis + in->shape.rank : axis;
    axis = MAX(MIN(axis, (int64_t)in->shape.rank), (int64_t)0);
    s.outer = nt_span(&in->shape, 0, (int)axis);
    if (op->node->opset < 13 || axis == in->shape.rank)
        s.n = nt_span(&in->shape, (int)axis, in->shape.rank);
    else {
        s.n = in->shape.dim[axis];
        s.inner = nt_span(&in->shape, (int)axis + 1, in->shape.rank);
    }
    softmax_all(op, &s);
    return 0;
}
