/* matmul.c -- MatMul, Gemm, and com.microsoft's FusedMatMul and MatMulInteger16. */
#include "engine/native/isa/half.h"
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/product.h"
#include "engine/native/math/sparse.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <string.h>

#define TYPES_MATMUL (TYPE_BIT(TENSOR_F32) | TYPES_PRODUCT)

#define PACK_NS 0.2 /* for a float that is packed, about */

struct matmul {
    int64_t m, n, k;
    int64_t ars, acs, brs, bcs; /* strides of the matrices */
    struct shape batch;         /* of the output */
    int64_t nbatch;
    int64_t a_batch[SHAPE_RANK_MAX], b_batch[SHAPE_RANK_MAX]; /* strides, 0: shared */
    bool b_shared;                                            /* one B for all */
    float alpha, beta;
    float *packed;  /* constant B, or NULL */
    uint16_t *half; /* the same in 16 bits, instead */
    enum tensor_type half_type;
    struct sparse *sparse; /* the same, if it has zero blocks, or NULL */
    bool use_sparse;
    int64_t b_floats; /* of one packed B in scratch */
};

static void matmul_release(void *state)
{
    native_free(((struct matmul *)state)->packed);
    native_free(((struct matmul *)state)->half);
    sparse_free(((struct matmul *)state)->sparse);
}

static struct matmul *matmul_state(struct op *op)
{
    struct matmul *s = kernel_new_state(op, sizeof(*s));

    op->release = s ? matmul_release : NULL;
    return s;
}

struct pack_job {
    const struct isa *isa;
    const struct matmul *s;
    const void *from;
};

static void pack_const_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;

    (void)thread;
    gemm_pack_b(j->isa, j->s->packed, j->from, j->s->k, j->s->n, j->s->brs, j->s->bcs, begin, end);
}

static void narrow_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    int64_t per = j->s->k * j->isa->nr;

    (void)thread;
    half_from_float(j->s->half + begin * per, j->s->packed + begin * per, (end - begin) * per,
                    j->s->half_type);
}

/* What was 16 bits is kept so. */
static int narrow_b(struct op *op, struct matmul *s, struct pack_job *j, opm_error *err)
{
    s->half_type = kernel_half(op, 1)->type;
    s->half = native_alloc_weights(MAX(op->packed_bytes / 2, (size_t)1));
    if (!s->half)
        return kernel_nomem(op, err);
    pool_for(kernel_pool(op), gemm_panels(s->n, j->isa->nr),
             pool_grain((double)(s->k * j->isa->nr) * PACK_NS), narrow_part, j);
    native_free(s->packed);
    s->packed = NULL;
    op->packed_bytes /= 2;
    return 0;
}

static int pack_const_b(struct op *op, struct matmul *s, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    const struct tensor *b = kernel_const(op, 1);
    struct pack_job j = { isa, s,
                          b                     ? b->data
                          : kernel_fixed(op, 1) ? kernel_in(op, 1)->data
                                                : NULL };
    int64_t floats = gemm_size_b(isa, s->k, s->n);
    size_t bytes;

    if (s->packed || s->half)
        return 0;
    if (!j.from || kernel_in(op, 1)->type != TENSOR_F32 || !s->b_shared)
        return b && !kernel_data(op, 1) ? kernel_nomem(op, err) : 0;
    if (floats < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    bytes = (size_t)MAX(floats, (int64_t)1) * sizeof(float);
    s->packed = kernel_half(op, 1) ? native_alloc(bytes) : native_alloc_weights(bytes);
    if (!s->packed)
        return kernel_nomem(op, err);
    op->packed_bytes = (size_t)floats * sizeof(float);
    pool_for(kernel_pool(op), gemm_panels(s->n, isa->nr),
             pool_grain((double)(s->k * isa->nr) * PACK_NS), pack_const_part, &j);
    if (b)
        model_forget(op->plan->engine->model, b->data, b->bytes);
    return kernel_half(op, 1) ? narrow_b(op, s, &j, err) : 0;
}

/* Room for what is packed while running. */
static int plan_scratch(struct op *op, struct matmul *s, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t total, nb = s->b_shared ? 1 : s->nbatch;

    s->b_floats = s->packed || s->half ? 0 : gemm_size_b(isa, s->k, s->n);
    if (s->b_floats < 0 || __builtin_mul_overflow(s->b_floats, nb, &total) ||
        total > PTRDIFF_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    if (s->half)
        total = gemm_wide(isa, s->k) * pool_threads(kernel_pool(op));
    op->scratch_bytes = (size_t)total * sizeof(float);
    return 0;
}

/* Constant B, dense or sparse, and scratch memory. */
static int prepare_f32(struct op *op, struct matmul *s, opm_error *err)
{
    const struct tensor *b = kernel_const(op, 1);
    struct sparse_weights w = { b                     ? b->data
                                : kernel_fixed(op, 1) ? kernel_in(op, 1)->data
                                                      : NULL,
                                s->k, s->n, s->brs, s->bcs };
    int how = SPARSE_NO, rc;

    s->use_sparse = false;
    if (w.data && s->b_shared && s->nbatch == 1 && s->acs == 1)
        how = sparse_look(op, s->m, &w, &s->sparse, err);
    if (how < 0)
        return how;
    rc = how == SPARSE_YES ? 0 : pack_const_b(op, s, err);
    if (!rc)
        rc = plan_scratch(op, s, err);
    if (!rc && how != SPARSE_NO)
        op->scratch_bytes = MAX(op->scratch_bytes, sparse_scratch(op, s->m, s->k));
    s->use_sparse = how == SPARSE_YES;
    if (!rc && how == SPARSE_MEASURE)
        rc = sparse_measure_op(op, s->m, s->sparse, &s->use_sparse, err);
    if (rc)
        return rc;
    if (s->use_sparse) {
        native_free(s->packed);
        native_free(s->half);
        s->packed = NULL;
        s->half = NULL;
        op->scratch_bytes = sparse_scratch(op, s->m, s->k);
    }
    sparse_tell(op, s->sparse, s->use_sparse);
    return 0;
}

static int prepare_other(struct op *op, opm_error *err)
{
    op->scratch_bytes = product_room(kernel_isa(op)) * (size_t)pool_threads(kernel_pool(op));
    return kernel_const(op, 1) && !kernel_data(op, 1) ? kernel_nomem(op, err) : 0;
}

/* Sizes and strides of a product of operands by NumPy's rules, and the shape of its result. */
static int plain_shapes(struct op *op, struct matmul *s, struct shape *out, opm_error *err)
{
    struct shape sa = kernel_in(op, 0)->shape, sb = kernel_in(op, 1)->shape;
    struct view v;
    int rc;

    if (op->turned_b) {
        sb.dim[0] = kernel_in(op, 1)->shape.dim[1];
        sb.dim[1] = kernel_in(op, 1)->shape.dim[0];
    }
    view_begin(&v, op, err);
    rc = matmul_shape(&v.base, &sa, &sb, out);
    view_end(&v);
    if (rc)
        return rc;
    s->batch = *out;
    s->batch.rank -= (sa.rank > 1) + (sb.rank > 1);
    if (sa.rank == 1) {
        sa.rank = 2;
        sa.dim[1] = sa.dim[0];
        sa.dim[0] = 1;
    }
    if (sb.rank == 1) {
        sb.rank = 2;
        sb.dim[1] = 1;
    }
    s->m = sa.dim[sa.rank - 2];
    s->k = sa.dim[sa.rank - 1];
    s->n = sb.dim[sb.rank - 1];
    sa.rank -= 2;
    sb.rank -= 2;
    s->b_shared = shape_count(&sb) == 1;
    if (s->b_shared && shape_count(&sa) == shape_count(&s->batch)) { /* one tall matrix */
        s->m *= MAX(shape_count(&s->batch), (int64_t)0);
        s->batch.rank = sa.rank = sb.rank = 0;
    }
    s->nbatch = shape_count(&s->batch);
    for (int i = 0; i < 2; i++) {
        const struct shape *q = i ? &sb : &sa;
        int64_t *stride = i ? s->b_batch : s->a_batch, step = s->k * (i ? s->n : s->m);

        memset(stride, 0, sizeof(s->a_batch));
        for (int32_t d = q->rank - 1; d >= 0; d--) {
            stride[s->batch.rank - q->rank + d] = q->dim[d] == 1 ? 0 : step;
            step *= q->dim[d];
        }
    }
    s->ars = s->k;
    s->brs = op->turned_b ? 1 : s->n;
    s->bcs = op->turned_b ? s->k : 1;
    s->acs = 1;
    s->alpha = s->beta = 1;
    return 0;
}

int matmul_prepare(struct op *op, opm_error *err)
{
    const struct nt *a = kernel_in(op, 0);
    struct matmul *s = matmul_state(op);
    struct shape out;
    int rc = kernel_want(op, 0, TYPES_MATMUL, err);

    if (!s)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(a->type), err);
    if (!rc)
        rc = plain_shapes(op, s, &out, err);
    if (!rc)
        rc = kernel_set(op, 0, a->type, &out, err);
    if (!rc)
        rc = posts_check(op, s->n, err);
    if (!rc)
        rc = a->type == TENSOR_F32 ? prepare_f32(op, s, err) : prepare_other(op, err);
    return rc;
}

#define TYPES_16 (TYPE_BIT(TENSOR_I16) | TYPE_BIT(TENSOR_U16))

/* MatMulInteger16: A is widened first, behind the memory for the product, B where it is packed. */
int matmul16_prepare(struct op *op, opm_error *err)
{
    struct matmul *s = matmul_state(op);
    struct shape out;
    int rc = s ? kernel_want(op, 0, TYPES_16, err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_16, err);
    if (!rc)
        rc = plain_shapes(op, s, &out, err);
    if (!rc)
        rc = kernel_set(op, 0, TENSOR_I32, &out, err);
    if (!rc)
        rc = prepare_other(op, err);
    if (!rc)
        op->scratch_bytes += (size_t)kernel_in(op, 0)->count * sizeof(int32_t);
    return rc;
}

/* An operand of FusedMatMul: sizes and strides of its dimensions in the order of the product. */
static void fused_operand(const struct op *op, uint32_t slot, struct shape *s, int64_t *stride)
{
    const struct shape *x = &kernel_in(op, slot)->shape;
    int perm[SHAPE_RANK_MAX];

    fused_matmul_order(op->node, slot, x->rank, perm);
    s->rank = x->rank;
    for (int i = 0; i < x->rank; i++) {
        s->dim[i] = x->dim[perm[i]];
        stride[i] = nt_span(x, perm[i] + 1, x->rank);
    }
}

int fusedmatmul_prepare(struct op *op, opm_error *err)
{
    struct matmul *s = matmul_state(op);
    struct shape side[2];
    int64_t stride[2][SHAPE_RANK_MAX];
    int rc = s ? kernel_want(op, 0, TYPES_FLOAT, err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(kernel_in(op, 0)->type), err);
    if (rc)
        return rc;
    if (kernel_in(op, 0)->shape.rank < 2 || kernel_in(op, 1)->shape.rank < 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for operands of one dimension");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < 2; i++)
        fused_operand(op, i, &side[i], stride[i]);
    s->batch = kernel_out(op, 0)->shape;
    s->batch.rank -= 2;
    s->nbatch = shape_count(&s->batch);
    s->m = side[0].dim[side[0].rank - 2];
    s->k = side[0].dim[side[0].rank - 1];
    s->n = side[1].dim[side[1].rank - 1];
    s->ars = stride[0][side[0].rank - 2];
    s->acs = stride[0][side[0].rank - 1];
    s->brs = stride[1][side[1].rank - 2];
    s->bcs = stride[1][side[1].rank - 1];
    for (int i = 0; i < 2; i++) {
        int64_t *to = i ? s->b_batch : s->a_batch;
        int32_t rank = side[i].rank - 2;

        memset(to, 0, sizeof(s->a_batch));
        for (int32_t d = 0; d < rank; d++)
            to[s->batch.rank - rank + d] = side[i].dim[d] == 1 ? 0 : stride[i][d];
    }
    s->b_shared = nt_span(&side[1], 0, side[1].rank - 2) == 1;
    if (s->b_shared && s->ars == s->k && s->acs == 1 &&
        kernel_in(op, 0)->count == s->nbatch * s->m * s->k &&
        !node_attr_int(op->node, "transBatchA", 0)) { /* one tall matrix */
        s->m *= s->nbatch;
        s->nbatch = 1;
        s->batch.rank = 0;
    }
    s->alpha = node_attr_float(op->node, "alpha", 1);
    s->beta = 1;
    return kernel_in(op, 0)->type == TENSOR_F32 ? prepare_f32(op, s, err) : prepare_other(op, err);
}

int gemm_prepare(struct op *op, opm_error *err)
{
    const struct nt *a = kernel_in(op, 0), *b = kernel_in(op, 1), *c = kernel_in(op, 2);
    struct matmul *s = matmul_state(op);
    bool ta = node_attr_int(op->node, "transA", 0), tb = node_attr_int(op->node, "transB", 0);
    int rc = kernel_want(op, 0, TYPES_MATMUL, err);

    if (!s)
        return kernel_nomem(op, err);
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(a->type), err);
    if (!rc && c)
        rc = kernel_want(op, 2, TYPE_BIT(a->type), err);
    if (rc)
        return rc;
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    s->m = a->shape.dim[ta];
    s->k = a->shape.dim[!ta];
    s->n = b->shape.dim[!tb];
    s->ars = ta ? 1 : s->k;
    s->acs = ta ? s->m : 1;
    s->brs = tb ? 1 : s->n;
    s->bcs = tb ? s->k : 1;
    s->alpha = node_attr_float(op->node, "alpha", 1);
    s->beta = node_attr_float(op->node, "beta", 1);
    s->nbatch = 1;
    s->b_shared = true;
    s->batch.rank = 0;
    rc = posts_check(op, s->n, err);
    if (!rc)
        rc = a->type == TENSOR_F32 ? prepare_f32(op, s, err) : prepare_other(op, err);
    return rc;
}

struct mm_job {
    const struct matmul *s;
    struct gemm g;
    struct gemm_grid grid;
    const float *a, *b;
    float *pb;
    int64_t bpanels;
};

/* Where the matrix of an operand for batch item i begins. */
static int64_t batch_matrix(const struct matmul *s, const int64_t *stride, int64_t i)
{
    int64_t at = 0;

    for (int32_t d = s->batch.rank - 1; d >= 0; d--) {
        at += i % s->batch.dim[d] * stride[d];
        i /= s->batch.dim[d];
    }
    return at;
}

/* Panels of B, batch item by batch item. */
static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct mm_job *j = arg;
    const struct matmul *s = j->s;

    (void)thread;
    for (int64_t i = begin; i < end;) {
        int64_t item = i / j->bpanels, p = i % j->bpanels, len = MIN(j->bpanels - p, end - i);

        gemm_pack_b(j->g.isa, j->pb + item * s->b_floats,
                    j->b + (s->b_shared ? 0 : batch_matrix(s, s->b_batch, item)), s->k, s->n,
                    s->brs, s->bcs, p, p + len);
        i += len;
    }
}

static void mm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct mm_job *j = arg;
    const struct matmul *s = j->s;
    int64_t per = j->grid.nmb * j->grid.nnb;

    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / per;
        struct gemm g = j->g;

        g.a = j->a + batch_matrix(s, s->a_batch, item);
        g.b = s->packed ? s->packed
              : g.brs   ? j->b + batch_matrix(s, s->b_batch, item)
                        : j->pb + (s->b_shared ? 0 : item) * s->b_floats;
        g.wide = s->half ? j->pb + thread * gemm_wide(g.isa, s->k) : NULL;
        g.c += item * s->m * s->n;
        g.base = item * s->m * s->n;
        gemm_item(&g, &j->grid, i % per);
    }
}

#define STRIP 512  /* columns */
#define ROW_NS 0.1 /* for a multiplication, about */

/* A row times a matrix that is not packed yet, and need not be: strips of its columns. */
static void row_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct mm_job *j = arg;
    const struct matmul *s = j->s;
    const struct isa *isa = j->g.isa;
    int64_t strips = (s->n + STRIP - 1) / STRIP;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / strips, c0 = i % strips * STRIP, n = MIN(s->n - c0, (int64_t)STRIP);
        const float *a = j->a + batch_matrix(s, s->a_batch, item),
                    *b = j->b + batch_matrix(s, s->b_batch, item) + c0 * s->bcs;
        float *c = j->g.c + item * s->n + c0;

        if (s->bcs != 1) {
            for (int64_t q = 0; q < n; q++)
                c[q] = isa->dot(a, b + q * s->bcs, s->k) * j->g.alpha;
            continue;
        }
        isa->loops->row_product(c, a, b, s->brs, s->k, n);
        if (j->g.alpha != 1)
            isa->unary(U_AFFINE, c, c, n, j->g.alpha, 0);
    }
}

/* Whether row_part() can do it. */
static bool by_rows(const struct matmul *s, const struct gemm *g)
{
    return s->m == 1 && !s->packed && !s->half && (s->bcs == 1 || s->brs == 1) && s->acs == 1 &&
           !g->add && !g->posts;
}

static void run_f32(struct op *op, const struct nt *add, const float *scaled)
{
    const struct matmul *s = op->state;
    struct posts posts;
    struct mm_job j = { .s = s };

    if (kernel_out(op, 0)->count == 0)
        return;
    posts_begin(&posts, op, false);
    j.a = kernel_in(op, 0)->data;
    j.b = kernel_in(op, 1)->data;
    j.pb = op->scratch;
    j.g = (struct gemm){ .isa = kernel_isa(op),
                         .m = s->m,
                         .n = s->n,
                         .k = s->k,
                         .ars = s->ars,
                         .aks = s->acs,
                         .c = kernel_out(op, 0)->data,
                         .ldc = s->n,
                         .alpha = s->alpha,
                         .posts = op->npost ? &posts : NULL };
    if (add) {
        int32_t r = add->shape.rank;

        j.g.add = scaled ? scaled : add->data;
        j.g.add_cs = r >= 1 && add->shape.dim[r - 1] != 1;
        j.g.add_rs = r >= 2 && add->shape.dim[r - 2] != 1 ? add->shape.dim[r - 1] : 0;
    }
    j.bpanels = gemm_panels(s->n, j.g.isa->nr);
    if (kernel_out(op, 0)->count == 0)
        return;
    if (s->use_sparse) {
        struct sparse_mul mul = { s->m,  s->n,      s->k,    j.a,        s->ars,
                                  j.g.c, j.g.alpha, j.g.add, j.g.add_rs, j.g.add_cs };

        sparse_run(op, s->sparse, &mul);
        return;
    }
    if (by_rows(s, &j.g)) {
        pool_for(kernel_pool(op), s->nbatch * ((s->n + STRIP - 1) / STRIP),
                 pool_grain((double)(s->k * MIN(s->n, (int64_t)STRIP)) * ROW_NS), row_part, &j);
        return;
    }
    j.g.half = s->half;
    j.g.half_type = s->half_type;
    j.g.a_bf16 = gemm_is_bf16(&j.g, j.a, kernel_in(op, 0)->count);
    gemm_grid(&j.grid, j.g.isa, s->m, s->n, s->k, s->nbatch, pool_threads(kernel_pool(op)));
    if (!s->packed && !s->half && (uintptr_t)j.b % sizeof(float) == 0 &&
        gemm_as_it_is(j.g.isa, s->k, s->n, s->brs, s->bcs))
        j.g.brs = s->brs;
    if (!s->packed && !s->half && !j.g.brs)
        pool_for(kernel_pool(op), (s->b_shared ? 1 : s->nbatch) * j.bpanels,
                 pool_grain((double)(s->k * j.g.isa->nr) * PACK_NS), pack_part, &j);
    pool_for(kernel_pool(op), s->nbatch * j.grid.nmb * j.grid.nnb, pool_grain(j.grid.item_ns),
             mm_part, &j);
}

struct other_job {
    const struct op *op;
    const struct matmul *s;
    struct product p;
    char *room;
};

static void other_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct other_job *j = arg;
    const struct matmul *s = j->s;
    int64_t panels = product_panels(&j->p), w = (int64_t)nt_width(j->p.type),
            bw = (int64_t)nt_width(kernel_in(j->op, 1)->type);

    for (int64_t i = begin; i < end; i++) {
        int64_t item = i / panels;
        struct product p = j->p;

        p.a = (const char *)p.a + batch_matrix(s, s->a_batch, item) * w;
        p.b = (const char *)p.b + batch_matrix(s, s->b_batch, item) * bw;
        p.c = (char *)p.c + item * s->m * s->n * w;
        product_panel(&p, i % panels, j->room + (size_t)thread * product_room(p.isa));
    }
}

static void run_other(struct op *op, const void *a, enum tensor_type narrow)
{
    const struct matmul *s = op->state;
    struct other_job j = { .op = op, .s = s, .room = op->scratch };

    j.p = (struct product){ .isa = kernel_isa(op),
                            .type = kernel_out(op, 0)->type,
                            .m = s->m,
                            .n = s->n,
                            .k = s->k,
                            .a = a,
                            .b = kernel_in(op, 1)->data,
                            .narrow = narrow,
                            .ars = s->ars,
                            .aks = s->acs,
                            .brs = s->brs,
                            .bcs = s->bcs,
                            .c = kernel_out(op, 0)->data,
                            .ldc = s->n };
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), s->nbatch * product_panels(&j.p),
                 pool_grain(product_panel_ns(&j.p)), other_part, &j);
}

int matmul_run(struct op *op, opm_error *err)
{
    (void)err;
    if (kernel_in(op, 0)->type == TENSOR_F32)
        run_f32(op, NULL, NULL);
    else
        run_other(op, kernel_in(op, 0)->data, TENSOR_NONE);
    return 0;
}

struct widen_job {
    const struct nt *from;
    int32_t *to;
};

static void widen_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct widen_job *j = arg;

    (void)thread;
    if (j->from->type == TENSOR_I16)
        for (int64_t i = begin; i < end; i++)
            j->to[i] = ((const int16_t *)j->from->data)[i];
    else
        for (int64_t i = begin; i < end; i++)
            j->to[i] = ((const uint16_t *)j->from->data)[i];
}

int matmul16_run(struct op *op, opm_error *err)
{
    struct pool *pool = kernel_pool(op);
    struct widen_job a = { kernel_in(op, 0), NULL };

    (void)err;
    a.to = (int32_t *)((char *)op->scratch +
                       product_room(kernel_isa(op)) * (size_t)pool_threads(pool));
    pool_for(pool, a.from->count, 16384, widen_part, &a);
    run_other(op, a.to, kernel_in(op, 1)->type);
    return 0;
}

int fusedmatmul_run(struct op *op, opm_error *err)
{
    const struct matmul *s = op->state;
    struct nt *out = kernel_out(op, 0);
    int rc = matmul_run(op, err);

    for (int64_t i = 0; i < out->count && !rc && out->type == TENSOR_F64; i++)
        ((double *)out->data)[i] *= (double)s->alpha;
    return rc;
}

/* alpha and beta for types that have no fast path. */
static void gemm_tail(struct op *op, const struct matmul *s)
{
    const struct nt *c = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    int32_t r = c ? c->shape.rank : 0;
    int64_t cs = r >= 1 && c->shape.dim[r - 1] != 1,
            rs = r >= 2 && c->shape.dim[r - 2] != 1 ? c->shape.dim[r - 1] : 0;

    for (int64_t i = 0, at = 0; i < out->count; i += s->n, at += rs) {
        switch (out->type) {
        case TENSOR_F64: {
            double *to = (double *)out->data + i;
            const double *add = c ? (const double *)c->data + at : NULL;

            if (s->alpha == 1 && s->beta == 1 && (!c || cs))
                for (int64_t k = 0; k < s->n && c; k++)
                    to[k] += add[k];
            else
                for (int64_t k = 0; k < s->n; k++)
                    to[k] = (double)s->alpha * to[k] + (c ? (double)s->beta * add[k * cs] : 0);
            break;
        }
        case TENSOR_I32:
        case TENSOR_U32:
            for (int64_t k = 0; k < s->n && c; k++)
                ((uint32_t *)out->data)[i + k] += ((const uint32_t *)c->data)[at + k * cs];
            break;
        default:
            for (int64_t k = 0; k < s->n && c; k++)
                ((uint64_t *)out->data)[i + k] += ((const uint64_t *)c->data)[at + k * cs];
        }
    }
}

int gemm_run(struct op *op, opm_error *err)
{
    const struct matmul *s = op->state;
    const struct nt *c = kernel_in(op, 2);
    float *scaled = NULL;

    if (kernel_in(op, 0)->type != TENSOR_F32) {
        run_other(op, kernel_in(op, 0)->data, TENSOR_NONE);
        if (s->n)
            gemm_tail(op, s);
        return 0;
    }
    if (c && s->beta == 0)
        c = NULL;
    if (c && s->beta != 1) { /* rare: a scaled copy */
        scaled = native_alloc(MAX(c->bytes, (size_t)1));
        if (!scaled)
            return kernel_nomem(op, err);
        kernel_isa(op)->unary(U_AFFINE, scaled, c->data, c->count, s->beta, 0);
    }
    run_f32(op, c, scaled);
    native_free(scaled);
    return 0;
}
