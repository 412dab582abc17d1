/* sequence.c -- sequences and optionals. */
#include "graph/infer_int.h"

/* A sequence of what is in the inputs. */
int infer_sequence_construct(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    for (uint32_t i = 1; i < o->nin; i++)
        shape_join(&s, op_shape(o, i));
    op_set(o, 0, op_type(o, 0), &s);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

int infer_sequence_empty(const struct opview *o)
{
    int64_t t = op_int(o, "dtype", TENSOR_F32);

    op_set(o, 0, t > 0 && t < TENSOR_NTYPES ? (enum tensor_type)t : TENSOR_NONE, NULL);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

/* The sequence may have been empty, so its elements' shape says nothing. */
int infer_sequence_insert(const struct opview *o)
{
    struct shape s = *op_shape(o, 1);

    shape_join(&s, op_shape(o, 0));
    op_set(o, 0, op_type(o, 1), &s);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

int infer_sequence_same(const struct opview *o)
{
    op_same(o, 0, 0);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

int infer_sequence_at(const struct opview *o)
{
    op_same(o, 0, 0);
    return 0;
}

int infer_int_scalar(const struct opview *o)
{
    struct shape s = shape_scalar();

    op_set(o, 0, TENSOR_I64, &s);
    return 0;
}

int infer_bool_scalar(const struct opview *o)
{
    struct shape s = shape_scalar();

    op_set(o, 0, TENSOR_BOOL, &s);
    return 0;
}

int infer_split_to_sequence(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t one;
    int axis, rc;

    if (s.rank > 0) {
        rc = op_axis(o, op_int(o, "axis", 0), s.rank, &axis);
        if (rc)
            return rc;
        s.dim[axis] = DIM_OPEN;
        if (!op_has(o, 1) && op_int(o, "keepdims", 1))
            s.dim[axis] = 1;
        else if (!op_has(o, 1)) {
            for (int32_t i = axis; i + 1 < s.rank; i++)
                s.dim[i] = s.dim[i + 1];
            s.rank--;
        } else if (op_known_int(o, 1, &one) && op_rank(o, 1) == 0 && one > 0 &&
                   op_shape(o, 0)->dim[axis] >= 0 && op_shape(o, 0)->dim[axis] % one == 0)
            s.dim[axis] = one;
    }
    op_set(o, 0, op_type(o, 0), &s);
    infer_set_kind(o, 0, VALUE_SEQUENCE);
    return 0;
}

int infer_concat_from_sequence(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    bool new_axis = op_int(o, "new_axis", 0) != 0;
    int axis, rc;

    if (s.rank >= 0) {
        rc = op_axis(o, op_int(o, "axis", 0), s.rank + new_axis, &axis);
        if (rc)
            return rc;
        if (new_axis)
            s = shape_stacked(&s, DIM_OPEN, axis);
        else
            s.dim[axis] = DIM_OPEN;
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_optional(const struct opview *o)
{
    op_same(o, 0, 0);
    infer_set_kind(o, 0, VALUE_OPTIONAL);
    return 0;
}

/* What is inside an optional may be a tensor or a sequence, which its value does not tell. */
int infer_optional_get(const struct opview *o)
{
    const struct value *in = node_in(o->g, o->n, 0);
    struct value *out = node_out(o->g, o->n, 0);
    enum value_kind kind = out ? out->kind : VALUE_TENSOR;

    op_same(o, 0, 0);
    infer_set_kind(o, 0, in && in->kind != VALUE_OPTIONAL ? in->kind : kind);
    return 0;
}
