/* ml_linear.c -- linear models, support vector machines, Scaler and Normalizer. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/ml.h"

#include <math.h>
#include <string.h>

#define TYPES_ML (TYPES_FLOAT | TYPE_BIT(TENSOR_I64) | TYPE_BIT(TENSOR_I32))

static int want_matrix(struct op *op, int64_t *rows, int64_t *cols, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_ML, err);

    if (!rc && !ml_matrix(kernel_in(op, 0), rows, cols))
        rc = kernel_fail(op, OPM_EINVAL, err, "wants a matrix, or one row");
    op->scratch_bytes = rc ? 0 : (size_t)*cols * sizeof(float);
    return rc;
}

/* -- Scaler, Normalizer -- */

int scaler_prepare(struct op *op, opm_error *err)
{
    size_t noffset, nscale;
    int64_t rows, cols;
    int rc = want_matrix(op, &rows, &cols, err);

    node_attr_floats(op->node, "offset", &noffset);
    node_attr_floats(op->node, "scale", &nscale);
    if (!rc &&
        ((noffset > 1 && (int64_t)noffset != cols) || (nscale > 1 && (int64_t)nscale != cols)))
        rc = kernel_fail(op, OPM_EINVAL, err, "offset and scale do not have %lld numbers",
                         (long long)cols);
    return rc ? rc : kernel_infer(op, err);
}

int scaler_run(struct op *op, opm_error *err)
{
    size_t noffset, nscale;
    const float *offset = node_attr_floats(op->node, "offset", &noffset),
                *scale = node_attr_floats(op->node, "scale", &nscale);
    const struct nt *x = kernel_in(op, 0);
    float *out = kernel_out(op, 0)->data;
    int64_t rows, cols;

    (void)err;
    ml_matrix(x, &rows, &cols);
    for (int64_t r = 0; r < rows; r++, out += cols) {
        const float *row = ml_row(x, r, cols, op->scratch);

        for (int64_t c = 0; c < cols; c++)
            out[c] = (row[c] - (noffset ? offset[noffset > 1 ? c : 0] : 0)) *
                     (nscale ? scale[nscale > 1 ? c : 0] : 1);
    }
    return 0;
}

int normalizer_prepare(struct op *op, opm_error *err)
{
    int64_t rows, cols;
    int rc = want_matrix(op, &rows, &cols, err);

    return rc ? rc : kernel_infer(op, err);
}

/* NaN is not. */
static float greatest(const float *x, int64_t n)
{
    double most = (double)-INFINITY;

    for (int64_t i = 0; i < n; i++)
        most = ml_greater(most, (double)x[i]);
    return (float)most;
}

int normalizer_run(struct op *op, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    bool l1 = node_attr_is(op->node, "norm", "L1", "MAX"),
         l2 = node_attr_is(op->node, "norm", "L2", "MAX");
    const struct nt *x = kernel_in(op, 0);
    float *out = kernel_out(op, 0)->data;
    int64_t rows, cols;

    (void)err;
    ml_matrix(x, &rows, &cols);
    for (int64_t r = 0; r < rows; r++, out += cols) {
        const float *row = ml_row(x, r, cols, op->scratch);
        float norm = cols ? isa->reduce(l1 ? R_ABS : l2 ? R_SQUARES : R_MAX, row, cols) : 0;

        if (l2)
            norm = sqrtf(norm);
        if (isnan(norm) && !l1 && !l2)
            norm = greatest(row, cols);
        norm = norm != 0 ? norm : 1;
        isa->binary(B_DIV, out, row, 1, &norm, cols == 1, cols);
    }
    return 0;
}

/* -- LinearRegressor, LinearClassifier -- */

struct linear {
    const float *coefficient, *intercept;
    float *packed; /* the coefficients */
    size_t ncoefficient, nintercept;
    int64_t rows, cols, scores; /* scores that are computed */
    struct ml_labels label;
};

static void linear_release(void *state)
{
    struct linear *s = state;

    native_free(s->packed);
    s->packed = NULL;
}

int linear_prepare(struct op *op, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    struct linear *s = kernel_new_state(op, sizeof(*s));
    int rc = s ? want_matrix(op, &s->rows, &s->cols, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    s->coefficient = node_attr_floats(op->node, "coefficients", &s->ncoefficient);
    s->intercept = node_attr_floats(op->node, "intercepts", &s->nintercept);
    s->scores = s->cols ? (int64_t)s->ncoefficient / s->cols : 0;
    s->label = ml_labels_of(op->node);
    if (s->scores < 1 || (int64_t)s->ncoefficient != s->scores * s->cols ||
        (s->nintercept && (int64_t)s->nintercept != s->scores))
        return kernel_fail(op, OPM_EINVAL, err, "%zu coefficients do not fit %lld features",
                           s->ncoefficient, (long long)s->cols);
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    const struct nt *y = kernel_out(op, op->kernel->arg == LINEAR_CLASSIFIER);

    if (y && y->shape.dim[1] != s->scores && !(s->scores == 1 && s->label.n == 2))
        rc = kernel_fail(op, OPM_EINVAL, err, "%zu coefficients are for %lld scores, not %lld",
                         s->ncoefficient, (long long)s->scores, (long long)y->shape.dim[1]);
    op->scratch_bytes = (size_t)(s->rows * (s->scores + s->cols)) * sizeof(float) + 1;
    op->release = linear_release;
    if (rc || s->packed)
        return rc;
    s->packed = native_alloc((size_t)gemm_size_b(isa, s->cols, s->scores) * sizeof(float));
    if (!s->packed)
        return kernel_nomem(op, err);
    gemm_pack_b(isa, s->packed, s->coefficient, s->cols, s->scores, 1, s->cols, 0,
                gemm_panels(s->scores, isa->nr));
    return 0;
}

/* All scores, before what follows. */
static void linear_scores(const struct op *op, const struct linear *s, float *out)
{
    const struct nt *x = kernel_in(op, 0);
    float *given = (float *)op->scratch + s->rows * s->scores;
    struct gemm g = { .isa = kernel_isa(op),
                      .m = s->rows,
                      .n = s->scores,
                      .k = s->cols,
                      .a = x->data,
                      .ars = s->cols,
                      .aks = 1,
                      .b = s->packed,
                      .c = out,
                      .ldc = s->scores,
                      .alpha = 1,
                      .add = s->nintercept ? s->intercept : NULL,
                      .add_cs = 1 };

    if (x->type != TENSOR_F32) {
        kernel_isa(op)->rows->cast[x->type][TENSOR_F32](given, x->data, x->count);
        g.a = given;
    }
    gemm_run_all(&g, kernel_pool(op));
}

#define SHORT_ROW 16

/* Exponentials of short rows are taken of all at once. */
static void softmax_rows(const struct isa *isa, float *x, int64_t rows, int64_t n)
{
    float most, sum;

    for (int64_t r = 0; r < rows && n > SHORT_ROW; r++)
        isa->softmax(x + r * n, x + r * n, n);
    if (n > SHORT_ROW)
        return;
    for (int64_t r = 0; r < rows; r++) {
        most = x[r * n];
        for (int64_t k = 1; k < n; k++)
            most = x[r * n + k] > most ? x[r * n + k] : most;
        for (int64_t k = 0; k < n; k++)
            x[r * n + k] -= most;
    }
    isa->unary(U_EXP, x, x, rows * n, 0, 0);
    for (int64_t r = 0; r < rows; r++) {
        sum = 0;
        for (int64_t k = 0; k < n; k++)
            sum += x[r * n + k];
        for (int64_t k = 0; k < n; k++)
            x[r * n + k] /= sum;
    }
}

static void linear_post(const struct op *op, enum ml_post post, float *score, int64_t rows,
                        int64_t n)
{
    const struct isa *isa = kernel_isa(op);

    if (post == ML_LOGISTIC)
        isa->unary(U_SIGMOID, score, score, rows * n, 0, 0);
    else if (post == ML_SOFTMAX)
        softmax_rows(isa, score, rows, n);
    else
        for (int64_t r = 0; r < rows && post != ML_NONE; r++, score += n)
            ml_post(post, score, n);
}

int linear_run(struct op *op, opm_error *err)
{
    const struct linear *s = op->state;
    bool classes = op->kernel->arg == LINEAR_CLASSIFIER, pair = classes && s->scores == 1;
    enum ml_post post = ml_post_of(op->node);
    struct nt *y = kernel_out(op, classes);
    int64_t width = pair && s->label.n == 2 ? 2 : s->scores;
    float *score = op->scratch;

    (void)err;
    if (!classes) {
        score = y->data;
        linear_scores(op, s, score);
        linear_post(op, post, score, s->rows, width);
        return 0;
    }
    linear_scores(op, s, score);
    for (int64_t r = 0; r < s->rows; r++) {
        const float *row = score + r * s->scores;
        int64_t best = 0;

        for (int64_t k = 1; k < s->scores; k++)
            best = row[k] > row[best] ? k : best;
        ml_label_put(&s->label, kernel_out(op, 0), r, pair ? row[0] > 0 : best);
    }
    if (!y)
        return 0;
    if (width == s->scores || post == ML_PROBIT) {
        linear_post(op, post, score, s->rows, s->scores);
        memset(y->data, 0, width > s->scores ? y->bytes : 0);
        for (int64_t r = 0; r < s->rows; r++)
            memcpy((float *)y->data + r * width, score + r * s->scores,
                   (size_t)s->scores * sizeof(*score));
        return 0;
    }
    for (int64_t r = 0; r < s->rows; r++) {
        float *to = (float *)y->data + r * width;

        to[0] = score[r];
        ml_post_pair(post, ML_PAIR_SIGNED, to);
        if (post == ML_SOFTMAX || post == ML_SOFTMAX_ZERO)
            ml_post(post, to, width);
    }
    return 0;
}

/* -- support vector machines -- */

enum svm_kernel { SVM_LINEAR, SVM_POLY, SVM_RBF, SVM_SIGMOID };

struct svm {
    enum svm_kernel kernel;
    double gamma, coef0, degree;
    const float *coefficient, *vector, *rho, *prob_a, *prob_b;
    size_t ncoefficient, nrho, nprob;
    int64_t nvector; /* 0: a linear model, of coefficients alone */
    const int64_t *per_class;
    struct ml_labels label;
    int64_t rows, cols, classes;
    bool all_positive;
    double *kernels, *score, *prob, *estimate; /* of a row */
    int64_t *votes;
    float *columns, *distance; /* the vectors side by side, and how far from them a row is */
    int64_t wide;
};

static void svm_release(void *state)
{
    struct svm *s = state;

    mem_free(s->kernels);
    mem_free(s->votes);
    native_free(s->columns);
    s->columns = NULL;
}

static void svm_read(const struct node *n, struct svm *s)
{
    static const char *const names[] = { "LINEAR", "POLY", "RBF", "SIGMOID" };
    const char *name = node_attr_str(n, "kernel_type", "LINEAR");
    size_t len;
    const float *params = node_attr_floats(n, "kernel_params", &len);

    for (int i = 0; i < (int)ARRAY_SIZE(names); i++)
        if (strcmp(name, names[i]) == 0)
            s->kernel = (enum svm_kernel)i;
    s->gamma = len > 0 ? (double)params[0] : 0;
    s->coef0 = len > 1 ? (double)params[1] : 0;
    s->degree = len > 2 ? (double)params[2] : 0;
    s->coefficient = node_attr_floats(n, "coefficients", &s->ncoefficient);
    s->rho = node_attr_floats(n, "rho", &s->nrho);
    s->prob_a = node_attr_floats(n, "prob_a", &s->nprob);
    s->prob_b = node_attr_floats(n, "prob_b", &len);
    s->nprob = MIN(s->nprob, len);
    s->label = ml_labels_of(n);
    s->all_positive = true;
    for (size_t i = 0; i < s->ncoefficient; i++)
        s->all_positive = s->all_positive && s->coefficient[i] >= 0;
}

/* Do the lists fit each other, and the features? */
static bool svm_fits(const struct op *op, struct svm *s)
{
    size_t nvalue, len = 0;
    int64_t sum = 0, pairs;

    s->vector = node_attr_floats(op->node, "support_vectors", &nvalue);
    if (op->kernel->arg == SVM_REGRESSOR) {
        s->nvector = node_attr_int(op->node, "n_supports", 0);
        return s->nrho >= 1 &&
               (s->nvector > 0 ? (int64_t)nvalue == s->nvector * s->cols &&
                                     (int64_t)s->ncoefficient >= s->nvector
                               : s->nvector == 0 && (int64_t)s->ncoefficient == s->cols);
    }
    s->per_class = node_attr_ints(op->node, "vectors_per_class", &len);
    s->classes = s->label.n;
    if (!len) { /* linear */
        return s->nrho >= 1 && s->classes >= 1 && (int64_t)s->ncoefficient == s->classes * s->cols;
    }
    for (size_t i = 0; i < len; i++) {
        if (s->per_class[i] < 0 || sum > INT32_MAX)
            return false;
        sum += s->per_class[i];
    }
    s->nvector = sum;
    pairs = (int64_t)len * ((int64_t)len - 1) / 2;
    return sum > 0 && len >= 2 && len < 65536 && (int64_t)len == s->classes &&
           (int64_t)nvalue == sum * s->cols &&
           (int64_t)s->ncoefficient >= ((int64_t)len - 1) * sum && (int64_t)s->nrho >= pairs &&
           (s->nprob == 0 || (int64_t)s->nprob >= pairs);
}

int svm_prepare(struct op *op, opm_error *err)
{
    struct svm *s = kernel_new_state(op, sizeof(*s));
    int64_t pairs, room;
    int rc = s ? want_matrix(op, &s->rows, &s->cols, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = svm_release;
    svm_read(op->node, s);
    if (!svm_fits(op, s))
        return kernel_fail(op, OPM_EINVAL, err,
                           "coefficients, vectors and classes do not fit each other");
    svm_release(s);
    pairs = MAX(s->classes * (s->classes - 1) / 2, s->classes);
    room = s->nvector + pairs + 2 + s->classes * s->classes + s->classes * (s->classes + 2);
    s->kernels = mem_calloc((size_t)room + 1, sizeof(*s->kernels));
    s->votes = mem_calloc((size_t)s->classes + 1, sizeof(*s->votes));
    if (!s->kernels || !s->votes)
        return kernel_nomem(op, err);
    if (s->kernel == SVM_RBF && s->nvector) {
        s->wide = (s->nvector + ROWS_DISTANCES - 1) / ROWS_DISTANCES * ROWS_DISTANCES;
        s->columns = native_alloc((size_t)(s->wide * (s->cols + 1)) * sizeof(*s->columns));
        if (!s->columns)
            return kernel_nomem(op, err);
        memset(s->columns, 0, (size_t)(s->wide * s->cols) * sizeof(*s->columns));
        for (int64_t v = 0; v < s->nvector; v++)
            for (int64_t c = 0; c < s->cols; c++)
                s->columns[c * s->wide + v] = s->vector[v * s->cols + c];
        s->distance = s->columns + s->wide * s->cols;
    }
    s->score = s->kernels + s->nvector;
    s->prob = s->score + pairs + 2;
    s->estimate = s->prob + s->classes * s->classes;
    return kernel_infer(op, err);
}

static double svm_kernel(const struct isa *isa, const struct svm *s, const float *a, const float *b)
{
#define DOT (double)isa->dot(a, b, s->cols)
    double sum = 0;

    switch (s->kernel) {
    case SVM_POLY:
        return pow(s->gamma * DOT + s->coef0, s->degree);
    case SVM_SIGMOID:
        return tanh(s->gamma * DOT + s->coef0);
    case SVM_RBF:
        for (int64_t i = 0; i < s->cols; i++)
            sum += ((double)a[i] - (double)b[i]) * ((double)a[i] - (double)b[i]);
        return exp(-s->gamma * sum);
    default:
        return DOT;
    }
#undef DOT
}

/* Of a row and all vectors. */
static void svm_kernels(const struct isa *isa, const struct svm *s, const float *row)
{
    if (s->columns) {
        isa->rows->distance[TENSOR_F32](s->distance, row, s->columns, s->cols, s->wide);
        for (int64_t v = 0; v < s->nvector; v++)
            s->kernels[v] = -s->gamma * (double)s->distance[v];
        isa->rows->real->unary[F64_EXP](s->kernels, s->kernels, s->nvector);
    } else
        for (int64_t v = 0; v < s->nvector; v++)
            s->kernels[v] = svm_kernel(isa, s, row, s->vector + v * s->cols);
}

static void svm_regress(struct op *op, const struct svm *s)
{
    bool one_class = node_attr_int(op->node, "one_class", 0) != 0;
    float *out = kernel_out(op, 0)->data;

    for (int64_t r = 0; r < s->rows; r++) {
        const float *row = ml_row(kernel_in(op, 0), r, s->cols, op->scratch);
        double sum = (double)s->rho[0];

        svm_kernels(kernel_isa(op), s, row);
        for (int64_t v = 0; v < s->nvector; v++)
            sum += (double)s->coefficient[v] * s->kernels[v];
        if (!s->nvector)
            sum += svm_kernel(kernel_isa(op), s, row, s->coefficient);
        out[r] = one_class ? (sum > 0 ? 1 : -1) : (float)sum;
    }
}

/* Decisions between pairs of classes; the one that wins most of them. */
static int64_t svm_decide(const struct isa *isa, const struct svm *s, const float *row)
{
    int64_t start_i = 0, at = 0, best = 0;

    memset(s->votes, 0, (size_t)s->classes * sizeof(*s->votes));
    svm_kernels(isa, s, row);
    for (int64_t i = 0; i < s->classes; start_i += s->per_class[i++]) {
        int64_t start_j = start_i + s->per_class[i];

        for (int64_t k = i + 1; k < s->classes; start_j += s->per_class[k++], at++) {
            double sum = (double)s->rho[at];

            for (int64_t m = start_i; m < start_i + s->per_class[i]; m++)
                sum += (double)s->coefficient[(k - 1) * s->nvector + m] * s->kernels[m];
            for (int64_t m = start_j; m < start_j + s->per_class[k]; m++)
                sum += (double)s->coefficient[i * s->nvector + m] * s->kernels[m];
            s->score[at] = sum;
            s->votes[sum > 0 ? i : k]++;
        }
    }
    for (int64_t i = 1; i < s->classes; i++)
        best = s->votes[i] > s->votes[best] ? i : best;
    return best;
}

/* Probabilities of classes from those of pairs: method 2 of Wu, Lin and Weng (2004). */
static void svm_couple(const struct svm *s)
{
    int64_t n = s->classes;
    double *p = s->estimate, *q = p + n, *qp = q + n * n, eps = 0.005 / (double)n;

    for (int64_t t = 0; t < n; t++) {
        p[t] = 1 / (double)n;
        q[t * n + t] = 0;
        for (int64_t j = 0; j < n; j++)
            if (j != t) {
                q[t * n + t] += s->prob[j * n + t] * s->prob[j * n + t];
                q[t * n + j] = -s->prob[j * n + t] * s->prob[t * n + j];
            }
    }
    for (int64_t round = 0; round < MAX((int64_t)100, n); round++) {
        double pqp = 0, most = 0;

        for (int64_t t = 0; t < n; t++) {
            qp[t] = 0;
            for (int64_t j = 0; j < n; j++)
                qp[t] += q[t * n + j] * p[j];
            pqp += p[t] * qp[t];
        }
        for (int64_t t = 0; t < n; t++)
            most = fmax(most, fabs(qp[t] - pqp));
        if (most < eps)
            break;
        for (int64_t t = 0; t < n; t++) {
            double diff = (pqp - qp[t]) / q[t * n + t];

            p[t] += diff;
            pqp = (pqp + diff * (diff * q[t * n + t] + 2 * qp[t])) / (1 + diff) / (1 + diff);
            for (int64_t j = 0; j < n; j++) {
                qp[j] = (qp[j] + diff * q[t * n + j]) / (1 + diff);
                p[j] /= 1 + diff;
            }
        }
    }
}

static void svm_probabilities(const struct svm *s)
{
    int64_t n = s->classes, at = 0;

    for (int64_t i = 0; i < n; i++)
        for (int64_t j = i + 1; j < n; j++, at++) {
            double f = s->score[at] * (double)s->prob_a[at] + (double)s->prob_b[at],
                   v = 1 - 1 / (1 + exp(-f)), p = fmin(fmax(v, 1e-7), 1 - 1e-7);

            s->prob[i * n + j] = p;
            s->prob[j * n + i] = 1 - p;
        }
    svm_couple(s);
}

static void svm_classify(struct op *op, const struct svm *s, float *room)
{
    enum ml_post post = ml_post_of(op->node);
    struct nt *label = kernel_out(op, 0), *y = kernel_out(op, 1);
    int64_t pairs = s->classes * (s->classes - 1) / 2;

    for (int64_t r = 0; r < s->rows; r++) {
        const float *row = ml_row(kernel_in(op, 0), r, s->cols, op->scratch);
        const double *score = s->score;
        int64_t n = s->nvector && !s->nprob ? pairs : s->classes, best = 0;

        if (s->nvector)
            best = svm_decide(kernel_isa(op), s, row);
        else
            for (int64_t k = 0; k < n; k++) {
                s->score[k] =
                    (double)kernel_isa(op)->dot(row, s->coefficient + k * s->cols, s->cols) +
                    (double)s->rho[0];
                best = s->score[k] > s->score[best] ? k : best;
            }
        if (s->nvector && s->nprob) {
            svm_probabilities(s);
            score = s->estimate;
        }
        if (s->nvector && s->nprob) {
            best = 0;
            for (int64_t k = 1; k < n; k++)
                best = score[k] > score[best] ? k : best;
        }
        for (int64_t k = 0; k < n; k++)
            room[k] = (float)score[k];
        ml_label_put(&s->label, label, r, best);
        if (n == 1) {
            ml_post_pair(post, ML_PAIR_SIGNED, room);
            n = 2;
        } else
            ml_post(post, room, n);
        if (y)
            memcpy((float *)y->data + r * y->shape.dim[1], room,
                   (size_t)MIN(n, y->shape.dim[1]) * sizeof(*room));
    }
}

int svm_run(struct op *op, opm_error *err)
{
    const struct svm *s = op->state;
    int64_t most = MAX(s->classes * (s->classes - 1) / 2, s->classes) + 2;
    float *room;

    if (op->kernel->arg == SVM_REGRESSOR) {
        svm_regress(op, s);
        return 0;
    }
    room = mem_alloc((size_t)most * sizeof(*room));
    if (!room)
        return kernel_nomem(op, err);
    svm_classify(op, s, room);
    mem_free(room);
    return 0;
}
