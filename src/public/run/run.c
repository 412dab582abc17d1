/* run.c -- run and measure; see opmeter_run.h. */
#include "public/run/session.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/sized.h"

#include <stddef.h>
#include <string.h>

_Static_assert(sizeof(opm_string) == sizeof(struct tensor_string) &&
                   offsetof(opm_string, text) == offsetof(struct tensor_string, s) &&
                   offsetof(opm_string, len) == offsetof(struct tensor_string, len),
               "strings are handed through as they are");

int session_end(const opm_session *s, int rc, opm_error *err)
{
    if (!rc || s->res.stopped != RUN_TIME_LIMIT)
        return rc;
    return opm__fail(err, OPM_ELIMIT, "%s: stopped after %.9g s, the time limit", s->model,
                     (double)s->opt.time_limit_ns / 1e9);
}

/* The i-th of arrays whose struct, as the caller knows it, has `size` bytes. */
static opm_array array_at(const opm_array *arrays, size_t size, size_t i)
{
    opm_array a;

    sized_pass(&a, sizeof(a), (const unsigned char *)arrays + i * size, size);
    return a;
}

/* The caller's array as a tensor of the input v. Its shape is held against the model's later. */
static int tensor_of(const struct engine_value *v, const opm_array *a, struct tensor *out,
                     opm_error *err)
{
    enum tensor_type type = a->dtype ? tensor_type_find(a->dtype) : v->type;
    char text[128];
    int64_t bytes;

    if (type == TENSOR_NONE || (!tensor_type_bits(type) && type != TENSOR_STRING))
        return opm__fail(err, OPM_EUNSUPPORTED, "input '%s': arrays of type %s cannot be given",
                         v->name, a->dtype ? a->dtype : tensor_type_name(v->type));
    if (a->rank < 0 || a->rank > OPM_RANK_MAX)
        return opm__fail(err, OPM_EINVAL, "input '%s': rank %d is not from 0 to %d", v->name,
                         a->rank, OPM_RANK_MAX);
    *out = (struct tensor){ .name = v->name, .type = type, .data = a->data, .bytes = a->bytes };
    out->shape.rank = a->rank;
    memcpy(out->shape.dim, a->dims, sizeof(a->dims));
    bytes = engine_bytes(&out->shape, type);
    out->count = shape_count(&out->shape);
    if (out->count < 0 || bytes < 0)
        return opm__fail(err, OPM_EINVAL, "input '%s': a dimension is negative, or it is too large",
                         v->name);
    if (a->data && (size_t)bytes != a->bytes) {
        shape_text(&out->shape, text, sizeof(text));
        return opm__fail(err, OPM_EINVAL, "input '%s': %s of shape %s has %lld bytes, not %zu",
                         v->name, tensor_type_name(type), text, (long long)bytes, a->bytes);
    }
    return 0;
}

static int feed_given(opm_session *s, const opm_array *in, size_t size, opm_error *err)
{
    struct tensor *given = mem_calloc(s->run.nin + 1, sizeof(*given));
    size_t n = 0;
    int rc = given ? 0 : opm__fail(err, OPM_ENOMEM, "%s: out of memory", s->model);

    for (size_t i = 0; !rc && i < s->run.nin; i++) {
        opm_array a = array_at(in, size, i);

        if (a.data || a.rank >= 0)
            rc = tensor_of(&s->run.in_value[i], &a, &given[n++], err);
    }
    if (!rc)
        rc = runner_feed(&s->run, given, n, err);
    mem_free(given);
    return rc;
}

static int feed(opm_session *s, const opm_array *in, size_t nin, size_t size, opm_error *err)
{
    int rc = 0;

    if (in && nin != s->run.nin)
        return opm__fail(err, OPM_EINVAL, "%s: %zu inputs were given, but it has %zu", s->model,
                         nin, s->run.nin);
    if (in || !s->random)
        rc = in ? feed_given(s, in, size, err) : runner_feed(&s->run, NULL, 0, err);
    s->random = !rc && !in;
    if (!rc && !s->run.prepared)
        rc = runner_prepare(&s->run, err);
    return rc;
}

static void give_outputs(const opm_session *s, opm_array *out, size_t nout, size_t size)
{
    for (size_t i = 0; i < nout; i++) {
        const struct engine_tensor *t = &s->run.out[i];
        opm_array a = { .dtype = tensor_type_name(t->type), .rank = t->shape.rank };

        memcpy(a.dims, t->shape.dim, sizeof(a.dims));
        if (t->kind == VALUE_TENSOR) {
            a.data = t->data;
            a.bytes = t->bytes;
        }
        sized_pass((unsigned char *)out + i * size, size, &a, sizeof(a));
    }
}

static int check_call(const opm_session *s, const char *function, const opm_array *out, size_t nout,
                      opm_error *err)
{
    if (!s || (nout && !out))
        return opm__fail(err, OPM_EINVAL, "%s: %s is NULL", function, s ? "out" : "s");
    if (nout > s->run.nout)
        return opm__fail(err, OPM_EINVAL, "%s: %zu outputs were asked for, but it has %zu",
                         s->model, nout, s->run.nout);
    return 0;
}

int opm__session_run(opm_session *s, const opm_array *in, size_t nin, opm_array *out, size_t nout,
                     size_t size, opm_error *err)
{
    int64_t ns;
    int rc = check_call(s, "opm_session_run", out, nout, err);

    if (rc)
        return rc;
    runner_begin(&s->run);
    rc = feed(s, in, nin, size, err);
    if (!rc)
        rc = runner_iterate(&s->run, true, s->steps, OPM_MEASURED, &ns, err);
    rc = session_end(s, rc, err);
    if (rc)
        return rc;
    s->steps++;
    give_outputs(s, out, nout, size);
    return 0;
}

int opm__session_random(opm_session *s, size_t i, uint64_t seed, opm_array *array, size_t size,
                        opm_error *err)
{
    opm_array a;
    const struct engine_value *v;
    struct engine_tensor t;
    struct tensor as;
    const char *origin;
    bool fits;
    int rc;

    if (!s || !array || !array->data)
        return opm__fail(err, OPM_EINVAL, "opm_session_random: %s is NULL", s ? "array" : "s");
    if (i >= s->run.nin)
        return opm__fail(err, OPM_ENOTFOUND, "%s: no input %zu, there are %zu", s->model, i,
                         s->run.nin);
    v = &s->run.in_value[i];
    a = array_at(array, size, 0);
    rc = tensor_of(v, &a, &as, err);
    if (rc)
        return rc;
    fits = as.type == v->type && (v->shape.rank < 0 || v->shape.rank == as.shape.rank);
    for (int d = 0; fits && d < v->shape.rank; d++)
        fits = v->shape.dim[d] < 0 || v->shape.dim[d] == as.shape.dim[d];
    if (!fits) {
        char has[128], wants[256];

        shape_text(&as.shape, has, sizeof(has));
        model_shape_text(s->run.m, &v->shape, wants, sizeof(wants));
        return opm__fail(err, OPM_EINVAL, "%s: input '%s' is %s %s, not %s %s", s->model, v->name,
                         tensor_type_name(v->type), wants, tensor_type_name(as.type), has);
    }
    t = (struct engine_tensor){ as.type, as.shape, a.data, a.bytes, VALUE_TENSOR };
    input_random(s->run.m, v, &t, seed, &origin);
    return 0;
}

static int give_result(const opm_session *s, opm_measured *result, opm_error *err)
{
    opm_measured m = { .warmup = s->res.warmup,
                       .cost_ns = s->res.cost_ns,
                       .cost_error_ns = s->res.cost_error_ns,
                       .seconds = s->res.seconds,
                       .batch = s->res.batch };

    return sized_give(result, &m, sizeof(m), "opm_measured", err);
}

int opm__session_latency(const opm_session *s, enum opm_iterations which, opm_latency *out,
                         size_t size, opm_error *err)
{
    const struct run_latency *from;
    opm_latency l;

    if (!s || !out)
        return opm__fail(err, OPM_EINVAL, "opm_session_latency: %s is NULL", s ? "out" : "s");
    if (which != OPM_ITERATIONS_METERED && which != OPM_ITERATIONS_BARE)
        return opm__fail(err, OPM_EINVAL, "opm_session_latency: no iterations of kind %d",
                         (int)which);
    from = which == OPM_ITERATIONS_BARE ? &s->res.bare : &s->res.metered;
    l = (opm_latency){ from->n,   from->min, from->mean, from->median, from->p90,
                       from->p95, from->p97, from->p99,  from->p999,   from->max };
    sized_pass(out, size, &l, sizeof(l));
    return 0;
}

static struct run_amount amount_of(const opm_amount *a)
{
    return (struct run_amount){ a->count, a->ns };
}

int opm_amount_parse(const char *text, opm_amount *out, opm_error *err)
{
    struct run_amount a;
    int rc;

    if (!text || !out)
        return opm__fail(err, OPM_EINVAL, "opm_amount_parse: %s is NULL", text ? "out" : "text");
    rc = run_amount_parse(text, &a, err);
    if (!rc)
        *out = (opm_amount){ a.count, a.ns };
    return rc;
}

int opm__session_measure(opm_session *s, const opm_array *in, size_t nin,
                         const opm_measure_options *opts, opm_array *out, size_t nout, size_t size,
                         opm_measured *result, opm_error *err)
{
    opm_measure_options o = OPM_MEASURE_OPTIONS_INIT;
    int rc = check_call(s, "opm_session_measure", out, nout, err);

    if (!rc)
        rc = sized_copy(&o, sizeof(o), opts, "opm_measure_options", err);
    if (!rc && (o.warmup.count < 0 || o.warmup.ns < 0 || o.iterations.ns < 0 ||
                (o.iterations.count < 1 && !o.iterations.ns)))
        rc = opm__fail(err, OPM_EINVAL,
                       "opm_measure_options: at least one iteration is needed, and no amount may "
                       "be negative");
    if (rc)
        return rc;
    runner_begin(&s->run);
    rc = session_end(s, feed(s, in, nin, size, err), err);
    if (rc)
        return rc;
    s->opt.warmup = amount_of(&o.warmup);
    s->opt.iterations = amount_of(&o.iterations);
    s->opt.receipt = o.receipt;
    s->opt.progress = o.progress;
    s->opt.user = o.user;
    rc = session_end(s, runner_measure(&s->run, err), err);
    s->opt.progress = NULL;
    if (rc)
        return rc;
    runner_describe_run(&s->run);
    give_outputs(s, out, nout, size);
    return give_result(s, result, err);
}

int opm_session_flush(opm_session *s, opm_error *err)
{
    if (!s)
        return opm__fail(err, OPM_EINVAL, "opm_session_flush: s is NULL");
    return s->run.e->class->flush ? s->run.e->class->flush(s->run.e, err) : 0;
}
