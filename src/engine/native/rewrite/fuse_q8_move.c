/* fuse_q8_move.c -- between DequantizeLinear and QuantizeLinear: what only moves elements does so
 * with bytes as well. */
#include "engine/native/math/q8.h"
#include "engine/native/op/families.h"
#include "engine/native/rewrite/fuse_q8_int.h"

#include <string.h>

#define CONCAT_MAX 12 /* Q8_GONE_MAX has room for its DequantizeLinear */

static bool is_graphs(const struct fuser *f, uint32_t v)
{
    return v < f->p->graph->nvalue;
}

static const struct value *value_of(const struct fuser *f, uint32_t v)
{
    return is_graphs(f, v) ? &f->p->graph->value[v] : NULL;
}

void q8_skip_identities(struct fuser *f)
{
    struct plan *p = f->p;
    bool any = false;

    for (uint32_t i = 0; i < p->nop; i++) {
        struct op *op = &p->op[i];

        for (uint32_t k = 0; op->kernel && !op->nbody && k < op->nin; k++) {
            struct op *from = fuse_maker(f, op->in[k]);

            while (from && fuse_is(from, "Identity") && is_graphs(f, from->in[0]) &&
                   (kernel_const(from, 0) ||
                    (fuse_maker(f, from->in[0]) &&
                     (fuse_is(fuse_maker(f, from->in[0]), "Identity") ||
                      q8_is(fuse_maker(f, from->in[0]), "DequantizeLinear"))))) {
                op->in[k] = from->in[0];
                from = fuse_maker(f, op->in[k]);
                any = true;
            }
        }
    }
    if (!any)
        return;
    /* From the last on: an Identity may be all that another is read by. */
    for (uint32_t i = p->nop; i-- > 0;) {
        fuse_links(f);
        if (fuse_is(&p->op[i], "Identity") && p->op[i].out[0] != NO_VALUE &&
            f->uses[p->op[i].out[0]] == 0)
            op_release(&p->op[i]);
    }
    fuse_links(f);
}

bool q8_is_mean(const struct fuser *f, const struct op *op)
{
    const struct tensor *t = kernel_const(op, 1);
    const struct value *in = value_of(f, op->in[0]);
    int32_t rank = in ? in->shape.rank : -1;
    uint32_t seen = 0;
    size_t n;
    const int64_t *attr = node_attr_ints(op->node, "axes", &n);

    if (!fuse_is(op, "ReduceMean") || rank < 3 || rank > 4 || (kernel_in(op, 1) && !t))
        return false;
    if (t)
        n = (size_t)t->count;
    for (size_t i = 0; i < n; i++) {
        int axis = nt_axis(t ? tensor_int(t, (int64_t)i) : attr[i], rank);

        if (axis < 2)
            return false;
        seen |= 1u << axis;
    }
    return seen == (1u << rank) - 4;
}

/* Bytes are what they were: scale, zero point and type. */
static bool same_numbers(const struct fuser *f, const struct op *d, const struct op *q)
{
    const struct tensor *dz = kernel_const(d, 2), *qz = kernel_const(q, 2);
    const struct value *x = value_of(f, d->in[0]), *y = value_of(f, q->out[0]);

    return tensor_float(kernel_const(d, 1), 0) == tensor_float(kernel_const(q, 1), 0) &&
           (dz ? tensor_int(dz, 0) : 0) == (qz ? tensor_int(qz, 0) : 0) && x && y &&
           x->type == y->type;
}

static int fuse_plain_move(struct fuser *f, struct op *op, struct op *x, bool max)
{
    struct q8_chain c = q8_chain_of(f, op);
    uint32_t in[4] = { 0 }, nin = max ? 1 : op->nin;
    const struct kernel *k = max ? kernel_form(KERNEL_qpool, QPOOL_MAX) : op->kernel;
    const struct node *node = op->node;
    struct op *q;
    int rc;

    if (nin > ARRAY_SIZE(in) || op->nout < 1)
        return 0;
    for (uint32_t i = 1; i < op->nout; i++)
        if (op->out[i] != NO_VALUE)
            return 0;
    q = q8_quantizer(&c, false);
    if (!q || !same_numbers(f, x, q))
        return 0;
    memcpy(in, op->in, nin * sizeof(*in));
    in[0] = x->in[0];
    q8_drop(&c, x);
    rc = fuse_become(f, q, k, node->op_type, in, nin, c.gone, c.ngone);
    q->node = node;
    fuse_links(f);
    return rc;
}

static int fuse_concat(struct fuser *f, struct op *op)
{
    struct q8_chain c = q8_chain_of(f, op);
    uint32_t in[2 + 3 * CONCAT_MAX], nin = 2;
    struct op *x[CONCAT_MAX];

    if (op->nin < 1 || op->nin > CONCAT_MAX)
        return 0;
    for (uint32_t i = 0; i < op->nin; i++) {
        x[i] = q8_dequantizer(f, op->in[i]);
        if (!x[i] || !q8_of_8_bits(f, x[i]) || !q8_per_tensor(x[i]))
            return 0;
        in[nin++] = x[i]->in[0];
        in[nin++] = x[i]->in[1];
        in[nin++] = q8_slot(x[i], 2);
    }
    if (!q8_quantizer(&c, false))
        return 0;
    in[0] = c.y_scale;
    in[1] = c.y_zero;
    for (uint32_t i = 0; i < op->nin; i++)
        q8_drop(&c, x[i]);
    return q8_become(&c, kernel_form(KERNEL_qconcat, 0), "QLinearConcat", in, nin);
}

/* Channels of N x C x one or two dimensions, known: each part is an operator of its own then. */
static bool splits_channels(const struct fuser *f, const struct op *op)
{
    const struct value *in = value_of(f, op->in[0]);

    if (!in || in->shape.rank < 3 || in->shape.rank > 4 ||
        nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank) != 1)
        return false;
    for (uint32_t i = 0; i < op->nout; i++) {
        const struct value *out = value_of(f, op->out[i]);

        if (!out || out->shape.rank != in->shape.rank || out->shape.dim[1] <= 0)
            return false;
    }
    return true;
}

/* Every output is read by one QuantizeLinear, which becomes the part of the input. */
static int fuse_split(struct fuser *f, struct op *op, struct op *x)
{
    const struct node *node = op->node;
    struct op split = *op;
    int rc = 0;

    if (!op->nout || !splits_channels(f, op))
        return 0;
    for (uint32_t i = 0; i < op->nout; i++) {
        const struct op *q = f->uses[op->out[i]] == 1 && f->read_by[op->out[i]] != UINT32_MAX
                                 ? &f->p->op[f->read_by[op->out[i]]]
                                 : NULL;

        if (!q || !q->kernel || !q8_quantizes(q) || q->in[0] != op->out[i])
            return 0;
    }
    for (uint32_t i = 0; i < split.nout && !rc; i++) {
        struct op *q = &f->p->op[f->read_by[split.out[i]]];
        uint32_t in[5] = { x->in[0], x->in[1], q8_slot(x, 2), q->in[1] };

        rc = q8_zero_slot(f, q, &in[4]);
        if (!rc)
            rc = fuse_become(f, q, kernel_form(KERNEL_qpick, QPICK_SPLIT), "QLinearSplit", in, 5,
                             NULL, 0);
        q->node = node;
    }
    if (!rc)
        op_release(op);
    fuse_links(f);
    return rc;
}

int fuse_q8_max(struct fuser *f, struct op *op)
{
    const struct value *in = value_of(f, op->in[0]);
    uint32_t x = op->in[0];

    for (uint32_t i = 1; i < op->nout; i++)
        if (op->out[i] != NO_VALUE)
            return 0;
    if (!in || !(TYPE_BIT(in->type) & TYPES_Q8) || in->shape.rank < 3 || in->shape.rank > 4)
        return 0;
    return fuse_become(f, op, kernel_form(KERNEL_qpool, QPOOL_MAX), "MaxPool", &x, 1, NULL, 0);
}

bool q8_moves(const struct op *op)
{
    static const char *const moves[] = { "Reshape",   "Flatten",      "Transpose",    "Squeeze",
                                         "Unsqueeze", "Identity",     "Slice",        "Gather",
                                         "Expand",    "DepthToSpace", "SpaceToDepth", "MaxPool",
                                         "Concat",    "Split" };

    for (size_t i = 0; i < ARRAY_SIZE(moves); i++)
        if (fuse_is(op, moves[i]))
            return true;
    return false;
}

int fuse_q8_move(struct fuser *f, struct op *op)
{
    struct op *x;

    if (fuse_is(op, "Concat"))
        return fuse_concat(f, op);
    x = q8_dequantizer(f, op->in[0]);
    if (!x || !q8_of_8_bits(f, x) || !q8_per_tensor(x))
        return 0;
    return fuse_is(op, "Split") ? fuse_split(f, op, x)
                                : fuse_plain_move(f, op, x, fuse_is(op, "MaxPool"));
}

static bool perm_is(const struct op *op, const int64_t *want, size_t n)
{
    size_t have;
    const int64_t *perm = node_attr_ints(op->node, "perm", &have);

    return have == n && memcmp(perm, want, n * sizeof(*want)) == 0;
}

/* N x C x H x W as N x G x C/G x H x W, its second and third dimension swapped, and back. */
static bool shuffles(const struct fuser *f, const struct op *first, const struct op *turn,
                     const struct op *last)
{
    static const int64_t swap[] = { 0, 2, 1, 3, 4 };
    const struct value *in = value_of(f, first->in[0]), *mid = value_of(f, turn->in[0]),
                       *out = value_of(f, last->out[0]);
    const struct shape *a, *b, *c;

    if (!in || !mid || !out || !(TYPE_BIT(in->type) & TYPES_Q8))
        return false;
    a = &in->shape;
    b = &mid->shape;
    c = &out->shape;
    if ((a->rank != 3 && a->rank != 4) || b->rank != a->rank + 1 || c->rank != a->rank ||
        !perm_is(turn, swap, (size_t)b->rank) || b->dim[1] <= 0 || b->dim[2] <= 0 ||
        b->dim[1] * b->dim[2] != a->dim[1] || c->dim[1] != a->dim[1])
        return false;
    for (int32_t i = 0; i < a->rank; i++) /* open ones must be the same by name */
        if (i != 1 &&
            (a->dim[i] == -1 || c->dim[i] != a->dim[i] || b->dim[i ? i + 1 : 0] != a->dim[i]))
            return false;
    return true;
}

int fuse_q8_shuffles(struct fuser *f)
{
    int rc = 0;

    fuse_links(f);
    for (uint32_t i = 0; i < f->p->nop && !rc; i++) {
        struct op *turn = &f->p->op[i], *first, *last;
        const struct node *node = turn->node;
        uint32_t x;

        if (!turn->kernel || turn->kernel->kind != KERNEL_transpose)
            continue;
        first = fuse_maker(f, turn->in[0]);
        last = fuse_follower(f, turn);
        if (!first || !last || !first->kernel || !last->kernel ||
            first->kernel->kind != KERNEL_reshape || last->kernel->kind != KERNEL_reshape ||
            last->in[0] != turn->out[0] || !fuse_only(f, turn->in[0]) ||
            !shuffles(f, first, turn, last))
            continue;
        x = first->in[0];
        rc = fuse_become(f, last, kernel_form(KERNEL_qpick, QPICK_SHUFFLE), "ChannelShuffle", &x, 1,
                         (struct op *[]){ first, turn }, 2);
        last->node = node;
        fuse_links(f);
    }
    return rc;
}
