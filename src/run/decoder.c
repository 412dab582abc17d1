/* decoder.c -- see decoder.h. */
#include "run/decoder.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <stddef.h>
#include <stdio.h>
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

/* Only the batch may be open besides what counts tokens. */
static int check_open(const struct finder *f, const struct engine_value *v,
                      const struct decoder_cache *c, opm_error *err)
{
    for (int32_t i = 0; i < v->shape.rank; i++)
        if (i != c->axis && i != c->rows && v->shape.dim[i] < 0)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: dimension %d of input '%.80s' is open, and only that of the "
                             "tokens may be",
                             f->m->name, (int)i, v->name);
    return 0;
}

/* The dimension that counts tokens: the open one behind the batch; where none is, the model has
 * room for a fixed number, and it is the one before the last of keys and values that are apart.
 * Both in one are [2, batch, heads, tokens, width] or [batch, tokens, width]. */
static int find_axes(const struct finder *f, const struct engine_value *v, struct decoder_cache *c,
                     opm_error *err)
{
    int32_t rank = v->shape.rank;

    if (rank < 3 || rank > 5 || !tensor_type_float(v->type))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' is not of three to five dimensions of floats, as "
                         "keys and values are",
                         f->m->name, v->name);
    c->rows = rank == 5 ? 1 : 0;
    c->axis = rank - 2;
    for (int i = rank - 1; i > c->rows; i--)
        if (v->shape.dim[i] < 0)
            c->axis = i;
    return check_open(f, v, c, err);
}

/* What is of one size in and out, and neither keys nor values, is all that is known of the tokens
 * before. */
static bool is_state(const struct finder *f, const struct decoder_cache *c)
{
    const struct shape *in = &f->in[c->in].shape, *out;

    if (c->out == DECODER_NONE || strstr(c->name, "key") || strstr(c->name, "value"))
        return false;
    out = &f->out[c->out].shape;
    for (int32_t i = 1; i < in->rank; i++)
        if (in->dim[i] < 0 || out->rank != in->rank || out->dim[i] != in->dim[i])
            return false;
    return in->rank > 1;
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

/* The output with what becomes of a cache: `from` in its name is `to` there. */
static size_t find_renamed(const struct finder *f, const char *cache, const char *from,
                           const char *to)
{
    const char *at = strstr(cache, from);
    char name[200];

    if (!at)
        return DECODER_NONE;
    snprintf(name, sizeof(name), "%.*s%s%.100s", (int)MIN(at - cache, 60), cache, to,
             at + strlen(from));
    return find(f->out, f->nout, name);
}

static size_t find_present(const struct finder *f, const char *cache)
{
    static const char *const renamed[][2] = { { PAST, PRESENT },
                                              { "past", "present" },
                                              { "_in", "_out" } };
    size_t at = DECODER_NONE;

    for (size_t i = 0; i < ARRAY_SIZE(renamed) && at == DECODER_NONE; i++)
        at = find_renamed(f, cache, renamed[i][0], renamed[i][1]);
    return at;
}

/* What it is called in a line about it. */
static const char *short_name(const struct decoder_cache *c)
{
    return begins(c->name, PAST) ? c->name + strlen(PAST) : c->name + strlen("past");
}

static const char *short_present(const struct decoder_cache *c)
{
    return begins(c->name, PAST) ? PRESENT : "present";
}

static int add_cache(const struct finder *f, size_t in, opm_error *err)
{
    const struct engine_value *v = &f->in[in];
    struct decoder_cache *c = &f->d->cache[f->d->ncache];
    int rc = 0;

    c->in = in;
    c->name = v->name;
    c->of_encoder = strstr(c->name, ".encoder.") || strstr(c->name, "_cross_");
    c->out = find_present(f, c->name);
    c->state = is_state(f, c);
    if (!c->state)
        rc = find_axes(f, v, c, err);
    if (rc)
        return rc;
    if (c->out == DECODER_NONE && !c->of_encoder)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: input '%.80s' has no output %s%.80s that it becomes in "
                         "the next step",
                         f->m->name, v->name, short_present(c), short_name(c));
    c->in_place = !c->of_encoder && !c->state && writes_in_place(f, c);
    c->room = !c->state && v->shape.dim[c->axis] > 0 ? v->shape.dim[c->axis] : 0;
    if (c->room && !c->in_place && !c->of_encoder)
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
        else if (node_is(n, "Slice") && n->nin > 2 && !node_const(g, n, 1) && !node_const(g, n, 2))
            t = node_const(g, n, 0); /* a piece of a table, from and to where a text tells */
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

/* The inputs by name; the first that is there. */
static const struct input_name {
    size_t at; /* of the place in struct decoder */
    const char *name;
} input_names[] = {
    { offsetof(struct decoder, ids), "decoder_input_ids" },
    { offsetof(struct decoder, ids), "input_ids" },
    { offsetof(struct decoder, mask), "decoder_attention_mask" },
    { offsetof(struct decoder, mask), "attention_mask" },
    { offsetof(struct decoder, positions), "position_ids" },
    { offsetof(struct decoder, branch), "use_cache_branch" },
    { offsetof(struct decoder, place), "cache_position" },
    { offsetof(struct decoder, keep), "num_logits_to_keep" },
    { offsetof(struct decoder, states), "encoder_hidden_states" },
    { offsetof(struct decoder, states_mask), "encoder_attention_mask" },
    { offsetof(struct decoder, before), "past_sequence_length" },
    { offsetof(struct decoder, before), "past_seq_len" },
    { offsetof(struct decoder, before), "past_key_values_length" },
    { offsetof(struct decoder, total), "total_sequence_length" },
    { offsetof(struct decoder, total), "total_seq_len" },
    { offsetof(struct decoder, total), "current_sequence_length" },
    { offsetof(struct decoder, last), "seqlens_k" },
};

static size_t *place_of(struct decoder *d, const struct input_name *n)
{
    return (size_t *)((char *)d + n->at);
}

static bool is_past(const struct decoder *d, const struct engine_value *v, size_t i)
{
    return begins(v->name, "past") && i != d->before && i != d->last;
}

/* Every input must be one of those that are known. */
static int check_known(const struct finder *f, opm_error *err)
{
    for (size_t i = 0; i < f->nin; i++) {
        bool is = is_past(f->d, &f->in[i], i);

        for (size_t k = 0; k < ARRAY_SIZE(input_names); k++)
            is |= i == *place_of(f->d, &input_names[k]);
        if (!is)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: --generate does not know what input '%.80s' is; it knows "
                             "input_ids, attention_mask, position_ids, cache_position, "
                             "use_cache_branch, num_logits_to_keep, past_sequence_length, "
                             "total_sequence_length, seqlens_k, encoder_hidden_states, "
                             "encoder_attention_mask and " PAST "*",
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

static int check_ranks(const struct finder *f, opm_error *err)
{
    const struct decoder *d = f->d;
    const struct {
        size_t at;
        int32_t least, most;
    } want[] = { { d->branch, 0, 1 },    { d->place, 1, 1 },       { d->keep, 0, 1 },
                 { d->states, 3, 3 },    { d->states_mask, 2, 2 }, { d->mask, 2, 2 },
                 { d->positions, 2, 2 }, { d->before, 0, 2 },      { d->total, 0, 2 },
                 { d->last, 0, 2 } };

    for (size_t i = 0; i < ARRAY_SIZE(want); i++) {
        const struct engine_value *v = want[i].at == DECODER_NONE ? NULL : &f->in[want[i].at];

        if (v && (v->shape.rank < want[i].least || v->shape.rank > want[i].most))
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: input '%.80s' is not of %d dimension%s", f->m->name, v->name,
                             (int)want[i].most, want[i].most == 1 ? "" : "s");
    }
    return 0;
}

/* A length is one number, or one for each row. */
static int check_length(const struct finder *f, size_t at, opm_error *err)
{
    const struct engine_value *v = at == DECODER_NONE ? NULL : &f->in[at];

    for (int32_t i = 0; v && i < v->shape.rank; i++)
        if (v->shape.dim[i] > 1 && (i || v->shape.dim[i] != f->d->batch))
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: input '%.80s' is neither one number nor one for each row",
                             f->m->name, v->name);
    return 0;
}

/* All but the cache; rc is that of what was found of it. */
static int find_rest(const struct finder *f, int rc, opm_error *err)
{
    struct decoder *d = f->d;
    const struct engine_value *logits;
    const size_t lengths[] = { d->before, d->total, d->last };
    const size_t numbers[] = { d->mask,        d->positions, d->place, d->keep,
                               d->states_mask, d->before,    d->total, d->last };

    if (!rc)
        rc = check_known(f, err);
    if (!rc)
        rc = check_ids(f, err);
    if (!rc)
        rc = check_ranks(f, err);
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && !rc; i++)
        rc = check_type(f, numbers[i], false, err);
    for (size_t i = 0; i < ARRAY_SIZE(lengths) && !rc; i++)
        rc = check_length(f, lengths[i], err);
    if (!rc)
        rc = check_type(f, d->branch, true, err);
    if (rc)
        return rc;
    logits = &f->out[d->logits];
    find_longest(f->m->graph, &d->longest, &d->vocabulary);
    if (!d->vocabulary && logits->shape.rank > 0 && logits->shape.dim[logits->shape.rank - 1] > 0)
        d->vocabulary = logits->shape.dim[logits->shape.rank - 1];
    for (size_t i = 0; i < d->ncache; i++)
        if (!d->cache[i].of_encoder)
            fewer(&d->longest, d->cache[i].room);
    return 0;
}

static int find_names(const struct finder *f, size_t ncache, opm_error *err)
{
    struct decoder *d = f->d;

    *d = (struct decoder){ .cache = mem_calloc(ncache + 1, sizeof(*d->cache)) };
    if (!d->cache)
        return opm__fail(err, OPM_ENOMEM, "%.150s: out of memory", f->m->name);
    for (size_t i = 0; i < ARRAY_SIZE(input_names); i++)
        *place_of(d, &input_names[i]) = DECODER_NONE;
    for (size_t i = 0; i < ARRAY_SIZE(input_names); i++)
        if (*place_of(d, &input_names[i]) == DECODER_NONE)
            *place_of(d, &input_names[i]) = find(f->in, f->nin, input_names[i].name);
    d->logits = find(f->out, f->nout, "logits");
    if (d->ids == DECODER_NONE)
        return no_decoder(f, "input input_ids", err);
    return d->logits == DECODER_NONE ? no_decoder(f, "output logits", err) : 0;
}

/* ONNX Runtime's GenAI hands "past_sequence_length" on to GroupQueryAttention, which wants the
 * place of the last token there; it does so, too, where it tells the length of all. */
static void find_last(const struct finder *f)
{
    struct decoder *d = f->d;
    const struct graph *g = f->m->graph;
    bool last = d->total != DECODER_NONE;

    if (d->before == DECODER_NONE || d->last != DECODER_NONE)
        return;
    for (uint32_t i = 0; i < g->nnode && !last; i++) {
        const struct node *n = &g->node[i];

        last = strcmp(n->op_type, "GroupQueryAttention") == 0 && n->nin > 5 &&
               comes_from(g, n->in[5], f->in[d->before].name);
    }
    if (last) {
        d->last = d->before;
        d->before = DECODER_NONE;
    }
}

int decoder_find(struct decoder *d, const struct model *m, const struct engine_value *in,
                 size_t nin, const struct engine_value *out, size_t nout, opm_error *err)
{
    struct finder f = { d, m, in, out, nin, nout };
    int rc = find_names(&f, nin, err);

    for (size_t i = 0; i < nin && !rc; i++)
        if (is_past(d, &in[i], i))
            rc = add_cache(&f, i, err);
    if (!rc)
        find_last(&f);
    if (!rc && !d->ncache)
        rc = no_decoder(&f, "inputs " PAST "0.key and so on", err);
    return find_rest(&f, rc, err);
}

int decoder_find_first(struct decoder *d, const struct decoder *next, const struct model *m,
                       const struct engine_value *in, size_t nin, const struct engine_value *out,
                       size_t nout, opm_error *err)
{
    struct finder f = { d, m, in, out, nin, nout };
    int rc = find_names(&f, next->ncache, err);

    for (; !rc && d->ncache < next->ncache; d->ncache++) {
        struct decoder_cache *c = &d->cache[d->ncache];

        *c = next->cache[d->ncache];
        c->in = DECODER_NONE;
        c->in_place = false;
        c->out = find_present(&f, c->name);
        if (c->out == DECODER_NONE)
            rc = opm__fail(err, OPM_EUNSUPPORTED,
                           "%.150s: it has no output %s%.80s, from which the model behind it would "
                           "go on",
                           m->name, short_present(c), short_name(c));
    }
    return find_rest(&f, rc, err);
}

bool decoder_listens(const struct decoder *d)
{
    bool listens = d->states != DECODER_NONE;

    for (size_t i = 0; i < d->ncache; i++)
        listens |= d->cache[i].of_encoder;
    return listens;
}

void decoder_release(struct decoder *d)
{
    mem_free(d->cache);
    *d = (struct decoder){ 0 };
}
