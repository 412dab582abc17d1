/* causal_conv.c -- CausalConvWithState: each channel through a filter of its own that sees what
 * came before, of earlier calls, too.
 *
 * Channels come first, a row of time each, or last, as com.microsoft's may: then a row of time is
 * all channels, and taps are rows. The state is what is before the next input; several of them, if
 * asked for, are those after each of the last places. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <string.h>

enum { CAUSAL_X, CAUSAL_WEIGHT, CAUSAL_BIAS, CAUSAL_PAST };

struct causal {
    int64_t batch, channels, len, taps, dilation;
    int64_t before; /* places of the state */
    int64_t states; /* how many */
    bool last, silu;
};

static bool causal_fits(const struct op *op, struct causal *c)
{
    const struct shape *x = &kernel_in(op, CAUSAL_X)->shape,
                       *w = &kernel_in(op, CAUSAL_WEIGHT)->shape;
    const struct nt *bias = kernel_in(op, CAUSAL_BIAS);

    c->last = node_attr_int(op->node, "channels_last", 0) != 0;
    if (x->rank < 3 || (x->rank > 3 && !c->last) || w->rank != 3 || w->dim[1] != 1 || w->dim[2] < 1)
        return false;
    c->batch = x->dim[0];
    c->channels = c->last ? nt_span(x, 2, x->rank) : x->dim[1];
    c->len = x->dim[c->last ? 1 : 2];
    c->taps = w->dim[2];
    return w->dim[0] == c->channels && (!bias || bias->count == c->channels);
}

int causalconv_prepare(struct op *op, opm_error *err)
{
    struct causal *c = kernel_new_state(op, sizeof(*c));
    const char *act = node_attr_str(op->node, "activation", "none");
    const struct nt *past = kernel_in(op, CAUSAL_PAST);
    int64_t state, each;
    int rc = c ? 0 : kernel_nomem(op, err);

    for (uint32_t i = CAUSAL_X; i <= CAUSAL_PAST && !rc; i++)
        if (i <= CAUSAL_WEIGHT || kernel_in(op, i))
            rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    *c = (struct causal){ .silu = strcmp(act, "none") != 0 };
    if (c->silu && strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for the activation '%.40s'", act);
    if (!causal_fits(op, c))
        return kernel_fail(op, OPM_EUNSUPPORTED, err,
                           "wants batch x channels x length, and a weight of channels x 1 x k");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    c->dilation = node_attr_int(op->node, "dilation", 1);
    c->states = MAX(node_attr_int(op->node, "state_window", 0), (int64_t)1);
    if (__builtin_mul_overflow(c->taps - 1, c->dilation, &c->before) ||
        __builtin_mul_overflow(c->before, c->batch * c->channels, &state) ||
        __builtin_mul_overflow(state, c->states, &state) || c->len > PTRDIFF_MAX / 64 ||
        c->before > PTRDIFF_MAX / 64)
        return kernel_fail(op, OPM_ELIMIT, err, "the rows are too long");
    if (past && past->count != state)
        return kernel_fail(op, OPM_EINVAL, err, "the past state must have %lld elements a channel",
                           (long long)c->before);
    each = c->last ? c->channels : c->len + c->before + 1;
    op->scratch_bytes =
        (size_t)(each * pool_threads(kernel_pool(op)) + (c->last ? c->channels * c->taps : 0)) *
        sizeof(float);
    return 0;
}

/* The last of the states that came in. */
static const float *past_of(const struct op *op)
{
    const struct causal *c = op->state;
    const struct nt *past = kernel_in(op, CAUSAL_PAST);

    return past ? (const float *)past->data + past->count / c->states * (c->states - 1) : NULL;
}

/* A state's place in time: so many inputs came before its end; below 0: none is asked for. */
static int64_t inputs_of(const struct causal *c, int64_t state)
{
    return c->len - (c->states - 1 - state);
}

static void copy_floats(float *to, const float *from, int64_t n)
{
    if (n && from)
        memcpy(to, from, (size_t)n * sizeof(*to));
    else if (n)
        memset(to, 0, (size_t)n * sizeof(*to));
}

/* -- channels first -- */

static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct causal *c = op->state;
    const struct isa *isa = kernel_isa(op);
    const struct nt *bias = kernel_in(op, CAUSAL_BIAS);
    const float *past = past_of(op);
    float *line = (float *)op->scratch + thread * (c->len + c->before + 1);

    for (int64_t i = begin; i < end; i++) {
        const float *w =
            (const float *)kernel_in(op, CAUSAL_WEIGHT)->data + i % c->channels * c->taps;
        float *out = (float *)kernel_out(op, 0)->data + i * c->len,
              start = bias ? ((const float *)bias->data)[i % c->channels] : 0;

        copy_floats(line, past ? past + i * c->before : NULL, c->before);
        copy_floats(line + c->before, (const float *)kernel_in(op, CAUSAL_X)->data + i * c->len,
                    c->len);
        for (int64_t t = 0; t < c->len; t++)
            out[t] = start;
        for (int64_t k = 0; k < c->taps; k++)
            isa->loops->axpy(out, line + k * c->dilation, w[k], c->len);
        if (c->silu)
            isa->unary(U_SILU, out, out, c->len, 1, 0);
        for (int64_t s = 0; kernel_out(op, 1) && s < c->states; s++)
            copy_floats(
                (float *)kernel_out(op, 1)->data + (s * c->batch * c->channels + i) * c->before,
                inputs_of(c, s) > 0 || c->states == 1 ? line + inputs_of(c, s) : NULL, c->before);
    }
}

/* -- channels last -- */

/* Row `at` of a batch item, below 0 of what is past; NULL: zeros. */
static const float *row_at(const struct op *op, int64_t b, int64_t at)
{
    const struct causal *c = op->state;
    const float *past = past_of(op);

    if (at >= 0)
        return (const float *)kernel_in(op, CAUSAL_X)->data + (b * c->len + at) * c->channels;
    return past ? past + (b * c->before + c->before + at) * c->channels : NULL;
}

static void places_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct causal *c = op->state;
    const struct isa *isa = kernel_isa(op);
    const struct nt *bias = kernel_in(op, CAUSAL_BIAS);
    const float *turned = op->scratch;
    float *product = (float *)op->scratch + c->channels * (c->taps + thread);

    for (int64_t i = begin; i < end; i++) {
        float *out = (float *)kernel_out(op, 0)->data + i * c->channels;

        copy_floats(out, bias ? bias->data : NULL, c->channels);
        for (int64_t k = 0; k < c->taps; k++) {
            const float *row = row_at(op, i / c->len, i % c->len - (c->taps - 1 - k) * c->dilation);

            if (!row)
                continue;
            isa->binary(B_MUL, product, row, 1, turned + k * c->channels, 1, c->channels);
            isa->binary(B_ADD, out, out, 1, product, 1, c->channels);
        }
        if (c->silu)
            isa->unary(U_SILU, out, out, c->channels, 1, 0);
    }
}

static void run_last(struct op *op)
{
    const struct causal *c = op->state;
    const float *w = kernel_in(op, CAUSAL_WEIGHT)->data;
    float *turned = op->scratch;
    struct nt *present = kernel_out(op, 1);

    for (int64_t k = 0; k < c->taps; k++)
        for (int64_t i = 0; i < c->channels; i++)
            turned[k * c->channels + i] = w[i * c->taps + k];
    pool_for(kernel_pool(op), c->batch * c->len, pool_grain((double)(c->channels * c->taps) * 0.2),
             places_part, op);
    for (int64_t s = 0; present && s < c->states; s++)
        for (int64_t i = 0; i < c->batch * c->before; i++) {
            int64_t b = i / c->before, at = inputs_of(c, s) - c->before + i % c->before;

            copy_floats((float *)present->data + (s * c->batch * c->before + i) * c->channels,
                        inputs_of(c, s) > 0 || c->states == 1 ? row_at(op, b, at) : NULL,
                        c->channels);
        }
}

int causalconv_run(struct op *op, opm_error *err)
{
    const struct causal *c = op->state;

    (void)err;
    if (c->last)
        run_last(op);
    else
        pool_for(kernel_pool(op), c->batch * c->channels, MAX(2048 / (c->len + 1), (int64_t)1),
                 rows_part, op);
    return 0;
}
