/* ml.c -- ai.onnx.ml: classical models. */
#include "graph/ops/ops.h"

int infer_ml_float(const struct opview *o)
{
    op_set(o, 0, TENSOR_F32, op_shape(o, 0));
    return 0;
}

int infer_ml_regressor(const struct opview *o)
{
    struct shape s = shape_of_rank(2);
    int64_t n = op_int(o, "n_targets", op_int(o, "targets", 1));

    if (op_rank(o, 0) == 2)
        s.dim[0] = op_shape(o, 0)->dim[0];
    s.dim[1] = MAX(n, (int64_t)DIM_OPEN);
    op_set(o, 0, TENSOR_F32, &s);
    return 0;
}

int infer_ml_classifier(const struct opview *o)
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
