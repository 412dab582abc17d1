/* meter.c -- what the recorder is told about operators and memory. */
#include "base/buf.h"
#include "base/json_write.h"
#include "engine/native/op/kernels.h"
#include "graph/footprint.h"
#include "graph/infer.h"
#include "graph/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TENSORS_MAX 64
#define LIST_MAX 16 /* entries of a list attribute that are worth showing */

static const char *dtype_name(enum tensor_type t)
{
    switch (t) {
    case TENSOR_F32:
        return "fp32";
    case TENSOR_F64:
        return "fp64";
    case TENSOR_F16:
        return "fp16";
    case TENSOR_BF16:
        return "bf16";
    default:
        return tensor_type_name(t);
    }
}

static const char *node_label(const struct graph *g, const struct node *n)
{
    if (n->name[0])
        return n->name;
    for (uint32_t i = 0; i < n->nout; i++)
        if (n->out[i] != NO_VALUE)
            return g->value[n->out[i]].name;
    return n->op_type;
}

static void write_attr(struct json_writer *w, const struct attr *a)
{
    bool list = a->type == ATTR_FLOATS || a->type == ATTR_INTS || a->type == ATTR_STRINGS;

    if (list)
        json_array(w);
    for (size_t i = 0; i < MIN(a->n, (size_t)LIST_MAX); i++) {
        switch (a->type) {
        case ATTR_FLOAT:
        case ATTR_FLOATS:
            json_f64(w, (double)a->floats[i]);
            break;
        case ATTR_INT:
        case ATTR_INTS:
            json_i64(w, a->ints[i]);
            break;
        default:
            json_str(w, a->string[i].s, a->string[i].len);
        }
    }
    if (list)
        json_array_end(w);
}

static void write_attributes(struct buf *b, const struct op *op)
{
    const struct node *n = op->node;
    struct json_writer w = { .buf = b };

    json_object(&w);
    if (op->algorithm) {
        json_key(&w, "algorithm");
        json_cstr(&w, op->algorithm);
    }
    if (op->extra_bytes) {
        json_key(&w, "extra_weight_bytes");
        json_i64(&w, (int64_t)op->extra_bytes);
    }
    for (uint32_t i = 0; op->ncover && i < n->nattr; i++) {
        const struct attr *a = &n->attr[i];

        if (a->n == 0 || a->type == ATTR_NONE || a->type == ATTR_TENSOR || a->type == ATTR_GRAPH ||
            a->type > ATTR_STRINGS)
            continue;
        json_key(&w, a->name);
        write_attr(&w, a);
    }
    json_object_end(&w);
}

static void write_nodes(struct buf *b, const struct op *op)
{
    struct json_writer w = { .buf = b };

    json_array(&w);
    for (uint32_t i = 0; i < op->ncover; i++)
        json_cstr(&w, node_label(op->plan->graph, op->cover[i]));
    json_array_end(&w);
}

/* "bias+relu+add": what was fused, in the order of execution. */
static void write_posts(struct buf *b, const struct op *op)
{
    static const char *const unary[U_NUNARY] = {
        "relu", "clip",      "leakyrelu", "sigmoid",   "tanh",        "exp",  "erf",
        "gelu", "gelu_tanh", "silu",      "hardswish", "hardsigmoid", "sqrt", "reciprocal",
        "neg",  "abs",       "affine",    "square",    "floor",       "ceil", "round",
        "log",  "sin",       "cos",       "elu",       "softplus",    "mish",
    };
    bool first = true;

    if (op->folded_batchnorm) {
        buf_adds(b, "batchnorm");
        first = false;
    }
    for (int i = 0; i < op->npost; i++) {
        const struct post *p = &op->post[i];

        if (!first)
            buf_addc(b, '+');
        first = false;
        buf_adds(b, p->kind == POST_UNARY  ? unary[p->unary]
                    : p->kind == POST_BIAS ? "bias"
                    : p->kind == POST_ADD  ? "add"
                    : p->kind == POST_MUL  ? "mul"
                                           : "scale");
    }
}

static const char *value_name(const struct plan *p, uint32_t v)
{
    if (p->val[v].blocked)
        v = p->val[v].of;
    return v < p->graph->nvalue ? p->graph->value[v].name : "folded";
}

/* A value's type and shape, NULL if they are not known. */
static const struct shape *value_shape(const struct plan *p, uint32_t v, enum tensor_type *type)
{
    const struct val *val = &p->val[v];

    if (val->blocked)
        v = val->of;
    if (v < p->graph->nvalue && val->kind != VAL_CONST) {
        const struct value *g = &p->graph->value[v];

        if (g->kind == VALUE_TENSOR && g->type && shape_concrete(&g->shape)) {
            *type = g->type;
            return &g->shape;
        }
    }
    *type = val->half ? val->half->type : val->t.type;
    return val->t.shape.rank >= 0 && val->t.kind == VALUE_TENSOR ? &val->t.shape : NULL;
}

static uint32_t list_tensors(const struct op *op, opm_tensor *t)
{
    const struct plan *p = op->plan;
    uint32_t n = 0;

    for (uint32_t i = 0; i < op->nin + op->nout && n < TENSORS_MAX; i++) {
        bool out = i >= op->nin;
        uint32_t v = out ? op->out[i - op->nin] : op->in[i];
        const struct shape *s;
        enum tensor_type type;

        if (v == NO_VALUE)
            continue;
        s = value_shape(p, v, &type);
        t[n] = (opm_tensor){ .name = value_name(p, v),
                             .dtype = s ? dtype_name(type) : NULL,
                             .dims = s ? s->dim : NULL,
                             .ndim = s ? (uint32_t)s->rank : 0,
                             .io = out               ? OPM_OUTPUT
                                   : p->val[v].fixed ? OPM_WEIGHT
                                                     : OPM_INPUT,
                             .bytes = s ? shape_bytes(s, type) : -1 };
        n++;
    }
    return n;
}

/* Of a cache that is written where it lies little more than what is read moves. */
static bool writes_into(const struct op *op, uint32_t in, uint32_t out)
{
    const struct native *e = op->plan->engine;
    const struct plan *p = op->plan;

    if (in == NO_VALUE || op->kernel->kind != KERNEL_groupquery || p->inner)
        return false;
    for (size_t i = 0; i < e->nout; i++)
        for (size_t k = 0; k < e->nin && e->bound[i].data; k++)
            if (p->graph->output[i] == out && p->graph->input[k] == in)
                return e->fed && e->fed[k].data == e->bound[i].data;
    return false;
}

/* A node of nothing but constants that an operator covers was computed when it got ready. */
static bool done_before(const struct op *op, const struct node *n)
{
    bool constant = n != op->node && n->nin > 0;

    for (uint32_t i = 0; i < n->nin && constant; i++)
        constant = n->in[i] == NO_VALUE || node_const(op->plan->graph, n, i);
    return constant;
}

/* Sums over the nodes that the operator covers; bytes: only what it really reads and writes, of a
 * table that it looks things up in what it returns, and nothing where its output is its input. What
 * control flow reads and writes is what the operators in its bodies do. */
static void set_footprint(const struct op *op, opm_op_info *info, int *weight_slot)
{
    struct footprint whole = { .read_bytes = -1 };
    int64_t flops = 0, bytes = 0;

    *weight_slot = -1;
    for (uint32_t i = 0; i < op->ncover; i++) {
        struct footprint f;

        node_footprint(op->plan->graph, op->cover[i], &f);
        if (op->cover[i] == op->node)
            *weight_slot = f.weight_slot;
        if (!done_before(op, op->cover[i]))
            flops = flops < 0 || f.flops < 0 ? -1 : flops + f.flops;
        whole = f;
    }
    for (uint32_t i = 0; i < op->nin + op->nout; i++) {
        uint32_t v = i < op->nin ? op->in[i] : op->out[i - op->nin];
        bool again = false;
        const struct shape *s;
        enum tensor_type type;

        for (uint32_t k = 0; k < i && k < op->nin; k++)
            again = again || op->in[k] == v || (v != NO_VALUE && writes_into(op, op->in[k], v));
        if (v == NO_VALUE || again)
            continue;
        s = value_shape(op->plan, v, &type);
        if (!s)
            bytes = -1;
        else if (bytes >= 0)
            bytes += MAX(shape_bytes(s, type), (int64_t)0);
    }
    if (node_is_control_flow(op->node))
        bytes = -1;
    else if (op->kernel->flags & K_ALIAS)
        bytes = 0;
    else if (op->ncover == 1 && whole.read_bytes >= 0 && whole.write_bytes >= 0)
        bytes = MIN(bytes, whole.read_bytes + whole.write_bytes);
    info->flops = flops;
    info->bytes = bytes;
}

/* Its name and what it does, or all that is known of it. */
static void meter_op(struct op *op, bool all)
{
    struct buf attrs = { 0 }, nodes = { 0 }, posts = { 0 };
    opm_op_info info = OPM_OP_INFO_INIT;
    opm_tensor tensor[TENSORS_MAX];
    const struct graph *g = op->plan->graph;
    char weight[120];
    int slot = -1;

    write_attributes(&attrs, op);
    op->told = all;
    write_nodes(&nodes, op);
    write_posts(&posts, op);
    info.name = op->ncover ? node_label(g, op->node) : value_name(op->plan, op->out[0]);
    info.type = op->type ? op->type : op->node->op_type;
    info.post_op = posts.len ? buf_str(&posts) : NULL;
    info.device = "cpu";
    info.engine = "native";
    info.attributes = attrs.failed ? NULL : buf_str(&attrs);
    info.nodes = nodes.failed ? NULL : buf_str(&nodes);
    info.sparse_support = op->sparse_support;
    if (all) {
        set_footprint(op, &info, &slot);
        info.ntensors = list_tensors(op, tensor);
        info.tensors = tensor;
    }
    if (slot >= 0) {
        const struct tensor *w = node_weight(g, op->node, (uint32_t)slot);

        if (w) {
            shape_text(&w->shape, weight, sizeof(weight));
            info.weight_shape = weight;
            if (isnan(op->zero_ratio)) {
                struct weight_zeros z;

                weight_zeros(w, weight_axis(g, op->node, slot), &z);
                model_forget(g->model, w->data, w->bytes);
                op->zero_ratio = isnan(z.element) ? -1 : z.element;
            }
            info.weight_zero_ratio = op->zero_ratio;
        }
    }
    if (op->meter)
        opm_op_update(op->meter, &info);
    else
        op->meter = opm_op_define(&info);
    buf_release(&attrs);
    buf_release(&nodes);
    buf_release(&posts);
}

static void meter_memory(const struct plan *p)
{
    for (uint32_t i = 0; i < p->nval; i++) {
        const struct val *v = &p->val[i];
        opm_mem_info m = OPM_MEM_INFO_INIT;

        if (v->kind != VAL_PLANNED && v->kind != VAL_CONST)
            continue;
        m.owner = value_name(p, i);
        m.kind = v->kind == VAL_CONST ? "weight" : "activation";
        m.bytes = (int64_t)v->t.bytes;
        if (v->kind == VAL_PLANNED) {
            m.addr = (int64_t)v->at;
            m.first_op = v->first < p->nop ? p->op[v->first].meter : NULL;
            m.last_op = p->op[MIN(v->last, p->nop - 1)].meter;
        }
        opm_mem(&m);
    }
    for (uint32_t i = 0; i < p->nop; i++) {
        opm_mem_info m = OPM_MEM_INFO_INIT;

        if (p->op[i].how != OP_STATIC || !p->op[i].scratch_bytes)
            continue;
        m.owner = node_label(p->graph, p->op[i].node);
        m.kind = "workspace";
        m.bytes = (int64_t)p->op[i].scratch_bytes;
        m.addr = (int64_t)p->op[i].scratch_at;
        m.first_op = m.last_op = p->op[i].meter;
        opm_mem(&m);
    }
}

/* FLOPs come from the graph's shapes, which are those of the last graph_infer(). */
static void infer_shapes(struct native *e)
{
    const struct graph *g = e->model->graph;
    struct infer_input *in = mem_calloc((size_t)g->ninput + 1, sizeof(*in));
    struct infer_options opt = { .input = in, .ninput = g->ninput, .hints = true };

    for (uint32_t i = 0; in && i < g->ninput; i++) {
        in[i].name = g->value[g->input[i]].name;
        in[i].shape = e->plan->val[g->input[i]].t.shape;
    }
    if (in)
        graph_infer(e->model, &opt, NULL); /* what does not fit, preparing will say */
    mem_free(in);
}

enum meter_what { METER_NAMES, METER_ANEW, METER_ALL };

static void meter_plan(struct plan *p, enum meter_what what)
{
    for (uint32_t i = 0; i < p->nop; i++) {
        struct op *op = &p->op[i];

        /* Anew: only names are known again, and those of the others are told already. */
        if (what == METER_ANEW && op->told)
            op->meter = NULL; /* that of the earlier shapes is in `told` */
        if (what != METER_ANEW || op->told)
            meter_op(op, what == METER_ALL);
        for (uint32_t b = 0; b < op->nbody; b++)
            meter_plan(op->body[b], what);
    }
}

/* What was told for some shapes of the inputs: the operators of all plans, in their order, and of
 * what shapes each is. Some are those of other shapes of the inputs, too. */
struct told {
    struct shape *in;
    opm_op **meter;
    uint64_t *shapes;
    size_t n;
};

#define TOLD_MAX 64

static size_t count_ops(const struct plan *p)
{
    size_t n = p->nop;

    for (uint32_t i = 0; i < p->nop; i++)
        for (uint32_t b = 0; b < p->op[i].nbody; b++)
            n += count_ops(p->op[i].body[b]);
    return n;
}

static opm_op **each_meter(struct plan *p, opm_op **meter, bool back)
{
    for (uint32_t i = 0; i < p->nop; i++) {
        if (back)
            p->op[i].meter = *meter++;
        else
            *meter++ = p->op[i].meter;
        for (uint32_t b = 0; b < p->op[i].nbody; b++)
            meter = each_meter(p->op[i].body[b], meter, back);
    }
    return meter;
}

static bool told_elsewhere(const struct native *e, const struct told *t, size_t op)
{
    for (size_t i = 0; i < e->ntold; i++)
        if (&e->told[i] != t && e->told[i].n > op && e->told[i].meter[op] == t->meter[op])
            return true;
    return false;
}

static void drop_told(struct native *e, struct told *t, bool meters)
{
    for (size_t i = 0; meters && i < t->n; i++)
        if (!told_elsewhere(e, t, i))
            opm_op_free(t->meter[i]);
    mem_free(t->in);
    mem_free(t->meter);
    mem_free(t->shapes);
    *t = (struct told){ 0 };
}

static void add_shape(uint64_t *h, const struct plan *p, uint32_t v)
{
    enum tensor_type type;
    const struct shape *s = v == NO_VALUE ? NULL : value_shape(p, v, &type);

    for (int32_t i = s ? -1 : 0; i < (s ? s->rank : 1); i++)
        *h = (*h ^ (uint64_t)(!s ? -2 : i < 0 ? s->rank : s->dim[i])) * 0x9e3779b97f4a7c15u;
}

static uint64_t op_shapes(const struct op *op)
{
    uint64_t h = 1;

    for (uint32_t i = 0; i < op->nin; i++)
        add_shape(&h, op->plan, op->in[i]);
    for (uint32_t i = 0; i < op->nout; i++)
        add_shape(&h, op->plan, op->out[i]);
    return h ^ h >> 32;
}

/* Operators whose own shapes were told of are those; the others are new ones. */
static size_t meter_grown(struct native *e, struct plan *p, struct told *t, size_t at)
{
    for (uint32_t i = 0; i < p->nop; i++, at++) {
        struct op *op = &p->op[i];
        const struct told *like = NULL;

        t->shapes[at] = op_shapes(op);
        for (size_t k = 0; k < e->ntold && !like; k++)
            if (&e->told[k] != t && e->told[k].shapes[at] == t->shapes[at])
                like = &e->told[k];
        if (like) {
            op->meter = like->meter[at];
        } else {
            if (op->told)
                op->meter = NULL;
            meter_op(op, true);
        }
        t->meter[at] = op->meter;
        for (uint32_t b = 0; b < op->nbody; b++)
            at = meter_grown(e, op->body[b], t, at + 1) - 1;
    }
    return at;
}

static bool grows(const struct native *e)
{
    for (size_t i = 0; i < e->nout; i++)
        if (e->bound[i].data)
            return true;
    return false;
}

static bool alike(const struct shape *a, const struct shape *b, bool grow)
{
    if (!grow || a->rank != b->rank)
        return shape_equal(a, b);
    for (int32_t i = 0; i < a->rank; i++)
        if (llabs(a->dim[i] - b->dim[i]) > MAX(a->dim[i], b->dim[i]) / 8)
            return false;
    return true;
}

/* What was told for such shapes, or e->ntold. */
static size_t find_told(const struct native *e, const struct engine_tensor *in)
{
    bool grow = grows(e);
    size_t i, k;

    for (i = 0; i < e->ntold; i++) {
        for (k = 0; k < e->nin && alike(&e->told[i].in[k], &in[k].shape, grow); k++)
            ;
        if (k == e->nin)
            break;
    }
    return i;
}

/* A place for what is told next; those of earlier shapes make room for it. */
static struct told *new_told(struct native *e)
{
    if (e->ntold < TOLD_MAX) {
        if (!GROW(e->told, e->told_cap, e->ntold + 1))
            return NULL;
        e->told_now = e->ntold++;
        e->told[e->told_now] = (struct told){ 0 };
    } else {
        e->told_now = (e->told_now + 1) % TOLD_MAX;
        drop_told(e, &e->told[e->told_now], true);
    }
    return &e->told[e->told_now];
}

void meter_names(struct native *e)
{
    meter_plan(e->plan, METER_NAMES);
}

bool meter_shapes(struct native *e, const struct engine_tensor *in)
{
    size_t at = find_told(e, in);
    struct told *t;

    if (at < e->ntold) {
        if (at != e->told_now)
            each_meter(e->plan, e->told[at].meter, true);
        e->told_now = at;
        return false;
    }
    t = new_told(e);
    if (!t)
        return false;
    t->n = count_ops(e->plan);
    t->in = mem_calloc(e->nin + 1, sizeof(*t->in));
    t->meter = mem_calloc(t->n + 1, sizeof(*t->meter));
    t->shapes = mem_calloc(t->n + 1, sizeof(*t->shapes));
    if (!t->in || !t->meter || !t->shapes) { /* nobody else has those operators */
        mem_free(t->in);
        mem_free(t->meter);
        mem_free(t->shapes);
        e->ntold--;
        *t = e->told[e->ntold];
        return false;
    }
    for (size_t i = 0; i < e->nin; i++)
        t->in[i] = in[i].shape;
    if (!grows(e))
        meter_plan(e->plan, METER_ANEW);
    each_meter(e->plan, t->meter, false);
    return true;
}

void meter_all(struct native *e)
{
    infer_shapes(e);
    if (grows(e))
        meter_grown(e, e->plan, &e->told[e->told_now], 0);
    else
        meter_plan(e->plan, METER_ALL);
    if (e->plan->nop && (e->ntold == 1 || !grows(e)))
        meter_memory(e->plan);
}

void meter_release(struct native *e)
{
    for (size_t i = 0; i < e->ntold; i++)
        if (i != e->told_now)
            drop_told(e, &e->told[i], true);
    if (e->ntold) /* those of now are their operators' */
        drop_told(e, &e->told[e->told_now], false);
    mem_free(e->told);
}
