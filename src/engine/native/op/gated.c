/* gated.c -- what layers of linear attention have around it: com.microsoft's GatedAdd, GatedRMSNorm
 * and LinearAttentionGate. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define NUMBER_NS 0.3 /* a number in a row that stays in the cache, about */

static int want_f32(const struct op *op, uint32_t n, opm_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < n && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    return rc;
}

static int64_t last_dim(const struct nt *t)
{
    return t->shape.rank ? t->shape.dim[t->shape.rank - 1] : 0;
}

static void run_rows(struct op *op, int64_t width,
                     void (*part)(void *arg, int64_t begin, int64_t end, int thread))
{
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), kernel_out(op, 0)->count / width,
                 pool_grain((double)width * NUMBER_NS), part, op);
}

/* X + Y * gate, which has one number for each row. */
int gatedadd_prepare(struct op *op, opm_error *err)
{
    int rc = want_f32(op, 3, err);
    struct shape s;

    if (rc)
        return rc;
    s = kernel_in(op, 0)->shape;
    if (!s.rank || !shape_equal(&s, &kernel_in(op, 1)->shape))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    s.dim[s.rank - 1] = 1;
    if (!shape_equal(&s, &kernel_in(op, 2)->shape))
        return kernel_fail(op, OPM_EINVAL, err, "the gate does not fit");
    return kernel_infer(op, err);
}

static void gatedadd_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const float *gate = kernel_in(op, 2)->data;
    int64_t n = last_dim(kernel_in(op, 0));

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *row[2] = { (const float *)kernel_in(op, 0)->data + r * n,
                                (const float *)kernel_in(op, 1)->data + r * n };
        const float weight[2] = { 1, gate[r] };

        kernel_isa(op)->loops->mix((float *)kernel_out(op, 0)->data + r * n, row, weight, 2, n);
    }
}

int gatedadd_run(struct op *op, opm_error *err)
{
    (void)err;
    run_rows(op, last_dim(kernel_in(op, 0)), gatedadd_part);
    return 0;
}

/* X through an RMS normalization of as many neighbours as there are scales, times a function of the
 * gate. */
int gatednorm_prepare(struct op *op, opm_error *err)
{
    const char *act = node_attr_str(op->node, "activation", "silu");
    int rc = want_f32(op, 3, err);
    const struct nt *x;
    int64_t n;

    if (rc)
        return rc;
    x = kernel_in(op, 0);
    n = kernel_in(op, 1)->count;
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0 && strcmp(act, "sigmoid") != 0)
        return kernel_fail(op, OPM_EINVAL, err, "there is no activation '%.40s'", act);
    if (n < 1 || !x->shape.rank || last_dim(x) % n ||
        !shape_equal(&x->shape, &kernel_in(op, 2)->shape))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return kernel_infer(op, err);
}

static void gatednorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    int64_t n = kernel_in(op, 1)->count;
    float eps = node_attr_float(op->node, "epsilon", 1e-5f);
    enum isa_unary f =
        strcmp(node_attr_str(op->node, "activation", "silu"), "sigmoid") == 0 ? U_SIGMOID : U_SILU;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        const float *x = (const float *)kernel_in(op, 0)->data + r * n;
        float *out = (float *)kernel_out(op, 0)->data + r * n;
        float scale = 1 / sqrtf(isa->dot(x, x, n) / (float)n + eps);

        isa->unary(f, out, (const float *)kernel_in(op, 2)->data + r * n, n, 1, 0);
        isa->binary(B_MUL, out, out, 1, x, 1, n);
        isa->binary(B_MUL, out, out, 1, kernel_in(op, 1)->data, 1, n);
        isa->unary(U_AFFINE, out, out, n, scale, 0);
    }
}

int gatednorm_run(struct op *op, opm_error *err)
{
    (void)err;
    run_rows(op, kernel_in(op, 1)->count, gatednorm_part);
    return 0;
}

/* How fast a state fades, scale * softplus(a + bias), and how much it learns, sigmoid(b). */
enum { GATE_A, GATE_BIAS, GATE_SCALE, GATE_B };

int attentiongate_prepare(struct op *op, opm_error *err)
{
    int rc = want_f32(op, kernel_in(op, GATE_B) ? 4 : 3, err);
    const struct nt *a, *b = kernel_in(op, GATE_B);

    if (rc)
        return rc;
    a = kernel_in(op, GATE_A);
    if (!a->shape.rank || kernel_in(op, GATE_BIAS)->count != last_dim(a) ||
        kernel_in(op, GATE_SCALE)->count != last_dim(a) ||
        (b && !shape_equal(&a->shape, &b->shape)) || (!b && kernel_out(op, 1)))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return kernel_infer(op, err);
}

static void attentiongate_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct isa *isa = kernel_isa(op);
    int64_t n = last_dim(kernel_in(op, GATE_A)), count = (end - begin) * n;
    float *out = (float *)kernel_out(op, 0)->data + begin * n;

    (void)thread;
    for (int64_t r = 0; r < end - begin; r++)
        isa->binary(B_ADD, out + r * n,
                    (const float *)kernel_in(op, GATE_A)->data + (begin + r) * n, 1,
                    kernel_in(op, GATE_BIAS)->data, 1, n);
    isa->unary(U_SOFTPLUS, out, out, count, 0, 0);
    for (int64_t r = 0; r < end - begin; r++)
        isa->binary(B_MUL, out + r * n, out + r * n, 1, kernel_in(op, GATE_SCALE)->data, 1, n);
    if (kernel_out(op, 1))
        isa->unary(U_SIGMOID, (float *)kernel_out(op, 1)->data + begin * n,
                   (const float *)kernel_in(op, GATE_B)->data + begin * n, count, 0, 0);
}

int attentiongate_run(struct op *op, opm_error *err)
{
    (void)err;
    run_rows(op, MAX(last_dim(kernel_in(op, GATE_A)), (int64_t)1), attentiongate_part);
    return 0;
}
