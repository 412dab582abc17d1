/* generate.c -- see generate.h. */
#include "run/generate.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"
#include "run/decoder.h"
#include "run/pick.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROMPT_DEFAULT 32
#define VOCABULARY_GUESS 256 /* of a model that does not tell */
#define ALIGN 64

enum { BARE, METERED };

struct times {
    struct run_times ttft, itl;
    double prefill_ns, decode_ns, prefill_tokens, decode_tokens;
};

struct generator {
    struct runner *s;
    struct decoder d;
    struct picker *picker;
    struct pick_options pick;
    int64_t batch, prompt, tokens, room; /* room: tokens that the cache has room for */
    int64_t *prompt_id;                  /* batch rows of `prompt` */
    int64_t *made;                       /* batch rows of `tokens` */
    struct engine_tensor *in;
    char *memory; /* all of the inputs, both buffers of what is cached */
    size_t memory_bytes, held_bytes;
    char **buffer[2]; /* of each cache */
    int64_t texts;    /* begun, for names */
    bool told;        /* this one is in the trace: no warm-up */
    int64_t steps;
    struct times times[2];
};

/* -- memory -- */

static const struct engine_value *input_of(const struct generator *g, size_t i)
{
    return &g->s->in_value[i];
}

static enum tensor_type own_type(const struct generator *g, enum tensor_type t)
{
    const struct engine_class *class = g->s->e->class;

    return class->own_type ? class->own_type(t) : t;
}

/* What a cache is with so many tokens in it. */
static void cache_tensor(const struct generator *g, const struct decoder_cache *c, int64_t tokens,
                         char *data, struct engine_tensor *t)
{
    const struct engine_value *v = input_of(g, c->in);

    *t = (struct engine_tensor){ .type = own_type(g, v->type), .shape = v->shape, .data = data };
    t->shape.dim[0] = g->batch;
    t->shape.dim[c->axis] = tokens;
    t->bytes = (size_t)engine_bytes(&t->shape, t->type);
}

static int64_t cache_room(const struct generator *g, const struct decoder_cache *c)
{
    return c->room ? c->room : g->room;
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

static void lay_out(struct generator *g, struct pieces *p)
{
    const struct decoder *d = &g->d;
    const size_t rows[] = { d->ids, d->mask, d->positions };

    for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
        if (rows[i] != DECODER_NONE)
            g->in[rows[i]].data = piece(p, (size_t)(g->batch * g->room) * 8);
    if (d->branch != DECODER_NONE)
        g->in[d->branch].data = piece(p, 1);
    g->held_bytes = p->used;
    for (size_t i = 0; i < d->ncache; i++) {
        const struct decoder_cache *c = &d->cache[i];
        struct engine_tensor t;

        cache_tensor(g, c, cache_room(g, c), NULL, &t);
        for (int k = 0; k < (c->in_place ? 1 : 2); k++)
            g->buffer[k][i] = piece(p, t.bytes);
        if (c->in_place)
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

static int take_memory(struct generator *g, opm_error *err)
{
    int64_t most = g->s->opt->max_memory ? g->s->opt->max_memory : run_memory_default(), sum = 0;
    struct pieces p = { 0 };

    g->in = mem_calloc(g->s->nin + 1, sizeof(*g->in));
    for (int k = 0; k < 2; k++)
        g->buffer[k] = mem_calloc(g->d.ncache + 1, sizeof(*g->buffer[k]));
    g->made = mem_calloc((size_t)(g->batch * g->tokens), sizeof(*g->made));
    if (!g->in || !g->buffer[0] || !g->buffer[1] || !g->made)
        return no_room(g, err);
    for (size_t i = 0; i < g->d.ncache; i++) { /* before anything is multiplied that is too big */
        struct engine_tensor t;

        cache_tensor(g, &g->d.cache[i], cache_room(g, &g->d.cache[i]), NULL, &t);
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

/* -- one step -- */

static void put(const struct generator *g, size_t input, int64_t i, int64_t v)
{
    struct engine_tensor *t = &g->in[input];

    switch (t->type) {
    case TENSOR_I32:
        ((int32_t *)t->data)[i] = (int32_t)v;
        break;
    case TENSOR_F32:
        ((float *)t->data)[i] = (float)v;
        break;
    case TENSOR_F16:
        ((uint16_t *)t->data)[i] = f32_to_f16((float)v);
        break;
    case TENSOR_F64:
        ((double *)t->data)[i] = (double)v;
        break;
    default:
        ((int64_t *)t->data)[i] = v;
    }
}

/* An input of [batch, len] numbers. */
static void shape_rows(struct generator *g, size_t input, int64_t len)
{
    struct engine_tensor *t = &g->in[input];

    t->type = input_of(g, input)->type;
    t->shape = (struct shape){ 2, { g->batch, len } };
    t->bytes = (size_t)engine_bytes(&t->shape, t->type);
}

/* Inputs and outputs of a step that reads `count` tokens behind `past` ones. */
static int set_step(struct generator *g, int64_t past, int64_t count, opm_error *err)
{
    const struct decoder *d = &g->d;
    const struct engine_class *class = g->s->e->class;
    int to = (int)(g->steps & 1);
    int rc = 0;

    shape_rows(g, d->ids, count);
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < count; i++)
            put(g, d->ids, b * count + i,
                past ? g->made[b * g->tokens + past - g->prompt] : g->prompt_id[b * g->prompt + i]);
    if (d->mask != DECODER_NONE) {
        shape_rows(g, d->mask, past + count);
        for (int64_t i = 0; i < g->batch * (past + count); i++)
            put(g, d->mask, i, 1);
    }
    if (d->positions != DECODER_NONE) {
        shape_rows(g, d->positions, count);
        for (int64_t i = 0; i < g->batch * count; i++)
            put(g, d->positions, i, past + i % count);
    }
    if (d->branch != DECODER_NONE) {
        g->in[d->branch].type = TENSOR_BOOL;
        g->in[d->branch].shape = input_of(g, d->branch)->shape;
        if (g->in[d->branch].shape.rank == 1)
            g->in[d->branch].shape.dim[0] = 1;
        g->in[d->branch].bytes = 1;
        *(uint8_t *)g->in[d->branch].data = past > 0;
    }
    for (size_t i = 0; i < d->ncache && !rc; i++) {
        const struct decoder_cache *c = &d->cache[i];
        int64_t room = c->in_place ? cache_room(g, c) : 0;
        struct engine_tensor out;

        cache_tensor(g, c, room ? room : past, g->buffer[!to][i], &g->in[c->in]);
        cache_tensor(g, c, room ? room : past + count, g->buffer[to][i], &out);
        rc = class->bind(g->s->e, c->out, &out, err);
    }
    return rc;
}

/* The next token of every row, from the logits of the last one that was read. */
static int pick_all(struct generator *g, int64_t place, opm_error *err)
{
    const struct engine_tensor *t = &g->s->out[g->d.logits];
    int64_t rank = t->shape.rank, n = rank > 0 ? t->shape.dim[rank - 1] : 0,
            rows = rank == 3 ? t->shape.dim[1] : 1;
    size_t width = (size_t)tensor_type_bits(t->type) / 8;

    if (rank < 2 || rank > 3 || t->shape.dim[0] != g->batch || rows < 1 || n < 1 || n > INT32_MAX ||
        !tensor_type_float(t->type) || width > 4)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%s: output 'logits' is not a number for every token of every row",
                         g->s->res->model);
    if (!g->picker)
        g->picker = picker_new(n);
    if (!g->picker)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", g->s->res->model);
    for (int64_t b = 0; b < g->batch; b++) {
        const char *at = (const char *)t->data + (size_t)((b * rows + rows - 1) * n) * width;
        int64_t token = pick_token(g->picker, at, t->type, n, &g->pick, b, place);

        if (token < 0)
            return opm__fail(err, OPM_EINVAL,
                             "%s: the logits of token %" PRId64 " of row %" PRId64
                             " are not numbers",
                             g->s->res->model, place, b);
        g->made[b * g->tokens + place] = token;
    }
    return 0;
}

static void request_name(const struct generator *g, int64_t row, char name[48])
{
    if (g->batch == 1)
        snprintf(name, 48, "text %" PRId64, g->texts);
    else
        snprintf(name, 48, "text %" PRId64 " row %" PRId64, g->texts, row);
}

static void tell_members(const struct generator *g, int64_t past, int64_t count)
{
    char name[48];

    for (int64_t b = 0; b < g->batch; b++) {
        request_name(g, b, name);
        opm_iteration_member(name, past == 0, count, 1, past + count);
    }
}

enum moment { ARRIVED, TOKEN, FINISHED };

static void tell_requests(const struct generator *g, enum moment what)
{
    char name[48];

    for (int64_t b = 0; b < g->batch && g->told; b++) {
        request_name(g, b, name);
        if (what == ARRIVED) {
            opm_request_arrived(name, g->s->res->model, g->prompt);
            opm_request_scheduled(name);
        } else if (what == TOKEN) {
            opm_request_tokens(name, 1);
        } else {
            opm_request_finished(name, "length");
        }
    }
}

/* A step of the trace: the model's run, and what picks tokens from its outputs. */
static int step(struct generator *g, int64_t past, int64_t count, enum opm_record_flags flags,
                int64_t *model_ns, opm_error *err)
{
    struct runner *s = g->s;
    opm_span mark = opm_step_begin(s->res->model, g->steps, flags), iteration;
    int64_t start;
    int rc;

    if (runner_stop(s))
        rc = opm__fail(err, OPM_ELIMIT, "%s: %s before a text was done", s->res->model,
                       s->res->stopped == RUN_TIME_LIMIT ? "the time limit was over"
                                                         : "interrupted");
    else
        rc = set_step(g, past, count, err);
    start = runner_now_ns();
    iteration = g->told ? opm_iteration_begin(g->steps) : opm_span_none();
    if (g->told)
        tell_members(g, past, count);
    if (!rc)
        rc = s->e->class->run(s->e, g->in, s->nin, s->out, s->nout, err);
    opm_iteration_end(iteration);
    *model_ns = runner_now_ns() - start;
    if (!rc) {
        OPM_SPAN(OPM_APP, "pick tokens")
        {
            rc = pick_all(g, past ? past - g->prompt + 1 : 0, err);
        }
    }
    if (!rc)
        tell_requests(g, TOKEN);
    opm_step_end(mark);
    g->steps++;
    return rc;
}

/* -- a text -- */

static int keep(struct run_times *t, int64_t ns, opm_error *err)
{
    if (!GROW(t->ns, t->cap, t->n + 1))
        return opm__fail(err, OPM_ENOMEM, "out of memory for latencies");
    t->ns[t->n++] = ns;
    return 0;
}

/* All tokens of one text. kind BARE: nothing of it is in the trace. t NULL: warm-up. */
static int one_text(struct generator *g, int kind, enum opm_record_flags flags, struct times *t,
                    opm_error *err)
{
    int64_t before, now, model_ns;
    int rc = 0;

    if (kind == BARE)
        opm_pause();
    g->told = t && kind == METERED;
    g->texts += g->told;
    before = runner_now_ns();
    tell_requests(g, ARRIVED);
    for (int64_t i = 0; i < g->tokens && !rc; i++) {
        rc = step(g, i ? g->prompt + i - 1 : 0, i ? 1 : g->prompt, flags, &model_ns, err);
        now = runner_now_ns();
        if (!rc && t)
            rc = keep(i ? &t->itl : &t->ttft, now - before, err);
        before = now;
        if (t && !rc) {
            *(i ? &t->decode_ns : &t->prefill_ns) += (double)model_ns;
            *(i ? &t->decode_tokens : &t->prefill_tokens) +=
                (double)(g->batch * (i ? 1 : g->prompt));
        }
    }
    tell_requests(g, FINISHED);
    if (kind == BARE)
        opm_resume();
    return rc;
}

/* How far an amount is done. */
static bool more(const struct run_amount *a, int64_t done, int64_t since)
{
    return a->ns ? done == 0 || runner_now_ns() - since < a->ns : done < a->count;
}

static void tell_progress(struct generator *g, int64_t done)
{
    const struct run_options *o = g->s->opt;
    int64_t all = o->warmup.count + o->iterations.count;

    g->s->told = all > 0 ? (uint64_t)(1000 * done / all) : 0;
}

static int texts(struct generator *g, const struct run_amount *amount, unsigned kinds, bool warm,
                 opm_error *err)
{
    enum opm_record_flags flags = warm ? OPM_WARMUP : OPM_MEASURED;
    opm_span record = opm_record_begin(warm ? "warm up" : "measured", flags);
    int64_t start = runner_now_ns(), n = 0;
    int rc = 0;

    for (; !rc && more(amount, n, start); n++) {
        tell_progress(g, warm ? n : g->s->opt->warmup.count + n);
        for (int turn = 0; turn < 2 && !rc; turn++) { /* who is first changes */
            int kind = (turn == 0) == (n % 2 == 0) ? METERED : BARE;

            if (kinds & (kind == METERED ? ENGINE_METERED : ENGINE_BARE))
                rc = one_text(g, kind, flags, warm ? NULL : &g->times[kind], err);
        }
    }
    opm_record_end(record);
    if (warm)
        g->s->res->warmup = (uint64_t)n;
    return rc;
}

/* Engines whose kinds of runs disturb each other have them one after the other. */
static int measure(struct generator *g, opm_error *err)
{
    struct runner *s = g->s;
    const struct engine_class *class = s->e->class;
    unsigned both = ENGINE_METERED | (s->opt->receipt ? ENGINE_BARE : 0);
    bool apart = class->arrange && s->opt->receipt;
    int64_t start = runner_now_ns();
    int rc = 0;

    if (apart)
        rc = class->arrange(s->e, ENGINE_BARE, err);
    if (!rc && apart)
        rc = texts(g, &s->opt->warmup, ENGINE_BARE, true, err);
    if (!rc && apart)
        rc = texts(g, &s->opt->iterations, ENGINE_BARE, false, err);
    if (!rc && class->arrange)
        rc = class->arrange(s->e, ENGINE_METERED, err);
    if (apart)
        both = ENGINE_METERED;
    if (!rc)
        rc = texts(g, &s->opt->warmup, both, true, err);
    if (!rc)
        rc = texts(g, &s->opt->iterations, both, false, err);
    s->res->seconds = (double)(runner_now_ns() - start) / 1e9;
    if (!rc && class->flush)
        rc = class->flush(s->e, err);
    return rc;
}

/* -- before and after -- */

/* Sizes, which must fit each other and the model. */
static int choose_sizes(struct generator *g, opm_error *err)
{
    const struct run_options *o = g->s->opt;
    const struct run_generate *want = &o->generate;
    int64_t vocabulary = g->d.vocabulary ? g->d.vocabulary : VOCABULARY_GUESS, rows = 0, *id;
    const char *model = g->s->res->model;
    int rc;

    g->tokens = want->tokens;
    g->batch = o->batch_size ? o->batch_size : g->d.batch ? g->d.batch : 1;
    g->prompt = want->prompt ? want->prompt : PROMPT_DEFAULT;
    if (want->prompt_ids) {
        rc = prompt_read(want->prompt_ids, g->d.vocabulary, &g->prompt_id, &rows, &g->prompt, err);
        if (rc)
            return rc;
        if (o->batch_size && rows != 1 && rows != o->batch_size)
            return opm__fail(err, OPM_EINVAL,
                             "%.200s: %" PRId64 " prompts, but --batch-size is %" PRId64,
                             want->prompt_ids, rows, o->batch_size);
        if (rows > 1)
            g->batch = rows;
    }
    if (g->d.batch && g->batch != g->d.batch)
        return opm__fail(err, OPM_EINVAL, "%s: its batch is %" PRId64 ", which cannot be %" PRId64,
                         model, g->d.batch, g->batch);
    g->room = g->prompt + g->tokens - 1; /* the last token is not read again */
    if (g->d.longest && g->room > g->d.longest)
        return opm__fail(err, OPM_EINVAL,
                         "%s: a prompt of %" PRId64 " and %" PRId64 " tokens more are beyond the "
                         "%" PRId64 " positions that it has",
                         model, g->prompt, g->tokens, g->d.longest);
    if (!rows)
        return prompt_random((uint64_t)o->seed, vocabulary, g->batch, g->prompt, &g->prompt_id,
                             err);
    if (rows == g->batch)
        return 0;
    id = mem_calloc((size_t)(g->batch * g->prompt), sizeof(*id)); /* one for all rows */
    for (int64_t i = 0; id && i < g->batch * g->prompt; i++)
        id[i] = g->prompt_id[i % g->prompt];
    mem_free(g->prompt_id);
    g->prompt_id = id;
    return id ? 0 : opm__fail(err, OPM_ENOMEM, "%s: out of memory", model);
}

static int save_tokens(const struct generator *g, opm_error *err)
{
    const struct run_generate *want = &g->s->opt->generate;
    struct io_out o = { 0 };
    int rc;

    if (!want->save_tokens)
        return 0;
    rc = io_out_open(&o, want->save_tokens, err);
    if (rc)
        return rc;
    for (int64_t b = 0; b < g->batch; b++)
        for (int64_t i = 0; i < g->tokens; i++)
            io_out_addf(&o, "%" PRId64 "%c", g->made[b * g->tokens + i],
                        i + 1 < g->tokens ? ' ' : '\n');
    return io_out_close(&o, true, err);
}

/* What metering a step costs: the n-th of a bare text and of a metered one are a pair. */
static void cost(struct generator *g)
{
    struct run_times *bare = &g->times[BARE].itl, *metered = &g->times[METERED].itl;
    size_t n = MIN(bare->n, metered->n);
    int64_t *ns = mem_calloc(n + 1, sizeof(*ns));

    for (size_t i = 0; ns && i < n; i++)
        ns[i] = metered->ns[i] - bare->ns[i];
    if (ns)
        run_cost_of(ns, n, &g->s->res->cost_ns, &g->s->res->cost_error_ns);
    mem_free(ns);
}

static void summarise(struct generator *g)
{
    struct run_generated *r = &g->s->res->generated;
    size_t at = 0;

    r->batch = g->batch;
    r->prompt = g->prompt;
    r->tokens = g->tokens;
    r->texts = (int64_t)g->times[METERED].ttft.n;
    r->cache_held_bytes = (int64_t)g->held_bytes;
    for (size_t i = 0; i < g->d.ncache; i++) {
        const struct decoder_cache *c = &g->d.cache[i];
        struct engine_tensor t;

        cache_tensor(g, c, 1, NULL, &t);
        r->in_place |= c->in_place;
        r->cache_token_bytes += (int64_t)t.bytes / g->batch;
    }
    r->cache_peak_bytes = r->cache_token_bytes * g->batch * g->room;
    cost(g); /* before they are put into order */
    for (int k = 0; k < 2; k++) {
        struct times *t = &g->times[k];

        run_latency_of(t->ttft.ns, t->ttft.n, &r->ttft[k]);
        run_latency_of(t->itl.ns, t->itl.n, &r->itl[k]);
        r->prefill_per_s[k] = t->prefill_ns > 0 ? t->prefill_tokens * 1e9 / t->prefill_ns : 0;
        r->decode_per_s[k] = t->decode_ns > 0 ? t->decode_tokens * 1e9 / t->decode_ns : 0;
    }
    for (int64_t i = 0; i < g->tokens && at + 24 < sizeof(r->first); i++)
        at += (size_t)snprintf(r->first + at, sizeof(r->first) - at, "%s%" PRId64, i ? " " : "",
                               g->made[i]);
    if (g->tokens && at + 24 >= sizeof(r->first))
        snprintf(r->first + at, sizeof(r->first) - at, " ...");
    g->s->res->batch = g->batch;
    g->s->res->metered = r->itl[METERED].n ? r->itl[METERED] : r->ttft[METERED];
    g->s->res->bare = r->itl[BARE].n ? r->itl[BARE] : r->ttft[BARE];
}

static void release(struct generator *g)
{
    for (int k = 0; k < 2; k++) {
        mem_free(g->buffer[k]);
        mem_free(g->times[k].ttft.ns);
        mem_free(g->times[k].itl.ns);
    }
    if (g->memory)
        mem_unmap(g->memory, g->memory_bytes);
    mem_free(g->in);
    mem_free(g->made);
    mem_free(g->prompt_id);
    picker_free(g->picker);
    decoder_release(&g->d);
}

int generate_run(struct runner *s, opm_error *err)
{
    const struct run_generate *want = &s->opt->generate;
    struct generator g = {
        .s = s, .pick = { want->temperature, want->top_k, want->top_p, (uint64_t)s->opt->seed }
    };
    int rc;

    rc = decoder_find(&g.d, s->m, s->in_value, s->nin, s->out_value, s->nout, err);
    if (!rc)
        rc = choose_sizes(&g, err);
    if (!rc)
        rc = take_memory(&g, err);
    if (!rc)
        rc = measure(&g, err);
    if (rc && s->res->stopped && s->opt->keep_partial && g.times[METERED].ttft.n)
        rc = 0;
    if (!rc)
        rc = save_tokens(&g, err);
    if (!rc)
        summarise(&g);
    release(&g);
    return rc;
}
