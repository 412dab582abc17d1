/* infer.c -- drive shape inference over a model; see infer.h and infer_int.h. */
#include "graph/infer.h"

#include "base/alloc.h"
#include "base/error.h"
#include "graph/infer_int.h"

#include <string.h>

/* Nodes may be looked at so often on average before loops inside loops are given up on. */
#define WORK_PER_NODE 64
#define WORK_EXTRA 100000

static bool view_in(const struct opview *o, uint32_t slot, enum tensor_type *type,
                    const struct shape **shape)
{
    const struct value *v = node_in(o->g, o->n, slot);

    if (!v)
        return false;
    *type = v->type;
    *shape = &v->shape;
    return true;
}

static const struct elems *view_known(const struct opview *o, uint32_t slot)
{
    const struct value *v = node_in(o->g, o->n, slot);
    const struct elems **known;

    if (!v)
        return NULL;
    known = &o->g->known[o->n->in[slot]];
    if (!*known && v->data)
        *known = infer_elems(o->inf, v->data);
    return *known;
}

static void view_set(const struct opview *o, uint32_t slot, enum tensor_type type,
                     const struct shape *s)
{
    struct value *v = node_out(o->g, o->n, slot);

    if (!v)
        return;
    v->kind = VALUE_TENSOR;
    v->type = type;
    v->shape = *s;
}

static int view_fail(const struct opview *o, const char *text)
{
    char where[260];

    node_text(o->g, o->n, where, sizeof(where));
    return opm__fail(o->inf->err, OPM_EINVAL, "%s: %s", where, text);
}

static const struct opview_class graph_view = { view_in, view_known, view_set, view_fail };

void infer_set_kind(const struct opview *o, uint32_t slot, enum value_kind kind)
{
    struct value *v = node_out(o->g, o->n, slot);

    if (v)
        v->kind = kind;
}

/* What the file says about v, with sizes for the open dimensions that have one now. */
static struct shape declared_shape(const struct infer *inf, const struct value *v)
{
    struct shape s = v->declared ? *v->declared : shape_unknown();

    for (int32_t i = 0; i < s.rank; i++)
        if (s.dim[i] < DIM_OPEN && inf->dim_size[DIM_INDEX(s.dim[i])] >= 0)
            s.dim[i] = inf->dim_size[DIM_INDEX(s.dim[i])];
    return s;
}

/* Settle what was inferred about an output with what the file declares. */
static int settle(const struct opview *o, uint32_t slot, struct value *v)
{
    const struct infer *inf = o->inf;
    char ours[160], theirs[160];
    struct shape s;

    if (inf->distrust || inf->opt->inputs_only || v->kind != VALUE_TENSOR)
        return 0;
    if (v->type == TENSOR_NONE)
        v->type = v->declared_type;
    else if (v->declared_type != TENSOR_NONE && v->declared_type != v->type)
        return inf->opt->hints
                   ? 0
                   : op_fail(o, "output %u '%.60s' is %s, the file says %s", slot, v->name,
                             tensor_type_name(v->type), tensor_type_name(v->declared_type));
    if (!v->declared)
        return 0;
    s = declared_shape(inf, v);
    if (v->shape.rank < 0) {
        v->shape = s;
        return 0;
    }
    if (shape_concrete(&v->shape) && shape_concrete(&s) && !shape_equal(&v->shape, &s)) {
        if (inf->opt->hints)
            return 0;
        shape_text(&v->shape, ours, sizeof(ours));
        shape_text(&s, theirs, sizeof(theirs));
        return op_fail(o, "output %u '%.60s' has shape %s, the file says %s", slot, v->name, ours,
                       theirs);
    }
    for (int32_t i = 0; i < v->shape.rank && s.rank == v->shape.rank; i++)
        if (v->shape.dim[i] < 0 && (s.dim[i] >= 0 || v->shape.dim[i] == DIM_OPEN))
            v->shape.dim[i] = s.dim[i];
    return 0;
}

static void forget_outputs(const struct opview *o)
{
    for (uint32_t i = 0; i < o->nout; i++) {
        struct value *v = node_out(o->g, o->n, i);

        if (!v)
            continue;
        v->type = TENSOR_NONE;
        v->shape = shape_unknown();
        v->data = NULL;
        v->flags &= ~(uint32_t)VALUE_FOLDED;
        o->g->known[o->n->out[i]] = NULL;
    }
}

static int infer_node(struct infer *inf, struct graph *g, const struct node *n)
{
    const struct opview o = { n, n->nin, n->nout, &graph_view, g, inf };
    const struct op_info *info = op_of(n);
    int rc = 0;

    inf->work++;
    forget_outputs(&o);
    if (info) {
        rc = info->infer(&o);
        if (!rc)
            info->fold(&o);
    }
    for (uint32_t i = 0; !rc && i < n->nout; i++) {
        struct value *v = node_out(g, n, i);

        if (v)
            rc = settle(&o, i, v);
    }
    if (inf->nomem)
        return opm__fail(inf->err, OPM_ENOMEM, "%s: no memory to infer shapes", inf->m->name);
    if (rc && rc != OPM_ENOMEM && inf->soft) {
        forget_outputs(&o);
        rc = 0;
    }
    return rc;
}

int infer_graph(struct infer *inf, struct graph *g)
{
    int rc = 0;

    for (uint32_t i = 0; !rc && i < g->nnode; i++)
        rc = infer_node(inf, g, &g->node[i]);
    return rc;
}

void infer_captures(struct graph *g)
{
    for (uint32_t i = 0; i < g->ncapture; i++) {
        const struct value *from = &g->outer->value[g->capture[i].outer];
        struct value *to = &g->value[g->capture[i].inner];

        to->kind = from->kind;
        to->type = from->type;
        to->shape = from->shape;
        to->data = from->data;
        to->flags = (to->flags & ~(uint32_t)VALUE_FOLDED) | (from->flags & VALUE_FOLDED);
        g->known[g->capture[i].inner] = g->outer->known[g->capture[i].outer];
    }
}

void infer_set_input(struct graph *g, uint32_t input, const struct value *from,
                     const struct shape *s)
{
    struct value *to;

    if (input >= g->ninput)
        return;
    to = &g->value[g->input[input]];
    to->type = from->type;
    to->shape = *s;
    to->kind = from->kind;
}

/* Back to what the file says: nothing inferred, nothing folded. */
void infer_forget(struct graph *g)
{
    for (uint32_t i = 0; i < g->nvalue; i++) {
        struct value *v = &g->value[i];

        v->flags &= ~(uint32_t)VALUE_FOLDED;
        g->known[i] = NULL;
        if (v->flags & VALUE_CONSTANT) {
            v->type = v->data->type;
            v->shape = v->data->shape;
            continue;
        }
        v->data = NULL;
        v->type = v->flags & VALUE_INPUT ? v->declared_type : TENSOR_NONE;
        v->shape = shape_unknown();
    }
}

static const struct infer_input *option_for(const struct infer *inf, const char *name)
{
    for (size_t i = 0; i < inf->opt->ninput; i++)
        if (strcmp(inf->opt->input[i].name, name) == 0)
            return &inf->opt->input[i];
    return NULL;
}

/* An input with a given shape: does it fit what the file says, and what does it make of open
 * dimensions? */
static int bind_input(struct infer *inf, const struct value *v, const struct shape *given)
{
    const struct shape *d = v->declared;

    if (!d || given->rank < 0)
        return 0;
    if (d->rank != given->rank)
        return opm__fail(inf->err, OPM_EINVAL,
                         "%.200s: input '%.80s' has %d dimensions, %d were given", inf->m->name,
                         v->name, d->rank, given->rank);
    for (int32_t i = 0; i < d->rank; i++) {
        int64_t *size;

        if (d->dim[i] >= 0 && given->dim[i] != d->dim[i])
            inf->distrust = true;
        if (d->dim[i] >= DIM_OPEN)
            continue;
        size = &inf->dim_size[DIM_INDEX(d->dim[i])];
        if (*size == DIM_OPEN)
            *size = given->dim[i];
        else if (*size != given->dim[i])
            *size = DIM_TORN; /* the same name for two sizes: exporters do that */
    }
    return 0;
}

static int check_options(struct infer *inf)
{
    const struct infer_options *opt = inf->opt;
    const struct graph *g = inf->m->graph;
    int64_t dim;

    for (size_t i = 0; i < opt->ndim; i++) {
        dim = model_dim_find(inf->m, opt->dim[i].name);
        if (dim == 0)
            return opm__fail(inf->err, OPM_ENOTFOUND, "%.200s: has no open dimension '%.80s'",
                             inf->m->name, opt->dim[i].name);
        if (opt->dim[i].size < 0)
            return opm__fail(inf->err, OPM_EINVAL, "%.200s: dimension '%.80s' cannot be %lld",
                             inf->m->name, opt->dim[i].name, (long long)opt->dim[i].size);
        inf->dim_size[DIM_INDEX(dim)] = opt->dim[i].size;
    }
    for (size_t i = 0; i < opt->ninput; i++) {
        uint32_t v = graph_find_value(g, opt->input[i].name);
        const struct infer_input *in = &opt->input[i];
        int rc;

        if (v == NO_VALUE || !(g->value[v].flags & VALUE_INPUT) ||
            (g->value[v].flags & VALUE_CONSTANT))
            return opm__fail(inf->err, OPM_ENOTFOUND, "%.200s: has no input '%.80s'", inf->m->name,
                             in->name);
        if (in->shape.rank > SHAPE_RANK_MAX)
            return opm__fail(inf->err, OPM_EINVAL, "input '%.80s': too many dimensions", in->name);
        rc = bind_input(inf, &g->value[v], in->data ? &in->data->shape : &in->shape);
        if (rc)
            return rc;
    }
    return 0;
}

/* The inputs of the main graph, as options and file have it. */
static void set_inputs(struct infer *inf)
{
    struct graph *g = inf->m->graph;

    for (uint32_t i = 0; i < g->ninput; i++) {
        struct value *v = &g->value[g->input[i]];
        const struct infer_input *in = option_for(inf, v->name);

        v->shape = declared_shape(inf, v);
        if (in && in->data) {
            v->type = in->data->type;
            v->shape = in->data->shape;
            g->known[g->input[i]] = infer_elems(inf, in->data);
        } else if (in && in->shape.rank >= 0)
            v->shape = in->shape;
        for (int32_t d = 0; d < v->shape.rank && inf->opt->open_dim > 0; d++)
            if (v->shape.dim[d] < 0)
                v->shape.dim[d] = inf->opt->open_dim;
    }
}

/* open_dim is a size for named dimensions too, so that declared shapes agree with the inputs. */
static void fix_open_dims(struct infer *inf)
{
    const struct graph *g = inf->m->graph;

    for (uint32_t i = 0; i < g->ninput && inf->opt->open_dim > 0; i++) {
        const struct shape *d = g->value[g->input[i]].declared;

        for (int32_t k = 0; d && k < d->rank; k++)
            if (d->dim[k] < DIM_OPEN && inf->dim_size[DIM_INDEX(d->dim[k])] == DIM_OPEN)
                inf->dim_size[DIM_INDEX(d->dim[k])] = inf->opt->open_dim;
    }
}

static int infer_model(struct infer *inf)
{
    struct model_impl *impl = inf->m->impl;
    uint32_t nnode = 0;
    int rc;

    for (size_t i = 0; i < impl->ndim; i++)
        inf->dim_size[i] = DIM_OPEN;
    for (size_t i = 0; i < impl->ngraph; i++) {
        struct graph *g = impl->graph[i];

        nnode += g->nnode;
        g->known = mem_calloc(g->nvalue, sizeof(*g->known));
        if (!g->known)
            return opm__fail(inf->err, OPM_ENOMEM, "%s: no memory to infer shapes", inf->m->name);
        infer_forget(g);
    }
    inf->work_max = (uint64_t)nnode * WORK_PER_NODE + WORK_EXTRA;
    rc = check_options(inf);
    if (rc)
        return rc;
    fix_open_dims(inf);
    set_inputs(inf);
    rc = infer_graph(inf, inf->m->graph);
    /* Loops that were given up on have left what held in their first rounds only. */
    for (size_t i = 1; i < impl->ngraph && inf->work > inf->work_max; i++)
        infer_forget(impl->graph[i]);
    return rc;
}

int graph_infer(struct model *m, const struct infer_options *opt, opm_error *err)
{
    static const struct infer_options none;
    opm_error own = { 0 };
    struct model_impl *impl = m->impl;
    struct infer inf = { .m = m, .opt = opt ? opt : &none, .err = err ? err : &own };
    int rc;

    arena_release(&impl->folded);
    inf.dim_size = mem_calloc(impl->ndim, sizeof(*inf.dim_size));
    if (!inf.dim_size)
        rc = opm__fail(err, OPM_ENOMEM, "%s: no memory to infer shapes", m->name);
    else
        rc = infer_model(&inf);
    for (size_t i = 0; i < impl->ngraph; i++) {
        mem_free(impl->graph[i]->known);
        impl->graph[i]->known = NULL;
    }
    mem_free(inf.dim_size);
    return rc;
}

void graph_infer_count(const struct model *m, struct infer_count *out)
{
    *out = (struct infer_count){ 0 };
    for (size_t i = 0; i < m->impl->ngraph; i++) {
        const struct graph *g = m->impl->graph[i];

        for (uint32_t k = 0; k < g->nvalue; k++) {
            const struct value *v = &g->value[k];

            if (v->kind != VALUE_TENSOR || (v->producer == NO_NODE && v->nuse == 0))
                continue;
            out->values++;
            out->resolved += v->type != TENSOR_NONE && shape_concrete(&v->shape);
        }
    }
}
