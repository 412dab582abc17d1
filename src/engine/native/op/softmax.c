/* softmax.c -- Softmax, LogSoftmax, Hardmax. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define STRIP 128
#define SOFT_NS 0.5 /* for an element, about */

struct softmax_job {
    const struct op *op;
    int64_t n, inner;
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
        const T *in = (const T *)kernel_in(j->op, 0)->data + base;     \
        T *out = (T *)kernel_out(j->op, 0)->data + base;               \
        double max = -(double)INFINITY, sum = 0;                       \
        int64_t best = 0;                                              \
        for (int64_t k = 0; k < j->n; k++)                             \
            if ((double)in[k * j->inner] > max) {                      \
                max = (double)in[k * j->inner];                        \
                best = k;                                              \
            }                                                          \
        if (!isfinite(max))                                            \
            max = 0;                                                   \
        for (int64_t k = 0; k < j->n; k++)                             \
            sum += exp((double)in[k * j->inner] - max);                \
        for (int64_t k = 0; k < j->n; k++) {                           \
            double d = (double)in[k * j->inner] - max;                 \
            out[k * j->inner] = (T)(what == SOFT_MAX   ? exp(d) / sum  \
                                    : what == SOFT_LOG ? d - log(sum)  \
                                                       : (k == best)); \
        }                                                              \
    } while (0)

#define LOG_PIECE 512

/* x less the greatest, less the logarithm of the sum of their exponentials. false: not of numbers.
 */
static bool log_row(const struct isa *isa, float *out, const float *in, int64_t n)
{
    float max = isa->reduce(R_MAX, in, n), piece[LOG_PIECE], sum = 0;

    if (!isfinite(max))
        return false;
    for (int64_t i = 0; i < n; i += LOG_PIECE) {
        int64_t len = MIN(n - i, (int64_t)LOG_PIECE);

        isa->binary(B_SUB, piece, in + i, 1, &max, 0, len);
        isa->unary(U_EXP, piece, piece, len, 0, 0);
        sum += isa->reduce(R_SUM, piece, len);
    }
    sum = logf(sum);
    isa->binary(B_SUB, out, in, 1, &max, 0, n);
    isa->binary(B_SUB, out, out, 1, &sum, 0, n);
    return true;
}

/* 1 for the first of the greatest. */
static bool hard_row(const struct isa *isa, float *out, const float *in, int64_t n)
{
    float max = isa->reduce(R_MAX, in, n);
    int64_t at;

    if (!isfinite(max))
        return false;
    at = isa->loops->beyond(in, 0, n, nextafterf(max, -INFINITY), true);
    memset(out, 0, (size_t)n * sizeof(*out));
    out[at] = 1;
    return true;
}

static void softmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    int what = j->op->kernel->arg;
    const struct isa *isa = kernel_isa(j->op);

    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        int64_t base = o / j->inner * j->n * j->inner + o % j->inner;

        if (kernel_in(j->op, 0)->type == TENSOR_F64)
            SOFT_GENERIC(double);
        else if (what == SOFT_MAX && j->inner == 1)
            isa->softmax((float *)kernel_out(j->op, 0)->data + base,
                         (const float *)kernel_in(j->op, 0)->data + base, j->n);
        else if (what != SOFT_MAX && j->inner == 1 && j->n &&
                 (what == SOFT_LOG ? log_row : hard_row)(
                     isa, (float *)kernel_out(j->op, 0)->data + base,
                     (const float *)kernel_in(j->op, 0)->data + base, j->n))
            continue;
        else
            SOFT_GENERIC(float);
    }
}

/* Softmax or its logarithm of floats along a dimension that is not the last: a strip of columns at
 * a time. */
static void columns_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct isa *isa = kernel_isa(j->op);
    int64_t strips = (j->inner + STRIP - 1) / STRIP;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t c0 = item % strips * STRIP, n = MIN((int64_t)STRIP, j->inner - c0),
                base = item / strips * j->n * j->inner + c0;
        const float *in = (const float *)kernel_in(j->op, 0)->data + base;
        float *out = (float *)kernel_out(j->op, 0)->data + base, max[STRIP], sum[STRIP] = { 0 };
        bool log = j->op->kernel->arg == SOFT_LOG;

        memcpy(max, in, (size_t)n * sizeof(*max));
        for (int64_t k = 1; k < j->n; k++)
            isa->binary(B_MAX, max, max, 1, in + k * j->inner, 1, n);
        for (int64_t i = 0; i < n; i++)
            max[i] = isinf(max[i]) ? 0 : max[i];
        for (int64_t k = 0; k < j->n; k++) {
            float *o = out + k * j->inner;

            float part[STRIP], *e = log ? part : o;

            isa->binary(B_SUB, o, in + k * j->inner, 1, max, 1, n);
            isa->unary(U_EXP, e, o, n, 0, 0);
            isa->binary(B_ADD, sum, sum, 1, e, 1, n);
        }
        isa->unary(log ? U_LOG : U_RECIPROCAL, sum, sum, n, 0, 0);
        for (int64_t k = 0; k < j->n; k++)
            isa->binary(log ? B_SUB : B_MUL, out + k * j->inner, out + k * j->inner, 1, sum, 1, n);
    }
}

/* Before opset 13 everything from axis on is one dimension. */
int softmax_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct softmax_job j = { .op = op, .inner = 1 };
    int64_t axis = node_attr_int(op->node, "axis", op->node->opset < 13 ? 1 : -1), outer;

    (void)err;
    if (in->count == 0)
        return 0;
    axis = axis < 0 ? axis + in->shape.rank : axis;
    axis = MAX(MIN(axis, (int64_t)in->shape.rank), (int64_t)0);
    outer = nt_span(&in->shape, 0, (int)axis);
    if (op->node->opset < 13 || axis == in->shape.rank)
        j.n = nt_span(&in->shape, (int)axis, in->shape.rank);
    else {
        j.n = in->shape.dim[axis];
        j.inner = nt_span(&in->shape, (int)axis + 1, in->shape.rank);
    }
    if (in->type == TENSOR_F32 && op->kernel->arg != SOFT_HARD && j.inner >= 4 && j.n) {
        pool_for(kernel_pool(op), outer * ((j.inner + STRIP - 1) / STRIP),
                 pool_grain((double)(j.n * MIN(j.inner, (int64_t)STRIP)) * SOFT_NS), columns_part,
                 &j);
        return 0;
    }
    pool_for(kernel_pool(op), outer * j.inner, MAX(4096 / MAX(j.n, (int64_t)1), (int64_t)1),
             softmax_part, &j);
    return 0;
}
