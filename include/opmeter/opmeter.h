/* opmeter.h -- record what a program does, operator by operator.
 *
 * The only header an instrumented program needs; link with -lopmeter. C11 and C++14.
 *
 *     static void decode(void)
 *     {
 *         OPM_SPAN(OPM_APP, "decode") {
 *             ...
 *         }
 *     }
 *
 * Recording starts with opm_start(), or by itself when the environment says
 * OPMETER_OUTPUT=FILE.opm. Until then, and with recording compiled out (-DOPM_ENABLED=0), calls
 * cost next to nothing. A program with privileges that its user lacks (set-uid, ...) goes by no
 * environment variable: it names its file itself, and a file that is not .opm is not converted.
 *
 * Threads: every function may be called from any thread at any time. Between the first event of a
 * thread and its exit, opm_begin() and opm_end() take no lock, make no system call and allocate
 * nothing.
 *
 * Handlers of signals may record (spans, counters, definitions). What they record while the signal
 * has interrupted the recorder itself in the same thread is dropped and counted. A handler may
 * leave by siglongjmp(), and threads may be cancelled anywhere. Starting and stopping is not for
 * handlers: they get OPM_EBUSY where it cannot be done.
 *
 * Failure: nothing in here makes the program fail. opm_start() says what went wrong; after that,
 * whatever could not be kept is counted (opm_stats(), and the trace itself).
 *
 * Files: the program may close, reuse and duplicate descriptors as it likes: those of the recorder
 * are in a table of its own (Linux 5.9 and later), and the program's files are never written to. A
 * trace that is there already is kept as FILE.old; any other file stays, and opm_start() fails,
 * unless OPMETER_OVERWRITE=1. If FILE-live is cut short by somebody while it is being recorded to,
 * the recording ends there: SIGBUS is handled for that if the program does not handle it.
 *
 * Strings are copied, unless a comment says otherwise. They may hold any bytes but NUL.
 *
 * ABI: a program that was linked with a release of opmeter runs with every later one. Functions and
 * values of enums are added, none goes or changes. Structs that begin with `size`, and those that a
 * function takes the size of (opm__stats(), ...), get new fields at their end; initialise the
 * former with their macros. All others stay as they are.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPMETER_H
#define OPMETER_H

#include <opmeter/opmeter_error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifndef OPM_ENABLED
#define OPM_ENABLED 1
#endif

#define OPM_VERSION_MAJOR 0
#define OPM_VERSION_MINOR 1
#define OPM_VERSION_PATCH 0

/* Which of the four layers of a program an event belongs to. Levels switch them on from the top:
 * 0 none, 1 app, 2 app and framework, 3 all. */
enum opm_layer { OPM_APP = 0, OPM_FRAMEWORK = 1, OPM_RUNTIME = 2, OPM_HARDWARE = 3 };

/* A place in the source, or anything else that spans are named after. Static, or at least alive and
 * unmoved while it is in use; name and category too. */
typedef struct opm_site {
    const char *name;
    const char *category; /* NULL: none. Reports know "data" (waiting for input) and "collective"
                           * (an exchange between devices); any other is yours */
    uint64_t cache;       /* belongs to the library; start with 0 */
    uint32_t layer;       /* enum opm_layer */
    uint32_t role;        /* belongs to the library; start with 0 */
} opm_site;
#define OPM_SITE_INIT(layer, category, name) \
    {                                        \
        (name), (category), 0, (layer), 0    \
    }

/* A span that has begun. Pass it to opm_end(); copy it freely. All zero: nothing was recorded. */
typedef struct opm_span {
    uint64_t ticks;
    uint32_t thread;
    uint32_t depth;
} opm_span;

/* ---- starting and stopping ---- */

enum opm_overflow {
    OPM_OVERFLOW_BLOCK = 0, /* wait for the writer: nothing is lost, the program may be slowed */
    OPM_OVERFLOW_DROP = 1   /* drop, and count what was dropped in the trace */
};

typedef struct opm_options {
    size_t size;            /* = sizeof(opm_options), so that fields can be appended */
    const char *path;       /* file to write; %p becomes the process id; NULL: OPMETER_OUTPUT, or
                             * opmeter.opm. Extensions other than .opm: converted when stopping */
    const char *categories; /* "a,b" only these, "-a,-b" all but these; NULL: OPMETER_CATEGORIES or
                             * all. Events without a category always pass */
    uint32_t buffer_mb;     /* memory for events; 0: OPMETER_BUFFER_MB, or 32 */
    int32_t level;          /* 0 to 3; -1: OPMETER_LEVEL, or 3 */
    int32_t overflow;       /* enum opm_overflow */
    int32_t counters;       /* 1: what the processor counts during operators becomes arguments of
                             * their spans (cycles, instructions, ...); 0: OPMETER_COUNTERS, or not */
} opm_options;
#define OPM_OPTIONS_INIT                                              \
    {                                                                 \
        sizeof(opm_options), NULL, NULL, 0, -1, OPM_OVERFLOW_BLOCK, 0 \
    }

typedef struct opm_recorder_stats {
    uint64_t spans;      /* written so far, all threads */
    uint64_t lost;       /* spans dropped: buffer full, no room for the thread, write failed */
    uint64_t bytes;      /* size of the file so far */
    uint64_t threads;    /* that recorded anything */
    uint64_t unbalanced; /* ends without begin, spans closed by the end of an outer one */
    int32_t recording;   /* 1 between opm_start() and opm_stop() */
    int32_t write_errno; /* first failure to write, or 0 */
} opm_recorder_stats;

/* ---- operators, tensors, memory ---- */

enum opm_io { OPM_INPUT = 0, OPM_WEIGHT = 1, OPM_OUTPUT = 2 };

typedef struct opm_tensor {
    const char *name;
    const char *dtype; /* "fp32", "int8", ... */
    const int64_t *dims;
    uint32_t ndim;
    uint32_t io;   /* enum opm_io */
    int64_t bytes; /* -1: not known */
} opm_tensor;

/* What is known of an operator. NULL and negative values mean "not known". */
typedef struct opm_op_info {
    size_t size;      /* = sizeof(opm_op_info) */
    const char *name; /* in the model */
    const char *type; /* "Conv", "MatMul", ... */
    const char *post_op;
    const char *device;
    const char *engine;
    const char *attributes; /* JSON object */
    const char *nodes;      /* JSON array of names: the model's nodes that it covers */
    int64_t flops;          /* of one execution */
    int64_t bytes;          /* read and written by one execution */
    const char *weight_shape;
    double weight_zero_ratio; /* 0 to 1 */
    int32_t sparse_support;   /* 0 or 1 */
    uint32_t ntensors;
    const opm_tensor *tensors;
} opm_op_info;
#define OPM_OP_INFO_INIT                                                                          \
    {                                                                                             \
        sizeof(opm_op_info), NULL, NULL, NULL, NULL, NULL, NULL, NULL, -1, -1, NULL, -1.0, -1, 0, \
            NULL                                                                                  \
    }

typedef struct opm_op opm_op;
enum opm_phase { OPM_FORWARD_PASS = 0, OPM_RESHAPE = 1 };

typedef struct opm_mem_info {
    size_t size;
    const char *owner; /* tensor or object that lives in the chunk */
    const char *kind;  /* "weight", "activation", "workspace", ... */
    int64_t bytes;
    int64_t addr;           /* address or offset, -1: not known */
    const opm_op *first_op; /* first and last operator that need it, or NULL */
    const opm_op *last_op;
} opm_mem_info;
#define OPM_MEM_INFO_INIT                                    \
    {                                                        \
        sizeof(opm_mem_info), NULL, NULL, -1, -1, NULL, NULL \
    }

/* ---- queues, tracks, clocks ---- */

typedef struct opm_queue opm_queue;
typedef struct opm_track opm_track;
typedef struct opm_gauge opm_gauge;

/* What a gauge measures. NULL and negative values mean "not known". */
typedef struct opm_gauge_info {
    size_t size; /* = sizeof(opm_gauge_info) */
    const char *name;
    const char *unit;    /* "B", "W", "%", ... */
    const char *device;  /* that it is read off */
    const char *process; /* name of the process that it is about; with pid -1 and no name: the */
    int64_t pid;         /* whole machine */
    uint32_t layer;      /* enum opm_layer */
} opm_gauge_info;
#define OPM_GAUGE_INFO_INIT                                              \
    {                                                                    \
        sizeof(opm_gauge_info), NULL, NULL, NULL, NULL, -1, OPM_HARDWARE \
    }

/* Clock of the times given to opm_device_span(): ns, but ticks for OPM_CLOCK_RECORDER, which is the
 * clock of all other spans as opm_now() reads it. A device's own clock is tied to the host's by
 * opm_track_sync(). */
enum opm_clock {
    OPM_CLOCK_MONOTONIC = 0,
    OPM_CLOCK_REALTIME = 1,
    OPM_CLOCK_DEVICE = 2,
    OPM_CLOCK_RECORDER = 3
};

enum opm_record_flags { OPM_MEASURED = 0, OPM_WARMUP = 1 };
enum opm_step_phase {
    OPM_PHASE_NONE = 0,
    OPM_PHASE_FORWARD = 1,
    OPM_PHASE_BACKWARD = 2,
    OPM_PHASE_UPDATE = 3
};

/* What the library exports; use the functions further down. */
extern OPM_API uint32_t opm__layers; /* bit n: layer n is being recorded */
OPM_API opm_span opm__begin(opm_site *site);
OPM_API void opm__end(opm_span span);
OPM_API opm_span opm__begin_named(uint32_t layer, const char *category, const char *name,
                                  size_t len);
OPM_API opm_span opm__async_begin(opm_site *site);
OPM_API opm_span opm__op_begin(opm_op *op, uint32_t phase);
OPM_API void opm__op_end(opm_span span);
OPM_API opm_span opm__step_begin(const char *model, int64_t num, uint32_t flags);
OPM_API void opm__step_phase(uint32_t phase);
OPM_API opm_span opm__record_begin(const char *label, uint32_t flags);
OPM_API opm_span opm__activity_begin(const char *name, int64_t step, const char *meta);
OPM_API void opm__counter(opm_site *site, double value);
OPM_API void opm__queue_size(opm_queue *q, int64_t n);
OPM_API void opm__gauge_set(opm_gauge *g, double value);
OPM_API void opm__device_span(opm_track *t, opm_site *site, int64_t start_ns, int64_t end_ns,
                              uint64_t correlation);
OPM_API void opm__device_span_args(opm_track *t, opm_site *site, int64_t start_ns, int64_t end_ns,
                                   uint64_t correlation, const char *args);
OPM_API void opm__op_span(opm_op *op, uint32_t phase, opm_track *t, int64_t start_ns,
                          int64_t end_ns);
OPM_API void opm__flow(opm_span src, opm_span dst);
OPM_API void opm__arg_int(opm_span span, const char *key, int64_t v);
OPM_API void opm__arg_real(opm_span span, const char *key, double v);
OPM_API void opm__arg_str(opm_span span, const char *key, const char *v);
OPM_API void opm__correlate(opm_span span, uint64_t correlation);
OPM_API void opm__stats(opm_recorder_stats *out, size_t size);

/* Start recording; opts may be NULL. 0: started. 1: a recording was under way already and goes on
 * (each successful start needs its own opm_stop(); the last one ends it). Negative: not recording,
 * err says why. */
OPM_API int opm_start(const opm_options *opts, opm_error *err);
/* Write out everything and close the file. Spans that are still open are kept as never ended. */
OPM_API int opm_stop(opm_error *err);
/* Leave out what happens between the two; spans that are open stay open. They do not nest. */
OPM_API void opm_pause(void);
OPM_API void opm_resume(void);
static inline void opm_stats(opm_recorder_stats *out)
{
    opm__stats(out, sizeof(*out));
}
OPM_API const char *
opm_path(void); /* file being written, "" if none; until the next start or stop */

/* The recorder's clock in ticks, for tracks of OPM_CLOCK_RECORDER; 0 before the first start. */
OPM_API uint64_t opm_now(void);

/* A fact about the run: model, options, versions. A later value of the same key wins. */
OPM_API void opm_meta(const char *key, const char *value);
OPM_API void opm_thread_name(const char *name); /* of the calling thread */

/* Describe an operator once, execute it many times. Lives until opm_op_free(), across recordings.
 * NULL only when out of memory, and then every function below accepts it. */
OPM_API opm_op *opm_op_define(const opm_op_info *info);
OPM_API void opm_op_update(opm_op *op, const opm_op_info *info); /* e.g. its shapes changed */
OPM_API void opm_op_free(opm_op *op);
OPM_API void opm_mem(const opm_mem_info *info);

OPM_API opm_queue *opm_queue_define(const char *name, int64_t capacity); /* capacity -1: none */
/* The stages on both sides of it, for the picture of a pipeline: who fills it, with how many
 * workers (0: not known), and who empties it. Before its first size. */
OPM_API void opm_queue_connect(opm_queue *q, const char *producer, uint32_t workers,
                               const char *consumer);
OPM_API void opm_queue_free(opm_queue *q);

/* A counter that is not simply the program's own: what samples of a device or of another process
 * are put on, taken at intervals. */
OPM_API opm_gauge *opm_gauge_define(const opm_gauge_info *info);
OPM_API void opm_gauge_free(opm_gauge *g);

/* A line of the timeline for spans measured elsewhere, such as a GPU stream. */
OPM_API opm_track *opm_track_define(const char *kind, const char *name, const char *device,
                                    enum opm_clock clock);
/* The same with a number: of the stream; or, where kind is "thread", the id that the system gives a
 * thread of this process: its spans stand on that thread's own line, among those that it recorded
 * itself. */
OPM_API opm_track *opm_track_define_numbered(const char *kind, const char *name, const char *device,
                                             enum opm_clock clock, int64_t number);
OPM_API void opm_track_sync(opm_track *t, int64_t device_ns, int64_t monotonic_ns);
OPM_API void opm_track_free(opm_track *t);

static inline int opm_on(enum opm_layer layer)
{
    return OPM_ENABLED && ((__atomic_load_n(&opm__layers, __ATOMIC_RELAXED) >> layer) & 1u);
}

static inline opm_span opm_span_none(void)
{
    opm_span none = { 0, 0, 0 };

    return none;
}

/* Begin a span on the calling thread; spans of a thread nest. */
static inline opm_span opm_begin(opm_site *site)
{
    return opm_on((enum opm_layer)site->layer) ? opm__begin(site) : opm_span_none();
}

/* End a span. Any that began inside it on the same thread and are still open end with it. */
static inline void opm_end(opm_span span)
{
    if (OPM_ENABLED && span.depth)
        opm__end(span);
}

/* Like opm_begin() for a name that is not known when compiling. A lookup slower. */
static inline opm_span opm_begin_named(enum opm_layer layer, const char *category, const char *name,
                                       size_t len)
{
    return opm_on(layer) ? opm__begin_named(layer, category, name, len) : opm_span_none();
}

/* Begin a span that may overlap others and may end on another thread. */
static inline opm_span opm_async_begin(opm_site *site)
{
    return opm_on((enum opm_layer)site->layer) ? opm__async_begin(site) : opm_span_none();
}

static inline opm_span opm_op_begin(opm_op *op)
{
    return opm_on(OPM_FRAMEWORK) ? opm__op_begin(op, OPM_FORWARD_PASS) : opm_span_none();
}

static inline opm_span opm_op_begin_phase(opm_op *op, enum opm_phase phase)
{
    return opm_on(OPM_FRAMEWORK) ? opm__op_begin(op, phase) : opm_span_none();
}

/* One step or inference of a model. num is whatever number it has for the program. */
static inline opm_span opm_step_begin(const char *model, int64_t num, enum opm_record_flags flags)
{
    return opm_on(OPM_APP) ? opm__step_begin(model, num, flags) : opm_span_none();
}

/* Inside a step: forward, backward or update begins here, whatever phase went on before ends. */
static inline void opm_step_phase(enum opm_step_phase phase)
{
    if (opm_on(OPM_APP))
        opm__step_phase(phase);
}

/* A labelled region of the run, such as "warm up" or "batch 8". Regions nest. Steps that begin in a
 * warm-up region are warm-up, too: of their own thread, or of any if that has none. */
static inline opm_span opm_record_begin(const char *label, enum opm_record_flags flags)
{
    return opm_on(OPM_APP) ? opm__record_begin(label, flags) : opm_span_none();
}

/* Something the application does, for a step if step >= 0; meta is a JSON object or NULL. May end
 * on another thread. */
static inline opm_span opm_activity_begin(const char *name, int64_t step, const char *meta)
{
    return opm_on(OPM_APP) ? opm__activity_begin(name, step, meta) : opm_span_none();
}

/* The value of a counter from now on. */
static inline void opm_counter(opm_site *site, double value)
{
    if (opm_on((enum opm_layer)site->layer))
        opm__counter(site, value);
}

static inline void opm_queue_size(opm_queue *q, int64_t n)
{
    if (opm_on(OPM_APP))
        opm__queue_size(q, n);
}

/* What the gauge shows now. */
static inline void opm_gauge_set(opm_gauge *g, double value)
{
    if (OPM_ENABLED && __atomic_load_n(&opm__layers, __ATOMIC_RELAXED))
        opm__gauge_set(g, value);
}

/* A span measured elsewhere, in the clock of its track. correlation 0: none. */
static inline void opm_device_span(opm_track *t, opm_site *site, int64_t start_ns, int64_t end_ns,
                                   uint64_t correlation)
{
    if (opm_on((enum opm_layer)site->layer))
        opm__device_span(t, site, start_ns, end_ns, correlation);
}

/* The same with facts about it: a JSON object, or NULL. Equal texts are stored once. */
static inline void opm_device_span_args(opm_track *t, opm_site *site, int64_t start_ns,
                                        int64_t end_ns, uint64_t correlation, const char *args)
{
    if (opm_on((enum opm_layer)site->layer))
        opm__device_span_args(t, site, start_ns, end_ns, correlation, args);
}

/* An execution of an operator that was measured elsewhere, in the clock of the track. */
static inline void opm_op_span(opm_op *op, enum opm_phase phase, opm_track *t, int64_t start_ns,
                               int64_t end_ns)
{
    if (opm_on(OPM_FRAMEWORK))
        opm__op_span(op, phase, t, start_ns, end_ns);
}

/* An arrow between two spans of any threads. Both must have begun. */
static inline void opm_flow(opm_span src, opm_span dst)
{
    if (OPM_ENABLED && src.depth && dst.depth)
        opm__flow(src, dst);
}

/* Facts about a span that has begun; ended ones are fine too. */
static inline void opm_arg_int(opm_span span, const char *key, int64_t v)
{
    if (OPM_ENABLED && span.depth)
        opm__arg_int(span, key, v);
}
static inline void opm_arg_real(opm_span span, const char *key, double v)
{
    if (OPM_ENABLED && span.depth)
        opm__arg_real(span, key, v);
}
static inline void opm_arg_str(opm_span span, const char *key, const char *v)
{
    if (OPM_ENABLED && span.depth)
        opm__arg_str(span, key, v);
}
/* Link the span with device spans of the same correlation number. */
static inline void opm_correlate(opm_span span, uint64_t correlation)
{
    if (OPM_ENABLED && span.depth)
        opm__correlate(span, correlation);
}

/* The ends of what the functions above began; names for readers of the program. */
static inline void opm_op_end(opm_span span)
{
    if (OPM_ENABLED && span.depth)
        opm__op_end(span);
}
static inline void opm_step_end(opm_span span)
{
    opm_end(span);
}
static inline void opm_record_end(opm_span span)
{
    opm_end(span);
}
static inline void opm_activity_end(opm_span span)
{
    opm_end(span);
}

/* Requests to a language model, by the name that the program has for each, and the iterations that
 * serve them; docs/llm.md defines the words. A number below 0 is not known. */
static inline opm_span opm__llm(const char *what, size_t len, const char *request)
{
    opm_span span = opm_begin_named(OPM_APP, "llm", what, len);

    opm_arg_str(span, "request", request);
    return span;
}
static inline void opm__llm_number(opm_span span, const char *key, int64_t v)
{
    if (v >= 0)
        opm_arg_int(span, key, v);
}
/* It arrives. model may be NULL. */
static inline void opm_request_arrived(const char *request, const char *model, int64_t tokens_in)
{
    opm_span span = opm__llm("request", 7, request);

    if (model)
        opm_arg_str(span, "model", model);
    opm__llm_number(span, "tokens_in", tokens_in);
    opm_end(span);
}
/* It leaves the queue, or is taken up again after it was set aside. */
static inline void opm_request_scheduled(const char *request)
{
    opm_end(opm__llm("scheduled", 9, request));
}
/* n tokens of it are there. */
static inline void opm_request_tokens(const char *request, int64_t n)
{
    opm_span span = opm__llm("token", 5, request);

    opm__llm_number(span, "n", n);
    opm_end(span);
}
/* It is set aside for others. */
static inline void opm_request_preempted(const char *request)
{
    opm_end(opm__llm("preempted", 9, request));
}
/* reason may be NULL. */
static inline void opm_request_finished(const char *request, const char *reason)
{
    opm_span span = opm__llm("finished", 8, request);

    if (reason)
        opm_arg_str(span, "reason", reason);
    opm_end(span);
}
/* One run of the model over a batch of requests. */
static inline opm_span opm_iteration_begin(int64_t num)
{
    opm_span span = opm_begin_named(OPM_APP, "llm", "iteration", 9);

    opm__llm_number(span, "num", num);
    return span;
}
/* Within an iteration, on its thread: a request takes part in it, to read its prompt or not. */
static inline void opm_iteration_member(const char *request, int prefill, int64_t tokens_in,
                                        int64_t tokens_out, int64_t context)
{
    opm_span span = opm__llm("member", 6, request);

    opm_arg_str(span, "phase", prefill ? "prefill" : "decode");
    opm__llm_number(span, "tokens_in", tokens_in);
    opm__llm_number(span, "tokens_out", tokens_out);
    opm__llm_number(span, "context", context);
    opm_end(span);
}
static inline void opm_iteration_end(opm_span span)
{
    opm_end(span);
}

static inline void opm__scope_end(opm_span *span)
{
    opm_end(*span);
}

#define OPM_CONCAT2_(a, b) a##b
#define OPM_CONCAT_(a, b) OPM_CONCAT2_(a, b)
#define OPM_SCOPE_(span_expr)                                                         \
    for (opm_span OPM_CONCAT_(opm_scope_, __LINE__) __attribute__((                   \
             cleanup(opm__scope_end), unused)) = (span_expr),                         \
                                      OPM_CONCAT_(opm_once_, __LINE__) = { 0, 0, 1 }; \
         OPM_CONCAT_(opm_once_, __LINE__).depth; OPM_CONCAT_(opm_once_, __LINE__).depth = 0)

/* OPM_SPAN(layer, "name") { ... }: the block is a span, however it is left (break, return, goto, a
 * C++ exception). `continue` inside it leaves the block too. */
#define OPM_SPAN(layer, name) OPM_SPAN_CAT(layer, NULL, name)
#define OPM_SPAN_CAT(layer, category, name)                               \
    OPM_SCOPE_(__extension__({                                            \
        static opm_site opm_site_ = OPM_SITE_INIT(layer, category, name); \
        opm_begin(&opm_site_);                                            \
    }))

/* OPM_COUNTER("rss", bytes): a counter named where it is used. */
#define OPM_COUNTER(name, value)                                        \
    do {                                                                \
        static opm_site opm_site_ = OPM_SITE_INIT(OPM_APP, NULL, name); \
        opm_counter(&opm_site_, (value));                               \
    } while (0)

#ifdef __cplusplus
}
#endif
#endif
