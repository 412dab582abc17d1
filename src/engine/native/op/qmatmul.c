/* qmatmul.c -- products of 8-bit matrices as operators: MatMulInteger, QLinearMatMul, and
 * com.microsoft's QGemm, MatMulIntegerToFloat and DynamicQuantizeMatMul. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <math.h>
#include <string.h>

#define NONE 31 /* no such input */

/* Where each operator has what. */
static const struct slots {
    uint32_t a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias;
} slots[] = {
    [QMM_INTEGER] = { 0, NONE, 2, 1, NONE, 3, NONE, NONE, NONE },
    [QMM_LINEAR] = { 0, 1, 2, 3, 4, 5, 6, 7, NONE },
    [QMM_GEMM] = { 0, 1, 2, 3, 4, 5, 7, 8, 6 },
    [QMM_TO_FLOAT] = { 0, 2, 4, 1, 3, 5, NONE, NONE, 6 },
    [QMM_DYNAMIC] = { 0, NONE, NONE, 1, 2, 3, NONE, NONE, 4 },
    [QMM_SCALED] = { 0, 4, 2, 1, NONE, 3, NONE, NONE, NONE },
};

struct qmm {
    const struct slots *at;
    enum q8_kind kind;
    int64_t m, n, k, nbatch;
    struct shape batch;
    int64_t a_batch[SHAPE_RANK_MAX], b_batch[SHAPE_RANK_MAX]; /* strides in matrices; 0: shared */
    int64_t a_rs, a_cs, b_rs, b_cs;
    bool packed;     /* b holds the constant operand */
    bool a_as_it_is; /* needs no copy */
    struct q8_b b;
    void *b_memory;
    int64_t b_bytes;
    size_t at_a, at_b, at_add, at_sum, at_zero, at_scale, at_shift; /* in scratch */
};

static void qmm_release(void *state)
{
    native_free(((struct qmm *)state)->b_memory);
}

static bool one_or(const struct nt *t, int64_t n)
{
    return !t || t->count == 1 || t->count == n;
}

static int check_types(const struct op *op, const struct slots *at, opm_error *err)
{
    const struct nt *az = kernel_in(op, at->a_zero), *bz = kernel_in(op, at->b_zero);
    int rc = kernel_want(op, at->a,
                         op->kernel->arg == QMM_DYNAMIC ? TYPE_BIT(TENSOR_F32) : TYPES_Q8, err);

    if (!rc)
        rc = kernel_want(op, at->b, TYPES_Q8, err);
    if (!rc && az)
        rc = kernel_want(op, at->a_zero, TYPE_BIT(kernel_in(op, at->a)->type), err);
    if (!rc && bz)
        rc = kernel_want(op, at->b_zero, TYPE_BIT(kernel_in(op, at->b)->type), err);
    if (!rc && at->a_scale != NONE)
        rc = kernel_want(op, at->a_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && at->b_scale != NONE)
        rc = kernel_want(op, at->b_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kernel_in(op, at->y_scale))
        rc = kernel_want(op, at->y_scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kernel_in(op, at->y_zero))
        rc = kernel_want(op, at->y_zero, TYPES_Q8, err);
    /* Where fused, QGemm's bias may be of floats, which what is scaled is shifted by. */
    if (!rc && kernel_in(op, at->bias))
        rc = kernel_want(op, at->bias,
                         op->kernel->arg != QMM_GEMM ? TYPE_BIT(TENSOR_F32)
                         : op->type                  ? TYPE_BIT(TENSOR_I32) | TYPE_BIT(TENSOR_F32)
                                                     : TYPE_BIT(TENSOR_I32),
                         err);
    return rc;
}

/* What the numbers of scales and zero points may be. */
static int check_counts(const struct op *op, const struct qmm *s, opm_error *err)
{
    const struct slots *at = s->at;
    const struct nt *az = kernel_in(op, at->a_zero), *ys = kernel_in(op, at->y_scale),
                    *yz = kernel_in(op, at->y_zero), *bias = kernel_in(op, at->bias),
                    *as = kernel_in(op, at->a_scale);

    if (az && az->count != 1 && (az->count != s->m || s->nbatch != 1))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "a zero point of A for each row of a batch");
    if (!one_or(kernel_in(op, at->b_zero), s->n) || !one_or(kernel_in(op, at->b_scale), s->n) ||
        (as && as->count != 1 && !(op->kernel->arg == QMM_SCALED && as->count == s->n)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "scale or zero point does not fit");
    if ((ys && ys->count != 1) || (yz && yz->count != 1))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "output scale must be one number");
    if (bias && bias->count != s->n)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "bias must have %lld numbers",
                           (long long)s->n);
    return 0;
}

static int shape_gemm(struct op *op, struct qmm *s, struct shape *out, opm_error *err)
{
    const struct shape *a = &kernel_in(op, s->at->a)->shape, *b = &kernel_in(op, s->at->b)->shape;
    bool ta = node_attr_int(op->node, "transA", 0), tb = node_attr_int(op->node, "transB", 0);

    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = gemm_shape(&v.base, a, b, out);
    view_end(&v);
    if (rc)
        return rc;
    s->m = a->dim[ta];
    s->k = a->dim[!ta];
    s->n = b->dim[!tb];
    s->a_rs = ta ? 1 : s->k;
    s->a_cs = ta ? s->m : 1;
    s->b_rs = tb ? 1 : s->n;
    s->b_cs = tb ? s->k : 1;
    s->batch.rank = 0;
    return 0;
}

static void batch_strides(const struct qmm *s, const struct shape *q, int64_t *stride)
{
    int64_t step = 1;

    memset(stride, 0, SHAPE_RANK_MAX * sizeof(*stride));
    for (int32_t d = q->rank - 1; d >= 0; d--) {
        stride[s->batch.rank - q->rank + d] = q->dim[d] == 1 ? 0 : step;
        step *= q->dim[d];
    }
}

static int shape_matmul(struct op *op, struct qmm *s, struct shape *out, opm_error *err)
{
    struct shape a = kernel_in(op, s->at->a)->shape, b = kernel_in(op, s->at->b)->shape;
    bool row = a.rank == 1, col = b.rank == 1;

    struct view v;
    int rc;

    view_begin(&v, op, err);
    rc = matmul_shape(&v.base, &a, &b, out);
    view_end(&v);
    if (rc)
        return rc;
    s->batch = *out;
    s->batch.rank -= !row + !col;
    if (row)
        a = (struct shape){ .rank = 2, .dim = { 1, a.dim[0] } };
    if (col)
        b = (struct shape){ .rank = 2, .dim = { b.dim[0], 1 } };
    s->m = a.dim[a.rank - 2];
    s->k = a.dim[a.rank - 1];
    s->n = b.dim[b.rank - 1];
    a.rank -= 2;
    b.rank -= 2;
    if (shape_count(&b) == 1 && shape_count(&a) == shape_count(&s->batch) &&
        !(kernel_in(op, s->at->a_zero) && kernel_in(op, s->at->a_zero)->count > 1)) {
        s->m *= MAX(shape_count(&s->batch), (int64_t)0); /* one tall matrix */
        s->batch.rank = a.rank = b.rank = 0;
    }
    s->a_rs = s->k;
    s->b_rs = s->n;
    s->a_cs = s->b_cs = 1;
    batch_strides(s, &a, s->a_batch);
    batch_strides(s, &b, s->b_batch);
    return 0;
}

static int pack_const(struct op *op, struct qmm *s, opm_error *err)
{
    const struct nt *b = kernel_in(op, s->at->b);

    s->b_bytes = q8_b_bytes(kernel_q8(op), s->k, s->n);
    if (s->b_bytes < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    if (s->packed || !kernel_fixed(op, s->at->b) || b->count != s->k * s->n)
        return 0;
    if (!kernel_data(op, s->at->b))
        return kernel_nomem(op, err);
    s->b_memory = native_alloc_weights((size_t)s->b_bytes);
    if (!s->b_memory)
        return kernel_nomem(op, err);
    q8_b_place(&s->b, kernel_q8(op), s->k, s->n, s->b_memory);
    q8_b_pack(&s->b, kernel_q8(op), b->data, s->b_rs, s->b_cs, b->type == TENSOR_U8 ? 0x80 : 0,
              kernel_pool(op));
    s->packed = true;
    return 0;
}

static bool reserve(size_t *total, size_t *at, int64_t n, int64_t width)
{
    int64_t bytes;

    *at = *total;
    if (__builtin_mul_overflow(n, width, &bytes) || bytes > PTRDIFF_MAX / 8 ||
        *total > (size_t)PTRDIFF_MAX / 8)
        return false;
    *total += ((size_t)bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
    return true;
}

static int plan_scratch(struct op *op, struct qmm *s, opm_error *err)
{
    const struct nt *a = kernel_in(op, s->at->a);
    size_t total = 0;

    s->a_as_it_is = a->type == TENSOR_U8 && s->k % 4 == 0 && s->a_cs == 1;
    if (!reserve(&total, &s->at_a, s->a_as_it_is ? 0 : s->m + 1, q8_groups(s->k) * 4) ||
        !reserve(&total, &s->at_b, s->packed ? 0 : 1, s->b_bytes) ||
        !reserve(&total, &s->at_add, s->n, 4) || !reserve(&total, &s->at_sum, s->m, 4) ||
        !reserve(&total, &s->at_zero, s->n, 4) || !reserve(&total, &s->at_scale, s->n + 1, 4) ||
        !reserve(&total, &s->at_shift, s->n, 4))
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    op->scratch_bytes = total;
    return 0;
}

int qmatmul_prepare(struct op *op, opm_error *err)
{
    struct qmm *s = kernel_new_state(op, sizeof(*s));
    enum tensor_type type;
    struct shape out;
    int rc;

    if (!s)
        return kernel_nomem(op, err);
    op->release = qmm_release;
    s->at = &slots[op->kernel->arg];
    rc = check_types(op, s->at, err);
    if (!rc)
        rc = (op->kernel->arg == QMM_GEMM ? shape_gemm : shape_matmul)(op, s, &out, err);
    if (rc)
        return rc;
    s->nbatch = shape_count(&s->batch);
    rc = check_counts(op, s, err);
    s->kind = op->kernel->arg == QMM_INTEGER                                   ? Q8_INT32
              : op->kernel->arg == QMM_LINEAR || kernel_in(op, s->at->y_scale) ? Q8_BYTES
                                                                               : Q8_FLOAT;
    type = s->kind == Q8_INT32            ? TENSOR_I32
           : s->kind == Q8_FLOAT          ? TENSOR_F32
           : kernel_in(op, s->at->y_zero) ? kernel_in(op, s->at->y_zero)->type
                                          : TENSOR_U8;
    if (!rc && s->kind == Q8_BYTES && !kernel_in(op, s->at->y_scale))
        rc = kernel_fail(op, OPM_EINVAL, err, "no output scale");
    if (!rc)
        rc = kernel_set(op, 0, type, &out, err);
    if (!rc)
        rc = posts_check(op, s->n, err);
    if (!rc)
        rc = pack_const(op, s, err);
    return rc ? rc : plan_scratch(op, s, err);
}

static int64_t batch_matrix(const struct qmm *s, const int64_t *stride, int64_t i)
{
    int64_t at = 0;

    for (int32_t d = s->batch.rank - 1; d >= 0; d--) {
        at += i % s->batch.dim[d] * stride[d];
        i /= s->batch.dim[d];
    }
    return at;
}

/* Zero points of B as signed bytes; NULL if all of them are zero. */
static int32_t *b_zeros(const struct op *op, const struct qmm *s)
{
    const struct nt *b = kernel_in(op, s->at->b), *z = kernel_in(op, s->at->b_zero);
    int32_t *out = (int32_t *)((char *)op->scratch + s->at_zero), any = 0;

    for (int64_t n = 0; n < s->n; n++) {
        out[n] = q8_zero(z, n) - (b->type == TENSOR_U8 ? 128 : 0);
        any |= out[n];
    }
    return any ? out : NULL;
}

static float scalar(const struct op *op, uint32_t slot, float missing)
{
    const struct nt *t = kernel_in(op, slot);

    return t ? *(const float *)t->data : missing;
}

/* What sums are multiplied by; how many there are (n or 1). */
static int set_scales(const struct op *op, const struct qmm *s, float a_scale, float *out)
{
    const struct nt *b = kernel_in(op, s->at->b_scale), *a = kernel_in(op, s->at->a_scale);
    float y = scalar(op, s->at->y_scale, 1);
    bool many = (b && b->count > 1) || (a && a->count > 1);

    if (op->kernel->arg == QMM_GEMM)
        a_scale *= node_attr_float(op->node, "alpha", 1);
    for (int64_t n = 0; n < (many ? s->n : 1); n++) {
        float f = a && a->count > 1 ? ((const float *)a->data)[n] : a_scale;

        if (b)
            f *= ((const float *)b->data)[b->count > 1 ? n : 0];
        out[n] = s->kind == Q8_BYTES ? f / y : f;
    }
    return many;
}

/* A bias of floats in units of the result. */
static const float *set_shift(const struct op *op, const struct qmm *s, const struct nt *bias)
{
    float y = s->kind == Q8_BYTES ? scalar(op, s->at->y_scale, 1) : 1,
          *out = (float *)((char *)op->scratch + s->at_shift);

    for (int64_t n = 0; n < s->n; n++)
        out[n] = ((const float *)bias->data)[n] / y;
    return out;
}

/* One multiplication for each row of A: those with zero points of their own are rare. */
static void by_rows(struct q8_product p, const struct nt *zero, int32_t flip)
{
    int64_t rows = p.m;
    size_t width = p.kind == Q8_BYTES ? 1 : 4;

    p.m = 1;
    for (int64_t i = 0; i < rows; i++) {
        p.a_zero = q8_zero(zero, i) + flip;
        q8_multiply(&p);
        p.a += p.lda;
        p.out = (char *)p.out + (size_t)p.b->n * width;
        p.base += p.b->n;
    }
}

/* The left operand: bytes, or floats that become such. */
struct left {
    float scale;
    int32_t zero; /* as unsigned */
    uint8_t flip;
};

static void copy_left(const struct op *op, const struct qmm *s, const struct left *left,
                      int64_t matrix, uint8_t *copy)
{
    const struct nt *a = kernel_in(op, s->at->a);
    const uint8_t *bytes = (const uint8_t *)a->data + matrix * s->m * s->k;
    int64_t width = q8_groups(s->k) * 4;

    if (a->type == TENSOR_F32) {
        const float *from = (const float *)a->data + matrix * s->m * s->k;

        if (width == s->k) {
            q8_quantize(op, copy, from, s->m * s->k, left->scale, left->zero, TENSOR_U8);
            return;
        }
        for (int64_t i = 0; i < s->m; i++) {
            q8_quantize(op, copy + i * width, from + i * s->k, s->k, left->scale, left->zero,
                        TENSOR_U8);
            memset(copy + i * width + s->k, 0, (size_t)(width - s->k));
        }
    } else if (s->a_cs == 1)
        q8_a_copy(copy, bytes, s->m, s->k, s->k, left->flip);
    else /* given turned */
        for (int64_t i = 0; i < s->m; i++)
            for (int64_t k = 0; k < width; k++)
                copy[i * width + k] = k < s->k ? bytes[i * s->a_rs + k * s->a_cs] ^ left->flip : 0;
}

static void multiply_one(struct op *op, const struct qmm *s, struct q8_product *p,
                         const struct left *left, int64_t item)
{
    const struct nt *az = kernel_in(op, s->at->a_zero), *b = kernel_in(op, s->at->b);
    struct q8_b packed = s->b;
    uint8_t *copy = (uint8_t *)op->scratch + s->at_a;

    if (!s->packed) {
        q8_b_place(&packed, p->isa, s->k, s->n, (char *)op->scratch + s->at_b);
        q8_b_pack(&packed, p->isa,
                  (const uint8_t *)b->data + batch_matrix(s, s->b_batch, item) * s->k * s->n,
                  s->b_rs, s->b_cs, b->type == TENSOR_U8 ? 0x80 : 0, p->pool);
    }
    p->b = &packed;
    if (s->a_as_it_is) {
        p->a = (const uint8_t *)kernel_in(op, s->at->a)->data +
               batch_matrix(s, s->a_batch, item) * s->m * s->k;
        p->lda = s->k;
    } else {
        copy_left(op, s, left, batch_matrix(s, s->a_batch, item), copy);
        p->a = copy;
        p->lda = q8_groups(s->k) * 4;
    }
    if (az && az->count > 1)
        by_rows(*p, az, left->flip);
    else
        q8_multiply(p);
}

int qmatmul_run(struct op *op, opm_error *err)
{
    const struct qmm *s = op->state;
    const struct nt *a = kernel_in(op, s->at->a), *bias = kernel_in(op, s->at->bias),
                    *yz = kernel_in(op, s->at->y_zero);
    struct nt *out = kernel_out(op, 0);
    float *scale = (float *)((char *)op->scratch + s->at_scale);
    struct left left = { .scale = scalar(op, s->at->a_scale, 1),
                         .flip = a->type == TENSOR_I8 ? 0x80 : 0 };
    struct posts posts;
    struct q8_product p = { .isa = kernel_q8(op),
                            .pool = kernel_pool(op),
                            .m = s->m,
                            .b_zero = b_zeros(op, s),
                            .add = (int32_t *)((char *)op->scratch + s->at_add),
                            .row_sum = (int32_t *)((char *)op->scratch + s->at_sum),
                            .bias = op->kernel->arg == QMM_GEMM && bias && bias->type == TENSOR_I32
                                        ? bias->data
                                        : NULL,
                            .kind = s->kind };

    (void)err;
    left.zero = q8_zero(kernel_in(op, s->at->a_zero), 0) + left.flip;
    if (a->type == TENSOR_F32)
        q8_dynamic(op, a->data, a->count, &left.scale, &left.zero);
    p.a_zero = left.zero;
    posts_begin(&posts, op, false);
    p.posts = op->npost && s->kind == Q8_FLOAT ? &posts : NULL;
    if (s->kind == Q8_BYTES)
        q8_limits(op, scalar(op, s->at->y_scale, 1), yz, &p.out_as.lo, &p.out_as.hi,
                  &p.out_as.zero);
    p.out_as.scale = scale;
    p.out_as.scale_step = set_scales(op, s, left.scale, scale);
    if (op->kernel->arg == QMM_GEMM && bias && bias->type == TENSOR_F32)
        p.out_as.shift = set_shift(op, s, bias);
    for (int64_t i = 0; i < s->nbatch && out->count; i++) {
        p.base = i * s->m * s->n;
        p.out = (char *)out->data + (size_t)p.base * nt_width(out->type);
        multiply_one(op, s, &p, &left, i);
    }
    if ((op->kernel->arg == QMM_TO_FLOAT || op->kernel->arg == QMM_DYNAMIC) && bias)
        for (int64_t r = 0; r < out->count / MAX(s->n, (int64_t)1); r++)
            kernel_isa(op)->binary(B_ADD, (float *)out->data + r * s->n,
                                   (float *)out->data + r * s->n, 1, bias->data, 1, s->n);
    return 0;
}
