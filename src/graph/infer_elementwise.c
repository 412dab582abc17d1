/* infer_elementwise.c -- operators that work element by element, with broadcasting. */
#include "graph/infer_int.h"

#include <string.h>

int infer_same(const struct op *o)
{
    op_same(o, 0, 0);
    return 0;
}

/* Identity keeps whatever its input is, and knows what is known about it. */
int infer_identity(const struct op *o)
{
    const struct value *from = node_in(o->g, o->n, 0);
    struct value *to = node_out(o->g, o->n, 0);

    op_same(o, 0, 0);
    if (!from || !to)
        return 0;
    to->kind = from->kind;
    if (from->data) {
        to->data = from->data;
        to->flags |= VALUE_FOLDED;
    }
    o->g->known[o->n->out[0]] = o->g->known[o->n->in[0]];
    return 0;
}

/* Same shape, but true or false. */
int infer_test(const struct op *o)
{
    op_set(o, 0, TENSOR_BOOL, op_shape(o, 0));
    return 0;
}

/* Before opset 7 the second operand was fitted into the first by attributes. */
static bool old_broadcast(const struct op *o)
{
    return o->n->domain[0] == '\0' && o->n->opset < 7;
}

static int broadcast_pair(const struct op *o, struct shape *s)
{
    if (old_broadcast(o)) {
        *s = *op_shape(o, 0);
        return 0;
    }
    return op_broadcast(o, op_shape(o, 0), op_shape(o, 1), s);
}

int infer_binary(const struct op *o)
{
    enum tensor_type type = op_type(o, 0);
    struct shape s;
    int rc = broadcast_pair(o, &s);

    if (rc)
        return rc;
    if (type == TENSOR_NONE && strcmp(o->n->op_type, "Pow") != 0)
        type = op_type(o, 1);
    op_set(o, 0, type, &s);
    return 0;
}

int infer_compare(const struct op *o)
{
    struct shape s;
    int rc = broadcast_pair(o, &s);

    if (rc)
        return rc;
    op_set(o, 0, TENSOR_BOOL, &s);
    return 0;
}

/* Any number of operands: Max, Min, Sum, Mean. */
int infer_variadic(const struct op *o)
{
    struct shape s = *op_shape(o, 0);
    enum tensor_type type = op_type(o, 0);
    int rc = 0;

    for (uint32_t i = 1; !rc && i < o->n->nin && !(o->n->opset < 8); i++) {
        rc = op_broadcast(o, &s, op_shape(o, i), &s);
        if (type == TENSOR_NONE)
            type = op_type(o, i);
    }
    if (rc)
        return rc;
    op_set(o, 0, type, &s);
    return 0;
}

int infer_where(const struct op *o)
{
    enum tensor_type type = op_type(o, 1);
    struct shape s;
    int rc = op_broadcast(o, op_shape(o, 1), op_shape(o, 2), &s);

    if (!rc)
        rc = op_broadcast(o, op_shape(o, 0), &s, &s);
    if (rc)
        return rc;
    op_set(o, 0, type != TENSOR_NONE ? type : op_type(o, 2), &s);
    return 0;
}

/* A type given as an attribute; 0 or unknown numbers are an error. */
static int type_attr(const struct op *o, const char *name, enum tensor_type missing,
                     enum tensor_type *out)
{
    int64_t t = op_int(o, name, missing);

    if (t < 0 || t >= TENSOR_NTYPES)
        return op_fail(o, "attribute '%s' is %lld, which is no element type", name, (long long)t);
    *out = (enum tensor_type)t;
    return 0;
}

int infer_cast(const struct op *o)
{
    enum tensor_type type = TENSOR_NONE;
    int rc = type_attr(o, "to", TENSOR_NONE, &type);

    if (rc)
        return rc;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_cast_like(const struct op *o)
{
    op_set(o, 0, op_type(o, 1), op_shape(o, 0));
    return 0;
}

/* Same shape; the type is an attribute, or else the input's: EyeLike, RandomNormalLike, ... */
int infer_same_dtype(const struct op *o)
{
    enum tensor_type type = TENSOR_NONE;
    int rc = type_attr(o, "dtype", op_type(o, 0), &type);

    if (rc)
        return rc;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dropout(const struct op *o)
{
    op_same(o, 0, 0);
    op_set(o, 1, o->n->opset >= 10 ? TENSOR_BOOL : op_type(o, 0), op_shape(o, 0));
    return 0;
}

int infer_random(const struct op *o)
{
    size_t len;
    const int64_t *dims = node_attr_ints(o->n, "shape", &len);
    struct shape s = { 0 };
    enum tensor_type type = TENSOR_NONE;
    int rc = type_attr(o, "dtype", TENSOR_F32, &type);

    if (rc)
        return rc;
    if (!dims || len > SHAPE_RANK_MAX)
        return 0;
    for (size_t i = 0; i < len; i++) {
        if (dims[i] < 0)
            return op_fail(o, "attribute 'shape' has dimension %lld", (long long)dims[i]);
        s.dim[s.rank++] = dims[i];
    }
    op_set(o, 0, type, &s);
    return 0;
}

int infer_multinomial(const struct op *o)
{
    struct shape s = shape_of_rank(2);
    enum tensor_type type = TENSOR_NONE;
    int rc = type_attr(o, "dtype", TENSOR_I32, &type);

    if (rc)
        return rc;
    if (op_rank(o, 0) == 2)
        s.dim[0] = op_shape(o, 0)->dim[0];
    s.dim[1] = op_int(o, "sample_size", 1);
    op_set(o, 0, type, &s);
    return 0;
}

/* Quantisation: the result has the type of the zero point. */
int infer_quantize(const struct op *o)
{
    enum tensor_type type = op_type(o, 2);
    int rc;

    if (type == TENSOR_NONE && op_has(o, 2)) {
        op_set(o, 0, TENSOR_NONE, op_shape(o, 0));
        return 0;
    }
    rc = type_attr(o, "output_dtype", type != TENSOR_NONE ? type : TENSOR_U8, &type);
    if (rc)
        return rc;
    if (type == TENSOR_NONE) /* an attribute of 0 means that it is not given */
        type = op_has(o, 2) ? op_type(o, 2) : TENSOR_U8;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dequantize(const struct op *o)
{
    enum tensor_type type = o->n->opset >= 19 || o->n->domain[0] ? op_type(o, 1) : TENSOR_F32;
    int64_t given = op_int(o, "output_dtype", 0);

    if (given > 0 && given < TENSOR_NTYPES)
        type = (enum tensor_type)given;
    op_set(o, 0, type, op_shape(o, 0));
    return 0;
}

int infer_dynamic_quantize(const struct op *o)
{
    struct shape scalar = shape_scalar();

    op_set(o, 0, TENSOR_U8, op_shape(o, 0));
    op_set(o, 1, TENSOR_F32, &scalar);
    op_set(o, 2, TENSOR_U8, &scalar);
    return 0;
}

/* com.microsoft's QLinearAdd, QLinearMul: a, a_scale, a_zero, b, ... */
int infer_qlinear_binary(const struct op *o)
{
    struct shape s;
    int rc = op_broadcast(o, op_shape(o, 0), op_shape(o, 3), &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Optimisers of ai.onnx.preview.training: after R and T come n tensors, their gradients, and one or
 * two states each; results are the tensors and states. */
int infer_optimizer(const struct op *o)
{
    bool adam = strcmp(o->n->op_type, "Adam") == 0;
    uint32_t groups = adam ? 4 : 3, n = o->n->nin >= 2 ? (o->n->nin - 2) / groups : 0;

    for (uint32_t i = 0; i < n; i++) {
        op_same(o, i, 2 + i);
        op_same(o, n + i, 2 + 2 * n + i);
        if (adam)
            op_same(o, 2 * n + i, 2 + 3 * n + i);
    }
    return 0;
}
