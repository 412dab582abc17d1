/* mindspore_int.h -- the parts of the reader of MindSpore profiler folders.
 *
 * mindspore.c finds the files and decides which are read; mindspore_files.def lists them. Each
 * reader gets the bytes of one kind of file of one device and adds rows; it says through
 * device.added how many, so that the next best kind of file is tried if there were none.
 *
 * All times of a device are on its counter, 10 ns a tick; some files have it in us or ms. */
#ifndef IMPORT_MINDSPORE_MINDSPORE_INT_H
#define IMPORT_MINDSPORE_MINDSPORE_INT_H

#include "base/buf.h"
#include "base/u64map.h"
#include "import/common/json_texts.h"
#include "import/import.h"

#define MS_TICK_NS 10

/* What files can tell. A device gets each from the first kind of file, in the order of the list,
 * that has it. */
enum ms_topic {
    MS_EXTRA, /* all of these are read: machine, versions, clocks, totals */
    MS_FLOPS,
    MS_OPS,
    MS_TASKS, /* which operator a task of the device is */
    MS_POINTS,
    MS_STEPS,
    MS_AICPU, /* before spans: timelines repeat them */
    MS_SPANS,
    MS_AVERAGES, /* of operators, if there are no spans */
    MS_DATA_QUEUE,
    MS_PIPELINE,
    MS_HOST_QUEUE,
    MS_CPU,
    MS_COMMUNICATION,
    MS_STEP_TIMES,
    MS_TOPIC_COUNT,
};

struct ms_words {
    str_id stream, queue, counter, thread;
    str_id hardware, framework, app, runtime;
    str_id op, step, phase, fp_bp, forward, collective, aicpu, task, scope, data;
    str_id input, output, fetch, interval;
};

/* A task that began. */
struct ms_start {
    uint64_t key;
    uint32_t op; /* OPM_NULL_ID: there is none */
    int64_t ts_ns;
    uint32_t stream;
};

#define MS_NONE OPM_NULL_I64
struct ms_step {
    int64_t num; /* or MS_NONE: counted */
    int64_t start_ns, end_ns;
    int64_t fp_ns, bp_ns; /* or MS_NONE */
    bool inference;       /* bp_ns is the end of the forward pass */
};

struct ms_device {
    int64_t id;
    bool host;                 /* files that belong to no device */
    str_id name;               /* "Ascend 1" */
    size_t added;              /* by the reader that runs */
    uint32_t has;              /* bit per topic */
    const char *kind;          /* Ascend, GPU, CPU */
    struct u64map track;       /* by MS_TRACK_KEY */
    struct u64map op;          /* by str_id of the full name */
    struct u64map task;        /* by ms_task_key(): op */
    struct u64map flops;       /* by str_id of the full name */
    struct u64map point;       /* by tag: str_id */
    str_id fp_point, bp_point; /* operators at which its steps are split; 0: not said */
    struct u64map task_began;  /* tasks without operator, by key */
    struct ms_start began;     /* the last start of an operator */
    struct u64map reduce_seen;
    struct u64map step_at; /* by number: ts */
    int64_t origin_ns;     /* of timelines that begin at 0; MS_NONE: unknown */
    str_id root;           /* of the data pipeline: what fills the host queue */
    bool skip_first_step;
    int64_t step_count;
    struct ms_step first_step; /* not added yet: whether it counts depends on there being others */
    bool first_step_held;
    struct store_part part;
};

struct ms {
    struct store *st;
    const struct import_source *src;
    const char *path; /* of the file that is read */
    struct ms_words w;
    struct buf text;         /* scratch */
    struct json_texts texts; /* of the file, or event, that is read */
    int64_t progress_done, progress_total;
};

typedef int ms_reader(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len);

#define X(topic, pattern, reader, use, sign) ms_reader reader;
#include "import/mindspore/mindspore_files.def"
#undef X

int ms_start(struct ms *m, struct store *st, const struct import_source *src);
void ms_device_release(struct ms_device *d);

/* Tracks of a device, made when first asked for. */
enum ms_track_kind {
    MS_TRACK_STREAM,
    MS_TRACK_COLLECTIVE, /* of a stream */
    MS_TRACK_STEPS,
    MS_TRACK_AICPU,
    MS_TRACK_WAITS, /* for data */
    MS_TRACK_AVERAGES,
    MS_TRACK_PROCESS, /* other processes of a timeline; number: str_id of the name */
};
int ms_track(struct ms *m, struct ms_device *d, enum ms_track_kind kind, uint32_t number,
             uint32_t *out);
/* A queue or counter. */
struct ms_series {
    const char *name;
    str_id kind, producer, consumer, sampling;
    const char *unit;
    int64_t capacity, workers; /* or OPM_NULL_I64 */
};
int ms_series(struct ms *m, struct ms_device *d, const struct ms_series *s, uint32_t *out);
int ms_sample(struct ms *m, struct ms_device *d, uint32_t track, int64_t ts_ns, double value);
/* Where samples without a time of the device begin. */
int64_t ms_start_ns(struct ms *m, struct ms_device *d);

/* The operator of a full name, made if it is new: its type is in the name then. */
int ms_op(struct ms *m, struct ms_device *d, const char *name, size_t len, uint32_t *out);
/* name, type, JSON of attributes (or NULL); OPM_NULL_ID in *out: it was known already. */
int ms_op_new(struct ms *m, struct ms_device *d, const char *name, size_t len, const char *type,
              size_t type_len, const char *attributes, uint32_t *out);
struct ms_tensor {
    str_id io;
    int64_t slot;
    const char *dtype, *shape; /* as MindSpore writes them */
    size_t dtype_len, shape_len;
};
int ms_op_tensor(struct ms *m, uint32_t op, const struct ms_tensor *t);
/* Tensors from {"input_0": {"format": F, "data_type": T, "shape": "1,2"}, "output_0": ...}. */
int ms_op_info(struct ms *m, uint32_t op, const char *json, size_t len);

struct ms_span {
    uint32_t track;
    int64_t ts_ns, dur_ns;
    str_id name, cat, layer;
    uint32_t op; /* or OPM_NULL_ID */
    str_id args;
};
int ms_span(struct ms *m, struct ms_device *d, const struct ms_span *s);
/* An execution of an operator on the device. */
int ms_op_span(struct ms *m, struct ms_device *d, uint32_t track, uint32_t op, int64_t ts_ns,
               int64_t dur_ns, str_id args);

int ms_step(struct ms *m, struct ms_device *d, const struct ms_step *s);
int ms_steps_end(struct ms *m, struct ms_device *d);
/* name: of the operator, or 0: stream_<stream>_parallel_<number>. */
int ms_collective(struct ms *m, struct ms_device *d, uint32_t stream, uint32_t number, str_id name,
                  int64_t from_ns, int64_t to_ns);

/* A task of the device began or ended; see mindspore_hwts.c. */
uint64_t ms_task_key(uint64_t stream, uint64_t task);
int ms_task(struct ms *m, struct ms_device *d, uint64_t key, uint32_t stream, bool end,
            uint64_t ticks);
int ms_tasks_end(struct ms *m, struct ms_device *d);

/* As text_decimal(), for times and durations: false if it is negative or beyond reason. */
bool ms_time(struct text t, int shift, int64_t *out_ns);
/* Ticks as ns; false if that is beyond reason. */
bool ms_ticks(uint64_t ticks, int64_t *out_ns);
/* "Default/a/Conv2D-op13" to "Conv2D". */
struct text ms_type_of(struct text full_name);
int ms_fact(struct ms *m, const struct ms_device *d, const char *key, const char *value,
            size_t len);

#endif
