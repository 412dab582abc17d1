/* infer_reduce.c -- reductions, ArgMax, TopK, normalisation, losses, transforms of signals. */
#include "graph/infer_int.h"

#include <math.h>
#include <string.h>

/* Shape of a reduction over axes, which are within range. */
static struct shape reduced(const struct shape *x, const bool *drop, bool keep)
{
    struct shape s = { 0 };

    for (int32_t i = 0; i < x->rank; i++) {
        if (!drop[i])
            s.dim[s.rank++] = x->dim[i];
        else if (keep)
            s.dim[s.rank++] = 1;
    }
    return s;
}

int infer_reduce(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    bool keep = op_int(o, "keepdims", 1) != 0, drop[SHAPE_RANK_MAX] = { 0 }, given;
    int64_t axes[SHAPE_RANK_MAX], n;
    struct shape s;
    int rc = op_list(o, "axes", 1, axes, SHAPE_RANK_MAX, &n, &given), axis;

    if (rc)
        return rc;
    if (x->rank < 0 || n < 0) {
        s = shape_unknown();
        if (x->rank >= 0 && keep)
            s = shape_of_rank(x->rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    if (n == 0 && op_int(o, "noop_with_empty_axes", 0)) {
        op_same(o, 0, 0);
        return 0;
    }
    for (int32_t i = 0; n == 0 && i < x->rank; i++)
        drop[i] = true;
    for (int64_t i = 0; i < n; i++) {
        rc = op_axis(o, axes[i], x->rank, &axis);
        if (rc)
            return rc;
        drop[axis] = true;
    }
    s = reduced(x, drop, keep);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_arg(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    bool drop[SHAPE_RANK_MAX] = { 0 };
    struct shape s;
    int axis, rc;

    if (x->rank < 0) {
        op_set(o, 0, TENSOR_I64, NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    drop[axis] = true;
    s = reduced(x, drop, op_int(o, "keepdims", 1) != 0);
    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_topk(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t k = op_int(o, "k", -1);
    const struct elems *e = op_known_ints(o, 1);
    int axis, rc;

    if (s.rank > 0) {
        rc = op_axis(o, op_int(o, "axis", -1), s.rank, &axis);
        if (rc)
            return rc;
        if (e && e->n == 1)
            k = dim_of_elem(e->i[0]);
        if (k >= 0 && s.dim[axis] >= 0 && k > s.dim[axis])
            return op_fail(o, "wants the first %lld of %lld", (long long)k, (long long)s.dim[axis]);
        s.dim[axis] = MAX(k, (int64_t)DIM_OPEN);
    }
    op_set(o, 0, op_type(o, 0), &s);
    op_set(o, 1, TENSOR_I64, &s);
    return 0;
}

int infer_batch_norm(const struct op *o)
{
    op_same(o, 0, 0);
    for (uint32_t i = 1; i < o->n->nout; i++)
        op_set(o, i, op_type(o, 3), op_shape(o, 3));
    return 0;
}

/* LayerNormalization and the forms of it that ONNX Runtime has: the statistics have size 1 from
 * axis on, and the type of the computation. */
int infer_layer_norm(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t stash = op_int(o, "stash_type", TENSOR_F32);
    enum tensor_type type =
        stash > 0 && stash < TENSOR_NTYPES ? (enum tensor_type)stash : TENSOR_NONE;
    int axis, rc;

    op_same(o, 0, 0);
    if (s.rank > 0) {
        rc = op_axis(o, op_int(o, "axis", -1), s.rank, &axis);
        if (rc)
            return rc;
        for (int i = axis; i < s.rank; i++)
            s.dim[i] = 1;
    } else
        s.rank = -1;
    op_set(o, 1, type, &s);
    op_set(o, 2, type, &s);
    return 0;
}

/* com.microsoft's SkipLayerNormalization: output 3 is the sum that was normalised. */
int infer_skip_layer_norm(const struct op *o)
{
    int rc = infer_layer_norm(o);

    op_same(o, 3, 0);
    return rc;
}

/* com.microsoft's EmbedLayerNormalization: input_ids [B, S], ..., word embedding [V, D]. */
int infer_embed_layer_norm(const struct op *o)
{
    const struct shape *ids = op_shape(o, 0), *word = op_shape(o, 2);
    struct shape s = shape_of_rank(3), mask = shape_of_rank(1);

    if (ids->rank == 2) {
        s.dim[0] = mask.dim[0] = ids->dim[0];
        s.dim[1] = ids->dim[1];
    }
    if (word->rank == 2)
        s.dim[2] = word->dim[1];
    op_set(o, 0, op_type(o, 2), &s);
    op_set(o, 1, TENSOR_I32, &mask);
    op_set(o, 2, op_type(o, 2), &s);
    return 0;
}

static bool reduces(const struct op *o)
{
    return strcmp(node_attr_str(o->n, "reduction", "mean"), "none") != 0;
}

int infer_nll_loss(const struct op *o)
{
    struct shape scalar = shape_scalar();

    op_set(o, 0, op_type(o, 0), reduces(o) ? &scalar : op_shape(o, 1));
    return 0;
}

int infer_softmax_loss(const struct op *o)
{
    int rc = infer_nll_loss(o);

    op_same(o, 1, 0);
    return rc;
}

int infer_window(const struct op *o)
{
    int64_t type = op_int(o, "output_datatype", TENSOR_F32), n;
    struct shape s = shape_1d(op_known_int(o, 0, &n) && n >= 0 ? n : DIM_OPEN);

    op_set(o, 0, type > 0 && type < TENSOR_NTYPES ? (enum tensor_type)type : TENSOR_NONE, &s);
    return 0;
}

int infer_mel_weights(const struct op *o)
{
    int64_t type = op_int(o, "output_datatype", TENSOR_F32), bins, length;
    struct shape s = shape_of_rank(2);

    if (op_known_int(o, 1, &length) && length >= 0)
        s.dim[0] = length / 2 + 1;
    if (op_known_int(o, 0, &bins) && bins >= 0)
        s.dim[1] = bins;
    op_set(o, 0, type > 0 && type < TENSOR_NTYPES ? (enum tensor_type)type : TENSOR_NONE, &s);
    return 0;
}

int infer_dft(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t axis = o->n->opset >= 20 ? -2 : op_int(o, "axis", 1), length;
    bool onesided = op_int(o, "onesided", 0) != 0, inverse = op_int(o, "inverse", 0) != 0;
    int at, rc;

    if (s.rank < 2 || (op_has(o, 2) && !op_known_int(o, 2, &axis))) {
        s = s.rank < 2 ? shape_unknown() : shape_of_rank(s.rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    rc = op_axis(o, axis, s.rank, &at);
    if (rc)
        return rc;
    if (op_has(o, 1))
        s.dim[at] = op_known_int(o, 1, &length) && length >= 0 ? length : DIM_OPEN;
    s.dim[s.rank - 1] = 2;
    if (onesided && inverse) {
        s.dim[at] = s.dim[s.rank - 1] = DIM_OPEN; /* opsets differ */
    } else if (onesided && s.dim[at] >= 0)
        s.dim[at] = s.dim[at] / 2 + 1;
    else if (onesided)
        s.dim[at] = DIM_OPEN;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_stft(const struct op *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape s = shape_of_rank(4);
    int64_t step, length = DIM_OPEN;

    if (x->rank >= 2)
        s.dim[0] = x->dim[0];
    s.dim[3] = 2;
    if (op_has(o, 3))
        op_known_int(o, 3, &length);
    else if (op_rank(o, 2) == 1)
        length = op_shape(o, 2)->dim[0];
    if (length >= 0)
        s.dim[2] = op_int(o, "onesided", 1) ? length / 2 + 1 : length;
    if (length >= 0 && x->rank >= 2 && x->dim[1] >= length && op_known_int(o, 1, &step) && step > 0)
        s.dim[1] = (x->dim[1] - length) / step + 1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* NonMaxSuppression finds as many boxes as it finds. */
int infer_nms(const struct op *o)
{
    struct shape s = { 2, { DIM_OPEN, 3 } };

    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_tfidf(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    size_t len;
    const int64_t *at = node_attr_ints(o->n, "ngram_indexes", &len);
    int64_t most = -1;

    for (size_t i = 0; at && i < len; i++)
        most = MAX(most, at[i]);
    if (s.rank == 1 || s.rank == 2)
        s.dim[s.rank - 1] = most >= 0 && most < INT64_MAX ? most + 1 : DIM_OPEN;
    else
        s.rank = -1;
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_string_normalizer(const struct op *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank > 0 && node_attr(o->n, "stopwords"))
        s.dim[s.rank - 1] = DIM_OPEN;
    op_set(o, 0, TENSOR_STRING, &s);
    return 0;
}

/* ai.onnx.ml */

int infer_ml_float(const struct op *o)
{
    op_set(o, 0, TENSOR_F32, op_shape(o, 0));
    return 0;
}

int infer_ml_regressor(const struct op *o)
{
    struct shape s = shape_of_rank(2);
    int64_t n = op_int(o, "n_targets", op_int(o, "targets", 1));

    if (op_rank(o, 0) == 2)
        s.dim[0] = op_shape(o, 0)->dim[0];
    s.dim[1] = MAX(n, (int64_t)DIM_OPEN);
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_ml_classifier(const struct op *o)
{
    const struct attr *text = node_attr(o->n, "classlabels_strings");
    const struct attr *ints = node_attr(o->n, "classlabels_int64s");
    struct shape label = shape_of_rank(1), score = shape_of_rank(2);
    bool strings;

    if (!ints)
        ints = node_attr(o->n, "classlabels_ints");
    strings = text && text->n > 0;
    if (op_rank(o, 0) == 2)
        label.dim[0] = score.dim[0] = op_shape(o, 0)->dim[0];
    if (strings)
        score.dim[1] = (int64_t)text->n;
    else if (ints)
        score.dim[1] = (int64_t)ints->n;
    op_set(o, 0, strings ? TENSOR_STRING : TENSOR_I64, &label);
    op_set(o, 1, TENSOR_F32, &score);
    return 0;
}
