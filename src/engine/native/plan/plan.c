/* plan.c -- build the list of operators of a graph. */
#include "base/buf.h"
#include "engine/native/isa/half.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* What no kernel exists for, collected over all graphs. */
struct missing {
    struct missing_type {
        const char *op_type, *domain;
        int opset;
        uint32_t count;
        const char *first[2];
        uint32_t index;
    } * type;
    size_t n, cap;
    uint32_t nodes;
};

static int note_missing(struct missing *m, const struct node *n)
{
    struct missing_type *t = NULL;

    m->nodes++;
    for (size_t i = 0; i < m->n && !t; i++)
        if (strcmp(m->type[i].op_type, n->op_type) == 0 &&
            strcmp(m->type[i].domain, n->domain) == 0)
            t = &m->type[i];
    if (!t) {
        if (!GROW(m->type, m->cap, m->n + 1))
            return OPM_ENOMEM;
        t = &m->type[m->n++];
        *t = (struct missing_type){ n->op_type, n->domain, n->opset, 0, { NULL, NULL }, n->index };
    }
    if (t->count < ARRAY_SIZE(t->first))
        t->first[t->count] = n->name;
    t->count++;
    return 0;
}

static int find_missing(struct missing *m, const struct graph *g)
{
    int rc = 0;

    for (uint32_t i = 0; i < g->nnode && !rc; i++) {
        const struct node *n = &g->node[i];

        if (!kernel_find(n->op_type, n->domain, n->opset))
            rc = note_missing(m, n);
        for (uint32_t a = 0; a < n->nattr && !rc; a++)
            if (n->attr[a].type == ATTR_GRAPH || n->attr[a].type == ATTR_GRAPHS)
                for (size_t k = 0; k < n->attr[a].n && !rc; k++)
                    rc = find_missing(m, n->attr[a].graph[k]);
    }
    return rc;
}

/* ONNX Runtime has all operators of ONNX, which ops.def lists, and its own, those of blocked
 * channels included, which it saves after optimizing for its machine. Those of other domains come
 * in libraries that nothing here loads. */
static bool runtime_has(const struct missing_type *t)
{
    if (strcmp(t->domain, "com.microsoft") == 0 || strcmp(t->domain, "com.microsoft.nchwc") == 0)
        return true;
    return (!t->domain[0] || strcmp(t->domain, "ai.onnx") == 0 ||
            strncmp(t->domain, "ai.onnx.", 8) == 0) &&
           op_find(strcmp(t->domain, "ai.onnx") == 0 ? "" : t->domain, t->op_type, 0);
}

static int fail_missing(const struct missing *m, const struct graph *g, opm_error *err)
{
    struct buf b = { 0 };
    const char *foreign = NULL;
    char hint[160];
    int rc;

    buf_addf(&b, "%.100s: the native engine lacks", g->model->name);
    for (size_t i = 0; i < m->n; i++) {
        const struct missing_type *t = &m->type[i];

        if (!foreign && !runtime_has(t))
            foreign = t->domain;
        buf_addf(&b, "%s %s%s%.40s-%d (%u node%s:", i ? ";" : "", t->domain,
                 t->domain[0] ? "." : "", t->op_type, t->opset, t->count, t->count > 1 ? "s" : "");
        for (size_t k = 0; k < MIN((size_t)t->count, ARRAY_SIZE(t->first)); k++)
            buf_addf(&b, " '%.40s'", t->first[k]);
        buf_adds(&b, t->count > ARRAY_SIZE(t->first) ? " ...)" : ")");
    }
    if (!foreign)
        snprintf(hint, sizeof(hint), "--engine onnxruntime could run it");
    else if (foreign[0])
        snprintf(hint, sizeof(hint),
                 "no engine has operators of '%.60s'; export the model without them", foreign);
    else
        snprintf(hint, sizeof(hint), "ONNX has no such operator");
    if (b.len > sizeof(err->msg) - strlen(hint) - 10 && b.data) /* room for the hint */
        memcpy(b.data + sizeof(err->msg) - strlen(hint) - 13, "...", 4);
    rc = opm__fail(err, OPM_EUNSUPPORTED, "%s: %s", buf_str(&b), hint);
    buf_release(&b);
    return rc;
}

static int check_missing(const struct graph *g, opm_error *err)
{
    struct missing m = { 0 };
    int rc = find_missing(&m, g);

    if (rc)
        rc = opm__fail(err, rc, "native engine: out of memory");
    else if (m.n)
        rc = fail_missing(&m, g, err);
    mem_free(m.type);
    return rc;
}

static uint32_t count_bodies(const struct node *n, uint32_t *captures)
{
    uint32_t bodies = 0;

    *captures = 0;
    for (uint32_t a = 0; a < n->nattr; a++)
        if (n->attr[a].type == ATTR_GRAPH || n->attr[a].type == ATTR_GRAPHS)
            for (size_t k = 0; k < n->attr[a].n; k++, bodies++)
                *captures += n->attr[a].graph[k]->ncapture;
    return bodies;
}

/* What subgraphs capture is appended to the inputs, so that it lives and counts as read. */
static int add_bodies(struct op *op, opm_error *err)
{
    const struct node *n = op->node;

    for (uint32_t a = 0; a < n->nattr; a++) {
        if (n->attr[a].type != ATTR_GRAPH && n->attr[a].type != ATTR_GRAPHS)
            continue;
        for (size_t k = 0; k < n->attr[a].n; k++) {
            const struct graph *g = n->attr[a].graph[k];
            int rc = plan_build(&op->body[op->nbody], op->plan->engine, g, op->plan, err);

            if (rc)
                return rc;
            op->nbody++;
            for (uint32_t c = 0; c < g->ncapture; c++)
                op->in[op->nin++] = g->capture[c].outer;
        }
    }
    return 0;
}

uint32_t *slots_new(size_t n)
{
    uint32_t *slot = mem_calloc(n + SLOTS_SPARE, sizeof(*slot));

    for (size_t i = 0; slot && i < n + SLOTS_SPARE; i++)
        slot[i] = NO_VALUE;
    return slot;
}

/* Goes a value in or out that is no tensor? */
static bool has_lists(const struct graph *g, const struct node *n)
{
    bool lists = false;

    for (uint32_t i = 0; i < n->nin; i++)
        lists = lists || (n->in[i] != NO_VALUE && g->value[n->in[i]].kind != VALUE_TENSOR);
    for (uint32_t i = 0; i < n->nout; i++)
        lists = lists || (n->out[i] != NO_VALUE && g->value[n->out[i]].kind != VALUE_TENSOR);
    return lists;
}

/* May a Dropout have to drop anything? */
static bool drops(const struct graph *g, const struct node *n)
{
    const struct tensor *ratio = node_const(g, n, 1), *training = node_const(g, n, 2);

    if (!node_in(g, n, 2) || (ratio && ratio->count == 1 && tensor_float(ratio, 0) == 0))
        return false;
    return !training || (training->count == 1 && tensor_int(training, 0) != 0);
}

static int make_op(struct plan *p, const struct node *n, opm_error *err)
{
    uint32_t captures, bodies = count_bodies(n, &captures);
    struct op *op = &p->op[p->nop];
    size_t room = (size_t)n->nin + captures + 1;
    bool lists = has_lists(p->graph, n);

    *op = (struct op){ .plan = p, .node = n, .zero_ratio = (double)NAN, .epsilon = NAN };
    p->nop++;
    op->kernel = kernel_find(n->op_type, n->domain, n->opset);
    assert(op->kernel);
    if (lists && op->kernel->kind == KERNEL_identity)
        op->kernel = kernel_form(KERNEL_handover, 0);
    else if (op->kernel->kind == KERNEL_dropout && drops(p->graph, n))
        op->kernel = kernel_form(KERNEL_dropout_training, 0);
    op->in = slots_new(room);
    op->out = slots_new(n->nout);
    op->cover = mem_calloc(1, sizeof(struct node *));
    op->body = bodies ? mem_calloc(bodies, sizeof(*op->body)) : NULL;
    if (!op->in || !op->out || !op->cover || (bodies && !op->body))
        return kernel_nomem(op, err);
    if (lists && !(op->kernel->flags & K_LISTS))
        return kernel_fail(op, OPM_EUNSUPPORTED, err,
                           "wants tensors, and one of its operands is none");
    op->cover[0] = n;
    op->ncover = 1;
    op->nin = n->nin;
    op->nout = n->nout;
    if (n->nin)
        memcpy(op->in, n->in, n->nin * sizeof(*op->in));
    /* Recurrent and control-flow operators may be asked for later outputs alone. */
    if ((n->nout == 0 || n->out[0] == NO_VALUE) && !(op->kernel->flags & (K_LATER | K_DYNAMIC)))
        return kernel_fail(op, OPM_EINVAL, err, "its first output is left out");
    if (n->nout)
        memcpy(op->out, n->out, n->nout * sizeof(*op->out));
    return bodies ? add_bodies(op, err) : 0;
}

/* Constants of the model, not what graph_infer() computed for some shapes. */
static int set_const(struct val *v, const struct value *value)
{
    v->t.shape.rank = -1;
    if (!value->data || (value->flags & VALUE_FOLDED))
        return 0;
    v->kind = VAL_CONST;
    v->fixed = true;
    v->src = value->data;
    if (half_inside(v->src->type) != v->src->type && val_set_half(v, v->src))
        return OPM_ENOMEM;
    v->t = (struct nt){
        .type = v->src->type, .shape = v->src->shape, .count = v->src->count, .bytes = v->src->bytes
    };
    if (v->src->type == TENSOR_STRING)
        v->t.bytes = (size_t)v->src->count * sizeof(struct tensor_string);
    return 0;
}

static int check_values(const struct graph *g, opm_error *err)
{
    for (uint32_t i = 0; i < g->nvalue; i++) {
        const struct value *v = &g->value[i];

        if (v->data && !nt_sane(&v->data->shape))
            return opm__fail(err, OPM_ELIMIT, "%.100s: constant '%.80s' is too big", g->model->name,
                             v->name);
        if (v->kind == VALUE_SPARSE || v->kind == VALUE_OPAQUE)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.100s: value '%.80s' is neither tensor, sequence, map nor optional, "
                             "which the native engine cannot handle",
                             g->model->name, v->name);
    }
    return 0;
}

int plan_build(struct plan **out, struct native *e, const struct graph *g, struct plan *outer,
               opm_error *err)
{
    struct plan *p = mem_calloc(1, sizeof(*p));
    int rc = 0;

    if (!p)
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    p->engine = e;
    p->graph = g;
    p->outer = outer;
    p->inner = outer != NULL;
    p->nval = g->nvalue;
    p->val = mem_calloc((size_t)g->nvalue + 1, sizeof(*p->val));
    p->op = mem_calloc((size_t)g->nnode + 1, sizeof(*p->op));
    if (!p->val || !p->op)
        rc = opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    if (!rc && !outer)
        rc = check_missing(g, err);
    if (!rc)
        rc = check_values(g, err);
    for (uint32_t i = 0; i < g->nvalue && !rc; i++)
        if (set_const(&p->val[i], &g->value[i]))
            rc = opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    for (uint32_t i = 0; i < g->nnode && !rc; i++)
        rc = make_op(p, &g->node[i], err);
    if (!rc)
        rc = plan_fuse(p, err);
    if (!rc && !outer)
        rc = plan_layout(p, err);
    for (uint32_t i = 0; i < p->nval && !rc; i++)
        val_narrow(&p->val[i], p->engine->model);
    p->built = true;
    if (rc) {
        plan_free(p);
        return rc;
    }
    *out = p;
    return 0;
}

uint32_t plan_add_val(struct plan *p)
{
    struct val *v = mem_realloc(p->val, ((size_t)p->nval + 2) * sizeof(*v));

    if (!v)
        return NO_VALUE;
    p->val = v;
    memset(&v[p->nval], 0, sizeof(*v));
    v[p->nval].t.shape.rank = -1;
    return p->nval++;
}

void op_release(struct op *op)
{
    if (op->release)
        op->release(op->state);
    mem_free(op->state);
    if (op->scratch_own)
        native_free(op->scratch);
    for (uint32_t i = 0; i < op->nbody; i++)
        plan_free(op->body[i]);
    mem_free(op->body);
    mem_free(op->in);
    mem_free(op->out);
    mem_free(op->cover);
    mem_free(op->seen);
    opm_op_free(op->meter);
    *op = (struct op){ 0 };
}

void plan_free(struct plan *p)
{
    if (!p)
        return;
    for (uint32_t i = 0; p->op && i < p->nop; i++)
        op_release(&p->op[i]);
    for (uint32_t i = 0; p->val && i < p->nval; i++) {
        native_free(p->val[i].own);
        if (p->val[i].wide)
            native_free((void *)(uintptr_t)p->val[i].wide->data);
        mem_free(p->val[i].wide);
    }
    if (p->arena)
        mem_unmap(p->arena, p->arena_bytes);
    mem_free(p->op);
    mem_free(p->val);
    mem_free(p);
}
