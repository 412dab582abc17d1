/* ort.c -- run models on an installed ONNX Runtime.
 *
 * Up to two sessions of the same model: a bare one, and one with ONNX Runtime's own profiler, which
 * cannot be switched on and off. Each run goes to the one that opm_on() asks for, and each is made
 * when it is first needed: a session's threads go on looking for work for a while after a run, so
 * that two of them slow each other down, and each has the weights for itself. Whoever measures has
 * one at a time (arrange). The profiler's file can be had only once, at the end: engine_flush()
 * reads it back and reports every node as an operator's span on a track of its own. */
#include "engine/ort/ort_guard.h"
#include "engine/ort/ort_int.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/io.h"
#include "graph/infer.h"
#include "graph/zoo.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define ORT_LOG_FATAL 4
#define ORT_OPTIMIZE_ALL 99
#define ENGINE_NAME "onnxruntime"

struct ort_engine {
    struct engine base; /* first */
    struct model *m;
    struct ort_api api;
    struct ort_env *env;
    struct ort_memory_info *cpu;
    struct ort_guard *guard; /* NULL: nobody wants to stop it */
    int threads;
    struct ort_session *bare, *profiled; /* NULL: not needed yet, or no more */
    bool flushed;                        /* metering is over */
    bool prepared;
    uint64_t metered_runs;
    char tmp[480];      /* where the profile's folder goes */
    char scratch[512];  /* that folder, "" if there is none */
    int64_t to_mono_ns; /* what turns a time of the profile into CLOCK_MONOTONIC */
    struct engine_value *in, *out;
    const char **in_name, **out_name;
    size_t nin, nout;
    struct ort_value **in_value, **out_value;
    struct engine_tensor *bound;   /* of each output: where it goes; data NULL: anywhere */
    struct engine_tensor *in_seen; /* what in_value was made of */
    opm_track *track;
    opm_op **op; /* nop of them */
    size_t nop;
    opm_site *site; /* of session events and of nodes with bodies */
    char **site_name;
    size_t nsite;
};

static int64_t clock_ns(clockid_t id)
{
    struct timespec ts;

    clock_gettime(id, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* 0, or the error that ONNX Runtime reports; st is freed. */
static int check(const struct ort_engine *e, struct ort_status *st, const char *what,
                 opm_error *err)
{
    if (!st)
        return 0;
    opm__fail(err, OPM_EUNSUPPORTED, "%s: ONNX Runtime %s cannot %s it: %s", e->m->name,
              e->api.version, what, e->api.GetErrorMessage(st));
    e->api.ReleaseStatus(st);
    return OPM_EUNSUPPORTED;
}

static int usable_cores(void)
{
    cpu_set_t set;

    return sched_getaffinity(0, sizeof(set), &set) == 0 ? CPU_COUNT(&set) : 1;
}

static int make_options(struct ort_engine *e, const char *profile, struct ort_session_options **out,
                        opm_error *err)
{
    struct ort_session_options *so = NULL;
    int rc = check(e, e->api.CreateSessionOptions(&so), "prepare for", err);

    if (!rc)
        rc = check(e, e->api.SetIntraOpNumThreads(so, e->threads), "use threads for", err);
    if (!rc)
        rc = check(e, e->api.SetInterOpNumThreads(so, 1), "use threads for", err);
    if (!rc)
        rc = check(e, e->api.SetSessionGraphOptimizationLevel(so, ORT_OPTIMIZE_ALL), "optimise",
                   err);
    if (!rc)
        rc = check(e, e->api.SetSessionLogSeverityLevel(so, ORT_LOG_FATAL), "prepare for", err);
    if (!rc && profile)
        rc = check(e, e->api.EnableProfiling(so, profile), "profile", err);
    if (rc && so)
        e->api.ReleaseSessionOptions(so);
    else if (!rc)
        *out = so;
    return rc;
}

/* The model's bytes; data NULL: ONNX Runtime may read the file itself. It must where weights lie in
 * other files, and can where the file is not packed. */
struct model_bytes {
    const void *data;
    size_t len;
    struct buf made;
    struct io_map map;
};

static int get_bytes(struct model_bytes *b, const struct model *m, opm_error *err)
{
    int rc;

    *b = (struct model_bytes){ 0 };
    if (strncmp(m->name, "zoo:", 4) == 0) {
        rc = zoo_build(m->name, &b->made, err);
        b->data = b->made.data;
        b->len = b->made.len;
        return rc;
    }
    rc = io_map(&b->map, m->name, 0, err);
    if (!rc && b->map.packed) {
        b->data = b->map.data;
        b->len = b->map.len;
    }
    return rc;
}

static void drop_bytes(struct model_bytes *b)
{
    buf_release(&b->made);
    io_map_release(&b->map);
}

static int make_session(struct ort_engine *e, const char *profile, struct ort_session **out,
                        opm_error *err)
{
    struct ort_session_options *so = NULL;
    struct model_bytes b;
    int rc = get_bytes(&b, e->m, err);

    if (!rc)
        rc = make_options(e, profile, &so, err);
    if (!rc) {
        if (b.data)
            rc = check(e, e->api.CreateSessionFromArray(e->env, b.data, b.len, so, out), "load",
                       err);
        else
            rc = check(e, e->api.CreateSession(e->env, e->m->name, so, out), "load", err);
        e->api.ReleaseSessionOptions(so);
    }
    drop_bytes(&b);
    return rc;
}

/* The profiler counts from a moment of a clock that it does not name: the C++ library's
 * high_resolution_clock, which is the real-time clock with GNU's and the steady one with LLVM's. */
static void tie_clocks(struct ort_engine *e, const int64_t before[2])
{
    int64_t real = clock_ns(CLOCK_REALTIME), mono = clock_ns(CLOCK_MONOTONIC);
    uint64_t start = 0;
    struct ort_status *st = e->api.SessionGetProfilingStartTimeNs(e->profiled, &start);
    int64_t at = (int64_t)start;

    if (st)
        e->api.ReleaseStatus(st);
    if (!st && at >= before[0] && at <= real)
        e->to_mono_ns = at - real + mono;
    else if (!st && at >= before[1] && at <= mono)
        e->to_mono_ns = at;
    else
        e->to_mono_ns = before[1]; /* it began about then */
}

/* Shapes of everything, for FLOPs and bytes. ONNX Runtime does not need them, so a model that we
 * cannot follow to its end is no error here. */
static void infer_shapes(struct ort_engine *e)
{
    const struct engine_tensor *in = e->in_seen;
    size_t nin = e->nin;
    struct infer_input *given = mem_calloc(nin + 1, sizeof(*given));
    struct tensor *data = mem_calloc(nin + 1, sizeof(*data));
    struct infer_options opt = { .input = given, .ninput = nin, .hints = true };

    for (size_t i = 0; given && data && i < nin; i++) {
        given[i] = (struct infer_input){ .name = e->in[i].name, .shape = in[i].shape };
        if (in[i].bytes <= 1024 && tensor_type_int(in[i].type)) { /* may be a shape */
            data[i] = (struct tensor){ .name = e->in[i].name,
                                       .type = in[i].type,
                                       .shape = in[i].shape,
                                       .count = shape_count(&in[i].shape),
                                       .data = in[i].data,
                                       .bytes = in[i].bytes };
            given[i].data = &data[i];
        }
    }
    if (given && data)
        graph_infer(e->m, &opt, NULL);
    mem_free(given);
    mem_free(data);
}

static int open_profiled(struct ort_engine *e, opm_error *err)
{
    int64_t before[2] = { clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC) };
    char prefix[sizeof(e->scratch) + 16];
    int rc;

    snprintf(e->scratch, sizeof(e->scratch), "%s/opmeter-ort-XXXXXX", e->tmp);
    if (!mkdtemp(e->scratch)) {
        rc = opm__fail(err, OPM_EIO, "%s: no folder for ONNX Runtime's profile can be made there",
                       e->scratch);
        e->scratch[0] = '\0';
        return rc;
    }
    snprintf(prefix, sizeof(prefix), "%s/profile", e->scratch);
    rc = make_session(e, prefix, &e->profiled, err);
    if (!rc)
        tie_clocks(e, before);
    if (!rc && e->prepared)
        infer_shapes(e);
    return rc;
}

static bool is_metered(const struct ort_engine *e)
{
    return !e->flushed && opm_on(OPM_FRAMEWORK);
}

/* The session for runs of one kind. */
static int need_session(struct ort_engine *e, bool metered, opm_error *err)
{
    if (metered)
        return e->profiled ? 0 : open_profiled(e, err);
    return e->bare ? 0 : make_session(e, NULL, &e->bare, err);
}

static int list_values(struct ort_engine *e, const uint32_t *index, uint32_t n, bool input,
                       opm_error *err)
{
    struct engine_value *v = mem_calloc(n + 1, sizeof(*v));
    const char **name = mem_calloc(n + 1, sizeof(*name));
    const struct graph *g = e->m->graph;

    if (input) {
        e->in = v;
        e->in_name = name;
        e->nin = n;
    } else {
        e->out = v;
        e->out_name = name;
        e->nout = n;
    }
    if (!v || !name)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", e->m->name);
    for (uint32_t i = 0; i < n; i++) {
        const struct value *val = &g->value[index[i]];

        if (input && (val->kind != VALUE_TENSOR || val->declared_type == TENSOR_STRING))
            return opm__fail(err, OPM_EUNSUPPORTED,
                             "%s: input '%s' is no tensor of numbers, and others cannot be fed yet",
                             e->m->name, val->name);
        v[i].name = name[i] = val->name;
        v[i].type = val->declared_type;
        if (val->declared)
            v[i].shape = *val->declared;
        else
            v[i].shape.rank = -1;
    }
    return 0;
}

static void ort_close(struct engine *base);

static int ort_open(struct engine **out, struct model *m, const struct engine_options *opts,
                    opm_error *err)
{
    struct ort_engine *e = mem_calloc(1, sizeof(*e));
    const char *tmp = opts->scratch ? opts->scratch : environment_get("TMPDIR");
    int rc;

    if (!e)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    e->base.class = &engine_ort;
    e->m = m;
    e->threads = opts->threads ? opts->threads : usable_cores();
    snprintf(e->tmp, sizeof(e->tmp), "%s", tmp && *tmp ? tmp : "/tmp");
    rc = ort_lib_open(&e->api, opts->ort_lib, err);
    if (!rc)
        rc = list_values(e, m->graph->input, m->graph->ninput, true, err);
    if (!rc)
        rc = list_values(e, m->graph->output, m->graph->noutput, false, err);
    if (!rc)
        rc = check(e, e->api.CreateEnv(ORT_LOG_FATAL, "opmeter", &e->env), "prepare for", err);
    if (!rc)
        rc = check(e, e->api.CreateCpuMemoryInfo(0, 0, &e->cpu), "prepare for", err);
    if (!rc)
        rc = need_session(e, false, err);
    if (!rc && opts->stop)
        rc = ort_guard_open(&e->guard, &e->api, opts, err);
    if (!rc) {
        e->in_value = mem_calloc(e->nin + 1, sizeof(*e->in_value));
        e->out_value = mem_calloc(e->nout + 1, sizeof(*e->out_value));
        e->in_seen = mem_calloc(e->nin + 1, sizeof(*e->in_seen));
        e->bound = mem_calloc(e->nout + 1, sizeof(*e->bound));
        if (!e->in_value || !e->out_value || !e->in_seen || !e->bound)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", m->name);
    }
    if (rc)
        ort_close(&e->base);
    else
        *out = &e->base;
    return rc;
}

static const struct engine_value *ort_inputs(const struct engine *base, size_t *n)
{
    const struct ort_engine *e = (const struct ort_engine *)base;

    *n = e->nin;
    return e->in;
}

static const struct engine_value *ort_outputs(const struct engine *base, size_t *n)
{
    const struct ort_engine *e = (const struct ort_engine *)base;

    *n = e->nout;
    return e->out;
}

static int value_in(struct ort_engine *e, const struct engine_tensor *t, struct ort_value **out,
                    opm_error *err)
{
    return check(e,
                 e->api.CreateTensorWithDataAsOrtValue(e->cpu, t->data, t->bytes, t->shape.dim,
                                                       (size_t)t->shape.rank, (int)t->type, out),
                 "feed", err);
}

static int set_input(struct ort_engine *e, size_t i, const struct engine_tensor *t, opm_error *err)
{
    struct engine_tensor *seen = &e->in_seen[i];

    if (e->in_value[i] && seen->data == t->data && seen->type == t->type &&
        seen->bytes == t->bytes && shape_equal(&seen->shape, &t->shape))
        return 0;
    if (e->in_value[i])
        e->api.ReleaseValue(e->in_value[i]);
    e->in_value[i] = NULL;
    *seen = *t;
    return value_in(e, t, &e->in_value[i], err);
}

static int ort_prepare(struct engine *base, const struct engine_tensor *in, size_t nin,
                       opm_error *err)
{
    struct ort_engine *e = (struct ort_engine *)base;
    int rc = 0;

    if (nin != e->nin)
        return opm__fail(err, OPM_EINVAL, "%s: %zu inputs given, it has %zu", e->m->name, nin,
                         e->nin);
    for (size_t i = 0; !rc && i < nin; i++)
        rc = set_input(e, i, &in[i], err);
    e->prepared = !rc;
    if (!rc && e->profiled)
        infer_shapes(e);
    return rc;
}

/* What an output is; a sequence or map stays without data. */
static int get_output(struct ort_engine *e, size_t i, struct engine_tensor *out, opm_error *err)
{
    struct ort_shape_info *info = NULL;
    int is_tensor = 0, type = 0, rc;
    size_t rank = 0;

    *out = (struct engine_tensor){ .shape.rank = -1 };
    rc = check(e, e->api.IsTensor(e->out_value[i], &is_tensor), "read the outputs of", err);
    if (rc || !is_tensor)
        return rc;
    rc = check(e, e->api.GetTensorTypeAndShape(e->out_value[i], &info), "read the outputs of", err);
    if (rc)
        return rc;
    rc = check(e, e->api.GetTensorElementType(info, &type), "read the outputs of", err);
    if (!rc)
        rc = check(e, e->api.GetDimensionsCount(info, &rank), "read the outputs of", err);
    if (!rc && rank > SHAPE_RANK_MAX)
        rc = opm__fail(err, OPM_ELIMIT, "%s: output '%s' has %zu dimensions", e->m->name,
                       e->out[i].name, rank);
    if (!rc)
        rc = check(e, e->api.GetDimensions(info, out->shape.dim, rank), "read the outputs of", err);
    e->api.ReleaseTensorTypeAndShapeInfo(info);
    if (rc)
        return rc;
    out->shape.rank = (int32_t)rank;
    out->type = type > 0 && type < (int)TENSOR_F8E8M0 ? (enum tensor_type)type : TENSOR_NONE;
    if (tensor_type_bits(out->type) == 0)
        return 0;
    out->bytes = (size_t)MAX(shape_bytes(&out->shape, out->type), 0);
    return check(e, e->api.GetTensorMutableData(e->out_value[i], &out->data), "read the outputs of",
                 err);
}

static int ort_bind(struct engine *base, size_t i, const struct engine_tensor *to, opm_error *err)
{
    struct ort_engine *e = (struct ort_engine *)base;

    (void)err;
    e->bound[i] = *to;
    return 0;
}

static int ort_run(struct engine *base, const struct engine_tensor *in, size_t nin,
                   struct engine_tensor *out, size_t nout, opm_error *err)
{
    struct ort_engine *e = (struct ort_engine *)base;
    bool metered = is_metered(e);
    int rc = 0;

    assert(nin == e->nin && nout == e->nout);
    for (size_t i = 0; !rc && i < nin; i++)
        rc = set_input(e, i, &in[i], err);
    if (!rc)
        rc = need_session(e, metered, err);
    for (size_t i = 0; i < e->nout; i++) { /* or it would write into the old ones */
        if (e->out_value[i])
            e->api.ReleaseValue(e->out_value[i]);
        e->out_value[i] = NULL;
        if (!rc && e->bound[i].data)
            rc = value_in(e, &e->bound[i], &e->out_value[i], err);
    }
    if (!rc) {
        const struct ort_run_options *ro = ort_guard_begin(e->guard);
        struct ort_status *st = e->api.Run(metered ? e->profiled : e->bare, ro, e->in_name,
                                           (const struct ort_value *const *)e->in_value, nin,
                                           e->out_name, nout, e->out_value);
        bool told_to_stop = ort_guard_end(e->guard);

        rc = check(e, st, "run", err);
        if (rc && told_to_stop)
            rc = opm__fail(err, OPM_ELIMIT, "%s: stopped", e->m->name);
    }
    e->metered_runs += metered && !rc;
    for (size_t i = 0; !rc && i < nout; i++)
        rc = get_output(e, i, &out[i], err);
    return rc;
}

/* Sites must not move while the recording goes on: one for each session event and one for each node
 * with a body. */
static int make_sites(struct ort_engine *e, const struct ort_profile *p)
{
    size_t n = p->nsession + p->nnode;

    e->site = mem_calloc(n + 1, sizeof(*e->site));
    e->site_name = mem_calloc(n + 1, sizeof(*e->site_name));
    if (!e->site || !e->site_name)
        return OPM_ENOMEM;
    for (e->nsite = 0; e->nsite < n; e->nsite++) {
        bool session = e->nsite < p->nsession;
        size_t node = e->nsite - p->nsession;
        opm_site site = OPM_SITE_INIT(OPM_FRAMEWORK, session ? "session" : "control flow", NULL);

        if (!session && !p->node[node].has_body)
            continue;
        e->site_name[e->nsite] = mem_strdup(session ? p->session[e->nsite] : p->node[node].name);
        if (!e->site_name[e->nsite])
            return OPM_ENOMEM;
        site.name = e->site_name[e->nsite];
        e->site[e->nsite] = site;
    }
    return 0;
}

/* Every event becomes a span. A node with a body is not an operator's span, or its time would be
 * counted once more than that of the nodes inside. */
static void emit_spans(struct ort_engine *e, const struct ort_profile *p)
{
    for (size_t i = 0; i < p->nevent; i++) {
        const struct ort_event *ev = &p->event[i];
        /* Microseconds were cut off: the middle of the one it says is the best guess. */
        int64_t start = e->to_mono_ns + ev->ts_us * 1000 + 500, end = start + ev->dur_us * 1000;

        if (ev->session)
            opm_device_span(e->track, &e->site[ev->node], start, end, 0);
        else if (p->node[ev->node].has_body)
            opm_device_span(e->track, &e->site[p->nsession + ev->node], start, end, 0);
        else
            opm_op_span(e->op[ev->node], OPM_FORWARD_PASS, e->track, start, end);
    }
}

static int report_profile(struct ort_engine *e, const struct ort_profile *p, opm_error *err)
{
    struct ort_match *mt = NULL;
    char text[64];
    int rc = ort_match_new(&mt, e->m, p, err);

    if (rc)
        return rc;
    e->op = mem_calloc(p->nnode + 1, sizeof(*e->op));
    e->track = opm_track_define("stream", ENGINE_NAME, NULL, OPM_CLOCK_MONOTONIC);
    if (!e->op || !e->track || make_sites(e, p)) {
        rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", e->m->name);
    } else {
        for (e->nop = 0; e->nop < p->nnode; e->nop++)
            if (!p->node[e->nop].has_body)
                e->op[e->nop] = ort_match_define(mt, e->nop, ENGINE_NAME);
        emit_spans(e, p);
        opm_meta("engine.bias",
                 "ONNX Runtime measures its nodes itself: whole microseconds, and each time "
                 "includes building the strings of its profile, 5 to 10 us per node");
        opm_meta("engine.library", e->api.path);
        if (e->metered_runs > p->runs || p->cut) {
            snprintf(text, sizeof(text), "%llu",
                     (unsigned long long)(e->metered_runs - MIN(p->runs, e->metered_runs)));
            opm_meta("engine.lost_runs", text); /* its profiler stops at a million events */
        }
    }
    ort_match_free(mt);
    return rc;
}

static void drop_scratch(struct ort_engine *e, const char *file)
{
    if (file)
        unlink(file);
    if (e->scratch[0])
        rmdir(e->scratch);
    e->scratch[0] = '\0';
}

/* Ends the profiled session's use: later runs are bare. */
static int ort_flush(struct engine *base, opm_error *err)
{
    struct ort_engine *e = (struct ort_engine *)base;
    struct ort_allocator *alloc = NULL;
    struct ort_profile p = { 0 };
    struct io_map map = { 0 };
    char *file = NULL;
    int rc;

    if (!e->profiled)
        return 0;
    rc = check(e, e->api.GetAllocatorWithDefaultOptions(&alloc), "profile", err);
    if (!rc)
        rc = check(e, e->api.SessionEndProfiling(e->profiled, alloc, &file), "profile", err);
    if (!rc)
        rc = io_map(&map, file, 0, err);
    if (!rc)
        rc = ort_profile_read(&p, map.data, map.len, err);
    if (!rc)
        rc = report_profile(e, &p, err);
    ort_profile_release(&p);
    io_map_release(&map);
    e->api.ReleaseSession(e->profiled);
    e->profiled = NULL;
    e->flushed = true;
    drop_scratch(e, file);
    if (file)
        check(e, e->api.AllocatorFree(alloc, file), "profile", NULL);
    return rc;
}

static const char *ort_version(const struct engine *base)
{
    return ((const struct ort_engine *)base)->api.version;
}

static void free_values(struct ort_engine *e, struct ort_value **v, size_t n)
{
    for (size_t i = 0; v && i < n; i++)
        if (v[i])
            e->api.ReleaseValue(v[i]);
    mem_free(v);
}

/* A profile that was never flushed is written when its session goes, whatever its name. */
static void discard_profile(struct ort_engine *e)
{
    struct ort_allocator *alloc = NULL;
    char *file = NULL;

    if (check(e, e->api.GetAllocatorWithDefaultOptions(&alloc), "", NULL) == 0)
        check(e, e->api.SessionEndProfiling(e->profiled, alloc, &file), "", NULL);
    drop_scratch(e, file);
    if (file)
        check(e, e->api.AllocatorFree(alloc, file), "", NULL);
    e->api.ReleaseSession(e->profiled);
}

/* A profile that has nothing to say yet goes with its session. */
static int ort_arrange(struct engine *base, unsigned kinds, opm_error *err)
{
    struct ort_engine *e = (struct ort_engine *)base;
    int rc = 0;

    if ((kinds & ENGINE_METERED) && !is_metered(e)) /* nobody records: they are bare */
        kinds = ENGINE_BARE;
    if (!(kinds & ENGINE_METERED) && e->profiled && !e->metered_runs) {
        discard_profile(e);
        e->profiled = NULL;
    }
    if (!(kinds & ENGINE_BARE) && e->bare) {
        e->api.ReleaseSession(e->bare);
        e->bare = NULL;
    }
    if (kinds & ENGINE_BARE)
        rc = need_session(e, false, err);
    if (!rc && (kinds & ENGINE_METERED))
        rc = need_session(e, true, err);
    return rc;
}

static void ort_close(struct engine *base)
{
    struct ort_engine *e = (struct ort_engine *)base;

    if (!e)
        return;
    ort_guard_close(e->guard);
    free_values(e, e->in_value, e->nin);
    free_values(e, e->out_value, e->nout);
    if (e->profiled)
        discard_profile(e);
    drop_scratch(e, NULL);
    if (e->bare)
        e->api.ReleaseSession(e->bare);
    if (e->cpu)
        e->api.ReleaseMemoryInfo(e->cpu);
    if (e->env)
        e->api.ReleaseEnv(e->env);
    for (size_t i = 0; i < e->nop; i++)
        opm_op_free(e->op[i]);
    opm_track_free(e->track);
    for (size_t i = 0; e->site_name && i < e->nsite; i++)
        mem_free(e->site_name[i]);
    mem_free(e->op);
    mem_free(e->site);
    mem_free(e->site_name);
    mem_free(e->in);
    mem_free(e->out);
    mem_free(e->in_name);
    mem_free(e->out_name);
    mem_free(e->in_seen);
    mem_free(e->bound);
    mem_free(e);
}

const struct engine_class engine_ort = {
    .name = ENGINE_NAME,
    .doc = "an installed ONNX Runtime, with its own profiler",
    .open = ort_open,
    .inputs = ort_inputs,
    .outputs = ort_outputs,
    .prepare = ort_prepare,
    .run = ort_run,
    .bind = ort_bind,
    .arrange = ort_arrange,
    .flush = ort_flush,
    .version = ort_version,
    .close = ort_close,
};
