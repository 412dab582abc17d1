/* gather_block.c -- com.microsoft's GatherBlockQuantized: rows of a quantized table as floats.
 * Inputs: data (4 bits, or bytes that hold 2, 4 or 8 bits each along the last dimension), indices,
 * scales, zero points. Blocks of the quantized axis share a scale. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <string.h>

struct gather_block {
    int bits;
    bool packed; /* in bytes; zero points are then half of the range where there are none */
    int64_t outer, n, inner;   /* of the gathered axis, in numbers */
    int64_t qn, qinner, block; /* of the quantized one */
    int64_t blocks;
};

static bool block_fits(const struct op *op, struct gather_block *s)
{
    const struct nt *x = kernel_in(op, 0), *scale = kernel_in(op, 2), *zero = kernel_in(op, 3);
    struct shape all = x->shape;
    int32_t rank = all.rank;
    int axis = nt_axis(node_attr_int(op->node, "gather_axis", 0), rank),
        quantized = nt_axis(node_attr_int(op->node, "quantize_axis", 1), rank);
    int64_t zeros;

    s->packed = x->type == TENSOR_U8;
    s->bits = s->packed ? (int)MIN(node_attr_int(op->node, "bits", 4), (int64_t)9) : 4;
    s->block = node_attr_int(op->node, "block_size", 128);
    if (axis < 0 || quantized < 0 || s->block < 1 ||
        (s->bits != 2 && s->bits != 4 && s->bits != 8) || (s->packed && quantized != rank - 1) ||
        x->count < 1 || scale->shape.rank != rank)
        return false;
    if (s->packed)
        all.dim[rank - 1] *= 8 / s->bits;
    s->outer = nt_span(&all, 0, axis);
    s->n = all.dim[axis];
    s->inner = nt_span(&all, axis + 1, rank);
    s->qn = all.dim[quantized];
    s->qinner = nt_span(&all, quantized + 1, rank);
    s->blocks = (s->qn + s->block - 1) / s->block;
    all.dim[quantized] = s->blocks;
    if (!shape_equal(&all, &scale->shape))
        return false;
    zeros = s->packed ? scale->count / s->blocks * ((s->blocks * s->bits + 7) / 8) : scale->count;
    return !zero || (zero->type == x->type && zero->count == zeros);
}

int gatherblock_prepare(struct op *op, opm_error *err)
{
    struct gather_block *s = kernel_new_state(op, sizeof(*s));
    int rc =
        s ? kernel_want(op, 0, TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_U4) | TYPE_BIT(TENSOR_I4), err)
          : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    if (!block_fits(op, s))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    return kernel_infer(op, err);
}

static uint32_t number(const uint8_t *p, int64_t i, int bits)
{
    return p[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

/* Zero point of block b in row r of blocks; at: among all scales. */
static int32_t zero_of(const struct gather_block *s, const struct nt *zero, int64_t at)
{
    int64_t row = at / s->blocks, b = at % s->blocks, bytes = (s->blocks * s->bits + 7) / 8;

    if (!zero)
        return s->packed ? 1 << (s->bits - 1) : 0;
    return s->packed ? (int32_t)number((const uint8_t *)zero->data + row * bytes, b, s->bits)
                     : (int32_t)nt_int(zero, at);
}

/* One gathered row, which begins with number `first`. */
static void gather_row(const struct op *op, const uint8_t *data, int64_t first, float *out)
{
    const struct gather_block *s = op->state;
    const struct nt *zero = kernel_in(op, 3);
    const float *scale = kernel_in(op, 2)->data;
    int flip = kernel_in(op, 0)->type == TENSOR_I4 ? 8 : 0;

    for (int64_t i = first; i < first + s->inner;) {
        int64_t slice = i / s->qinner % s->qn,
                at = (i / (s->qinner * s->qn) * s->blocks + slice / s->block) * s->qinner +
                     i % s->qinner,
                end = i + 1; /* of those with this scale */
        int32_t z = zero_of(s, zero, at);

        if (s->qinner == 1)
            end = MIN(i + MIN(s->block - slice % s->block, s->qn - slice), first + s->inner);
        for (; i < end; i++)
            *out++ = (float)(((int32_t)number(data, i, s->bits) ^ flip) - flip - z) * scale[at];
    }
}

int gatherblock_run(struct op *op, opm_error *err)
{
    const struct gather_block *s = op->state;
    const struct nt *index = kernel_in(op, 1);
    const struct tensor *t = kernel_const(op, 0);
    const uint8_t *data = t ? t->data : kernel_in(op, 0)->data;
    float *out = kernel_out(op, 0)->data;

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < index->count; i++, out += s->inner) {
            int64_t k = nt_int(index, i);

            if (k < -s->n || k >= s->n)
                return kernel_fail(op, OPM_EINVAL, err, "index %lld of %lld is out of range",
                                   (long long)k, (long long)s->n);
            gather_row(op, data, (o * s->n + (k < 0 ? k + s->n : k)) * s->inner, out);
        }
    return 0;
}
