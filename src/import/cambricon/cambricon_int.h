/* cambricon_int.h -- the parts of the reader of Cambricon's profile folders.
 *
 * cambricon.c finds the files, cambricon_files.c decides which are of the last run;
 * cambricon_stats.c reads TensorFlow's
 * StepStats, cambricon_json.c activities, timelines and summaries; cambricon_rows.c makes rows. */
#ifndef IMPORT_CAMBRICON_CAMBRICON_INT_H
#define IMPORT_CAMBRICON_CAMBRICON_INT_H

#include "base/u64map.h"
#include "import/common/build.h"
#include "import/common/json_texts.h"

#define CAM_OUTPUTS_MAX 32
#define CAM_FILES_MAX 20000

struct cam_output {
    int64_t slot;
    struct text dtype;
    char shape[96];
};

/* One execution of a node. */
struct cam_node {
    struct text device, name, type; /* no type: it is in the label, or not known */
    struct text label;              /* "name = Type(inputs)" */
    int64_t ts_ns, dur_ns;          /* ts OPM_NULL_I64: not known */
    int64_t thread;                 /* or OPM_NULL_I64 */
    int64_t bytes;                  /* of memory, or OPM_NULL_I64 */
    int64_t scheduled_ns;           /* or OPM_NULL_I64 */
    int64_t op_start_ns, op_end_ns; /* of the computation, since ts_ns; or OPM_NULL_I64 */
    struct text memory;             /* its messages of StepStats, as text; empty: none */
    struct cam_output output[CAM_OUTPUTS_MAX];
    size_t noutput;
};

struct cam_step {
    uint32_t before; /* another one with this number, or OPM_NULL_ID */
    str_id model;    /* or 0 */
    int64_t num;
    int64_t from_ns, to_ns;         /* of its nodes; from OPM_NULL_I64: none with a time */
    int64_t run_from_ns, run_to_ns; /* as the program marked it, likewise */
    bool stats;                     /* its nodes are known from StepStats */
    bool timed;                     /* its nodes are known with times */
};

struct cam {
    struct build b;
    struct cam_step *step;
    struct u64map step_of; /* number to the last one that has it */
    size_t nstep, step_cap;
    struct u64map op, track;
    struct u64map counter; /* of memory: str_id of the allocator to track */
    uint32_t app;          /* track of activities; OPM_NULL_ID: not made yet */
    uint32_t app_untimed;  /* of those without a start, where others have one; likewise */
    struct u64map known;   /* activities with times, by cam_listed_key() */
    int64_t end_ns;        /* of what was laid end to end so far */
    bool activities;       /* some are known with times */
    bool untimed;          /* those that come have none, and others have */
    struct buf text;
    struct json_texts texts; /* of the file, or event, that is read */
    size_t nodes;            /* added */
};

/* A step, made if it is new. NULL: no memory. The pointer is valid until the next call. */
struct cam_step *cam_step(struct cam *c, str_id model, int64_t num);
void cam_node(struct cam *c, struct cam_step *s, const struct cam_node *n);
void cam_activity(struct cam *c, struct cam_step *s, struct text name, int64_t ts_ns,
                  int64_t dur_ns, struct text meta);
void cam_steps_end(struct cam *c);
/* Frees what it holds, on success and on failure. */
void cam_release(struct cam *c);

/* A file of a step: "stats_3", "timeline_3" or "<model>_step_3". */
struct cam_file {
    char *name;
    struct text model; /* of its name; empty: it tells none */
    int64_t num;       /* -1: its name has no number */
    int64_t start_us;  /* of the first node in it, or OPM_NULL_I64 */
    bool stale;        /* an earlier run left it */
};
struct cam_files {
    struct cam_file *item; /* in natural order of their names */
    size_t n, beyond;      /* beyond: more, not listed */
};
/* Number of the step in a file's name. */
bool cam_name_read(const char *name, const char *prefix, struct text *model, int64_t *step);
/* List the files of folder/sub and tell those of an earlier run. A run writes its steps in their
 * order and over those of an earlier one, so a step with a higher number than the latest one's that
 * began before it is older. Where the summary lists steps, so is one that it does not list and that
 * began before the last one it lists. An absent folder has no files. 0 or OPM_ENOMEM. */
int cam_files_list(struct cam_files *out, const char *folder, const char *sub, const char *prefix,
                   const struct u64map *listed);
void cam_files_release(struct cam_files *f);
/* The steps that a summary has operators of: hashes of model and number, and of "" and number. */
uint64_t cam_listed_key(struct text model, int64_t num);
int cam_list_steps(const uint8_t *data, size_t len, struct u64map *out);

/* Each reads a whole file; damage is counted. */
void cam_read_stats(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len);
void cam_read_timeline(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len);
void cam_read_activities(struct cam *c, const uint8_t *data, size_t len);
void cam_read_summary(struct cam *c, const uint8_t *data, size_t len);

#endif
