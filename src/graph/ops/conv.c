/* conv.c -- convolutions. */
#include "graph/ops/known.h"
#include "graph/ops/window.h"

#include <string.h>

/* Batch, channels, and what a window makes of the rest. */
static void windowed(const struct sliding *w, int64_t batch, int64_t channels, struct shape *out)
{
    *out = shape_of_rank(w->n + 2);
    out->dim[0] = batch;
    out->dim[1] = channels;
    for (int i = 0; i < w->n; i++)
        out->dim[2 + i] = w->out[i];
}

int conv_window(const struct opview *o, const struct shape *x, const struct shape *k,
                struct sliding *w, struct shape *out)
{
    const struct shape open = shape_of_rank(SHAPE_RANK_MAX);
    int64_t group = op_int(o, "group", 1), channels = DIM_OPEN;
    int rc;

    if (x->rank < 3 && !(x->rank == 2 && k->rank == 2))
        return op_fail(o, "input has %d dimensions", x->rank);
    if (k->rank >= 0 && k->rank != x->rank)
        return op_fail(o, "input has %d dimensions, weight has %d", x->rank, k->rank);
    if (group < 1)
        return op_fail(o, "attribute 'group' is %lld", (long long)group);
    if (k->rank >= 0) {
        channels = k->dim[0];
        if (x->dim[1] >= 0 && k->dim[1] >= 0 && x->dim[1] != dim_mul(k->dim[1], group))
            return op_fail(o, "input has %lld channels, the weight is for %lld in %lld groups",
                           (long long)x->dim[1], (long long)dim_mul(k->dim[1], group),
                           (long long)group);
        if (channels >= 0 && channels % group)
            return op_fail(o, "%lld output channels in %lld groups", (long long)channels,
                           (long long)group);
    }
    rc = sliding_read(o, x->rank - 2, k->rank >= 0 ? k->dim + 2 : open.dim, w);
    if (!rc)
        rc = sliding_over(o, w, x->dim + 2);
    if (!rc)
        windowed(w, x->dim[0], channels, out);
    return rc;
}

/* Conv and its relatives, whose x and w are at different slots. */
static int conv(const struct opview *o, uint32_t xs, uint32_t ws, enum tensor_type type)
{
    const struct shape *x = op_shape(o, xs), *k = op_shape(o, ws);
    struct sliding w;
    struct shape out = shape_unknown();
    int rc = 0;

    if (x->rank >= 0)
        rc = conv_window(o, x, k, &w, &out);
    else if (k->rank >= 3) {
        out = shape_of_rank(k->rank);
        out.dim[1] = k->dim[0];
    }
    if (rc)
        return rc;
    op_set(o, 0, type, &out);
    return 0;
}

int infer_conv(const struct opview *o)
{
    return conv(o, 0, 1, op_type(o, 0));
}

int infer_conv_integer(const struct opview *o)
{
    return conv(o, 0, 1, TENSOR_I32);
}

int infer_qlinear_conv(const struct opview *o)
{
    /* com.microsoft's may keep channels last, which changes what every number means. */
    if (op_int(o, "channels_last", 0))
        return 0;
    return conv(o, 0, 3, op_type(o, op_has(o, 7) ? 7 : 0));
}

/* X, W, offset, ...: windows as in Conv. */
int infer_deform_conv(const struct opview *o)
{
    return conv(o, 0, 1, op_type(o, 0));
}

int conv_transpose_window(const struct opview *o, const struct shape *x, const struct shape *k,
                          uint32_t pads, struct sliding *w, struct shape *out)
{
    int64_t group = op_int(o, "group", 1), channels = DIM_OPEN, open[WINDOW_DIMS_MAX];
    bool known = true;
    int rc;

    if (x->rank < 3)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (k->rank != x->rank)
        return op_fail(o, "input has %d dimensions, weight has %d", x->rank, k->rank);
    if (group < 1 || (x->dim[1] >= 0 && x->dim[1] % group))
        return op_fail(o, "%lld input channels in %lld groups", (long long)x->dim[1],
                       (long long)group);
    if (x->dim[1] >= 0 && k->dim[0] >= 0 && x->dim[1] != k->dim[0])
        return op_fail(o, "input has %lld channels, the weight is for %lld", (long long)x->dim[1],
                       (long long)k->dim[0]);
    channels = dim_mul(k->dim[1], group);
    rc = sliding_read(o, x->rank - 2, k->dim + 2, w);
    if (!rc && pads)
        rc = sliding_pads(o, pads, w, &known);
    for (int i = 0; i < WINDOW_DIMS_MAX; i++)
        open[i] = DIM_OPEN;
    if (!rc)
        rc = sliding_transposed(o, w, known ? x->dim + 2 : open);
    if (!rc)
        windowed(w, x->dim[0], channels, out);
    return rc;
}

static int conv_transpose(const struct opview *o, uint32_t pads)
{
    const struct shape *x = op_shape(o, 0), *k = op_shape(o, 1);
    struct shape out = shape_unknown();
    struct sliding w;
    int rc = 0;

    if (x->rank >= 0 && k->rank >= 0)
        rc = conv_transpose_window(o, x, k, pads, &w, &out);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &out);
    return 0;
}

int infer_conv_transpose(const struct opview *o)
{
    return conv_transpose(o, 0);
}

/* com.microsoft's ConvTransposeWithDynamicPads: X, W, pads, bias. */
int infer_conv_transpose_pads(const struct opview *o)
{
    return conv_transpose(o, 2);
}

/* Columns to image: [N, C x block, L] -> [N, C, image...]. */
int infer_col2im(const struct opview *o)
{
    const struct elems *image = op_known_ints(o, 1), *block = op_known_ints(o, 2);
    const struct shape *x = op_shape(o, 0);
    int64_t area = 1;
    struct shape s;

    if (!image || image->n > WINDOW_DIMS_MAX) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    s = shape_of_rank((int)image->n + 2);
    for (int64_t i = 0; i < image->n; i++)
        s.dim[2 + i] = MAX(dim_of_elem(image->i[i]), (int64_t)DIM_OPEN);
    for (int64_t i = 0; block && i < block->n; i++)
        area = dim_mul(area, MAX(dim_of_elem(block->i[i]), (int64_t)DIM_OPEN));
    if (x->rank == 3) {
        s.dim[0] = x->dim[0];
        if (block && area > 0 && x->dim[1] >= 0)
            s.dim[1] = x->dim[1] / area;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Conv, also of integers: cost is the slot of the weight. N(out) x kernel x channels / groups x 2,
 * where the last two are all of the weight but its first dimension. */
int64_t flops_conv(const struct graph *g, const struct node *n, int cost)
{
    uint32_t slot = (uint32_t)cost, bias = slot == 3 ? 8 : 2;
    const struct shape *w = node_in_shape(g, n, slot);
    bool biased = strcmp(n->op_type, "ConvInteger") != 0 && node_in(g, n, bias);
    int64_t terms = shape_count(w);

    if (terms < 0 || w->rank < 2 || w->dim[0] <= 0)
        return -1;
    return count_mul(node_out_count(g, n), count_add(count_mul(terms / w->dim[0], 2), biased));
}

/* Each element of the input meets the whole of the kernel of its group; cost: where the bias is. */
int64_t flops_conv_transpose(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *w = node_in_shape(g, n, 1);
    int64_t in = node_in_count(g, n, 0), terms = shape_count(w);

    if (terms < 0 || w->rank < 2 || w->dim[0] <= 0)
        return -1;
    return count_add(count_mul(in, count_mul(terms / w->dim[0], 2)),
                     node_in(g, n, (uint32_t)cost) ? node_out_count(g, n) : 0);
}

int64_t flops_deform_conv(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *w = node_in_shape(g, n, 1);
    int64_t terms = shape_count(w);

    (void)cost;
    return terms < 0 || w->rank < 2 || w->dim[0] <= 0
               ? -1
               : count_mul(node_out_count(g, n), count_mul(terms / w->dim[0], 3));
}
