/* pool.c -- pooling, and regions of interest. */
#include "graph/ops/known.h"
#include "graph/ops/window.h"

int pool_window(const struct opview *o, const struct shape *x, struct sliding *w, struct shape *out)
{
    int rc;

    if (x->rank < 3)
        return op_fail(o, "input has %d dimensions", x->rank);
    rc = sliding_read(o, x->rank - 2, NULL, w);
    if (!rc)
        rc = sliding_over(o, w, x->dim + 2);
    *out = *x;
    for (int i = 0; !rc && i < w->n; i++)
        out->dim[2 + i] = w->out[i];
    return rc;
}

int infer_pool(const struct opview *o)
{
    struct shape out = *op_shape(o, 0);
    struct sliding w;
    int rc = 0;

    /* com.microsoft's may keep channels last, which changes what every number means. */
    if (op_int(o, "channels_last", 0))
        return 0;
    if (out.rank >= 0)
        rc = pool_window(o, op_shape(o, 0), &w, &out);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    op_set(o, 1, TENSOR_I64, &out);
    return 0;
}

int infer_global_pool(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (op_int(o, "channels_last", 0))
        return 0;
    for (int32_t i = 2; i < s.rank; i++)
        s.dim[i] = 1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* MaxPool the other way round. */
int infer_max_unpool(const struct opview *o)
{
    const struct elems *size = op_known_ints(o, 2);
    struct shape out = *op_shape(o, 0);
    struct sliding w;
    int rc;

    if (out.rank < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    if (out.rank < 3)
        return op_fail(o, "input has %d dimensions", out.rank);
    if (op_has(o, 2)) {
        if (size && size->n != out.rank)
            return op_fail(o, "input 2 has %lld numbers instead of %d", (long long)size->n,
                           out.rank);
        for (int32_t i = 0; i < out.rank; i++)
            out.dim[i] = size ? MAX(dim_of_elem(size->i[i]), (int64_t)DIM_OPEN) : DIM_OPEN;
        op_set(o, 0, op_type(o, 0), &out);
        return 0;
    }
    rc = sliding_read(o, out.rank - 2, NULL, &w);
    if (!rc)
        rc = sliding_transposed(o, &w, out.dim + 2);
    for (int i = 0; !rc && i < w.n; i++)
        out.dim[2 + i] = w.out[i];
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    return 0;
}

int infer_roi_align(const struct opview *o)
{
    struct shape s = shape_of_rank(4);

    if (op_rank(o, 1) >= 1)
        s.dim[0] = op_shape(o, 1)->dim[0];
    if (op_rank(o, 0) == 4)
        s.dim[1] = op_shape(o, 0)->dim[1];
    s.dim[2] = MAX(op_int(o, "output_height", 1), (int64_t)DIM_OPEN);
    s.dim[3] = MAX(op_int(o, "output_width", 1), (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_max_roi_pool(const struct opview *o)
{
    struct shape s = shape_of_rank(4);
    size_t len;
    const int64_t *size = node_attr_ints(o->n, "pooled_shape", &len);

    if (op_rank(o, 1) >= 1)
        s.dim[0] = op_shape(o, 1)->dim[0];
    if (op_rank(o, 0) == 4)
        s.dim[1] = op_shape(o, 0)->dim[1];
    for (size_t i = 0; size && len == 2 && i < 2; i++)
        s.dim[2 + i] = MAX(size[i], (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* N(out) x size of the window */
int64_t flops_pool(const struct graph *g, const struct node *n, int cost)
{
    size_t len;
    const int64_t *k = node_attr_ints(n, "kernel_shape", &len);
    int64_t c = count_mul(node_out_count(g, n), cost);

    for (size_t i = 0; i < len; i++)
        c = count_mul(c, k[i]);
    return c;
}

/* Samples of each bin are interpolated and averaged; how many is up to the data if not given. */
int64_t flops_roi_align(const struct graph *g, const struct node *n, int cost)
{
    int64_t s = node_attr_int(n, "sampling_ratio", 0);

    return s <= 0 ? -1 : count_mul(node_out_count(g, n), count_mul(count_mul(s, s), cost));
}
