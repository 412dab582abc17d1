/* onnx_attr.c -- AttributeProto, and references to the attributes of a function's call. */
#include "graph/onnx_int.h"

#include <string.h>

#define ATTRS_MAX 1024 /* of one node */

enum attr_field {
    F_NAME = 1,
    F_FLOAT = 2,
    F_INT = 3,
    F_STRING = 4,
    F_TENSOR = 5,
    F_GRAPH = 6,
    F_FLOATS = 7,
    F_INTS = 8,
    F_STRINGS = 9,
    F_TENSORS = 10,
    F_GRAPHS = 11,
    F_TYPE_PROTO = 14,
    F_TYPE_PROTOS = 15,
    F_TYPE = 20,
    F_REF = 21,
    F_SPARSE = 22,
    F_SPARSES = 23,
};
static const char attr_spec[] = "aLFVLLLSRLLL  LL    VLLL";

/* The field that holds an attribute of each type. */
static const uint32_t field_of[] = {
    [ATTR_FLOAT] = F_FLOAT,
    [ATTR_INT] = F_INT,
    [ATTR_STRING] = F_STRING,
    [ATTR_TENSOR] = F_TENSOR,
    [ATTR_GRAPH] = F_GRAPH,
    [ATTR_FLOATS] = F_FLOATS,
    [ATTR_INTS] = F_INTS,
    [ATTR_STRINGS] = F_STRINGS,
    [ATTR_TENSORS] = F_TENSORS,
    [ATTR_GRAPHS] = F_GRAPHS,
    [ATTR_SPARSE_TENSOR] = F_SPARSE,
    [ATTR_SPARSE_TENSORS] = F_SPARSES,
    [ATTR_TYPE_PROTO] = F_TYPE_PROTO,
    [ATTR_TYPE_PROTOS] = F_TYPE_PROTOS,
};

struct raw_attr {
    struct slice bytes;
    enum attr_type type;
    str_id name, ref;
    size_t n[F_SPARSES + 1]; /* elements of each field */
};

static int scan(struct loader *ld, const char *what, struct raw_attr *raw)
{
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct pb_field f;
    int rc = 0;

    while (!rc && ld_next(ld, &r, &f, attr_spec)) {
        switch (f.number) {
        case F_NAME:
            rc = ld_name(ld, f.p, f.len, &raw->name, NULL);
            break;
        case F_REF:
            rc = f.len ? ld_name(ld, f.p, f.len, &raw->ref, NULL) : 0;
            break;
        case F_TYPE:
            if (f.value >= ARRAY_SIZE(field_of))
                return ld_fail(ld, OPM_EFORMAT, "%s: an attribute has type %lld, which is unknown",
                               what, (long long)f.value);
            raw->type = (enum attr_type)f.value;
            break;
        case F_FLOATS:
            raw->n[F_FLOATS] += f.wire == PB_LEN ? f.len / 4 : 1;
            break;
        case F_INTS:
            raw->n[F_INTS] += ld_count_ints(&f);
            break;
        default:
            raw->n[f.number]++;
        }
    }
    if (!rc)
        rc = ld_end(ld, &r, "an attribute of %s", what);
    if (!rc && raw->name == 0)
        rc = ld_fail(ld, OPM_EFORMAT, "%s: an attribute has no name", what);
    /* The oldest files leave the type out: it is that of the field that is there. */
    for (size_t t = 1; !rc && raw->type == ATTR_NONE && t < ARRAY_SIZE(field_of); t++)
        if (raw->n[field_of[t]])
            raw->type = (enum attr_type)t;
    return rc;
}

/* Where the elements of an attribute go while they are collected. */
struct list {
    size_t n, cap;
    float *floats;
    int64_t *ints;
    struct tensor_string *string;
    struct tensor *tensor;
    struct graph **graph;
};

static int take(struct loader *ld, const struct scope *sc, const char *what,
                const struct pb_field *f, struct list *l)
{
    size_t i = l->n;
    struct slice bytes = { f->p, f->len };

    assert(i < l->cap || f->number == F_FLOATS || f->number == F_INTS);
    switch (f->number) {
    case F_FLOAT:
    case F_FLOATS:
        l->n += f->wire == PB_LEN ? f->len / 4 : 1;
        assert(l->n <= l->cap);
        memcpy(l->floats + i, f->wire == PB_LEN ? f->p : (const uint8_t *)&f->value,
               (l->n - i) * 4);
        return 0;
    case F_INT:
    case F_INTS:
        l->n += ld_take_ints(f, l->ints + i, l->cap - i);
        return 0;
    }
    l->n++;
    switch (f->number) {
    case F_STRING:
    case F_STRINGS:
        return ld_string(ld, f, &l->string[i]);
    case F_TENSOR:
    case F_TENSORS:
        return ld_tensor(ld, bytes, what, &l->tensor[i]);
    case F_SPARSE:
    case F_SPARSES:
        return ld_sparse(ld, bytes, what, &l->tensor[i]);
    case F_GRAPH:
    case F_GRAPHS:
        return ld_graph(ld, bytes, sc, &l->graph[i]);
    default: /* types are only noted */
        return 0;
    }
}

static size_t element_size(enum attr_type t)
{
    switch (t) {
    case ATTR_FLOAT:
    case ATTR_FLOATS:
        return sizeof(float);
    case ATTR_INT:
    case ATTR_INTS:
        return sizeof(int64_t);
    case ATTR_STRING:
    case ATTR_STRINGS:
        return sizeof(struct tensor_string);
    case ATTR_GRAPH:
    case ATTR_GRAPHS:
        return sizeof(struct graph *);
    case ATTR_TYPE_PROTO:
    case ATTR_TYPE_PROTOS:
        return 1;
    default:
        return sizeof(struct tensor);
    }
}

/* Is this the type of a single element, of which the last one in the file counts? */
static bool single(enum attr_type t)
{
    return t <= ATTR_GRAPH || t == ATTR_SPARSE_TENSOR || t == ATTR_TYPE_PROTO;
}

static int read_elements(struct loader *ld, const struct scope *sc, const char *what,
                         const struct raw_attr *raw, struct attr *out)
{
    uint32_t field = field_of[raw->type];
    size_t n = raw->n[field];
    struct list l = { .cap = n };
    struct rd r = rd_of(raw->bytes.p, raw->bytes.len);
    struct pb_field f;
    void *mem;
    int rc = 0;

    if (single(raw->type) && n != 1) {
        /* A writer may leave out what equals the default: 0, 0.0, "". */
        if (n > 1 || raw->type > ATTR_STRING)
            return ld_fail(ld, OPM_EFORMAT, "%s: attribute '%.60s' has %zu values instead of one",
                           what, out->name, n);
        l.cap = 1;
    }
    mem = ld_alloc(ld, l.cap, element_size(raw->type));
    if (!mem)
        return ld->err->code;
    l.floats = mem;
    l.ints = mem;
    l.string = mem;
    l.tensor = mem;
    l.graph = mem;
    if (raw->type == ATTR_STRING)
        *l.string = (struct tensor_string){ "", 0 };
    while (!rc && ld_next(ld, &r, &f, attr_spec))
        if (f.number == field)
            rc = take(ld, sc, what, &f, &l);
    if (rc)
        return rc;
    out->type = raw->type;
    if (out->type == ATTR_SPARSE_TENSOR)
        out->type = ATTR_TENSOR; /* dense by now */
    else if (out->type == ATTR_SPARSE_TENSORS)
        out->type = ATTR_TENSORS;
    out->n = l.cap;
    if (element_size(raw->type) == sizeof(float))
        out->floats = mem;
    else if (element_size(raw->type) == sizeof(struct tensor))
        out->tensor = mem;
    else if (element_size(raw->type) == sizeof(struct tensor_string))
        out->string = mem;
    else if (out->type == ATTR_GRAPH || out->type == ATTR_GRAPHS)
        out->graph = mem;
    else if (out->type == ATTR_INT || out->type == ATTR_INTS)
        out->ints = mem;
    return 0;
}

/* A graph that was given to a function belongs to the graph of the call; inside another graph its
 * captured values would have to be captured once more. Each use costs as many steps as it captures
 * values: that many edges will be looked at. */
static bool usable_here(struct loader *ld, const struct attr *a, const struct scope *sc)
{
    if (a->type != ATTR_GRAPH && a->type != ATTR_GRAPHS)
        return true;
    for (size_t i = 0; i < a->n; i++) {
        ld->steps += a->graph[i]->ncapture;
        if (a->graph[i]->outer != sc->g->graph)
            return false;
    }
    return true;
}

/* One attribute; *use is false for a reference to one that the call does not give. */
static int read_attr(struct loader *ld, const struct scope *sc, const char *what,
                     struct slice bytes, struct attr *out, bool *use)
{
    struct raw_attr raw = { .bytes = bytes };
    const char *ref;
    int rc = scan(ld, what, &raw);

    if (rc)
        return rc;
    *use = true;
    *out = (struct attr){ .name = strpool_get(&ld->impl->name, raw.name), .type = raw.type };
    if (!raw.ref)
        return raw.type == ATTR_NONE ? 0 : read_elements(ld, sc, what, &raw, out);
    ref = strpool_get(&ld->impl->name, raw.ref);
    if (!sc->fn)
        return ld_fail(ld, OPM_EFORMAT,
                       "%s: attribute '%.60s' refers to '%.60s' of a function, but is in none",
                       what, out->name, ref);
    *use = false;
    for (size_t i = 0; i < sc->ngiven; i++)
        if (strcmp(sc->given[i].name, ref) == 0) {
            const char *name = out->name;

            if (!usable_here(ld, &sc->given[i], sc))
                return ld_fail(ld, OPM_EUNSUPPORTED,
                               "%s: a graph given to a function and used in one of its subgraphs",
                               what);
            *out = sc->given[i];
            out->name = name;
            *use = true;
            break;
        }
    return 0;
}

int ld_attrs(struct loader *ld, const struct scope *sc, struct slice node, const char *what,
             const struct attr **out, uint32_t *n)
{
    struct rd r = rd_of(node.p, node.len);
    struct attr *attr;
    struct pb_field f;
    uint32_t count = 0;
    int rc = 0;

    while (ld_next(ld, &r, &f, "n    L"))
        count++;
    *n = 0;
    if (count == 0)
        return 0;
    if (count > ATTRS_MAX)
        return ld_fail(ld, OPM_ELIMIT, "%s has more than %d attributes", what, ATTRS_MAX);
    attr = ld_alloc(ld, count, sizeof(*attr));
    if (!attr)
        return ld->err->code;
    r = rd_of(node.p, node.len);
    while (!rc && ld_next(ld, &r, &f, "n    L")) {
        bool use;

        rc = read_attr(ld, sc, what, (struct slice){ f.p, f.len }, &attr[*n], &use);
        for (uint32_t i = 0; !rc && use && i < *n; i++)
            if (strcmp(attr[i].name, attr[*n].name) == 0)
                rc = ld_fail(ld, OPM_EFORMAT, "%s has attribute '%.60s' twice", what, attr[i].name);
        if (!rc && use)
            ++*n;
    }
    *out = attr;
    return rc;
}
