/* meter.c -- what the recorder is told about operators and memory. */
#include "base/buf.h"
#include "base/json_write.h"
#include "engine/native/op/kernels.h"
#include "graph/footprint.h"
#include "graph/infer.h"
#include "graph/weights.h"

#include <math.h>
#include <stdio.h>
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
    *type = val->t.type;
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

/* Sums over the nodes that the operator covers; bytes: only what it really reads and writes, of a
 * table that it looks things up in what it returns, and nothing where its output is its input. */
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
        flops = flops < 0 || f.flops < 0 ? -1 : flops + f.flops;
        whole = f;
    }
    for (uint32_t i = 0; i < op->nin + op->nout; i++) {
        uint32_t v = i < op->nin ? op->in[i] : op->out[i - op->nin];
        bool again = false;
        const struct shape *s;
        enum tensor_type type;

        for (uint32_t k = 0; k < i && k < op->nin; k++)
            again = again || op->in[k] == v;
        if (v == NO_VALUE || again)
            continue;
        s = value_shape(op->plan, v, &type);
        if (!s)
            bytes = -1;
        else if (bytes >= 0)
            bytes += MAX(shape_bytes(s, type), (int64_t)0);
    }
    if (op->kernel->flags & K_ALIAS)
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

void plan_meter(struct plan *p, enum meter_what what)
{
    if (what == METER_ANEW && !p->inner)
        infer_shapes(p->engine);
    for (uint32_t i = 0; i < p->nop; i++) {
        /* Anew: only names are known again, and those of the others are told already. */
        if (what != METER_ANEW || p->op[i].told)
            meter_op(&p->op[i], what == METER_ALL);
        for (uint32_t b = 0; b < p->op[i].nbody; b++)
            plan_meter(p->op[i].body[b], what);
    }
    if (what == METER_ALL && !p->inner && p->nop)
        meter_memory(p);
}
