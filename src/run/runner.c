/* runner.c -- from a model's name to outputs; see runner.h. */
#include "run/runner.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "graph/zoo.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

int64_t runner_now_ns(void)
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

/* The zoo makes a model for the sizes that are asked for, rather than with open ones; decoders that
 * are to generate have a cache and open sizes. */
static int model_name(const struct run_options *opt, struct buf *name, opm_error *err)
{
    static const struct {
        const char *key;
        size_t offset;
    } sizes[] = { { "batch", offsetof(struct run_options, batch_size) },
                  { "seq", offsetof(struct run_options, seq_len) } };

    buf_adds(name, opt->model);
    if (opt->generate.tokens) {
        if (zoo_takes(opt->model, "cache") && !strstr(opt->model, "cache="))
            buf_addf(name, "%ccache=1", strchr(opt->model, '?') ? '&' : '?');
        return name->failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : 0;
    }
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

static int load_model(struct runner *s, opm_error *err)
{
    struct buf name = { 0 };
    int64_t start;
    int rc = model_name(s->opt, &name, err);

    start = runner_now_ns();
    if (!rc) {
        OPM_SPAN(OPM_APP, "load model")
        {
            rc = model_load(&s->m, buf_str(&name), err);
        }
    }
    s->res->load_ns = runner_now_ns() - start;
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

static int open_engine(struct runner *s, opm_error *err)
{
    const struct engine_class *class = engine_find(s->opt->engine);
    struct engine_options eo = ENGINE_OPTIONS_INIT;
    int64_t start = runner_now_ns();
    int rc = 0;

    if (!class)
        return unknown_engine(s->opt->engine, err);
    eo.threads = s->res->threads;
    eo.pin = s->opt->pin;
    eo.winograd = s->opt->winograd;
    eo.sparse = s->opt->sparse ? ENGINE_SPARSE_AUTO : ENGINE_SPARSE_NEVER;
    eo.ort_lib = s->opt->ort_lib;
    eo.max_memory = s->opt->max_memory ? s->opt->max_memory : run_memory_default();
    eo.stop = runner_stop;
    eo.stop_user = s;
    OPM_SPAN(OPM_APP, "open engine")
    {
        rc = class->open(&s->e, s->m, &eo, err);
    }
    s->res->open_ns = runner_now_ns() - start;
    if (rc)
        return rc;
    snprintf(s->res->engine, sizeof(s->res->engine), "%s", class->name);
    if (class->version)
        snprintf(s->res->version, sizeof(s->res->version), "%s", class->version(s->e));
    s->in_value = class->inputs(s->e, &s->nin);
    s->out_value = class->outputs(s->e, &s->nout);
    s->out = mem_calloc(s->nout + 1, sizeof(*s->out));
    return s->out ? 0 : opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->m->name);
}

int runner_stop(void *session)
{
    struct runner *s = session;

    bool ask =
        s->opt->progress && (s->opt->progress_anywhere || pthread_equal(pthread_self(), s->thread));

    if (ask && s->opt->progress(s->opt->user, s->told, 1000))
        s->res->stopped = RUN_INTERRUPTED;
    else if (s->deadline_ns && runner_now_ns() >= s->deadline_ns)
        s->res->stopped = RUN_TIME_LIMIT;
    return s->res->stopped;
}

void runner_begin(struct runner *s)
{
    s->thread = pthread_self();
    s->res->stopped = RUN_NOT_STOPPED;
    s->deadline_ns = s->opt->time_limit_ns ? runner_now_ns() + s->opt->time_limit_ns : 0;
}

int runner_open(struct runner *s, opm_error *err)
{
    int rc;

    runner_begin(s);
    if (!s->res->threads)
        s->res->threads = s->opt->threads ? s->opt->threads : usable_cores();
    run_model_label(s->opt->model, s->res->model, sizeof(s->res->model));
    rc = load_model(s, err);
    return rc ? rc : open_engine(s, err);
}

/* Inputs of the same types and shapes as before take the new values where they are. */
static bool refill(struct runner *s, const struct tensor *given, size_t ngiven)
{
    if (!s->in.n || ngiven != s->in.n)
        return false;
    for (size_t i = 0; i < ngiven; i++)
        if (!given[i].data || given[i].type != s->in.t[i].type ||
            !shape_equal(&given[i].shape, &s->in.t[i].shape) ||
            strcmp(given[i].name, s->in_value[i].name) != 0)
            return false;
    for (size_t i = 0; i < ngiven; i++)
        if (given[i].bytes)
            memcpy(s->in.t[i].data, given[i].data, given[i].bytes);
    return true;
}

void runner_input_options(const struct runner *s, struct input_options *out)
{
    *out = (struct input_options){ .text = s->opt->input,
                                   .ntext = s->opt->ninput,
                                   .dim = s->opt->dim,
                                   .ndim = s->opt->ndim,
                                   .batch_size = s->opt->batch_size,
                                   .seq_len = s->opt->seq_len,
                                   .guess = s->opt->guess_sizes,
                                   .seed = (uint64_t)s->opt->seed,
                                   .max_bytes = s->opt->max_memory ? s->opt->max_memory
                                                                   : run_memory_default() };
    if (strncmp(s->opt->model, "zoo:", 4) == 0) /* already in the model */
        out->batch_size = out->seq_len = 0;
}

static bool same_shapes(const struct inputs *a, const struct inputs *b)
{
    bool same = a->n == b->n;

    for (size_t i = 0; same && i < a->n; i++)
        same = a->t[i].type == b->t[i].type && shape_equal(&a->t[i].shape, &b->t[i].shape);
    return same;
}

int runner_feed(struct runner *s, const struct tensor *given, size_t ngiven, opm_error *err)
{
    struct inputs in = { 0 };
    struct input_options io;
    int rc = 0;

    if (refill(s, given, ngiven))
        return 0;
    runner_input_options(s, &io);
    io.given = given;
    io.ngiven = ngiven;
    if (s->opt->check) {
        npz_close(&s->ref);
        rc = npz_open(&s->ref, s->opt->check, err);
        io.ref = &s->ref;
    }
    if (!rc)
        rc = inputs_make_fit(&in, s->m, s->in_value, s->nin, &io, err);
    if (rc)
        return rc;
    s->prepared &= same_shapes(&in, &s->in);
    inputs_release(&s->in);
    s->in = in;
    snprintf(s->res->sizes, sizeof(s->res->sizes), "%s", in.sizes);
    snprintf(s->res->ignored, sizeof(s->res->ignored), "%s", in.ignored);
    return 0;
}

/* A model may not run with the sizes that were chosen for it: say which they are. */
static int explain_sizes(const struct runner *s, int rc, opm_error *err)
{
    char msg[sizeof(err->msg)];

    if (!s->res->sizes[0] || !err || rc == OPM_ENOMEM || rc == OPM_ELIMIT)
        return rc;
    snprintf(msg, sizeof(msg), "%s", err->msg);
    return opm__fail(
        err, rc, "%.*s; sizes of open dimensions were chosen: %s; give others with --dim NAME=N",
        (int)(sizeof(msg) / 2), msg, s->res->sizes);
}

int runner_prepare(struct runner *s, opm_error *err)
{
    int64_t start = runner_now_ns();
    int rc = 0;

    OPM_SPAN(OPM_APP, "prepare")
    {
        rc = s->e->class->prepare(s->e, s->in.t, s->in.n, err);
    }
    if (rc)
        rc = explain_sizes(s, rc, err);
    s->prepared = rc == 0;
    s->res->prepare_ns = runner_now_ns() - start;
    s->res->arena_bytes = s->res->packed_bytes = s->res->winograd_bytes = -1;
    if (!rc)
        runner_ask_memory(s);
    return rc;
}

void runner_ask_memory(struct runner *s)
{
    struct engine_memory m;

    if (!s->e->class->memory)
        return;
    s->e->class->memory(s->e, &m);
    s->res->arena_bytes = m.arena;
    s->res->packed_bytes = m.packed;
    s->res->winograd_bytes = m.winograd;
    for (size_t i = 0; i < ARRAY_SIZE(s->beside); i++) {
        if (!s->beside[i])
            continue;
        s->beside[i]->e->class->memory(s->beside[i]->e, &m);
        s->res->arena_bytes += m.arena;
        s->res->packed_bytes += m.packed;
        s->res->winograd_bytes += m.winograd;
    }
}

int runner_iterate(struct runner *s, bool metered, int64_t num, enum opm_record_flags flags,
                   int64_t *ns, opm_error *err)
{
    opm_span step;
    int64_t start, end;
    int rc;

    if (!metered)
        opm_pause();
    start = runner_now_ns();
    step = metered ? opm_step_begin(s->res->model, num, flags) : opm_span_none();
    rc = s->e->class->run(s->e, s->in.t, s->in.n, s->out, s->nout, err);
    if (rc)
        rc = explain_sizes(s, rc, err);
    opm_step_end(step);
    end = runner_now_ns();
    if (!metered)
        opm_resume();
    *ns = end - start;
    return rc;
}

void runner_close(struct runner *s)
{
    if (s->e)
        s->e->class->close(s->e);
    inputs_release(&s->in);
    npz_close(&s->ref);
    mem_free(s->out);
    mem_free(s->bare.ns);
    mem_free(s->metered.ns);
    mem_free(s->cost.ns);
    model_free(s->m);
    *s = (struct runner){ 0 };
}
