/* reshape.c -- operators that give the same elements another shape, or tell what a shape is. */
#include "engine/native/op/kernels.h"

#include <string.h>

/* The memory is the input's already (K_ALIAS). */
static int alias_shape(struct op *op, const struct shape *s, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    char a[100], b[100];

    if (shape_count(s) != in->count) {
        shape_text(&in->shape, a, sizeof(a));
        shape_text(s, b, sizeof(b));
        return kernel_fail(op, OPM_EINVAL, err, "%s cannot be reshaped to %s", a, b);
    }
    return kernel_set(op, 0, in->type, s, err);
}

int reshape_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t dim[SHAPE_RANK_MAX], known = 1;
    bool allow_zero = node_attr_int(op->node, "allowzero", 0);
    struct shape s = { 0 };
    int open = -1, rc = kernel_want(op, 0, TYPES_BYTES, err);
    size_t n;

    if (rc)
        return rc;
    if (op->node->opset < 5 || op->nin < 2) {
        const int64_t *a = node_attr_ints(op->node, "shape", &n);

        if (n > SHAPE_RANK_MAX)
            return kernel_fail(op, OPM_EINVAL, err, "shape of %zu dimensions", n);
        for (size_t i = 0; i < n; i++)
            dim[i] = a[i];
    } else {
        rc = kernel_ints(op, 1, dim, SHAPE_RANK_MAX, &n, err);
        if (rc)
            return rc;
    }
    s.rank = (int32_t)n;
    for (int32_t i = 0; i < s.rank; i++) {
        if (dim[i] < -1)
            return kernel_fail(op, OPM_EINVAL, err, "dimension %lld", (long long)dim[i]);
        if (dim[i] == 0 && !allow_zero && i >= in->shape.rank)
            return kernel_fail(op, OPM_EINVAL, err, "dimension %d is copied from nowhere", i);
        s.dim[i] = dim[i] == 0 && !allow_zero ? in->shape.dim[i] : dim[i];
        if (dim[i] == -1) {
            if (open >= 0)
                return kernel_fail(op, OPM_EINVAL, err, "two dimensions are -1");
            open = i;
        } else if (__builtin_mul_overflow(known, s.dim[i], &known))
            return kernel_fail(op, OPM_EINVAL, err, "the shape is too big");
    }
    if (open >= 0) {
        if (known == 0 || in->count % known)
            return kernel_fail(op, OPM_EINVAL, err, "%lld elements do not fit the shape",
                               (long long)in->count);
        s.dim[open] = in->count / known;
    }
    return alias_shape(op, &s, err);
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
    const struct nt *in = kernel_in(op, 0);
    int64_t axis = node_attr_int(op->node, "axis", 1);
    struct shape s = { .rank = 2 };
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (rc)
        return rc;
    if (axis < 0)
        axis += in->shape.rank;
    if (axis < 0 || axis > in->shape.rank)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    s.dim[0] = nt_span(&in->shape, 0, (int)axis);
    s.dim[1] = nt_span(&in->shape, (int)axis, in->shape.rank);
    return alias_shape(op, &s, err);
}

NOTHING(flatten)

/* Axes from the attribute (opset < 13) or input 1; *n 0 if neither is there. */
static int get_axes(struct op *op, int64_t *axes, size_t *n, opm_error *err)
{
    const int64_t *a = node_attr_ints(op->node, "axes", n);

    if (op->nin > 1 && kernel_in(op, 1))
        return kernel_ints(op, 1, axes, SHAPE_RANK_MAX, n, err);
    if (*n > SHAPE_RANK_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "%zu axes", *n);
    for (size_t i = 0; i < *n; i++)
        axes[i] = a[i];
    return 0;
}

int squeeze_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    bool drop[SHAPE_RANK_MAX] = { false };
    int64_t axes[SHAPE_RANK_MAX];
    struct shape s = { 0 };
    int rc = kernel_want(op, 0, TYPES_BYTES, err);
    size_t n;

    if (!rc)
        rc = get_axes(op, axes, &n, err);
    if (rc)
        return rc;
    for (size_t i = 0; i < n; i++) {
        int a = nt_axis(axes[i], in->shape.rank);

        if (a < 0 || in->shape.dim[a] != 1)
            return kernel_fail(op, OPM_EINVAL, err, "axis %lld cannot be squeezed",
                               (long long)axes[i]);
        drop[a] = true;
    }
    for (int32_t i = 0; i < in->shape.rank; i++)
        if (n ? !drop[i] : in->shape.dim[i] != 1)
            s.dim[s.rank++] = in->shape.dim[i];
    return alias_shape(op, &s, err);
}

NOTHING(squeeze)

int unsqueeze_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    bool add[SHAPE_RANK_MAX] = { false };
    int64_t axes[SHAPE_RANK_MAX];
    struct shape s = { 0 };
    int rc = kernel_want(op, 0, TYPES_BYTES, err);
    size_t n;

    if (!rc)
        rc = get_axes(op, axes, &n, err);
    if (rc)
        return rc;
    if (in->shape.rank + (int32_t)n > SHAPE_RANK_MAX)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "more than %d dimensions", SHAPE_RANK_MAX);
    s.rank = in->shape.rank + (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        int a = nt_axis(axes[i], s.rank);

        if (a < 0 || add[a])
            return kernel_fail(op, OPM_EINVAL, err, "axis %lld is out of range",
                               (long long)axes[i]);
        add[a] = true;
    }
    for (int32_t i = 0, k = 0; i < s.rank; i++)
        s.dim[i] = add[i] ? 1 : in->shape.dim[k++];
    return alias_shape(op, &s, err);
}

NOTHING(unsqueeze)

int identity_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_set(op, 0, kernel_in(op, 0)->type, &kernel_in(op, 0)->shape, err);
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
    rc = kernel_set(op, 0, kernel_in(op, 0)->type, &kernel_in(op, 0)->shape, err);
    if (rc)
        return rc;
    return kernel_set(op, 1, op->node->opset >= 10 ? TENSOR_BOOL : kernel_in(op, 0)->type,
                      &kernel_in(op, 0)->shape, err);
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
    const struct nt *in = kernel_in(op, 0);
    struct shape s = { .rank = 1 };

    if (!in)
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is missing");
    int64_t start = node_attr_int(op->node, "start", 0), rank = in->shape.rank;
    int64_t end = node_attr_int(op->node, "end", rank);

    start = MIN(MAX(start < 0 ? start + rank : start, (int64_t)0), rank);
    end = MIN(MAX(end < 0 ? end + rank : end, (int64_t)0), rank);
    s.dim[0] = MAX(end - start, (int64_t)0);
    return kernel_set(op, 0, TENSOR_I64, &s, err);
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
    struct shape s = { 0 };

    if (!kernel_in(op, 0))
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is missing");
    return kernel_set(op, 0, TENSOR_I64, &s, err);
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
    int64_t dim[SHAPE_RANK_MAX];
    struct shape s = { 0 };
    size_t n;
    int rc = kernel_ints(op, 0, dim, SHAPE_RANK_MAX, &n, err);

    if (rc)
        return rc;
    s.rank = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        if (dim[i] < 0)
            return kernel_fail(op, OPM_EINVAL, err, "dimension %lld", (long long)dim[i]);
        s.dim[i] = dim[i];
    }
    if (value && (value->count != 1 || tensor_type_bits(value->type) < 8))
        return kernel_fail(op, OPM_EINVAL, err, "value must be one element");
    return kernel_set(op, 0, value ? value->type : TENSOR_F32, &s, err);
}

int constantofshape_run(struct op *op, opm_error *err)
{
    const struct tensor *value = node_attr_tensor(op->node, "value");
    struct nt *out = kernel_out(op, 0);
    size_t w = nt_width(out->type);

    (void)err;
    if (!value) {
        memset(out->data, 0, out->bytes);
        return 0;
    }
    if (out->type != value->type) { /* 16-bit floating point is float32 here */
        for (int64_t i = 0; i < out->count; i++)
            ((float *)out->data)[i] = (float)tensor_float(value, 0);
        return 0;
    }
    for (int64_t i = 0; i < out->count; i++)
        memcpy((char *)out->data + (size_t)i * w, value->data, w);
    return 0;
}
