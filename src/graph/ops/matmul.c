/* matmul.c -- matrix products and determinants. */
#include "graph/ops/args.h"

int matmul_shape(const struct opview *o, const struct shape *a, const struct shape *b,
                 struct shape *out)
{
    struct shape x = *a, y = *b, batch;
    int64_t m, n, ka, kb;
    int rc;

    *out = shape_unknown();
    if (a->rank < 0 || b->rank < 0)
        return 0;
    if (a->rank == 0 || b->rank == 0)
        return op_fail(o, "a scalar operand");
    ka = a->dim[a->rank - 1];
    kb = b->dim[b->rank == 1 ? 0 : b->rank - 2];
    if (ka >= 0 && kb >= 0 && ka != kb) {
        char s[120], t[120];

        shape_text(a, s, sizeof(s));
        shape_text(b, t, sizeof(t));
        return op_fail(o, "shapes %s and %s cannot be multiplied", s, t);
    }
    m = a->rank >= 2 ? a->dim[a->rank - 2] : 0;
    n = b->rank >= 2 ? b->dim[b->rank - 1] : 0;
    x.rank = MAX(a->rank - 2, 0);
    y.rank = MAX(b->rank - 2, 0);
    rc = op_broadcast(o, &x, &y, &batch);
    if (rc)
        return rc;
    *out = batch;
    if (a->rank >= 2)
        out->dim[out->rank++] = m;
    if (b->rank >= 2)
        out->dim[out->rank++] = n;
    return 0;
}

int infer_matmul(const struct opview *o)
{
    struct shape s;
    int rc = matmul_shape(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0) != TENSOR_NONE ? op_type(o, 0) : op_type(o, 1), &s);
    return 0;
}

int infer_matmul_integer(const struct opview *o)
{
    struct shape s;
    int rc = matmul_shape(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_I32, &s);
    return 0;
}

int infer_qlinear_matmul(const struct opview *o)
{
    struct shape s;
    int rc = matmul_shape(o, op_shape(o, 0), op_shape(o, 3), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, op_has(o, 7) ? 7 : 0), &s);
    return 0;
}

/* com.microsoft: a product of integers that is scaled back to float. */
int infer_matmul_to_float(const struct opview *o)
{
    struct shape s;
    int rc = matmul_shape(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

void fused_matmul_order(const struct node *n, uint32_t slot, int rank, int *perm)
{
    bool batch = node_attr_int(n, slot ? "transBatchB" : "transBatchA", 0) != 0 && rank > 2,
         turned = node_attr_int(n, slot ? "transB" : "transA", 0) != 0 && rank > 1;

    for (int i = 0; i < rank; i++)
        perm[i] = batch && i < rank - 1 ? (i + 1) % (rank - 1) : i;
    if (turned) {
        int last = perm[rank - 1];

        perm[rank - 1] = perm[rank - 2];
        perm[rank - 2] = last;
    }
}

/* com.microsoft's FusedMatMul: either operand may be transposed. */
int infer_fused_matmul(const struct opview *o)
{
    struct shape side[2], s;
    int perm[SHAPE_RANK_MAX], rc;

    for (uint32_t i = 0; i < 2; i++) {
        const struct shape *x = op_shape(o, i);

        side[i] = *x;
        fused_matmul_order(o->n, i, MAX(x->rank, 0), perm);
        for (int k = 0; k < x->rank; k++)
            side[i].dim[k] = x->dim[perm[k]];
    }
    rc = matmul_shape(o, &side[0], &side[1], &s);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's MatMulNBits: the packed weight has the attributes' K x N. */
int infer_matmul_nbits(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank > 0)
        s.dim[s.rank - 1] = MAX(op_int(o, "N", DIM_OPEN), (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int gemm_shape(const struct opview *o, const struct shape *a, const struct shape *b,
               struct shape *out)
{
    bool ta = op_int(o, "transA", 0) != 0, tb = op_int(o, "transB", 0) != 0;
    struct shape s = shape_of_rank(2);
    int64_t ka = DIM_OPEN, kb = DIM_OPEN;

    if ((a->rank >= 0 && a->rank != 2) || (b->rank >= 0 && b->rank != 2))
        return op_fail(o, "operands of %d and %d dimensions", a->rank, b->rank);
    if (a->rank == 2) {
        s.dim[0] = a->dim[ta];
        ka = a->dim[!ta];
    }
    if (b->rank == 2) {
        s.dim[1] = b->dim[!tb];
        kb = b->dim[tb];
    }
    if (ka >= 0 && kb >= 0 && ka != kb)
        return op_fail(o, "operands have inner sizes %lld and %lld", (long long)ka, (long long)kb);
    *out = s;
    return 0;
}

int infer_gemm(const struct opview *o)
{
    struct shape s, both;
    int rc = gemm_shape(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (!rc && op_has(o, 2))
        rc = op_broadcast(o, &s, op_shape(o, 2), &both);
    if (!rc && op_has(o, 2) && shape_concrete(&s) && shape_concrete(&both) &&
        !shape_equal(&s, &both))
        rc = op_fail(o, "C is larger than the product");
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's CDist: rows of A x rows of B. */
int infer_cdist(const struct opview *o)
{
    struct shape s = { 2, { op_dim(o, 0, 0), op_dim(o, 1, 0) } };
    int64_t a = op_dim(o, 0, 1), b = op_dim(o, 1, 1);

    if ((op_rank(o, 0) >= 0 && op_rank(o, 0) != 2) || (op_rank(o, 1) >= 0 && op_rank(o, 1) != 2) ||
        (a >= 0 && b >= 0 && a != b))
        return op_fail(o, "wants two matrices with rows of one length");
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_det(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank >= 0) {
        if (s.rank < 2 || (s.dim[s.rank - 1] >= 0 && s.dim[s.rank - 2] >= 0 &&
                           s.dim[s.rank - 1] != s.dim[s.rank - 2]))
            return op_fail(o, "wants square matrices");
        s.rank -= 2;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* com.microsoft's QGemm: A, its scale and zero point, B, ..., C, the result's scale and zero point;
 * without these the result is float. */
int infer_qgemm(const struct opview *o)
{
    struct shape s;
    int rc = gemm_shape(o, op_shape(o, 0), op_shape(o, 3), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_has(o, 8) ? op_type(o, 8) : op_has(o, 7) ? op_type(o, 0) : TENSOR_F32, &s);
    return 0;
}

/* MatMul and the like: 2 x N(out) x inner dimension. */
int64_t flops_matmul(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *a = node_in_shape(g, n, 0);
    int perm[SHAPE_RANK_MAX];

    (void)cost;
    if (a->rank < 1)
        return -1;
    fused_matmul_order(n, 0, a->rank, perm);
    return count_mul(node_out_count(g, n), count_mul(a->dim[perm[a->rank - 1]], 2));
}

/* cost is the slot of the bias, 1 per element. */
int64_t flops_gemm(const struct graph *g, const struct node *n, int cost)
{
    return count_add(flops_matmul(g, n, 0),
                     node_in(g, n, (uint32_t)cost) ? node_out_count(g, n) : 0);
}

/* Elimination: 2/3 n^3 for each matrix */
int64_t flops_det(const struct graph *g, const struct node *n, int cost)
{
    int64_t m = shape_at(node_in_shape(g, n, 0), -1);

    (void)cost;
    return m < 0 ? -1 : count_mul(node_in_count(g, n, 0), m) / 3 * 2;
}

/* B is [K, N], or [N, K] when turned; A is [M, K]. */
int axis_gemm(const struct node *n, int slot, int rank)
{
    (void)rank;
    return slot == 0 ? node_attr_int(n, "transA", 0) != 0 : node_attr_int(n, "transB", 0) == 0;
}

int axis_matmul(const struct node *n, int slot, int rank)
{
    bool turned = node_attr_int(n, slot == 0 ? "transA" : "transB", 0) != 0;

    return MAX((slot == 0) != turned ? rank - 2 : rank - 1, 0);
}

/* com.microsoft's CDist: a difference, its square and a sum for each pair of elements. */
int64_t flops_cdist(const struct graph *g, const struct node *n, int cost)
{
    return count_mul(count_mul(node_out_count(g, n), shape_at(node_in_shape(g, n, 0), -1)), cost);
}

/* com.microsoft's MoE, or QMoE with cost 1: each token through two or three products of k experts,
 * whose weights have as many elements as the second has numbers. */
int64_t flops_moe(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *x = node_in_shape(g, n, 0), *up = node_in_shape(g, n, 2),
                       *down = node_in_shape(g, n, cost ? 5 : 4);
    bool third = node_in(g, n, cost ? 8 : 6);
    int64_t bits = cost ? node_attr_int(n, "expert_weight_bits", 4) : 8, each;

    if (x->rank < 2 || up->rank != 3 || down->rank != 3 || (bits != 2 && bits != 4 && bits != 8))
        return -1;
    each = count_add(count_mul(count_mul(up->dim[1], up->dim[2]), third ? 2 : 1),
                     count_mul(down->dim[1], down->dim[2]));
    each = count_mul(count_mul(each, 8 / bits), 2 * node_attr_int(n, "k", 1));
    for (int i = 0; i < x->rank - 1; i++)
        each = count_mul(each, x->dim[i]);
    return each;
}
