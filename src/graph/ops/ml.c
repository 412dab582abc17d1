/* ml.c -- ai.onnx.ml: classical models. */
#include "graph/infer_int.h"

#include <string.h>

int infer_ml_float(const struct opview *o)
{
    op_set(o, 0, TENSOR_F32, op_shape(o, 0));
    return 0;
}

/* Rows of an operand that is a matrix, or one row of it. */
static int64_t rows_of(const struct shape *s)
{
    return s->rank == 2 ? s->dim[0] : s->rank == 1 ? 1 : DIM_OPEN;
}

static size_t list_len(const struct node *n, const char *name)
{
    const struct attr *a = node_attr(n, name);

    return a ? a->n : 0;
}

int infer_ml_regressor(const struct opview *o)
{
    struct shape s = shape_of_rank(2);
    int64_t n = op_int(o, "n_targets", op_int(o, "targets", 1));

    s.dim[0] = rows_of(op_shape(o, 0));
    s.dim[1] = MAX(n, (int64_t)DIM_OPEN);
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_ml_tree(const struct opview *o)
{
    struct shape s = shape_of_rank(2);

    s.dim[0] = rows_of(op_shape(o, 0));
    s.dim[1] = MAX(op_int(o, "n_targets", 1), (int64_t)DIM_OPEN);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

static int classifier(const struct opview *o, int64_t scores)
{
    struct shape label = shape_of_rank(1), score = shape_of_rank(2);

    label.dim[0] = score.dim[0] = rows_of(op_shape(o, 0));
    score.dim[1] = scores;
    op_set(o, 0, list_len(o->n, "classlabels_strings") ? TENSOR_STRING : TENSOR_I64, &label);
    op_set(o, 1, TENSOR_F32, &score);
    return 0;
}

static int64_t class_count(const struct node *n)
{
    size_t strings = list_len(n, "classlabels_strings"), ints = list_len(n, "classlabels_int64s");

    return (int64_t)(strings ? strings : ints ? ints : list_len(n, "classlabels_ints"));
}

int infer_ml_classifier(const struct opview *o)
{
    int64_t n = class_count(o->n), one = (int64_t)list_len(o->n, "intercepts");

    return classifier(o, n ? n : one ? one : DIM_OPEN);
}

/* Scores of pairs of classes, unless there are probabilities of the classes. */
int infer_ml_svm_classifier(const struct opview *o)
{
    int64_t n = class_count(o->n);

    if (list_len(o->n, "vectors_per_class") && !list_len(o->n, "prob_a") && n > 2)
        n = dim_mul(n, n - 1) / 2;
    return classifier(o, n ? n : DIM_OPEN);
}

int infer_ml_pick(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    const struct shape *y = op_shape(o, 1);

    if (s.rank < 0) {
        op_set(o, 0, op_type(o, 0), NULL);
        return 0;
    }
    if (s.rank == 0)
        return op_fail(o, "has nothing to pick from a scalar");
    if (s.rank == 1) /* one row of it */
        s = (struct shape){ 2, { 1, DIM_OPEN } };
    s.dim[s.rank - 1] = shape_concrete(y) ? shape_count(y) : DIM_OPEN;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Strings become numbers, and numbers strings. */
int infer_ml_category(const struct opview *o)
{
    enum tensor_type t = op_type(o, 0);

    op_set(o, 0,
           t == TENSOR_NONE     ? TENSOR_NONE
           : t == TENSOR_STRING ? TENSOR_I64
                                : TENSOR_STRING,
           op_shape(o, 0));
    return 0;
}

static enum tensor_type attr_type(const struct attr *a)
{
    switch (a ? a->type : ATTR_NONE) {
    case ATTR_STRINGS:
        return TENSOR_STRING;
    case ATTR_INTS:
        return TENSOR_I64;
    case ATTR_FLOATS:
        return TENSOR_F32;
    case ATTR_TENSOR:
        return a->tensor->type;
    default:
        return TENSOR_NONE;
    }
}

int infer_ml_label(const struct opview *o)
{
    static const char *const values[] = { "values_strings", "values_int64s", "values_floats",
                                          "values_tensor" };
    enum tensor_type t = TENSOR_NONE;

    if (list_len(o->n, "classes_strings"))
        return infer_ml_category(o);
    for (size_t i = 0; i < ARRAY_SIZE(values) && !t; i++)
        t = attr_type(node_attr(o->n, values[i]));
    op_set(o, 0, t, op_shape(o, 0));
    return 0;
}

int infer_ml_one_hot(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    size_t strings = list_len(o->n, "cats_strings");

    if (s.rank >= 0 && s.rank < SHAPE_RANK_MAX)
        s.dim[s.rank++] = (int64_t)(strings ? strings : list_len(o->n, "cats_int64s"));
    else
        s.rank = -1;
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_ml_features(const struct opview *o)
{
    size_t len;
    const int64_t *dims = node_attr_ints(o->n, "inputdimensions", &len);
    struct shape s = shape_of_rank(2);

    s.dim[0] = rows_of(op_shape(o, 0));
    s.dim[1] = 0;
    for (size_t i = 0; i < len; i++)
        s.dim[1] = dims[i] < 0 ? DIM_OPEN : dim_add(s.dim[1], dims[i]);
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_ml_dict(const struct opview *o)
{
    size_t strings = list_len(o->n, "string_vocabulary");
    struct shape s = { 2,
                       { 1, (int64_t)(strings ? strings : list_len(o->n, "int64_vocabulary")) } };

    /* What a map holds, its value does not tell; the model declares it. */
    op_set(o, 0, TENSOR_NONE, &s);
    return 0;
}

int infer_ml_cast_map(const struct opview *o)
{
    const char *to = node_attr_str(o->n, "cast_to", "TO_FLOAT");
    const char *form = node_attr_str(o->n, "map_form", "DENSE");
    struct shape s = { 2, { 1, DIM_OPEN } };

    if (strcmp(form, "SPARSE") == 0)
        s.dim[1] = op_int(o, "max_map", 1);
    op_set(o, 0,
           strcmp(to, "TO_STRING") == 0  ? TENSOR_STRING
           : strcmp(to, "TO_INT64") == 0 ? TENSOR_I64
                                         : TENSOR_F32,
           &s);
    return 0;
}

/* A sequence of maps from classes to scores, one for each row. */
int infer_ml_zip(const struct opview *o)
{
    op_set(o, 0, TENSOR_F32, NULL);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

/* For each row twice the numbers of a list, which all of its features are multiplied by. */
static int64_t flops_list(const struct graph *g, const struct node *n, const char *list, int cost)
{
    const struct shape *s = node_in_shape(g, n, 0);
    int64_t rows = s ? rows_of(s) : -1;

    return count_mul(rows, count_mul((int64_t)list_len(n, list), cost));
}

int64_t flops_ml_linear(const struct graph *g, const struct node *n, int cost)
{
    return flops_list(g, n, "coefficients", cost);
}

int64_t flops_ml_svm(const struct graph *g, const struct node *n, int cost)
{
    return flops_list(g, n, list_len(n, "support_vectors") ? "support_vectors" : "coefficients",
                      cost);
}
