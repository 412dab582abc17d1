/* opmeter_run.h -- run a model, operator by operator in the open.
 *
 * Link with -lopmeter-run (which brings -lopmeter).
 *
 *     opm_session *s;
 *     opm_array out[1];
 *
 *     if (opm_session_open(&s, "model.onnx", NULL, &err) < 0 ||
 *         opm_session_run(s, NULL, 0, out, 1, &err) < 0)
 *         ...err.msg...
 *     opm_session_close(s);
 *
 * While a recording is under way (opm_start() of opmeter.h, or OPMETER_OUTPUT in the environment)
 * each run is a step of the trace with a span for every operator; otherwise models run bare.
 *
 * Functions return 0 or a negative OPM_E* code; on failure *out is untouched and `err` (may be
 * NULL) holds a one-line message naming the model, input or operator. A session may be used by one
 * thread at a time, not always the same; different sessions are independent.
 *
 * ABI: as opmeter.h says it. Functions with two underscores are told the size of the structs that
 * the program knows; use those without.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef OPMETER_RUN_H
#define OPMETER_RUN_H

#include <opmeter/opmeter_error.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define OPM_RANK_MAX 16

typedef struct opm_session opm_session;

typedef struct opm_session_options {
    size_t size;             /* = sizeof(opm_session_options), so that fields can be appended */
    const char *engine;      /* NULL: the default one, see opm_session_engine() */
    const char *ort_lib;     /* engine onnxruntime: library to load; NULL: look for it */
    const char *const *dims; /* sizes of open dimensions, each "NAME=N", up to a NULL; or NULL */
    int64_t batch_size;      /* first dimension of inputs, where it is open; 0: not given */
    int64_t seq_len;         /* open dimensions that look like a sequence; 0: not given */
    uint64_t seed;           /* of random inputs */
    int32_t threads;         /* 0: as many as there are cores */
    int32_t pin;             /* 1: bind threads to cores */
    int64_t max_memory;      /* bytes for the engine and inputs, of engine native; 0: three
                                quarters of what the machine has */
    int64_t time_limit_ns;   /* of each call that opens, runs or measures; 0: none */
} opm_session_options;
#define OPM_SESSION_OPTIONS_INIT                                           \
    {                                                                      \
        sizeof(opm_session_options), NULL, NULL, NULL, 0, 0, 1, 0, 0, 0, 0 \
    }

/* Load a model, an ONNX file or "zoo:NAME", and open an engine for it. opts may be NULL. Everything
 * in opts is copied. An operator that the engine lacks: OPM_EUNSUPPORTED, and the message lists all
 * of them. What asks for more memory than it may have is refused, and what takes longer than the
 * time limit is given up, within an operator, too: OPM_ELIMIT. The session can be used on. Close
 * with opm_session_close(). */
OPM_API int opm_session_open(opm_session **out, const char *model, const opm_session_options *opts,
                             opm_error *err);
OPM_API void opm_session_close(opm_session *s); /* NULL is fine */

/* An input or output as the model declares it, with the sizes that the options gave. Strings live
 * as long as the session. */
typedef struct opm_value {
    const char *name;
    const char *dtype; /* as NumPy calls it where it has one: "float32", "int64", "bfloat16", ... */
    int32_t bits;      /* of an element; 0: no fixed size */
    int32_t rank;      /* -1: not declared */
    int64_t dims[OPM_RANK_MAX];          /* -1: open */
    const char *dim_names[OPM_RANK_MAX]; /* of those that are open; NULL: none */
} opm_value;

OPM_API int opm__session_input(const opm_session *s, size_t i, opm_value *out, size_t size,
                               opm_error *err);
OPM_API int opm__session_output(const opm_session *s, size_t i, opm_value *out, size_t size,
                                opm_error *err);

OPM_API size_t opm_session_ninputs(const opm_session *s);
OPM_API size_t opm_session_noutputs(const opm_session *s);
/* OPM_ENOTFOUND if there is no such one. */
static inline int opm_session_input(const opm_session *s, size_t i, opm_value *out, opm_error *err)
{
    return opm__session_input(s, i, out, sizeof(*out), err);
}
static inline int opm_session_output(const opm_session *s, size_t i, opm_value *out, opm_error *err)
{
    return opm__session_output(s, i, out, sizeof(*out), err);
}

/* An element of an array of dtype "string". As an input it need not end with a NUL; outputs do. */
typedef struct opm_string {
    const char *text; /* UTF-8; may be NULL if len is 0 */
    size_t len;
} opm_string;

/* A tensor in memory: row-major, little-endian, elements below 8 bits packed. Strings are an array
 * of opm_string, whose texts live as long as the array. An output that is a sequence, a map or an
 * optional has no data. */
typedef struct opm_array {
    const char *dtype; /* NULL as an input: that of the model */
    void *data;        /* inputs are only read, and need no alignment */
    size_t bytes;
    int32_t rank; /* -1 as an input with data NULL: the declared shape */
    int64_t dims[OPM_RANK_MAX];
} opm_array;

OPM_API int opm__session_run(opm_session *s, const opm_array *in, size_t nin, opm_array *out,
                             size_t nout, size_t size, opm_error *err);
OPM_API int opm__session_random(opm_session *s, size_t i, uint64_t seed, opm_array *array,
                                size_t size, opm_error *err);

/* Run once. in[] is in the order of the model's inputs; data NULL asks for random values that suit
 * the input, of the shape given or declared, the same on each run. in NULL: all of them so.
 * Integers and floats of other widths are converted. out[] gets the first nout outputs, which
 * belong to the session until its next run or close. */
static inline int opm_session_run(opm_session *s, const opm_array *in, size_t nin, opm_array *out,
                                  size_t nout, opm_error *err)
{
    return opm__session_run(s, in, nin, out, nout, sizeof(*out), err);
}

/* Random values that suit input i into the caller's array, whose dtype, dims and bytes are those
 * of the model with every open dimension decided. */
static inline int opm_session_random(opm_session *s, size_t i, uint64_t seed, opm_array *array,
                                     opm_error *err)
{
    return opm__session_random(s, i, seed, array, sizeof(*array), err);
}

/* How long to go on: a number of iterations, or if ns is not 0 a time. */
typedef struct opm_amount { /* never grows */
    int64_t count;
    int64_t ns;
} opm_amount;

/* "10", "200ms", "1.5 s", "2min". */
OPM_API int opm_amount_parse(const char *text, opm_amount *out, opm_error *err);

typedef struct opm_measure_options {
    size_t size;
    opm_amount warmup;
    opm_amount iterations;
    int32_t receipt; /* 1: bare iterations in between, to know what metering costs */
    /* Called after each iteration with progress towards the total; may be NULL. Return nonzero to
     * give up: the call then fails with OPM_ELIMIT. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
} opm_measure_options;
#define OPM_MEASURE_OPTIONS_INIT                                        \
    {                                                                   \
        sizeof(opm_measure_options), { 5, 0 }, { 10, 0 }, 1, NULL, NULL \
    }

typedef struct opm_measured {
    size_t size;          /* = sizeof(opm_measured) before the call */
    uint64_t warmup;      /* iterations of warm-up done */
    double cost_ns;       /* of metering an iteration, in the middle of all pairs */
    double cost_error_ns; /* how far off that may be: two standard errors */
    double seconds;       /* of the measured part */
    int64_t batch;        /* first dimension that all inputs and outputs share, else 1 */
} opm_measured;

OPM_API int opm__session_measure(opm_session *s, const opm_array *in, size_t nin,
                                 const opm_measure_options *opts, opm_array *out, size_t nout,
                                 size_t size, opm_measured *result, opm_error *err);

/* What `opmeter run` does: warm up, then iterations with recording on that alternate with bare
 * ones, on the same inputs; the trace gets the facts of the run. opts and result may be NULL.
 * in[] and out[] as in opm_session_run(), out[] of the last iteration. */
static inline int opm_session_measure(opm_session *s, const opm_array *in, size_t nin,
                                      const opm_measure_options *opts, opm_array *out, size_t nout,
                                      opm_measured *result, opm_error *err)
{
    return opm__session_measure(s, in, nin, opts, out, nout, sizeof(*out), result, err);
}

/* Iterations with recording on, if it was, or without. */
enum opm_iterations { OPM_ITERATIONS_METERED = 0, OPM_ITERATIONS_BARE = 1 };

/* Latencies in ns; n 0: there were none, and the others mean nothing. */
typedef struct opm_latency {
    uint64_t n;
    double min, mean, median, p90, p95, p97, p99, p999, max;
} opm_latency;

OPM_API int opm__session_latency(const opm_session *s, enum opm_iterations which, opm_latency *out,
                                 size_t size, opm_error *err);

/* Of the last opm_session_measure(). */
static inline int opm_session_latency(const opm_session *s, enum opm_iterations which,
                                      opm_latency *out, opm_error *err)
{
    return opm__session_latency(s, which, out, sizeof(*out), err);
}

/* Have the engine report what it has measured so far; some know it only afterwards (ONNX Runtime).
 * Done by opm_session_measure() and opm_session_close(); needed before opm_stop() otherwise. */
OPM_API int opm_session_flush(opm_session *s, opm_error *err);

/* What runs the model: "native"; the version, "" where it is opmeter's own; threads. */
OPM_API const char *opm_session_engine(const opm_session *s);
OPM_API const char *opm_session_engine_version(const opm_session *s);
OPM_API int opm_session_threads(const opm_session *s);
OPM_API const char *opm_session_model(const opm_session *s); /* its name, without folder */

/* Engines and models of the zoo by number, for lists; NULL past the last one. The first engine is
 * the default. */
OPM_API const char *opm_engine_name(size_t i);
OPM_API const char *opm_zoo_name(size_t i);

#ifdef __cplusplus
}
#endif
#endif
