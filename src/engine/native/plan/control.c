/* control.c -- If, Loop, Scan, SequenceMap, FlexAttention: run the plans of subgraphs.
 *
 * A body's inputs are set to what they stand for, captured values follow the graph around, and what
 * the body computes is copied out before its next round overwrites it. */
#include "engine/native/math/gemm.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Rounds of a Loop without end would hang: a model that needs more is refused. */
#define ROUNDS_MAX ((int64_t)1 << 32)

#define NO_PREPARE(name)                              \
    int name##_prepare(struct op *op, opm_error *err) \
    {                                                 \
        (void)op;                                     \
        (void)err;                                    \
        return NEED_DATA;                             \
    }

NO_PREPARE(if)
NO_PREPARE(loop)
NO_PREPARE(scan)
NO_PREPARE(seq_map)
NO_PREPARE(flexattention)

static int set_captures(struct plan *body, opm_error *err)
{
    const struct graph *g = body->graph;

    for (uint32_t i = 0; i < g->ncapture; i++) {
        struct val *from = &body->outer->val[g->capture[i].outer],
                   *to = &body->val[g->capture[i].inner];

        if (to->kind == VAL_CONST)
            continue;
        if (from->kind == VAL_CONST && val_materialize(from))
            return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
        to->kind = VAL_INPUT;
        to->t = from->t;
    }
    return 0;
}

static void set_input(struct plan *body, uint32_t i, const struct nt *t)
{
    struct val *v = &body->val[body->graph->input[i]];

    v->kind = VAL_INPUT;
    v->t = *t;
}

static int run_body(struct op *op, struct plan *body, opm_error *err)
{
    struct native *e = op->plan->engine;
    int rc = native_look(e, err); /* a body may have nothing to run */

    if (!rc)
        rc = set_captures(body, err);
    if (e->opts.max_rounds && ++e->rounds > e->opts.max_rounds)
        return kernel_fail(op, OPM_ELIMIT, err, "bodies are run more than %lld times",
                           (long long)e->opts.max_rounds);
    if (!rc)
        rc = plan_run(body, err);
    for (uint32_t i = 0; i < body->graph->noutput && !rc; i++) {
        struct val *v = &body->val[body->graph->output[i]];

        if (v->kind == VAL_CONST && val_materialize(v))
            return kernel_nomem(op, err);
        if (v->t.shape.rank < 0 || !v->t.data)
            rc = kernel_fail(op, OPM_EINVAL, err, "output %u of the body was not computed", i);
    }
    return rc;
}

static const struct nt *body_out(const struct plan *body, uint32_t i)
{
    return &body->val[body->graph->output[i]].t;
}

static int give(struct op *op, uint32_t i, const struct nt *t, opm_error *err)
{
    struct val *v;

    if (i >= op->nout || op->out[i] == NO_VALUE)
        return 0;
    v = &op->plan->val[op->out[i]];
    v->kind = VAL_OWN;
    return val_copy(v, t) ? kernel_nomem(op, err) : 0;
}

/* The plan of a graph attribute. */
static struct plan *body_of(const struct op *op, const char *name)
{
    const struct graph *g = node_attr_graph(op->node, name);

    for (uint32_t i = 0; i < op->nbody; i++)
        if (op->body[i]->graph == g)
            return op->body[i];
    return NULL;
}

/* Like give(), of memory that is handed over where v has its own. */
static int hand_over(struct op *op, uint32_t i, struct val *from, const struct nt *t,
                     opm_error *err)
{
    struct val *v;

    if (i >= op->nout || op->out[i] == NO_VALUE || !from->own || t->data != from->own)
        return give(op, i, t, err);
    v = &op->plan->val[op->out[i]];
    void *own = v->own;
    size_t bytes = v->own_bytes;

    v->kind = VAL_OWN;
    v->own = from->own;
    v->own_bytes = from->own_bytes;
    v->t = *t;
    from->own = own;
    from->own_bytes = bytes;
    return 0;
}

/* Output i of a body that is done with: what it computed is handed over, all else copied. */
static int body_gives(struct op *op, uint32_t i, struct val *from, opm_error *err)
{
    return from->kind == VAL_OWN ? hand_over(op, i, from, &from->t, err)
                                 : give(op, i, &from->t, err);
}

int if_run(struct op *op, opm_error *err)
{
    const struct nt *cond = kernel_in(op, 0);
    struct plan *body;
    int rc;

    if (!cond || cond->type != TENSOR_BOOL || cond->count != 1)
        return kernel_fail(op, OPM_EINVAL, err, "the condition must be one bool");
    body = body_of(op, *(const uint8_t *)cond->data ? "then_branch" : "else_branch");
    if (!body || body->graph->noutput < op->nout || body->graph->ninput)
        return kernel_fail(op, OPM_EINVAL, err, "a branch does not fit");
    rc = run_body(op, body, err);
    for (uint32_t i = 0; i < op->nout && !rc; i++)
        rc = body_gives(op, i, &body->val[body->graph->output[i]], err);
    return rc;
}

/* What a body gives round by round, laid end to end. */
struct scanned {
    struct val v;
    int64_t rounds, cap;
};

static int scanned_add(struct op *op, struct scanned *s, const struct nt *t, opm_error *err)
{
    size_t need;

    if (t->kind != VALUE_TENSOR)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "a scanned output is no tensor");
    if (s->rounds && (!shape_equal(&s->v.t.shape, &t->shape) || s->v.t.type != t->type))
        return kernel_fail(op, OPM_EINVAL, err, "a scanned output changes its shape");
    s->v.t.shape = t->shape;
    s->v.t.type = t->type;
    if (__builtin_mul_overflow(t->bytes, (size_t)s->rounds + 1, &need) || need > PTRDIFF_MAX / 4)
        return kernel_fail(op, OPM_ELIMIT, err, "a scanned output is too big");
    if (need > s->v.own_bytes || !s->v.own) {
        struct val bigger = { 0 };

        if (val_own(&bigger, MAX(need * 2, (size_t)64)))
            return kernel_nomem(op, err);
        if (s->rounds && t->bytes)
            memcpy(bigger.own, s->v.own, t->bytes * (size_t)s->rounds);
        native_free(s->v.own);
        s->v.own = bigger.own;
        s->v.own_bytes = bigger.own_bytes;
    }
    if (t->bytes)
        memcpy((char *)s->v.own + t->bytes * (size_t)s->rounds, t->data, t->bytes);
    s->rounds++;
    return 0;
}

/* As one tensor with rounds as dimension 0. */
static int scanned_give(struct op *op, uint32_t slot, struct scanned *s, const struct value *decl,
                        opm_error *err)
{
    static char none[NATIVE_ALIGN];
    struct nt t = { .type = s->v.t.type };

    if (!s->rounds) { /* the body never ran: its shape is what the model declares */
        t.type = decl->type;
        s->v.t.shape = decl->shape;
        if (s->v.t.shape.rank < 0)
            s->v.t.shape.rank = 0;
        for (int32_t i = 0; i < s->v.t.shape.rank; i++)
            s->v.t.shape.dim[i] = MAX(s->v.t.shape.dim[i], (int64_t)0);
    }
    if (s->v.t.shape.rank + 1 > SHAPE_RANK_MAX || !t.type)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "a scanned output has no known type or rank");
    t.shape.rank = s->v.t.shape.rank + 1;
    t.shape.dim[0] = s->rounds;
    memcpy(t.shape.dim + 1, s->v.t.shape.dim, (size_t)s->v.t.shape.rank * sizeof(int64_t));
    t.count = shape_count(&t.shape);
    t.bytes = (size_t)MAX(engine_bytes(&t.shape, t.type), (int64_t)0);
    t.data = s->v.own ? s->v.own : none;
    return hand_over(op, slot, &s->v, &t, err);
}

/* It stays from run to run, for its memory. */
struct loop_state {
    struct val *carried;     /* values from round to round */
    struct val *next;        /* of the round that ends */
    struct scanned *scanned; /* what is collected */
    uint32_t ncarried, nscanned;
};

/* Memory that is kept between runs, for a value. */
#define KEPT_BYTES ((size_t)4 << 20)

static void val_drop(struct val *v, size_t most)
{
    if (v->own_bytes <= most)
        return;
    native_free(v->own);
    v->own = NULL;
    v->own_bytes = 0;
}

static void loop_drop(struct loop_state *s, size_t most)
{
    for (uint32_t i = 0; s->carried && s->next && i < s->ncarried; i++) {
        val_drop(&s->carried[i], most);
        val_drop(&s->next[i], most);
    }
    for (uint32_t i = 0; s->scanned && i < s->nscanned; i++)
        val_drop(&s->scanned[i].v, most);
}

static void loop_release(void *state)
{
    struct loop_state *s = state;

    loop_drop(s, 0);
    mem_free(s->carried);
    mem_free(s->next);
    mem_free(s->scanned);
}

static struct loop_state *loop_ready(struct op *op, uint32_t ncarried, uint32_t nscanned)
{
    struct loop_state *s = kernel_new_state(op, sizeof(*s));

    if (!s)
        return NULL;
    op->release = loop_release;
    if (!s->carried) {
        s->ncarried = ncarried;
        s->nscanned = nscanned;
        s->carried = mem_calloc((size_t)ncarried + 1, sizeof(*s->carried));
        s->next = mem_calloc((size_t)ncarried + 1, sizeof(*s->next));
        s->scanned = mem_calloc((size_t)nscanned + 1, sizeof(*s->scanned));
    }
    for (uint32_t i = 0; s->scanned && i < nscanned; i++)
        s->scanned[i].rounds = 0;
    return s->carried && s->next && s->scanned ? s : NULL;
}

/* What a round gives from output `first` of the body on becomes what the next one gets. All is
 * copied before anything is replaced: one may be another's input of the same round. */
static int carry(struct op *op, struct plan *body, struct loop_state *s, uint32_t first,
                 opm_error *err)
{
    for (uint32_t i = 0; i < s->ncarried; i++)
        if (body_out(body, first + i)->data != s->carried[i].t.data &&
            val_copy(&s->next[i], body_out(body, first + i)))
            return kernel_nomem(op, err);
    for (uint32_t i = 0; i < s->ncarried; i++) {
        struct val before = s->carried[i];

        if (body_out(body, first + i)->data == before.t.data) { /* perhaps of another shape */
            s->carried[i].t = *body_out(body, first + i);
            continue;
        }
        s->carried[i] = s->next[i];
        s->next[i] = before;
    }
    return 0;
}

static struct nt scalar(enum tensor_type type, void *data)
{
    return (struct nt){ .type = type, .count = 1, .bytes = nt_width(type), .data = data };
}

int loop_run(struct op *op, opm_error *err)
{
    struct plan *body = body_of(op, "body");
    const struct graph *g = body ? body->graph : NULL;
    const struct nt *trips = kernel_in(op, 0), *cond = kernel_in(op, 1);
    uint32_t n = op->node->nin > 2 ? op->node->nin - 2 : 0;
    struct loop_state *s;
    int64_t round = 0, max = ROUNDS_MAX;
    uint8_t go = 1;
    int rc = 0;

    if (!g || g->ninput != n + 2 || g->noutput < n + 1 || op->nout > g->noutput - 1)
        return kernel_fail(op, OPM_EINVAL, err, "the body does not fit");
    if ((trips && (trips->type != TENSOR_I64 || trips->count != 1)) ||
        (cond && (cond->type != TENSOR_BOOL || cond->count != 1)))
        return kernel_fail(op, OPM_EINVAL, err, "trip count or condition is not one number");
    if (trips)
        max = nt_int(trips, 0);
    if (cond)
        go = *(const uint8_t *)cond->data;
    s = loop_ready(op, n, g->noutput - 1 - n);
    if (!s)
        return kernel_nomem(op, err);
    for (uint32_t i = 0; i < n && !rc; i++)
        if (!kernel_in(op, i + 2))
            rc = kernel_fail(op, OPM_EINVAL, err, "input %u is missing", i + 2);
        else
            s->carried[i].t = *kernel_in(op, i + 2);
    for (; round < max && go && !rc; round++) {
        struct nt r = scalar(TENSOR_I64, &round), c = scalar(TENSOR_BOOL, &go);

        set_input(body, 0, &r);
        set_input(body, 1, &c);
        for (uint32_t i = 0; i < n; i++)
            set_input(body, i + 2, &s->carried[i].t);
        rc = run_body(op, body, err);
        for (uint32_t i = 0; i < s->nscanned && !rc; i++)
            rc = scanned_add(op, &s->scanned[i], body_out(body, 1 + n + i), err);
        if (!rc)
            rc = carry(op, body, s, 1, err);
        if (!rc) {
            const struct nt *out = body_out(body, 0);

            if (out->type != TENSOR_BOOL || out->count != 1)
                rc = kernel_fail(op, OPM_EINVAL, err, "the body's condition is not one bool");
            else
                go = *(const uint8_t *)out->data;
        }
    }
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = hand_over(op, i, &s->carried[i], &s->carried[i].t, err);
    for (uint32_t i = 0; i < s->nscanned && !rc && n + i < op->nout; i++)
        rc = scanned_give(op, n + i, &s->scanned[i], &g->value[g->output[1 + n + i]], err);
    loop_drop(s, KEPT_BYTES);
    return rc;
}

/* Element k of dimension axis, copied out where it does not lie together. */
static int slice_of(struct op *op, struct val *to, const struct nt *t, int axis, int64_t k,
                    opm_error *err)
{
    struct nt s = *t;
    int64_t outer = nt_span(&t->shape, 0, axis), n = t->shape.dim[axis];
    size_t inner = (size_t)nt_span(&t->shape, axis + 1, t->shape.rank) * nt_width(t->type);

    s.shape.rank--;
    for (int32_t i = axis; i < s.shape.rank; i++)
        s.shape.dim[i] = t->shape.dim[i + 1];
    s.count = shape_count(&s.shape);
    s.bytes = (size_t)outer * inner;
    if (outer == 1) {
        s.data = (char *)t->data + (size_t)k * inner;
        to->t = s;
        return 0;
    }
    if (val_own(to, s.bytes))
        return kernel_nomem(op, err);
    for (int64_t o = 0; o < outer; o++)
        memcpy((char *)to->own + (size_t)o * inner,
               (const char *)t->data + (size_t)(o * n + k) * inner, inner);
    s.data = to->own;
    to->t = s;
    return 0;
}

static int64_t list_at(const struct node *n, const char *name, uint32_t i)
{
    size_t len;
    const int64_t *a = node_attr_ints(n, name, &len);

    return i < len ? a[i] : 0;
}

/* One sequence, states and slices in, as opset 9 has it. */
static int scan_once(struct op *op, struct plan *body, const struct nt *in, uint32_t nin,
                     uint32_t nscan, struct loop_state *s, opm_error *err)
{
    uint32_t n = nin - nscan;
    int64_t len = -1;
    struct val *slice = mem_calloc((size_t)nscan + 1, sizeof(*slice));
    int rc = slice ? 0 : kernel_nomem(op, err);

    for (uint32_t i = 0; i < n; i++)
        s->carried[i].t = in[i];
    for (uint32_t i = 0; i < nscan && !rc; i++) {
        int axis = nt_axis(list_at(op->node, "scan_input_axes", i), in[n + i].shape.rank);

        if (axis < 0 || (len >= 0 && in[n + i].shape.dim[axis] != len))
            rc = kernel_fail(op, OPM_EINVAL, err, "scanned inputs differ in length");
        else
            len = in[n + i].shape.dim[axis];
    }
    for (int64_t t = 0; t < len && !rc; t++) {
        for (uint32_t i = 0; i < n; i++)
            set_input(body, i, &s->carried[i].t);
        for (uint32_t i = 0; i < nscan && !rc; i++) {
            int axis = nt_axis(list_at(op->node, "scan_input_axes", i), in[n + i].shape.rank);
            bool back = list_at(op->node, "scan_input_directions", i);

            rc = slice_of(op, &slice[i], &in[n + i], axis, back ? len - 1 - t : t, err);
            set_input(body, n + i, &slice[i].t);
        }
        if (!rc)
            rc = run_body(op, body, err);
        for (uint32_t i = 0; i < s->nscanned && !rc; i++)
            rc = scanned_add(op, &s->scanned[i], body_out(body, n + i), err);
        if (!rc)
            rc = carry(op, body, s, 0, err);
    }
    for (uint32_t i = 0; slice && i < nscan; i++)
        native_free(slice[i].own);
    mem_free(slice);
    return rc;
}

static int scan_outputs(struct op *op, struct plan *body, struct loop_state *s, opm_error *err)
{
    const struct graph *g = body->graph;
    int rc = 0;

    for (uint32_t i = 0; i < s->ncarried && !rc; i++)
        rc = hand_over(op, i, &s->carried[i], &s->carried[i].t, err);
    for (uint32_t i = 0; i < s->nscanned && !rc; i++) {
        if (list_at(op->node, "scan_output_axes", i))
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "scan_output_axes other than 0");
        if (list_at(op->node, "scan_output_directions", i))
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "scan_output_directions other than 0");
        if (s->ncarried + i < op->nout)
            rc = scanned_give(op, s->ncarried + i, &s->scanned[i],
                              &g->value[g->output[s->ncarried + i]], err);
    }
    return rc;
}

int scan_run(struct op *op, opm_error *err)
{
    struct plan *body = body_of(op, "body");
    uint32_t nscan = (uint32_t)MAX(node_attr_int(op->node, "num_scan_inputs", 0), (int64_t)0);
    uint32_t skip = op->node->opset < 9, nin = op->node->nin - MIN(skip, op->node->nin);
    struct loop_state *s = NULL;
    struct nt *in;
    int rc;

    if (!body || nscan > nin || body->graph->ninput != nin || body->graph->noutput < nin - nscan)
        return kernel_fail(op, OPM_EINVAL, err, "the body does not fit");
    in = mem_calloc((size_t)nin + 1, sizeof(*in));
    rc = in ? 0 : kernel_nomem(op, err);
    for (uint32_t i = 0; i < nin && !rc; i++) {
        if (!kernel_in(op, i + skip))
            rc = kernel_fail(op, OPM_EINVAL, err, "input %u is missing", i + skip);
        else
            in[i] = *kernel_in(op, i + skip);
        if (!rc && skip) { /* opset 8: a batch of sequences; only one is supported */
            if (in[i].shape.rank < 1 || in[i].shape.dim[0] != 1)
                rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "a batch of more than one sequence");
            else {
                in[i].shape.rank--;
                memmove(in[i].shape.dim, in[i].shape.dim + 1,
                        (size_t)in[i].shape.rank * sizeof(int64_t));
            }
        }
    }
    if (!rc) {
        s = loop_ready(op, nin - nscan, body->graph->noutput - (nin - nscan));
        rc = s ? 0 : kernel_nomem(op, err);
    }
    if (!rc)
        rc = scan_once(op, body, in, nin, nscan, s, err);
    if (!rc)
        rc = scan_outputs(op, body, s, err);
    for (uint32_t i = 0; i < op->nout && !rc && skip; i++) { /* the batch dimension back */
        struct nt *t = kernel_out(op, i);

        if (!t || t->shape.rank >= SHAPE_RANK_MAX)
            continue;
        memmove(t->shape.dim + 1, t->shape.dim, (size_t)t->shape.rank * sizeof(int64_t));
        t->shape.dim[0] = 1;
        t->shape.rank++;
    }
    if (s)
        loop_drop(s, KEPT_BYTES);
    mem_free(in);
    return rc;
}

/* One round of SequenceMap: elements of sequences, and tensors as they are, in; round `at` of the
 * lists out. */
static int map_round(struct op *op, struct plan *body, int64_t at, const struct nt ***list,
                     opm_error *err)
{
    int rc;

    for (uint32_t i = 0; i < op->node->nin; i++) {
        const struct nt *t = kernel_in(op, i);

        set_input(body, i, t->kind == VALUE_SEQUENCE ? nt_item(t, at) : t);
    }
    rc = run_body(op, body, err);
    for (uint32_t i = 0; i < op->nout && !rc; i++) {
        const struct nt *from = body_out(body, i);
        struct nt *t =
            from->kind == VALUE_TENSOR ? kernel_new_item(op, from->type, &from->shape) : NULL;

        if (!t)
            return kernel_fail(op, OPM_EINVAL, err,
                               "output %u of the body is no tensor, or too big", i);
        if (from->bytes)
            memcpy(t->data, from->data, from->bytes);
        if (list[i])
            list[i][at] = t;
    }
    return rc;
}

int seq_map_run(struct op *op, opm_error *err)
{
    struct plan *body = body_of(op, "body");
    const struct nt *s = kernel_in(op, 0), ***list;
    int64_t n;
    int rc = 0;

    if (!body || body->graph->ninput != op->node->nin || body->graph->noutput < op->nout)
        return kernel_fail(op, OPM_EINVAL, err, "the body does not fit");
    if (!s || s->kind != VALUE_SEQUENCE)
        return kernel_fail(op, OPM_EINVAL, err, "input 0 is no sequence");
    n = s->count;
    for (uint32_t i = 1; i < op->node->nin; i++) {
        const struct nt *t = kernel_in(op, i);

        if (!t || (t->kind == VALUE_SEQUENCE && t->count != n))
            return kernel_fail(op, OPM_EINVAL, err, "input %u is missing, or of another length", i);
    }
    list = mem_calloc((size_t)op->nout + 1, sizeof(*list));
    if (!list)
        return kernel_nomem(op, err);
    for (uint32_t i = 0; i < op->nout && !rc; i++)
        if (kernel_out(op, i))
            rc = kernel_set_list(op, i, VALUE_SEQUENCE, n, &list[i], err);
    for (int64_t i = 0; i < n && !rc; i++)
        rc = map_round(op, body, i, list, err);
    mem_free(list);
    return rc;
}

/* Products of the heads of a, [batch, heads, m, k], by those of b, [batch, kv, ...], each for
 * heads / kv of a: by b turned, or as it is. */
struct heads {
    int64_t heads, kv, m, n, k;
    bool turned;
    float alpha;
};

static int multiply_heads(struct op *op, const struct heads *h, int64_t batch, const float *a,
                          const float *b, float *out, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t floats = gemm_size_b(isa, h->k, h->n);
    float *packed = floats < 0 || floats > PTRDIFF_MAX / 8
                        ? NULL
                        : native_alloc((size_t)MAX(floats, (int64_t)1) * sizeof(float));

    if (!packed)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < batch * h->heads; i++) {
        int64_t group = h->heads / h->kv, of = i / group;
        struct gemm g = { .isa = isa,
                          .m = h->m,
                          .n = h->n,
                          .k = h->k,
                          .a = a + i * h->m * h->k,
                          .ars = h->k,
                          .aks = 1,
                          .b = packed,
                          .c = out + i * h->m * h->n,
                          .ldc = h->n,
                          .alpha = h->alpha };

        if (i % group == 0)
            gemm_pack_b(isa, packed, b + of * h->k * h->n, h->k, h->n, h->turned ? 1 : h->n,
                        h->turned ? h->k : 1, 0, gemm_panels(h->n, isa->nr));
        gemm_run_all(&g, kernel_pool(op));
    }
    native_free(packed);
    return 0;
}

/* What a body makes of *t, if there is one. */
static int change_by(struct op *op, const char *name, const struct nt **t, opm_error *err)
{
    struct plan *body = body_of(op, name);
    const struct nt *made;
    int rc;

    if (!body)
        return 0;
    if (body->graph->ninput != 1 || body->graph->noutput != 1)
        return kernel_fail(op, OPM_EINVAL, err, "%s does not fit", name);
    set_input(body, 0, *t);
    rc = run_body(op, body, err);
    if (rc)
        return rc;
    made = body_out(body, 0);
    if (made->type != TENSOR_F32 || !shape_equal(&made->shape, &(*t)->shape))
        return kernel_fail(op, OPM_EINVAL, err, "%s gives another type or shape than it got", name);
    *t = made;
    return 0;
}

static bool flex_fits(const struct nt *q, const struct nt *k, const struct nt *v)
{
    const int64_t *a = q->shape.dim, *b = k->shape.dim, *c = v->shape.dim;

    return q->shape.rank == 4 && k->shape.rank == 4 && v->shape.rank == 4 && a[0] == b[0] &&
           a[0] == c[0] && b[1] == c[1] && b[1] > 0 && a[1] % b[1] == 0 && a[3] == b[3] &&
           b[2] == c[2] && a[3] > 0 && b[2] > 0;
}

int flexattention_run(struct op *op, opm_error *err)
{
    const struct nt *in[3], *t;
    struct heads h;
    struct shape s;
    struct nt *scores, *weights, *out;
    int64_t batch;
    int rc = 0;

    for (uint32_t i = 0; i < 3 && !rc; i++) {
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
        in[i] = kernel_in(op, i);
    }
    if (rc)
        return rc;
    if (!flex_fits(in[0], in[1], in[2]))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    batch = in[0]->shape.dim[0];
    h = (struct heads){ in[0]->shape.dim[1],
                        in[1]->shape.dim[1],
                        in[0]->shape.dim[2],
                        in[1]->shape.dim[2],
                        in[0]->shape.dim[3],
                        true,
                        node_attr_float(op->node, "scale", 1 / sqrtf((float)in[0]->shape.dim[3])) };
    s = (struct shape){ 4, { batch, h.heads, h.m, h.n } };
    scores = kernel_new_item(op, TENSOR_F32, &s);
    weights = kernel_new_item(op, TENSOR_F32, &s);
    s.dim[3] = in[2]->shape.dim[3];
    out = kernel_new_item(op, TENSOR_F32, &s);
    if (!scores || !weights || !out)
        return kernel_nomem(op, err);
    if (out->count == 0)
        return give(op, 0, out, err);
    rc = multiply_heads(op, &h, batch, in[0]->data, in[1]->data, scores->data, err);
    t = scores;
    if (!rc)
        rc = change_by(op, "score_mod", &t, err);
    if (rc)
        return rc;
    for (int64_t r = 0; r < t->count; r += h.n)
        kernel_isa(op)->softmax((float *)weights->data + r, (const float *)t->data + r, h.n);
    t = weights;
    rc = change_by(op, "prob_mod", &t, err);
    h.k = h.n;
    h.n = s.dim[3];
    h.turned = false;
    h.alpha = 1;
    if (!rc)
        rc = multiply_heads(op, &h, batch, t->data, in[2]->data, out->data, err);
    return rc ? rc : give(op, 0, out, err);
}
