/* reshape.c -- operators that give the same elements another shape, or tell what a shape is. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <string.h>

int reshape_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

#define NOTHING(name)                             \
    int name##_run(struct op *op, opm_error *err) \
    {                                             \
        (void)op;                                 \
        (void)err;                                \
        return 0;                                 \
    }

NOTHING(reshape)

int flatten_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

NOTHING(flatten)

int squeeze_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

NOTHING(squeeze)

int unsqueeze_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

NOTHING(unsqueeze)

int identity_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

NOTHING(identity)

/* Inference only: everything passes, and the mask says so. */
int dropout_prepare(struct op *op, opm_error *err)
{
    const struct nt *ratio = kernel_in(op, 1), *training = kernel_in(op, 2);
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (rc)
        return rc;
    if (training) {
        if (!kernel_data(op, 2))
            return NEED_DATA;
        if (ratio && !kernel_data(op, 1))
            return NEED_DATA;
        if (training->count && nt_int(training, 0) &&
            (!ratio || (ratio->count && nt_float(ratio, 0) != 0)))
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "training mode is not supported");
    }
    return kernel_infer(op, err);
}

int dropout_run(struct op *op, opm_error *err)
{
    struct nt *mask = kernel_out(op, 1);

    (void)err;
    if (mask && mask->type == TENSOR_BOOL)
        memset(mask->data, 1, mask->bytes);
    else if (mask && mask->type == TENSOR_F32)
        for (int64_t i = 0; i < mask->count; i++)
            ((float *)mask->data)[i] = 1;
    else if (mask)
        memset(mask->data, 0, mask->bytes);
    return 0;
}

int shape_prepare(struct op *op, opm_error *err)
{
    if (!kernel_in(op, 0))
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is missing");
    return kernel_infer(op, err);
}

int shape_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t start = node_attr_int(op->node, "start", 0), rank = in->shape.rank;

    (void)err;
    start = MIN(MAX(start < 0 ? start + rank : start, (int64_t)0), rank);
    for (int64_t i = 0; i < out->count; i++)
        ((int64_t *)out->data)[i] = in->shape.dim[start + i];
    return 0;
}

int size_prepare(struct op *op, opm_error *err)
{
    return shape_prepare(op, err);
}

int size_run(struct op *op, opm_error *err)
{
    (void)err;
    *(int64_t *)kernel_out(op, 0)->data = kernel_in(op, 0)->count;
    return 0;
}

int constantofshape_prepare(struct op *op, opm_error *err)
{
    const struct tensor *value = node_attr_tensor(op->node, "value");
    int rc = kernel_want(op, 0, TYPES_INDEX, err);

    if (!rc && value && (value->count != 1 || tensor_type_bits(value->type) < 8))
        rc = kernel_fail(op, OPM_EINVAL, err, "value must be one element");
    return rc ? rc : kernel_infer(op, err);
}

int constantofshape_run(struct op *op, opm_error *err)
{
    const struct tensor *value = node_attr_tensor(op->node, "value");
    struct nt *out = kernel_out(op, 0);
    size_t w = nt_width(out->type);

    (void)err;
    if (!value)
        memset(out->data, 0, out->bytes);
    else if (out->type != value->type) /* 16-bit floating point is float32 here */
        fill_with(out->data, &(float){ (float)tensor_float(value, 0) }, w, out->count);
    else
        fill_with(out->data, value->data, w, out->count);
    return 0;
}
