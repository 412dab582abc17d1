/* bnb4.c -- com.microsoft's MatMulBnb4: weights of 4 bits as bitsandbytes has them, indices into a
 * table of 16 numbers, times the largest of their block. */
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

/* Quantiles of the normal distribution, and floats of one sign, three exponent bits at most and one
 * of mantissa; both are scaled to 1. */
static const float normal[16] = { -1.0f,
                                  -0.6961928009986877f,
                                  -0.5250730514526367f,
                                  -0.39491748809814453f,
                                  -0.28444138169288635f,
                                  -0.18477343022823334f,
                                  -0.09105003625154495f,
                                  0.0f,
                                  0.07958029955625534f,
                                  0.16093020141124725f,
                                  0.24611230194568634f,
                                  0.33791524171829224f,
                                  0.44070982933044434f,
                                  0.5626170039176941f,
                                  0.7229568362236023f,
                                  1.0f };
static const float four_bits[16] = {
    0.0f,  5.208333333e-03f,  0.66666667f,  1.0f,  0.33333333f,  0.5f,  0.16666667f,  0.25f,
    -0.0f, -5.208333333e-03f, -0.66666667f, -1.0f, -0.33333333f, -0.5f, -0.16666667f, -0.25f
};

struct bnb4 {
    int64_t m, n, k, block;
    float *packed; /* the weights, ready for the product */
    bool done;     /* they are constants, and there */
};

static void bnb4_release(void *state)
{
    native_free(((struct bnb4 *)state)->packed);
}

int bnb4_prepare(struct op *op, opm_error *err)
{
    struct bnb4 *s = kernel_new_state(op, sizeof(*s));
    const struct nt *a = kernel_in(op, 0), *b, *most;
    int64_t cells, type = node_attr_int(op->node, "quant_type", -1), bytes;
    int rc = s ? kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    op->release = s ? bnb4_release : NULL;
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_U8), err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    b = kernel_in(op, 1);
    most = kernel_in(op, 2);
    s->k = node_attr_int(op->node, "K", 0);
    s->n = node_attr_int(op->node, "N", 0);
    s->block = node_attr_int(op->node, "block_size", 0);
    if (type < 0 || type > 1 || node_attr_int(op->node, "transB", 1) != 1)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this kind of weights");
    if (s->k < 1 || s->n < 1 || s->block < 1 || __builtin_mul_overflow(s->k, s->n, &cells) ||
        cells > PTRDIFF_MAX / 16 || b->count != (cells + 1) / 2 ||
        most->count != (cells - 1) / s->block + 1 || a->shape.rank < 1 ||
        a->shape.dim[a->shape.rank - 1] != s->k)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit K and N");
    s->m = a->count / s->k;
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    bytes = gemm_size_b(kernel_isa(op), s->k, s->n);
    if (bytes < 0 || bytes > PTRDIFF_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    if (!s->packed)
        s->packed = native_alloc((size_t)bytes * sizeof(float));
    return s->packed ? 0 : kernel_nomem(op, err);
}

/* Panels of columns, each of which is a row of what is stored. */
static void unpack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct bnb4 *s = op->state;
    const struct isa *isa = kernel_isa(op);
    const uint8_t *code = kernel_in(op, 1)->data;
    const float *most = kernel_in(op, 2)->data,
                *table = node_attr_int(op->node, "quant_type", 0) ? normal : four_bits;

    (void)thread;
    for (int64_t p = begin; p < end; p++)
        for (int64_t c = 0; c < isa->nr; c++) {
            int64_t col = p * isa->nr + c;
            float *to = s->packed + p * isa->nr * s->k + c;

            for (int64_t k = 0; k < s->k; k++) {
                int64_t at = col * s->k + k;
                int bits = 0;

                if (col < s->n)
                    bits = at % 2 ? code[at / 2] & 15 : code[at / 2] >> 4;
                to[k * isa->nr] = col < s->n ? table[bits] * most[at / s->block] : 0;
            }
        }
}

int bnb4_run(struct op *op, opm_error *err)
{
    struct bnb4 *s = op->state;
    const struct isa *isa = kernel_isa(op);
    struct gemm g = { .isa = isa,
                      .m = s->m,
                      .n = s->n,
                      .k = s->k,
                      .a = kernel_in(op, 0)->data,
                      .ars = s->k,
                      .aks = 1,
                      .b = s->packed,
                      .c = kernel_out(op, 0)->data,
                      .ldc = s->n,
                      .alpha = 1 };

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (!s->done)
        pool_for(kernel_pool(op), gemm_panels(s->n, isa->nr), 1, unpack_part, op);
    s->done = kernel_fixed(op, 1) && kernel_fixed(op, 2);
    gemm_run_all(&g, kernel_pool(op));
    return 0;
}
