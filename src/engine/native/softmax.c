/* softmax.c -- Softmax, LogSoftmax, Hardmax. */
#include "engine/native/kernels.h"

#include <math.h>
#include <string.h>

enum { SOFT_MAX, SOFT_LOG, SOFT_HARD };

struct softmax_job {
    const struct op *op;
    int64_t n, inner;
};

int softmax_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kop_in(op, 0);
    int rc = kop_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (nt_axis(node_attr_int(op->node, "axis", op->node->opset < 13 ? 1 : -1),
                MAX(in->shape.rank, 1)) < 0 &&
        op->node->opset >= 13)
        return kop_fail(op, OPM_EINVAL, err, "axis is out of range");
    return kop_set(op, 0, in->type, &in->shape, err);
}

#define SOFT_GENERIC(T)                                                \
    do {                                                               \
        const T *in = (const T *)kop_in(j->op, 0)->data + base;        \
        T *out = (T *)kop_out(j->op, 0)->data + base;                  \
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

static void softmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    int what = j->op->kernel->arg;
    const struct isa *isa = kop_isa(j->op);

    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        int64_t base = o / j->inner * j->n * j->inner + o % j->inner;

        if (kop_in(j->op, 0)->type == TENSOR_F64)
            SOFT_GENERIC(double);
        else if (what == SOFT_MAX && j->inner == 1)
            isa->softmax((float *)kop_out(j->op, 0)->data + base,
                         (const float *)kop_in(j->op, 0)->data + base, j->n);
        else
            SOFT_GENERIC(float);
    }
}

/* Before opset 13 everything from axis on is one dimension. */
int softmax_run(struct op *op, opm_error *err)
{
    const struct nt *in = kop_in(op, 0);
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
    pool_for(kop_pool(op), outer * j.inner, MAX(4096 / MAX(j.n, (int64_t)1), (int64_t)1),
             softmax_part, &j);
    return 0;
}
