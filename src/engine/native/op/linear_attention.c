/* linear_attention.c -- LinearAttention, which carries a state from one call to the next. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* LinearAttention: query, key, value, past state, decay, beta, erase gate; output, present state.
 * All but the states are [batch, length, heads * width]. */
enum { LIN_QUERY, LIN_KEY, LIN_VALUE, LIN_STATE, LIN_DECAY, LIN_BETA, LIN_ERASE, LIN_INPUTS };

struct linear {
    int64_t batch, len, heads, kv, dk, dv;
    bool gated, delta;
    int64_t decays; /* of a head: 1 or dk */
    int64_t betas;  /* 1, or one for each head */
    float scale;
};

static bool linear_rule(const struct op *op, struct linear *l)
{
    static const char *const rules[] = { "linear", "gated", "delta", "gated_delta" };
    const char *rule = node_attr_str(op->node, "update_rule", "gated_delta");
    int i = 0;

    while (i < 4 && strcmp(rule, rules[i]) != 0)
        i++;
    l->gated = i & 1;
    l->delta = i & 2;
    return i < 4;
}

/* [batch, len, n * heads], n at least 1; n, or 0 if it does not fit. */
static int64_t per_head(const struct linear *l, const struct nt *t, int64_t heads)
{
    const struct shape *s = &t->shape;

    return s->rank == 3 && s->dim[0] == l->batch && s->dim[1] == l->len && s->dim[2] % heads == 0
               ? s->dim[2] / heads
               : 0;
}

static bool linear_fits(const struct op *op, struct linear *l)
{
    const struct nt *in[LIN_INPUTS];
    struct shape state;

    for (uint32_t i = 0; i < LIN_INPUTS; i++)
        in[i] = kernel_in(op, i);
    l->heads = node_attr_int(op->node, "q_num_heads", 0);
    l->kv = node_attr_int(op->node, "kv_num_heads", 0);
    if (l->heads < 1 || l->kv < 1 || l->heads % l->kv || in[LIN_QUERY]->shape.rank != 3)
        return false;
    l->batch = in[LIN_QUERY]->shape.dim[0];
    l->len = in[LIN_QUERY]->shape.dim[1];
    l->dk = per_head(l, in[LIN_QUERY], l->heads);
    l->dv = per_head(l, in[LIN_VALUE], l->kv);
    if (l->dk < 1 || l->dv < 1 || per_head(l, in[LIN_KEY], l->kv) != l->dk ||
        l->gated != (in[LIN_DECAY] != NULL) || l->delta != (in[LIN_BETA] != NULL) ||
        (in[LIN_ERASE] && (!l->delta || per_head(l, in[LIN_ERASE], l->kv) != l->dk)))
        return false;
    if (l->gated) {
        l->decays = per_head(l, in[LIN_DECAY], l->kv);
        if (l->decays != 1 && l->decays != l->dk)
            return false;
    }
    if (l->delta) {
        l->betas = per_head(l, in[LIN_BETA], 1);
        if (l->betas != 1 && l->betas != l->kv)
            return false;
    }
    state = (struct shape){ 4, { l->batch, l->kv, l->dk, l->dv } };
    return !in[LIN_STATE] || shape_equal(&in[LIN_STATE]->shape, &state);
}

int linearattention_prepare(struct op *op, opm_error *err)
{
    struct linear *l = kernel_new_state(op, sizeof(*l));
    int64_t bytes;
    int rc = l ? 0 : kernel_nomem(op, err);

    for (uint32_t i = 0; i < LIN_INPUTS && !rc; i++)
        if (i < LIN_STATE || kernel_in(op, i))
            rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    *l = (struct linear){ 0 };
    if (!linear_rule(op, l))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for the rule '%.40s'",
                           node_attr_str(op->node, "update_rule", ""));
    if (node_attr_int(op->node, "state_window", 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for a window of states");
    if (!linear_fits(op, l))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    l->scale = node_attr_float(op->node, "scale", 0);
    if (l->scale == 0)
        l->scale = 1 / sqrtf((float)l->dk);
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    /* For each thread what is written to the state; the state, if it is no output. */
    bytes = 4 * l->dv;
    if (__builtin_mul_overflow(bytes, (int64_t)pool_threads(kernel_pool(op)), &bytes))
        return kernel_fail(op, OPM_ELIMIT, err, "the values are too wide");
    if (!kernel_out(op, 1)) {
        int64_t state = 4;

        if (__builtin_mul_overflow(state, l->batch * l->kv, &state) ||
            __builtin_mul_overflow(state, l->dk, &state) ||
            __builtin_mul_overflow(state, l->dv, &state) ||
            __builtin_add_overflow(bytes, state, &bytes))
            return kernel_fail(op, OPM_ELIMIT, err, "the state is too big");
    }
    op->scratch_bytes = (size_t)bytes;
    return 0;
}

/* Token `row` of the batch's, head h of `heads`. */
static const float *token(const struct op *op, uint32_t slot, int64_t row, int64_t h, int64_t heads,
                          int64_t width)
{
    return (const float *)kernel_in(op, slot)->data + (row * heads + h) * width;
}

/* One token: the state s of a head fades, forgets, learns; out: what q finds there. */
static void linear_step(const struct op *op, const struct linear *l, float *s, float *write,
                        int64_t row, int64_t h, const float *q, float *out)
{
    const struct isa *isa = kernel_isa(op);
    const float *k = token(op, LIN_KEY, row, h, l->kv, l->dk);

    if (l->gated) {
        const float *decay = token(op, LIN_DECAY, row, h, l->kv, l->decays);

        for (int64_t d = 0; d < l->dk; d++)
            isa->unary(U_AFFINE, s + d * l->dv, s + d * l->dv, l->dv,
                       expf(decay[l->decays == 1 ? 0 : d]), 0);
    }
    memcpy(write, token(op, LIN_VALUE, row, h, l->kv, l->dv), (size_t)l->dv * sizeof(*write));
    if (l->delta) {
        const float *erase = kernel_in(op, LIN_ERASE) ? token(op, LIN_ERASE, row, h, l->kv, l->dk)
                                                      : NULL,
                    *beta = token(op, LIN_BETA, row, l->betas == 1 ? 0 : h, l->betas, 1);

        for (int64_t d = 0; d < l->dk; d++)
            isa->loops->axpy(write, s + d * l->dv, -k[d] * (erase ? erase[d] : 1), l->dv);
        isa->unary(U_AFFINE, write, write, l->dv, *beta, 0);
    }
    isa->loops->learn(s, k, write, q, out, l->dk, l->dv);
}

/* Heads of keys and values, batch item by batch item. */
static void linear_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct linear *l = op->state;
    const struct isa *isa = kernel_isa(op);
    const struct nt *past = kernel_in(op, LIN_STATE);
    float *write = (float *)op->scratch + thread * l->dv,
          *states = kernel_out(op, 1)
                        ? kernel_out(op, 1)->data
                        : (float *)op->scratch + pool_threads(kernel_pool(op)) * l->dv;
    int64_t group = l->heads / l->kv, size = l->dk * l->dv;

    for (int64_t i = begin; i < end; i++) {
        int64_t h = i % l->kv, b = i / l->kv;
        float *s = states + i * size;

        if (past)
            memcpy(s, (const float *)past->data + i * size, (size_t)size * sizeof(*s));
        else
            memset(s, 0, (size_t)size * sizeof(*s));
        for (int64_t t = 0; t < l->len; t++) {
            int64_t row = b * l->len + t;

            linear_step(op, l, s, write, row, h,
                        token(op, LIN_QUERY, row, h * group, l->heads, l->dk),
                        (float *)kernel_out(op, 0)->data + (row * l->heads + h * group) * l->dv);
            for (int64_t q = h * group; q < (h + 1) * group; q++) {
                const float *x = token(op, LIN_QUERY, row, q, l->heads, l->dk);
                float *out = (float *)kernel_out(op, 0)->data + (row * l->heads + q) * l->dv;

                if (q > h * group) {
                    memset(out, 0, (size_t)l->dv * sizeof(*out));
                    for (int64_t d = 0; d < l->dk; d++)
                        isa->loops->axpy(out, s + d * l->dv, x[d], l->dv);
                }
                isa->unary(U_AFFINE, out, out, l->dv, l->scale, 0);
            }
        }
    }
}

int linearattention_run(struct op *op, opm_error *err)
{
    const struct linear *l = op->state;

    (void)err;
    pool_for(kernel_pool(op), l->batch * l->kv, 1, linear_part, op);
    return 0;
}
