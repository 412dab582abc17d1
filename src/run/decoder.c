/* decoder.c -- see decoder.h. */
#include "run/decoder.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <string.h>

#define PAST "past_key_values."
#define PRESENT "present."

struct finder {
    struct decoder *d;
    const struct model *m;
    const struct engine_value *in, *out;
    size_t nin, nout;
};

static size_t find(const struct engine_value *v, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(v[i].name, name) == 0)
            return i;
    return DECODER_NONE;
}

static bool begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static void list_names(struct buf *b, const struct engine_value *v, size_t n)
{
    const size_t shown = 6;

    for (size_t i = 0; i < n && i < shown; i++)
        buf_addf(b, "%s%.60s", i ? ", " : "", v[i].name);
    if (n > shown)
        buf_addf(b, " and %zu more", n - shown);
}

static int no_decoder(const struct finder *f, const char *lacks, opm_error *err)
{
    struct buf names = { 0 };
    int rc;

    list_names(&names, f->in, f->nin);
    rc =
        opm__fail(err, OPM_EUNSUPPORTED,
                  "%.150s: --generate wants a decoder with a cache, as Hugging Face's tools export "
                  "them: it has no %s (its inputs are %s)",
                  f->m->name, lacks, buf_str(&names));
    buf_release(&names);
    return rc;
}

/* Only the batch may be open besides what is at `axis`. */
static int check_open(const struct finder *f, const struct engine_value *v, int axis,
                      opm_error *err)
{
    for (int32_t i = 1; i < v->shape.rank; i++)
        if (i != axis && v->shape.dim[i] < 0)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: dimension %d of input '%.80s' is open, and only that of the "
                             "tokens may be",
                             f->m->name, (int)i, v->name);
    return 0;
}

/* The dimension that counts tokens: the open one behind the batch; where none is, the model has
 * room for a fixed number, and the one before the last is taken. */
static int token_axis(const struct finder *f, const struct engine_value *v, int *axis,
                      opm_error *err)
{
    if (v->shape.rank != 4 || !tensor_type_float(v->type))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' is not four dimensions of floats, as keys and "
                         "values are",
                         f->m->name, v->name);
    *axis = 2;
    for (int i = 3; i > 0; i--)
        if (v->shape.dim[i] < 0)
            *axis = i;
    return check_open(f, v, *axis, err);
}

/* Does this node of the main graph read that input and write that output itself? */
static bool writes_in_place(const struct finder *f, const struct decoder_cache *c)
{
    const struct graph *g = f->m->graph;
    uint32_t in = graph_find_value(g, f->in[c->in].name),
             out = graph_find_value(g, f->out[c->out].name);
    const struct node *n;

    if (in == NO_VALUE || out == NO_VALUE || g->value[out].producer == NO_NODE)
        return false;
    n = &g->node[g->value[out].producer];
    if (strcmp(n->op_type, "GroupQueryAttention") != 0)
        return false;
    for (uint32_t i = 0; i < n->nin; i++)
        if (n->in[i] == in)
            return g->value[in].nuse == 1;
    return false;
}

static int add_cache(const struct finder *f, size_t in, opm_error *err)
{
    const struct engine_value *v = &f->in[in];
    struct decoder_cache *c = &f->d->cache[f->d->ncache];
    char name[200];
    int rc = token_axis(f, v, &c->axis, err);

    if (rc)
        return rc;
    snprintf(name, sizeof(name), PRESENT "%.150s", v->name + strlen(PAST));
    c->in = in;
    c->out = find(f->out, f->nout, name);
    if (c->out == DECODER_NONE) {
        snprintf(name, sizeof(name), "present_key_values.%.150s", v->name + strlen(PAST));
        c->out = find(f->out, f->nout, name);
    }
    if (c->out == DECODER_NONE)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' has no output " PRESENT "%.80s that it becomes in "
                         "the next step",
                         f->m->name, v->name, v->name + strlen(PAST));
    c->in_place = writes_in_place(f, c);
    c->room = v->shape.dim[c->axis] > 0 ? v->shape.dim[c->axis] : 0;
    if (c->room && !c->in_place)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' is of a fixed length, %lld tokens, and does not "
                         "grow",
                         f->m->name, v->name, (long long)c->room);
    f->d->ncache++;
    return 0;
}

static void fewer(int64_t *longest, int64_t n)
{
    if (n > 0 && (!*longest || n < *longest))
        *longest = n;
}

/* Is value v made of the model's input of that name, by reshaping and casting it? */
static bool comes_from(const struct graph *g, uint32_t v, const char *name)
{
    static const char *const through[] = { "Cast",    "Reshape", "Unsqueeze",
                                           "Squeeze", "Flatten", "Identity" };

    while (v != NO_VALUE) {
        const struct value *x = &g->value[v];
        bool passes = false;

        if (x->flags & VALUE_CAPTURED) {
            for (uint32_t i = 0; i < g->ncapture; i++)
                if (g->capture[i].inner == v)
                    return comes_from(g->outer, g->capture[i].outer, name);
            return false;
        }
        if (x->producer == NO_NODE)
            return (x->flags & VALUE_INPUT) && strcmp(x->name, name) == 0;
        for (size_t i = 0; i < ARRAY_SIZE(through); i++)
            passes |= node_is(&g->node[x->producer], through[i]);
        v = passes && g->node[x->producer].nin ? g->node[x->producer].in[0] : NO_VALUE;
    }
    return false;
}

/* Tables of positions limit how long a text may be. */
static void find_longest(const struct graph *g, int64_t *longest, int64_t *vocabulary)
{
    for (uint32_t i = 0; i < g->nnode; i++) {
        const struct node *n = &g->node[i];
        bool group = strcmp(n->op_type, "GroupQueryAttention") == 0,
             rotary = strcmp(n->op_type, "RotaryEmbedding") == 0;
        uint32_t cos = group ? 7 : n->domain[0] ? 2 : 1;
        const struct tensor *t = NULL;

        if (group || rotary)
            t = node_const(g, n, cos);
        else if (node_is(n, "Gather") && node_attr_int(n, "axis", 0) == 0 && n->nin == 2 &&
                 n->in[1] != NO_VALUE && comes_from(g, n->in[1], "position_ids"))
            t = node_const(g, n, 0);
        if (t && t->shape.rank == 2)
            fewer(longest, t->shape.dim[0]);
        if (node_is(n, "Gather") && n->nin == 2 && n->in[1] != NO_VALUE &&
            comes_from(g, n->in[1], "input_ids")) {
            t = node_const(g, n, 0);
            if (t && t->shape.rank == 2)
                fewer(vocabulary, t->shape.dim[0]);
        }
        for (uint32_t a = 0; a < n->nattr; a++)
            if (n->attr[a].type == ATTR_GRAPH)
                find_longest(n->attr[a].graph[0], longest, vocabulary);
    }
}

static int check_type(const struct finder *f, size_t at, bool truth, opm_error *err)
{
    enum tensor_type t;

    if (at == DECODER_NONE)
        return 0;
    t = f->in[at].type;
    if (truth ? t == TENSOR_BOOL : t == TENSOR_I64 || t == TENSOR_I32 || tensor_type_float(t))
        return 0;
    return opm__fail(err, OPM_EUNSUPPORTED, "%.150s: input '%.80s' must not be %s", f->m->name,
                     f->in[at].name, tensor_type_name(t));
}

/* Every input must be one of those that are known. */
static int check_known(const struct finder *f, opm_error *err)
{
    const struct decoder *d = f->d;

    for (size_t i = 0; i < f->nin; i++) {
        bool known = i == d->ids || i == d->mask || i == d->positions || i == d->branch ||
                     begins(f->in[i].name, PAST);

        if (begins(f->in[i].name, "encoder_") || strstr(f->in[i].name, ".encoder."))
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: input '%.80s' is what an encoder gives, and --generate runs "
                             "no encoder; without --generate the model runs on random inputs",
                             f->m->name, f->in[i].name);
        if (!known)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: --generate does not know what input '%.80s' is; it knows "
                             "input_ids, attention_mask, position_ids, use_cache_branch and " PAST
                             "*",
                             f->m->name, f->in[i].name);
    }
    return 0;
}

static int check_ids(const struct finder *f, opm_error *err)
{
    const struct engine_value *v = &f->in[f->d->ids];

    if (v->shape.rank != 2 || (v->type != TENSOR_I64 && v->type != TENSOR_I32))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' is not two dimensions of integers", f->m->name,
                         v->name);
    if (v->shape.dim[1] > 0)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' has a fixed length of %lld token%s; --generate "
                         "wants it open, to read a prompt and then a token at a time",
                         f->m->name, v->name, (long long)v->shape.dim[1],
                         v->shape.dim[1] == 1 ? "" : "s");
    f->d->batch = v->shape.dim[0] > 0 ? v->shape.dim[0] : 0;
    return 0;
}

int decoder_find(struct decoder *d, const struct model *m, const struct engine_value *in,
                 size_t nin, const struct engine_value *out, size_t nout, opm_error *err)
{
    struct finder f = { d, m, in, out, nin, nout };
    const struct engine_value *logits;
    int rc = 0;

    *d = (struct decoder){ .cache = mem_calloc(nin + 1, sizeof(*d->cache)) };
    if (!d->cache)
        return opm__fail(err, OPM_ENOMEM, "%.150s: out of memory", m->name);
    d->ids = find(in, nin, "input_ids");
    if (d->ids == DECODER_NONE)
        d->ids = find(in, nin, "decoder_input_ids");
    d->mask = find(in, nin, "attention_mask");
    d->positions = find(in, nin, "position_ids");
    d->branch = find(in, nin, "use_cache_branch");
    d->logits = find(out, nout, "logits");
    if (d->ids == DECODER_NONE)
        return no_decoder(&f, "input input_ids", err);
    if (d->logits == DECODER_NONE)
        return no_decoder(&f, "output logits", err);
    for (size_t i = 0; i < nin && !rc; i++)
        if (begins(in[i].name, PAST))
            rc = add_cache(&f, i, err);
    if (!rc && !d->ncache)
        rc = no_decoder(&f, "inputs " PAST "0.key and so on", err);
    if (!rc)
        rc = check_known(&f, err);
    if (!rc)
        rc = check_ids(&f, err);
    if (!rc)
        rc = check_type(&f, d->mask, false, err);
    if (!rc)
        rc = check_type(&f, d->positions, false, err);
    if (!rc)
        rc = check_type(&f, d->branch, true, err);
    if (rc)
        return rc;
    logits = &out[d->logits];
    find_longest(m->graph, &d->longest, &d->vocabulary);
    if (!d->vocabulary && logits->shape.rank > 0 && logits->shape.dim[logits->shape.rank - 1] > 0)
        d->vocabulary = logits->shape.dim[logits->shape.rank - 1];
    for (size_t i = 0; i < d->ncache; i++)
        fewer(&d->longest, d->cache[i].room);
    return 0;
}

void decoder_release(struct decoder *d)
{
    mem_free(d->cache);
    *d = (struct decoder){ 0 };
}
