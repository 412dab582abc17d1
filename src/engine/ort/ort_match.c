/* ort_match.c -- which of the model's nodes a node of ONNX Runtime's optimised graph stands for.
 *
 * ONNX Runtime does not say what it fused; names are all there is. A node keeps its name while
 * only itself changes; known fusions build theirs from a node or from a result:
 *     X                      itself (FusedX: with an activation behind it)
 *     "fused X"              Gemm or Conv X with the activation behind it
 *     X/MatMulAddFusion      MatMul X with the Add behind it
 *     X/MatMulScaleFusion/   MatMul X with scalings that are not said
 *     VALUE_nchwc            everything from a Conv (or pooling) down to the result VALUE
 * A neighbour counts as covered only if it is the sole reader and does not show up by itself.
 * Anything else covers nothing that we know of, and its FLOPs are unknown. */
#include "engine/ort/ort_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_read.h"
#include "base/json_write.h"
#include "graph/footprint.h"
#include "graph/weights.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COVER_MAX 8
#define TENSORS_MAX 32
#define BODIES_MAX 4096 /* graphs inside of graphs that are looked at */

struct named_node {
    const char *name;
    const struct graph *g;
    const struct node *node;
};

struct named_value {
    const char *name;
    const struct graph *g;
    uint32_t value;
};

struct ort_match {
    const struct ort_profile *p;
    struct named_node *node; /* by name */
    size_t nnode, node_cap;
    struct named_value *value; /* results of nodes, by name */
    size_t nvalue, value_cap;
    const char **ran; /* names in the profile, sorted */
    size_t nran;
    struct buf text; /* scratch */
};

/* Nodes of the model behind one of ONNX Runtime's, in the order they compute. */
struct cover {
    const struct graph *g;
    const struct node *node[COVER_MAX];
    size_t n;
    size_t main; /* the one that gives the operator its attributes and weight */
};

static int add_graph(struct ort_match *mt, const struct graph *g, uint32_t *budget)
{
    for (uint32_t i = 0; i < g->nnode; i++) {
        const struct node *n = &g->node[i];

        if (*n->name) {
            if (!GROW(mt->node, mt->node_cap, mt->nnode + 1))
                return OPM_ENOMEM;
            mt->node[mt->nnode++] = (struct named_node){ n->name, g, n };
        }
        for (uint32_t k = 0; k < n->nout; k++) {
            if (n->out[k] == NO_VALUE)
                continue;
            if (!GROW(mt->value, mt->value_cap, mt->nvalue + 1))
                return OPM_ENOMEM;
            mt->value[mt->nvalue++] =
                (struct named_value){ g->value[n->out[k]].name, g, n->out[k] };
        }
        for (uint32_t a = 0; a < n->nattr; a++) {
            if (n->attr[a].type != ATTR_GRAPH && n->attr[a].type != ATTR_GRAPHS)
                continue;
            for (size_t k = 0; k < n->attr[a].n && *budget; k++) {
                --*budget;
                if (add_graph(mt, n->attr[a].graph[k], budget))
                    return OPM_ENOMEM;
            }
        }
    }
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

int ort_match_new(struct ort_match **out, struct model *m, const struct ort_profile *p,
                  opm_error *err)
{
    struct ort_match *mt = mem_calloc(1, sizeof(*mt));
    uint32_t budget = BODIES_MAX;

    if (mt)
        mt->ran = mem_calloc(p->nnode + 1, sizeof(*mt->ran));
    if (!mt || !mt->ran || add_graph(mt, m->graph, &budget)) {
        ort_match_free(mt);
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    }
    mt->p = p;
    for (size_t i = 0; i < p->nnode; i++)
        mt->ran[mt->nran++] = p->node[i].name;
    qsort(mt->ran, mt->nran, sizeof(*mt->ran), by_name);
    if (mt->nnode)
        qsort(mt->node, mt->nnode, sizeof(*mt->node), by_name);
    if (mt->nvalue)
        qsort(mt->value, mt->nvalue, sizeof(*mt->value), by_name);
    *out = mt;
    return 0;
}

void ort_match_free(struct ort_match *mt)
{
    if (!mt)
        return;
    mem_free(mt->node);
    mem_free(mt->value);
    mem_free(mt->ran);
    buf_release(&mt->text);
    mem_free(mt);
}

static bool ran(const struct ort_match *mt, const char *name)
{
    return *name && mt->nran && bsearch(&name, mt->ran, mt->nran, sizeof(*mt->ran), by_name);
}

/* True if the value is computed by something that stands in the profile by itself. */
static bool ran_alone(struct ort_match *mt, const struct node *n, const struct value *out)
{
    buf_clear(&mt->text);
    buf_addf(&mt->text, "%s_nchwc", out->name);
    if (ran(mt, n->name) || ran(mt, buf_str(&mt->text)))
        return true;
    buf_clear(&mt->text);
    buf_addf(&mt->text, "fused %s", n->name);
    return ran(mt, buf_str(&mt->text));
}

/* The only node or value of that name; NULL if there is none or there are several. */
static const void *find_only(const char *name, const void *all, size_t n, size_t size)
{
    const char *found = n ? bsearch(&name, all, n, size, by_name) : NULL;
    const char *first = all, *last = first + (n ? n - 1 : 0) * size;

    if (!found || (found > first && by_name(found - size, found) == 0) ||
        (found < last && by_name(found + size, found) == 0))
        return NULL;
    return found;
}

static const struct named_node *find_node(const struct ort_match *mt, const char *name)
{
    return find_only(name, mt->node, mt->nnode, sizeof(*mt->node));
}

static bool one_of(const char *type, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(type, *list) == 0)
            return true;
    return false;
}

static bool is_activation(const struct node *n)
{
    static const char *const types[] = { "Relu",        "LeakyRelu", "Sigmoid", "Tanh", "Clip",
                                         "HardSigmoid", "HardSwish", "Elu",     NULL };

    return n->domain[0] == '\0' && one_of(n->op_type, types);
}

/* The node that alone reads the only result of n, or NULL. */
static const struct node *sole_reader(const struct graph *g, const struct node *n)
{
    if (n->nout < 1 || n->out[0] == NO_VALUE || g->value[n->out[0]].nuse != 1)
        return NULL;
    for (uint32_t i = 0; i < g->nnode; i++)
        for (uint32_t k = 0; k < g->node[i].nin; k++)
            if (g->node[i].in[k] == n->out[0])
                return &g->node[i];
    return NULL;
}

static void cover_behind(struct ort_match *mt, struct cover *c, bool add)
{
    const struct node *last = c->node[c->n - 1], *next = sole_reader(c->g, last);

    if (next && (add ? node_is(next, "Add") : is_activation(next)) && next->nout == 1 &&
        next->out[0] != NO_VALUE && !ran_alone(mt, next, &c->g->value[next->out[0]]))
        c->node[c->n++] = next;
}

/* Back from a result to the node of that type which began it. */
static void cover_down_to(struct ort_match *mt, struct cover *c, const struct named_value *v,
                          const char *type)
{
    const struct node *back[COVER_MAX];
    uint32_t at = v->value;
    size_t n = 0;

    for (;;) {
        const struct value *val = &v->g->value[at];
        const struct node *node;

        if (val->producer == NO_NODE || n == COVER_MAX)
            return;
        node = &v->g->node[val->producer];
        if (n && (val->nuse != 1 || ran_alone(mt, node, val)))
            return;
        back[n++] = node;
        if (node_is(node, type))
            break;
        if (is_activation(node) || node_is(node, "BatchNormalization")) {
            at = node->in[0];
        } else if (node_is(node, "Add") && node->nin == 2) {
            const struct value *a = node_in(v->g, node, 0), *b = node_in(v->g, node, 1);
            bool can_a = a && a->producer != NO_NODE && a->nuse == 1 &&
                         !ran_alone(mt, &v->g->node[a->producer], a);
            bool can_b = b && b->producer != NO_NODE && b->nuse == 1 &&
                         !ran_alone(mt, &v->g->node[b->producer], b);

            if (can_a == can_b)
                return;
            at = node->in[can_a ? 0 : 1];
        } else {
            return;
        }
        if (at == NO_VALUE)
            return;
    }
    c->g = v->g;
    for (size_t i = 0; i < n; i++)
        c->node[c->n++] = back[n - 1 - i];
}

static bool cut_tail(struct buf *b, const char *tail)
{
    size_t n = strlen(tail);

    if (b->len <= n || strcmp(b->data + b->len - n, tail) != 0)
        return false;
    b->len -= n;
    b->data[b->len] = '\0';
    return true;
}

static void find_cover(struct ort_match *mt, const struct ort_node *o, struct cover *c)
{
    const struct named_node *found = find_node(mt, o->name);
    const struct named_value *value;
    struct buf name = { 0 };
    bool fused = strncmp(o->type, "Fused", 5) == 0, add = false, sure = true;

    if (!found && strncmp(o->name, "fused ", 6) == 0) {
        found = find_node(mt, o->name + 6);
        fused = true;
    }
    buf_adds(&name, o->name);
    if (!found && !name.failed) {
        if (cut_tail(&name, "/MatMulAddFusion"))
            add = fused = true;
        else
            sure = !cut_tail(&name, "/MatMulScaleFusion/");
        if (add || !sure)
            found = find_node(mt, buf_str(&name));
    }
    if (!found && !name.failed && cut_tail(&name, "_nchwc")) {
        const char *key = buf_str(&name);

        value = find_only(key, mt->value, mt->nvalue, sizeof(*mt->value));
        if (value)
            cover_down_to(mt, c, value, o->type);
    }
    buf_release(&name);
    /* A node that was turned into something else kept its name by chance or by a fusion that we do
     * not know. */
    if (found && (fused || !sure || strcmp(found->node->op_type, o->type) == 0)) {
        c->g = found->g;
        c->node[c->n++] = found->node;
        if (fused)
            cover_behind(mt, c, add);
    }
}

static const char *dtype_of(enum tensor_type t)
{
    switch (t) {
    case TENSOR_F32:
        return "fp32";
    case TENSOR_F16:
        return "fp16";
    case TENSOR_F64:
        return "fp64";
    case TENSOR_BF16:
        return "bf16";
    default:
        return tensor_type_name(t);
    }
}

/* ONNX Runtime's own names of types. */
static enum tensor_type type_of(const struct json_reader *r)
{
    static const struct {
        const char *name;
        enum tensor_type type;
    } names[] = { { "float", TENSOR_F32 }, { "double", TENSOR_F64 }, { "string", TENSOR_STRING } };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (json_read_is(r, names[i].name))
            return names[i].type;
    for (int t = TENSOR_NONE + 1; t < TENSOR_NTYPES; t++)
        if (json_read_is(r, tensor_type_name((enum tensor_type)t)))
            return (enum tensor_type)t;
    return TENSOR_NONE;
}

/* What is handed to opm_op_define(); strings in text[] end up there by offset. */
struct describe {
    opm_tensor tensor[TENSORS_MAX];
    struct shape shape[TENSORS_MAX];
    uint32_t n;
};

static void add_tensor(struct describe *d, const char *name, enum tensor_type type,
                       const struct shape *s, enum opm_io io)
{
    opm_tensor *t = &d->tensor[d->n];

    if (d->n == TENSORS_MAX || s->rank < 0)
        return;
    d->shape[d->n] = *s;
    *t = (opm_tensor){ .name = name,
                       .dtype = type ? dtype_of(type) : NULL,
                       .dims = d->shape[d->n].dim,
                       .ndim = (uint32_t)s->rank,
                       .io = io,
                       .bytes = shape_bytes(s, type) };
    d->n++;
}

/* [{"float":[1,784]},...] */
static void add_profile_tensors(struct describe *d, const char *json, enum opm_io io)
{
    struct json_reader r = json_read_of(json ? json : "", json ? strlen(json) : 0);

    if (json_read_next(&r) != JSON_ARRAY)
        return;
    while (json_read_next(&r) == JSON_OBJECT) {
        enum tensor_type type = TENSOR_NONE;
        struct shape s = { .rank = 0 };

        if (json_read_next(&r) != JSON_KEY)
            continue; /* {}: nothing known of it */
        type = type_of(&r);
        if (json_read_next(&r) != JSON_ARRAY)
            return;
        while (json_read_next(&r) == JSON_NUMBER) {
            if (s.rank == SHAPE_RANK_MAX || !json_read_int(&r, &s.dim[s.rank]))
                return;
            s.rank++;
        }
        add_tensor(d, NULL, type, &s, io);
        if (r.token != JSON_ARRAY_END || json_read_next(&r) != JSON_OBJECT_END)
            return;
    }
}

static bool made_inside(const struct cover *c, uint32_t value)
{
    const struct value *v = &c->g->value[value];

    for (size_t i = 0; i < c->n; i++)
        if (v->producer != NO_NODE && c->node[i] == &c->g->node[v->producer])
            return true;
    return false;
}

/* Tensors as the model has them, with their names and with the weights that packing made vanish
 * from the profile. False: some shape is not known. */
static bool add_model_tensors(struct describe *d, const struct cover *c)
{
    const struct node *last = c->node[c->n - 1];

    for (size_t i = 0; i < c->n; i++) {
        const struct node *n = c->node[i];

        for (uint32_t k = 0; k < n->nin; k++) {
            const struct value *v = node_in(c->g, n, k);

            if (!v || made_inside(c, n->in[k]))
                continue;
            if (!shape_concrete(&v->shape))
                return false;
            add_tensor(d, v->name, v->type, &v->shape, v->data ? OPM_WEIGHT : OPM_INPUT);
        }
    }
    for (uint32_t k = 0; k < last->nout; k++) {
        const struct value *v = node_out(c->g, last, k);

        if (!v)
            continue;
        if (!shape_concrete(&v->shape))
            return false;
        add_tensor(d, v->name, v->type, &v->shape, OPM_OUTPUT);
    }
    return true;
}

static void put_attr(struct json_writer *w, const struct attr *a)
{
    json_key(w, a->name);
    if (a->type == ATTR_INTS || a->type == ATTR_FLOATS || a->type == ATTR_STRINGS)
        json_array(w);
    for (size_t i = 0; i < a->n; i++) {
        if (a->type == ATTR_INT || a->type == ATTR_INTS)
            json_i64(w, a->ints[i]);
        else if (a->type == ATTR_FLOAT || a->type == ATTR_FLOATS)
            json_f64(w, (double)a->floats[i]);
        else
            json_str(w, a->string[i].s, a->string[i].len);
    }
    if (a->type == ATTR_INTS || a->type == ATTR_FLOATS || a->type == ATTR_STRINGS)
        json_array_end(w);
}

/* Scalars and short lists; tensors and graphs are not for a table of operators. */
static void put_attributes(struct buf *b, const struct node *n)
{
    struct json_writer w = { .buf = b };

    json_object(&w);
    for (uint32_t i = 0; i < n->nattr; i++) {
        const struct attr *a = &n->attr[i];
        bool scalar = a->type == ATTR_INT || a->type == ATTR_FLOAT || a->type == ATTR_STRING;
        bool list = a->type == ATTR_INTS || a->type == ATTR_FLOATS || a->type == ATTR_STRINGS;

        if ((scalar && a->n == 1) || (list && a->n <= 64))
            put_attr(&w, a);
    }
    json_object_end(&w);
}

static void put_nodes(struct buf *b, const struct cover *c)
{
    struct json_writer w = { .buf = b };

    json_array(&w);
    for (size_t i = 0; i < c->n; i++)
        json_cstr(&w, *c->node[i]->name ? c->node[i]->name : c->node[i]->op_type);
    json_array_end(&w);
}

/* FLOPs of all covered nodes together; bytes of what goes in and out of the group. */
static void add_footprint(opm_op_info *info, const struct describe *d, const struct cover *c)
{
    int64_t flops = 0, bytes = 0;

    for (size_t i = 0; i < c->n && flops >= 0; i++) {
        struct footprint f;

        node_footprint(c->g, c->node[i], &f);
        flops = f.flops < 0 ? -1 : flops + f.flops;
    }
    for (uint32_t i = 0; i < d->n && bytes >= 0; i++)
        bytes = d->tensor[i].bytes < 0 ? -1 : bytes + d->tensor[i].bytes;
    info->flops = flops;
    info->bytes = d->n < TENSORS_MAX && !node_is_control_flow(c->node[c->main]) ? bytes : -1;
}

static void add_weight(opm_op_info *info, const struct cover *c, char *room, size_t size)
{
    const struct node *n = c->node[c->main];
    const struct tensor *t;
    struct weight_zeros z;
    struct footprint f;

    node_footprint(c->g, n, &f);
    t = f.weight_slot >= 0 ? node_weight(c->g, n, (uint32_t)f.weight_slot) : NULL;
    if (!t)
        return;
    shape_text(&t->shape, room, size);
    info->weight_shape = room;
    info->sparse_support = 0; /* none of its kernels for the CPU is sparse */
    weight_zeros(t, weight_axis(c->g, n, f.weight_slot), &z);
    if (!isnan(z.element))
        info->weight_zero_ratio = z.element;
}

opm_op *ort_match_define(struct ort_match *mt, size_t i, const char *engine)
{
    const struct ort_node *o = &mt->p->node[i];
    struct buf nodes = { 0 }, attributes = { 0 }, post = { 0 };
    opm_op_info info = OPM_OP_INFO_INIT;
    struct describe d = { .n = 0 };
    struct cover c = { 0 };
    char weight[128];
    opm_op *op = NULL;

    info.name = o->name;
    info.type = o->type;
    info.engine = engine;
    info.device = *o->provider ? o->provider : NULL;
    find_cover(mt, o, &c);
    if (c.n) {
        put_nodes(&nodes, &c);
        put_attributes(&attributes, c.node[c.main]);
        for (size_t k = c.main + 1; k < c.n; k++)
            buf_addf(&post, "%s%s", post.len ? "," : "", c.node[k]->op_type);
        info.nodes = buf_str(&nodes);
        info.attributes = buf_str(&attributes);
        info.post_op = post.len ? buf_str(&post) : NULL;
        add_weight(&info, &c, weight, sizeof(weight));
    }
    if (c.n && add_model_tensors(&d, &c)) {
        add_footprint(&info, &d, &c);
    } else {
        d.n = 0;
        add_profile_tensors(&d, o->in_shapes, OPM_INPUT);
        add_profile_tensors(&d, o->out_shapes, OPM_OUTPUT);
    }
    info.tensors = d.tensor;
    info.ntensors = d.n;
    if (!nodes.failed && !attributes.failed && !post.failed)
        op = opm_op_define(&info);
    buf_release(&nodes);
    buf_release(&attributes);
    buf_release(&post);
    return op;
}
