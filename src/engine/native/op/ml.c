/* ml.c -- see ml.h. */
#include "engine/native/op/ml.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum ml_post ml_post_of(const struct node *n)
{
    static const char *const names[] = { "NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT" };
    const char *name = node_attr_str(n, "post_transform", "");
    int64_t number = node_attr_int(n, "post_transform", 0);

    for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum ml_post)i;
    return number > 0 && number < (int64_t)ARRAY_SIZE(names) ? (enum ml_post)number : ML_NONE;
}

static float logistic(float x)
{
    return (float)(1 / (1 + exp(-(double)x)));
}

/* The number that a normal one stays below with probability p. */
static float probit(float p)
{
    double a = 0.147, y = 2 * (double)p - 1, l = log((1 - y) * (1 + y)), x,
           t = 2 / ((double)M_PI * a) + l / 2;

    if (!(fabs(y) < 1))
        return fabsf(p - 0.5f) == 0.5f ? (y < 0 ? -INFINITY : INFINITY) : NAN;
    x = copysign(sqrt(sqrt(t * t - l / a) - t), y);
    for (int i = 0; i < 3; i++) /* Newton, from Winitzki's approximation of erf's inverse */
        x -= (erf(x) - y) / (2 / sqrt((double)M_PI) * exp(-x * x));
    return (float)(M_SQRT2 * x);
}

static void softmax(float *score, int64_t n, bool zeros)
{
    double most = (double)-INFINITY, sum = 0;

    for (int64_t i = 0; i < n; i++)
        most = ml_greater(most, (double)score[i]);
    for (int64_t i = 0; i < n; i++) {
        double v = zeros && fabsf(score[i]) <= 1e-7f ? 0 : exp((double)score[i] - most);

        sum += v;
        score[i] = (float)v;
    }
    for (int64_t i = 0; i < n && sum > 0; i++)
        score[i] = (float)((double)score[i] / sum);
}

void ml_post(enum ml_post post, float *score, int64_t n)
{
    if (post == ML_SOFTMAX || post == ML_SOFTMAX_ZERO)
        softmax(score, n, post == ML_SOFTMAX_ZERO);
    for (int64_t i = 0; i < n && (post == ML_LOGISTIC || post == ML_PROBIT); i++)
        score[i] = post == ML_LOGISTIC ? logistic(score[i]) : probit(score[i]);
}

void ml_post_pair(enum ml_post post, enum ml_pair pair, float *score)
{
    float s = score[0];

    if (pair == ML_PAIR_PROBABILITY) {
        score[1] = s;
        score[0] = 1 - s;
    } else if (post == ML_LOGISTIC) {
        score[1] = logistic(s);
        score[0] = logistic(-s);
    } else {
        score[1] = s;
        score[0] = -s;
    }
}

bool ml_matrix(const struct nt *x, int64_t *rows, int64_t *cols)
{
    if (x->shape.rank != 1 && x->shape.rank != 2)
        return false;
    *rows = x->shape.rank == 2 ? x->shape.dim[0] : 1;
    *cols = x->shape.dim[x->shape.rank - 1];
    return true;
}

const float *ml_row(const struct nt *x, int64_t row, int64_t cols, float *room)
{
    if (x->type == TENSOR_F32)
        return (const float *)x->data + row * cols;
    for (int64_t i = 0; i < cols; i++)
        room[i] = (float)nt_float(x, row * cols + i);
    return room;
}

struct ml_labels ml_labels_of(const struct node *n)
{
    const struct attr *text = node_attr(n, "classlabels_strings");
    struct ml_labels l = { 0 };
    size_t len = 0;

    if (text && text->type == ATTR_STRINGS && text->n) {
        l.text = text->string;
        len = text->n;
    } else {
        l.number = node_attr_ints(n, "classlabels_int64s", &len);
        if (!len)
            l.number = node_attr_ints(n, "classlabels_ints", &len);
    }
    l.n = (int64_t)len;
    return l;
}

void ml_label_put(const struct ml_labels *l, struct nt *out, int64_t i, int64_t at)
{
    if (!out)
        return;
    if (l->text)
        ((struct tensor_string *)out->data)[i] = l->text[MIN(at, l->n - 1)];
    else
        ((int64_t *)out->data)[i] = at < l->n ? l->number[at] : at;
}

struct ml_list ml_list_of(const struct node *n, const char *name)
{
    struct ml_list l = { 0 };
    char tensor[80];

    snprintf(tensor, sizeof(tensor), "%s_as_tensor", name);
    l.f = node_attr_floats(n, name, &l.n);
    if (l.n)
        return l;
    l.t = node_attr_tensor(n, tensor);
    if (!l.t)
        l.t = node_attr_tensor(n, name);
    l.n = l.t ? (size_t)l.t->count : 0;
    return l;
}

double ml_list_at(const struct ml_list *l, size_t i)
{
    return l->t ? tensor_float(l->t, (int64_t)i) : (double)l->f[i];
}
