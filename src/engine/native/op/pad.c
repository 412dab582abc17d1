/* pad.c -- Pad, in all its modes. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <string.h>

enum pad_mode { PAD_CONSTANT, PAD_REFLECT, PAD_EDGE, PAD_WRAP };

struct pad {
    enum pad_mode mode;
    int64_t before[SHAPE_RANK_MAX];
};

int pad_prepare(struct op *op, opm_error *err)
{
    const char *mode = node_attr_str(op->node, "mode", "constant");
    struct pad *p = kernel_new_state(op, sizeof(*p));
    int64_t after[SHAPE_RANK_MAX];
    bool known = false;
    struct view v;
    const struct shape *s;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!p)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    s = &kernel_in(op, 0)->shape;
    view_begin(&v, op, err);
    rc = pad_read(&v.base, s->rank, p->before, after, &known);
    view_end(&v);
    if (rc || !known)
        return rc ? rc : NEED_DATA;
    p->mode = strcmp(mode, "reflect") == 0 ? PAD_REFLECT
              : strcmp(mode, "edge") == 0  ? PAD_EDGE
              : strcmp(mode, "wrap") == 0  ? PAD_WRAP
                                           : PAD_CONSTANT;
    for (int32_t i = 0; i < s->rank; i++) {
        if (p->before[i] < -s->dim[i])
            return kernel_fail(op, OPM_EINVAL, err, "pads of dimension %d do not fit", i);
        if (p->mode != PAD_CONSTANT && s->dim[i] == 0 && (p->before[i] || after[i]))
            return kernel_fail(op, OPM_EINVAL, err, "nothing to pad from in dimension %d", i);
    }
    if (kernel_in(op, 2) &&
        (kernel_in(op, 2)->type != kernel_in(op, 0)->type || kernel_in(op, 2)->count < 1))
        return kernel_fail(op, OPM_EINVAL, err, "the constant is not of the input's type");
    return kernel_infer(op, err);
}

/* Where element i of a padded row comes from; -1: the constant. */
static int64_t source(enum pad_mode mode, int64_t i, int64_t n)
{
    if (i >= 0 && i < n)
        return i;
    switch (mode) {
    case PAD_EDGE:
        return i < 0 ? 0 : n - 1;
    case PAD_WRAP:
        return (i % n + n) % n;
    case PAD_REFLECT: {
        int64_t period = 2 * (n - 1);

        if (n == 1)
            return 0;
        i = (i % period + period) % period;
        return i < n ? i : period - i;
    }
    default:
        return -1;
    }
}

int pad_run(struct op *op, opm_error *err)
{
    const struct pad *p = op->state;
    const struct nt *in = kernel_in(op, 0), *value = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    int64_t idx[SHAPE_RANK_MAX] = { 0 }, stride[SHAPE_RANK_MAX], step = 1;
    int32_t rank = out->shape.rank, last = rank - 1;
    size_t w = nt_width(in->type);
    char fill[16] = { 0 };
    char *to = out->data;

    (void)err;
    if (out->count == 0)
        return 0;
    if (value)
        memcpy(fill, value->data, w);
    else if (in->type == TENSOR_F32)
        memcpy(fill, &(float){ node_attr_float(op->node, "value", 0) }, 4);
    else if (in->type == TENSOR_F64)
        memcpy(fill, &(double){ (double)node_attr_float(op->node, "value", 0) }, 8);
    if (rank == 0) {
        memcpy(to, in->data, w);
        return 0;
    }
    for (int32_t i = last; i >= 0; i--) {
        stride[i] = step;
        step *= in->shape.dim[i];
    }
    for (int64_t row = 0; row < out->count / out->shape.dim[last]; row++) {
        int64_t at = 0, n = in->shape.dim[last], b = p->before[last];
        bool inside = true;

        for (int32_t i = 0; i < last && inside; i++) {
            int64_t s = source(p->mode, idx[i] - p->before[i], in->shape.dim[i]);

            inside = s >= 0;
            at += s * stride[i];
        }
        for (int64_t x = 0; x < out->shape.dim[last];) {
            int64_t s = inside ? source(p->mode, x - b, n) : -1, len = 1;

            if (s >= 0 && x - b == s) { /* the run that is not padding */
                len = MIN(n - s, out->shape.dim[last] - x);
                memcpy(to, (const char *)in->data + (size_t)(at + s) * w, (size_t)len * w);
            } else
                memcpy(to, s < 0 ? fill : (const char *)in->data + (size_t)(at + s) * w, w);
            to += (size_t)len * w;
            x += len;
        }
        for (int32_t i = last - 1; i >= 0; i--) {
            if (++idx[i] < out->shape.dim[i])
                break;
            idx[i] = 0;
        }
    }
    return 0;
}
