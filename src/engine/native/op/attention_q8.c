/* attention_q8.c -- Q, K and V of bytes: sums are exact, scales and bias come in afterwards. */
#include "engine/native/op/attention_q8.h"

#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

/* One number, or for weights one for each column. */
static bool fits(const struct nt *t, int operand, int64_t n)
{
    return t->count == 1 || (operand == QA_WEIGHTS && t->count == n);
}

static bool scales_fit(const struct op *op, int64_t n)
{
    for (int i = QA_INPUT; i <= QA_WEIGHTS; i++) {
        const struct nt *scale = kernel_in(op, QA_SCALE + (uint32_t)i),
                        *zero = kernel_in(op, QA_ZERO + (uint32_t)i);

        if (!scale || scale->type != TENSOR_F32 || !fits(scale, i, n))
            return false;
        if (zero && (zero->type != kernel_in(op, (uint32_t)i)->type || !fits(zero, i, n)))
            return false;
    }
    return true;
}

static void pack(const struct op *op, const struct q8_projection *p, struct q8_b *b)
{
    const struct nt *w = kernel_in(op, QA_WEIGHTS);

    q8_b_pack(b, kernel_q8(op), w->data, p->n, 1, w->type == TENSOR_U8 ? 0x80 : 0, kernel_pool(op));
}

static bool reserve(struct q8_projection *p, size_t *at, int64_t n, int64_t width)
{
    int64_t bytes;

    *at = p->bytes;
    if (__builtin_mul_overflow(n, width, &bytes) || bytes > PTRDIFF_MAX / 64 ||
        p->bytes > (size_t)PTRDIFF_MAX / 64)
        return false;
    p->bytes += ((size_t)bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
    return true;
}

int q8_projection_plan(struct op *op, struct q8_projection *p, size_t at, opm_error *err)
{
    if (!scales_fit(op, p->n))
        return kernel_fail(op, OPM_EINVAL, err, "scales and zero points do not fit");
    p->b_bytes = q8_b_bytes(kernel_q8(op), p->k, p->n);
    if (p->b_bytes < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    if (!p->memory && kernel_fixed(op, QA_WEIGHTS) && kernel_data(op, QA_WEIGHTS)) {
        p->memory = native_alloc((size_t)p->b_bytes);
        if (!p->memory)
            return kernel_nomem(op, err);
        q8_b_place(&p->b, kernel_q8(op), p->k, p->n, p->memory);
        pack(op, p, &p->b);
        op->packed_bytes = (size_t)p->b_bytes;
    }
    p->bytes = at;
    if (!reserve(p, &p->at_a, p->m + 1, q8_groups(p->k) * 4) ||
        !reserve(p, &p->at_b, p->memory ? 0 : 1, p->b_bytes) || !reserve(p, &p->at_add, p->n, 4) ||
        !reserve(p, &p->at_sum, p->m, 4) || !reserve(p, &p->at_zero, p->n, 4) ||
        !reserve(p, &p->at_scale, p->n, 4))
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    p->bytes -= at;
    return 0;
}

void q8_projection_release(struct q8_projection *p)
{
    native_free(p->memory);
    p->memory = NULL;
}

/* Zero points of the weights as signed bytes; NULL if all are zero. */
static const int32_t *zeros(const struct op *op, const struct q8_projection *p)
{
    const struct nt *z = kernel_in(op, QA_ZERO + QA_WEIGHTS);
    int32_t *out = (int32_t *)(void *)((char *)op->scratch + p->at_zero),
            shift = kernel_in(op, QA_WEIGHTS)->type == TENSOR_U8 ? 128 : 0;
    bool any = false;

    for (int64_t i = 0; i < p->n; i++) {
        out[i] = q8_zero(z, i) - shift;
        any = any || out[i];
    }
    return any ? out : NULL;
}

void q8_projection_run(struct op *op, const struct q8_projection *p, float *out)
{
    char *room = op->scratch;
    const struct nt *x = kernel_in(op, QA_INPUT), *bias = kernel_in(op, QA_BIAS),
                    *scale = kernel_in(op, QA_SCALE + QA_WEIGHTS);
    float x_scale = *(const float *)kernel_in(op, QA_SCALE)->data,
          *scales = (float *)(void *)(room + p->at_scale);
    uint8_t flip = x->type == TENSOR_I8 ? 0x80 : 0, *copy = (uint8_t *)room + p->at_a;
    struct q8_b b = p->b;
    struct q8_product g = { .isa = kernel_q8(op),
                            .pool = kernel_pool(op),
                            .m = p->m,
                            .b = &b,
                            .a = copy,
                            .lda = q8_groups(p->k) * 4,
                            .a_zero = q8_zero(kernel_in(op, QA_ZERO), 0) + flip,
                            .b_zero = zeros(op, p),
                            .add = (int32_t *)(void *)(room + p->at_add),
                            .row_sum = (int32_t *)(void *)(room + p->at_sum),
                            .kind = Q8_FLOAT,
                            .out_as = { .scale = scales, .scale_step = scale->count > 1 },
                            .out = out };

    if (!p->m)
        return;
    if (!p->memory) {
        q8_b_place(&b, kernel_q8(op), p->k, p->n, room + p->at_b);
        pack(op, p, &b);
    }
    for (int64_t i = 0; i < scale->count; i++)
        scales[i] = x_scale * ((const float *)scale->data)[i];
    q8_a_copy(copy, x->data, p->m, p->k, p->k, flip);
    q8_multiply(&g);
    for (int64_t r = 0; bias && r < p->m; r++)
        kernel_isa(op)->binary(B_ADD, out + r * p->n, out + r * p->n, 1, bias->data, 1, p->n);
}
