/* optimizer.c -- ai.onnx.preview.training: one step of Adagrad, Adam or Momentum, for any number of
 * tensors. Inputs: learning rate R, update count T, all X, all gradients G, then what the optimizer
 * remembers of each (Adam: V and H). Outputs: new X and memories. */
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>

static uint32_t groups(const struct op *op)
{
    return op->kernel->arg == TRAIN_ADAM ? 4 : 3;
}

int optimizer_prepare(struct op *op, opm_error *err)
{
    uint32_t g = groups(op), n = op->nin > 2 ? (op->nin - 2) / g : 0;
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    if (!rc && (n == 0 || op->nin != 2 + g * n || op->nout != (g - 1) * n ||
                kernel_in(op, 0)->count != 1 || kernel_in(op, 1)->count != 1))
        rc = kernel_fail(op, OPM_EINVAL, err, "%u inputs and %u outputs do not fit", op->nin,
                         op->nout);
    for (uint32_t i = 2; i < op->nin && !rc; i++) {
        const struct nt *x = kernel_in(op, 2 + (i - 2) % n);

        rc = kernel_want(op, i, TYPES_FLOAT, err);
        if (!rc && (!x || x->type != kernel_in(op, i)->type ||
                    !shape_equal(&x->shape, &kernel_in(op, i)->shape)))
            rc = kernel_fail(op, OPM_EINVAL, err, "input %u does not fit its tensor", i);
    }
    return rc ? rc : kernel_infer(op, err);
}

struct step {
    double r;           /* learning rate, adjusted to the update count */
    double alpha, beta; /* beta: of Momentum adjusted */
    double norm, post, epsilon;
    bool nesterov;
};

static struct step read_step(const struct op *op)
{
    const struct node *n = op->node;
    int64_t t = nt_int(kernel_in(op, 1), 0);
    struct step s = { .r = nt_float(kernel_in(op, 0), 0) };

    s.norm = (double)node_attr_float(n, "norm_coefficient", 0);
    s.epsilon = (double)node_attr_float(n, "epsilon", 1e-6f);
    switch (op->kernel->arg) {
    case TRAIN_ADAGRAD:
        s.r /= 1 + (double)t * (double)node_attr_float(n, "decay_factor", 0);
        break;
    case TRAIN_ADAM:
        s.alpha = (double)node_attr_float(n, "alpha", 0.9f);
        s.beta = (double)node_attr_float(n, "beta", 0.999f);
        s.post = (double)node_attr_float(n, "norm_coefficient_post", 0);
        if (t > 0)
            s.r *= sqrt(1 - pow(s.beta, (double)t)) / (1 - pow(s.alpha, (double)t));
        break;
    default:
        s.alpha = (double)node_attr_float(n, "alpha", 0);
        s.beta = t > 0 ? (double)node_attr_float(n, "beta", 0) : 1;
        s.nesterov = node_attr_is(n, "mode", "nesterov", "");
    }
    return s;
}

static void put(struct nt *t, int64_t i, double v)
{
    if (!t)
        return;
    if (t->type == TENSOR_F32)
        ((float *)t->data)[i] = (float)v;
    else
        ((double *)t->data)[i] = v;
}

int optimizer_run(struct op *op, opm_error *err)
{
    struct step s = read_step(op);
    uint32_t n = (op->nin - 2) / groups(op);

    (void)err;
    for (uint32_t k = 0; k < n; k++) {
        const struct nt *tx = kernel_in(op, 2 + k), *tg = kernel_in(op, 2 + n + k),
                        *tv = kernel_in(op, 2 + 2 * n + k), *th = kernel_in(op, 2 + 3 * n + k);
        struct nt *x_new = kernel_out(op, k), *v_new = kernel_out(op, n + k),
                  *h_new = kernel_out(op, 2 * n + k);

        for (int64_t i = 0; i < tx->count; i++) {
            double x = nt_float(tx, i), g = s.norm * x + nt_float(tg, i), v = nt_float(tv, i), h;

            switch (op->kernel->arg) {
            case TRAIN_ADAGRAD:
                v += g * g;
                x -= s.r * g / (sqrt(v) + s.epsilon);
                break;
            case TRAIN_ADAM:
                v = s.alpha * v + (1 - s.alpha) * g;
                h = s.beta * nt_float(th, i) + (1 - s.beta) * g * g;
                x = (1 - s.post) * (x - s.r * v / (sqrt(h) + s.epsilon));
                put(h_new, i, h);
                break;
            default:
                v = s.alpha * v + s.beta * g;
                x -= s.r * (s.nesterov ? g + s.alpha * v : v);
            }
            put(x_new, i, x);
            put(v_new, i, v);
        }
    }
    return 0;
}
