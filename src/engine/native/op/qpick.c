/* qpick.c -- parts and orders of the channels of bytes: Split between values of any scales, and the
 * shuffling of channels. */
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define GRAIN 16384

/* Split: where the part begins that the operator gives, or that the QuantizeLinear read which it
 * covers. */
void q8_pick_part(const struct op *op, struct q8_pick *out)
{
    const struct graph *g = op->plan->graph;
    const struct val *own = &op->plan->val[op->out[0]];
    uint32_t gives = own->blocked ? own->of : op->out[0];
    int64_t at = 0;

    out->first = out->n = 0;
    for (uint32_t i = 0; i < op->node->nout; i++) {
        int64_t n = g->value[op->node->out[i]].shape.dim[1];

        if (op->node->out[i] == gives ||
            (op->ncover && op->cover[0] != op->node && op->cover[0]->in[0] == op->node->out[i])) {
            out->first = at;
            out->n = n;
            return;
        }
        at += n;
    }
}

/* X, and of a part: its scale and zero point, the scale and zero point of the result. */
void q8_pick_of(const struct op *op, struct q8_pick *out)
{
    const struct nt *x = kernel_in(op, 0);

    *out = (struct q8_pick){ .n = x->shape.dim[1], .moves = true };
    for (int i = 0; i < 256; i++)
        out->table[i] = (uint8_t)i;
    if (op->kernel->arg == QPICK_SHUFFLE) {
        out->groups = op->plan->graph->value[op->node->in[0]].shape.dim[1];
        return;
    }
    q8_pick_part(op, out);
    if (op->nin < 4 || !kernel_in(op, 1)->data || !kernel_in(op, 3)->data)
        return; /* no numbers before it is prepared */
    q8_table_unary(op, out->table);
    for (int i = 0; i < 256; i++)
        out->moves = out->moves && out->table[i] == i;
}

int q8_pick_gives(struct op *op, enum tensor_type *type, struct shape *shape, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *z = kernel_in(op, 4);
    struct q8_pick pick;
    int rc = kernel_want(op, 0, TYPES_Q8, err);

    if (rc)
        return rc;
    *shape = x->shape;
    if (shape->rank < 3 || shape->rank > 4)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x one or two dimensions");
    q8_pick_of(op, &pick);
    if (pick.first + pick.n > shape->dim[1] || (pick.groups && shape->dim[1] % pick.groups))
        return kernel_fail(op, OPM_EINVAL, err, "%lld channels do not fit",
                           (long long)shape->dim[1]);
    shape->dim[1] = pick.n;
    *type = op->nin < 4 ? x->type : z ? z->type : TENSOR_U8;
    return 0;
}

int qpick_prepare(struct op *op, opm_error *err)
{
    enum tensor_type type;
    struct shape s;
    int rc = q8_pick_gives(op, &type, &s, err);

    return rc ? rc : kernel_set(op, 0, type, &s, err);
}

struct qpick_job {
    struct q8_pick pick;
    const struct q8_isa *isa;
    const uint8_t *in;
    uint8_t *out;
    int64_t channels, plane;
};

/* Planes of the output. */
static void qpick_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct qpick_job *j = arg;
    int64_t groups = j->pick.groups;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t n = i / j->pick.n, c = i % j->pick.n,
                from =
                    groups ? c % groups * (j->channels / groups) + c / groups : j->pick.first + c;
        const uint8_t *in = j->in + (n * j->channels + from) * j->plane;

        if (j->pick.moves)
            memcpy(j->out + i * j->plane, in, (size_t)j->plane);
        else
            j->isa->lookup(j->out + i * j->plane, in, j->plane, j->pick.table);
    }
}

int qpick_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0);
    struct qpick_job j = { .isa = kernel_q8(op),
                           .in = in->data,
                           .out = out->data,
                           .channels = in->shape.dim[1],
                           .plane = nt_span(&in->shape, 2, in->shape.rank) };

    (void)err;
    q8_pick_of(op, &j.pick);
    if (out->count)
        pool_for(kernel_pool(op), out->count / j.plane, MAX(GRAIN / j.plane, (int64_t)1),
                 qpick_part, &j);
    return 0;
}
