/* engine.h -- how a model is executed, whoever does it.
 *
 * Life of an engine: engine_open(), then engine_run() any number of times (it prepares by itself
 * when shapes change; engine_prepare() does that part alone), engine_close(). One thread at a time.
 *
 * Metering goes through the public recording API, as any engine of a user would do it: while
 * opm_on(OPM_FRAMEWORK), each executed operator is a span of an opm_op that says its type,
 * post-ops, the model's nodes it covers, tensors, attributes, FLOPs and bytes; preparing is a span
 * of phase OPM_RESHAPE per operator, or one span "reshape" where that is all the engine knows; the
 * memory plan goes to opm_mem(). While recording is off or paused the engine runs bare: run/
 * compares both. An engine that learns its operators' times only afterwards (ONNX Runtime) reports
 * them in engine_flush(). Steps, records and warm-up are run/'s business, not the engine's. */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "graph/graph.h"

struct engine;

/* native: block-sparse kernels for weights with zero blocks. */
enum engine_sparse {
    ENGINE_SPARSE_AUTO, /* where a measurement says that it is faster */
    ENGINE_SPARSE_NEVER,
    ENGINE_SPARSE_ALWAYS, /* wherever there is a kernel: for tests and measurements */
};

struct engine_options {
    int threads;         /* 0: as many as there are cores */
    bool pin;            /* bind threads to cores */
    int first_core;      /* where pinning starts */
    bool winograd;       /* native: allow Winograd convolutions */
    const char *ort_lib; /* onnxruntime: library to load; NULL: look for it */
    const char *scratch; /* onnxruntime: folder for its profile; NULL: TMPDIR or /tmp */
    enum engine_sparse sparse;
    int64_t max_tensor_bytes; /* native: refuse results that are bigger; 0: what fits into memory */
    int64_t max_rounds;       /* native: of bodies of control flow in a run; 0: no limit */
    int64_t max_memory; /* native: bytes it may take besides the model's own; 0: what there is */
    /* Asked now and then while a run is under way (native: while preparing, too). Nonzero: give up,
     * with OPM_ELIMIT; what is within an operator ends soon as well (onnxruntime: after the
     * operator). native asks in the thread that runs, onnxruntime in one of its own, while the one
     * that runs waits. NULL: nobody is asked. */
    int (*stop)(void *stop_user);
    void *stop_user;
};
#define ENGINE_OPTIONS_INIT                                                    \
    {                                                                          \
        0, false, 0, true, NULL, NULL, ENGINE_SPARSE_AUTO, 0, 0, 0, NULL, NULL \
    }

/* An input or output as the model declares it. */
struct engine_value {
    const char *name;
    enum tensor_type type;
    struct shape shape; /* open dimensions are negative, see model_dim_name() */
    enum value_kind kind;
};

/* A tensor in memory. Inputs: the caller's, 64-byte aligned, unchanged by the run. Outputs: the
 * engine's, valid until the next run, prepare or close.
 *
 * Strings: data is an array of struct tensor_string. What is no tensor has TENSOR_NONE as its type
 * and a kind: data of a VALUE_SEQUENCE is an array of shape.dim[0] engine_tensors, that of a
 * VALUE_MAP of two, keys and values, and a VALUE_OPTIONAL is an empty one (what is in an optional
 * comes as itself). */
struct engine_tensor {
    enum tensor_type type;
    struct shape shape; /* concrete */
    void *data;
    size_t bytes;
    enum value_kind kind;
};
/* Bytes of such a tensor, of strings too; -1 if unknown or too many. */
int64_t engine_bytes(const struct shape *s, enum tensor_type t);

/* Memory that an engine holds for the shapes of the last prepare, in bytes; what a model computes
 * in subgraphs and in shapes that depend on data counts from the first run on. */
struct engine_memory {
    int64_t arena;    /* activations and workspace */
    int64_t packed;   /* weights in an order of its own */
    int64_t winograd; /* by which those are bigger because of Winograd convolutions */
};

/* Kinds of runs: while recording is off or paused, and the others. */
enum engine_kind { ENGINE_BARE = 1, ENGINE_METERED = 2 };

struct engine_class {
    const char *name; /* the --engine value */
    const char *doc;
    /* Fails with OPM_EUNSUPPORTED and one line that lists every operator it lacks, with nodes, and
     * the engine that could run them. m outlives the engine. */
    int (*open)(struct engine **out, struct model *m, const struct engine_options *opts,
                opm_error *err);
    const struct engine_value *(*inputs)(const struct engine *e, size_t *n);
    const struct engine_value *(*outputs)(const struct engine *e, size_t *n);
    /* Get ready for inputs of these shapes (data may be looked at, for shape inputs). */
    int (*prepare)(struct engine *e, const struct engine_tensor *in, size_t nin, opm_error *err);
    /* in[] and out[] in the order of inputs() and outputs(). */
    int (*run)(struct engine *e, const struct engine_tensor *in, size_t nin,
               struct engine_tensor *out, size_t nout, opm_error *err);
    /* From the next run on output i is written to this memory of the caller's, 64-byte aligned and
     * big enough, which run() returns then; data NULL: into the engine's own again. It may be that
     * of an input of that run only where the model writes into that (GroupQueryAttention into its
     * cache). type: as declared, or own_type() of that. shape: what it will be. NULL: no such
     * thing.
     */
    int (*bind)(struct engine *e, size_t i, const struct engine_tensor *to, opm_error *err);
    /* The type that the engine computes with where a model declares t; inputs may be of it, too.
     * NULL: t. */
    enum tensor_type (*own_type)(enum tensor_type t);
    /* Runs of these kinds (enum engine_kind) follow; what only others need is given back, so that
     * it takes neither memory nor, by waiting busily, cores. A run of another kind is no error, but
     * must get ready first. NULL: all kinds need the same, and may take turns. */
    int (*arrange)(struct engine *e, unsigned kinds, opm_error *err);
    int (*flush)(struct engine *e, opm_error *err);                    /* NULL: nothing to flush */
    void (*memory)(const struct engine *e, struct engine_memory *out); /* NULL: it does not tell */
    const char *(*version)(const struct engine *e); /* such as "1.30.0"; NULL: opmeter's own */
    void (*close)(struct engine *e);                /* NULL is fine */
};

/* Every engine struct begins with this. */
struct engine {
    const struct engine_class *class;
};

extern const struct engine_class *const engines[];        /* the default first; ends with NULL */
const struct engine_class *engine_find(const char *name); /* NULL if there is none */

extern const struct engine_class engine_native; /* native/plan/native.c */
extern const struct engine_class engine_ort;    /* ort/ort.c */

#endif
