/* fuse_blocks.c -- MatMul and Gemm by constants of 4 or 8 bits that DequantizeLinear scales in
 * blocks of k: the weights stay as small as they are, and are scaled while they are multiplied. */
#include "engine/native/isa/half.h"
#include "engine/native/op/families.h"
#include "engine/native/rewrite/fuse_q8_int.h"

/* Numbers that a word of packed weights has at least: shorter blocks would be padding. */
#define BLOCK_MIN 8

/* Blocks of k, of which the last may be shorter; turned: weights have their columns first. */
static bool fits(const struct fuser *f, const struct op *d, bool turned)
{
    const struct tensor *w, *scale, *zero;
    int64_t blocks, k, size;

    if (!q8_is(d, "DequantizeLinear") || d->nin < 2 || !kernel_const(d, 0) || !kernel_const(d, 1) ||
        (kernel_in(d, 2) && !kernel_const(d, 2)) || !fuse_real(f, d->out[0]))
        return false;
    w = kernel_const(d, 0);
    scale = kernel_const(d, 1);
    zero = kernel_in(d, 2) ? kernel_const(d, 2) : NULL;
    if ((w->type != TENSOR_I4 && w->type != TENSOR_U4 && w->type != TENSOR_I8 &&
         w->type != TENSOR_U8) ||
        half_inside(scale->type) != TENSOR_F32 || w->shape.rank != 2 || scale->shape.rank != 2 ||
        (zero && (zero->type != w->type || !shape_equal(&zero->shape, &scale->shape))) ||
        nt_axis(node_attr_int(d->node, "axis", 1), 2) != turned)
        return false;
    k = w->shape.dim[turned];
    blocks = scale->shape.dim[turned];
    size = node_attr_int(d->node, "block_size", 0);
    return size >= BLOCK_MIN && k > 0 && k <= INT32_MAX && size <= k &&
           blocks == (k + size - 1) / size && w->shape.dim[!turned] <= INT32_MAX &&
           scale->shape.dim[!turned] == w->shape.dim[!turned];
}

/* A Transpose of two dimensions that nothing else reads. */
static bool turns(const struct fuser *f, const struct op *op)
{
    size_t n = 0;
    const int64_t *perm = q8_is(op, "Transpose") ? node_attr_ints(op->node, "perm", &n) : NULL;

    return q8_is(op, "Transpose") && fuse_only(f, op->out[0]) &&
           (n == 0 || (n == 2 && perm[0] == 1 && perm[1] == 0));
}

static bool plain_gemm(const struct fuser *f, const struct op *op, int64_t n)
{
    uint32_t c = q8_slot(op, 2);

    return !node_attr_int(op->node, "transA", 0) && node_attr_float(op->node, "alpha", 1) == 1 &&
           node_attr_float(op->node, "beta", 1) == 1 &&
           (c == NO_VALUE ||
            (c < f->p->graph->nvalue && fuse_real(f, c) && f->p->graph->value[c].shape.rank == 1 &&
             f->p->graph->value[c].shape.dim[0] == n));
}

int fuse_q8_blocks(struct fuser *f, struct op *op)
{
    struct q8_chain c = q8_chain_of(f, op);
    struct op *d = op->nin > 1 ? fuse_maker(f, op->in[1]) : NULL, *turn = d;
    bool gemm = q8_is(op, "Gemm"), turned = gemm && node_attr_int(op->node, "transB", 0),
         between = turns(f, d);

    if (between) { /* the weights as they are before it */
        d = fuse_maker(f, turn->in[0]);
        turned = !turned;
    }

    if ((!gemm && !q8_is(op, "MatMul")) || op->in[0] == op->in[1] || !fuse_real(f, op->in[0]) ||
        !fits(f, d, turned) || (gemm && !plain_gemm(f, op, kernel_const(d, 0)->shape.dim[!turned])))
        return 0;
    if (between)
        q8_drop(&c, turn);
    q8_drop(&c, d);
    op->turned_b = between;
    op->block_size = node_attr_int(d->node, "block_size", 0);
    return q8_become(&c, kernel_form(KERNEL_nbits, NBITS_LINEAR), "MatMulNBits",
                     (uint32_t[]){ op->in[0], d->in[0], d->in[1], q8_slot(d, 2), NO_VALUE,
                                   gemm ? q8_slot(op, 2) : NO_VALUE },
                     6);
}
