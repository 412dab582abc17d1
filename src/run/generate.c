/* generate.c -- see generate.h. */
#include "run/generate_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/io.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PROMPT_DEFAULT 32
#define VOCABULARY_GUESS 256 /* of a model that does not tell */

/* -- one step -- */

/* The next token of every row, from the logits of the last one that was read. */
static int pick_all(struct generator *g, const struct side *side, int64_t place, opm_error *err)
{
    const struct engine_tensor *t = &side->s->out[side->d.logits];
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

enum moment { ARRIVED, TOKEN, FINISHED, CUT_OFF };

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
            opm_request_finished(name, what == FINISHED ? "length" : "abort");
        }
    }
}

/* The encoder reads what it was given; what it makes of that is in g->states. */
static int encode(struct generator *g, opm_error *err)
{
    struct runner *e = g->encoder;
    int64_t start = runner_now_ns();
    int rc = 0;

    OPM_SPAN(OPM_APP, "encoder")
    {
        rc = e->e->class->run(e->e, e->in.t, e->in.n, e->out, e->nout, err);
    }
    g->encoder_ns = runner_now_ns() - start;
    return rc;
}

/* A step of the trace: the model's run, and what picks tokens from its outputs. */
static int step(struct generator *g, int64_t past, int64_t count, enum opm_record_flags flags,
                int64_t *model_ns, opm_error *err)
{
    struct runner *s = g->s;
    struct side *side = generate_side(g, past);
    opm_span mark = opm_step_begin(s->res->model, g->steps, flags), iteration;
    int64_t start;
    int rc;

    rc = runner_stop(s) ? OPM_ELIMIT : generate_inputs(g, past, count, err);
    start = runner_now_ns();
    iteration = g->told ? opm_iteration_begin(g->steps) : opm_span_none();
    if (g->told)
        tell_members(g, past, count);
    if (!rc && !past && g->encoder)
        rc = encode(g, err);
    if (!rc)
        rc = side->s->e->class->run(side->s->e, side->in, side->s->nin, side->s->out, side->s->nout,
                                    err);
    opm_iteration_end(iteration);
    *model_ns = runner_now_ns() - start;
    if (!rc) {
        OPM_SPAN(OPM_APP, "pick tokens")
        {
            rc = pick_all(g, side, past ? past - g->prompt + 1 : 0, err);
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
    int64_t before, now, model_ns, i;
    int rc = 0;

    if (kind == BARE)
        opm_pause();
    g->told = t && kind == METERED;
    g->texts += g->told;
    before = runner_now_ns();
    tell_requests(g, ARRIVED);
    for (i = 0; i < g->tokens && !rc; i++) {
        rc = step(g, i ? g->prompt + i - 1 : 0, i ? 1 : g->prompt, flags, &model_ns, err);
        now = runner_now_ns();
        if (!rc)
            g->done = MAX(g->done, i + 1);
        if (!rc && t)
            rc = keep(i ? &t->itl : &t->ttft, now - before, err);
        if (!rc && t && !i && g->encoder)
            rc = keep(&t->encoder, g->encoder_ns, err);
        before = now;
        if (t && !rc) {
            *(i ? &t->decode_ns : &t->prefill_ns) += (double)model_ns;
            *(i ? &t->decode_tokens : &t->prefill_tokens) +=
                (double)(g->batch * (i ? 1 : g->prompt));
        }
    }
    tell_requests(g, rc ? CUT_OFF : FINISHED);
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

static int arrange(struct generator *g, enum engine_kind kind, opm_error *err)
{
    struct runner *const parts[] = { g->encoder, g->other.s, g->next.s };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && !rc; i++)
        if (parts[i] && parts[i]->e->class->arrange)
            rc = parts[i]->e->class->arrange(parts[i]->e, kind, err);
    return rc;
}

static int flush(struct generator *g, opm_error *err)
{
    struct runner *const parts[] = { g->encoder, g->other.s, g->next.s };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(parts) && !rc; i++)
        if (parts[i] && parts[i]->e->class->flush)
            rc = parts[i]->e->class->flush(parts[i]->e, err);
    return rc;
}

/* Engines whose kinds of runs disturb each other have them one after the other. */
static int measure(struct generator *g, opm_error *err)
{
    struct runner *s = g->s;
    unsigned both = ENGINE_METERED | (s->opt->receipt ? ENGINE_BARE : 0);
    bool apart = s->e->class->arrange && s->opt->receipt;
    int64_t start = runner_now_ns();
    int rc = 0;

    if (apart)
        rc = arrange(g, ENGINE_BARE, err);
    if (!rc && apart)
        rc = texts(g, &s->opt->warmup, ENGINE_BARE, true, err);
    if (!rc && apart)
        rc = texts(g, &s->opt->iterations, ENGINE_BARE, false, err);
    if (!rc)
        rc = arrange(g, ENGINE_METERED, err);
    if (apart)
        both = ENGINE_METERED;
    if (!rc)
        rc = texts(g, &s->opt->warmup, both, true, err);
    if (!rc)
        rc = texts(g, &s->opt->iterations, both, false, err);
    s->res->seconds = (double)(runner_now_ns() - start) / 1e9;
    return rc ? rc : flush(g, err);
}

/* -- before and after -- */

/* Sizes, which must fit each other and the model. */
static int choose_sizes(struct generator *g, opm_error *err)
{
    const struct run_options *o = g->s->opt;
    const struct run_generate *want = &o->generate;
    const struct decoder *d = &g->next.d;
    int64_t vocabulary = d->vocabulary ? d->vocabulary : VOCABULARY_GUESS, rows = 0, *id;
    const char *model = g->s->res->model;
    int rc;

    g->tokens = want->tokens;
    g->batch = g->encoder      ? g->states.shape.dim[0]
               : o->batch_size ? o->batch_size
               : d->batch      ? d->batch
                               : 1;
    g->prompt = want->prompt ? want->prompt : g->encoder ? 1 : PROMPT_DEFAULT;
    if (want->prompt_ids) {
        rc = prompt_read(want->prompt_ids, d->vocabulary, &g->prompt_id, &rows, &g->prompt, err);
        if (rc)
            return rc;
        if (o->batch_size && rows != 1 && rows != o->batch_size)
            return opm__fail(err, OPM_EINVAL,
                             "%.200s: %" PRId64 " prompts, but --batch-size is %" PRId64,
                             want->prompt_ids, rows, o->batch_size);
        if (g->encoder && rows > 1 && rows != g->batch)
            return opm__fail(err, OPM_EINVAL,
                             "%.200s: %" PRId64 " prompts, but the encoder has %" PRId64 " row%s",
                             want->prompt_ids, rows, g->batch, g->batch == 1 ? "" : "s");
        if (rows > 1)
            g->batch = rows;
    }
    if (d->batch && g->batch != d->batch)
        return opm__fail(err, OPM_EINVAL, "%s: its batch is %" PRId64 ", which cannot be %" PRId64,
                         model, d->batch, g->batch);
    g->room = g->prompt + g->tokens - 1; /* the last token is not read again */
    if (d->longest && g->room > d->longest)
        return opm__fail(err, OPM_EINVAL,
                         "%s: a prompt of %" PRId64 " and %" PRId64 " tokens more are beyond the "
                         "%" PRId64 " positions that it has",
                         model, g->prompt, g->tokens, d->longest);
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
        for (int64_t i = 0; i < g->done; i++)
            io_out_addf(&o, "%" PRId64 "%c", g->made[b * g->tokens + i],
                        i + 1 < g->done ? ' ' : '\n');
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
    r->tokens = g->done;
    r->texts = (int64_t)g->times[METERED].ttft.n;
    r->heard = g->heard;
    r->cache_held_bytes = (int64_t)g->held_bytes;
    for (size_t i = 0; i < g->next.d.ncache; i++) {
        const struct decoder_cache *c = &g->next.d.cache[i];
        struct engine_tensor t;

        generate_cache(g, c, c->of_encoder ? g->heard : 1, NULL, &t);
        r->in_place |= c->in_place;
        *(c->of_encoder || c->state ? &r->cache_kept_bytes : &r->cache_token_bytes) +=
            (int64_t)t.bytes / g->batch;
    }
    r->cache_peak_bytes =
        (r->cache_token_bytes * (g->prompt + g->done - 1) + r->cache_kept_bytes) * g->batch;
    cost(g); /* before they are put into order */
    for (int k = 0; k < 2; k++) {
        struct times *t = &g->times[k];

        run_latency_of(t->encoder.ns, t->encoder.n, &r->encoder[k]);
        run_latency_of(t->ttft.ns, t->ttft.n, &r->ttft[k]);
        run_latency_of(t->itl.ns, t->itl.n, &r->itl[k]);
        r->prefill_per_s[k] = t->prefill_ns > 0 ? t->prefill_tokens * 1e9 / t->prefill_ns : 0;
        r->decode_per_s[k] = t->decode_ns > 0 ? t->decode_tokens * 1e9 / t->decode_ns : 0;
    }
    for (int64_t i = 0; i < g->done && at + 24 < sizeof(r->first); i++)
        at += (size_t)snprintf(r->first + at, sizeof(r->first) - at, "%s%" PRId64, i ? " " : "",
                               g->made[i]);
    if (g->done && at + 24 >= sizeof(r->first))
        snprintf(r->first + at, sizeof(r->first) - at, " ...");
    g->s->res->batch = g->batch;
    g->s->res->metered = r->itl[METERED].n ? r->itl[METERED] : r->ttft[METERED];
    g->s->res->bare = r->itl[BARE].n ? r->itl[BARE] : r->ttft[BARE];
}

/* Engines may outlive the memory that they were told to write into. */
static void unbind(struct side *side)
{
    const struct engine_tensor nowhere = { 0 };

    for (size_t i = 0; i < side->d.ncache; i++)
        if (side->d.cache[i].out != DECODER_NONE)
            side->s->e->class->bind(side->s->e, side->d.cache[i].out, &nowhere, NULL);
}

static void release(struct generator *g)
{
    const struct engine_tensor nowhere = { 0 };

    unbind(&g->next);
    unbind(&g->other);
    if (g->bound_states)
        g->encoder->e->class->bind(g->encoder->e, g->states_at, &nowhere, NULL);
    for (int k = 0; k < 2; k++) {
        mem_free(g->buffer[k]);
        mem_free(g->times[k].encoder.ns);
        mem_free(g->times[k].ttft.ns);
        mem_free(g->times[k].itl.ns);
    }
    if (g->memory)
        mem_unmap(g->memory, g->memory_bytes);
    mem_free(g->next.in);
    mem_free(g->other.in);
    mem_free(g->made);
    mem_free(g->prompt_id);
    picker_free(g->picker);
    decoder_release(&g->next.d);
    decoder_release(&g->other.d);
}

/* What the encoder gives, and how much: it is run for that once. */
static int find_states(struct generator *g, opm_error *err)
{
    struct runner *e = g->encoder;
    const struct decoder *d = g->other.s ? &g->other.d : &g->next.d;
    const struct engine_value *want =
        d->states == DECODER_NONE ? NULL
                                  : &(g->other.s ? &g->other : &g->next)->s->in_value[d->states];
    size_t at = 0;
    int rc = 0;

    for (size_t i = 0; i < e->nout; i++)
        if (strcmp(e->out_value[i].name, "last_hidden_state") == 0)
            at = i;
    if (!want)
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: it has no input encoder_hidden_states for what an encoder gives",
                         g->s->m->name);
    OPM_SPAN(OPM_APP, "encoder, for its shape")
    {
        opm_pause();
        rc = e->e->class->run(e->e, e->in.t, e->in.n, e->out, e->nout, err);
        opm_resume();
    }
    if (rc)
        return rc;
    g->states = e->out[at];
    g->states_at = at;
    if (g->states.kind != VALUE_TENSOR || g->states.shape.rank != 3 ||
        (g->states.type != want->type && g->states.type != generate_own_type(g, want->type)))
        return opm__fail(err, OPM_EUNSUPPORTED,
                         "%.150s: output '%.60s' is not %s of three dimensions, which the decoder "
                         "wants of its encoder",
                         e->m->name, e->out_value[at].name, tensor_type_name(want->type));
    if (want->shape.dim[2] > 0 && want->shape.dim[2] != g->states.shape.dim[2])
        return opm__fail(
            err, OPM_EUNSUPPORTED,
            "%.150s: output '%.60s' has %" PRId64 " numbers for each position, but the "
            "decoder wants %" PRId64,
            e->m->name, e->out_value[at].name, g->states.shape.dim[2], want->shape.dim[2]);
    g->heard = g->states.shape.dim[1];
    return 0;
}

static int bind_states(struct generator *g, opm_error *err)
{
    int rc = g->encoder->e->class->bind(g->encoder->e, g->states_at, &g->states, err);

    g->bound_states = !rc;
    return rc;
}

/* Who is who among the parts. */
static int find_parts(struct generator *g, opm_error *err)
{
    struct runner *s = g->next.s, *o = g->other.s;
    bool listens;
    int rc = decoder_find(&g->next.d, s->m, s->in_value, s->nin, s->out_value, s->nout, err);

    if (!rc && o)
        rc = decoder_find_first(&g->other.d, &g->next.d, o->m, o->in_value, o->nin, o->out_value,
                                o->nout, err);
    if (rc)
        return rc;
    listens = decoder_listens(&g->next.d) || (o && decoder_listens(&g->other.d));
    if (listens && !g->encoder)
        return opm__fail(err, OPM_EINVAL,
                         "%.150s: it listens to an encoder: give that with --encoder FILE, or the "
                         "folder with both as MODEL",
                         s->m->name);
    if (!listens && g->encoder)
        return opm__fail(err, OPM_EINVAL, "%.150s: it listens to no encoder, but %.150s is one",
                         s->m->name, g->encoder->m->name);
    for (size_t i = 0; i < g->next.d.ncache && !o; i++)
        if (g->next.d.cache[i].out == DECODER_NONE)
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%.150s: it goes on from a cache, '%.80s', that it does not make; "
                             "what does (decoder_model.onnx) belongs beside it, named alike",
                             s->m->name, s->in_value[g->next.d.cache[i].in].name);
    return g->encoder ? find_states(g, err) : 0;
}

int generate_run(struct runner *s, struct runner *encoder, struct runner *first, opm_error *err)
{
    const struct run_generate *want = &s->opt->generate;
    struct generator g = { .s = s,
                           .encoder = encoder,
                           .next = { .s = s },
                           .other = { .s = first },
                           .pick = { want->temperature, want->top_k, want->top_p,
                                     (uint64_t)s->opt->seed } };
    int rc;

    rc = find_parts(&g, err);
    if (!rc)
        rc = choose_sizes(&g, err);
    if (!rc)
        rc = generate_memory(&g, err);
    if (!rc && encoder)
        rc = bind_states(&g, err);
    if (!rc)
        rc = measure(&g, err);
    if (rc && s->res->stopped && s->opt->keep_partial && g.times[METERED].ttft.n)
        rc = 0;
    else if (rc == OPM_ELIMIT && s->res->stopped)
        rc = opm__fail(err, rc, "%s: %s before a token was measured", s->res->model,
                       s->res->stopped == RUN_TIME_LIMIT ? "the time limit was over"
                                                         : "interrupted");
    if (!rc)
        rc = save_tokens(&g, err);
    if (!rc)
        summarise(&g);
    release(&g);
    return rc;
}
