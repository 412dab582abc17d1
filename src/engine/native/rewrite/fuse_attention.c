/* fuse_attention.c -- attention from its parts.
 *
 * From Softmax outwards: the product of queries and keys, scaled, masked by Where or Add, before
 * it; the product with the values and the transposition of heads behind it. Transpositions and
 * selections that bring the operands into place become views (attention_fused.h); whatever nothing
 * reads any more is covered by the new operator. */
#include "engine/native/op/attention_fused.h"
#include "engine/native/rewrite/fuse_int.h"

#include <math.h>
#include <string.h>

#define GONE_MAX 32

struct match {
    struct fused_attention a;
    uint32_t in[FUSED_NIN];
    struct op *gone[GONE_MAX]; /* for sure */
    int ngone;
    struct op *passed[GONE_MAX]; /* by a view: gone if nothing else reads it */
    int npassed;
};

static bool is_f32(const struct fuser *f, uint32_t v)
{
    return v < f->p->graph->nvalue && fuse_real(f, v);
}

static bool as_step(const struct op *op, struct view_step *s)
{
    *s = (struct view_step){ 0 };
    if (fuse_is(op, "Transpose")) {
        size_t n;
        const int64_t *perm = node_attr_ints(op->node, "perm", &n);

        if (n < 2 || n > SHAPE_RANK_MAX)
            return false;
        s->rank = (int)n;
        memcpy(s->perm, perm, n * sizeof(*perm));
        return true;
    }
    if (fuse_is(op, "Gather")) {
        const struct tensor *t = kernel_const(op, 1);

        if (!t || t->shape.rank != 0 || (t->type != TENSOR_I64 && t->type != TENSOR_I32))
            return false;
        s->select = true;
        s->axis = (int)node_attr_int(op->node, "axis", 0);
        s->index = tensor_int(t, 0);
        return true;
    }
    return false;
}

/* Back from v through whatever only moves or scales it. */
static uint32_t trace(const struct fuser *f, struct match *m, uint32_t v, struct view *view)
{
    for (;;) {
        struct op *op = fuse_maker(f, v);
        uint32_t x = NO_VALUE;
        float s;

        if (!op || !op->kernel || op->nout != 1 || m->npassed == GONE_MAX)
            return v;
        if (view->nstep < VIEW_STEPS && as_step(op, &view->step[view->nstep])) {
            view->nstep++;
            x = op->in[0];
        } else if (view != &m->a.view[FUSED_V] && fuse_is(op, "Mul") && fuse_by_scalar(op, &s, &x))
            m->a.core.scale *= s;
        else if (view != &m->a.view[FUSED_V] && fuse_is(op, "Div") && fuse_scalar(op, 1, &s) &&
                 s != 0) {
            m->a.core.scale /= s;
            x = op->in[0];
        } else
            return v;
        if (!is_f32(f, x))
            return v;
        m->passed[m->npassed++] = op;
        v = x;
    }
}

/* From Softmax's input back to the product of queries and keys; NULL: something else is there. */
static struct op *before(const struct fuser *f, struct match *m, uint32_t v)
{
    bool scaled = false;

    for (;;) {
        struct op *op = fuse_maker(f, v);
        uint32_t x;
        float s;

        if (!op || !op->kernel || !fuse_only(f, v) || m->ngone == GONE_MAX)
            return NULL;
        if (fuse_is(op, "MatMul"))
            return op;
        m->gone[m->ngone++] = op;
        if (fuse_is(op, "Mul") && fuse_by_scalar(op, &s, &x))
            m->a.core.scale *= s;
        else if (fuse_is(op, "Div") && fuse_scalar(op, 1, &s) && s != 0) {
            m->a.core.scale /= s;
            x = op->in[0];
        } else if (fuse_is(op, "Add") && op->node->opset >= 7 && !scaled &&
                   m->in[FUSED_MASK] == NO_VALUE && m->in[FUSED_WHERE] == NO_VALUE) {
            /* The side that comes from a product is the scores; a mask that does too is none. */
            struct op *left = fuse_maker(f, op->in[0]);
            bool first = left && fuse_only(f, op->in[0]) &&
                         (fuse_is(left, "MatMul") || fuse_is(left, "Div") || fuse_is(left, "Mul") ||
                          fuse_is(left, "Where"));

            x = op->in[!first];
            m->in[FUSED_MASK] = op->in[first];
            v = x;
            continue;
        } else if (fuse_is(op, "Where") && !scaled && m->in[FUSED_WHERE] == NO_VALUE) {
            m->a.core.where_keeps = fuse_scalar(op, 2, &m->a.core.fill);
            if (!m->a.core.where_keeps && !fuse_scalar(op, 1, &m->a.core.fill))
                return NULL;
            m->in[FUSED_WHERE] = op->in[0];
            v = op->in[m->a.core.where_keeps ? 1 : 2];
            continue;
        } else
            return NULL;
        scaled = true;
        v = x;
    }
}

/* A known rank that the operator can do. */
static int rank_of(const struct fuser *f, uint32_t v)
{
    int32_t r = v < f->p->graph->nvalue ? f->p->graph->value[v].shape.rank : -1;

    return r >= 2 && r <= 4 ? r : -1;
}

static bool last_axis(const struct op *softmax, int rank)
{
    int64_t axis = node_attr_int(softmax->node, "axis", softmax->node->opset < 13 ? 1 : -1);

    return axis == -1 || axis == rank - 1;
}

/* Cover what views passed by and nobody reads any more. */
static int drop_passed(struct fuser *f, struct match *m, struct op *op)
{
    int rc = 0;

    for (bool again = true; again && !rc;) {
        again = false;
        fuse_links(f);
        for (int i = 0; i < m->npassed && !rc; i++) {
            struct op *p = m->passed[i];

            if (!p->kernel || f->uses[p->out[0]])
                continue;
            rc = fuse_cover(op, p);
            again = true;
        }
    }
    return rc;
}

int fuse_attention(struct fuser *f, struct op *softmax)
{
    struct match m = { .a = { .core = { .scale = 1 } } };
    struct op *qk, *pv = fuse_follower(f, softmax), *turn, *last;
    struct fused_attention *state;
    int rank = rank_of(f, softmax->in[0]), rc;
    const struct node *node;
    size_t n;

    for (int i = 0; i < FUSED_NIN; i++)
        m.in[i] = NO_VALUE;
    if (rank < 0 || !is_f32(f, softmax->in[0]) || !last_axis(softmax, rank) || !pv ||
        !fuse_is(pv, "MatMul") || pv->in[0] != softmax->out[0] || pv->in[1] == pv->in[0])
        return 0;
    qk = before(f, &m, softmax->in[0]);
    if (!qk || rank_of(f, qk->in[0]) != rank || rank_of(f, qk->in[1]) != rank ||
        rank_of(f, pv->in[1]) != rank || rank_of(f, qk->out[0]) != rank || kernel_const(qk, 0) ||
        kernel_const(qk, 1) || kernel_const(pv, 1) || m.ngone > GONE_MAX - 4)
        return 0;
    m.in[FUSED_Q] = trace(f, &m, qk->in[0], &m.a.view[FUSED_Q]);
    m.in[FUSED_K] = trace(f, &m, qk->in[1], &m.a.view[FUSED_K]);
    m.in[FUSED_V] = trace(f, &m, pv->in[1], &m.a.view[FUSED_V]);
    m.gone[m.ngone++] = qk;
    m.gone[m.ngone++] = softmax;
    last = pv;
    node = pv->node;
    turn = fuse_follower(f, pv);
    if (turn && fuse_is(turn, "Transpose")) {
        const int64_t *perm = node_attr_ints(turn->node, "perm", &n);

        if (n == (size_t)rank && perm[n - 1] == rank - 1) {
            m.a.out_rank = rank;
            memcpy(m.a.out_perm, perm, n * sizeof(*perm));
            m.gone[m.ngone++] = pv;
            last = turn;
        }
    }
    state = mem_calloc(1, sizeof(*state));
    if (!state)
        return OPM_ENOMEM;
    *state = m.a;
    rc = fuse_become(f, last, kernel_form(KERNEL_fused_attention, 0), "Attention", m.in, FUSED_NIN,
                     m.gone, m.ngone);
    if (rc) {
        mem_free(state);
        return rc;
    }
    last->state = state;
    last->node = node;
    return drop_passed(f, &m, last);
}
