/* run.c -- load, warm up, measure; see run.h. */
#include "run/run.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "engine/engine.h"
#include "run/check.h"
#include "run/input.h"

#include <errno.h>
#include <opmeter/opmeter.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define LATENCIES_MAX ((size_t)20000000)

struct times {
    int64_t *ns;
    size_t n, cap;
};

struct session {
    const struct run_options *opt;
    struct run_result *res;
    struct model *m;
    struct engine *e;
    struct inputs in;
    const struct engine_value *out_value;
    struct engine_tensor *out;
    size_t nout;
    struct npz ref;
    struct times bare, metered, cost; /* cost: metered less bare, pair by pair */
};

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static int usable_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

/* The zoo makes a model for the sizes that are asked for, rather than with open ones. */
static int model_name(const struct run_options *opt, struct buf *name, opm_error *err)
{
    static const struct {
        const char *key;
        size_t offset;
    } sizes[] = { { "batch", offsetof(struct run_options, batch_size) },
                  { "seq", offsetof(struct run_options, seq_len) } };

    buf_adds(name, opt->model);
    for (size_t i = 0; strncmp(opt->model, "zoo:", 4) == 0 && i < ARRAY_SIZE(sizes); i++) {
        const char *options = strchr(opt->model, '?');
        char key[16];
        int64_t size;

        memcpy(&size, (const char *)opt + sizes[i].offset, sizeof(size));
        snprintf(key, sizeof(key), "%s=", sizes[i].key);
        if (size && !(options && strstr(options, key)))
            buf_addf(name, "%c%s%lld", strchr(buf_str(name), '?') ? '&' : '?', key,
                     (long long)size);
    }
    return name->failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : 0;
}

static int load_model(struct session *s, opm_error *err)
{
    struct buf name = { 0 };
    int64_t start;
    int rc = model_name(s->opt, &name, err);

    start = now_ns();
    if (!rc) {
        OPM_SPAN(OPM_APP, "load model")
        {
            rc = model_load(&s->m, buf_str(&name), err);
        }
    }
    s->res->load_ns = now_ns() - start;
    buf_release(&name);
    return rc;
}

static int unknown_engine(const char *name, opm_error *err)
{
    struct buf list = { 0 };
    int rc;

    for (size_t i = 0; engines[i]; i++)
        buf_addf(&list, "%s%s", i ? ", " : "", engines[i]->name);
    rc = opm__fail(err, OPM_EINVAL, "no such engine '%s'; there are: %s", name, buf_str(&list));
    buf_release(&list);
    return rc;
}

static int open_engine(struct session *s, opm_error *err)
{
    const struct engine_class *class = engine_find(s->opt->engine);
    struct engine_options eo = ENGINE_OPTIONS_INIT;
    int64_t start = now_ns();
    int rc = 0;

    if (!class)
        return unknown_engine(s->opt->engine, err);
    eo.threads = s->res->threads;
    eo.pin = s->opt->pin;
    eo.winograd = s->opt->winograd;
    eo.sparse = s->opt->sparse ? ENGINE_SPARSE_AUTO : ENGINE_SPARSE_NEVER;
    eo.ort_lib = s->opt->ort_lib;
    eo.metered = true;
    OPM_SPAN(OPM_APP, "open engine")
    {
        rc = class->open(&s->e, s->m, &eo, err);
    }
    s->res->open_ns = now_ns() - start;
    if (rc)
        return rc;
    snprintf(s->res->engine, sizeof(s->res->engine), "%s", class->name);
    if (class->version)
        snprintf(s->res->version, sizeof(s->res->version), "%s", class->version(s->e));
    s->out_value = class->outputs(s->e, &s->nout);
    s->out = mem_calloc(s->nout + 1, sizeof(*s->out));
    return s->out ? 0 : opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
}

static int make_inputs(struct session *s, opm_error *err)
{
    struct input_options io = { .text = s->opt->input,
                                .ntext = s->opt->ninput,
                                .dim = s->opt->dim,
                                .ndim = s->opt->ndim,
                                .batch_size = s->opt->batch_size,
                                .seq_len = s->opt->seq_len,
                                .seed = (uint64_t)s->opt->seed };
    const struct engine_value *value;
    bool zoo = strncmp(s->opt->model, "zoo:", 4) == 0;
    size_t n;
    int rc = 0;

    if (s->opt->check) {
        rc = npz_open(&s->ref, s->opt->check, err);
        io.ref = &s->ref;
    }
    if (zoo) /* already in the model */
        io.batch_size = io.seq_len = 0;
    value = s->e->class->inputs(s->e, &n);
    if (!rc)
        rc = inputs_make(&s->in, s->m, value, n, &io, err);
    return rc;
}

/* The first dimension, if it is the same for every input and output that has one: a sequence that
 * comes first, as recurrent models like it, does not come out again first. */
static int64_t batch_of(const struct session *s)
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

static int prepare(struct session *s, opm_error *err)
{
    int64_t start = now_ns();
    int rc = 0;

    OPM_SPAN(OPM_APP, "prepare")
    {
        rc = s->e->class->prepare(s->e, s->in.t, s->in.n, err);
    }
    s->res->prepare_ns = now_ns() - start;
    s->res->arena_bytes = s->res->packed_bytes = s->res->winograd_bytes = -1;
    if (!rc && s->e->class->memory) {
        struct engine_memory m;

        s->e->class->memory(s->e, &m);
        s->res->arena_bytes = m.arena;
        s->res->packed_bytes = m.packed;
        s->res->winograd_bytes = m.winograd;
    }
    return rc;
}

/* One iteration. A bare one leaves nothing in the trace; *ns is its latency. */
static int iterate(struct session *s, bool metered, int64_t num, enum opm_record_flags flags,
                   int64_t *ns, opm_error *err)
{
    opm_span step;
    int64_t start, end;
    int rc;

    if (!metered)
        opm_pause();
    start = now_ns();
    step = metered ? opm_step_begin(s->res->model, num, flags) : opm_span_none();
    rc = s->e->class->run(s->e, s->in.t, s->in.n, s->out, s->nout, err);
    opm_step_end(step);
    end = now_ns();
    if (!metered)
        opm_resume();
    *ns = end - start;
    return rc;
}

/* What the outputs are asked for, before any measuring. */
static int look_at_outputs(struct session *s, opm_error *err)
{
    int64_t ns;
    int rc;

    if (!s->opt->check && !s->opt->save_outputs)
        return 0;
    rc = iterate(s, false, 0, OPM_WARMUP, &ns, err);
    if (!rc && s->opt->save_outputs)
        rc = save_outputs(s->opt->save_outputs, s->out_value, s->out, s->nout, err);
    if (!rc && s->opt->check)
        rc = check_outputs(&s->ref, s->opt->check, s->out_value, s->out, s->nout, s->opt->atol,
                           s->opt->rtol, &s->res->check, err);
    return rc;
}

/* How far an amount is done, 0 to 1; at least one iteration unless none was asked for. */
static double progress_of(const struct run_amount *a, int64_t done, int64_t elapsed_ns)
{
    if (a->ns)
        return done ? (double)elapsed_ns / (double)a->ns : 0;
    return a->count ? (double)done / (double)a->count : 1;
}

/* The bar runs from 0 to 1000 over both parts. */
static int tell(const struct session *s, double warm, double measured)
{
    const struct run_amount *w = &s->opt->warmup, *n = &s->opt->iterations;
    double share = n->ns ? 0.02 : 0.3, both = (double)(w->count + n->count); /* guesses */

    if (!w->ns && !n->ns)
        share = both > 0 ? (double)w->count / both : 0;
    else if (w->ns && n->ns)
        share = (double)w->ns / (double)(w->ns + n->ns);
    if (!s->opt->progress)
        return 0;
    return s->opt->progress(
        s->opt->user, (uint64_t)(1000 * (share * warm + (1 - share) * MIN(measured, 1))), 1000);
}

static int interrupted(opm_error *err)
{
    return opm__fail(err, OPM_ELIMIT, "interrupted");
}

static int warm_up(struct session *s, opm_error *err)
{
    opm_span record = opm_record_begin("warm up", OPM_WARMUP);
    int64_t start = now_ns(), ns, n = 0;
    int rc = 0;

    for (;; n++) {
        double share = progress_of(&s->opt->warmup, n, now_ns() - start);

        if (!rc && tell(s, share, 0))
            rc = interrupted(err);
        if (rc || share >= 1)
            break;
        rc = iterate(s, true, n, OPM_WARMUP, &ns, err);
        if (!rc && s->opt->receipt)
            rc = iterate(s, false, n, OPM_WARMUP, &ns, err);
    }
    opm_record_end(record);
    s->res->warmup = (uint64_t)n;
    return rc;
}

static int keep(struct times *t, int64_t ns, opm_error *err)
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
static int measure(struct session *s, opm_error *err)
{
    opm_span record = opm_record_begin("measured", OPM_MEASURED);
    int64_t start = now_ns(), ns, pair, n = 0;
    int rc = 0;

    for (;; n++) {
        double share = progress_of(&s->opt->iterations, n, now_ns() - start);

        if (!rc && tell(s, 1, share))
            rc = interrupted(err);
        if (rc || share >= 1)
            break;
        pair = 0;
        for (int turn = 0; !rc && turn < 2; turn++) {
            bool metered = turn == (n & 1);

            if (!metered && !s->opt->receipt)
                continue;
            rc = iterate(s, metered, n, OPM_MEASURED, &ns, err);
            if (!rc)
                rc = keep(metered ? &s->metered : &s->bare, ns, err);
            pair += metered ? ns : -ns;
        }
        if (!rc && s->opt->receipt)
            rc = keep(&s->cost, pair, err);
    }
    opm_record_end(record);
    s->res->seconds = (double)(now_ns() - start) / 1e9;
    return rc;
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

static void describe_run(struct session *s)
{
    const struct engine_value *value;
    struct run_peak peak;
    size_t n;

    s->res->batch = batch_of(s);
    meta("model.path", "%s", s->m->name);
    meta("model.name", "%s", s->res->model);
    meta("model.producer", "%s %s", s->m->producer, s->m->producer_version);
    meta("model.opset", "%d", model_opset(s->m, ""));
    meta("engine.name", "%s", s->res->engine);
    if (s->res->version[0])
        meta("engine.version", "%s", s->res->version);
    meta("engine.threads", "%d", s->res->threads);
    meta("run.warmup", "%llu", (unsigned long long)s->res->warmup);
    meta("run.iterations", "%zu", s->metered.n);
    meta("run.batch", "%lld", (long long)s->res->batch);
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
    if (peak.gflops > 0 && peak.gbytes > 0) {
        meta("machine.peak_gflops_per_s", "%.3f", peak.gflops);
        meta("machine.peak_gbytes_per_s", "%.3f", peak.gbytes);
    }
    describe_latency("bare", &s->res->bare);
    describe_latency("metered", &s->res->metered);
    value = s->e->class->inputs(s->e, &n);
    for (size_t i = 0; i < n; i++) {
        char key[300], shape[128];

        snprintf(key, sizeof(key), "input.%.280s", value[i].name);
        shape_text(&s->in.t[i].shape, shape, sizeof(shape));
        meta(key, "%s %s, %s", tensor_type_name(s->in.t[i].type), shape, s->in.origin[i]);
    }
}

static int work(struct session *s, opm_error *err)
{
    int rc = load_model(s, err);

    if (!rc)
        rc = open_engine(s, err);
    if (!rc)
        rc = make_inputs(s, err);
    if (!rc)
        rc = prepare(s, err);
    if (!rc)
        rc = look_at_outputs(s, err);
    if (!rc && s->opt->ready && s->opt->ready(s->opt->ready_user))
        rc = interrupted(err);
    if (!rc)
        rc = warm_up(s, err);
    if (!rc)
        rc = measure(s, err);
    if (!rc && s->e->class->flush)
        rc = s->e->class->flush(s->e, err);
    if (!rc) {
        run_latency_of(s->bare.ns, s->bare.n, &s->res->bare);
        run_latency_of(s->metered.ns, s->metered.n, &s->res->metered);
        run_cost_of(s->cost.ns, s->cost.n, &s->res->cost_ns, &s->res->cost_error_ns);
        describe_run(s);
    }
    return rc;
}

static int start_recording(const struct run_options *opt, struct run_result *res, opm_error *err)
{
    opm_options ro = OPM_OPTIONS_INIT;

    if ((size_t)snprintf(res->trace, sizeof(res->trace), "%s/trace.opm", opt->dir) >=
        sizeof(res->trace))
        return opm__fail(err, OPM_EINVAL, "%s: the path is too long", opt->dir);
    ro.path = res->trace;
    return MIN(opm_start(&ro, err), 0);
}

int run_model(const struct run_options *opt, struct run_result *out, opm_error *err)
{
    struct session s = { .opt = opt, .res = out };
    opm_recorder_stats st;
    int rc, stopped;

    *out = (struct run_result){ .threads = opt->threads ? opt->threads : usable_cores() };
    run_model_label(opt->model, out->model, sizeof(out->model));
    rc = start_recording(opt, out, err);
    if (rc)
        return rc;
    opm_thread_name("main");
    rc = work(&s, err);
    opm_stats(&st);
    out->lost = st.lost;
    stopped = opm_stop(rc ? NULL : err);
    if (!rc)
        rc = stopped;
    if (s.e)
        s.e->class->close(s.e);
    inputs_release(&s.in);
    npz_close(&s.ref);
    mem_free(s.out);
    mem_free(s.bare.ns);
    mem_free(s.metered.ns);
    mem_free(s.cost.ns);
    model_free(s.m);
    return rc;
}
