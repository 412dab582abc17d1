/* quant.c -- quantisation, and quantised operators of com.microsoft. */
#include "graph/ops/args.h"

/* Quantisation: the result has the type of the zero point. */
int infer_quantize(const struct opview *o)
{
    enum tensor_type type = op_type(o, 2);
    int rc;

    if (type == TENSOR_NONE && op_has(o, 2)) {
        op_set(o, 0, TENSOR_NONE, op_shape(o, 0));
        return 0;
    }
    rc = op_type_attr(o, "output_dtype", type != TENSOR_NONE ? type : TENSOR_U8, &type);
    if (rc)
        return rc;
    if (type == TENSOR_NONE) /* an attribute of 0 means that it is not given */
        type = op_has(o, 2) ? op_type(o, 2) : TENSOR_U8;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dequantize(const struct opview *o)
{
    enum tensor_type type = o->n->opset >= 19 || o->n->domain[0] ? op_type(o, 1) : TENSOR_F32;
    int64_t given = op_int(o, "output_dtype", 0);

    if (given > 0 && given < TENSOR_NTYPES)
        type = (enum tensor_type)given;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dynamic_quantize(const struct opview *o)
{
    struct shape scalar = shape_scalar();

    op_set(o, 0, TENSOR_U8, op_shape(o, 0));
    op_set(o, 1, TENSOR_F32, &scalar);
    op_set(o, 2, TENSOR_U8, &scalar);
    return 0;
}

/* com.microsoft's QLinearAdd, QLinearMul: a, a_scale, a_zero, b, ... */
int infer_qlinear_binary(const struct opview *o)
{
    struct shape s;
    int rc = op_broadcast(o, op_shape(o, 0), op_shape(o, 3), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, op_has(o, 7) ? 7 : 0), &s);
    return 0;
}

/* com.microsoft's QLinearSigmoid and the like: x, its scale and zero point, then the result's. */
int infer_qlinear_unary(const struct opview *o)
{
    op_set(o, 0, op_type(o, op_has(o, 4) ? 4 : 0), op_shape(o, 0));
    return 0;
}

/* com.microsoft's QLinearWhere: condition, x, its scale and zero point, y and its, the result's. */
int infer_qlinear_where(const struct opview *o)
{
    struct shape s, both;
    int rc = op_broadcast(o, op_shape(o, 0), op_shape(o, 1), &s);

    if (!rc)
        rc = op_broadcast(o, &s, op_shape(o, 4), &both);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, op_has(o, 8) ? 8 : 1), &both);
    return 0;
}

int qmean_axes(const struct opview *o, int rank, bool *on)
{
    size_t n;
    const int64_t *axes = node_attr_ints(o->n, "axes", &n);
    int rc = 0, axis;

    for (int i = 0; i < rank; i++)
        on[i] = n == 0;
    for (size_t i = 0; i < n && !rc; i++) {
        rc = op_axis(o, axes[i], rank, &axis);
        if (!rc)
            on[axis] = true;
    }
    return rc;
}

int infer_qlinear_mean(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    bool on[SHAPE_RANK_MAX], keep = op_int(o, "keepdims", 1) != 0;
    struct shape s = shape_unknown();
    int rc = x->rank < 0 ? 0 : qmean_axes(o, x->rank, on);

    if (rc)
        return rc;
    if (x->rank >= 0)
        s.rank = 0;
    for (int i = 0; i < x->rank; i++)
        if (!on[i] || keep)
            s.dim[s.rank++] = on[i] ? 1 : x->dim[i];
    op_set(o, 0, op_type(o, op_has(o, 4) ? 4 : 0), &s);
    return 0;
}
