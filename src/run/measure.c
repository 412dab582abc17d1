/* measure.c -- warm up, measure, and say what was measured; see runner.h. */
#include "run/runner.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "graph/model_digest.h"

#include <stdarg.h>
#include <stdio.h>

#define LATENCIES_MAX ((size_t)20000000)
#define BARE_KEPT                                                                   \
    ((size_t)1000) /* latencies of bare iterations in the trace, at equal distances \
                    */

/* How far an amount is done, 0 to 1; at least one iteration unless none was asked for. */
static double progress_of(const struct run_amount *a, int64_t done, int64_t elapsed_ns)
{
    if (a->ns)
        return done ? (double)elapsed_ns / (double)a->ns : 0;
    return a->count ? (double)done / (double)a->count : 1;
}

/* The bar runs from 0 to 1000 over both parts. Nonzero: give up. */
static int tell(struct runner *s, double warm, double measured)
{
    const struct run_amount *w = &s->opt->warmup, *n = &s->opt->iterations;
    double share = n->ns ? 0.02 : 0.3, both = (double)(w->count + n->count); /* guesses */

    if (!w->ns && !n->ns)
        share = both > 0 ? (double)w->count / both : 0;
    else if (w->ns && n->ns)
        share = (double)w->ns / (double)(w->ns + n->ns);
    s->told = (uint64_t)(1000 * (share * warm + (1 - share) * MIN(measured, 1)));
    return runner_stop(s);
}

static int stopped(const struct runner *s, opm_error *err)
{
    return opm__fail(err, OPM_ELIMIT, "%s: %s", s->res->model,
                     s->res->stopped == RUN_TIME_LIMIT ? "the time limit is over" : "interrupted");
}

/* Half of an amount of time: what one kind of iterations gets of what both have. */
static struct run_amount half_of(struct run_amount a)
{
    return (struct run_amount){ a.count, a.ns / 2 + a.ns % 2 };
}

static int warm_up(struct runner *s, opm_error *err)
{
    opm_span record = opm_record_begin("warm up", OPM_WARMUP);
    bool both = s->opt->receipt && !s->apart;
    struct run_amount amount = s->apart ? half_of(s->opt->warmup) : s->opt->warmup;
    int64_t start = runner_now_ns(), ns, n = 0;
    int rc = 0;

    for (;; n++) {
        double share = progress_of(&amount, n, runner_now_ns() - start);

        if (!rc && tell(s, share, 0))
            rc = stopped(s, err);
        if (rc || share >= 1)
            break;
        rc = runner_iterate(s, true, n, OPM_WARMUP, &ns, err);
        if (!rc && both)
            rc = runner_iterate(s, false, n, OPM_WARMUP, &ns, err);
    }
    opm_record_end(record);
    s->res->warmup = (uint64_t)n;
    return rc;
}

static int keep(struct run_times *t, int64_t ns, opm_error *err)
{
    if (t->n == LATENCIES_MAX)
        return 0;
    if (!GROW(t->ns, t->cap, t->n + 1))
        return opm__fail(err, OPM_ENOMEM, "out of memory for latencies");
    t->ns[t->n++] = ns;
    return 0;
}

/* Metered and bare iterations take turns in which of them goes first, so that whatever changes in
 * the meantime hits both. */
static int measure_all(struct runner *s, opm_error *err)
{
    opm_span record = opm_record_begin("measured", OPM_MEASURED);
    bool both = s->opt->receipt && !s->apart;
    struct run_amount amount = s->apart ? half_of(s->opt->iterations) : s->opt->iterations;
    int64_t start = runner_now_ns(), ns, pair, n = 0;
    int rc = 0;

    for (;; n++) {
        double share = progress_of(&amount, n, runner_now_ns() - start);

        if (!rc && tell(s, 1, share))
            rc = stopped(s, err);
        if (rc || share >= 1)
            break;
        pair = 0;
        for (int turn = 0; !rc && turn < 2; turn++) {
            bool metered = turn == (n & 1);

            if (!metered && !both)
                continue;
            rc = runner_iterate(s, metered, n, OPM_MEASURED, &ns, err);
            if (!rc)
                rc = keep(metered ? &s->metered : &s->bare, ns, err);
            pair += metered ? ns : -ns;
        }
        if (!rc && both)
            rc = keep(&s->cost, pair, err);
    }
    opm_record_end(record);
    s->res->seconds = (double)(runner_now_ns() - start) / 1e9;
    return rc;
}

/* All bare iterations, before there is anything that only metered ones need. */
static int measure_bare(struct runner *s, opm_error *err)
{
    struct run_amount part[2] = { half_of(s->opt->warmup), half_of(s->opt->iterations) };
    int rc = s->e->class->arrange(s->e, ENGINE_BARE, err);

    for (int i = 0; i < 2; i++) {
        int64_t start = runner_now_ns(), ns;

        for (int64_t n = 0; !rc && progress_of(&part[i], n, runner_now_ns() - start) < 1; n++) {
            rc = runner_iterate(s, false, n, i ? OPM_MEASURED : OPM_WARMUP, &ns, err);
            if (!rc && i)
                rc = keep(&s->bare, ns, err);
            if (!rc && tell(s, 0, 0))
                rc = stopped(s, err);
        }
    }
    return rc;
}

/* Kinds of iterations that would disturb each other are measured one after the other; the n-th of
 * one and of the other are a pair then. */
static int measure_apart(struct runner *s, opm_error *err)
{
    int rc = measure_bare(s, err);

    if (!rc) {
        OPM_SPAN(OPM_APP, "open engine for metering")
        {
            rc = s->e->class->arrange(s->e, ENGINE_METERED, err);
        }
    }
    if (!rc)
        rc = warm_up(s, err);
    if (!rc)
        rc = measure_all(s, err);
    for (size_t i = 0; !rc && i < MIN(s->bare.n, s->metered.n); i++)
        rc = keep(&s->cost, s->metered.ns[i] - s->bare.ns[i], err);
    return rc;
}

/* Iterations without recording leave nothing else in the trace; their spread is wanted by whoever
 * compares runs. */
static void describe_bare(const struct run_times *t)
{
    struct buf list = { 0 };

    for (size_t i = 0, n = MIN(t->n, BARE_KEPT); i < n; i++)
        buf_addf(&list, "%s%lld", i ? "," : "", (long long)t->ns[i * t->n / n]);
    if (t->n && !list.failed)
        opm_meta("run.bare_ns_each", buf_str(&list));
    buf_release(&list);
}

int runner_measure(struct runner *s, opm_error *err)
{
    int rc, flushed;

    s->res->stopped = RUN_NOT_STOPPED;
    s->bare.n = s->metered.n = s->cost.n = 0;
    s->apart = s->opt->receipt && s->e->class->arrange;
    if (s->apart) {
        rc = measure_apart(s, err);
    } else {
        rc = s->e->class->arrange ? s->e->class->arrange(s->e, ENGINE_METERED, err) : 0;
        if (!rc)
            rc = warm_up(s, err);
        if (!rc)
            rc = measure_all(s, err);
    }
    if (rc && s->res->stopped)
        rc = s->opt->keep_partial ? 0 : stopped(s, err);
    flushed = !rc && s->e->class->flush ? s->e->class->flush(s->e, err) : 0;
    if (rc || flushed)
        return rc ? rc : flushed;
    describe_bare(&s->bare); /* before they are put into order */
    run_latency_of(s->bare.ns, s->bare.n, &s->res->bare);
    run_latency_of(s->metered.ns, s->metered.n, &s->res->metered);
    run_cost_of(s->cost.ns, s->cost.n, &s->res->cost_ns, &s->res->cost_error_ns);
    return 0;
}

__attribute__((format(printf, 2, 3))) static void meta(const char *key, const char *fmt, ...)
{
    char text[1200];
    va_list ap;

    va_start(ap, fmt);
    vsnprintf(text, sizeof(text), fmt, ap);
    va_end(ap);
    opm_meta(key, text);
}

static void describe_latency(const char *kind, const struct run_latency *l)
{
    char key[64];

    if (!l->n)
        return;
    snprintf(key, sizeof(key), "run.%s_median_ns", kind);
    meta(key, "%.0f", l->median);
    snprintf(key, sizeof(key), "run.%s_min_ns", kind);
    meta(key, "%.0f", l->min);
    snprintf(key, sizeof(key), "run.%s_mean_ns", kind);
    meta(key, "%.0f", l->mean);
}

/* The first dimension, if it is the same for every input and output that has one: a sequence that
 * comes first, as recurrent models like it, does not come out again first. */
static int64_t batch_of(const struct runner *s)
{
    int64_t batch = 0;

    for (size_t i = 0; i < s->in.n + s->nout; i++) {
        const struct engine_tensor *t = i < s->in.n ? &s->in.t[i] : &s->out[i - s->in.n];

        if (t->shape.rank < 1)
            continue;
        if (batch && batch != t->shape.dim[0])
            return 1;
        batch = t->shape.dim[0];
    }
    return batch ? batch : 1;
}

void runner_describe_model(const struct runner *s)
{
    meta("model.path", "%s", s->m->name);
    meta("model.name", "%s", s->res->model);
    meta("model.producer", "%s %s", s->m->producer, s->m->producer_version);
    meta("model.opset", "%d", model_opset(s->m, ""));
    meta("engine.name", "%s", s->res->engine);
    if (s->res->version[0])
        meta("engine.version", "%s", s->res->version);
    meta("engine.threads", "%d", s->res->threads);
}

static void describe_generated(const struct run_generated *g)
{
    meta("generate.texts", "%lld", (long long)g->texts);
    meta("generate.rows", "%lld", (long long)g->batch);
    meta("generate.prompt_tokens", "%lld", (long long)g->prompt);
    meta("generate.tokens", "%lld", (long long)g->tokens);
    if (g->heard) {
        meta("generate.encoder_positions", "%lld", (long long)g->heard);
        meta("generate.cache_kept_bytes", "%lld", (long long)g->cache_kept_bytes);
    }
    meta("generate.cache_bytes_per_token", "%lld", (long long)g->cache_token_bytes);
    meta("generate.cache_peak_bytes", "%lld", (long long)g->cache_peak_bytes);
    meta("generate.cache_held_bytes", "%lld", (long long)g->cache_held_bytes);
    meta("generate.cache_in_place", "%d", g->in_place);
}

void runner_describe_inputs(const struct runner *s)
{
    for (size_t i = 0; i < s->in.n; i++) {
        char key[300], shape[128];

        snprintf(key, sizeof(key), "input.%.280s", s->in_value[i].name);
        shape_text(&s->in.t[i].shape, shape, sizeof(shape));
        meta(key, "%s %s, %s", tensor_type_name(s->in.t[i].type), shape, s->in.origin[i]);
    }
}

void runner_describe_run(struct runner *s)
{
    char digest[DIGEST_ROOM];
    struct peak peak;

    if (s->opt->generate.tokens)
        describe_generated(&s->res->generated);
    else
        s->res->batch = batch_of(s);
    runner_ask_memory(s);
    runner_describe_model(s);
    if (model_digest(s->m, digest))
        meta("model.digest", "%s", digest);
    meta("run.warmup", "%llu", (unsigned long long)s->res->warmup);
    meta("run.iterations", "%llu", (unsigned long long)s->res->metered.n);
    meta("run.batch", "%lld", (long long)s->res->batch);
    if (s->res->sizes[0])
        meta("run.sizes", "%s", s->res->sizes);
    meta("run.seed", "%lld", (long long)s->opt->seed);
    meta("run.load_ns", "%lld", (long long)s->res->load_ns);
    meta("run.open_ns", "%lld", (long long)s->res->open_ns);
    meta("run.prepare_ns", "%lld", (long long)s->res->prepare_ns);
    if (s->res->arena_bytes >= 0) {
        meta("engine.arena_bytes", "%lld", (long long)s->res->arena_bytes);
        meta("engine.packed_bytes", "%lld", (long long)s->res->packed_bytes);
        meta("engine.winograd_bytes", "%lld", (long long)s->res->winograd_bytes);
    }
    if (s->opt->instances > 1) {
        meta("run.instance", "%d", s->opt->instance);
        meta("run.instances", "%d", s->opt->instances);
    }
    if (s->res->bare.n) {
        meta("run.cost_ns", "%.0f", s->res->cost_ns);
        meta("run.cost_error_ns", "%.0f", s->res->cost_error_ns);
    }
    run_peak(s->res->threads, &peak);
#define X(member, key)   \
    if (peak.member > 0) \
        meta("machine." key, "%.10g", peak.member);
    PEAK_FIGURES(X)
#undef X
    describe_latency("bare", &s->res->bare);
    describe_latency("metered", &s->res->metered);
    runner_describe_inputs(s);
}
