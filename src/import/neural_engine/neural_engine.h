/* neural_engine.h -- what the two files of Intel's Neural Engine have in common.
 *
 * Its CSV (profiling_csv/) has one time per operator, its JSON (profiling_trace/) every execution
 * on three levels; `opmeter export` writes both formats, too, with true times. Both name an
 * operator's tensors as lists in text, which become rows of op_tensor. */
#ifndef IMPORT_NEURAL_ENGINE_NEURAL_ENGINE_H
#define IMPORT_NEURAL_ENGINE_NEURAL_ENGINE_H

#include "base/buf.h"
#include "base/u64map.h"
#include "import/import.h"

struct neural_words {
    str_id input, weight, output;
    str_id framework, app, forward, reshape;
    str_id thread, op, step, engine, model;
};

struct neural {
    struct store *st;
    const struct import_source *src;
    struct neural_words word;
    struct u64map ops;     /* name << 32 | type */
    struct u64map tensors; /* op: its first row of op_tensor, of the source whose ops were taken */
    size_t end_tensor;     /* behind the last of that source */
    struct buf text;
};

/* Texts of one operator; a list has `sep` between tensors and `times` between dimensions. */
struct neural_list {
    const char *names, *shapes, *dtypes; /* "": none */
};

struct neural_op_row {
    str_id name, type, post_op, attributes, weight_shape;
    double zero_ratio;      /* NaN: not known */
    int64_t sparse_support; /* OPM_NULL_I64: not known */
    double aim, ratio;      /* as a user may have set them; NaN: not told */
    struct neural_list in, out;
    char sep, times;
};

int neural_init(struct neural *n, struct store *st, const struct import_source *src);
void neural_release(struct neural *n);
/* The op of that name and type; OPM_NULL_ID if there is none yet. */
uint32_t neural_find(const struct neural *n, str_id name, str_id type);
/* Add it with its tensors. 0 or OPM_ENOMEM. */
int neural_add_op(struct neural *n, const struct neural_op_row *row, uint32_t *out);
/* Give an op that another source added what only the CSV knows: weight, zeros, aim and ratio. */
int neural_complete_op(struct neural *n, const struct neural_op_row *row, uint32_t op);
/* Make the ops of another source those that neural_find() looks among. */
int neural_take_ops(struct neural *n, const struct store_part *part);
int neural_add_span(struct neural *n, uint32_t track, int64_t ts, int64_t dur,
                    const struct site *site, str_id args);
int neural_add_step(struct neural *n, uint32_t track, int64_t num, int64_t ts, int64_t dur,
                    str_id model, bool warmup);
int neural_add_track(struct neural *n, str_id name, int64_t pid, int64_t tid, uint32_t *out);

#endif
