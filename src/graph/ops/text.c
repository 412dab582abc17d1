/* text.c -- operators on text. */
#include "graph/ops/ops.h"

int infer_tfidf(const struct opview *o)
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

int infer_string_normalizer(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank > 0 && node_attr(o->n, "stopwords"))
        s.dim[s.rank - 1] = DIM_OPEN;
    op_set(o, 0, TENSOR_STRING, &s);
    return 0;
}

/* How many pieces there are, only the text tells. */
int infer_string_split(const struct opview *o)
{
    const struct shape *s = op_shape(o, 0);
    struct shape pieces = s->rank >= 0 ? shape_stacked(s, DIM_OPEN, s->rank) : shape_unknown();

    op_set(o, 0, TENSOR_STRING, &pieces);
    op_set(o, 1, TENSOR_I64, s);
    return 0;
}

/* A row of tokens of each text; of no texts there are none, in place of the last dimension. */
int infer_tokenizer(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t n = shape_count(&s);

    if (s.rank == 0 || s.rank > 2)
        return op_fail(o, "wants one or two dimensions, not %d", s.rank);
    if (s.rank > 0 && n >= 0) {
        s.rank += n > 0;
        s.dim[s.rank - 1] = n > 0 ? DIM_OPEN : 0;
    } else
        s.rank = -1;
    op_set(o, 0, TENSOR_STRING, &s);
    return 0;
}
