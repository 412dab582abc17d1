/* run.h -- run a model and record it: all that `opmeter run` does but for printing.
 *
 * run_model() loads the model, makes its inputs, warms up, measures, and leaves DIR/trace.opm.
 * Metered iterations alternate with bare ones, where recording is paused, so that the result says
 * what measuring cost. Results have no pointers: they travel between processes as they are. */
#ifndef RUN_RUN_H
#define RUN_RUN_H

#include "base/common.h"
#include "base/folder.h"
#include "base/peak.h"
#include "device/sampler.h"
#include <opmeter/opmeter_error.h>

#define RUN_INSTANCES_MAX 256

/* How long to go on: a number of iterations, or if ns is not 0 a time. */
struct run_amount {
    int64_t count;
    int64_t ns;
};

/* "10", "200ms", "1.5 s", "2min". */
int run_amount_parse(const char *text, struct run_amount *out, opm_error *err);

/* "10": times a second; 0: never. */
int run_rate_parse(const char *text, double *out_hz, opm_error *err);

/* "1.5GB", "512 MiB", "4096": bytes, at least one. */
int run_bytes_parse(const char *text, int64_t *out, opm_error *err);
/* What an engine may take unless told otherwise: three quarters of the memory that this machine, or
 * the control group of this process, has. */
int64_t run_memory_default(void);

struct run_dim {
    char *name;
    int64_t size;
};
/* "batch=8"; free the name with mem_free(). */
int run_dim_parse(const char *text, struct run_dim *out, opm_error *err);

#define RUN_OVERDUE_NS ((int64_t)5 * 1000000000)

/* Tokens that a decoder is to make; generate.h. */
struct run_generate {
    int64_t tokens;          /* of each row; 0: the model is run as it is */
    const char *encoder;     /* file; NULL: what the model has beside it, if it is a folder */
    int64_t prompt;          /* tokens of a prompt of random ones; 0: not given */
    const char *prompt_ids;  /* file with prompts, a line each; NULL: none */
    double temperature;      /* 0: the likeliest token */
    int64_t top_k;           /* 0: all */
    double top_p;            /* 1: all */
    const char *save_tokens; /* file for what was made, a line per row; NULL: none */
};

struct run_options {
    const char *model; /* a file or zoo:NAME */
    const char *engine;
    const char *ort_lib; /* NULL: look for it */
    struct run_amount warmup;
    struct run_amount iterations;
    int64_t batch_size; /* 0: not given */
    int64_t seq_len;    /* 0: not given */
    const struct run_dim *dim;
    size_t ndim;
    bool guess_sizes;         /* of dimensions that stay open; see input.h */
    const char *const *input; /* see input.h */
    size_t ninput;
    int64_t seed;
    int threads; /* 0: as many as there are cores */
    bool pin;
    bool winograd;
    bool sparse;              /* block-sparse kernels where they are faster */
    double sample_hz;         /* hardware samples a second; 0: none */
    bool counters;            /* count what the processor does during operators */
    bool receipt;             /* bare iterations in between */
    int64_t max_memory;       /* bytes for the engine and inputs; 0: run_memory_default() */
    int64_t time_limit_ns;    /* for all of it; 0: none */
    bool keep_partial;        /* what was measured when it was stopped is a result, not a failure */
    const char *save_outputs; /* folder for NAME.npy; NULL: none */
    bool replace_outputs;     /* files of these names that are there already */
    const char *check;        /* .npz with in_NAME and out_NAME; NULL: none */
    double atol, rtol;
    struct run_generate generate; /* warmup and iterations are whole texts then */
    const char *dir;              /* that exists, for trace.opm */
    int instance;                 /* number of this process, from 0 */
    int instances;
    /* Called after each iteration and now and then within one; total 0: not known. Nonzero: give
     * up. */
    int (*progress)(void *user, uint64_t done, uint64_t total);
    void *user;
    bool progress_anywhere; /* by another thread, too, while the caller's waits for an iteration */
    /* Called RUN_OVERDUE_NS after the time limit, or after asked() began to say that the run is to
     * stop, if it goes on still; by a thread of its own, as asked() is. Ends the process. NULL:
     * wait as long as it takes. */
    void (*overdue)(void *overdue_user);
    void *overdue_user;
    bool (*asked)(void);
    /* Called when all is ready to be run; nonzero: give up. For run_instances(). */
    int (*ready)(void *ready_user);
    void *ready_user;
};

struct run_latency { /* ns */
    uint64_t n;      /* 0: the rest means nothing */
    double min, mean, median, p90, p95, p97, p99, p999, max;
};

struct run_check {
    bool done, ok;
    uint64_t elements, wrong;
    double max_abs;  /* largest difference of all */
    char worst[512]; /* the worst element, in words */
};

/* What was generated: of all measured texts, bare and metered. */
struct run_generated {
    int64_t texts; /* measured ones, each of `batch` rows; 0: the rest means nothing */
    int64_t batch, prompt, tokens;
    int64_t heard;                            /* positions of an encoder's output; 0: no encoder */
    struct run_latency encoder[2];            /* bare, metered; part of ttft */
    struct run_latency ttft[2], itl[2];       /* bare, metered */
    double prefill_per_s[2], decode_per_s[2]; /* tokens in, tokens out; 0: not known */
    int64_t cache_token_bytes;                /* keys and values of one token of one row */
    int64_t cache_kept_bytes;                 /* those of all that the encoder gave for a row */
    int64_t cache_peak_bytes;                 /* what was filled at the end, of all rows */
    int64_t cache_held_bytes;                 /* memory that was taken for it */
    bool in_place;                            /* the model writes into the cache where it lies */
    char first[256];                          /* the first tokens of the first row, in words */
};

/* Why a run ended before it had done what was asked for. */
enum run_stop { RUN_NOT_STOPPED, RUN_INTERRUPTED, RUN_TIME_LIMIT };

struct run_result {
    char engine[32];
    char version[64];
    char model[128]; /* for people and file names: "resnet50" */
    int threads;
    int64_t load_ns;                   /* reading the model */
    int64_t open_ns;                   /* engine_open */
    int64_t prepare_ns;                /* first shapes */
    int64_t arena_bytes, packed_bytes; /* what the engine holds for them; -1: not known */
    int64_t winograd_bytes;            /* part of packed_bytes that only Winograd needs */
    uint64_t warmup;                   /* iterations done */
    enum run_stop stopped;
    struct run_latency bare, metered;
    double cost_ns;       /* of metering an iteration, in the middle of all pairs */
    double cost_error_ns; /* how far off that may be: two standard errors */
    double seconds;       /* of the measured part */
    int64_t batch;        /* first dimension that all inputs and outputs share; else 1 */
    char sizes[256];      /* chosen for open dimensions: "batch=1, seq=128"; "": none */
    char ignored[512];    /* what was asked for that fits no dimension; "": nothing */
    struct sampler_stats samples;
    uint64_t lost; /* events that the recorder had to drop */
    struct run_check check;
    struct run_generated generated;
    char trace[FOLDER_PATH_MAX]; /* DIR/trace.opm */
};

/* Is there an encoder beside the decoder that the model and --encoder FILE (or NULL) name? */
bool run_has_encoder(const char *model, const char *encoder);

int run_model(const struct run_options *opt, struct run_result *out, opm_error *err);

/* The same in n processes at a time, each with its part of the cores, numbered by .instance and
 * writing to dir[k]. All start measuring together. If one fails, so does all of it. */
int run_instances(const struct run_options *opt, const char *const *dir, int n,
                  struct run_result *out, opm_error *err);

/* The model's name without folder, extension and options. */
void run_model_label(const char *model, char *out, size_t size);
/* Make a folder and those above it. */
int run_make_folder(const char *path, opm_error *err);
/* Make "ROOT/LABEL_2026-01-31_12-00-00_K" for K = 0..n-1, all new; dir[] gets n paths. */
int run_make_folders(const char *root, const char *label, char (*dir)[FOLDER_PATH_MAX], int n,
                     opm_error *err);

/* Percentiles of n latencies, which are left in disorder. */
void run_latency_of(int64_t *ns, size_t n, struct run_latency *out);
/* Median of n differences and two standard errors of it; disorders them. Both 0 if there are none.
 */
void run_cost_of(int64_t *ns, size_t n, double *cost, double *error);

/* What this machine can do at most with so many threads; measured once, in a fraction of a second,
 * and kept in ~/.cache/opmeter/peak.json. */
void run_peak(int threads, struct peak *out);

/* Engines and the zoo, for messages and lists. */
const char *run_engine_name(size_t i); /* NULL at the end; the default first */
const char *run_engine_doc(size_t i);
struct run_zoo_entry {
    const char *name, *about, *options;
};
bool run_zoo_entry(size_t i, struct run_zoo_entry *out); /* false at the end */
/* As ONNX; what can be had for llama.cpp, as GGUF if path ends so (graph/gguf_write.h). */
int run_zoo_write(const char *name, const char *path, opm_error *err);

#endif
