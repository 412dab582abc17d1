/* ml.h -- what kernels of ai.onnx.ml share. */
#ifndef NATIVE_ML_H
#define NATIVE_ML_H

#include "engine/native/op.h"

/* What becomes of scores; numbers are those of TreeEnsemble's post_transform. */
enum ml_post { ML_NONE, ML_SOFTMAX, ML_LOGISTIC, ML_SOFTMAX_ZERO, ML_PROBIT };
enum ml_post ml_post_of(const struct node *n);
/* n scores in place. */
void ml_post(enum ml_post post, float *score, int64_t n);
/* How the one score of two classes becomes theirs: positive ones are of class 1. */
enum ml_pair {
    ML_PAIR_PROBABILITY, /* 1 - s, s */
    ML_PAIR_SIGNED,      /* -s, s; with ML_LOGISTIC, of both */
};
void ml_post_pair(enum ml_post post, enum ml_pair pair, float *score);

/* x where it is greater than `most`, which is not NaN: a maximum of rows as fmax() makes it, whose
 * loop is an internal error of Debian's gcc 12 for ARM64. */
static inline double ml_greater(double most, double x)
{
    return x > most ? x : most;
}

/* An operand of rows, or one row; false if it is neither. */
bool ml_matrix(const struct nt *x, int64_t *rows, int64_t *cols);
/* One row as floats: the operand's own memory, or room. */
const float *ml_row(const struct nt *x, int64_t row, int64_t cols, float *room);

/* The labels of a classifier. */
struct ml_labels {
    const struct tensor_string *text; /* or NULL */
    const int64_t *number;            /* or NULL: those from 0 on */
    int64_t n;
};
struct ml_labels ml_labels_of(const struct node *n);
/* Label `at` as element i of a tensor. */
void ml_label_put(const struct ml_labels *l, struct nt *out, int64_t i, int64_t at);

/* A list of numbers that is an attribute NAME, or a tensor NAME_as_tensor. */
struct ml_list {
    const float *f;
    const struct tensor *t;
    size_t n;
};
struct ml_list ml_list_of(const struct node *n, const char *name);
double ml_list_at(const struct ml_list *l, size_t i);

#endif
