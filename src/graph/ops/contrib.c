/* contrib.c -- operators that ONNX once had, and those of com.microsoft that no family has. */
#include "graph/ops/known.h"
#include "graph/ops/window.h"

/* Crop: borders left, top, right and bottom, or from the first two on a height and a width. */
int infer_crop(const struct opview *o)
{
    size_t nborder, nscale;
    const int64_t *border = node_attr_ints(o->n, "border", &nborder);
    const int64_t *scale = node_attr_ints(o->n, "scale", &nscale);
    struct shape s = *op_shape(o, 0);

    if (nborder != 4 || (nscale && nscale != 2))
        return op_fail(o, "wants four borders, and two sizes or none");
    if (s.rank >= 0 && s.rank != 4)
        return op_fail(o, "input has %d dimensions", s.rank);
    for (int i = 0; i < 2 && s.rank == 4; i++) {
        int64_t first = border[1 - i], size = s.dim[2 + i], last = border[3 - i];

        if (size < 0)
            continue;
        s.dim[2 + i] = nscale ? scale[i] : size - last - first;
        if (first < 0 || first > size || last < 0 || last > size || s.dim[2 + i] < 0 ||
            s.dim[2 + i] > size - first)
            return op_fail(o, "borders do not fit");
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_crop_and_resize(const struct opview *o)
{
    struct shape s = { 4, { op_dim(o, 1, 0), op_dim(o, 0, 1), DIM_OPEN, DIM_OPEN } };
    const struct elems *size = op_known_ints(o, 3);

    if (size && size->n != 2)
        return op_fail(o, "wants a height and a width");
    for (int i = 0; size && i < 2; i++) {
        if (size->i[i] < 1)
            return op_fail(o, "wants sizes above 0");
        s.dim[2 + i] = size->i[i];
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Windows of a dimension, which come last. */
int infer_unfold(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t size = op_int(o, "size", 0), step = op_int(o, "step", 1);
    int axis, rc;

    if (size < 1 || step < 1)
        return op_fail(o, "wants a size and a step above 0");
    if (s.rank >= 0) {
        rc = op_axis(o, op_int(o, "dim", -1), s.rank, &axis);
        if (rc)
            return rc;
        if (s.rank == SHAPE_RANK_MAX)
            return op_fail(o, "input has %d dimensions", s.rank);
        if (s.dim[axis] >= 0 && s.dim[axis] < size)
            return op_fail(o, "the window is longer than the dimension");
        if (s.dim[axis] >= 0)
            s.dim[axis] = (s.dim[axis] - size) / step + 1;
        s.dim[s.rank++] = size;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_time_warping(const struct opview *o)
{
    struct shape s = { 2, { 2, DIM_OPEN } };
    int rank = op_rank(o, 0);

    if (rank >= 0 && rank != 2 && !(rank == 3 && op_dim(o, 0, 0) <= 1))
        return op_fail(o, "wants a matrix");
    op_set(o, 0, TENSOR_I32, &s);
    return 0;
}

int infer_murmur(const struct opview *o)
{
    op_set(o, 0, op_int(o, "positive", 1) ? TENSOR_U32 : TENSOR_I32, op_shape(o, 0));
    return 0;
}

/* com.microsoft's: the values, where each element is among them, and how often each comes. */
int infer_unique_values(const struct opview *o)
{
    struct shape open = shape_1d(DIM_OPEN), all = shape_1d(shape_count(op_shape(o, 0)));

    if (op_rank(o, 0) >= 0 && op_rank(o, 0) != 1)
        return op_fail(o, "wants a list");
    op_set(o, 0, op_type(o, 0), &open);
    op_set(o, 1, TENSOR_I64, &all);
    op_set(o, 2, TENSOR_I64, &open);
    return 0;
}

int infer_scores(const struct opview *o)
{
    op_set(o, 0, op_type(o, 1), op_shape(o, 1));
    return 0;
}

/* A pool over N x H x W x C. */
int infer_nhwc_pool(const struct opview *o)
{
    struct shape s = *op_shape(o, 0), out;
    struct sliding w;
    int64_t channels = s.rank > 0 ? s.dim[s.rank - 1] : DIM_OPEN;
    int rc;

    if (s.rank < 0) {
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    for (int i = s.rank - 1; i > 1; i--)
        s.dim[i] = s.dim[i - 1];
    rc = pool_window(o, &s, &w, &out);
    for (int i = 1; i < out.rank - 1 && !rc; i++)
        out.dim[i] = out.dim[i + 1];
    if (rc)
        return rc;
    out.dim[out.rank - 1] = channels;
    op_set(o, 0, op_type(o, 0), &out);
    return 0;
}

/* Tokens so far and some more; where the source goes on. */
int infer_bifurcation(const struct opview *o)
{
    struct shape s = shape_1d(op_has(o, 3) ? DIM_OPEN : op_dim(o, 1, 0));

    op_set(o, 0, TENSOR_I64, &s);
    op_set(o, 1, TENSOR_I64, op_shape(o, 2));
    return 0;
}

/* Words of characters [words, length] through a convolution over them: a row of filters each. */
int infer_word_conv(const struct opview *o)
{
    struct shape s = { 2, { op_dim(o, 0, 0), op_dim(o, 1, 0) } };

    if ((op_rank(o, 0) >= 0 && op_rank(o, 0) != 2) || (op_rank(o, 1) >= 0 && op_rank(o, 1) != 4) ||
        (op_rank(o, 3) >= 0 && op_rank(o, 3) != 2))
        return op_fail(o, "operands of %d, %d and %d dimensions", op_rank(o, 0), op_rank(o, 1),
                       op_rank(o, 3));
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

/* Every place of every word that the filter fits. */
int64_t flops_word_conv(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *words = node_in_shape(g, n, 0), *w = node_in_shape(g, n, 1);
    int64_t places = count_add(shape_at(words, 1), 1);

    (void)cost;
    if (places < 0 || w->rank != 4 || w->dim[2] < 0 || shape_at(words, 0) < 0)
        return -1;
    places = count_mul(shape_at(words, 0), MAX(places - w->dim[2], (int64_t)0));
    return count_mul(places, count_mul(shape_count(w), 2));
}

/* For each token, as many numbers as there are heads for n-grams of 2 and more; and the last
 * tokens, which the next call begins with. */
int infer_ngram_hash(const struct opview *o)
{
    int64_t most = op_int(o, "max_ngram_size", 0), heads = op_int(o, "n_head_per_ngram", 0);
    struct shape s = { 3, { op_dim(o, 0, 0), op_dim(o, 0, 1), DIM_OPEN } },
                 state = { 2, { op_dim(o, 0, 0), DIM_OPEN } };

    if (most < 2 || heads < 1 || (op_rank(o, 0) >= 0 && op_rank(o, 0) != 2))
        return op_fail(o, "n-grams of %lld for %lld heads, tokens of %d dimensions",
                       (long long)most, (long long)heads, op_rank(o, 0));
    s.dim[2] = dim_mul(most - 1, heads);
    state.dim[1] = most - 1;
    op_set(o, 0, op_type(o, 0), &s);
    op_set(o, 1, op_type(o, 0), &state);
    return 0;
}
