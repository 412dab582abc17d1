/* onnx_graph.c -- GraphProto: values, nodes in topological order, and what subgraphs capture. */
#include "base/alloc.h"
#include "base/error.h"
#include "graph/onnx_int.h"

#include <stdio.h>
#include <string.h>

enum graph_field {
    F_NODE = 1,
    F_NAME = 2,
    F_INITIALIZER = 5,
    F_INPUT = 11,
    F_OUTPUT = 12,
    F_VALUE_INFO = 13,
    F_SPARSE = 15,
};
static const char graph_spec[] = "gLL  L     LLL L";

int gb_bind(struct loader *ld, uint32_t scope, str_id name, uint64_t value)
{
    return u64map_put(&ld->name, (uint64_t)scope << 32 | name, value) ? ld_nomem(ld) : 0;
}

int gb_add_value(struct loader *ld, struct gbuild *g, const char *name, uint32_t *out)
{
    if (++ld->nvalue > MODEL_VALUES_MAX)
        return ld_fail(ld, OPM_ELIMIT, "more than %u values", MODEL_VALUES_MAX);
    if (!GROW(g->value, g->value_cap, g->nvalue + 1))
        return ld_nomem(ld);
    g->value[g->nvalue] =
        (struct value){ .name = name, .shape = { .rank = -1 }, .producer = NO_NODE };
    *out = (uint32_t)g->nvalue++;
    return 0;
}

int gb_resolve(struct loader *ld, const struct scope *sc, str_id name, uint32_t *out, bool *found)
{
    uint64_t *known = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);
    struct capture c;
    int rc;

    *found = known != NULL;
    *out = known ? NAME_INDEX(*known) : NO_VALUE;
    if (known || !sc->outer)
        return 0;
    rc = gb_resolve(ld, sc->outer, name, &c.outer, found);
    if (rc || !*found || c.outer == NO_VALUE)
        return rc;
    rc = gb_add_value(ld, sc->g, strpool_get(&ld->impl->name, name), &c.inner);
    if (!rc)
        rc = gb_bind(ld, sc->id, name, c.inner);
    if (rc)
        return rc;
    sc->g->value[c.inner].flags |= VALUE_CAPTURED;
    if (!GROW(sc->g->capture, sc->g->capture_cap, sc->g->ncapture + 1))
        return ld_nomem(ld);
    sc->g->capture[sc->g->ncapture++] = c;
    *out = c.inner;
    return 0;
}

/* Give a value what the file says about it. */
static int describe(struct loader *ld, struct gbuild *g, uint32_t v, const struct type_info *info)
{
    struct value *value = &g->value[v];
    struct shape *s;

    value->kind = info->kind;
    value->declared_type = info->type;
    if (!(value->flags & VALUE_CONSTANT)) {
        value->type = info->type;
        value->shape = info->shape;
    }
    if (!info->shaped)
        return 0;
    s = ld_alloc(ld, 1, sizeof(*s));
    if (!s)
        return ld->err->code;
    *s = info->shape;
    value->declared = s;
    return 0;
}

static int read_initializer(struct loader *ld, const struct scope *sc, const struct pb_field *f,
                            uint32_t number)
{
    struct tensor *t = ld_alloc(ld, 1, sizeof(*t));
    struct slice bytes = { f->p, f->len };
    struct rd r = rd_of(f->p, f->len);
    char what[120];
    struct pb_field g, name = { .p = (const uint8_t *)"" };
    str_id id;
    uint32_t v;
    int rc;

    if (!t)
        return ld->err->code;
    if (f->number == F_INITIALIZER)
        while (ld_next(ld, &r, &g, "t       L"))
            name = g;
    snprintf(what, sizeof(what), "initializer %u '%.*s'", number, (int)MIN(name.len, (size_t)80),
             (const char *)name.p);
    rc = f->number == F_SPARSE ? ld_sparse(ld, bytes, what, t) : ld_tensor(ld, bytes, what, t);
    if (rc)
        return rc;
    if (t->name[0] == '\0')
        return ld_fail(ld, OPM_EFORMAT, "initializer %u has no name", number);
    rc = ld_name(ld, t->name, strlen(t->name), &id, NULL);
    if (rc)
        return rc;
    if (u64map_get(&ld->name, (uint64_t)sc->id << 32 | id))
        return ld_fail(ld, OPM_EFORMAT, "initializer '%.80s' appears twice", t->name);
    rc = gb_add_value(ld, sc->g, t->name, &v);
    if (!rc)
        rc = gb_bind(ld, sc->id, id, v);
    if (rc)
        return rc;
    sc->g->value[v].data = t;
    sc->g->value[v].type = t->type;
    sc->g->value[v].shape = t->shape;
    sc->g->value[v].flags = VALUE_CONSTANT;
    return 0;
}

static int read_input(struct loader *ld, const struct scope *sc, const struct pb_field *f,
                      uint32_t *input, uint32_t *n)
{
    struct type_info info = { .shape = { .rank = -1 } };
    uint64_t *known;
    bool typed;
    str_id name;
    uint32_t v;
    int rc = ld_value_info(ld, (struct slice){ f->p, f->len }, &name, &info, &typed);

    if (rc)
        return rc;
    if (!name || *strpool_get(&ld->impl->name, name) == '\0')
        return ld_fail(ld, OPM_EFORMAT, "an input has no name");
    known = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);
    if (known) {
        v = NAME_INDEX(*known);
        if (sc->g->value[v].flags & VALUE_INPUT)
            return ld_fail(ld, OPM_EFORMAT, "input '%.80s' appears twice",
                           strpool_get(&ld->impl->name, name));
    } else {
        rc = gb_add_value(ld, sc->g, strpool_get(&ld->impl->name, name), &v);
        if (!rc)
            rc = gb_bind(ld, sc->id, name, v);
        if (rc)
            return rc;
        input[(*n)++] = v;
    }
    sc->g->value[v].flags |= VALUE_INPUT;
    return typed ? describe(ld, sc->g, v, &info) : 0;
}

/* value_info: what the file says about values in between. Names that nothing has are left over
 * from an earlier life of the file. */
static int read_value_info(struct loader *ld, const struct scope *sc, const struct pb_field *f)
{
    struct type_info info = { .shape = { .rank = -1 } };
    uint64_t *known;
    bool typed;
    str_id name;
    int rc = ld_value_info(ld, (struct slice){ f->p, f->len }, &name, &info, &typed);

    if (rc || !name || !typed)
        return rc;
    known = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);
    return known ? describe(ld, sc->g, NAME_INDEX(*known), &info) : 0;
}

static int read_output(struct loader *ld, const struct scope *sc, const struct pb_field *f,
                       uint32_t *out)
{
    struct type_info info = { .shape = { .rank = -1 } };
    struct value *v;
    bool typed, found = false;
    str_id name;
    int rc = ld_value_info(ld, (struct slice){ f->p, f->len }, &name, &info, &typed);

    if (!rc && name)
        rc = gb_resolve(ld, sc, name, out, &found);
    if (rc)
        return rc;
    if (!found || *out == NO_VALUE)
        return ld_fail(ld, OPM_EFORMAT, "%s%.40s%soutput '%.80s' is produced by nothing",
                       sc->outer ? "graph '" : "", sc->outer ? sc->g->graph->name : "",
                       sc->outer ? "': " : "", name ? strpool_get(&ld->impl->name, name) : "");
    v = &sc->g->value[*out];
    v->flags |= VALUE_OUTPUT;
    if (!typed || (v->flags & (VALUE_INPUT | VALUE_CAPTURED)))
        return 0;
    return describe(ld, sc->g, *out, &info);
}

/* Call fn for each value of this graph that a node needs: its inputs and what its subgraphs
 * capture. */
typedef void (*need_fn)(void *arg, uint32_t node, uint32_t value);

static void each_need(const struct gbuild *g, uint32_t at, need_fn fn, void *arg)
{
    const struct node *n = &g->node[at];

    for (uint32_t i = 0; i < n->nin; i++)
        if (n->in[i] != NO_VALUE)
            fn(arg, at, n->in[i]);
    for (uint32_t a = 0; a < n->nattr; a++) {
        const struct attr *attr = &n->attr[a];

        if (attr->type != ATTR_GRAPH && attr->type != ATTR_GRAPHS)
            continue;
        for (size_t k = 0; k < attr->n; k++)
            for (uint32_t c = 0; c < attr->graph[k]->ncapture; c++)
                fn(arg, at, attr->graph[k]->capture[c].outer);
    }
}

/* Sorting: edges from each node to the producers of what it needs. */
struct sort {
    const struct gbuild *g;
    uint32_t *first; /* of node i's edges; nnode + 1 of them */
    uint32_t *edge;
    uint32_t *at;    /* next edge to follow; while counting, the number of edges */
    uint32_t *order; /* the result */
    uint32_t *stack;
    uint8_t *state; /* 0 new, 1 on the stack, 2 done */
    size_t nedge;
    bool sorted;
};

static void count_need(void *arg, uint32_t node, uint32_t value)
{
    struct sort *s = arg;
    uint32_t from = s->g->value[value].producer;

    s->g->value[value].nuse++;
    if (from == NO_NODE)
        return;
    s->nedge++;
    if (from >= node)
        s->sorted = false;
}

static void add_edge(void *arg, uint32_t node, uint32_t value)
{
    struct sort *s = arg;
    uint32_t from = s->g->value[value].producer;

    (void)node;
    if (from != NO_NODE)
        s->edge[s->nedge++] = from;
}

/* Depth first in file order, so that what is in order stays so; *cycle is a node of one. */
static bool order_nodes(struct sort *s, uint32_t nnode, uint32_t *cycle)
{
    uint32_t done = 0;

    for (uint32_t root = 0; root < nnode; root++) {
        uint32_t depth = 0;

        if (s->state[root])
            continue;
        s->stack[depth++] = root;
        s->state[root] = 1;
        while (depth) {
            uint32_t n = s->stack[depth - 1];

            if (s->at[n] == s->first[n + 1]) {
                s->state[n] = 2;
                s->order[done++] = n;
                depth--;
                continue;
            }
            uint32_t next = s->edge[s->at[n]++];

            if (s->state[next] == 1) {
                *cycle = n;
                return false;
            }
            if (s->state[next] == 0) {
                s->state[next] = 1;
                s->stack[depth++] = next;
            }
        }
    }
    return true;
}

/* Put the nodes in the order found, and tell the values. */
static void apply_order(struct gbuild *g, const uint32_t *order, struct node *out)
{
    for (uint32_t i = 0; i < g->nnode; i++) {
        out[i] = g->node[order[i]];
        for (uint32_t k = 0; k < out[i].nout; k++)
            if (out[i].out[k] != NO_VALUE)
                g->value[out[i].out[k]].producer = i;
    }
    memcpy(g->node, out, g->nnode * sizeof(*out));
}

static int sort_nodes(struct loader *ld, struct gbuild *g)
{
    struct sort s = { .g = g, .sorted = true };
    uint32_t nnode = (uint32_t)g->nnode, cycle;
    struct node *copy = NULL;
    char what[300];
    int rc = 0;

    for (uint32_t i = 0; i < nnode; i++)
        each_need(g, i, count_need, &s);
    if (s.sorted)
        return 0;
    s.edge = mem_calloc(s.nedge, sizeof(*s.edge));
    s.first = mem_calloc((size_t)nnode + 1, sizeof(*s.first));
    s.at = mem_calloc(nnode, sizeof(*s.at));
    s.order = mem_calloc(nnode, sizeof(*s.order));
    s.stack = mem_calloc(nnode, sizeof(*s.stack));
    s.state = mem_calloc(nnode, 1);
    copy = mem_calloc(nnode, sizeof(*copy));
    if (!s.edge || !s.first || !s.at || !s.order || !s.stack || !s.state || !copy)
        rc = ld_nomem(ld);
    else {
        s.nedge = 0;
        for (uint32_t i = 0; i < nnode; i++) {
            s.first[i] = s.at[i] = (uint32_t)s.nedge;
            each_need(g, i, add_edge, &s);
        }
        s.first[nnode] = (uint32_t)s.nedge;
        if (order_nodes(&s, nnode, &cycle))
            apply_order(g, s.order, copy);
        else {
            node_text(g->graph, &g->node[cycle], what, sizeof(what));
            rc = opm__fail(ld->err, OPM_EFORMAT, "%s: needs its own output (a cycle)", what);
        }
    }
    mem_free(s.edge);
    mem_free(s.first);
    mem_free(s.at);
    mem_free(s.order);
    mem_free(s.stack);
    mem_free(s.state);
    mem_free(copy);
    return rc;
}

/* Hand the arrays over to the graph. */
static int finish(struct loader *ld, struct gbuild *b)
{
    struct graph *g = b->graph;
    struct node *node = ld_alloc(ld, b->nnode, sizeof(*node));
    struct value *value = node ? ld_alloc(ld, b->nvalue, sizeof(*value)) : NULL;
    struct capture *capture = value ? ld_alloc(ld, b->ncapture, sizeof(*capture)) : NULL;

    if (!capture)
        return ld->err->code;
    if (b->nnode)
        memcpy(node, b->node, b->nnode * sizeof(*node));
    if (b->nvalue)
        memcpy(value, b->value, b->nvalue * sizeof(*value));
    if (b->ncapture)
        memcpy(capture, b->capture, b->ncapture * sizeof(*capture));
    g->node = node;
    g->nnode = (uint32_t)b->nnode;
    g->value = value;
    g->nvalue = (uint32_t)b->nvalue;
    g->capture = capture;
    g->ncapture = (uint32_t)b->ncapture;
    for (uint32_t i = 0; i < g->noutput; i++)
        value[g->output[i]].nuse++;
    return 0;
}

/* The fields of a graph, in the order in which they depend on each other. */
static int read_fields(struct loader *ld, const struct scope *sc, struct slice bytes)
{
    static const char *const passes[] = {
        "g    L         L", /* initializers */
        "g          L",     /* inputs */
    };
    struct graph *g = sc->g->graph;
    struct rd r = rd_of(bytes.p, bytes.len);
    uint32_t ninput = 0, noutput = 0, ninit = 0, *input, *output;
    struct pb_field f;
    int rc = 0;

    while (ld_next(ld, &r, &f, graph_spec)) {
        ninput += f.number == F_INPUT;
        noutput += f.number == F_OUTPUT;
    }
    rc = ld_end(ld, &r, "the graph");
    if (rc)
        return rc;
    input = ld_alloc(ld, ninput, sizeof(*input));
    output = input ? ld_alloc(ld, noutput, sizeof(*output)) : NULL;
    if (!output)
        return ld->err->code;
    for (size_t i = 0; !rc && i < ARRAY_SIZE(passes); i++) {
        r = rd_of(bytes.p, bytes.len);
        while (!rc && ld_next(ld, &r, &f, passes[i]))
            rc = f.number == F_INPUT ? read_input(ld, sc, &f, input, &g->ninput)
                                     : read_initializer(ld, sc, &f, ninit++);
    }
    if (!rc)
        rc = gb_declare_outputs(ld, sc, bytes, F_NODE);
    r = rd_of(bytes.p, bytes.len);
    while (!rc && ld_next(ld, &r, &f, "g            L"))
        rc = read_value_info(ld, sc, &f);
    if (!rc)
        rc = gb_read_nodes(ld, sc, bytes, F_NODE);
    r = rd_of(bytes.p, bytes.len);
    while (!rc && ld_next(ld, &r, &f, "g           L"))
        rc = read_output(ld, sc, &f, &output[g->noutput++]);
    g->input = input;
    g->output = output;
    return rc;
}

static int new_graph(struct loader *ld, struct slice bytes, const struct scope *around,
                     struct graph **out)
{
    struct model_impl *impl = ld->impl;
    struct rd r = rd_of(bytes.p, bytes.len);
    struct graph *g;
    struct pb_field f;
    int rc = 0;

    if (around && around->g->graph->depth == MODEL_SUBGRAPH_DEPTH_MAX)
        return ld_fail(ld, OPM_ELIMIT, "graphs nested more than %d deep", MODEL_SUBGRAPH_DEPTH_MAX);
    if (impl->ngraph == MODEL_GRAPHS_MAX)
        return ld_fail(ld, OPM_ELIMIT, "more than %u graphs", MODEL_GRAPHS_MAX);
    g = ld_alloc(ld, 1, sizeof(*g));
    if (!g)
        return ld->err->code;
    g->name = "";
    while (!rc && ld_next(ld, &r, &f, "g L"))
        rc = ld_name(ld, f.p, f.len, NULL, &g->name);
    if (rc)
        return rc;
    g->model = ld->m;
    g->outer = around ? around->g->graph : NULL;
    g->depth = around ? g->outer->depth + 1 : 0;
    if (!GROW(impl->graph, impl->graph_cap, impl->ngraph + 1))
        return ld_nomem(ld);
    impl->graph[impl->ngraph++] = g;
    *out = g;
    return 0;
}

int ld_graph(struct loader *ld, struct slice bytes, const struct scope *around, struct graph **out)
{
    struct gbuild b = { .scope = ++ld->nscope };
    struct scope sc = { .id = b.scope, .g = &b, .outer = around };
    struct graph *g = NULL;
    int rc = new_graph(ld, bytes, around, &g);

    if (rc)
        return rc;
    b.graph = g;
    if (around) { /* a subgraph in a function's body belongs to the function */
        sc.fn = around->fn;
        sc.given = around->given;
        sc.ngiven = around->ngiven;
        sc.call_index = around->call_index;
        sc.opset = around->opset;
        sc.nopset = around->nopset;
        sc.fn_depth = around->fn_depth;
    }
    rc = read_fields(ld, &sc, bytes);
    if (!rc)
        rc = sort_nodes(ld, &b);
    if (!rc)
        rc = finish(ld, &b);
    mem_free(b.value);
    mem_free(b.node);
    mem_free(b.capture);
    if (!rc)
        *out = g;
    return rc;
}
