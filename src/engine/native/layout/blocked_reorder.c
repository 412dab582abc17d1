/* blocked_reorder.c -- plain tensors to channel-blocked ones (blocked_isa.h) and back: what stands
 * at the borders of blocked regions. */
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

/* Pixels that one piece of work has. */
#define PIECE 256

struct reorder_job {
    const struct op *op;
    const float *in;
    float *out;
    int64_t channels, pixels, pieces;
};

static void reorder_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct reorder_job *j = arg;
    const struct blk *blk = kernel_isa(j->op)->blk;
    int64_t v = blk->block, blocks = (j->channels + v - 1) / v;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t piece = i % j->pieces, block = i / j->pieces % blocks, n = i / j->pieces / blocks;
        int64_t x = piece * PIECE, plain = (n * j->channels + block * v) * j->pixels + x,
                blocked = ((n * blocks + block) * j->pixels + x) * v;
        int have = (int)MIN(v, j->channels - block * v);

        (j->op->kernel->arg == TO_PLAIN ? blk->unpack : blk->pack)(
            j->out + (j->op->kernel->arg == TO_PLAIN ? plain : blocked),
            j->in + (j->op->kernel->arg == TO_PLAIN ? blocked : plain), j->pixels, have,
            MIN(j->pixels - x, (int64_t)PIECE));
    }
}

int reorder_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (rc)
        return rc;
    if (in->shape.rank < 3 || in->shape.rank > 4)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x one or two dimensions");
    return op->kernel->arg == TO_PLAIN ? kernel_set(op, 0, TENSOR_F32, &in->shape, err)
                                       : kernel_set_blocked(op, 0, &in->shape, err);
}

int reorder_run(struct op *op, opm_error *err)
{
    const struct shape *s = &kernel_in(op, 0)->shape;
    struct reorder_job j = { .op = op,
                             .in = kernel_in(op, 0)->data,
                             .out = kernel_out(op, 0)->data,
                             .channels = s->dim[1],
                             .pixels = nt_span(s, 2, s->rank) };
    int64_t v = kernel_isa(op)->blk->block;

    (void)err;
    j.pieces = (j.pixels + PIECE - 1) / PIECE;
    pool_for(kernel_pool(op), s->dim[0] * ((j.channels + v - 1) / v) * j.pieces, 8, reorder_part,
             &j);
    return 0;
}
