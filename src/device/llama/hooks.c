/* hooks.c -- libopmeter-llama: functions of llama.cpp and ggml in front of the library's own.
 *
 * The library is preloaded (LD_PRELOAD), so that a program, and llama.cpp itself, bind to what is
 * exported here. Each function calls the one that the caller would have had. Nothing is recorded,
 * and nothing but that call happens, until the library was found to be one that we know; and
 * nothing is started in a process that never calls it.
 *
 * A graph is an operator, as a whole. With OPMETER_GGML_OPS its nodes are: the scheduler asks
 * before each whether to stop behind it (its eval callback), and then runs it by itself. What that
 * costs is measured: now and then a graph still runs as a whole. */
#include "base/environment.h"
#include "base/error.h"
#include "device/llama/ops.h"
#include "device/llama/requests.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define CALLERS 16      /* of a function, that are remembered */
#define SCHEDULERS 64   /* with callbacks at the same time */
#define WHOLE_EACH 4    /* of a kind's first graphs one in so many runs whole, ... */
#define WHOLE_MANY 64   /* ... until so many did; then */
#define WHOLE_LATER 128 /* one in so many */

#define HOOKS(HOOK)                              \
    HOOK(llama_decode)                           \
    HOOK(llama_encode)                           \
    HOOK(llama_synchronize)                      \
    HOOK(llama_free)                             \
    HOOK(llama_set_warmup)                       \
    HOOK(llama_get_logits)                       \
    HOOK(llama_get_logits_ith)                   \
    HOOK(llama_get_sampled_token_ith)            \
    HOOK(llama_sampler_sample)                   \
    HOOK(llama_sampler_apply)                    \
    HOOK(llama_sampler_accept)                   \
    HOOK(llama_memory_clear)                     \
    HOOK(llama_memory_seq_rm)                    \
    HOOK(llama_memory_seq_add)                   \
    HOOK(llama_memory_seq_keep)                  \
    HOOK(ggml_backend_sched_set_eval_callback)   \
    HOOK(ggml_backend_sched_graph_compute)       \
    HOOK(ggml_backend_sched_graph_compute_async) \
    HOOK(ggml_backend_graph_compute)             \
    HOOK(ggml_backend_graph_compute_async)

enum hook {
#define HOOK(name) HOOK_##name,
    HOOKS(HOOK)
#undef HOOK
        HOOK_COUNT
};

static const char *const hook_names[HOOK_COUNT] = {
#define HOOK(name) #name,
    HOOKS(HOOK)
#undef HOOK
};

/* What a place in the program calls, and whether that is recorded. */
struct target {
    void *caller;
    void (*function)(void);
    bool record;
};

struct callers {
    atomic_uint n;
    struct target known[CALLERS];
};

/* A library that was looked at: the first of its kind in the process. */
struct met {
    void *function;
    bool known;
};

static struct {
    pthread_mutex_t lock;
    atomic_bool on;
    bool tried, off, by_node;
    struct met ggml_met, llama_met;
    struct ggml_library ggml;
    struct llama_library llama;
    struct callers callers[HOOK_COUNT];
} hooks = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* Of this thread: how deep in graphs and in sampling it is, and what it decodes. */
static __thread int in_graph, in_sampling, in_decode;
static __thread int64_t decoding_context = -1;

static void say(const char *of, const char *what)
{
    dprintf(STDERR_FILENO, "opmeter: %s not recorded: %s; the program runs on\n", of, what);
}

/* ---- start and stop ---- */

static void stop(void)
{
    if (!atomic_exchange(&hooks.on, false))
        return;
    requests_end();
    opm_stop(NULL);
}

/* False: there is no recording in this process. */
static bool start(void)
{
    const char *wanted = environment_get("OPMETER_LLAMA");
    opm_error err = { 0 };

    if (hooks.tried)
        return !hooks.off;
    hooks.tried = hooks.off = true;
    if (environment_privileged() || (wanted && strcmp(wanted, "0") == 0))
        return false;
    if (opm_start(NULL, &err) < 0) {
        say("llama.cpp is", err.msg);
        return false;
    }
    wanted = environment_get("OPMETER_GGML_OPS");
    hooks.by_node = wanted && *wanted && strcmp(wanted, "0") != 0;
    hooks.off = false;
    atomic_store(&hooks.on, true);
    atexit(stop);
    return true;
}

static void tell_version(const char *key, const char *path, const char *version)
{
    char name[64];

    snprintf(name, sizeof(name), "%s.library", key);
    opm_meta(name, path);
    if (!version)
        return;
    snprintf(name, sizeof(name), "%s.version", key);
    opm_meta(name, version);
}

/* ---- which library ---- */

/* Is it one that we know? The first that is called is the one that is recorded. */
static bool is_known(struct met *met, void *function, bool llama)
{
    opm_error err = { 0 };
    int rc;

    if (met->function)
        return met->known && library_same(met->function, function);
    met->function = function;
    rc = llama ? llama_library_open(&hooks.llama, function, &err)
               : ggml_library_open(&hooks.ggml, function, &err);
    if (rc) {
        say(llama ? "requests of llama.cpp are" : "graphs of ggml are", err.msg);
        return false;
    }
    met->known = start();
    if (met->known && llama)
        tell_version("llama", hooks.llama.path, hooks.llama.version ? hooks.llama.version() : NULL);
    else if (met->known)
        tell_version("ggml", hooks.ggml.path, hooks.ggml.version ? hooks.ggml.version() : NULL);
    return met->known;
}

static struct target find_target(enum hook hook, void *caller)
{
    void *function = library_target(hook_names[hook], caller);
    struct target t = { .caller = caller };
    bool llama = hook < HOOK_ggml_backend_sched_set_eval_callback;
    struct callers *c = &hooks.callers[hook];
    unsigned n;

    if (!function) {
        dprintf(STDERR_FILENO, "opmeter: %s is called, and nothing has it\n", hook_names[hook]);
        abort(); /* as the program without us: a symbol lookup error */
    }
    pthread_mutex_lock(&hooks.lock);
    *(void **)(void *)&t.function = function;
    t.record = is_known(llama ? &hooks.llama_met : &hooks.ggml_met, function, llama);
    n = atomic_load(&c->n);
    if (n < CALLERS) {
        c->known[n] = t;
        atomic_store(&c->n, n + 1);
    }
    pthread_mutex_unlock(&hooks.lock);
    return t;
}

static struct target target_of(enum hook hook, void *caller)
{
    struct callers *c = &hooks.callers[hook];
    unsigned n = atomic_load(&c->n);

    for (unsigned i = 0; i < n; i++)
        if (c->known[i].caller == caller) {
            struct target t = c->known[i];

            t.record &= atomic_load_explicit(&hooks.on, memory_order_relaxed);
            return t;
        }
    return find_target(hook, caller);
}

#define TARGET(name) target_of(HOOK_##name, __builtin_return_address(0))

/* ---- graphs ---- */

struct scheduler {
    void *sched;
    ggml_eval_callback *callback; /* the program's, or NULL */
    void *user;
    bool serial; /* the next graph */
    opm_span node;
};

/* Those by node and whole ones take turns, over all schedulers: one may come to lie where another
 * was. */
static struct {
    pthread_mutex_t lock;
    struct scheduler of[SCHEDULERS];
    size_t n;
    uint64_t graphs[2], whole[2]; /* of one token, and of several */
} schedulers = { .lock = PTHREAD_MUTEX_INITIALIZER };

static struct scheduler *scheduler_of(void *sched)
{
    struct scheduler *s = NULL;

    pthread_mutex_lock(&schedulers.lock);
    for (size_t i = 0; i < schedulers.n && !s; i++)
        if (schedulers.of[i].sched == sched)
            s = &schedulers.of[i];
    if (!s && schedulers.n < SCHEDULERS) {
        s = &schedulers.of[schedulers.n++];
        *s = (struct scheduler){ .sched = sched };
    }
    pthread_mutex_unlock(&schedulers.lock);
    return s;
}

/* By ggml, on the thread that computes the graph: before a node, and behind it. */
static bool node_evaluated(void *tensor, bool ask, void *user)
{
    struct scheduler *s = user;
    const struct ggml_library *l = &hooks.ggml;
    bool wanted;

    if (!ask) {
        opm_op_end(s->node);
        s->node = opm_span_none();
        return !s->callback || s->callback(tensor, false, s->user);
    }
    wanted = s->callback && s->callback(tensor, true, s->user);
    if (ggml_node_is_empty(l, tensor))
        return wanted;
    if (opm_on(OPM_FRAMEWORK)) {
        void *backend = l->ggml_backend_sched_get_tensor_backend(s->sched, tensor);

        s->node =
            opm_op_begin(ggml_node_op(l, tensor, backend ? l->ggml_backend_name(backend) : NULL));
    }
    return true;
}

/* Does the next graph of so many tokens run node by node? Not if the program has it so anyway. */
static bool by_node(const struct scheduler *s, int64_t tokens)
{
    int kind = tokens != 1;
    uint64_t n, each;
    bool whole;

    pthread_mutex_lock(&schedulers.lock);
    n = schedulers.graphs[kind]++;
    each = schedulers.whole[kind] < WHOLE_MANY ? WHOLE_EACH : WHOLE_LATER;
    whole = n % each == WHOLE_EACH - 1;
    schedulers.whole[kind] += whole;
    pthread_mutex_unlock(&schedulers.lock);
    return !whole || s->callback;
}

struct graph_span {
    opm_span span, op;
};

/* What runs whole is an operator as a whole; where others run by node, all are spans besides, for
 * comparing them. */
static struct graph_span graph_begin(void *graph, bool serial)
{
    static opm_site site = OPM_SITE_INIT(OPM_FRAMEWORK, "ggml", "graph");
    const struct ggml_library *l = &hooks.ggml;
    struct ggml_graph_facts f = { .nodes = l->ggml_graph_n_nodes(graph),
                                  .tokens = ggml_graph_tokens(l, graph),
                                  .context = decoding_context };
    struct graph_span g = { .span = opm_span_none(), .op = opm_span_none() };
    opm_op *op = !serial && opm_on(OPM_FRAMEWORK) ? ggml_graph_op(l, graph, &f) : NULL;

    if (hooks.by_node) {
        g.span = opm_begin(&site);
        opm_arg_int(g.span, "nodes", f.nodes);
        if (f.tokens >= 0)
            opm_arg_int(g.span, "tokens", f.tokens);
        opm_arg_int(g.span, "by_node", serial);
    }
    if (!serial)
        g.op = opm_op_begin(op);
    return g;
}

static void graph_end(struct graph_span g)
{
    opm_op_end(g.op);
    opm_end(g.span);
}

typedef int compute(void *where, void *graph);

/* The outermost of nested calls is the graph. */
static int run_graph(struct target t, void *where, void *graph, bool scheduled)
{
    compute *real = (compute *)t.function;
    struct scheduler *s = NULL;
    struct graph_span g;
    int rc;

    if (!t.record || in_graph)
        return real(where, graph);
    in_graph++;
    if (scheduled && hooks.by_node)
        s = scheduler_of(where);
    if (s) {
        s->serial = by_node(s, ggml_graph_tokens(&hooks.ggml, graph));
        if (s->serial)
            hooks.ggml.ggml_backend_sched_set_eval_callback(where, node_evaluated, s);
    }
    g = graph_begin(graph, s && s->serial);
    rc = real(where, graph);
    graph_end(g);
    /* As the program left it: it may compute its next graph without saying so again. */
    if (s && s->serial)
        hooks.ggml.ggml_backend_sched_set_eval_callback(where, s->callback, s->user);
    in_graph--;
    return rc;
}

/* ---- what is exported ---- */

#define EXPORT OPM_API

EXPORT int ggml_backend_sched_graph_compute(void *sched, void *graph);
EXPORT int ggml_backend_sched_graph_compute_async(void *sched, void *graph);
EXPORT int ggml_backend_graph_compute(void *backend, void *graph);
EXPORT int ggml_backend_graph_compute_async(void *backend, void *graph);
EXPORT void ggml_backend_sched_set_eval_callback(void *sched, ggml_eval_callback *callback,
                                                 void *user);
EXPORT int llama_decode(void *context, struct llama_batch_room room);
EXPORT int llama_encode(void *context, struct llama_batch_room room);
EXPORT void llama_synchronize(void *context);
EXPORT void llama_free(void *context);
EXPORT void llama_set_warmup(void *context, bool on);
EXPORT float *llama_get_logits(void *context);
EXPORT float *llama_get_logits_ith(void *context, int i);
EXPORT int llama_get_sampled_token_ith(void *context, int i);
EXPORT int llama_sampler_sample(void *sampler, void *context, int i);
EXPORT void llama_sampler_apply(void *sampler, void *candidates);
EXPORT void llama_sampler_accept(void *sampler, int token);
EXPORT void llama_memory_clear(void *memory, bool data);
EXPORT bool llama_memory_seq_rm(void *memory, int seq, int from, int to);
EXPORT void llama_memory_seq_add(void *memory, int seq, int from, int to, int by);
EXPORT void llama_memory_seq_keep(void *memory, int seq);

int ggml_backend_sched_graph_compute(void *sched, void *graph)
{
    return run_graph(TARGET(ggml_backend_sched_graph_compute), sched, graph, true);
}

int ggml_backend_sched_graph_compute_async(void *sched, void *graph)
{
    return run_graph(TARGET(ggml_backend_sched_graph_compute_async), sched, graph, true);
}

int ggml_backend_graph_compute(void *backend, void *graph)
{
    return run_graph(TARGET(ggml_backend_graph_compute), backend, graph, false);
}

int ggml_backend_graph_compute_async(void *backend, void *graph)
{
    return run_graph(TARGET(ggml_backend_graph_compute_async), backend, graph, false);
}

void ggml_backend_sched_set_eval_callback(void *sched, ggml_eval_callback *callback, void *user)
{
    struct target t = TARGET(ggml_backend_sched_set_eval_callback);
    struct scheduler *s = t.record && hooks.by_node && !in_graph ? scheduler_of(sched) : NULL;

    if (s) {
        s->callback = callback;
        s->user = user;
    }
    ((void (*)(void *, ggml_eval_callback *, void *))t.function)(sched, callback, user);
}

typedef int decode(void *context, struct llama_batch_room room);

static atomic_uint contexts_freed; /* what was known of an address may be another's now */

static void meet_context(const void *context)
{
    static __thread const void *last;
    static __thread unsigned freed;
    const struct llama_library *l = &hooks.llama;
    const void *model;
    char text[96] = "";

    if (context == last && freed == atomic_load(&contexts_freed))
        return;
    last = context;
    freed = atomic_load(&contexts_freed);
    model = l->llama_get_model(context);
    if (model)
        l->llama_model_desc(model, text, sizeof(text));
    requests_context(context, l->llama_get_memory(context), text);
}

static int decode_or_encode(struct target t, void *context, struct llama_batch_room room)
{
    struct requests_batch b;
    struct llama_batch batch;
    int rc;

    if (!t.record || in_decode)
        return ((decode *)t.function)(context, room);
    in_decode++;
    memcpy(&batch, room.bytes, sizeof(batch));
    meet_context(context);
    b = requests_decode(context, &batch);
    decoding_context = b.context;
    rc = ((decode *)t.function)(context, room);
    in_decode--;
    decoding_context = -1;
    requests_decoded(context, b, rc == 0);
    return rc;
}

int llama_decode(void *context, struct llama_batch_room room)
{
    return decode_or_encode(TARGET(llama_decode), context, room);
}

int llama_encode(void *context, struct llama_batch_room room)
{
    return decode_or_encode(TARGET(llama_encode), context, room);
}

void llama_synchronize(void *context)
{
    static opm_site site = OPM_SITE_INIT(OPM_FRAMEWORK, "llama", "synchronize");
    struct target t = TARGET(llama_synchronize);
    opm_span span = t.record ? opm_begin(&site) : opm_span_none();

    ((void (*)(void *))t.function)(context);
    opm_end(span);
    if (t.record)
        requests_waited(context);
}

void llama_free(void *context)
{
    struct target t = TARGET(llama_free);

    if (t.record)
        requests_free(context);
    atomic_fetch_add(&contexts_freed, 1);
    ((void (*)(void *))t.function)(context);
}

void llama_set_warmup(void *context, bool on)
{
    struct target t = TARGET(llama_set_warmup);

    if (t.record) {
        meet_context(context);
        requests_warmup(context, on);
    }
    ((void (*)(void *, bool))t.function)(context, on);
}

float *llama_get_logits(void *context)
{
    struct target t = TARGET(llama_get_logits);
    float *out = ((float *(*)(void *))t.function)(context);

    if (t.record)
        requests_outputs(context);
    return out;
}

float *llama_get_logits_ith(void *context, int i)
{
    struct target t = TARGET(llama_get_logits_ith);
    float *out = ((float *(*)(void *, int))t.function)(context, i);

    if (t.record && out)
        requests_output(context, i);
    return out;
}

int llama_get_sampled_token_ith(void *context, int i)
{
    struct target t = TARGET(llama_get_sampled_token_ith);
    int token = ((int (*)(void *, int))t.function)(context, i);

    if (t.record && token >= 0) /* else it samples no tokens itself */
        requests_output(context, i);
    return token;
}

static opm_site sampling = OPM_SITE_INIT(OPM_FRAMEWORK, "llama", "sample");

int llama_sampler_sample(void *sampler, void *context, int i)
{
    struct target t = TARGET(llama_sampler_sample);
    opm_span span = t.record && !in_sampling ? opm_begin(&sampling) : opm_span_none();
    int token;

    in_sampling++;
    token = ((int (*)(void *, void *, int))t.function)(sampler, context, i);
    in_sampling--;
    opm_end(span);
    if (t.record) {
        requests_output(context, i);
        requests_sampled();
    }
    return token;
}

void llama_sampler_apply(void *sampler, void *candidates)
{
    struct target t = TARGET(llama_sampler_apply);
    opm_span span = t.record && !in_sampling ? opm_begin(&sampling) : opm_span_none();

    in_sampling++;
    ((void (*)(void *, void *))t.function)(sampler, candidates);
    in_sampling--;
    opm_end(span);
}

void llama_sampler_accept(void *sampler, int token)
{
    struct target t = TARGET(llama_sampler_accept);

    ((void (*)(void *, int))t.function)(sampler, token);
    if (t.record && !in_sampling)
        requests_sampled();
}

void llama_memory_clear(void *memory, bool data)
{
    struct target t = TARGET(llama_memory_clear);

    if (t.record)
        requests_forget(memory, -1, -1, -1);
    ((void (*)(void *, bool))t.function)(memory, data);
}

bool llama_memory_seq_rm(void *memory, int seq, int from, int to)
{
    struct target t = TARGET(llama_memory_seq_rm);
    bool done = ((bool (*)(void *, int, int, int))t.function)(memory, seq, from, to);

    if (t.record && done)
        requests_forget(memory, seq, from, to);
    return done;
}

void llama_memory_seq_add(void *memory, int seq, int from, int to, int by)
{
    struct target t = TARGET(llama_memory_seq_add);

    ((void (*)(void *, int, int, int, int))t.function)(memory, seq, from, to, by);
    if (t.record)
        requests_move(memory, seq, from, to, by);
}

void llama_memory_seq_keep(void *memory, int seq)
{
    struct target t = TARGET(llama_memory_seq_keep);

    ((void (*)(void *, int))t.function)(memory, seq);
    if (t.record)
        requests_keep(memory, seq);
}
