/* contrib.c -- what ONNX Runtime's transformer optimizer makes of several nodes: normalizations
 * with their sums, activations with their bias, FusedMatMul; and RMSNormalization, which goes with
 * them. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/elementwise.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

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

/* Products of matrices that are given turned, times alpha. */
struct fused {
    int64_t m, n, k, nbatch;
    bool turned[2];
    struct shape batch;
    int64_t stride[2][SHAPE_RANK_MAX];
};

int fusedmatmul_prepare(struct op *op, opm_error *err)
{
    struct fused *f = kernel_new_state(op, sizeof(*f));
    struct shape s[2];
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!f)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    f->turned[0] = node_attr_int(op->node, "transA", 0) != 0;
    f->turned[1] = node_attr_int(op->node, "transB", 0) != 0;
    s[0] = kernel_in(op, 0)->shape;
    s[1] = kernel_in(op, 1)->shape;
    if (s[0].rank < 2 || s[1].rank < 2 || node_attr_int(op->node, "transBatchA", 0) ||
        node_attr_int(op->node, "transBatchB", 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    f->m = s[0].dim[s[0].rank - 2 + f->turned[0]];
    f->k = s[0].dim[s[0].rank - 1 - f->turned[0]];
    f->n = s[1].dim[s[1].rank - 1 - f->turned[1]];
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    s[0].rank -= 2;
    s[1].rank -= 2;
    f->batch = kernel_out(op, 0)->shape;
    f->batch.rank -= 2;
    f->nbatch = shape_count(&f->batch);
    for (int i = 0; i < 2; i++) {
        int64_t step = 1;

        memset(f->stride[i], 0, sizeof(f->stride[i]));
        for (int32_t d = s[i].rank - 1; d >= 0; d--) {
            f->stride[i][f->batch.rank - s[i].rank + d] = s[i].dim[d] == 1 ? 0 : step;
            step *= s[i].dim[d];
        }
    }
    op->scratch_bytes = sizeof(float) * (size_t)f->k * (size_t)pool_threads(kernel_pool(op)) + 1;
    return 0;
}

static int64_t matrix_of(const struct fused *f, int operand, int64_t item)
{
    int64_t at = 0;

    for (int32_t d = f->batch.rank - 1; d >= 0; d--) {
        at += item % f->batch.dim[d] * f->stride[operand][d];
        item /= f->batch.dim[d];
    }
    return at;
}

/* One row of the product: sums over k of rows of B, or products with its rows. */
static void fused_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct fused *f = op->state;
    const struct isa *isa = kernel_isa(op);
    float alpha = node_attr_float(op->node, "alpha", 1);
    float *line = (float *)op->scratch + thread * f->k;

    for (int64_t r = begin; r < end; r++) {
        int64_t item = r / f->m, i = r % f->m;
        const float *a =
                        (const float *)kernel_in(op, 0)->data + matrix_of(f, 0, item) * f->m * f->k,
                    *b =
                        (const float *)kernel_in(op, 1)->data + matrix_of(f, 1, item) * f->k * f->n;
        float *c = (float *)kernel_out(op, 0)->data + r * f->n;

        for (int64_t k = 0; k < f->k; k++)
            line[k] = (f->turned[0] ? a[k * f->m + i] : a[i * f->k + k]) * alpha;
        if (f->turned[1]) {
            for (int64_t j = 0; j < f->n; j++)
                c[j] = isa->dot(line, b + j * f->k, f->k);
            continue;
        }
        memset(c, 0, (size_t)f->n * sizeof(*c));
        for (int64_t k = 0; k < f->k; k++)
            for (int64_t j = 0; j < f->n; j++)
                c[j] += line[k] * b[k * f->n + j];
    }
}

int fusedmatmul_run(struct op *op, opm_error *err)
{
    const struct fused *f = op->state;

    (void)err;
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), f->nbatch * f->m, MAX(32768 / (f->n * f->k + 1), (int64_t)1),
                 fused_part, op);
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
