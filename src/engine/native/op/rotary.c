/* rotary.c -- RotaryEmbedding: turn pairs of numbers by angles that depend on the position. */
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

void rotary_row(float *to, const float *from, int64_t width, const float *cos, const float *sin,
                int64_t half, bool mixed)
{
    for (int64_t k = 0; k < half; k++) {
        int64_t p = mixed ? 2 * k : k, q = mixed ? 2 * k + 1 : k + half;
        float u = from[p], v = from[q];

        to[p] = cos[k] * u - sin[k] * v;
        to[q] = sin[k] * u + cos[k] * v;
    }
    if (width > 2 * half)
        memcpy(to + 2 * half, from + 2 * half, (size_t)(width - 2 * half) * sizeof(*to));
}

/* Cosines and sines are given by position. Opset 23: X, cos,
 * sin, positions; com.microsoft: X, positions, cos, sin. */
int rotary_prepare(struct op *op, opm_error *err)
{
    bool contrib = op->kernel->arg == ROTARY_CONTRIB;
    uint32_t cos_at = contrib ? 2 : 1, sin_at = cos_at + 1, pos_at = contrib ? 1 : 3;
    const struct nt *x, *pos = kernel_in(op, pos_at), *c, *s;
    int64_t heads = node_attr_int(op->node, "num_heads", 0),
            part = node_attr_int(op->node, "rotary_embedding_dim", 0), len, width, batch;
    int rc = attention_want_f32(op, 0, err);

    if (!rc)
        rc = attention_want_f32(op, cos_at, err);
    if (!rc)
        rc = attention_want_f32(op, sin_at, err);
    if (!rc && pos)
        rc = kernel_want(op, pos_at, TYPES_INDEX, err);
    if (rc)
        return rc;
    x = kernel_in(op, 0);
    c = kernel_in(op, cos_at);
    s = kernel_in(op, sin_at);
    if (x->shape.rank == 4)
        heads = x->shape.dim[1];
    else if (contrib && heads == 0 && c->shape.rank == 2 && c->shape.dim[1] && x->shape.rank == 3)
        heads = x->shape.dim[2] / (2 * c->shape.dim[1]);
    if (!attention_shape(&x->shape, heads, &len, &width) || !shape_equal(&c->shape, &s->shape) ||
        width % 2 || part < 0 || part > width || part % 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    batch = x->shape.dim[0];
    part = part ? part : width;
    if (pos ? c->shape.rank != 2 || c->shape.dim[1] != part / 2 ||
                  (pos->count != batch * len && pos->count != 1)
            : c->shape.rank != 3 || c->shape.dim[0] != batch || c->shape.dim[1] != len ||
                  c->shape.dim[2] != part / 2)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "cosines do not fit");
    return kernel_infer(op, err);
}

int rotary_run(struct op *op, opm_error *err)
{
    bool contrib = op->kernel->arg == ROTARY_CONTRIB,
         mixed = node_attr_int(op->node, "interleaved", 0) != 0;
    uint32_t cos_at = contrib ? 2 : 1, pos_at = contrib ? 1 : 3;
    const struct nt *x = kernel_in(op, 0), *pos = kernel_in(op, pos_at), *c = kernel_in(op, cos_at),
                    *s = kernel_in(op, cos_at + 1);
    int64_t half = c->shape.dim[c->shape.rank - 1],
            heads = x->shape.rank == 4 ? x->shape.dim[1] : node_attr_int(op->node, "num_heads", 0),
            len, width, batch = x->shape.dim[0];
    struct rows in, out;

    if (heads == 0)
        heads = x->shape.dim[2] / MAX(2 * half, (int64_t)1);
    if (!attention_shape(&x->shape, heads, &len, &width))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    in = attention_rows(x, heads);
    out = attention_rows(kernel_out(op, 0), heads);
    for (int64_t r = 0; r < batch * heads * len; r++) {
        int64_t i = r % len, h = r / len % heads, b = r / (len * heads),
                at = !pos              ? b * len + i
                     : pos->count == 1 ? nt_int(pos, 0) + i
                                       : nt_int(pos, b * len + i);
        const float *from = in.base + b * in.batch + h * in.head + i * in.step;
        float *to = (float *)kernel_out(op, 0)->data + b * out.batch + h * out.head + i * out.step;

        if (at < 0 || (at + 1) * half > c->count)
            return kernel_fail(op, OPM_EINVAL, err, "position %lld is out of range", (long long)at);
        rotary_row(to, from, width, (const float *)c->data + at * half,
                   (const float *)s->data + at * half, half, mixed);
    }
    return 0;
}
