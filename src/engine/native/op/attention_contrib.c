/* attention_contrib.c -- com.microsoft's Attention and QAttention, which make Q, K and V of one
 * input by a product of their own, and GroupQueryAttention. */
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/attention_q8.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* -- Attention: input, weights, bias, mask, past, attention bias. QAttention: input, weights, bias,
 * scale of input, scale of weights, mask, zero point of input, zero point of weights, past -- */

struct slots {
    uint32_t mask, past, add;
};

static struct slots slots_of(const struct op *op)
{
    const uint32_t none = 31;

    return op->kernel->arg == WEIGHTS_QUANTIZED ? (struct slots){ 5, 8, none }
                                                : (struct slots){ 3, 4, 5 };
}

struct projected {
    struct attention a;
    int64_t k, n;               /* of the product: columns of the input, of Q, K and V together */
    int64_t hidden[3];          /* columns of each */
    float *packed;              /* weights that are known, or NULL */
    int64_t w_floats;           /* of packed weights */
    size_t at_w;                /* in scratch memory, behind Q, K and V */
    struct q8_projection bytes; /* instead, for those that are quantized */
};

static void projected_release(void *state)
{
    struct projected *p = state;

    native_free(p->packed);
    q8_projection_release(&p->bytes);
}

static bool hidden_sizes(const struct op *op, struct projected *p)
{
    size_t n;
    const int64_t *given = node_attr_ints(op->node, "qkv_hidden_sizes", &n);
    struct attention *a = &p->a;

    for (int i = 0; i < 3; i++)
        p->hidden[i] = n == 3 ? given[i] : p->n / 3;
    a->heads = a->kv_heads = node_attr_int(op->node, "num_heads", 0);
    if (a->heads < 1 || (n != 0 && n != 3) || p->hidden[0] < 1 || p->hidden[2] < 1 ||
        p->hidden[0] != p->hidden[1] || p->hidden[0] % a->heads || p->hidden[2] % a->heads ||
        p->hidden[0] > p->n || p->hidden[2] > p->n ||
        p->hidden[0] + p->hidden[1] + p->hidden[2] != p->n)
        return false;
    a->width = p->hidden[0] / a->heads;
    a->v_width = p->hidden[2] / a->heads;
    return true;
}

static void pack_weights(const struct op *op, const struct projected *p, float *out)
{
    const struct isa *isa = kernel_isa(op);

    gemm_pack_b(isa, out, kernel_in(op, 1)->data, p->k, p->n, p->n, 1, 0,
                gemm_panels(p->n, isa->nr));
}

static int pack_known(struct op *op, struct projected *p, opm_error *err)
{
    if (p->packed || !kernel_fixed(op, 1) || !kernel_data(op, 1))
        return 0;
    p->packed = native_alloc_weights((size_t)MAX(p->w_floats, (int64_t)1) * sizeof(float));
    if (!p->packed)
        return kernel_nomem(op, err);
    pack_weights(op, p, p->packed);
    op->packed_bytes = (size_t)p->w_floats * sizeof(float);
    return 0;
}

/* Room for Q, K and V, and for what it takes to make them. */
static int plan_product(struct op *op, struct projected *p, opm_error *err)
{
    struct attention *a = &p->a;
    int64_t rows = a->batch * a->q_len, floats;
    int rc;

    if (__builtin_mul_overflow(rows, p->n + p->k, &floats) || floats > PTRDIFF_MAX / 64)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    p->at_w = (size_t)(rows * p->n + 15) / 16 * 64;
    if (op->kernel->arg == WEIGHTS_QUANTIZED) {
        p->bytes.m = rows;
        p->bytes.n = p->n;
        p->bytes.k = p->k;
        rc = q8_projection_plan(op, &p->bytes, p->at_w, err);
        a->own_bytes = p->at_w + p->bytes.bytes;
        return rc;
    }
    p->w_floats = gemm_size_b(kernel_isa(op), p->k, p->n);
    if (p->w_floats < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    rc = pack_known(op, p, err);
    a->own_bytes = p->at_w + (p->packed ? 0 : (size_t)p->w_floats * sizeof(float));
    return rc;
}

/* [2, batch, heads, past, width]. */
static int want_past(const struct op *op, uint32_t slot, struct attention *a, opm_error *err)
{
    const struct nt *past = kernel_in(op, slot);

    if (past && (past->type != TENSOR_F32 || past->shape.rank != 5 || past->shape.dim[0] != 2 ||
                 past->shape.dim[1] != a->batch || past->shape.dim[2] != a->heads ||
                 past->shape.dim[4] != a->width))
        return kernel_fail(op, OPM_EINVAL, err, "past keys and values do not fit");
    if ((past || kernel_out(op, 1)) && a->width != a->v_width)
        return kernel_fail(op, OPM_EUNSUPPORTED, err,
                           "keys and values of different widths with past");
    a->past = past ? past->shape.dim[3] : 0;
    a->total = a->past + a->kv_len;
    a->copy_kv = past || kernel_out(op, 1);
    a->present[0] = a->present[1] = kernel_out(op, 1) != NULL;
    return 0;
}

static int want_types(const struct op *op, opm_error *err)
{
    const uint64_t bytes = TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I8);
    uint64_t types = op->kernel->arg == WEIGHTS_QUANTIZED ? bytes : TYPE_BIT(TENSOR_F32);
    int rc = kernel_want(op, 0, types, err);

    if (!rc)
        rc = kernel_want(op, 1, types, err);
    return rc || !kernel_in(op, 2) ? rc : attention_want_f32(op, 2, err);
}

int contrib_attention_prepare(struct op *op, opm_error *err)
{
    struct projected *p = kernel_new_state(op, sizeof(*p));
    struct slots at = slots_of(op);
    const struct nt *x, *w, *bias = kernel_in(op, 2), *mask = kernel_in(op, at.mask),
                            *add = kernel_in(op, at.add);
    int64_t stride[4];
    struct attention *a;
    int rc = p ? want_types(op, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = projected_release;
    a = &p->a;
    x = kernel_in(op, 0);
    w = kernel_in(op, 1);
    *a = ATTENTION_NONE;
    if (x->shape.rank != 3 || w->shape.rank != 2 || w->shape.dim[0] != x->shape.dim[2])
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    p->k = w->shape.dim[0];
    p->n = w->shape.dim[1];
    a->batch = x->shape.dim[0];
    a->q_len = a->kv_len = x->shape.dim[1];
    if (!hidden_sizes(op, p) || (bias && bias->count != p->n))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (node_attr_int(op->node, "do_rotary", 0) ||
        node_attr_int(op->node, "past_present_share_buffer", 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for rotation or a shared buffer");
    rc = want_past(op, at.past, a, err);
    if (rc)
        return rc;
    if (mask && !attention_key_mask_fits(a, mask))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    if (add && (add->type != TENSOR_F32 || !attention_mask_stride(a, &add->shape, stride)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "attention bias does not fit");
    if (mask)
        attention_key_mask_room(a, mask, add);
    a->causal = node_attr_int(op->node, "unidirectional", 0) != 0;
    a->before = a->past;
    a->scale = node_attr_float(op->node, "scale", 0);
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    rc = plan_product(op, p, err);
    if (!rc)
        rc = kernel_infer(op, err);
    return rc ? rc : attention_plan(op, a, err);
}

static void project(struct op *op, const struct projected *p, float *qkv)
{
    char *scratch = op->scratch;
    const struct nt *bias = kernel_in(op, 2), *x = kernel_in(op, 0);
    struct gemm g = { .isa = kernel_isa(op),
                      .m = p->a.batch * p->a.q_len,
                      .n = p->n,
                      .k = p->k,
                      .a = x->data,
                      .ars = p->k,
                      .aks = 1,
                      .b = p->packed,
                      .c = qkv,
                      .ldc = p->n,
                      .alpha = 1,
                      .add = bias ? bias->data : NULL,
                      .add_cs = 1 };

    if (!g.b) {
        float *w = (float *)(scratch + p->at_w);

        pack_weights(op, p, w);
        g.b = w;
    }
    if (g.m)
        gemm_run_all(&g, kernel_pool(op));
}

int contrib_attention_run(struct op *op, opm_error *err)
{
    const struct projected *p = op->state;
    const struct attention *a = &p->a;
    struct slots at = slots_of(op);
    const struct nt *mask = kernel_in(op, at.mask), *past = kernel_in(op, at.past),
                    *add = kernel_in(op, at.add);
    float *qkv = op->scratch;
    struct attention_call c = { 0 };
    struct rows *rows[3] = { &c.q, &c.k, &c.v };

    if (op->kernel->arg == WEIGHTS_QUANTIZED)
        q8_projection_run(op, &p->bytes, qkv);
    else
        project(op, p, qkv);
    for (int i = 0; i < 3; i++) {
        *rows[i] = (struct rows){ qkv, a->q_len * p->n, p->hidden[i] / a->heads, p->n };
        qkv += p->hidden[i];
    }
    if (past) {
        c.past_k = past->data;
        c.past_v = c.past_k + past->count / 2;
    }
    if (kernel_out(op, 1)) {
        c.present_k = kernel_out(op, 1)->data;
        c.present_v = c.present_k + kernel_out(op, 1)->count / 2;
    }
    if (mask) {
        c.mask = attention_key_mask(op, a, mask, add, c.mask_stride);
    } else if (add) {
        c.mask = add->data;
        attention_mask_stride(a, &add->shape, c.mask_stride);
    }
    return attention_run_call(op, a, &c, err);
}

/* -- GroupQueryAttention: query, key, value, past key, past value, lengths less one, the longest
 * length, cosines, sines, positions, attention bias, sinks, scales of quantized keys and values,
 * what rows of query and key are normalized by -- */

enum {
    GQA_KEY = 1,
    GQA_VALUE,
    GQA_PAST,
    GQA_SEQ = 5,
    GQA_TOTAL,
    GQA_COS,
    GQA_SIN,
    GQA_POS,
    GQA_BIAS,
    GQA_SINK,
    GQA_KEY_SCALE,
    GQA_VALUE_SCALE,
    GQA_GAIN
};

enum { GQA_SCORES = 1, GQA_WEIGHTS }; /* qk_output: before and after softmax */

bool attention_group_geometry(const struct op *op, struct attention *a)
{
    const struct nt *q = kernel_in(op, 0), *k = kernel_in(op, GQA_KEY),
                    *v = kernel_in(op, GQA_VALUE);
    int64_t len;

    a->heads = node_attr_int(op->node, "num_heads", 0);
    a->kv_heads = node_attr_int(op->node, "kv_num_heads", 0);
    if (q->shape.rank != 3 || a->heads < 1 || a->kv_heads < 1 || a->heads % a->kv_heads || !k != !v)
        return false;
    a->batch = q->shape.dim[0];
    a->q_len = a->kv_len = q->shape.dim[1];
    if (!k) {
        if (q->shape.dim[2] % (a->heads + 2 * a->kv_heads))
            return false;
        a->width = a->v_width = q->shape.dim[2] / (a->heads + 2 * a->kv_heads);
        return true;
    }
    return k->shape.rank == 3 && v->shape.rank == 3 && k->shape.dim[0] == a->batch &&
           v->shape.dim[0] == a->batch && attention_shape(&q->shape, a->heads, &len, &a->width) &&
           attention_shape(&k->shape, a->kv_heads, &len, &a->v_width) && len == a->q_len &&
           a->v_width == a->width && attention_shape(&v->shape, a->kv_heads, &len, &a->v_width) &&
           len == a->q_len && a->v_width == a->width;
}

void attention_group_rows(const struct op *op, const struct attention *a, struct attention_call *c)
{
    const struct nt *q = kernel_in(op, 0);

    if (kernel_in(op, GQA_KEY)) {
        c->q = attention_rows(q, a->heads);
        c->k = attention_rows(kernel_in(op, GQA_KEY), a->kv_heads);
        c->v = attention_rows(kernel_in(op, GQA_VALUE), a->kv_heads);
        return;
    }
    c->q = (struct rows){ q->data, nt_span(&q->shape, 1, 3), a->width, q->shape.dim[2] };
    c->k = c->v = c->q;
    c->k.base += a->heads * a->width;
    c->v.base = c->k.base + a->kv_heads * a->width;
}

bool attention_turns(const struct attention *a, const struct nt *cos, const struct nt *sin)
{
    return cos && sin && cos->type == TENSOR_F32 && sin->type == TENSOR_F32 &&
           cos->shape.rank == 2 && shape_equal(&cos->shape, &sin->shape) &&
           cos->shape.dim[0] >= 1 && 2 * cos->shape.dim[1] <= a->width;
}

static int group_past(struct op *op, struct attention *a, opm_error *err)
{
    const struct nt *k = kernel_in(op, GQA_PAST), *v = kernel_in(op, GQA_PAST + 1);
    int64_t longest;
    size_t n = 0;
    int rc = kernel_ints(op, GQA_TOTAL, &longest, 1, &n, err);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < 2; i++) {
        const struct nt *t = i ? v : k;

        if (t && (t->type != TENSOR_F32 || t->shape.rank != 4 || t->shape.dim[0] != a->batch ||
                  t->shape.dim[1] != a->kv_heads || t->shape.dim[3] != a->width))
            return kernel_fail(op, OPM_EINVAL, err, "past keys and values do not fit");
    }
    if (!k != !v || (k && k->shape.dim[2] != v->shape.dim[2]) || n != 1 || longest < 0 ||
        longest > INT32_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "past keys and values do not fit");
    a->past = k ? k->shape.dim[2] : 0;
    a->total = MAX(a->past, longest);
    a->copy_kv = true;
    return 0;
}

/* Gains for query and key, or neither. */
static bool gains_fit(const struct op *op, const struct attention *a)
{
    const struct nt *q = kernel_in(op, GQA_GAIN), *k = kernel_in(op, GQA_GAIN + 1);

    return !q && !k ? true
                    : q && k && q->type == TENSOR_F32 && k->type == TENSOR_F32 &&
                          q->count == a->width && k->count == a->width;
}

int groupquery_prepare(struct op *op, opm_error *err)
{
    struct attention *a = kernel_new_state(op, sizeof(*a));
    const struct nt *cos = kernel_in(op, GQA_COS), *sin = kernel_in(op, GQA_SIN),
                    *pos = kernel_in(op, GQA_POS), *sink = kernel_in(op, GQA_SINK), *add, *seq;
    bool turn = node_attr_int(op->node, "do_rotary", 0) != 0;
    int64_t stride[4], scores = node_attr_int(op->node, "qk_output", 0);
    int rc = a ? attention_want_f32(op, 0, err) : kernel_nomem(op, err);

    for (uint32_t i = GQA_KEY; i <= GQA_VALUE && !rc; i++)
        rc = kernel_in(op, i) ? attention_want_f32(op, i, err) : 0;
    if (!rc)
        rc = kernel_want(op, GQA_SEQ, TYPES_INDEX, err);
    if (rc)
        return rc;
    *a = ATTENTION_NONE;
    if (!attention_group_geometry(op, a))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    if (kernel_in(op, GQA_KEY_SCALE) || kernel_in(op, GQA_VALUE_SCALE))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for quantized keys and values");
    if (kernel_out(op, 3) && (scores < GQA_SCORES || scores > GQA_WEIGHTS))
        return kernel_fail(op, OPM_EINVAL, err, "attribute 'qk_output' is %lld", (long long)scores);
    a->causal = node_attr_int(op->node, "causal", 1) != 0;
    if (node_attr_int(op->node, "sliding_window_cache", 0) ||
        (!a->causal && node_attr_int(op->node, "local_window_size", -1) > 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err,
                           "no kernel for a cache that slides or a window of what is not causal");
    if (!gains_fit(op, a))
        return kernel_fail(op, OPM_EINVAL, err, "gains of query and key do not fit");
    rc = group_past(op, a, err);
    if (rc)
        return rc;
    seq = kernel_in(op, GQA_SEQ);
    add = kernel_in(op, GQA_BIAS);
    if (seq->count != a->batch)
        return kernel_fail(op, OPM_EINVAL, err, "lengths do not fit");
    if (turn && !attention_turns(a, cos, sin))
        return kernel_fail(op, OPM_EINVAL, err, "cosines do not fit");
    if (add && (add->type != TENSOR_F32 || !attention_mask_stride(a, &add->shape, stride)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "attention bias does not fit");
    if (pos && (!(TYPE_BIT(pos->type) & TYPES_INDEX) || pos->count != a->batch * a->q_len))
        return kernel_fail(op, OPM_EINVAL, err, "positions do not fit");
    if (sink && (sink->type != TENSOR_F32 || sink->count != a->heads))
        return kernel_fail(op, OPM_EINVAL, err, "sinks do not fit");
    a->left = MAX(node_attr_int(op->node, "local_window_size", -1), (int64_t)0) - 1;
    a->sinks = sink || node_attr_int(op->node, "smooth_softmax", 0) > 0;
    a->present[0] = kernel_out(op, 1) != NULL;
    a->present[1] = kernel_out(op, 2) != NULL;
    a->copy_q = turn || kernel_in(op, GQA_GAIN);
    a->scale = node_attr_float(op->node, "scale", 0);
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    a->cap = node_attr_float(op->node, "softcap", 0);
    rc = kernel_infer(op, err);
    if (!rc)
        rc = attention_plan(op, a, err);
    a->core.scores = scores == GQA_WEIGHTS ? SCORES_WEIGHTS : SCORES_MASKED;
    a->core.beyond = 0;
    return rc;
}

int groupquery_run(struct op *op, opm_error *err)
{
    const struct attention *a = op->state;
    const struct nt *add = kernel_in(op, GQA_BIAS), *cos = kernel_in(op, GQA_COS);
    struct attention_call c = { .seq = kernel_in(op, GQA_SEQ) };

    if (kernel_out(op, 3)) {
        c.scores = kernel_out(op, 3)->data;
        c.scored = kernel_out(op, 3)->shape.dim[3];
    }
    for (int64_t b = 0; b < a->batch; b++) {
        int64_t n = nt_int(c.seq, b) + 1;

        if (n < 0 || n > (c.scored ? c.scored : a->total))
            return kernel_fail(op, OPM_EINVAL, err, "length %lld is out of range", (long long)n);
    }
    attention_group_rows(op, a, &c);
    if (kernel_in(op, GQA_PAST)) {
        c.past_k = kernel_in(op, GQA_PAST)->data;
        c.past_v = kernel_in(op, GQA_PAST + 1)->data;
    }
    c.present_k = kernel_out(op, 1) ? kernel_out(op, 1)->data : NULL;
    c.present_v = kernel_out(op, 2) ? kernel_out(op, 2)->data : NULL;
    for (uint32_t i = 0; i < 2 && kernel_in(op, GQA_GAIN); i++)
        c.gain[i] = kernel_in(op, GQA_GAIN + i)->data;
    c.gain_epsilon = node_attr_float(op->node, "qk_norm_epsilon", 1e-6f);
    if (node_attr_int(op->node, "do_rotary", 0)) {
        c.cos = cos->data;
        c.sin = kernel_in(op, GQA_SIN)->data;
        c.half = cos->shape.dim[1];
        c.positions = cos->shape.dim[0];
        c.mixed = node_attr_int(op->node, "rotary_interleaved", 0) != 0;
        c.pos = kernel_in(op, GQA_POS);
    }
    if (kernel_in(op, GQA_SINK))
        c.sink = kernel_in(op, GQA_SINK)->data;
    if (add) {
        c.mask = add->data;
        attention_mask_stride(a, &add->shape, c.mask_stride);
    }
    return attention_run_call(op, a, &c, err);
}
