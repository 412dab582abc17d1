/* open.c -- open, describe and close sessions; see opmeter_run.h. */
#include "public/run/session.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"

static int no_memory(opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM, "out of memory");
}

static bool copy_text(char **out, const char *text)
{
    *out = text ? mem_strdup(text) : NULL;
    return !text || *out;
}

static int copy_dims(opm_session *s, const char *const *dims, opm_error *err)
{
    size_t n = 0;
    int rc = 0;

    while (dims && dims[n])
        n++;
    s->dim = mem_calloc(n + 1, sizeof(*s->dim));
    if (!s->dim)
        return no_memory(err);
    for (; !rc && s->ndim < n; s->ndim += !rc)
        rc = run_dim_parse(dims[s->ndim], &s->dim[s->ndim], err);
    return rc;
}

static int copy_options(opm_session *s, const char *model, const opm_session_options *opts,
                        opm_error *err)
{
    opm_session_options o = OPM_SESSION_OPTIONS_INIT;
    int rc = sized_copy(&o, sizeof(o), opts, "opm_session_options", err);

    if (rc)
        return rc;
    if (o.threads < 0 || o.batch_size < 0 || o.seq_len < 0 || o.max_memory < 0 ||
        o.time_limit_ns < 0)
        return opm__fail(err, OPM_EINVAL, "opm_session_options: %s is negative",
                         o.threads < 0      ? "threads"
                         : o.batch_size < 0 ? "batch_size"
                         : o.seq_len < 0    ? "seq_len"
                         : o.max_memory < 0 ? "max_memory"
                                            : "time_limit_ns");
    if (!copy_text(&s->model, model) || !copy_text(&s->ort_lib, o.ort_lib) ||
        !copy_text(&s->engine, o.engine ? o.engine : run_engine_name(0)))
        return no_memory(err);
    rc = copy_dims(s, o.dims, err);
    s->opt = (struct run_options){ .model = s->model,
                                   .engine = s->engine,
                                   .ort_lib = s->ort_lib,
                                   .batch_size = o.batch_size,
                                   .seq_len = o.seq_len,
                                   .dim = s->dim,
                                   .ndim = s->ndim,
                                   .seed = (int64_t)o.seed,
                                   .threads = o.threads,
                                   .pin = o.pin,
                                   .winograd = true,
                                   .sparse = true,
                                   .max_memory = o.max_memory,
                                   .time_limit_ns = o.time_limit_ns,
                                   .instances = 1 };
    return rc;
}

static int decide_shapes(opm_session *s, opm_error *err)
{
    const struct runner *r = &s->run;
    struct input_options io;
    int rc;

    s->in_shape = mem_calloc(r->nin + 1, sizeof(*s->in_shape));
    s->out_shape = mem_calloc(r->nout + 1, sizeof(*s->out_shape));
    if (!s->in_shape || !s->out_shape)
        return no_memory(err);
    runner_input_options(r, &io);
    rc = inputs_shapes(r->m, r->in_value, r->nin, &io, r->in_value, r->nin, s->in_shape, err);
    if (!rc)
        rc =
            inputs_shapes(r->m, r->in_value, r->nin, &io, r->out_value, r->nout, s->out_shape, err);
    return rc;
}

int opm_session_open(opm_session **out, const char *model, const opm_session_options *opts,
                     opm_error *err)
{
    opm_session *s;
    int rc;

    if (!out || !model)
        return opm__fail(err, OPM_EINVAL, "opm_session_open: %s is NULL", out ? "model" : "out");
    s = mem_calloc(1, sizeof(*s));
    if (!s)
        return no_memory(err);
    rc = copy_options(s, model, opts, err);
    s->run = (struct runner){ .opt = &s->opt, .res = &s->res };
    if (!rc)
        rc = session_end(s, runner_open(&s->run, err), err);
    if (!rc && s->run.e->class->arrange)
        rc = s->run.e->class->arrange(s->run.e, ENGINE_BARE | ENGINE_METERED, err);
    if (!rc)
        rc = decide_shapes(s, err);
    if (rc) {
        opm_session_close(s);
        return rc;
    }
    runner_describe_model(&s->run);
    *out = s;
    return 0;
}

void opm_session_close(opm_session *s)
{
    if (!s)
        return;
    if (s->run.e)
        opm_session_flush(s, NULL);
    runner_close(&s->run);
    for (size_t i = 0; i < s->ndim; i++)
        mem_free(s->dim[i].name);
    mem_free(s->dim);
    mem_free(s->in_shape);
    mem_free(s->out_shape);
    mem_free(s->model);
    mem_free(s->engine);
    mem_free(s->ort_lib);
    mem_free(s);
}

size_t opm_session_ninputs(const opm_session *s)
{
    return s ? s->run.nin : 0;
}

size_t opm_session_noutputs(const opm_session *s)
{
    return s ? s->run.nout : 0;
}

static void describe(const opm_session *s, const struct engine_value *v, const struct shape *shape,
                     opm_value *out, size_t size)
{
    opm_value value = { .name = v->name,
                        .dtype = tensor_type_name(v->type),
                        .bits = tensor_type_bits(v->type),
                        .rank = shape->rank };

    for (int i = 0; i < shape->rank; i++) {
        value.dims[i] = MAX(shape->dim[i], -1);
        if (shape->dim[i] < 0)
            value.dim_names[i] = model_dim_name(s->run.m, shape->dim[i]);
    }
    sized_pass(out, size, &value, sizeof(value));
}

int opm__session_input(const opm_session *s, size_t i, opm_value *out, size_t size, opm_error *err)
{
    if (!s || !out)
        return opm__fail(err, OPM_EINVAL, "opm_session_input: %s is NULL", s ? "out" : "s");
    if (i >= s->run.nin)
        return opm__fail(err, OPM_ENOTFOUND, "%s: no input %zu, there are %zu", s->model, i,
                         s->run.nin);
    describe(s, &s->run.in_value[i], &s->in_shape[i], out, size);
    return 0;
}

int opm__session_output(const opm_session *s, size_t i, opm_value *out, size_t size, opm_error *err)
{
    if (!s || !out)
        return opm__fail(err, OPM_EINVAL, "opm_session_output: %s is NULL", s ? "out" : "s");
    if (i >= s->run.nout)
        return opm__fail(err, OPM_ENOTFOUND, "%s: no output %zu, there are %zu", s->model, i,
                         s->run.nout);
    describe(s, &s->run.out_value[i], &s->out_shape[i], out, size);
    return 0;
}

const char *opm_session_engine(const opm_session *s)
{
    return s ? s->res.engine : "";
}

const char *opm_session_engine_version(const opm_session *s)
{
    return s ? s->res.version : "";
}

int opm_session_threads(const opm_session *s)
{
    return s ? s->res.threads : 0;
}

const char *opm_session_model(const opm_session *s)
{
    return s ? s->res.model : "";
}

const char *opm_engine_name(size_t i)
{
    return run_engine_name(i);
}

const char *opm_zoo_name(size_t i)
{
    struct run_zoo_entry e;

    return run_zoo_entry(i, &e) ? e.name : NULL;
}
