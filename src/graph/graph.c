/* graph.c -- look things up in a model; see graph.h. */
#include "graph/graph.h"

#include "base/alloc.h"
#include "graph/model_int.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static bool within(const void *data, size_t bytes, const uint8_t *map, size_t len)
{
    uintptr_t d = (uintptr_t)data, m = (uintptr_t)map;

    return map && d >= m && bytes <= len && d - m <= len - bytes;
}

void model_forget(const struct model *m, const void *data, size_t bytes)
{
    const struct model_impl *impl = m->impl;
    bool mapped = impl->file.file && within(data, bytes, impl->file.data, impl->file.len);
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
    uintptr_t from = ((uintptr_t)data + page - 1) / page * page,
              to = ((uintptr_t)data + bytes) / page * page;

    for (size_t i = 0; i < impl->nmap && !mapped; i++)
        mapped = within(data, bytes, impl->map[i].data, impl->map[i].len);
    if (mapped && from < to)
        madvise((void *)from, to - from, MADV_DONTNEED);
}

void model_free(struct model *m)
{
    struct model_impl *impl;

    if (!m)
        return;
    impl = m->impl;
    for (size_t i = 0; i < impl->nmap; i++)
        if (impl->map[i].len)
            munmap((void *)(uintptr_t)impl->map[i].data, impl->map[i].len);
    mem_free(impl->map);
    mem_free(impl->dim);
    mem_free(impl->graph);
    strpool_release(&impl->name);
    arena_release(&impl->folded);
    arena_release(&impl->arena);
    io_map_release(&impl->file);
    buf_release(&impl->made);
    mem_free(impl);
    mem_free(m);
}

int model_opset(const struct model *m, const char *domain)
{
    if (strcmp(domain, "ai.onnx") == 0)
        domain = "";
    for (size_t i = 0; i < m->nopset; i++)
        if (strcmp(m->opset[i].domain, domain) == 0)
            return m->opset[i].version;
    return 0;
}

int opset_newest(const char *domain)
{
    static const struct opset newest[] = { { "", 27 }, { "ai.onnx", 27 }, { "ai.onnx.ml", 5 } };

    for (size_t i = 0; i < ARRAY_SIZE(newest); i++)
        if (strcmp(newest[i].domain, domain) == 0)
            return newest[i].version;
    return 1;
}

const char *model_dim_name(const struct model *m, int64_t dim)
{
    if (dim >= DIM_OPEN || DIM_INDEX(dim) >= m->impl->ndim)
        return NULL;
    return strpool_get(&m->impl->name, m->impl->dim[DIM_INDEX(dim)]);
}

int64_t model_dim_find(const struct model *m, const char *name)
{
    str_id id = strpool_find(&m->impl->name, name, strlen(name));

    for (size_t i = 0; id && i < m->impl->ndim; i++)
        if (m->impl->dim[i] == id)
            return DIM_NAMED(i);
    return 0;
}

void model_shape_text(const struct model *m, const struct shape *s, char *out, size_t size)
{
    size_t at = 0;

    if (s->rank <= 0) {
        shape_text(s, out, size);
        return;
    }
    if (size)
        out[0] = '\0';
    for (int32_t i = 0; i < s->rank && at < size; i++) {
        const char *x = i ? "x" : "", *name = model_dim_name(m, s->dim[i]);

        if (s->dim[i] >= 0)
            at += (size_t)snprintf(out + at, size - at, "%s%lld", x, (long long)s->dim[i]);
        else
            at += (size_t)snprintf(out + at, size - at, "%s%.40s", x, name ? name : "?");
    }
}

struct tensor *model_new_folded(struct model *m, enum tensor_type type, const struct shape *s)
{
    int64_t bytes = shape_bytes(s, type);
    struct tensor *t;

    assert(bytes >= 0);
    t = arena_alloc(&m->impl->folded, sizeof(*t));
    if (!t)
        return NULL;
    t->data = arena_alloc(&m->impl->folded, (size_t)bytes);
    if (!t->data)
        return NULL;
    t->name = "";
    t->type = type;
    t->shape = *s;
    t->count = shape_count(s);
    t->bytes = (size_t)bytes;
    return t;
}

uint32_t graph_find_value(const struct graph *g, const char *name)
{
    const struct strpool *names = &g->model->impl->name;
    const char *own = strpool_get(names, strpool_find(names, name, strlen(name)));

    /* Names are interned, so equal names are the same pointer. */
    for (uint32_t i = 0; own && i < g->nvalue; i++)
        if (g->value[i].name == own)
            return i;
    return NO_VALUE;
}

void node_text(const struct graph *g, const struct node *n, char *out, size_t size)
{
    char where[64] = "";

    if (g->outer)
        snprintf(where, sizeof(where), "graph '%.40s': ", g->name);
    snprintf(out, size, "%.200s: %snode %u%s%.80s%s (%.60s)", g->model->name, where, n->index,
             n->name[0] ? " '" : "", n->name, n->name[0] ? "'" : "", n->op_type);
}

bool node_is(const struct node *n, const char *op_type)
{
    return n->domain[0] == '\0' && strcmp(n->op_type, op_type) == 0;
}

struct value *node_in(const struct graph *g, const struct node *n, uint32_t slot)
{
    return slot < n->nin && n->in[slot] != NO_VALUE ? &g->value[n->in[slot]] : NULL;
}

struct value *node_out(const struct graph *g, const struct node *n, uint32_t slot)
{
    return slot < n->nout && n->out[slot] != NO_VALUE ? &g->value[n->out[slot]] : NULL;
}

const struct tensor *node_const(const struct graph *g, const struct node *n, uint32_t slot)
{
    const struct value *v = node_in(g, n, slot);

    return v ? v->data : NULL;
}

const struct attr *node_attr(const struct node *n, const char *name)
{
    for (uint32_t i = 0; i < n->nattr; i++)
        if (strcmp(n->attr[i].name, name) == 0)
            return &n->attr[i];
    return NULL;
}

/* The attribute if it has that type. */
static const struct attr *typed(const struct node *n, const char *name, enum attr_type type)
{
    const struct attr *a = node_attr(n, name);

    return a && a->type == type ? a : NULL;
}

int64_t node_attr_int(const struct node *n, const char *name, int64_t missing)
{
    const struct attr *a = typed(n, name, ATTR_INT);

    return a ? a->ints[0] : missing;
}

float node_attr_float(const struct node *n, const char *name, float missing)
{
    const struct attr *a = typed(n, name, ATTR_FLOAT);

    return a ? a->floats[0] : missing;
}

const char *node_attr_str(const struct node *n, const char *name, const char *missing)
{
    const struct attr *a = typed(n, name, ATTR_STRING);

    return a ? a->string[0].s : missing;
}

const int64_t *node_attr_ints(const struct node *n, const char *name, size_t *len)
{
    const struct attr *a = typed(n, name, ATTR_INTS);

    *len = a ? a->n : 0;
    return a ? a->ints : NULL;
}

const float *node_attr_floats(const struct node *n, const char *name, size_t *len)
{
    const struct attr *a = typed(n, name, ATTR_FLOATS);

    *len = a ? a->n : 0;
    return a ? a->floats : NULL;
}

const struct tensor *node_attr_tensor(const struct node *n, const char *name)
{
    const struct attr *a = typed(n, name, ATTR_TENSOR);

    return a ? a->tensor : NULL;
}

struct graph *node_attr_graph(const struct node *n, const char *name)
{
    const struct attr *a = typed(n, name, ATTR_GRAPH);

    return a ? a->graph[0] : NULL;
}
