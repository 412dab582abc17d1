/* norm.c -- BatchNormalization, InstanceNormalization, LayerNormalization, GroupNormalization, LRN,
 * LpNormalization, MeanVarianceNormalization. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

static int want_channels(const struct op *op, uint32_t from, uint32_t to, int64_t c, opm_error *err)
{
    for (uint32_t i = from; i < to; i++) {
        int rc = kernel_want(op, i, TYPE_BIT(kernel_in(op, 0)->type), err);

        if (rc)
            return rc;
        if (kernel_in(op, i)->count != c)
            return kernel_fail(op, OPM_EINVAL, err, "input %u has %lld entries for %lld channels",
                               i, (long long)kernel_in(op, i)->count, (long long)c);
    }
    return 0;
}

static bool training(const struct op *op)
{
    return op->node->opset >= 14 ? node_attr_int(op->node, "training_mode", 0) : false;
}

int batchnorm_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (in->shape.rank < 2)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x ...");
    rc = want_channels(op, 1, 5, in->shape.dim[1], err);
    return rc ? rc : kernel_infer(op, err);
}

struct norm_job {
    const struct op *op;
    int64_t c, inner, n;
    double eps;
    float p;
};

static double at(const struct nt *t, int64_t i)
{
    return t->type == TENSOR_F32 ? (double)((const float *)t->data)[i]
                                 : ((const double *)t->data)[i];
}

static void set(struct nt *t, int64_t i, double v)
{
    if (t->type == TENSOR_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

static void affine_row(const struct op *op, int64_t base, int64_t n, double scale, double bias)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);

    if (in->type == TENSOR_F32) {
        kernel_isa(op)->unary(U_AFFINE, (float *)out->data + base, (const float *)in->data + base,
                              n, (float)scale, (float)bias);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        set(out, base + i, at(in, base + i) * scale + bias);
}

static void batchnorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct norm_job *j = arg;
    const struct op *op = j->op;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t c = i % j->c;
        double scale = at(kernel_in(op, 1), c) / sqrt(at(kernel_in(op, 4), c) + j->eps);

        affine_row(op, i * j->inner, j->inner, scale,
                   at(kernel_in(op, 2), c) - at(kernel_in(op, 3), c) * scale);
    }
}

/* Statistics of the batch itself; running ones go out. */
static void batchnorm_train(struct op *op, const struct norm_job *j)
{
    const struct nt *in = kernel_in(op, 0);
    double momentum = (double)node_attr_float(op->node, "momentum", 0.9f);
    int64_t n = in->shape.dim[0], count = n * j->inner;

    for (int64_t c = 0; c < j->c; c++) {
        double mean = 0, var = 0, scale;

        for (int64_t i = 0; i < count; i++)
            mean += at(in, (i / j->inner * j->c + c) * j->inner + i % j->inner);
        mean /= (double)MAX(count, (int64_t)1);
        for (int64_t i = 0; i < count; i++) {
            double d = at(in, (i / j->inner * j->c + c) * j->inner + i % j->inner) - mean;

            var += d * d;
        }
        var /= (double)MAX(count, (int64_t)1);
        scale = at(kernel_in(op, 1), c) / sqrt(var + j->eps);
        for (int64_t i = 0; i < n; i++)
            affine_row(op, (i * j->c + c) * j->inner, j->inner, scale,
                       at(kernel_in(op, 2), c) - mean * scale);
        if (kernel_out(op, 1))
            set(kernel_out(op, 1), c, at(kernel_in(op, 3), c) * momentum + mean * (1 - momentum));
        if (kernel_out(op, 2))
            set(kernel_out(op, 2), c, at(kernel_in(op, 4), c) * momentum + var * (1 - momentum));
    }
}

int batchnorm_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct norm_job j = { .op = op };

    (void)err;
    j.c = in->shape.dim[1];
    j.inner = nt_span(&in->shape, 2, in->shape.rank);
    j.eps = (double)node_attr_float(op->node, "epsilon", 1e-5f);
    if (in->count == 0)
        return 0;
    if (training(op))
        batchnorm_train(op, &j);
    else
        pool_for(kernel_pool(op), in->shape.dim[0] * j.c, MAX(4096 / j.inner, (int64_t)1),
                 batchnorm_part, &j);
    return 0;
}

int instancenorm_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (kernel_in(op, 0)->shape.rank < 2)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x ...");
    rc = want_channels(op, 1, 3, kernel_in(op, 0)->shape.dim[1], err);
    return rc ? rc : kernel_infer(op, err);
}

/* Mean and 1 / sqrt(variance + eps) of n neighbours. */
static void moments(const struct nt *in, int64_t base, int64_t n, double eps, double *mean,
                    double *inv)
{
    double m = 0, v = 0;

    for (int64_t i = 0; i < n; i++)
        m += at(in, base + i);
    m /= (double)n;
    for (int64_t i = 0; i < n; i++)
        v += (at(in, base + i) - m) * (at(in, base + i) - m);
    *mean = m;
    *inv = 1 / sqrt(v / (double)n + eps);
}

static void instancenorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct norm_job *j = arg;
    const struct op *op = j->op;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        double mean, inv, scale;

        if (kernel_in(op, 0)->type == TENSOR_F32) {
            float *out = (float *)kernel_out(op, 0)->data + i * j->inner;

            kernel_isa(op)->layernorm(out, (const float *)kernel_in(op, 0)->data + i * j->inner,
                                      NULL, NULL, j->inner, (float)j->eps, NULL, NULL);
            kernel_isa(op)->unary(U_AFFINE, out, out, j->inner,
                                  (float)at(kernel_in(op, 1), i % j->c),
                                  (float)at(kernel_in(op, 2), i % j->c));
            continue;
        }
        moments(kernel_in(op, 0), i * j->inner, j->inner, j->eps, &mean, &inv);
        scale = at(kernel_in(op, 1), i % j->c) * inv;
        affine_row(op, i * j->inner, j->inner, scale,
                   at(kernel_in(op, 2), i % j->c) - mean * scale);
    }
}

int instancenorm_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct norm_job j = { .op = op };

    (void)err;
    if (in->count == 0)
        return 0;
    j.c = in->shape.dim[1];
    j.inner = nt_span(&in->shape, 2, in->shape.rank);
    j.eps = (double)node_attr_float(op->node, "epsilon", 1e-5f);
    pool_for(kernel_pool(op), in->shape.dim[0] * j.c, 1, instancenorm_part, &j);
    return 0;
}

/* Scale and bias go by group in opset 18, by channel since 21. */
int groupnorm_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t groups = node_attr_int(op->node, "num_groups", 0);
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (in->shape.rank < 2 || groups < 1 || in->shape.dim[1] % groups)
        return kernel_fail(op, OPM_EINVAL, err, "channels do not divide into %lld groups",
                           (long long)groups);
    rc = want_channels(op, 1, 3, op->node->opset < 21 ? groups : in->shape.dim[1], err);
    return rc ? rc : kernel_infer(op, err);
}

int groupnorm_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t groups = node_attr_int(op->node, "num_groups", 1), c = in->shape.dim[1],
            per = c / groups, inner = nt_span(&in->shape, 2, in->shape.rank);
    double eps = (double)node_attr_float(op->node, "epsilon", 1e-5f);

    (void)err;
    for (int64_t g = 0; in->count && g < in->shape.dim[0] * groups; g++) {
        double mean = 0, inv = 1;
        int64_t first = g * per * inner;
        bool f32 = in->type == TENSOR_F32;

        if (f32)
            kernel_isa(op)->layernorm((float *)kernel_out(op, 0)->data + first,
                                      (const float *)in->data + first, NULL, NULL, per * inner,
                                      (float)eps, NULL, NULL);
        else
            moments(in, first, per * inner, eps, &mean, &inv);
        for (int64_t k = 0; k < per; k++) {
            int64_t ch = g % groups * per + k, slot = op->node->opset < 21 ? g % groups : ch;
            double scale = at(kernel_in(op, 1), slot) * inv;
            float *out = (float *)kernel_out(op, 0)->data + first + k * inner;

            if (f32) {
                kernel_isa(op)->unary(U_AFFINE, out, out, inner, (float)scale,
                                      (float)at(kernel_in(op, 2), slot));
                continue;
            }
            affine_row(op, (g * per + k) * inner, inner, scale,
                       at(kernel_in(op, 2), slot) - mean * scale);
        }
    }
    return 0;
}

int layernorm_prepare(struct op *op, opm_error *err)
{
    const struct shape *s;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err), axis;

    if (rc)
        return rc;
    s = &kernel_in(op, 0)->shape;
    axis = nt_axis(node_attr_int(op->node, "axis", -1), s->rank);
    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    rc = want_channels(op, 1, kernel_in(op, 2) ? 3 : 2, nt_span(s, axis, s->rank), err);
    if (!rc)
        rc = kernel_infer(op, err);
    for (uint32_t i = 1; i < 3 && !rc; i++)
        if (kernel_out(op, i) && !(TYPE_BIT(kernel_out(op, i)->type) & TYPES_FLOAT))
            rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for statistics of type %s",
                             tensor_type_name(kernel_out(op, i)->type));
    return rc;
}

static void layernorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct norm_job *j = arg;
    const struct op *op = j->op;
    const struct nt *in = kernel_in(op, 0), *scale = kernel_in(op, 1), *bias = kernel_in(op, 2);

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        double mean, inv;

        if (in->type == TENSOR_F32) {
            float m, v;

            kernel_isa(op)->layernorm((float *)kernel_out(op, 0)->data + i * j->n,
                                      (const float *)in->data + i * j->n, scale->data,
                                      bias ? bias->data : NULL, j->n, (float)j->eps, &m, &v);
            mean = (double)m;
            inv = (double)v;
        } else {
            moments(in, i * j->n, j->n, j->eps, &mean, &inv);
            for (int64_t k = 0; k < j->n; k++)
                set(kernel_out(op, 0), i * j->n + k,
                    (at(in, i * j->n + k) - mean) * inv * at(scale, k) + (bias ? at(bias, k) : 0));
        }
        if (kernel_out(op, 1))
            set(kernel_out(op, 1), i, mean);
        if (kernel_out(op, 2))
            set(kernel_out(op, 2), i, inv);
    }
}

int layernorm_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", -1), in->shape.rank);
    struct norm_job j = { .op = op };

    (void)err;
    if (in->count == 0)
        return 0;
    j.n = nt_span(&in->shape, axis, in->shape.rank);
    j.eps =
        (double)(isnan(op->epsilon) ? node_attr_float(op->node, "epsilon", 1e-5f) : op->epsilon);
    pool_for(kernel_pool(op), in->count / j.n, MAX(4096 / j.n, (int64_t)1), layernorm_part, &j);
    return 0;
}

int lrn_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (rc)
        return rc;
    if (kernel_in(op, 0)->shape.rank < 2 || node_attr_int(op->node, "size", 0) < 1)
        return kernel_fail(op, OPM_EINVAL, err, "wants N x C x ... and a size");
    return kernel_infer(op, err);
}

int lrn_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    double alpha = (double)node_attr_float(op->node, "alpha", 1e-4f),
           beta = (double)node_attr_float(op->node, "beta", 0.75f),
           bias = (double)node_attr_float(op->node, "bias", 1);
    int64_t size = node_attr_int(op->node, "size", 1), c = in->shape.dim[1],
            inner = nt_span(&in->shape, 2, in->shape.rank);

    (void)err;
    for (int64_t i = 0; i < in->count; i++) {
        int64_t ch = i / inner % c, lo = MAX(ch - (size - 1) / 2, (int64_t)0),
                hi = MIN(ch + size / 2, c - 1);
        double sum = 0;

        for (int64_t k = lo; k <= hi; k++) {
            double x = at(in, i + (k - ch) * inner);

            sum += x * x;
        }
        set(kernel_out(op, 0), i, at(in, i) / pow(bias + alpha / (double)size * sum, beta));
    }
    return 0;
}

int lpnorm_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc && nt_axis(node_attr_int(op->node, "axis", -1), kernel_in(op, 0)->shape.rank) < 0)
        rc = kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    return rc ? rc : kernel_infer(op, err);
}

#define LP_STRIP 128
#define LP_NS 0.5 /* for an element, about */

/* Element by element, of any type: columns [c0, c0 + cols) of one matrix of n rows. */
static void lpnorm_slow(const struct norm_job *j, int64_t first, int64_t cols)
{
    const struct nt *in = kernel_in(j->op, 0);

    for (int64_t base = first; base < first + cols; base++) {
        double sum = 0;

        for (int64_t k = 0; k < j->n; k++) {
            double x = at(in, base + k * j->inner);

            sum += j->p == 1 ? fabs(x) : x * x;
        }
        if (j->p != 1)
            sum = sqrt(sum);
        for (int64_t k = 0; k < j->n; k++)
            set(kernel_out(j->op, 0), base + k * j->inner,
                sum ? at(in, base + k * j->inner) / sum : 0);
    }
}

/* Sums of columns, or of a row; false where floats are no good for them. */
static bool lpnorm_sums(const struct norm_job *j, const float *in, int64_t cols, float *sum)
{
    const struct isa *isa = kernel_isa(j->op);
    float part[LP_STRIP];

    if (j->inner == 1)
        *sum = isa->reduce(j->p == 1 ? R_ABS : R_SQUARES, in, j->n);
    else
        memset(sum, 0, (size_t)cols * sizeof(*sum));
    for (int64_t k = 0; k < j->n && j->inner > 1; k++) {
        isa->unary(j->p == 1 ? U_ABS : U_SQUARE, part, in + k * j->inner, cols, 0, 0);
        isa->binary(B_ADD, sum, sum, 1, part, 1, cols);
    }
    for (int64_t c = 0; c < cols; c++)
        if (!(sum[c] > 0x1p-80f && sum[c] < 0x1p120f))
            return false;
    if (j->p != 1)
        isa->unary(U_SQRT, sum, sum, cols, 0, 0);
    return true;
}

static void lpnorm_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct norm_job *j = arg;
    const struct isa *isa = kernel_isa(j->op);
    const float *in = kernel_in(j->op, 0)->data;
    float *out = kernel_out(j->op, 0)->data;
    int64_t strips = (j->inner + LP_STRIP - 1) / LP_STRIP;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t c0 = i % strips * LP_STRIP, cols = MIN(j->inner - c0, (int64_t)LP_STRIP),
                first = i / strips * j->n * j->inner + c0;
        float sum[LP_STRIP];

        if (kernel_in(j->op, 0)->type != TENSOR_F32 || !lpnorm_sums(j, in + first, cols, sum))
            lpnorm_slow(j, first, cols);
        else if (j->inner == 1)
            isa->binary(B_DIV, out + first, in + first, 1, sum, 0, j->n);
        else
            for (int64_t k = first; k < first + j->n * j->inner; k += j->inner)
                isa->binary(B_DIV, out + k, in + k, 1, sum, 1, cols);
    }
}

int lpnorm_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", -1), in->shape.rank);
    struct norm_job j = { .op = op,
                          .p = (float)node_attr_int(op->node, "p", 2),
                          .n = in->shape.dim[axis],
                          .inner = nt_span(&in->shape, axis + 1, in->shape.rank) };

    (void)err;
    if (in->count)
        pool_for(kernel_pool(op), in->count / j.n / j.inner * ((j.inner + LP_STRIP - 1) / LP_STRIP),
                 pool_grain((double)(j.n * MIN(j.inner, (int64_t)LP_STRIP)) * LP_NS), lpnorm_part,
                 &j);
    return 0;
}

int mvn_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);
    size_t n;
    const int64_t *axes = node_attr_ints(op->node, "axes", &n);

    for (size_t i = 0; i < n && !rc; i++)
        if (nt_axis(axes[i], kernel_in(op, 0)->shape.rank) < 0)
            rc = kernel_fail(op, OPM_EINVAL, err, "an axis is out of range");
    return rc ? rc : kernel_infer(op, err);
}

/* Runs of neighbours that are normalized together with other runs: those of a group. */
struct mvn_job {
    const struct op *op;
    int64_t len;          /* of a run */
    const double *mean;   /* of the groups; NULL: not known yet */
    const double *scale;  /* of the groups; NULL: not known yet */
    const int64_t *group; /* of each run */
    double *sum;          /* of each run: its elements, or if the mean is known their squares */
};

#define MVN_PIECE 512

static void mvn_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct mvn_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0);
    const struct isa *isa = kernel_isa(j->op);
    bool fast = in->type == TENSOR_F32;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        int64_t first = r * j->len;
        double mean = j->mean ? j->mean[j->group[r]] : 0,
               scale = j->scale ? j->scale[j->group[r]] : 1, sum = 0;

        for (int64_t i = 0; i < j->len && !fast; i++) {
            double x = at(in, first + i) - mean;

            sum += j->mean ? x * x : x;
            if (j->scale)
                set(kernel_out(j->op, 0), first + i, x * scale);
        }
        for (int64_t i = 0; i < j->len && fast; i += MVN_PIECE) {
            int64_t n = MIN(j->len - i, (int64_t)MVN_PIECE);
            const float *x = (const float *)in->data + first + i;
            float piece[MVN_PIECE],
                *to = j->scale ? (float *)kernel_out(j->op, 0)->data + first + i : piece;

            if (!j->mean) {
                sum += (double)isa->reduce(R_SUM, x, n);
                continue;
            }
            isa->unary(U_AFFINE, to, x, n, 1, (float)-mean);
            if (j->scale)
                isa->unary(U_AFFINE, to, to, n, (float)scale, 0);
            else
                sum += (double)isa->reduce(R_SQUARES, to, n);
        }
        if (!j->scale)
            j->sum[r] = sum;
    }
}

int mvn_run(struct op *op, opm_error *err)
{
    static const int64_t usual[] = { 0, 2, 3 };
    const struct nt *in = kernel_in(op, 0);
    size_t n;
    const int64_t *axes = node_attr_ints(op->node, "axes", &n);
    bool on[SHAPE_RANK_MAX] = { false };
    int64_t keep[SHAPE_RANK_MAX], groups = 1, runs, *group;
    int32_t rank = in->shape.rank, inner = rank; /* from there on all are normalized over */
    struct mvn_job j = { .op = op };
    double *sum, *mean, *scale;

    if (!in->count)
        return 0;
    if (!n) {
        axes = usual;
        n = ARRAY_SIZE(usual);
    }
    for (size_t i = 0; i < n; i++)
        if (nt_axis(axes[i], rank) >= 0)
            on[nt_axis(axes[i], rank)] = true;
    while (inner > 0 && on[inner - 1])
        inner--;
    for (int32_t i = rank - 1; i >= 0; i--) {
        keep[i] = on[i] ? 0 : groups;
        groups *= on[i] ? 1 : in->shape.dim[i];
    }
    j.len = nt_span(&in->shape, inner, rank);
    runs = in->count / j.len;
    sum = mem_calloc((size_t)(runs + 2 * groups), sizeof(*sum));
    group = mem_calloc((size_t)runs, sizeof(*group));
    mean = sum ? sum + runs : NULL;
    scale = sum ? mean + groups : NULL;
    for (int64_t r = 0; r < runs && group; r++) {
        int64_t rest = r;

        for (int32_t d = inner - 1; d >= 0; d--) {
            group[r] += rest % in->shape.dim[d] * keep[d];
            rest /= in->shape.dim[d];
        }
    }
    j.sum = sum;
    j.group = group;
    for (int pass = 0; pass < 3 && sum && group; pass++) {
        double *to = pass == 0 ? mean : scale, per = (double)(in->count / groups);

        pool_for(kernel_pool(op), runs, pool_grain((double)j.len / 4), mvn_part, &j);
        for (int64_t r = 0; r < runs && pass < 2; r++)
            to[group[r]] += sum[r];
        for (int64_t g = 0; g < groups && pass < 2; g++)
            to[g] = pass == 0 ? to[g] / per : 1 / (sqrt(to[g] / per) + 1e-9);
        j.mean = mean;
        j.scale = pass == 0 ? NULL : scale;
    }
    n = sum && group;
    mem_free(sum);
    mem_free(group);
    return n ? 0 : kernel_nomem(op, err);
}
