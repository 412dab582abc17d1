/* loss.c -- NegativeLogLikelihoodLoss and SoftmaxCrossEntropyLoss. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/softmax.h"

#include <string.h>

struct loss {
    int64_t n, c, inner;
    bool each; /* reduction "none" */
    bool mean;
};

static int loss_init(struct op *op, struct loss *l, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *target = kernel_in(op, 1), *weight = kernel_in(op, 2);
    const char *r = node_attr_str(op->node, "reduction", "mean");
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (rc)
        return rc;
    if (in->shape.rank < 2 || target->shape.rank != in->shape.rank - 1)
        return kernel_fail(op, OPM_EINVAL, err, "input and target do not fit");
    l->n = in->shape.dim[0];
    l->c = in->shape.dim[1];
    l->inner = nt_span(&in->shape, 2, in->shape.rank);
    if (target->count != l->n * l->inner)
        return kernel_fail(op, OPM_EINVAL, err, "input and target do not fit");
    if (weight && (weight->type != in->type || weight->count != l->c))
        return kernel_fail(op, OPM_EINVAL, err, "weights do not fit the classes");
    l->each = strcmp(r, "none") == 0;
    l->mean = strcmp(r, "mean") == 0;
    return 0;
}

int nll_prepare(struct op *op, opm_error *err)
{
    struct loss l;
    int rc = loss_init(op, &l, err);

    return rc ? rc : kernel_infer(op, err);
}

static double value(const struct nt *t, int64_t i)
{
    return t->type == TENSOR_F32 ? (double)((const float *)t->data)[i]
                                 : ((const double *)t->data)[i];
}

static void store(struct nt *t, int64_t i, double v)
{
    if (t->type == TENSOR_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

/* x: log probabilities. */
static int nll(struct op *op, const struct loss *l, const struct nt *x, opm_error *err)
{
    const struct nt *target = kernel_in(op, 1), *weight = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    bool ignoring = node_attr(op->node, "ignore_index") != NULL;
    int64_t ignore = node_attr_int(op->node, "ignore_index", 0);
    double sum = 0, total = 0;

    for (int64_t i = 0; i < target->count; i++) {
        int64_t t = nt_int(target, i), n = i / MAX(l->inner, (int64_t)1), k = i % l->inner;
        double w = 1, loss = 0;

        if (ignoring && t == ignore) {
            w = 0;
        } else {
            if (t < 0 || t >= l->c)
                return kernel_fail(op, OPM_EINVAL, err, "target %lld of %lld classes", (long long)t,
                                   (long long)l->c);
            w = weight ? value(weight, t) : 1;
            loss = -value(x, (n * l->c + t) * l->inner + k) * w;
        }
        if (l->each && out)
            store(out, i, loss);
        sum += loss;
        total += w;
    }
    if (!l->each && out)
        store(out, 0, l->mean ? sum / total : sum);
    return 0;
}

int nll_run(struct op *op, opm_error *err)
{
    struct loss l;
    int rc = loss_init(op, &l, err);

    return rc ? rc : nll(op, &l, kernel_in(op, 0), err);
}

int sce_prepare(struct op *op, opm_error *err)
{
    int rc = nll_prepare(op, err);

    if (!rc && !kernel_out(op, 1))
        op->scratch_bytes = kernel_in(op, 0)->bytes;
    return rc;
}

int sce_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt logp = *in;
    struct loss l;
    int rc = loss_init(op, &l, err);

    if (rc || in->count == 0)
        return rc;
    logp.data = kernel_out(op, 1) ? kernel_out(op, 1)->data : op->scratch;
    softmax_all(op,
                &(struct softmax){ SOFT_LOG, in->type, in->data, logp.data, l.n, l.c, l.inner });
    return nll(op, &l, &logp, err);
}
