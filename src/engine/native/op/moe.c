/* moe.c -- com.microsoft's MoE and QMoE: each token goes through the k experts that its router's
 * logits choose, feed-forward networks of two or three products, and their results are added up by
 * weights. */
#include "engine/native/op/moe.h"

#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

enum { IN_TOKENS, IN_ROUTER, IN_ROUTER_WEIGHTS = 14 };
enum { FC_UP, FC_DOWN, FC_GATE, NFC };

enum activation { EXPERT_RELU, EXPERT_GELU, EXPERT_SILU, EXPERT_IDENTITY, EXPERT_SWIGLU, NEXPERT };

/* Slots of weights, biases, scales and zero points. */
static const struct moe_matrix plain_slots[NFC] = {
    { .slot = 2, .bias = 3, .scale = NO_VALUE, .zero = NO_VALUE },
    { .slot = 4, .bias = 5, .scale = NO_VALUE, .zero = NO_VALUE },
    { .slot = 6, .bias = 7, .scale = NO_VALUE, .zero = NO_VALUE },
};
static const struct moe_matrix quant_slots[NFC] = {
    { .slot = 2, .scale = 3, .bias = 4, .zero = 11 },
    { .slot = 5, .scale = 6, .bias = 7, .zero = 12 },
    { .slot = 8, .scale = 9, .bias = 10, .zero = 13 },
};

struct moe {
    enum activation act;
    bool quantised, normalised;
    int fusion; /* of the gate into the first product: 0 none, 1 in turns, 2 one half each */
    float alpha, beta, limit;
    int64_t tokens, hidden, inter, experts, k;
    struct moe_matrix fc[NFC];
    /* Of scratch, in bytes: who goes where with which weight, rows, what is between products. */
    size_t at_expert, at_weight, at_row, at_in, at_up, at_gate, at_out, at_room;
};

static void moe_release(void *state)
{
    struct moe *m = state;

    for (int i = 0; i < NFC; i++)
        moe_matrix_release(&m->fc[i]);
}

static int read_attributes(struct op *op, struct moe *m, opm_error *err)
{
    static const char *const names[NEXPERT] = { "relu", "gelu", "silu", "identity", "swiglu" };
    const char *act = node_attr_str(op->node, "activation_type", "relu");
    const struct node *n = op->node;
    int bits = (int)MIN(MAX(node_attr_int(n, "expert_weight_bits", 4), (int64_t)0), (int64_t)99);
    int i = 0;

    while (i < NEXPERT && strcmp(act, names[i]) != 0)
        i++;
    if (i == NEXPERT)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for the activation '%.40s'", act);
    m->act = (enum activation)i;
    m->quantised = op->kernel->arg == MOE_QUANTISED;
    m->normalised = node_attr_int(n, "normalize_routing_weights", 0) == 1;
    m->fusion = (int)node_attr_int(n, "swiglu_fusion", 0);
    m->alpha = node_attr_float(n, "activation_alpha", 1);
    m->beta = node_attr_float(n, "activation_beta", 0);
    m->limit = node_attr_float(n, "swiglu_limit", INFINITY);
    m->k = node_attr_int(n, "k", 1);
    if (node_attr_int(n, "use_sparse_mixer", 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for the sparse mixer");
    if (node_attr_int(n, "weights_prepacked", 0) > 0 ||
        strcmp(node_attr_str(n, "quant_type", "int"), "int") != 0)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for weights of this form");
    if (m->quantised && bits != 2 && bits != 4 && bits != 8)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for weights of %d bits", bits);
    for (int f = 0; f < NFC; f++)
        m->fc[f].bits = m->quantised ? bits : 0;
    return 0;
}

/* How big everything is, by the tokens, the router and the second product. */
static int read_shapes(struct op *op, struct moe *m, opm_error *err)
{
    const struct nt *x = kernel_in(op, IN_TOKENS), *router = kernel_in(op, IN_ROUTER),
                    *down = kernel_in(op, m->fc[FC_DOWN].slot);
    int64_t block = node_attr_int(op->node, "block_size", 0), room;
    bool gated = m->act == EXPERT_SWIGLU, third = kernel_in(op, m->fc[FC_GATE].slot);
    int bits = m->quantised ? m->fc[0].bits : 8;

    if (x->shape.rank < 2 || router->shape.rank != 2 || !down || down->shape.rank != 3 ||
        !kernel_in(op, m->fc[FC_UP].slot))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    m->hidden = x->shape.dim[x->shape.rank - 1];
    m->tokens = nt_span(&x->shape, 0, x->shape.rank - 1);
    m->experts = router->shape.dim[1];
    if (m->hidden < 1 || m->experts < 1 || router->shape.dim[0] != m->tokens ||
        down->shape.dim[0] != m->experts || m->k < 1 || m->k > m->experts ||
        __builtin_mul_overflow(down->shape.dim[1] * down->shape.dim[2], 8 / bits, &room))
        return kernel_fail(op, OPM_EINVAL, err, "tokens, router and experts do not fit");
    m->inter = room / m->hidden;
    if (m->inter < 1 || (gated && !third && m->fusion != 1 && m->fusion != 2) || block < 0)
        return kernel_fail(op, OPM_EINVAL, err,
                           "swiglu needs a third product or one that is fused (swiglu_fusion)");
    for (int f = 0; f < NFC; f++) {
        struct moe_matrix *w = &m->fc[f];

        w->experts = m->experts;
        w->n = f == FC_DOWN ? m->hidden : f == FC_UP && gated && !third ? 2 * m->inter : m->inter;
        w->k = f == FC_DOWN ? m->inter : m->hidden;
        w->block = block ? block : w->k;
    }
    return 0;
}

/* Behind each other, aligned. */
static size_t put(size_t *at, int64_t n, int64_t width)
{
    size_t here = *at;

    *at += ((size_t)(n * width) + 2 * NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
    return here;
}

static int plan_scratch(struct op *op, struct moe *m, opm_error *err)
{
    int64_t routes, all, widest = MAX(m->hidden, 2 * m->inter);
    size_t at = 0, room = 0;

    if (__builtin_mul_overflow(m->tokens, m->k, &routes) ||
        __builtin_mul_overflow(m->tokens, 64 * widest, &all))
        return kernel_fail(op, OPM_ELIMIT, err, "there are too many tokens");
    for (int f = 0; f < NFC; f++)
        if (kernel_in(op, m->fc[f].slot))
            room = MAX(room, moe_scratch(op, &m->fc[f], m->tokens));
    m->at_expert = put(&at, routes, sizeof(int32_t));
    m->at_weight = put(&at, MAX(routes, m->experts), sizeof(float));
    m->at_row = put(&at, m->tokens, sizeof(int64_t));
    m->at_in = put(&at, m->tokens * m->hidden, sizeof(float));
    m->at_up = put(&at, m->tokens * m->fc[FC_UP].n, sizeof(float));
    m->at_gate = put(&at, m->tokens * m->inter, sizeof(float));
    m->at_out = put(&at, m->tokens * m->hidden, sizeof(float));
    m->at_room = put(&at, (int64_t)room, 1);
    op->scratch_bytes = at;
    return 0;
}

int moe_prepare(struct op *op, opm_error *err)
{
    struct moe *m = kernel_new_state(op, sizeof(*m));
    int rc = m ? kernel_want(op, IN_TOKENS, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, IN_ROUTER, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    if (!op->release) {
        memcpy(m->fc, op->kernel->arg == MOE_QUANTISED ? quant_slots : plain_slots, sizeof(m->fc));
        op->release = moe_release;
    }
    rc = read_attributes(op, m, err);
    if (!rc)
        rc = read_shapes(op, m, err);
    for (int f = 0; f < NFC && !rc; f++)
        if (kernel_in(op, m->fc[f].slot))
            rc = moe_matrix_prepare(op, &m->fc[f], err);
    if (!rc && m->quantised && kernel_in(op, IN_ROUTER_WEIGHTS)) {
        rc = kernel_want(op, IN_ROUTER_WEIGHTS, TYPE_BIT(TENSOR_F32), err);
        if (!rc && kernel_in(op, IN_ROUTER_WEIGHTS)->count != m->tokens * m->experts)
            rc = kernel_fail(op, OPM_EINVAL, err, "router_weights do not fit");
    }
    if (!rc)
        rc = plan_scratch(op, m, err);
    return rc ? rc : kernel_infer(op, err);
}

/* -- where tokens go -- */

/* The k greatest logits, and what weights their experts have: their share of the softmax over all
 * experts, or, in QMoE, over those that are chosen. */
static void choose(const struct moe *m, const float *logit, const float *given, int32_t *expert,
                   float *weight)
{
    float top = logit[0], sum = 0, all = 0;

    for (int64_t e = 1; e < m->experts; e++)
        top = MAX(top, logit[e]);
    for (int64_t e = 0; e < m->experts && !m->quantised; e++)
        all += expf(logit[e] - top);
    for (int64_t k = 0; k < m->k; k++) {
        int32_t best = -1;

        for (int32_t e = 0; e < m->experts; e++) {
            bool taken = false;

            for (int64_t i = 0; i < k && !taken; i++)
                taken = expert[i] == e;
            if (!taken && (best < 0 || logit[e] >= logit[best]))
                best = e;
        }
        expert[k] = best;
        weight[k] = given ? given[best] : expf(logit[best] - top);
        sum += weight[k];
    }
    if (m->normalised || (m->quantised && !given))
        all = sum;
    else if (given)
        all = 1;
    for (int64_t k = 0; k < m->k; k++)
        weight[k] = all != 0 ? weight[k] / all : 0;
}

/* -- an expert -- */

/* x * sigmoid(alpha x) (y + beta), both limited. */
static float swiglu(const struct moe *m, float x, float y)
{
    x = MIN(x, m->limit);
    y = MAX(MIN(y, m->limit), -m->limit);
    return x / (1 + expf(-m->alpha * x)) * (y + m->beta);
}

struct act_job {
    const struct op *op;
    const struct moe *m;
    float *up;
    const float *gate;
};

/* Rows of what the first product gave become the second's, in place. */
static void act_part(void *arg, int64_t begin, int64_t end, int thread)
{
    static const enum isa_unary functions[] = { U_RELU, U_GELU_TANH, U_SILU };
    const struct act_job *j = arg;
    const struct moe *m = j->m;
    const struct isa *isa = kernel_isa(j->op);

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        float *x = j->up + r * m->fc[FC_UP].n;
        const float *y = j->gate ? j->gate + r * m->inter : NULL;

        if (m->act == EXPERT_SWIGLU) {
            bool turns = !y && m->fusion == 1;

            for (int64_t i = 0; i < m->inter; i++)
                x[i] = turns ? swiglu(m, x[2 * i], x[2 * i + 1])
                             : swiglu(m, x[i], y ? y[i] : x[m->inter + i]);
            continue;
        }
        if (m->act < EXPERT_IDENTITY)
            isa->unary(functions[m->act], x, x, m->inter, m->act == EXPERT_SILU ? 1 : 0, 0);
        for (int64_t i = 0; y && i < m->inter; i++)
            x[i] *= y[i];
    }
}

/* The rows that expert e has through its network, and added to the output. */
static void run_expert(struct op *op, const struct moe *m, int64_t e)
{
    char *scratch = op->scratch;
    const int32_t *expert = (const int32_t *)(const void *)(scratch + m->at_expert);
    const float *weight = (const float *)(const void *)(scratch + m->at_weight);
    int64_t *route = (int64_t *)(void *)(scratch + m->at_row), n = 0;
    float *in = (float *)(void *)(scratch + m->at_in), *up = (float *)(void *)(scratch + m->at_up),
          *gate = (float *)(void *)(scratch + m->at_gate),
          *out = (float *)(void *)(scratch + m->at_out);
    const float *x = kernel_in(op, IN_TOKENS)->data;
    struct act_job j = { op, m, up, NULL };
    bool third = kernel_in(op, m->fc[FC_GATE].slot);
    float *y = kernel_out(op, 0)->data;

    for (int64_t i = 0; i < m->tokens * m->k; i++)
        if (expert[i] == e) {
            memcpy(in + n * m->hidden, x + i / m->k * m->hidden, (size_t)m->hidden * sizeof(*in));
            route[n++] = i;
        }
    if (!n)
        return;
    moe_product(op, &m->fc[FC_UP], e, in, n, up, scratch + m->at_room);
    if (third) {
        moe_product(op, &m->fc[FC_GATE], e, in, n, gate, scratch + m->at_room);
        j.gate = gate;
    }
    pool_for(kernel_pool(op), n, pool_grain((double)m->inter * 4), act_part, &j);
    if (m->fc[FC_UP].n != m->inter) /* rows of the next product lie side by side */
        for (int64_t r = 1; r < n; r++)
            memmove(up + r * m->inter, up + r * m->fc[FC_UP].n, (size_t)m->inter * sizeof(*up));
    moe_product(op, &m->fc[FC_DOWN], e, up, n, out, scratch + m->at_room);
    for (int64_t r = 0; r < n; r++)
        kernel_isa(op)->loops->axpy(y + route[r] / m->k * m->hidden, out + r * m->hidden,
                                    weight[route[r]], m->hidden);
}

int moe_run(struct op *op, opm_error *err)
{
    struct moe *m = op->state;
    char *scratch = op->scratch;
    const struct nt *given = m->quantised ? kernel_in(op, IN_ROUTER_WEIGHTS) : NULL;
    int rc = 0;

    for (int f = 0; f < NFC && !rc; f++)
        if (kernel_in(op, m->fc[f].slot))
            rc = moe_matrix_begin(op, &m->fc[f], err);
    if (rc)
        return rc;
    for (int64_t t = 0; t < m->tokens; t++)
        choose(m, (const float *)kernel_in(op, IN_ROUTER)->data + t * m->experts,
               given ? (const float *)given->data + t * m->experts : NULL,
               (int32_t *)(void *)(scratch + m->at_expert) + t * m->k,
               (float *)(void *)(scratch + m->at_weight) + t * m->k);
    memset(kernel_out(op, 0)->data, 0, kernel_out(op, 0)->bytes);
    for (int64_t e = 0; e < m->experts; e++)
        run_expert(op, m, e);
    return 0;
}
