/* session.h -- a model that is ready to be run: the graph, an engine that has it, inputs, outputs.
 *
 *     struct run_session s = { .opt = &options, .res = &result };
 *     session_open(), session_feed(), session_prepare(), then any of the others; session_close()
 *
 * A zeroed session and one that failed half-way can be closed. One thread at a time. */
#ifndef RUN_SESSION_H
#define RUN_SESSION_H

#include "engine/engine.h"
#include "run/input.h"
#include "run/npy.h"
#include "run/run.h"

#include <opmeter/opmeter.h>

struct run_times {
    int64_t *ns;
    size_t n, cap;
};

struct run_session {
    const struct run_options *opt;
    struct run_result *res;
    struct model *m;
    struct engine *e;
    struct inputs in;
    const struct engine_value *in_value, *out_value;
    size_t nin, nout;
    struct engine_tensor *out; /* of the last iteration */
    bool prepared;             /* for the shapes of the inputs */
    struct npz ref;
    struct run_times bare, metered, cost; /* cost: metered less bare, pair by pair */
};

int64_t session_now_ns(void);

/* Load the model and open the engine. res->threads, if 0, becomes the number of usable cores. */
int session_open(struct run_session *s, opm_error *err);
/* What inputs are made from, as far as the options of the session say. */
void session_input_options(const struct run_session *s, struct input_options *out);
/* Make inputs as the options say. given: tensors named after inputs, which take precedence; data
 * NULL: of that shape, random. Their data is copied. */
int session_feed(struct run_session *s, const struct tensor *given, size_t ngiven, opm_error *err);
int session_prepare(struct run_session *s, opm_error *err);
/* One iteration. A bare one leaves nothing in the trace; *ns is its latency. */
int session_iterate(struct run_session *s, bool metered, int64_t num, enum opm_record_flags flags,
                    int64_t *ns, opm_error *err);
void session_close(struct run_session *s);

/* -- measure.c -- */

/* Warm up and measure as the options say; res then has the latencies and what metering cost. */
int session_measure(struct run_session *s, opm_error *err);
/* Facts about model and engine, and about a measured run, for table meta. */
void session_describe_model(const struct run_session *s);
void session_describe_run(struct run_session *s);

#endif
