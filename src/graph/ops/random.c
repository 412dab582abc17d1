/* random.c -- random numbers. */
#include "graph/ops/ops.h"

int infer_random(const struct opview *o)
{
    size_t len;
    const int64_t *dims = node_attr_ints(o->n, "shape", &len);
    struct shape s = { 0 };
    enum tensor_type type = TENSOR_NONE;
    int rc = op_type_attr(o, "dtype", TENSOR_F32, &type);

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

int infer_multinomial(const struct opview *o)
{
    struct shape s = shape_of_rank(2);
    enum tensor_type type = TENSOR_NONE;
    int rc = op_type_attr(o, "dtype", TENSOR_I32, &type);

    if (rc)
        return rc;
    if (op_rank(o, 0) == 2)
        s.dim[0] = op_shape(o, 0)->dim[0];
    s.dim[1] = op_int(o, "sample_size", 1);
    op_set(o, 0, type, &s);
    return 0;
}
