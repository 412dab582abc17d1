/* signal.c -- transforms of signals and their windows. */
#include "graph/ops/known.h"

#include <math.h>

int infer_window(const struct opview *o)
{
    int64_t type = op_int(o, "output_datatype", TENSOR_F32), n;
    bool known = op_known_int(o, 0, &n);
    struct shape s = shape_1d(known ? n : DIM_OPEN);

    if (known && n < 0)
        return op_fail(o, "a size of %lld", (long long)n);
    op_set(o, 0, type > 0 && type < TENSOR_NTYPES ? (enum tensor_type)type : TENSOR_NONE, &s);
    return 0;
}

int infer_mel_weights(const struct opview *o)
{
    int64_t type = op_int(o, "output_datatype", TENSOR_F32), bins, length;
    struct shape s = shape_of_rank(2);

    if (op_known_int(o, 1, &length)) {
        if (length < 0)
            return op_fail(o, "a length of %lld", (long long)length);
        s.dim[0] = length / 2 + 1;
    }
    if (op_known_int(o, 0, &bins)) {
        if (bins < 0)
            return op_fail(o, "%lld bins", (long long)bins);
        s.dim[1] = bins;
    }
    op_set(o, 0, type > 0 && type < TENSOR_NTYPES ? (enum tensor_type)type : TENSOR_NONE, &s);
    return 0;
}

int infer_dft(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t axis = o->n->opset >= 20 ? -2 : op_int(o, "axis", 1), length;
    bool onesided = op_int(o, "onesided", 0) != 0, inverse = op_int(o, "inverse", 0) != 0;
    int at, rc;

    if (s.rank < 2 || (op_has(o, 2) && !op_known_int(o, 2, &axis))) {
        s = s.rank < 2 ? shape_unknown() : shape_of_rank(s.rank);
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    rc = op_axis(o, axis, s.rank, &at);
    if (rc)
        return rc;
    if (onesided && inverse && s.dim[at] >= 0) /* half a spectrum to real points */
        s.dim[at] = MAX(2 * (s.dim[at] - 1), (int64_t)0);
    else if (onesided && inverse)
        s.dim[at] = DIM_OPEN;
    if (op_has(o, 1))
        s.dim[at] = op_known_int(o, 1, &length) && length >= 0 ? length : DIM_OPEN;
    s.dim[s.rank - 1] = onesided && inverse ? 1 : 2;
    if (onesided && inverse) {
        op_set(o, 0, op_type(o, 0), &s);
        return 0;
    }
    if (onesided && s.dim[at] >= 0)
        s.dim[at] = s.dim[at] / 2 + 1;
    else if (onesided)
        s.dim[at] = DIM_OPEN;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_stft(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape s = shape_of_rank(4);
    int64_t step, length = DIM_OPEN;

    if (x->rank >= 2)
        s.dim[0] = x->dim[0];
    s.dim[3] = 2;
    if (op_has(o, 3))
        op_known_int(o, 3, &length);
    else if (op_rank(o, 2) == 1)
        length = op_shape(o, 2)->dim[0];
    if (length >= 0)
        s.dim[2] = op_int(o, "onesided", 1) ? length / 2 + 1 : length;
    if (length >= 0 && x->rank >= 2 && x->dim[1] >= length && op_known_int(o, 1, &step) && step > 0)
        s.dim[1] = (x->dim[1] - length) / step + 1;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* 5 L log2 L for each transform of length L */
int64_t flops_dft(const struct graph *g, const struct node *n, int cost)
{
    const struct shape *x = node_in_shape(g, n, 0);
    int64_t count = shape_count(x), axis = node_attr_int(n, "axis", n->opset >= 20 ? -2 : 1);
    int64_t length = shape_at(x, (int)MIN(MAX(axis, (int64_t)-16), (int64_t)16));

    (void)cost;
    if (count < 0 || length <= 0)
        return -1;
    return count_mul(count / MAX(shape_at(x, -1), (int64_t)1),
                     (int64_t)ceil(5 * log2((double)length + 1)));
}

int64_t flops_stft(const struct graph *g, const struct node *n, int cost)
{
    const struct value *y = node_out(g, n, 0);
    int64_t bins = y ? shape_at(&y->shape, 2) : -1, frames;

    (void)cost;
    if (bins <= 0)
        return -1;
    frames = count_mul(shape_at(&y->shape, 0), shape_at(&y->shape, 1));
    return count_mul(count_mul(frames, count_mul(bins, 2)),
                     (int64_t)ceil(5 * log2(2.0 * (double)bins)));
}
