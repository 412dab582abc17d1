/* onnx_node.c -- nodes, calls of functions, and Constant nodes.
 *
 * A call of a model-local function is read as if the function's body stood in its place: a scope of
 * its own for names, with the formal inputs and outputs bound to the actual values, and references
 * to attributes looked up among those of the call. */
#include "base/alloc.h"
#include "graph/onnx_int.h"

#include <stdio.h>
#include <string.h>

#define NODE_FIELD_IN 1
#define NODE_FIELD_OUT 2
#define FN_FIELD_NODE 7
static const char node_spec[] = "nLLLLL LL";

struct raw_node {
    struct slice bytes;
    struct slice domain, op_type, overload;
    str_id name;
    uint32_t nin, nout, index;
    char what[200]; /* "node 17 'Conv_3' (Conv)", with the graph or function it is in */
};

static int scan(struct loader *ld, const struct scope *sc, struct raw_node *raw)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct pb_field f;
    const char *name;
    char place[64] = "";
    int rc = 0;

    raw->domain.p = raw->op_type.p = raw->overload.p = (const uint8_t *)"";
    while (!rc && ld_next(ld, &r, &f, node_spec)) {
        struct slice s = { f.p, f.len };

        switch (f.number) {
        case NODE_FIELD_IN:
            raw->nin++;
            break;
        case NODE_FIELD_OUT:
            raw->nout++;
            break;
        case 3:
            rc = ld_name(ld, f.p, f.len, &raw->name, NULL);
            break;
        case 4:
            raw->op_type = s;
            break;
        case 7:
            raw->domain = s;
            break;
        case 8:
            raw->overload = s;
            break;
        }
    }
    if (rc)
        return rc;
    if (raw->domain.len == 7 && memcmp(raw->domain.p, "ai.onnx", 7) == 0)
        raw->domain.len = 0;
    name = raw->name ? strpool_get(&ld->impl->name, raw->name) : "";
    if (sc->fn)
        snprintf(place, sizeof(place), "function '%.40s': ", sc->fn->name);
    else if (sc->outer)
        snprintf(place, sizeof(place), "graph '%.40s': ", sc->g->graph->name);
    snprintf(raw->what, sizeof(raw->what), "%snode %u%s%.60s%s (%.*s)", place, raw->index,
             *name ? " '" : "", name, *name ? "'" : "", (int)MIN(raw->op_type.len, (size_t)40),
             (const char *)raw->op_type.p);
    rc = ld_end(ld, &r, "%s", raw->what);
    if (!rc && raw->op_type.len == 0)
        rc = ld_fail(ld, OPM_EFORMAT, "%s has no operator type", raw->what);
    return rc;
}

/* The name that something called `id` in this scope gets in the graph. */
static int name_in_graph(struct loader *ld, const struct scope *sc, str_id id, const char **out)
{
    const char *name = strpool_get(&ld->impl->name, id);
    str_id full;
    int rc;

    if (sc->prefix) {
        buf_clear(&ld->text);
        buf_adds(&ld->text, sc->prefix);
        buf_addc(&ld->text, '/');
        buf_adds(&ld->text, name);
        for (;;) { /* the graph itself may have such a name */
            if (ld->text.failed)
                return ld_nomem(ld);
            rc = ld_name(ld, ld->text.data, ld->text.len, &full, &name);
            if (rc)
                return rc;
            if (!u64map_get(&ld->name, (uint64_t)sc->g->scope << 32 | full))
                break;
            buf_addc(&ld->text, '~');
        }
    }
    *out = name;
    return 0;
}

static int declare(struct loader *ld, const struct scope *sc, const char *what, uint32_t slot,
                   str_id name)
{
    uint64_t *known = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);
    const char *full;
    uint32_t v;
    int rc;

    if (known && (*known & NAME_DUE)) {
        *known &= ~NAME_DUE;
        return 0;
    }
    if (known)
        return ld_fail(ld, OPM_EFORMAT,
                       "%s: output %u '%.60s' is already an input, a constant or another output",
                       what, slot, strpool_get(&ld->impl->name, name));
    rc = name_in_graph(ld, sc, name, &full);
    if (!rc)
        rc = gb_add_value(ld, sc->g, full, &v);
    return rc ? rc : gb_bind(ld, sc->id, name, v);
}

int gb_declare_outputs(struct loader *ld, const struct scope *sc, struct slice body, uint32_t field)
{
    struct rd r = rd_of(body.p, body.len), part;
    struct pb_field f, g;
    uint32_t index = 0;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, field == FN_FIELD_NODE ? "f      L" : "gL")) {
        struct raw_node raw = { .bytes = { f.p, f.len }, .index = index++ };
        uint32_t slot = 0;

        part = rd_of(f.p, f.len);
        while (!rc && ld_next(ld, &part, &g, "n L")) {
            str_id name;

            if (g.len) {
                rc = ld_name(ld, g.p, g.len, &name, NULL);
                if (!rc && u64map_get(&ld->name, (uint64_t)sc->id << 32 | name) && !raw.what[0])
                    rc = scan(ld, sc, &raw); /* there may be something to say about the node */
                if (!rc)
                    rc = declare(ld, sc, raw.what, slot, name);
            }
            slot++;
        }
        if (!rc)
            rc = ld_end(ld, &part, "node %u", raw.index);
    }
    return rc;
}

/* Names of one field of a node as values of the scope's graph. */
static int read_values(struct loader *ld, const struct scope *sc, const struct raw_node *raw,
                       uint32_t field, uint32_t *out)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct pb_field f;
    uint32_t n = 0;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, field == NODE_FIELD_IN ? "nL" : "n L")) {
        bool found = true;
        str_id name;

        out[n] = NO_VALUE;
        if (f.len) {
            rc = ld_name(ld, f.p, f.len, &name, NULL);
            if (!rc)
                rc = gb_resolve(ld, sc, name, &out[n], &found);
            if (!rc && !found)
                rc = ld_fail(ld, OPM_EFORMAT, "%s: input %u '%.60s' is produced by nothing",
                             raw->what, n, strpool_get(&ld->impl->name, name));
        }
        n++;
    }
    return rc;
}

/* A Constant node's tensor, whichever of its attributes has it. */
static int constant_of(struct loader *ld, const char *what, const struct node *n,
                       const struct tensor **out)
{
    const struct attr *a = n->nattr == 1 ? &n->attr[0] : NULL;
    struct tensor *t;

    if (!a)
        return ld_fail(ld, OPM_EFORMAT, "%s has %u attributes instead of one value", what,
                       n->nattr);
    if (a->type == ATTR_TENSOR) {
        *out = a->tensor;
        return 0;
    }
    t = ld_alloc(ld, 1, sizeof(*t));
    if (!t)
        return ld->err->code;
    *t = (struct tensor){ .name = "", .count = (int64_t)a->n };
    switch (a->type) {
    case ATTR_FLOAT:
    case ATTR_FLOATS:
        t->type = TENSOR_F32;
        t->data = a->floats;
        t->bytes = a->n * sizeof(float);
        break;
    case ATTR_INT:
    case ATTR_INTS:
        t->type = TENSOR_I64;
        t->data = a->ints;
        t->bytes = a->n * sizeof(int64_t);
        break;
    case ATTR_STRING:
    case ATTR_STRINGS:
        t->type = TENSOR_STRING;
        t->data = a->string;
        break;
    default:
        return ld_fail(ld, OPM_EFORMAT, "%s: attribute '%.60s' is no value", what, a->name);
    }
    if (a->type == ATTR_FLOATS || a->type == ATTR_INTS || a->type == ATTR_STRINGS) {
        t->shape.rank = 1;
        t->shape.dim[0] = t->count;
    }
    *out = t;
    return 0;
}

static int add_node(struct loader *ld, struct gbuild *g, const struct node *n)
{
    uint32_t at = (uint32_t)g->nnode;

    if (!GROW(g->node, g->node_cap, g->nnode + 1))
        return ld_nomem(ld);
    for (uint32_t i = 0; i < n->nout; i++)
        if (n->out[i] != NO_VALUE) {
            g->value[n->out[i]].producer = at;
            g->value[n->out[i]].slot = i;
        }
    g->node[g->nnode++] = *n;
    return 0;
}

static int count_node(struct loader *ld, const char *what)
{
    if (++ld->nnode > MODEL_NODES_MAX)
        return ld_fail(ld, OPM_ELIMIT, "%s: more than %u nodes", what, MODEL_NODES_MAX);
    return 0;
}

static int opset_of(const struct scope *sc, const struct model *m, const char *domain)
{
    int version;

    for (size_t i = 0; i < sc->nopset; i++)
        if (strcmp(sc->opset[i].domain, domain) == 0)
            return sc->opset[i].version;
    version = model_opset(m, domain);
    return version ? version : opset_newest(domain);
}

static int read_plain(struct loader *ld, const struct scope *sc, const struct raw_node *raw)
{
    struct node n = { .name = "", .nin = raw->nin, .nout = raw->nout };
    uint32_t *in = ld_alloc(ld, (size_t)raw->nin + raw->nout, sizeof(*in));
    uint32_t *out = in ? in + raw->nin : NULL;
    int rc;

    if (!in)
        return ld->err->code;
    n.in = in;
    n.out = out;
    n.index = sc->fn ? sc->call_index : raw->index;
    rc = ld_name(ld, raw->op_type.p, raw->op_type.len, NULL, &n.op_type);
    if (!rc)
        rc = ld_name(ld, raw->domain.p, raw->domain.len, NULL, &n.domain);
    if (!rc && raw->name)
        rc = name_in_graph(ld, sc, raw->name, &n.name);
    if (!rc)
        rc = read_values(ld, sc, raw, NODE_FIELD_OUT, out);
    if (!rc)
        rc = read_values(ld, sc, raw, NODE_FIELD_IN, in);
    if (!rc)
        rc = ld_attrs(ld, sc, raw->bytes, raw->what, &n.attr, &n.nattr);
    if (rc)
        return rc;
    n.opset = opset_of(sc, ld->m, n.domain);
    if (node_is(&n, "Constant")) {
        const struct tensor *t = NULL;
        struct value *v;

        rc = constant_of(ld, raw->what, &n, &t);
        if (rc || n.nout == 0 || out[0] == NO_VALUE)
            return rc;
        v = &sc->g->value[out[0]];
        v->data = t;
        v->type = t->type;
        v->shape = t->shape;
        v->flags |= VALUE_CONSTANT;
        sc->g->graph->nconstant++;
        return 0;
    }
    return add_node(ld, sc->g, &n);
}

/* The function that a node calls, or NULL. */
static int find_function(struct loader *ld, const struct raw_node *raw, const struct function **out)
{
    const struct slice part[3] = { raw->domain, raw->op_type, raw->overload };
    uint64_t *at;
    str_id key;
    int rc;

    *out = NULL;
    if (ld->nfn == 0)
        return 0;
    rc = ld_function_key(ld, part);
    if (rc)
        return rc;
    key = strpool_find(&ld->impl->name, ld->text.data, ld->text.len);
    at = key ? u64map_get(&ld->fn_key, key) : NULL;
    if (at)
        *out = &ld->fn[*at];
    return 0;
}

/* A prefix for the names of what a call adds: that of the call, made unique. */
static int make_prefix(struct loader *ld, const struct scope *sc, const struct raw_node *raw,
                       const char **out)
{
    str_id id = raw->name;
    char text[160];
    int rc = 0;

    if (!id || *strpool_get(&ld->impl->name, id) == '\0') {
        snprintf(text, sizeof(text), "%.*s_%u", (int)MIN(raw->op_type.len, (size_t)100),
                 (const char *)raw->op_type.p, raw->index);
        rc = ld_name(ld, text, strlen(text), &id, NULL);
    }
    buf_clear(&ld->text);
    if (sc->prefix) {
        buf_adds(&ld->text, sc->prefix);
        buf_addc(&ld->text, '/');
    }
    if (!rc)
        buf_adds(&ld->text, strpool_get(&ld->impl->name, id));
    while (!rc) { /* scope 0 has the prefixes that are taken */
        if (ld->text.failed)
            return ld_nomem(ld);
        rc = ld_name(ld, ld->text.data, ld->text.len, &id, out);
        if (rc || !u64map_get(&ld->name, id))
            break;
        buf_addc(&ld->text, '~');
    }
    return rc ? rc : gb_bind(ld, 0, id, 0);
}

/* Bind the formal names of one field of the function to the values of the call. */
static int bind_formals(struct loader *ld, const struct scope *sc, const struct raw_node *raw,
                        bool outputs, const uint32_t *actual, uint32_t nactual)
{
    struct rd r = rd_of(sc->fn->bytes.p, sc->fn->bytes.len);
    const char *full;
    struct pb_field f;
    uint32_t n = 0;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, outputs ? "f    L" : "f   L")) {
        uint32_t v = n < nactual ? actual[n] : NO_VALUE;
        uint64_t *known;
        str_id name;

        n++;
        rc = ld_name(ld, f.p, f.len, &name, NULL);
        if (rc)
            break;
        known = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);
        if (outputs && known && !(*known & NAME_DUE) && v != NO_VALUE) {
            uint32_t *io = ld_alloc(ld, 2, sizeof(*io)); /* an output that is an input */
            struct node copy = { .name = sc->prefix, .op_type = "Identity", .domain = "" };

            if (!io)
                return ld->err->code;
            io[0] = NAME_INDEX(*known);
            io[1] = v;
            copy.in = &io[0];
            copy.out = &io[1];
            copy.nin = copy.nout = 1;
            copy.index = sc->call_index;
            copy.opset = opset_of(sc, ld->m, "");
            rc = count_node(ld, raw->what);
            if (!rc)
                rc = add_node(ld, sc->g, &copy);
            continue;
        }
        if (known)
            return ld_fail(ld, OPM_EFORMAT, "function '%.60s' has two parameters '%.60s'",
                           sc->fn->name, strpool_get(&ld->impl->name, name));
        if (outputs && v == NO_VALUE) { /* the call does not want it, the body computes it */
            rc = name_in_graph(ld, sc, name, &full);
            if (!rc)
                rc = gb_add_value(ld, sc->g, full, &v);
        }
        if (!rc)
            rc = gb_bind(ld, sc->id, name, outputs ? v | NAME_DUE : v);
    }
    if (!rc && nactual > n)
        rc = ld_fail(ld, OPM_EFORMAT, "%s: has %u %s, function '%.60s' takes %u", raw->what,
                     nactual, outputs ? "outputs" : "inputs", sc->fn->name, n);
    return rc;
}

/* After the body: each output must have been produced. */
static int check_outputs(struct loader *ld, const struct scope *sc, const struct raw_node *raw)
{
    struct rd r = rd_of(sc->fn->bytes.p, sc->fn->bytes.len);
    struct pb_field f;

    while (ld_next(ld, &r, &f, "f    L")) {
        str_id name = strpool_find(&ld->impl->name, (const char *)f.p, f.len);
        uint64_t *v = u64map_get(&ld->name, (uint64_t)sc->id << 32 | name);

        if (v && (*v & NAME_DUE))
            return ld_fail(ld, OPM_EFORMAT,
                           "%s: output '%.60s' of function '%.60s' is produced by nothing",
                           raw->what, strpool_get(&ld->impl->name, name), sc->fn->name);
    }
    return 0;
}

/* The attributes that a body may refer to: those of the call, then the function's defaults. */
static int given_attrs(struct loader *ld, const struct scope *sc, const struct raw_node *raw,
                       struct scope *inner)
{
    const struct attr *own;
    struct attr *all;
    uint32_t nown, ndefault = 0;
    struct rd r = rd_of(inner->fn->bytes.p, inner->fn->bytes.len);
    struct pb_field f;
    struct buf node = { 0 };
    const struct attr *fallback = NULL;
    int rc = ld_attrs(ld, sc, raw->bytes, raw->what, &own, &nown);

    if (rc)
        return rc;
    /* The defaults are AttributeProtos in field 11: the same, as field 5, is what a node has. They
     * hold no weights, so a copy does no harm; it must live as long as what points into it. */
    while (ld_next(ld, &r, &f, "f          L"))
        pb_bytes(&node, 5, f.p, f.len);
    if (node.len) {
        char *copy = node.failed ? NULL : ld_alloc(ld, node.len, 1);

        if (!copy)
            rc = node.failed ? ld_nomem(ld) : ld->err->code;
        else {
            memcpy(copy, node.data, node.len);
            rc = ld_attrs(ld, inner, (struct slice){ (const uint8_t *)copy, node.len }, raw->what,
                          &fallback, &ndefault);
        }
    } else if (node.failed)
        rc = ld_nomem(ld);
    buf_release(&node);
    if (rc)
        return rc;
    all = ld_alloc(ld, (size_t)nown + ndefault + 1, sizeof(*all));
    if (!all)
        return ld->err->code;
    if (nown)
        memcpy(all, own, nown * sizeof(*all));
    if (ndefault)
        memcpy(all + nown, fallback, ndefault * sizeof(*all));
    inner->given = all;
    inner->ngiven = (size_t)nown + ndefault;
    return 0;
}

static int inline_call(struct loader *ld, const struct scope *sc, const struct raw_node *raw,
                       const struct function *fn)
{
    struct scope inner = { .id = ++ld->nscope,
                           .g = sc->g,
                           .fn = fn,
                           .opset = fn->opset,
                           .nopset = fn->nopset,
                           .fn_depth = sc->fn_depth + 1 };
    uint32_t *in = ld_alloc(ld, (size_t)raw->nin + raw->nout, sizeof(*in));
    uint32_t *out = in ? in + raw->nin : NULL;
    int rc;

    if (!in)
        return ld->err->code;
    inner.call_index = sc->fn ? sc->call_index : raw->index;
    if (inner.fn_depth > MODEL_FUNCTION_DEPTH_MAX)
        return ld_fail(ld, OPM_ELIMIT, "%s: functions that call functions more than %d deep",
                       raw->what, MODEL_FUNCTION_DEPTH_MAX);
    rc = make_prefix(ld, sc, raw, &inner.prefix);
    if (!rc)
        rc = given_attrs(ld, sc, raw, &inner);
    if (!rc)
        rc = read_values(ld, sc, raw, NODE_FIELD_IN, in);
    if (!rc)
        rc = read_values(ld, sc, raw, NODE_FIELD_OUT, out);
    if (!rc)
        rc = bind_formals(ld, &inner, raw, false, in, raw->nin);
    if (!rc)
        rc = bind_formals(ld, &inner, raw, true, out, raw->nout);
    if (!rc)
        rc = gb_declare_outputs(ld, &inner, fn->bytes, FN_FIELD_NODE);
    if (!rc)
        rc = check_outputs(ld, &inner, raw);
    if (!rc)
        rc = gb_read_nodes(ld, &inner, fn->bytes, FN_FIELD_NODE);
    return rc;
}

int gb_read_nodes(struct loader *ld, const struct scope *sc, struct slice body, uint32_t field)
{
    struct rd r = rd_of(body.p, body.len);
    struct pb_field f;
    uint32_t index = 0;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, field == FN_FIELD_NODE ? "f      L" : "gL")) {
        struct raw_node raw = { .bytes = { f.p, f.len }, .index = index++ };
        const struct function *fn = NULL;

        rc = scan(ld, sc, &raw);
        if (!rc)
            rc = count_node(ld, raw.what);
        if (!rc)
            rc = find_function(ld, &raw, &fn);
        if (!rc)
            rc = fn ? inline_call(ld, sc, &raw, fn) : read_plain(ld, sc, &raw);
    }
    return rc;
}
