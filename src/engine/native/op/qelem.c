/* qelem.c -- 8-bit operators that work element by element: com.microsoft's QLinearAdd, QLinearMul,
 * QLinearSigmoid, QLinearLeakyRelu, QLinearConcat, QLinearWhere and QLinearSoftmax. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define GRAIN 16384

/* A value, its scale and its zero point, one number each. */
static int want_triple(const struct op *op, uint32_t value, uint32_t scale, uint32_t zero,
                       opm_error *err)
{
    const struct nt *z = kernel_in(op, zero);
    int rc = kernel_want(op, value, TYPES_Q8, err);

    if (!rc)
        rc = kernel_want(op, scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && z)
        rc = kernel_want(op, zero, TYPE_BIT(kernel_in(op, value)->type), err);
    if (!rc && (kernel_in(op, scale)->count != 1 || (z && z->count != 1)))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "scale must be one number");
    return rc;
}

/* What an operator's result is quantized by. */
static int want_output(const struct op *op, uint32_t scale, uint32_t zero, opm_error *err)
{
    const struct nt *z = kernel_in(op, zero);
    int rc = kernel_want(op, scale, TYPE_BIT(TENSOR_F32), err);

    if (!rc && z)
        rc = kernel_want(op, zero, TYPES_Q8, err);
    if (!rc && (kernel_in(op, scale)->count != 1 || (z && z->count != 1)))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "output scale must be one number");
    return rc;
}

static float real(const struct op *op, uint32_t slot)
{
    return *(const float *)kernel_in(op, slot)->data;
}

/* A, its scale and zero point, B and its, the scale and zero point of the result. */
int qbinary_prepare(struct op *op, opm_error *err)
{
    int rc = want_triple(op, 0, 1, 2, err);

    if (!rc)
        rc = want_triple(op, 3, 4, 5, err);
    if (!rc)
        rc = want_output(op, 6, 7, err);
    return rc ? rc : kernel_infer(op, err);
}

struct binary_job {
    struct broadcast b;
    const struct q8_isa *isa;
    struct q8_pair pair;
    const uint8_t *in[2];
    uint8_t *out;
};

static void run_pairs(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct binary_job *j = arg;
    struct q8_pair p = j->pair;

    p.a_step = (int)stride[0];
    p.b_step = (int)stride[1];
    if (stride[0] <= 1 && stride[1] <= 1) {
        j->isa->pair(j->out + at, j->in[0] + off[0], j->in[1] + off[1], n, &p);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        j->isa->pair(j->out + at + i, j->in[0] + off[0] + i * stride[0],
                     j->in[1] + off[1] + i * stride[1], 1, &p);
}

static void binary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct binary_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, run_pairs, arg);
}

int qbinary_run(struct op *op, opm_error *err)
{
    const struct nt *in[2] = { kernel_in(op, 0), kernel_in(op, 3) };
    struct nt *out = kernel_out(op, 0);
    float a = real(op, 1), b = real(op, 4), y = real(op, 6);
    struct binary_job j = { .isa = kernel_q8(op), .out = out->data };
    int32_t zero;

    (void)err;
    j.in[0] = in[0]->data;
    j.in[1] = in[1]->data;
    j.pair = (struct q8_pair){ .a_signed = in[0]->type == TENSOR_I8,
                               .b_signed = in[1]->type == TENSOR_I8,
                               .product = op->kernel->arg == QELEM_MUL,
                               .a_zero = q8_zero(kernel_in(op, 2), 0),
                               .b_zero = q8_zero(kernel_in(op, 5), 0) };
    q8_limits(op, y, kernel_in(op, 7), &j.pair.lo, &j.pair.hi, &zero);
    q8_pair_scales(&j.pair, a, b, y, zero);
    broadcast_init(&j.b, &out->shape, in, 2);
    pool_for(kernel_pool(op), j.b.total, GRAIN, binary_part, &j);
    return 0;
}

static void bytes_to_floats(const struct op *op, uint32_t value, uint32_t scale, uint32_t zero,
                            float *out)
{
    uint8_t all[256];

    for (int i = 0; i < 256; i++)
        all[i] = (uint8_t)i;
    kernel_q8(op)->dequantize(out, all, kernel_in(op, value)->type == TENSOR_I8, 256,
                              real(op, scale), q8_zero(kernel_in(op, zero), 0));
}

void q8_table_unary(const struct op *op, uint8_t *table)
{
    const struct isa *isa = kernel_isa(op);
    enum tensor_type type = kernel_out(op, 0)->type;
    float x[256];

    bytes_to_floats(op, 0, 1, 2, x);
    if (op->kernel->arg == QELEM_SIGMOID)
        isa->unary(U_SIGMOID, x, x, 256, 0, 0);
    if (op->kernel->arg == QELEM_LEAKY)
        isa->unary(U_LEAKY, x, x, 256, node_attr_float(op->node, "alpha", 0.01f), 0);
    for (int i = 0; i < op->npost; i++)
        isa->unary(op->post[i].unary, x, x, 256, op->post[i].alpha, op->post[i].beta);
    kernel_q8(op)->quantize(table, x, 256, real(op, 3), q8_zero(kernel_in(op, 4), 0), q8_lo(type),
                            q8_hi(type));
}

void q8_table_concat(const struct op *op, uint32_t i, uint8_t *table)
{
    enum tensor_type type = kernel_out(op, 0)->type;
    float x[256];

    bytes_to_floats(op, i, i + 1, i + 2, x);
    kernel_q8(op)->quantize(table, x, 256, real(op, 0), q8_zero(kernel_in(op, 1), 0), q8_lo(type),
                            q8_hi(type));
}

struct lookup_job {
    const struct q8_isa *isa;
    uint8_t table[256];
    const uint8_t *in;
    uint8_t *out;
};

static void lookup_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct lookup_job *j = arg;

    (void)thread;
    j->isa->lookup(j->out + begin, j->in + begin, end - begin, j->table);
}

/* X, its scale and zero point, the scale and zero point of the result. */
int qunary_prepare(struct op *op, opm_error *err)
{
    int rc = want_triple(op, 0, 1, 2, err);

    if (!rc)
        rc = want_output(op, 3, 4, err);
    if (rc)
        return rc;
    return op->kernel->op_type ? kernel_infer(op, err)
                               : kernel_infer_by(op, infer_qlinear_unary, err);
}

int qunary_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    struct lookup_job j = { .isa = kernel_q8(op), .in = kernel_in(op, 0)->data, .out = out->data };

    (void)err;
    q8_table_unary(op, j.table);
    pool_for(kernel_pool(op), out->count, GRAIN, lookup_part, &j);
    return 0;
}

/* Scale and zero point of the result, then for each input itself, its scale and zero point. */
int qconcat_prepare(struct op *op, opm_error *err)
{
    int rc = want_output(op, 0, 1, err);

    if (!rc && (op->nin < 5 || (op->nin - 2) % 3))
        rc = kernel_fail(op, OPM_EINVAL, err, "%u inputs", op->nin);
    for (uint32_t i = 2; i < op->nin && !rc; i += 3)
        rc = want_triple(op, i, i + 1, i + 2, err);
    return rc ? rc : kernel_infer(op, err);
}

int qconcat_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", 1), out->shape.rank);
    int64_t outer = nt_span(&out->shape, 0, axis),
            row = nt_span(&out->shape, axis, out->shape.rank), at = 0;

    (void)err;
    for (uint32_t i = 2; i < op->nin; i += 3) {
        const struct nt *in = kernel_in(op, i);
        int64_t part = nt_span(&in->shape, axis, in->shape.rank);
        uint8_t table[256];

        q8_table_concat(op, i, table);
        for (int64_t o = 0; o < outer; o++)
            kernel_q8(op)->lookup((uint8_t *)out->data + o * row + at,
                                  (const uint8_t *)in->data + o * part, part, table);
        at += part;
    }
    return 0;
}

/* Condition; X, its scale and zero point; Y and its; the scale and zero point of the result. */
int qwhere_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_BOOL), err);

    if (!rc)
        rc = want_triple(op, 1, 2, 3, err);
    if (!rc)
        rc = want_triple(op, 4, 5, 6, err);
    if (!rc)
        rc = want_output(op, 7, 8, err);
    return rc ? rc : kernel_infer(op, err);
}

#define WHERE_PIECE 1024

struct where_job {
    struct broadcast b;
    const struct isa *isa;
    const uint8_t *in[3];
    uint8_t *out;
    uint8_t table[2][256]; /* what bytes of X and Y become */
};

static void run_where(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct where_job *j = arg;
    uint8_t become[2][WHERE_PIECE];

    for (int64_t i = 0; i < n; i += WHERE_PIECE) {
        int64_t m = MIN(n - i, (int64_t)WHERE_PIECE);

        for (int k = 0; k < 2; k++)
            j->isa->q8->lookup(become[k], j->in[k + 1] + off[k + 1] + i * stride[k + 1],
                               stride[k + 1] ? m : 1, j->table[k]);
        j->isa->rows->where[0](j->out + at + i, j->in[0] + off[0] + i * stride[0], stride[0],
                               become[0], stride[1], become[1], stride[2], m);
    }
}

static void where_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct where_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, run_where, arg);
}

int qwhere_run(struct op *op, opm_error *err)
{
    const struct nt *in[3] = { kernel_in(op, 0), kernel_in(op, 1), kernel_in(op, 4) };
    struct nt *out = kernel_out(op, 0);
    struct where_job j = { .out = out->data, .isa = kernel_isa(op) };
    float x[256];

    (void)err;
    for (int i = 0; i < 3; i++)
        j.in[i] = in[i]->data;
    for (uint32_t i = 0; i < 2; i++) {
        bytes_to_floats(op, 1 + 3 * i, 2 + 3 * i, 3 + 3 * i, x);
        kernel_q8(op)->quantize(j.table[i], x, 256, real(op, 7), q8_zero(kernel_in(op, 8), 0),
                                q8_lo(out->type), q8_hi(out->type));
    }
    broadcast_init(&j.b, &out->shape, in, 3);
    pool_for(kernel_pool(op), j.b.total, GRAIN, where_part, &j);
    return 0;
}

static int softmax_axis(const struct op *op)
{
    return nt_axis(node_attr_int(op->node, "axis", -1), MAX(kernel_in(op, 0)->shape.rank, 1));
}

int qsoftmax_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    int axis, rc = qunary_prepare(op, err);

    if (rc)
        return rc;
    axis = softmax_axis(op);
    if (axis < 0 || (node_attr_int(op->node, "opset", 13) >= 13 && axis + 1 < x->shape.rank))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for another axis than the last");
    op->scratch_bytes =
        sizeof(float) *
        (size_t)MAX(nt_span(&x->shape, MIN(axis, x->shape.rank), x->shape.rank), (int64_t)1) *
        (size_t)pool_threads(kernel_pool(op));
    return 0;
}

struct softmax_job {
    const struct op *op;
    int64_t n;
};

static void softmax_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct softmax_job *j = arg;
    const struct op *op = j->op;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    float *row = (float *)op->scratch + thread * j->n;

    for (int64_t i = begin; i < end; i++) {
        kernel_q8(op)->dequantize(row, (const uint8_t *)in->data + i * j->n, in->type == TENSOR_I8,
                                  j->n, real(op, 1), q8_zero(kernel_in(op, 2), 0));
        kernel_isa(op)->softmax(row, row, j->n);
        kernel_q8(op)->quantize((uint8_t *)out->data + i * j->n, row, j->n, real(op, 3),
                                q8_zero(kernel_in(op, 4), 0), q8_lo(out->type), q8_hi(out->type));
    }
}

int qsoftmax_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct softmax_job j = { op, nt_span(&x->shape, MIN(softmax_axis(op), x->shape.rank),
                                         x->shape.rank) };

    (void)err;
    if (x->count)
        pool_for(kernel_pool(op), x->count / j.n, MAX(4096 / j.n, (int64_t)1), softmax_part, &j);
    return 0;
}
