/* random.c -- random numbers, and Dropout while training.
 *
 * A node has a generator of its own, which goes on from run to run. Without a seed it starts from
 * the node's place in the model: two engines that open a model draw the same. */
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

static double normal(struct dice *d)
{
    double r, a;

    if (d->has_spare) {
        d->has_spare = false;
        return d->spare;
    }
    r = sqrt(-2 * log(1 - uniform(d)));
    a = 2 * (double)M_PI * uniform(d);
    d->spare = r * sin(a);
    d->has_spare = true;
    return r * cos(a);
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
    for (int64_t i = 0; i < out->count; i++)
        put(out, i,
            op->kernel->arg == RANDOM_NORMAL ? mean + scale * normal(d)
                                             : low + (high - low) * uniform(d));
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
    for (int64_t i = 0; i < out->count; i++)
        put(out, i, uniform(d) < nt_float(p, i) ? 1 : 0);
    return 0;
}

int multinomial_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc && (kernel_in(op, 0)->shape.rank != 2 || kernel_in(op, 0)->shape.dim[1] < 1))
        rc = kernel_fail(op, OPM_EINVAL, err, "wants rows of log probabilities");
    return rc ? rc : want_output(op, TYPES_INDEX, err);
}

/* Classes by their unnormalized log probabilities, with replacement. */
int multinomial_run(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    struct dice *d = op->state;
    int64_t classes = x->shape.dim[1], samples = out->shape.dim[1];

    (void)err;
    for (int64_t r = 0; r < x->shape.dim[0]; r++) {
        double most = (double)-INFINITY, total = 0;

        for (int64_t c = 0; c < classes; c++)
            most = fmax(most, nt_float(x, r * classes + c));
        for (int64_t c = 0; c < classes; c++)
            total += exp(nt_float(x, r * classes + c) - most);
        for (int64_t s = 0; s < samples; s++) {
            double left = uniform(d) * total;
            int64_t c = 0;

            for (; c + 1 < classes; c++) {
                left -= exp(nt_float(x, r * classes + c) - most);
                if (left < 0)
                    break;
            }
            put(out, r * samples + s, (double)c);
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
