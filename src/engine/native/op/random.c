/* random.c -- random numbers, and Dropout while training.
 *
 * A node has a generator of its own, which goes on from run to run. Without a seed it starts from
 * the node's place in the model: two engines that open a model draw the same. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

struct dice {
    bool seeded;
    uint64_t state;
    bool has_spare; /* normal ones come in pairs */
    double spare;
};

static int dice_ready(struct op *op, opm_error *err)
{
    struct dice *d = kernel_new_state(op, sizeof(*d));
    float seed = node_attr_float(op->node, "seed", NAN);
    uint32_t bits;

    if (!d)
        return kernel_nomem(op, err);
    if (d->seeded)
        return 0;
    memcpy(&bits, &seed, sizeof(bits));
    d->state = isnan(seed) ? (uint64_t)op->node->index : (uint64_t)bits << 32;
    d->seeded = true;
    return 0;
}

/* splitmix64: every state is fine to start from. */
static uint64_t roll(struct dice *d)
{
    uint64_t z = (d->state += 0x9e3779b97f4a7c15u);

    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}

/* In [0, 1). */
static double uniform(struct dice *d)
{
    return (double)(roll(d) >> 11) * 0x1p-53;
}

#define PIECE 256

/* Normal numbers come in pairs: r * cos(a), r * sin(a). */
static void normals(const struct op *op, double *out, int64_t n)
{
    const struct fp64_isa *real = kernel_isa(op)->rows->real;
    struct dice *d = op->state;
    double r[PIECE / 2], a[PIECE / 2], s[PIECE / 2];

    for (; n && d->has_spare; n--) {
        d->has_spare = false;
        *out++ = d->spare;
    }
    for (int64_t pairs; n > 0; n -= 2 * pairs) {
        pairs = MIN((n + 1) / 2, (int64_t)PIECE / 2);
        for (int64_t i = 0; i < pairs; i++) {
            r[i] = 1 - uniform(d);
            a[i] = 2 * (double)M_PI * uniform(d);
        }
        real->unary[F64_LOG](r, r, pairs);
        real->unary[F64_SIN](s, a, pairs);
        real->unary[F64_COS](a, a, pairs);
        for (int64_t i = 0; i < pairs; i++) {
            double length = sqrt(-2 * r[i]);

            *out++ = length * a[i];
            d->spare = length * s[i];
            d->has_spare = 2 * i + 1 == n;
            if (!d->has_spare)
                *out++ = d->spare;
        }
    }
}

static void put(struct nt *t, int64_t i, double v)
{
    int64_t n = (int64_t)v;

    if (t->type == TENSOR_F32)
        ((float *)t->data)[i] = (float)v;
    else if (t->type == TENSOR_F64)
        ((double *)t->data)[i] = v;
    else
        memcpy((char *)t->data + (size_t)i * nt_width(t->type), &n, nt_width(t->type));
}

/* Outputs that numbers can be written to one by one. */
static int want_output(struct op *op, uint64_t types, opm_error *err)
{
    int rc = kernel_infer(op, err);

    if (!rc && !(TYPE_BIT(kernel_out(op, 0)->type) & types))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for results of %s",
                         tensor_type_name(kernel_out(op, 0)->type));
    return rc ? rc : dice_ready(op, err);
}

int random_prepare(struct op *op, opm_error *err)
{
    return want_output(op, TYPES_FLOAT, err);
}

int random_run(struct op *op, opm_error *err)
{
    const struct node *n = op->node;
    struct nt *out = kernel_out(op, 0);
    struct dice *d = op->state;
    double mean = (double)node_attr_float(n, "mean", 0),
           scale = (double)node_attr_float(n, "scale", 1);
    double low = (double)node_attr_float(n, "low", 0), high = (double)node_attr_float(n, "high", 1);

    (void)err;
    for (int64_t i = 0; i < out->count; i += PIECE) {
        int64_t m = MIN(out->count - i, (int64_t)PIECE);
        double v[PIECE];

        if (op->kernel->arg == RANDOM_NORMAL) {
            normals(op, v, m);
            for (int64_t k = 0; k < m; k++)
                v[k] = mean + scale * v[k];
        } else
            for (int64_t k = 0; k < m; k++)
                v[k] = low + (high - low) * uniform(d);
        kernel_isa(op)->rows->cast[TENSOR_F64][out->type](
            (char *)out->data + (size_t)i * nt_width(out->type), v, m);
    }
    return 0;
}

int bernoulli_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    return rc ? rc : want_output(op, TYPES_NUM | TYPE_BIT(TENSOR_BOOL), err);
}

int bernoulli_run(struct op *op, opm_error *err)
{
    const struct nt *p = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    struct dice *d = op->state;

    (void)err;
    for (int64_t i = 0; i < out->count; i += PIECE) {
        int64_t n = MIN(out->count - i, (int64_t)PIECE);
        double v[PIECE];
        uint8_t drawn[PIECE];

        kernel_isa(op)->rows->cast[p->type][TENSOR_F64](
            v, (const char *)p->data + (size_t)i * nt_width(p->type), n);
        for (int64_t k = 0; k < n; k++) /* bounded: n is PIECE at most */
            drawn[k] = uniform(d) < v[k];
        kernel_isa(op)->rows->cast[TENSOR_BOOL][out->type](
            (char *)out->data + (size_t)i * nt_width(out->type), drawn, n);
    }
    return 0;
}

int multinomial_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc && (kernel_in(op, 0)->shape.rank != 2 || kernel_in(op, 0)->shape.dim[1] < 1))
        rc = kernel_fail(op, OPM_EINVAL, err, "wants rows of log probabilities");
    if (!rc)
        op->scratch_bytes = (size_t)kernel_in(op, 0)->shape.dim[1] * sizeof(double);
    return rc ? rc : want_output(op, TYPES_INDEX, err);
}

/* Classes by their unnormalized log probabilities, with replacement. */
int multinomial_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    struct dice *d = op->state;
    int64_t classes = x->shape.dim[1], samples = out->shape.dim[1];
    double *sum = op->scratch; /* of the probabilities up to each class */

    (void)err;
    for (int64_t r = 0; r < x->shape.dim[0]; r++) {
        double most = (double)-INFINITY, total = 0;

        kernel_isa(op)->rows->cast[x->type][TENSOR_F64](
            sum, (const char *)x->data + (size_t)(r * classes) * nt_width(x->type), classes);
        for (int64_t c = 0; c < classes; c++)
            most = sum[c] > most ? sum[c] : most;
        for (int64_t c = 0; c < classes; c++)
            sum[c] -= most;
        kernel_isa(op)->rows->real->unary[F64_EXP](sum, sum, classes);
        for (int64_t c = 0; c < classes; c++)
            sum[c] = total += sum[c];
        for (int64_t s = 0; s < samples; s++) {
            double at = uniform(d) * total;
            int64_t low = 0, high = classes - 1; /* the first class whose sum is above */

            while (low < high) {
                int64_t mid = (low + high) / 2;

                if (sum[mid] > at)
                    high = mid;
                else
                    low = mid + 1;
            }
            put(out, r * samples + s, (double)low);
        }
    }
    return 0;
}

int dropout_training_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc && kernel_in(op, 1))
        rc = kernel_want(op, 1, TYPES_FLOAT, err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(TENSOR_BOOL), err);
    if (!rc)
        rc = kernel_infer_by(op, infer_dropout, err);
    return rc ? rc : dice_ready(op, err);
}

int dropout_training_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0), *given = kernel_in(op, 1), *training = kernel_in(op, 2);
    struct nt *y = kernel_out(op, 0), *mask = kernel_out(op, 1);
    double ratio = given && given->count ? nt_float(given, 0) : 0.5;
    struct dice *d = op->state;

    if (!training->count || !nt_int(training, 0))
        ratio = 0;
    if (!(ratio >= 0 && ratio < 1))
        return kernel_fail(op, OPM_EINVAL, err, "the ratio is %g, which is not from 0 to 1", ratio);
    for (int64_t i = 0; i < x->count; i++) {
        bool keep = ratio == 0 || uniform(d) >= ratio;

        put(y, i, keep ? nt_float(x, i) / (1 - ratio) : 0);
        if (mask)
            ((uint8_t *)mask->data)[i] = keep;
    }
    return 0;
}
