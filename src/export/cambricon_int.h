/* cambricon_int.h -- the profile folder of Cambricon's TensorFlow models, for the files that write
 * it: cambricon.c the folder and summary.json, cambricon_step.c the two files of a step. */
#ifndef EXPORT_CAMBRICON_INT_H
#define EXPORT_CAMBRICON_INT_H

#include "base/buf.h"
#include "base/u64map.h"
#include "export/op_tensors.h"
#include "export/writer.h"

/* A step of the trace, or the whole of one that has none. */
struct cam_step {
    uint32_t row; /* of step; OPM_NULL_ID: the whole trace */
    uint32_t model;
    int64_t num;
    int64_t ts, end;
};

struct cam_model {
    str_id name;     /* 0: none */
    struct buf file; /* its name as part of file names */
    bool renumber;   /* numbers are there twice: count instead */
    int64_t next;
};

/* An operator that ran in the step being written. */
struct cam_run {
    uint32_t op;
    uint32_t span;  /* its first execution */
    int64_t dur_ns; /* of all its executions */
    str_id host, device;
};

struct cam {
    const struct store *st;
    const struct export_options *opts;
    struct op_tensors tensors;
    size_t nspan, nop;
    const int64_t *ts, *dur;
    const uint32_t *track, *step, *parent, *span_site;
    const str_id *args;
    const struct site *site;
    int64_t origin_ns;
    str_id forward, app;
    struct cam_model *model;
    size_t nmodel, model_cap;
    struct cam_step *steps;
    size_t nstep, step_cap;
    struct cam_run *run; /* of the present step */
    size_t nrun, run_cap;
    uint32_t *run_of; /* [nop] index + 1 into run, 0: did not run */
};

/* Spans of a step: rows [*first, *end), of which those count that cam_in_step() takes. */
void cam_range(const struct cam *c, const struct cam_step *s, size_t *first, size_t *end);
static inline bool cam_in_step(const struct cam *c, const struct cam_step *s, size_t span)
{
    return s->row == OPM_NULL_ID || (c->step && c->step[span] == s->row);
}
/* Whether a span is an execution of an operator. */
static inline bool cam_is_op(const struct cam *c, size_t span)
{
    const struct site *site = &c->site[c->span_site[span]];

    return site->op < c->nop && (!site->phase || site->phase == c->forward);
}

/* A member of args, which may be 0: a number into *number, or a value as JSON into text; both stay
 * as they are if there is none. */
void cam_member(const struct cam *c, str_id args, const char *key, int64_t *number,
                struct buf *text);
const char *cam_text(const struct cam *c, str_id id, size_t *out_len); /* "" for none */
str_id cam_op_text(const struct cam *c, size_t op, int col);

/* timeline/NAME and step_stats/NAME below folder. */
int cam_write_step(struct cam *c, const struct cam_step *s, const char *folder, opm_error *err);

#endif
