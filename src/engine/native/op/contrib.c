/* contrib.c -- what ONNX Runtime's transformer optimizer makes of several nodes: normalizations
 * with their sums, activations with their bias; and RMSNormalization, which goes with them. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define SWIGLU_BLOCK 1024

/* SkipLayerNormalization: input, skip, gamma, beta, bias; without the mean: input, skip, gamma,
 * bias. SimplifiedLayerNormalization and RMSNormalization: input, gamma. */
struct skip_slots {
    uint32_t skip, gamma, beta, bias;
};

static struct skip_slots skip_slots(const struct op *op)
{
    const uint32_t none = 31;

    switch (op->kernel->arg) {
    case NORM_SKIP:
        return (struct skip_slots){ 1, 2, 3, 4 };
    case NORM_SKIP_RMS:
        return (struct skip_slots){ 1, 2, none, 3 };
    default:
        return (struct skip_slots){ none, 1, none, none };
    }
}

static int64_t norm_width(const struct op *op)
{
    const struct shape *s = &kernel_in(op, 0)->shape;
    int axis = op->kernel->arg == NORM_RMS ? nt_axis(node_attr_int(op->node, "axis", -1), s->rank)
                                           : s->rank - 1;

    return axis < 0 ? -1 : nt_span(s, axis, s->rank);
}

int skipnorm_prepare(struct op *op, opm_error *err)
{
    struct skip_slots at = skip_slots(op);
    const uint32_t vector[] = { at.gamma, at.beta, at.bias };
    const struct nt *x = kernel_in(op, 0), *skip = kernel_in(op, at.skip);
    int64_t n;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, at.gamma, TYPE_BIT(TENSOR_F32), err);
    if (!rc && skip)
        rc = kernel_want(op, at.skip, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    n = x->shape.rank ? norm_width(op) : -1;
    for (size_t i = 0; i < ARRAY_SIZE(vector); i++)
        if (kernel_in(op, vector[i]) &&
            (kernel_in(op, vector[i])->type != TENSOR_F32 || kernel_in(op, vector[i])->count != n))
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "input %u does not fit", vector[i]);
    if (n < 1 || (skip && (skip->count < 1 || x->count % skip->count || skip->count % n)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    for (uint32_t i = 1; i < MIN(op->nout, 3u); i++)
        if (op->out[i] != NO_VALUE)
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for output %u", i);
    return kernel_infer(op, err);
}

static void rms_row(const struct isa *isa, float *out, const float *in, const float *gamma,
                    int64_t n, float eps)
{
    float scale = 1 / sqrtf(isa->dot(in, in, n) / (float)n + eps);

    isa->unary(U_AFFINE, out, in, n, scale, 0);
    isa->binary(B_MUL, out, out, 1, gamma, 1, n);
}

static void skipnorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    struct skip_slots at = skip_slots(op);
    const struct isa *isa = kernel_isa(op);
    const struct nt *x = kernel_in(op, 0), *skip = kernel_in(op, at.skip),
                    *beta = kernel_in(op, at.beta), *bias = kernel_in(op, at.bias);
    const float *gamma = kernel_in(op, at.gamma)->data;
    struct nt *sum = kernel_out(op, 3);
    int64_t n = norm_width(op);
    float eps = node_attr_float(
        op->node, "epsilon",
        op->kernel->arg == NORM_SKIP || op->kernel->arg == NORM_SKIP_RMS ? 1e-12f : 1e-5f);

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *in = (const float *)x->data + r * n;
        float *out = (float *)kernel_out(op, 0)->data + r * n;
        float *total = sum ? (float *)sum->data + r * n : out;

        if (skip) {
            isa->binary(B_ADD, total, in, 1, (const float *)skip->data + r * n % skip->count, 1, n);
            in = total;
        }
        if (bias) {
            isa->binary(B_ADD, total, in, 1, bias->data, 1, n);
            in = total;
        }
        if (op->kernel->arg == NORM_SKIP)
            isa->layernorm(out, in, gamma, beta ? beta->data : NULL, n, eps, NULL, NULL);
        else
            rms_row(isa, out, in, gamma, n, eps);
    }
}

int skipnorm_run(struct op *op, opm_error *err)
{
    int64_t n = norm_width(op);

    (void)err;
    pool_for(kernel_pool(op), kernel_in(op, 0)->count / n, MAX(4096 / n, (int64_t)1), skipnorm_part,
             op);
    return 0;
}

/* X, and a vector along the last dimension that is added first. */
int biasact_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *bias = kernel_in(op, 1);
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (rc)
        return rc;
    if (bias && (bias->type != TENSOR_F32 || x->shape.rank < 1 ||
                 bias->count != x->shape.dim[x->shape.rank - 1]))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "bias does not fit");
    return kernel_infer(op, err);
}

static void biasact_part(void *arg, int64_t begin, int64_t end, int thread)
{
    static const enum isa_unary functions[] = {
        [ACT_GELU] = U_GELU, [ACT_FAST_GELU] = U_GELU_TANH, [ACT_QUICK_GELU] = U_SILU
    };
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    const struct nt *x = kernel_in(op, 0), *bias = kernel_in(op, 1);
    int64_t n = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *in = (const float *)x->data + r * n;
        float *out = (float *)kernel_out(op, 0)->data + r * n;

        if (bias)
            isa->binary(B_ADD, out, in, 1, bias->data, 1, n);
        isa->unary(functions[op->kernel->arg], out, bias ? out : in, n,
                   node_attr_float(op->node, "alpha", 1.702f), 0);
    }
}

int biasact_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    int64_t n = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1;

    (void)err;
    if (x->count)
        pool_for(kernel_pool(op), x->count / n, MAX(2048 / n, (int64_t)1), biasact_part, op);
    return 0;
}

/* Swish of the first, times the second. */
int swiglu_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc && !shape_equal(&kernel_in(op, 0)->shape, &kernel_in(op, 1)->shape))
        rc = kernel_fail(op, OPM_EINVAL, err, "operands are of different shapes");
    return rc ? rc : kernel_infer(op, err);
}

static void swiglu_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    float *out = kernel_out(op, 0)->data, block[SWIGLU_BLOCK];

    (void)thread;
    for (int64_t i = begin; i < end; i += SWIGLU_BLOCK) {
        int64_t n = MIN(end - i, (int64_t)SWIGLU_BLOCK);

        isa->unary(U_SILU, block, (const float *)kernel_in(op, 0)->data + i, n,
                   node_attr_float(op->node, "alpha", 1), 0);
        isa->binary(B_MUL, out + i, block, 1, (const float *)kernel_in(op, 1)->data + i, 1, n);
    }
}

int swiglu_run(struct op *op, opm_error *err)
{
    (void)err;
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, 4096, swiglu_part, op);
    return 0;
}

/* X + a vector along the last dimension + skip. */
int biasadd_prepare(struct op *op, opm_error *err)
{
    int rc = biasact_prepare(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_F32), err);
    if (!rc && !shape_equal(&kernel_in(op, 2)->shape, &kernel_in(op, 0)->shape))
        rc = kernel_fail(op, OPM_EINVAL, err, "what is added does not fit");
    return rc;
}

static void biasadd_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    int64_t n = kernel_in(op, 1)->count;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *out = (float *)kernel_out(op, 0)->data + r * n;

        isa->binary(B_ADD, out, (const float *)kernel_in(op, 0)->data + r * n, 1,
                    kernel_in(op, 1)->data, 1, n);
        isa->binary(B_ADD, out, out, 1, (const float *)kernel_in(op, 2)->data + r * n, 1, n);
    }
}

int biasadd_run(struct op *op, opm_error *err)
{
    int64_t n = kernel_in(op, 1)->count;

    (void)err;
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), kernel_out(op, 0)->count / n, MAX(4096 / n, (int64_t)1),
                 biasadd_part, op);
    return 0;
}

/* X and its bias; the first half of a row times the Gelu of the second. */
int biassplitgelu_prepare(struct op *op, opm_error *err)
{
    int rc = biasact_prepare(op, err);
    const struct nt *x = kernel_in(op, 0);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc && x->shape.dim[x->shape.rank - 1] % 2)
        rc = kernel_fail(op, OPM_EINVAL, err, "rows of %lld have no halves",
                         (long long)x->shape.dim[x->shape.rank - 1]);
    op->scratch_bytes = 0;
    if (!rc)
        op->scratch_bytes = kernel_in(op, 1)->bytes * (size_t)pool_threads(kernel_pool(op));
    return rc;
}

static void biassplitgelu_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    int64_t n = kernel_in(op, 1)->count;
    float *row = (float *)op->scratch + thread * n;

    for (int64_t r = begin; r < end; r++) {
        isa->binary(B_ADD, row, (const float *)kernel_in(op, 0)->data + r * n, 1,
                    kernel_in(op, 1)->data, 1, n);
        isa->unary(U_GELU, row + n / 2, row + n / 2, n / 2, 0, 0);
        isa->binary(B_MUL, (float *)kernel_out(op, 0)->data + r * (n / 2), row, 1, row + n / 2, 1,
                    n / 2);
    }
}

int biassplitgelu_run(struct op *op, opm_error *err)
{
    int64_t n = kernel_in(op, 1)->count;

    (void)err;
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), kernel_in(op, 0)->count / n, MAX(2048 / n, (int64_t)1),
                 biassplitgelu_part, op);
    return 0;
}

/* Softmax of X and a bias, over the dimensions from `axis` on: a row. The bias has a row for
 * several neighbouring rows of X, or for every so-many-th. */
static int64_t biassoftmax_width(const struct op *op)
{
    const struct shape *s = &kernel_in(op, 0)->shape;
    int axis = nt_axis(node_attr_int(op->node, "axis", 1), s->rank);

    return axis < 0 ? -1 : nt_span(s, axis, s->rank);
}

int biassoftmax_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *bias;
    int64_t n;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    bias = kernel_in(op, 1);
    n = biassoftmax_width(op);
    if (n < 1 || bias->count < 1 || bias->count % n || x->count % bias->count)
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit");
    return kernel_infer(op, err);
}

static void biassoftmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct nt *x = kernel_in(op, 0), *bias = kernel_in(op, 1);
    bool inner = node_attr_int(op->node, "is_inner_broadcast", 0) != 0;
    int64_t n = biassoftmax_width(op), rows = bias->count / n, each = x->count / bias->count;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *out = (float *)kernel_out(op, 0)->data + r * n;
        int64_t of = inner ? r / each : r % rows;

        kernel_isa(op)->binary(B_ADD, out, (const float *)x->data + r * n, 1,
                               (const float *)bias->data + of * n, 1, n);
        kernel_isa(op)->softmax(out, out, n);
    }
}

int biassoftmax_run(struct op *op, opm_error *err)
{
    int64_t n = biassoftmax_width(op);

    (void)err;
    pool_for(kernel_pool(op), kernel_in(op, 0)->count / n, MAX(4096 / n, (int64_t)1),
             biassoftmax_part, op);
    return 0;
}
