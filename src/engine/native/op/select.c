/* select.c -- Trilu, OneHot, EyeLike, Range, Compress, NonZero, ReverseSequence: elements chosen or
 * made by position. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

int trilu_prepare(struct op *op, opm_error *err)
{
    const struct nt *k = kernel_in(op, 1);
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc && kernel_in(op, 0)->shape.rank < 2)
        rc = kernel_fail(op, OPM_EINVAL, err, "wants matrices");
    if (!rc && k && (k->type != TENSOR_I64 || k->count != 1))
        rc = kernel_fail(op, OPM_EINVAL, err, "k must be one int64");
    return rc ? rc : kernel_infer(op, err);
}

int trilu_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    bool upper = node_attr_int(op->node, "upper", 1);
    int32_t r = in->shape.rank;
    int64_t rows = in->shape.dim[r - 2], cols = in->shape.dim[r - 1],
            k = kernel_in(op, 1) ? *(const int64_t *)kernel_in(op, 1)->data : 0;
    size_t w = nt_width(in->type);
    char *out = kernel_out(op, 0)->data;

    (void)err;
    if (in->count == 0)
        return 0;
    memcpy(out, in->data, in->bytes);
    k = MIN(MAX(k, -rows - 1), cols + 1);
    for (int64_t i = 0; i < in->count / cols; i++) {
        int64_t cut = i % rows + k; /* upper keeps columns from here on, lower those up to here */
        int64_t from = upper ? 0 : MIN(MAX(cut + 1, (int64_t)0), cols),
                to = upper ? MIN(MAX(cut, (int64_t)0), cols) : cols;

        if (from < to)
            memset(out + (size_t)(i * cols + from) * w, 0, (size_t)(to - from) * w);
    }
    return 0;
}

int onehot_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_NUM, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_NUM, err);
    if (!rc)
        rc = kernel_want(op, 2, TYPES_BYTES, err);
    if (!rc && (kernel_in(op, 1)->count != 1 || kernel_in(op, 2)->count != 2 ||
                kernel_in(op, 0)->shape.rank == SHAPE_RANK_MAX))
        rc = kernel_fail(op, OPM_EINVAL, err, "depth and values do not fit");
    return rc ? rc : kernel_infer(op, err);
}

int onehot_run(struct op *op, opm_error *err)
{
    const struct nt *index = kernel_in(op, 0), *values = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", -1), out->shape.rank);
    int64_t n = out->shape.dim[axis], inner = nt_span(&out->shape, axis + 1, out->shape.rank);
    size_t w = nt_width(values->type);
    char *to = out->data;

    (void)err;
    fill_with(to, values->data, w, out->count);
    for (int64_t i = 0; out->count && i < index->count; i++) {
        int64_t k = nt_int(index, i);

        if (k < 0)
            k += n;
        if (k >= 0 && k < n)
            memcpy(to + (size_t)((i / inner * n + k) * inner + i % inner) * w,
                   (const char *)values->data + w, w);
    }
    return 0;
}

int eyelike_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t to;

    if (!in || in->shape.rank != 2)
        return kernel_fail(op, OPM_EINVAL, err, "wants a matrix");
    to = node_attr_int(op->node, "dtype", (int64_t)in->type);
    if (to <= 0 || to >= TENSOR_NTYPES || !(TYPE_BIT(to) & (TYPES_NUM | TYPE_BIT(TENSOR_BOOL))))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for type %lld", (long long)to);
    return kernel_infer(op, err);
}

int eyelike_run(struct op *op, opm_error *err)
{
    struct nt *out = kernel_out(op, 0);
    int64_t rows = out->shape.dim[0], cols = out->shape.dim[1], k = node_attr_int(op->node, "k", 0);
    size_t w = nt_width(out->type);
    char one[8];

    (void)err;
    memcpy(one,
           out->type == TENSOR_F32   ? (void *)&(float){ 1 }
           : out->type == TENSOR_F64 ? (void *)&(double){ 1 }
                                     : (void *)&(uint64_t){ 1 }, /* little-endian */
           w);
    k = MIN(MAX(k, -rows - 1), cols + 1);
    memset(out->data, 0, out->bytes);
    for (int64_t i = MAX(-k, (int64_t)0); i < MIN(rows, cols - k); i++)
        memcpy((char *)out->data + (size_t)(i * cols + i + k) * w, one, w);
    return 0;
}

int range_prepare(struct op *op, opm_error *err)
{
    const struct nt *t[3];

    for (uint32_t i = 0; i < 3; i++) {
        if (i == 2 && !kernel_in(op, 2)) /* com.microsoft's may leave it out */
            break;
        int rc = kernel_want(op, i, TYPES_NUM, err);

        if (rc)
            return rc;
        t[i] = kernel_in(op, i);
        if (t[i]->count != 1 || t[i]->type != t[0]->type)
            return kernel_fail(op, OPM_EINVAL, err, "wants three numbers of one type");
    }
    return kernel_infer(op, err);
}

int range_run(struct op *op, opm_error *err)
{
    const struct nt *a = kernel_in(op, 0), *d = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    int64_t step = d ? nt_int(d, 0) : 1;
    double by = d ? nt_float(d, 0) : 1;

    (void)err;
    for (int64_t i = 0; i < out->count; i++) {
        uint64_t v = (uint64_t)nt_int(a, 0) + (uint64_t)i * (uint64_t)step;

        switch (out->type) {
        case TENSOR_F32: /* as numpy and ONNX Runtime count */
            ((float *)out->data)[i] = (float)(nt_float(a, 0) + (double)i * by);
            break;
        case TENSOR_F64:
            ((double *)out->data)[i] = nt_float(a, 0) + (double)i * by;
            break;
        default:
            memcpy((char *)out->data + (size_t)i * nt_width(out->type), &v, nt_width(out->type));
        }
    }
    return 0;
}

int compress_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *cond = kernel_in(op, 1);
    const uint8_t *c;
    struct shape s = { .rank = 1 };
    int64_t n = 0, limit;
    int rc = kernel_want(op, 0, TYPES_BYTES, err), axis = -1;

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_BOOL), err);
    if (rc)
        return rc;
    limit = in->count;
    if (node_attr(op->node, "axis")) {
        axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
        if (axis < 0)
            return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
        limit = in->shape.dim[axis];
        s = in->shape;
    }
    c = kernel_data(op, 1);
    if (!c)
        return NEED_DATA;
    for (int64_t i = 0; i < cond->count; i++)
        if (c[i]) {
            if (i >= limit)
                return kernel_fail(op, OPM_EINVAL, err, "the condition is longer than the input");
            n++;
        }
    s.dim[MAX(axis, 0)] = n;
    return kernel_set(op, 0, in->type, &s, err);
}

int compress_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *cond = kernel_in(op, 1);
    const uint8_t *c = cond->data;
    bool flat = !node_attr(op->node, "axis");
    int axis = flat ? 0 : nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    int64_t outer = flat ? 1 : nt_span(&in->shape, 0, axis),
            n = flat ? in->count : in->shape.dim[axis];
    size_t inner =
        (flat ? 1 : (size_t)nt_span(&in->shape, axis + 1, in->shape.rank)) * nt_width(in->type);
    char *to = kernel_out(op, 0)->data;

    (void)err;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < MIN(n, cond->count); i++)
            if (c[i]) {
                memcpy(to, (const char *)in->data + (size_t)(o * n + i) * inner, inner);
                to += inner;
            }
    return 0;
}

#define FLAGS 512

/* Which of n <= FLAGS elements from the first on are not 0, as bytes, and how many. */
static int64_t nonzero_flags(const struct op *op, int64_t first, int64_t n, uint8_t *flag)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t found = 0;

    kernel_isa(op)->rows->cast[in->type][TENSOR_BOOL](
        flag, (const char *)in->data + first * (int64_t)nt_width(in->type), n);
    for (int64_t i = 0; i < n; i++)
        found += flag[i];
    return found;
}

int nonzero_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct shape s = { .rank = 2 };
    uint8_t flag[FLAGS];
    int rc = kernel_want(op, 0, TYPES_NUM | TYPE_BIT(TENSOR_BOOL), err);

    if (rc)
        return rc;
    if (!kernel_data(op, 0))
        return NEED_DATA;
    s.dim[0] = in->shape.rank; /* 0 for a scalar, unlike NumPy's */
    for (int64_t i = 0; i < in->count; i += FLAGS)
        s.dim[1] += nonzero_flags(op, i, MIN(in->count - i, (int64_t)FLAGS), flag);
    return kernel_set(op, 0, TENSOR_I64, &s, err);
}

/* Places come row by row: coordinates but the last are those of the row. */
int nonzero_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int32_t last = in->shape.rank - 1;
    int64_t *to = out->data, n = out->shape.dim[1], k = 0, idx[SHAPE_RANK_MAX] = { 0 },
            row = last >= 0 ? in->shape.dim[last] : 0;
    uint8_t flag[FLAGS];

    (void)err;
    for (int64_t base = 0; row && base < in->count && k < n; base += row) {
        int64_t begin = k;

        for (int64_t i = 0; i < row; i += FLAGS) {
            int64_t m = MIN(row - i, (int64_t)FLAGS), *at = to + last * n;

            nonzero_flags(op, base + i, m, flag);
            for (int64_t q = 0; q < m && k < n; q++) { /* what stays is written last */
                at[k] = i + q;
                k += flag[q];
            }
        }
        for (int32_t d = 0; d < last; d++)
            for (int64_t q = begin; q < k; q++)
                to[d * n + q] = idx[d];
        for (int32_t d = last - 1; d >= 0; d--) {
            if (++idx[d] < in->shape.dim[d])
                break;
            idx[d] = 0;
        }
    }
    return 0;
}

int reversesequence_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *len = kernel_in(op, 1);
    int64_t b = node_attr_int(op->node, "batch_axis", 1),
            t = node_attr_int(op->node, "time_axis", 0);
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    if (rc)
        return rc;
    if (in->shape.rank < 2 || b < 0 || t < 0 || b > 1 || t > 1 || b == t ||
        len->count != in->shape.dim[b])
        return kernel_fail(op, OPM_EINVAL, err, "axes or lengths do not fit");
    return kernel_infer(op, err);
}

int reversesequence_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    const int64_t *len = kernel_in(op, 1)->data;
    bool time_first = node_attr_int(op->node, "time_axis", 0) == 0;
    int64_t d0 = in->shape.dim[0], d1 = in->shape.dim[1], n = time_first ? d0 : d1;
    size_t inner = (size_t)nt_span(&in->shape, 2, in->shape.rank) * nt_width(in->type);

    for (int64_t i = 0; i < d0; i++)
        for (int64_t k = 0; k < d1; k++) {
            int64_t t = time_first ? i : k, l = len[time_first ? k : i], from;

            if (l < 0 || l > n)
                return kernel_fail(op, OPM_EINVAL, err, "length %lld of %lld", (long long)l,
                                   (long long)n);
            from = t < l ? l - 1 - t : t;
            if (inner)
                memcpy((char *)kernel_out(op, 0)->data + (size_t)(i * d1 + k) * inner,
                       (const char *)in->data +
                           (size_t)(time_first ? from * d1 + k : i * d1 + from) * inner,
                       inner);
        }
    return 0;
}
