/* rnn.c -- LSTM, GRU and RNN; com.microsoft's DynamicQuantizeLSTM, whose weights are 8-bit and
 * whose inputs and state go through 8 bits before each product.
 *
 * The inputs' part of all gates is one matrix product over all steps; each step then adds the
 * state's part, a product with few rows, and applies the gates. */
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/rnn_q8.h"

#include <math.h>
#include <string.h>

#define CELL_NS 2.5   /* for an element of the state, about */
#define ITEMS_LEAST 2 /* of a batch, that a thread does alone */

enum gate_function {
    ACT_SIGMOID,
    ACT_TANH,
    ACT_RELU,
    ACT_AFFINE,
    ACT_LEAKY,
    ACT_THRESHOLDED,
    ACT_SCALEDTANH,
    ACT_HARDSIGMOID,
    ACT_ELU,
    ACT_SOFTSIGN,
    ACT_SOFTPLUS,
    ACT_N,
};
static const char *const act_name[ACT_N] = { "Sigmoid",    "Tanh",        "Relu",
                                             "Affine",     "LeakyRelu",   "ThresholdedRelu",
                                             "ScaledTanh", "HardSigmoid", "Elu",
                                             "Softsign",   "Softplus" };

struct act {
    enum gate_function kind;
    float alpha, beta;
};

struct rnn {
    int gates; /* 4 LSTM, 3 GRU, 1 RNN: the kernel's arg */
    bool quantized;
    int dirs;
    bool batch_first, reverse_only;
    bool coupled; /* LSTM: input_forget */
    bool after;   /* GRU: linear_before_reset */
    bool plain;   /* LSTM: nothing but what isa.h's lstm() does */
    int64_t t, b, i, h;
    struct act act[2][3];
    float clip;
    float *w[2], *r[2], *r2[2]; /* packed: input weights, state weights; GRU: z and r, then h */
    float *bias[2];             /* gates * h: what is added to the inputs' part */
    float *rbias[2];            /* GRU: the state's bias of h */
    struct rnn_q8 qw[2], qr[2]; /* quantized: instead of w and r */
    bool packed;
    /* Floats in scratch. */
    size_t at_xw, at_gate, at_h, at_c, at_rh, at_tmp, at_room;
};

enum { W_SCALE = 8, W_ZERO, R_SCALE, R_ZERO };
#define TYPES_QUANTIZED (TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8))

static void rnn_release(void *state)
{
    struct rnn *s = state;

    for (int d = 0; d < 2; d++) {
        native_free(s->w[d]);
        native_free(s->r[d]);
        native_free(s->r2[d]);
        native_free(s->bias[d]);
        native_free(s->rbias[d]);
        rnn_q8_release(&s->qw[d]);
        rnn_q8_release(&s->qr[d]);
    }
}

static int read_acts(const struct op *op, struct rnn *s, opm_error *err)
{
    static const enum gate_function usual[3] = { ACT_SIGMOID, ACT_TANH, ACT_TANH };
    const struct attr *names = node_attr(op->node, "activations");
    int per = s->gates == 4 ? 3 : s->gates == 3 ? 2 : 1;
    size_t na, nb, ia = 0, ib = 0;
    const float *alpha = node_attr_floats(op->node, "activation_alpha", &na),
                *beta = node_attr_floats(op->node, "activation_beta", &nb);

    if (names && (names->type != ATTR_STRINGS || names->n < (size_t)(per * s->dirs)))
        return kernel_fail(op, OPM_EINVAL, err, "too few activations");
    for (int d = 0; d < s->dirs; d++)
        for (int k = 0; k < per; k++) {
            struct act *a = &s->act[d][k];
            const char *name = names ? names->string[d * per + k].s : NULL;
            bool has_a, has_b;

            a->kind = s->gates == 1 ? ACT_TANH : usual[k];
            for (int n = 0; name && n < ACT_N; n++) {
                if (strcasecmp(name, act_name[n]) == 0) {
                    a->kind = (enum gate_function)n;
                    break;
                }
                if (n == ACT_N - 1)
                    return kernel_fail(op, OPM_EUNSUPPORTED, err, "activation '%.30s'", name);
            }
            a->alpha = a->kind == ACT_LEAKY ? 0.01f : a->kind == ACT_HARDSIGMOID ? 0.2f : 1;
            a->beta = a->kind == ACT_HARDSIGMOID ? 0.5f : a->kind == ACT_SCALEDTANH ? 1 : 0;
            has_a = a->kind == ACT_AFFINE || a->kind == ACT_LEAKY || a->kind == ACT_THRESHOLDED ||
                    a->kind == ACT_SCALEDTANH || a->kind == ACT_HARDSIGMOID || a->kind == ACT_ELU;
            has_b =
                a->kind == ACT_AFFINE || a->kind == ACT_SCALEDTANH || a->kind == ACT_HARDSIGMOID;
            if (has_a && ia < na)
                a->alpha = alpha[ia++];
            if (has_b && ib < nb)
                a->beta = beta[ib++];
        }
    return 0;
}

static void apply_act(const struct isa *isa, const struct act *a, float *x, int64_t n)
{
    switch (a->kind) {
    case ACT_SIGMOID:
        isa->unary(U_SIGMOID, x, x, n, 0, 0);
        return;
    case ACT_TANH:
        isa->unary(U_TANH, x, x, n, 0, 0);
        return;
    case ACT_RELU:
        isa->unary(U_RELU, x, x, n, 0, 0);
        return;
    case ACT_LEAKY:
        isa->unary(U_LEAKY, x, x, n, a->alpha, 0);
        return;
    case ACT_AFFINE:
        isa->unary(U_AFFINE, x, x, n, a->alpha, a->beta);
        return;
    case ACT_HARDSIGMOID:
        isa->unary(U_HARDSIGMOID, x, x, n, a->alpha, a->beta);
        return;
    default:
        break;
    }
    for (int64_t i = 0; i < n; i++)
        switch (a->kind) {
        case ACT_THRESHOLDED:
            x[i] = x[i] > a->alpha ? x[i] : 0;
            break;
        case ACT_SCALEDTANH:
            x[i] = a->alpha * tanhf(a->beta * x[i]);
            break;
        case ACT_ELU:
            x[i] = x[i] < 0 ? a->alpha * (expf(x[i]) - 1) : x[i];
            break;
        case ACT_SOFTSIGN:
            x[i] = x[i] / (1 + fabsf(x[i]));
            break;
        default:
            x[i] = x[i] > 30 ? x[i] : log1pf(expf(x[i]));
        }
}

static uint64_t slot_types(const struct op *op, uint32_t slot)
{
    bool weight = slot == 1 || slot == 2;

    return weight && op->kernel->arg & RNN_QUANTIZED ? TYPES_QUANTIZED : TYPE_BIT(TENSOR_F32);
}

static int check_shape(const struct op *op, uint32_t slot, const int64_t *dim, int n,
                       opm_error *err)
{
    const struct nt *t = kernel_in(op, slot);
    int rc;

    if (!t)
        return 0;
    rc = kernel_want(op, slot, slot == 4 ? TYPE_BIT(TENSOR_I32) : slot_types(op, slot), err);
    if (rc)
        return rc;
    if (t->shape.rank != n)
        return kernel_fail(op, OPM_EINVAL, err, "input %u has rank %d", slot, t->shape.rank);
    for (int i = 0; i < n; i++)
        if (t->shape.dim[i] != dim[i])
            return kernel_fail(op, OPM_EINVAL, err, "input %u: dimension %d is %lld, not %lld",
                               slot, i, (long long)t->shape.dim[i], (long long)dim[i]);
    return 0;
}

/* Scales and zero points: one for a direction, or one for each of its columns. */
static int check_scales(const struct op *op, const struct rnn *s, opm_error *err)
{
    for (uint32_t slot = W_SCALE; slot <= R_ZERO; slot++) {
        const struct nt *t = kernel_in(op, slot);
        bool zero = slot == W_ZERO || slot == R_ZERO;

        if (!t || t->type != (zero ? kernel_in(op, slot == W_ZERO ? 1 : 2)->type : TENSOR_F32) ||
            (t->count != s->dirs && t->count != s->dirs * s->gates * s->h))
            return kernel_fail(op, OPM_EINVAL, err, "input %u does not fit", slot);
    }
    return 0;
}

static int check_inputs(const struct op *op, const struct rnn *s, opm_error *err)
{
    int64_t d = s->dirs, g = s->gates, h = s->h;
    int rc;

    if (s->quantized) {
        rc = check_shape(op, 1, (int64_t[]){ d, s->i, g * h }, 3, err);
        if (!rc)
            rc = check_shape(op, 2, (int64_t[]){ d, h, g * h }, 3, err);
        if (!rc)
            rc = check_scales(op, s, err);
    } else {
        rc = check_shape(op, 1, (int64_t[]){ d, g * h, s->i }, 3, err);
        if (!rc)
            rc = check_shape(op, 2, (int64_t[]){ d, g * h, h }, 3, err);
    }
    if (!rc)
        rc = check_shape(op, 3, (int64_t[]){ d, 2 * g * h }, 2, err);
    if (!rc)
        rc = check_shape(op, 4, (int64_t[]){ s->b }, 1, err);
    for (uint32_t k = 5; k <= (g == 4 ? 6u : 5u) && !rc; k++)
        rc = s->batch_first ? check_shape(op, k, (int64_t[]){ s->b, d, h }, 3, err)
                            : check_shape(op, k, (int64_t[]){ d, s->b, h }, 3, err);
    if (!rc && g == 4)
        rc = check_shape(op, 7, (int64_t[]){ d, 3 * h }, 2, err);
    return rc;
}

static float *room(float **p, int64_t floats)
{
    if (!*p && floats >= 0)
        *p = native_alloc((size_t)MAX(floats, (int64_t)1) * sizeof(float));
    return *p;
}

static int alloc_weights(struct op *op, struct rnn *s, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t gh = s->gates * s->h, first = s->gates == 3 ? 2 * s->h : gh;

    for (int d = 0; d < s->dirs; d++)
        if ((!s->quantized && (!room(&s->w[d], gemm_size_b(isa, s->i, gh)) ||
                               !room(&s->r[d], gemm_size_b(isa, s->h, first)))) ||
            (s->gates == 3 && !room(&s->r2[d], gemm_size_b(isa, s->h, s->h))) ||
            !room(&s->bias[d], gh) || !room(&s->rbias[d], s->h))
            return kernel_nomem(op, err);
    return 0;
}

/* W and R transposed and packed; biases added up where they can be. */
static int pack_weights(struct op *op, struct rnn *s, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t gh = s->gates * s->h, first = s->gates == 3 ? 2 * s->h : gh;
    int rc = 0;

    for (int d = 0; d < s->dirs; d++) {
        const float *w = (const float *)kernel_in(op, 1)->data + d * gh * s->i,
                    *r = (const float *)kernel_in(op, 2)->data + d * gh * s->h,
                    *b = kernel_in(op, 3) ? (const float *)kernel_in(op, 3)->data + d * 2 * gh
                                          : NULL;

        if (s->quantized) {
            rc = rnn_q8_pack(op, &s->qw[d], 1, W_SCALE, d, s->dirs, s->i, gh, err);
            if (!rc)
                rc = rnn_q8_pack(op, &s->qr[d], 2, R_SCALE, d, s->dirs, s->h, gh, err);
            if (rc)
                return rc;
        } else {
            gemm_pack_b(isa, s->w[d], w, s->i, gh, 1, s->i, 0, gemm_panels(gh, isa->nr));
            gemm_pack_b(isa, s->r[d], r, s->h, first, 1, s->h, 0, gemm_panels(first, isa->nr));
        }
        if (s->gates == 3)
            gemm_pack_b(isa, s->r2[d], r + first * s->h, s->h, s->h, 1, s->h, 0,
                        gemm_panels(s->h, isa->nr));
        for (int64_t k = 0; k < gh; k++) {
            bool apart = s->after && k >= first;

            s->bias[d][k] = b ? b[k] + (apart ? 0 : b[gh + k]) : 0;
            if (k >= gh - s->h)
                s->rbias[d][k - (gh - s->h)] = b && apart ? b[gh + k] : 0;
        }
    }
    s->packed = true;
    return 0;
}

static int plan_scratch(struct op *op, struct rnn *s, opm_error *err)
{
    int64_t rows, part[7], total = 0;
    size_t *at[] = {
        &s->at_xw, &s->at_gate, &s->at_h, &s->at_c, &s->at_rh, &s->at_tmp, &s->at_room
    };

    if (__builtin_mul_overflow(s->t, s->b, &rows))
        return kernel_fail(op, OPM_ELIMIT, err, "the input is too big");
    if (__builtin_mul_overflow(rows, s->gates * s->h, &part[0]))
        part[0] = -1;
    part[1] = s->b * s->gates * s->h;
    part[2] = part[3] = part[4] = part[5] = s->b * s->h;
    part[6] = 0;
    if (s->quantized) {
        int64_t x = rnn_q8_room(rows, s->i, s->gates * s->h),
                h = rnn_q8_room(s->b, s->h, s->gates * s->h);

        part[6] = x < 0 || h < 0 ? -1 : (MAX(x, h) + 3) / 4;
    }
    for (int i = 0; i < 7; i++) {
        if (part[i] < 0 || part[i] > PTRDIFF_MAX / 64)
            return kernel_fail(op, OPM_ELIMIT, err, "the input is too big");
        *at[i] = (size_t)total;
        total += (part[i] + 15) / 16 * 16;
    }
    op->scratch_bytes = (size_t)total * sizeof(float);
    return 0;
}

int rnn_prepare(struct op *op, opm_error *err)
{
    const struct nt *x = kernel_in(op, 0);
    struct rnn *s = kernel_new_state(op, sizeof(*s));
    const char *dir = node_attr_str(op->node, "direction", "forward");
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = rnn_release;
    for (uint32_t k = 1; k < 3 && !rc; k++)
        rc = kernel_want(op, k, slot_types(op, k), err);
    if (rc)
        return rc;
    if (x->shape.rank != 3 || kernel_in(op, 2)->shape.rank != 3)
        return kernel_fail(op, OPM_EINVAL, err, "wants inputs of rank 3");
    s->gates = op->kernel->arg & RNN_GATES;
    s->quantized = op->kernel->arg & RNN_QUANTIZED;
    s->batch_first = node_attr_int(op->node, "layout", 0);
    s->dirs = strcmp(dir, "bidirectional") == 0 ? 2 : 1;
    s->reverse_only = strcmp(dir, "reverse") == 0;
    s->t = x->shape.dim[s->batch_first];
    s->b = x->shape.dim[!s->batch_first];
    s->i = x->shape.dim[2];
    s->h = kernel_in(op, 2)->shape.dim[s->quantized ? 1 : 2];
    s->clip = node_attr_float(op->node, "clip", 0);
    s->coupled = node_attr_int(op->node, "input_forget", 0);
    s->after = s->gates == 3 && node_attr_int(op->node, "linear_before_reset", 0);
    if (s->h > INT32_MAX || s->b > INT32_MAX || s->i > INT32_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "the state is too big");
    rc = check_inputs(op, s, err);
    if (!rc)
        rc = read_acts(op, s, err);
    if (!rc)
        rc = alloc_weights(op, s, err);
    s->plain = s->gates == 4 && s->clip <= 0 && !s->coupled && !kernel_in(op, 7);
    for (int d = 0; d < s->dirs; d++)
        s->plain = s->plain && s->act[d][0].kind == ACT_SIGMOID && s->act[d][1].kind == ACT_TANH &&
                   s->act[d][2].kind == ACT_TANH;
    if (!rc)
        rc = plan_scratch(op, s, err);
    if (rc)
        return rc;
    return kernel_infer(op, err);
}

/* c = a * b + add, whose rows are add_rs apart; `turn` alternates. pool: NULL for this thread
 * alone. */
static void product(const struct op *op, struct pool *pool, const float *a, int64_t m, int64_t k,
                    const float *b, int64_t n, float *c, int64_t ldc, const float *add,
                    int64_t add_rs, int64_t turn)
{
    struct gemm g = { .isa = kernel_isa(op),
                      .m = m,
                      .n = n,
                      .k = k,
                      .a = a,
                      .ars = k,
                      .aks = 1,
                      .b = b,
                      .c = c,
                      .ldc = ldc,
                      .alpha = 1,
                      .add = add,
                      .add_rs = add_rs,
                      .add_cs = 1,
                      .backwards = turn % 2 };

    if (pool)
        gemm_run_all(&g, pool);
    else
        gemm_run_here(&g);
}

static void clamp(const struct isa *isa, const struct rnn *s, float *x, int64_t n)
{
    if (s->clip > 0)
        isa->unary(U_CLIP, x, x, n, -s->clip, s->clip);
}

/* Gates i, o, f, c of one batch item. */
static void lstm_cell(const struct op *op, const struct rnn *s, int d, float *g, float *h, float *c)
{
    const struct isa *isa = kernel_isa(op);
    const struct act *act = s->act[d];
    const float *p = kernel_in(op, 7) ? (const float *)kernel_in(op, 7)->data + d * 3 * s->h : NULL;
    float *gi = g, *go = g + s->h, *gf = g + 2 * s->h, *gc = g + 3 * s->h;

    for (int64_t k = 0; p && k < s->h; k++) {
        gi[k] += p[k] * c[k];
        gf[k] += p[2 * s->h + k] * c[k];
    }
    clamp(isa, s, g, 4 * s->h);
    apply_act(isa, &act[0], gi, s->h);
    apply_act(isa, &act[0], gf, s->h);
    apply_act(isa, &act[1], gc, s->h);
    for (int64_t k = 0; k < s->h; k++) {
        c[k] = (s->coupled ? 1 - gi[k] : gf[k]) * c[k] + gi[k] * gc[k];
        if (p)
            go[k] += p[s->h + k] * c[k];
    }
    clamp(isa, s, go, s->h);
    apply_act(isa, &act[0], go, s->h);
    memcpy(h, c, (size_t)s->h * sizeof(*h));
    apply_act(isa, &act[2], h, s->h);
    isa->binary(B_MUL, h, h, 1, go, 1, s->h);
}

struct step {
    const struct op *op;
    struct rnn *s;
    int d;
    const float *xw;
    float *gate, *h, *c, *rh, *tmp, *room;
    int64_t *active;
    int64_t b0, b1;    /* batch items */
    struct pool *pool; /* that shares each step; NULL: this thread does all of them alone */
};

/* The state's part of all gates, on top of the inputs' part that is in gate already. */
static void gru_step(const struct step *q, int64_t step)
{
    const struct rnn *s = q->s;
    const struct isa *isa = kernel_isa(q->op);
    int64_t h = s->h, first = q->b0 * h;

    for (int64_t b = q->b0; b < q->b1; b++) {
        float *g = q->gate + b * 3 * h;

        clamp(isa, s, g, 2 * h);
        apply_act(isa, &s->act[q->d][0], g, 2 * h);
        if (!s->after)
            isa->binary(B_MUL, q->rh + b * h, g + h, 1, q->h + b * h, 1, h);
    }
    if (s->after)
        product(q->op, q->pool, q->h + first, q->b1 - q->b0, h, s->r2[q->d], h, q->tmp + first, h,
                s->rbias[q->d], 0, step);
    else
        product(q->op, q->pool, q->rh + first, q->b1 - q->b0, h, s->r2[q->d], h, q->tmp + first, h,
                NULL, 0, step);
    for (int64_t b = q->b0; b < q->b1; b++) {
        float *z = q->gate + b * 3 * h, *r = z + h, *n = z + 2 * h, *state = q->h + b * h;

        if (!q->active[b])
            continue;
        for (int64_t k = 0; k < h; k++)
            n[k] += s->after ? r[k] * q->tmp[b * h + k] : q->tmp[b * h + k];
        clamp(isa, s, n, h);
        apply_act(isa, &s->act[q->d][1], n, h);
        for (int64_t k = 0; k < h; k++)
            state[k] = (1 - z[k]) * n[k] + z[k] * state[k];
    }
}

static int64_t length(const struct op *op, const struct rnn *s, int64_t b)
{
    const struct nt *len = kernel_in(op, 4);

    return len ? MIN(MAX((int64_t)((const int32_t *)len->data)[b], (int64_t)0), s->t) : s->t;
}

static int64_t y_at(const struct rnn *s, int64_t t, int d, int64_t b)
{
    return (s->batch_first ? (b * s->t + t) * s->dirs + d : (t * s->dirs + d) * s->b + b) * s->h;
}

static int64_t h_at(const struct rnn *s, int d, int64_t b)
{
    return (s->batch_first ? b * s->dirs + d : d * s->b + b) * s->h;
}

/* All gates but a GRU's last: the inputs' part, which is there, and the state's. */
static void state_part(const struct step *q, int64_t step)
{
    const struct rnn *s = q->s;
    const struct isa *isa = kernel_isa(q->op);
    int64_t gh = s->gates * s->h, first = s->gates == 3 ? 2 * s->h : gh;
    bool reverse = s->reverse_only || q->d == 1, even = !kernel_in(q->op, 4);
    int64_t at = reverse ? s->t - 1 - step : step;
    const float *h = q->h + q->b0 * s->h;
    float *gate = q->gate + q->b0 * gh;

    if (s->quantized) /* all sequences at once: b0 is 0 */
        rnn_q8_product(q->op, &s->qr[q->d], h, s->b, gate,
                       even ? q->xw + (s->batch_first ? at : at * s->b) * gh : NULL,
                       s->batch_first ? s->t * gh : gh, q->room);
    else if (even) /* all sequences have the same length, so sums can begin with the inputs' part */
        product(q->op, q->pool, h, q->b1 - q->b0, s->h, s->r[q->d], first, gate, gh,
                q->xw + (s->batch_first ? q->b0 * s->t + at : at * s->b + q->b0) * gh,
                s->batch_first ? s->t * gh : gh, step);
    else
        product(q->op, q->pool, h, q->b1 - q->b0, s->h, s->r[q->d], first, gate, gh, NULL, 0, step);
    for (int64_t b = q->b0; b < q->b1; b++) {
        int64_t len = length(q->op, s, b), t = reverse ? len - 1 - step : step;
        const float *x;

        q->active[b] = step < len;
        if (!q->active[b])
            continue;
        x = q->xw + (s->batch_first ? b * s->t + t : t * s->b + b) * gh;
        if (!even)
            isa->binary(B_ADD, q->gate + b * gh, q->gate + b * gh, 1, x, 1, first);
        if (first < gh)
            memcpy(q->gate + b * gh + first, x + first, (size_t)(gh - first) * sizeof(*x));
    }
}

struct cells {
    const struct step *q;
    int64_t step;
};

/* What comes after the products, for batch items [begin, end). */
static void cells_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct cells *j = arg;
    const struct step *q = j->q;
    const struct rnn *s = q->s;
    const struct isa *isa = kernel_isa(q->op);
    int64_t gh = s->gates * s->h;
    bool reverse = s->reverse_only || q->d == 1;
    float *y = kernel_out(q->op, 0) ? kernel_out(q->op, 0)->data : NULL;

    (void)thread;
    for (int64_t b = begin; b < end; b++) {
        int64_t len = length(q->op, s, b), t = reverse ? len - 1 - j->step : j->step;
        float *h = q->h + b * s->h, *g = q->gate + b * gh;

        if (!q->active[b]) {
            if (y)
                memset(y + y_at(s, j->step, q->d, b), 0, (size_t)s->h * sizeof(*y));
            continue;
        }
        if (s->plain)
            isa->lstm(h, q->c + b * s->h, g, s->h);
        else if (s->gates == 4)
            lstm_cell(q->op, s, q->d, g, h, q->c + b * s->h);
        else if (s->gates == 1) {
            clamp(isa, s, g, s->h);
            apply_act(isa, &s->act[q->d][0], g, s->h);
            memcpy(h, g, (size_t)s->h * sizeof(*h));
        }
        if (y)
            memcpy(y + y_at(s, t, q->d, b), h, (size_t)s->h * sizeof(*y));
    }
}

static void one_step(const struct step *q, int64_t step)
{
    struct cells j = { q, step };

    state_part(q, step);
    if (q->s->gates == 3)
        gru_step(q, step);
    if (q->pool)
        pool_for(q->pool, q->s->b, pool_grain((double)q->s->h * CELL_NS), cells_part, &j);
    else
        cells_part(&j, q->b0, q->b1, 0);
}

/* Batch items that a thread takes at least: a panel of rows, or where there is but one some of it,
 * though never one alone, which is summed in another order than several. */
static int64_t items(const struct step *q)
{
    return q->s->b > kernel_isa(q->op)->mr ? kernel_isa(q->op)->mr : ITEMS_LEAST;
}

/* All steps of some batch items. */
static void items_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct step q = *(const struct step *)arg;

    (void)thread;
    q.b0 = begin * items(&q);
    q.b1 = end == q.s->b / items(&q) ? q.s->b : end * items(&q);
    for (int64_t step = 0; step < q.s->t; step++)
        one_step(&q, step);
}

/* Where there are batch items for all threads, each has its own: nobody waits in between. Else they
 * share each step. */
static void all_steps(struct step *q)
{
    const struct rnn *s = q->s;
    struct pool *pool = kernel_pool(q->op);
    int64_t n = s->b / items(q), threads = pool_threads(pool);

    if (threads > 1 && n >= threads && !s->quantized) {
        q->pool = NULL;
        pool_for(pool, n, n / threads, items_part, q);
        return;
    }
    q->pool = pool;
    q->b0 = 0;
    q->b1 = s->b;
    for (int64_t step = 0; step < s->t; step++)
        one_step(q, step);
}

static void copy_state(const struct rnn *s, int d, const struct nt *from, float *to)
{
    for (int64_t b = 0; b < s->b; b++) {
        if (from)
            memcpy(to + b * s->h, (const float *)from->data + h_at(s, d, b),
                   (size_t)s->h * sizeof(*to));
        else
            memset(to + b * s->h, 0, (size_t)s->h * sizeof(*to));
    }
}

static bool weights_fixed(const struct op *op, const struct rnn *s)
{
    bool fixed =
        kernel_fixed(op, 1) && kernel_fixed(op, 2) && (!kernel_in(op, 3) || kernel_fixed(op, 3));

    for (uint32_t slot = W_SCALE; slot <= R_ZERO && s->quantized; slot++)
        fixed = fixed && kernel_fixed(op, slot);
    return fixed;
}

int rnn_run(struct op *op, opm_error *err)
{
    struct rnn *s = op->state;
    float *mem = op->scratch;
    int64_t gh = s->gates * s->h;
    const float *x = kernel_in(op, 0)->data;
    int rc = 0;
    struct step q = { .op = op,
                      .s = s,
                      .xw = mem + s->at_xw,
                      .gate = mem + s->at_gate,
                      .h = mem + s->at_h,
                      .c = mem + s->at_c,
                      .rh = mem + s->at_rh,
                      .tmp = mem + s->at_tmp,
                      .room = mem + s->at_room,
                      .active = mem_calloc((size_t)s->b + 1, sizeof(*q.active)) };

    if (!q.active)
        return kernel_nomem(op, err);
    if (!s->packed || !weights_fixed(op, s))
        rc = pack_weights(op, s, err);
    for (int d = 0; d < s->dirs && !rc; d++) {
        q.d = d;
        if (s->quantized)
            rnn_q8_product(op, &s->qw[d], x, s->t * s->b, mem + s->at_xw, s->bias[d], 0, q.room);
        else
            product(op, kernel_pool(op), x, s->t * s->b, s->i, s->w[d], gh, mem + s->at_xw, gh,
                    s->bias[d], 0, 0);
        copy_state(s, d, kernel_in(op, 5), q.h);
        copy_state(s, d, s->gates == 4 ? kernel_in(op, 6) : NULL, q.c);
        all_steps(&q);
        for (uint32_t k = 1; k < (s->gates == 4 ? 3u : 2u); k++)
            for (int64_t b = 0; kernel_out(op, k) && b < s->b; b++)
                memcpy((float *)kernel_out(op, k)->data + h_at(s, d, b),
                       (k == 1 ? q.h : q.c) + b * s->h, (size_t)s->h * sizeof(float));
    }
    mem_free(q.active);
    return rc;
}
