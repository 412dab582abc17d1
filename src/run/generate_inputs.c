/* generate_inputs.c -- memory for what a decoder reads and keeps, and what each step finds there;
 * see generate_int.h. */
#include "run/generate_int.h"

#include "base/alloc.h"
#include "base/error.h"

#include <inttypes.h>
#include <string.h>

#define ALIGN 64

/* -- memory -- */

struct side *generate_side(struct generator *g, int64_t past)
{
    return past || !g->other.s ? &g->next : &g->other;
}

static const struct engine_value *input_of(const struct side *side, size_t i)
{
    return &side->s->in_value[i];
}

enum tensor_type generate_own_type(const struct generator *g, enum tensor_type t)
{
    const struct engine_class *class = g->s->e->class;

    return class->own_type ? class->own_type(t) : t;
}

void generate_cache(const struct generator *g, const struct decoder_cache *c, int64_t tokens,
                    char *data, struct engine_tensor *t)
{
    const struct engine_value *v = input_of(&g->next, c->in);

    *t = (struct engine_tensor){ .type = generate_own_type(g, v->type),
                                 .shape = v->shape,
                                 .data = data };
    t->shape.dim[c->rows] = g->batch;
    if (!c->state)
        t->shape.dim[c->axis] = tokens;
    t->bytes = (size_t)engine_bytes(&t->shape, t->type);
}

static int64_t cache_room(const struct generator *g, const struct decoder_cache *c)
{
    return c->of_encoder ? g->heard : c->room ? c->room : g->room;
}

/* What changes from step to step has two buffers. */
static bool one_buffer(const struct decoder_cache *c)
{
    return c->in_place || c->of_encoder;
}

static size_t rounded(size_t bytes)
{
    return (bytes + ALIGN) / ALIGN * ALIGN;
}

/* Hand out pieces of g->memory; without it, count. */
struct pieces {
    char *base;
    size_t used;
};

static char *piece(struct pieces *p, size_t bytes)
{
    char *at = p->base ? p->base + p->used : NULL;

    p->used += rounded(bytes);
    return at;
}

static void lay_out_inputs(struct generator *g, struct side *side, struct pieces *p)
{
    const struct decoder *d = &side->d;
    const struct {
        size_t at;
        int64_t numbers;
    } inputs[] = { { d->ids, g->batch * g->room },
                   { d->mask, g->batch * g->room },
                   { d->positions, g->batch * g->room },
                   { d->place, g->room },
                   { d->keep, 1 },
                   { d->branch, 1 },
                   { d->before, g->batch },
                   { d->total, g->batch },
                   { d->last, g->batch },
                   { d->states_mask, g->batch * g->heard } };

    for (size_t i = 0; i < ARRAY_SIZE(inputs); i++)
        if (inputs[i].at != DECODER_NONE)
            side->in[inputs[i].at].data = piece(p, (size_t)inputs[i].numbers * 8);
}

static void lay_out(struct generator *g, struct pieces *p)
{
    const struct decoder *d = &g->next.d;

    g->nothing = piece(p, 1);
    lay_out_inputs(g, &g->next, p);
    if (g->other.s)
        lay_out_inputs(g, &g->other, p);
    if (g->encoder)
        g->states.data = piece(p, g->states.bytes);
    g->held_bytes = p->used;
    for (size_t i = 0; i < d->ncache; i++) {
        const struct decoder_cache *c = &d->cache[i];
        struct engine_tensor t;

        generate_cache(g, c, cache_room(g, c), NULL, &t);
        for (int k = 0; k < (one_buffer(c) ? 1 : 2); k++)
            g->buffer[k][i] = piece(p, t.bytes);
        if (one_buffer(c))
            g->buffer[1][i] = g->buffer[0][i];
    }
    g->held_bytes = p->used - g->held_bytes;
}

static int no_room(const struct generator *g, opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM,
                     "%s: no memory for a cache of %" PRId64 " tokens in %" PRId64 " row%s",
                     g->s->res->model, g->room, g->batch, g->batch == 1 ? "" : "s");
}

int generate_memory(struct generator *g, opm_error *err)
{
    int64_t most = g->s->opt->max_memory ? g->s->opt->max_memory : run_memory_default(), sum = 0;
    struct pieces p = { 0 };

    const struct decoder *d = &g->next.d;

    g->next.in = mem_calloc(g->next.s->nin + 1, sizeof(*g->next.in));
    g->other.in = mem_calloc((g->other.s ? g->other.s->nin : 0) + 1, sizeof(*g->other.in));
    for (int k = 0; k < 2; k++)
        g->buffer[k] = mem_calloc(d->ncache + 1, sizeof(*g->buffer[k]));
    g->made = mem_calloc((size_t)(g->batch * g->tokens), sizeof(*g->made));
    if (!g->next.in || !g->other.in || !g->buffer[0] || !g->buffer[1] || !g->made)
        return no_room(g, err);
    for (size_t i = 0; i < d->ncache; i++) { /* before anything is multiplied that is too big */
        struct engine_tensor t;

        generate_cache(g, &d->cache[i], cache_room(g, &d->cache[i]), NULL, &t);
        if (engine_bytes(&t.shape, t.type) < 0 ||
            __builtin_add_overflow(sum, 2 * engine_bytes(&t.shape, t.type), &sum) || sum > most)
            return no_room(g, err);
    }
    lay_out(g, &p);
    g->memory_bytes = p.used;
    g->memory = mem_map(p.used);
    if (!g->memory)
        return no_room(g, err);
    p = (struct pieces){ .base = g->memory };
    lay_out(g, &p);
    return 0;
}

/* -- inputs of a step -- */

static void put(const struct engine_tensor *t, int64_t i, int64_t v)
{
    switch (t->type) {
    case TENSOR_BOOL:
        ((uint8_t *)t->data)[i] = v != 0;
        break;
    case TENSOR_I32:
        ((int32_t *)t->data)[i] = (int32_t)v;
        break;
    case TENSOR_F32:
        ((float *)t->data)[i] = (float)v;
        break;
    case TENSOR_F16:
        ((uint16_t *)t->data)[i] = f32_to_f16((float)v);
        break;
    case TENSOR_BF16:
        ((uint16_t *)t->data)[i] = f32_to_bf16((float)v);
        break;
    case TENSOR_F64:
        ((double *)t->data)[i] = (double)v;
        break;
    default:
        ((int64_t *)t->data)[i] = v;
    }
}

/* An input of rows of `len` numbers; NULL if the model has none such. */
static struct engine_tensor *shape_rows(struct side *side, size_t input, int64_t rows, int64_t len)
{
    struct engine_tensor *t = &side->in[input];

    if (input == DECODER_NONE)
        return NULL;
    t->type = input_of(side, input)->type;
    t->shape = (struct shape){ 2, { rows, len } };
    t->bytes = (size_t)engine_bytes(&t->shape, t->type);
    return t;
}

/* An input of n numbers, or if the model wants it so of one without dimensions. */
static struct engine_tensor *shape_list(struct side *side, size_t input, int64_t n)
{
    struct engine_tensor *t = shape_rows(side, input, 1, n);

    if (t)
        t->shape = (struct shape){ input_of(side, input)->shape.rank, { n } };
    return t;
}

/* An input that tells a length: of as many dimensions as the model has, where they are open for
 * every row. */
static void set_length(struct generator *g, struct side *side, size_t input, int64_t length)
{
    struct engine_tensor *t = shape_rows(side, input, 1, 1);

    if (!t)
        return;
    t->shape = input_of(side, input)->shape;
    for (int32_t i = 0; i < t->shape.rank; i++)
        if (t->shape.dim[i] < 0)
            t->shape.dim[i] = i ? 1 : g->batch;
    t->bytes = (size_t)engine_bytes(&t->shape, t->type);
    for (int64_t i = 0; i < shape_count(&t->shape); i++)
        put(t, i, length);
}

/* Does what the encoder reads count at that place? Its own mask says so, if it has one. */
static int64_t counts(const struct generator *g, int64_t i)
{
    for (size_t k = 0; k < g->encoder->in.n; k++) {
        const struct engine_tensor *t = &g->encoder->in.t[k];

        if (strcmp(g->encoder->in_value[k].name, "attention_mask") != 0 || t->shape.rank != 2 ||
            t->shape.dim[0] != g->batch || t->shape.dim[1] != g->heard)
            continue;
        switch (t->type) {
        case TENSOR_BOOL:
            return ((const uint8_t *)t->data)[i];
        case TENSOR_I32:
            return ((const int32_t *)t->data)[i] != 0;
        case TENSOR_I64:
            return ((const int64_t *)t->data)[i] != 0;
        case TENSOR_F32:
            return ((const float *)t->data)[i] != 0;
        default:
            return 1;
        }
    }
    return 1;
}

static void set_numbers(struct generator *g, struct side *side, int64_t past, int64_t count)
{
    const struct decoder *d = &side->d;
    struct engine_tensor *t = shape_rows(side, d->ids, g->batch, count);

    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < count; i++)
            put(t, b * count + i,
                past ? g->made[b * g->tokens + past - g->prompt] : g->prompt_id[b * g->prompt + i]);
    t = shape_rows(side, d->mask, g->batch, past + count);
    for (int64_t i = 0; t && i < g->batch * (past + count); i++)
        put(t, i, 1);
    t = shape_rows(side, d->positions, g->batch, count);
    for (int64_t i = 0; t && i < g->batch * count; i++)
        put(t, i, past + i % count);
    t = shape_rows(side, d->states_mask, g->batch, g->heard);
    for (int64_t i = 0; t && i < g->batch * g->heard; i++)
        put(t, i, counts(g, i));
    t = shape_list(side, d->place, count);
    for (int64_t i = 0; t && i < count; i++)
        put(t, i, past + i);
    t = shape_list(side, d->keep, 1);
    if (t)
        put(t, 0, 1);
    t = shape_list(side, d->branch, 1);
    if (t)
        put(t, 0, past > 0);
    set_length(g, side, d->before, past);
    set_length(g, side, d->total, past + count);
    set_length(g, side, d->last, past + count - 1);
    if (d->states != DECODER_NONE)
        side->in[d->states] = g->states;
}

/* Keys and values of what the encoder gave: the first step makes them where they stay. */
static int set_kept(struct generator *g, struct side *side, size_t i, int64_t past, opm_error *err)
{
    const struct decoder_cache *c = &side->d.cache[i];
    struct engine_tensor t;

    generate_cache(g, &g->next.d.cache[i], g->heard, g->buffer[0][i], &t);
    if (past)
        side->in[c->in] = t;
    else if (c->in != DECODER_NONE)
        generate_cache(g, c, 0, g->nothing, &side->in[c->in]);
    if (c->out == DECODER_NONE)
        return 0;
    if (past) /* nobody wants what comes out there, which may be nothing */
        t.data = NULL;
    return side->s->e->class->bind(side->s->e, c->out, &t, err);
}

int generate_inputs(struct generator *g, int64_t past, int64_t count, opm_error *err)
{
    struct side *side = generate_side(g, past);
    int to = (int)(g->steps & 1), rc = 0;

    set_numbers(g, side, past, count);
    for (size_t i = 0; i < side->d.ncache && !rc; i++) {
        const struct decoder_cache *c = &side->d.cache[i], *known = &g->next.d.cache[i];
        int64_t room = known->in_place ? cache_room(g, known) : 0;
        struct engine_tensor out;

        if (c->of_encoder) {
            rc = set_kept(g, side, i, past, err);
            continue;
        }
        if (c->in != DECODER_NONE)
            generate_cache(g, known, room ? room : past, g->buffer[!to][i], &side->in[c->in]);
        if (c->in != DECODER_NONE && known->state && !past)
            memset(g->buffer[!to][i], 0, side->in[c->in].bytes);
        generate_cache(g, known, room ? room : past + count, g->buffer[to][i], &out);
        rc = side->s->e->class->bind(side->s->e, c->out, &out, err);
    }
    return rc;
}
