/* cambricon_int.h -- the parts of the reader of Cambricon's profile folders.
 *
 * cambricon.c finds the files and decides which are read; cambricon_stats.c reads TensorFlow's
 * StepStats, cambricon_json.c activities, timelines and summaries; cambricon_rows.c makes rows. */
#ifndef IMPORT_CAMBRICON_CAMBRICON_INT_H
#define IMPORT_CAMBRICON_CAMBRICON_INT_H

#include "base/u64map.h"
#include "import/common/build.h"
#include "import/common/json_texts.h"

#define CAM_OUTPUTS_MAX 32

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
    int64_t end_ns;        /* of what was laid end to end so far */
    bool activities;       /* known already */
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

/* Each reads a whole file; damage is counted. */
void cam_read_stats(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len);
void cam_read_timeline(struct cam *c, str_id model, int64_t step, const uint8_t *data, size_t len);
void cam_read_activities(struct cam *c, const uint8_t *data, size_t len);
void cam_read_summary(struct cam *c, const uint8_t *data, size_t len);

#endif
