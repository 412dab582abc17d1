/* runner.h -- a model that is ready to be run: the graph, an engine that has it, inputs, outputs.
 *
 *     struct runner s = { .opt = &options, .res = &result };
 *     runner_open(), runner_feed(), runner_prepare(), then any of the others; runner_close()
 *
 * A zeroed runner and one that failed half-way can be closed. One thread at a time. */
#ifndef RUN_RUNNER_H
#define RUN_RUNNER_H

#include "engine/engine.h"
#include "run/input.h"
#include "run/npy.h"
#include "run/run.h"

#include <opmeter/opmeter.h>
#include <pthread.h>

struct run_times {
    int64_t *ns;
    size_t n, cap;
};

struct runner {
    const struct run_options *opt;
    struct run_result *res;
    struct model *m;
    struct engine *e;
    struct inputs in;
    const struct engine_value *in_value, *out_value;
    size_t nin, nout;
    struct engine_tensor *out; /* of the last iteration */
    bool prepared;             /* for the shapes of the inputs */
    bool apart;                /* bare iterations are measured before metered ones */
    struct runner *beside[2];  /* other parts of the model, for its memory; NULL: none */
    struct npz ref;
    int64_t deadline_ns;                  /* 0: none */
    pthread_t thread;                     /* that made the call which is under way */
    uint64_t told;                        /* of the progress, of 1000 */
    struct run_times bare, metered, cost; /* cost: metered less bare, pair by pair */
};

int64_t runner_now_ns(void);

/* Load the model and open the engine. res->threads, if 0, becomes the number of usable cores. */
int runner_open(struct runner *s, opm_error *err);
/* Whether to give up: the caller of the progress function says so, or time is up. res->stopped is
 * set then. */
int runner_stop(void *runner);
/* A call begins in this thread: time counts from now, and nothing has stopped it yet. */
void runner_begin(struct runner *s);
/* What inputs are made from, as far as the options say. */
void runner_input_options(const struct runner *s, struct input_options *out);
/* Make inputs as the options say. given: tensors named after inputs, which take precedence; data
 * NULL: of that shape, random. Their data is copied. */
int runner_feed(struct runner *s, const struct tensor *given, size_t ngiven, opm_error *err);
int runner_prepare(struct runner *s, opm_error *err);
/* Into res: prepared, and again after running, which is when the engine knows of the rest. */
void runner_ask_memory(struct runner *s);
/* One iteration. A bare one leaves nothing in the trace; *ns is its latency. */
int runner_iterate(struct runner *s, bool metered, int64_t num, enum opm_record_flags flags,
                   int64_t *ns, opm_error *err);
void runner_close(struct runner *s);

/* -- measure.c -- */

/* Warm up and measure as the options say; res then has the latencies and what metering cost. */
int runner_measure(struct runner *s, opm_error *err);
/* Facts about model and engine, and about a measured run, for table meta. */
void runner_describe_model(const struct runner *s);
void runner_describe_run(struct runner *s);
void runner_describe_inputs(const struct runner *s); /* part of it */

#endif
