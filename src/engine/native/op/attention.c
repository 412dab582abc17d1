/* attention.c -- see attention.h; Attention of opset 23, and com.microsoft's MultiHeadAttention. */
#include "engine/native/op/attention.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

int attention_want_f32(const struct op *op, uint32_t slot, opm_error *err)
{
    return kernel_want(op, slot, TYPE_BIT(TENSOR_F32), err);
}

bool attention_shape(const struct shape *s, int64_t heads, int64_t *len, int64_t *width)
{
    if (s->rank == 4 && s->dim[1] == heads) {
        *len = s->dim[2];
        *width = s->dim[3];
        return true;
    }
    if (s->rank != 3 || heads < 1 || s->dim[2] % heads)
        return false;
    *len = s->dim[1];
    *width = s->dim[2] / heads;
    return true;
}

struct rows attention_rows(const struct nt *t, int64_t heads)
{
    const struct shape *s = &t->shape;

    if (s->rank == 4)
        return (struct rows){ t->data, nt_span(s, 1, 4), nt_span(s, 2, 4), s->dim[3] };
    return (struct rows){ t->data, nt_span(s, 1, 3), s->dim[2] / heads, s->dim[2] };
}

bool attention_mask_stride(const struct attention *a, const struct shape *s, int64_t stride[4])
{
    const int64_t want[4] = { a->batch, a->heads, a->q_len, a->total };
    int64_t step = 1;

    memset(stride, 0, 4 * sizeof(*stride));
    if (s->rank > 4)
        return false;
    for (int32_t d = s->rank - 1, p = 3; d >= 0; d--, p--) {
        if (s->dim[d] != 1 && s->dim[d] != want[p])
            return false;
        stride[p] = s->dim[d] == 1 ? 0 : step;
        step *= s->dim[d];
    }
    return true;
}

/* -- memory -- */

/* Room for n elements of a size behind *total, which grows. False: too much. */
static bool place(size_t *at, size_t *total, const int64_t *dim, int rank, size_t size)
{
    int64_t n = (int64_t)size;

    *at = *total;
    for (int i = 0; i < rank; i++)
        if (dim[i] < 0 || __builtin_mul_overflow(n, dim[i], &n))
            return false;
    if (n > PTRDIFF_MAX / 4 || *total > PTRDIFF_MAX / 4)
        return false;
    *total += ((size_t)n + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
    return true;
}

int attention_plan(struct op *op, struct attention *a, opm_error *err)
{
    const int64_t q[4] = { a->batch, a->heads, a->q_len, a->width },
                  k[4] = { a->batch, a->kv_heads, a->total, a->width },
                  v[4] = { a->batch, a->kv_heads, a->total, a->v_width },
                  limit[2] = { a->batch, 2 * a->q_len };
    size_t total = (a->own_bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN, core = 0;
    struct sdpa *c = &a->core;
    int rc;

    *c = (struct sdpa){ .outer = { a->batch, a->heads },
                        .group = a->heads / a->kv_heads,
                        .sq = a->q_len,
                        .sk = a->total,
                        .d = a->width,
                        .dv = a->v_width,
                        .scale = a->scale,
                        .cap = a->cap,
                        .where_keeps = true,
                        .fill = -INFINITY,
                        .beyond = -INFINITY,
                        .limit_batch = a->q_len,
                        .sinks = a->sinks };
    if (!place(&a->at_q, &total, q, a->copy_q ? 4 : 0, 4) ||
        !place(&a->at_k, &total, k, a->copy_kv && !a->present[0] ? 4 : 0, 4) ||
        !place(&a->at_v, &total, v, a->copy_kv && !a->present[1] ? 4 : 0, 4) ||
        !place(&a->at_mask, &total, a->mask, a->mask[3] ? 4 : 0, 4) ||
        !place(&a->at_limit, &total, limit, 2, 4))
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    a->at_core = total;
    rc = sdpa_plan(op, c, &core, err);
    if (rc)
        return rc;
    op->scratch_bytes = total + core;
    return 0;
}

/* What an integer mask says of key t for row i: [batch, keys] and [batch, rows, keys] have 0 for
 * keys that are not looked at; [batch] has how many are, [2 * batch] where they end, then where
 * they start. */
static bool kept(const struct attention *a, const struct nt *m, int64_t b, int64_t i, int64_t t)
{
    if (m->shape.rank == 1)
        return t < nt_int(m, b) && (m->count != 2 * a->batch || t >= nt_int(m, a->batch + b));
    if (m->shape.rank == 2)
        return nt_int(m, b * a->total + t) != 0;
    return nt_int(m, (b * a->q_len + i) * a->total + t) != 0;
}

bool attention_key_mask_fits(const struct attention *a, const struct nt *m)
{
    const struct shape *s = &m->shape;

    if (!(TYPE_BIT(m->type) & TYPES_INDEX) || s->rank < 1 || s->rank > 3)
        return false;
    if (s->rank == 1)
        return s->dim[0] == a->batch || s->dim[0] == 2 * a->batch;
    return s->dim[0] == a->batch && s->dim[s->rank - 1] == a->total &&
           (s->rank == 2 || s->dim[1] == a->q_len);
}

void attention_key_mask_room(struct attention *a, const struct nt *m, const struct nt *add)
{
    int64_t stride[4] = { 0 };

    if (add)
        attention_mask_stride(a, &add->shape, stride);
    a->mask[0] = a->batch;
    a->mask[1] = stride[1] ? a->heads : 1;
    a->mask[2] = stride[2] || m->shape.rank == 3 ? a->q_len : 1;
    a->mask[3] = a->total;
}

const float *attention_key_mask(const struct op *op, const struct attention *a, const struct nt *m,
                                const struct nt *add, int64_t stride[4])
{
    const float fill = node_attr_float(op->node, "mask_filter_value", -10000);
    float *mask = (float *)((char *)op->scratch + a->at_mask);
    struct shape s = { 4, { a->mask[0], a->mask[1], a->mask[2], a->mask[3] } };
    int64_t from[4] = { 0 }, at = 0;

    if (add)
        attention_mask_stride(a, &add->shape, from);
    attention_mask_stride(a, &s, stride);
    for (int64_t b = 0; b < a->mask[0]; b++)
        for (int64_t h = 0; h < a->mask[1]; h++)
            for (int64_t i = 0; i < a->mask[2]; i++)
                for (int64_t t = 0; t < a->mask[3]; t++, at++) {
                    mask[at] = kept(a, m, b, i, t) ? 0 : fill;
                    if (add)
                        mask[at] +=
                            ((const float *)
                                 add->data)[b * from[0] + h * from[1] + i * from[2] + t * from[3]];
                }
    return mask;
}

/* -- copies of the operands, where they cannot be used as they lie -- */

struct copy_job {
    const struct op *op;
    const struct attention *a;
    const struct attention_call *c;
    float *q, *k, *v;
    bool in_place; /* what is past is where it belongs */
};

/* Rows of this batch item that are past. */
static int64_t past_of(const struct attention *a, const struct attention_call *c, int64_t b)
{
    int64_t n = c->seq ? nt_int(c->seq, b) + 1 - a->q_len : a->past;

    return MIN(MAX(n, (int64_t)0), a->past);
}

/* Where new row i of a batch item is. */
static int64_t position_of(const struct attention *a, const struct attention_call *c, int64_t b,
                           int64_t i)
{
    return c->pos ? nt_int(c->pos, b * a->q_len + i) : past_of(a, c, b) + i;
}

/* One row, with its bias, normalized, turned. */
static void copy_row(const struct copy_job *j, int operand, float *to, const float *from,
                     int64_t head, int64_t width, int64_t position)
{
    const struct attention_call *c = j->c;
    const float *bias = c->bias[operand];

    if (bias)
        kernel_isa(j->op)->binary(B_ADD, to, from, 1, bias + head * width, 1, width);
    else
        memcpy(to, from, (size_t)width * sizeof(*to));
    if (operand != SDPA_V && c->gain[operand]) {
        const struct isa *isa = kernel_isa(j->op);
        float scale = 1 / sqrtf(isa->dot(to, to, width) / (float)width + c->gain_epsilon);

        isa->binary(B_MUL, to, to, 1, c->gain[operand], 1, width);
        isa->unary(U_AFFINE, to, to, width, scale, 0);
    }
    if (c->cos && operand != SDPA_V) {
        position = MIN(MAX(position, (int64_t)0), c->positions - 1);
        rotary_row(kernel_isa(j->op), to, to, 2 * c->half, c->cos + position * c->half,
                   c->sin + position * c->half, c->half, c->mixed);
    }
}

static void copy_q_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct copy_job *j = arg;
    const struct attention *a = j->a;
    const struct rows *q = &j->c->q;

    (void)thread;
    for (int64_t r = begin; r < end; r++) {
        int64_t i = r % a->q_len, h = r / a->q_len % a->heads, b = r / (a->q_len * a->heads);

        copy_row(j, SDPA_Q, j->q + r * a->width, q->base + b * q->batch + h * q->head + i * q->step,
                 h, a->width, position_of(a, j->c, b, i));
    }
}

/* Row i of a head of K or V, new or past; false: there is none. */
static bool copy_kv_row(const struct copy_job *j, int operand, float *to, int64_t b, int64_t h,
                        int64_t i)
{
    const struct attention *a = j->a;
    const struct attention_call *c = j->c;
    const struct rows *from = operand == SDPA_K ? &c->k : &c->v;
    const float *past = operand == SDPA_K ? c->past_k : c->past_v;
    int64_t width = operand == SDPA_K ? a->width : a->v_width, n = past_of(a, c, b);

    if (i < n && past) {
        memcpy(to, past + ((b * a->kv_heads + h) * a->past + i) * width,
               (size_t)width * sizeof(*to));
        return true;
    }
    if (i - n >= a->kv_len)
        return false;
    copy_row(j, operand, to, from->base + b * from->batch + h * from->head + (i - n) * from->step,
             h, width, operand == SDPA_K && c->cos ? position_of(a, c, b, i - n) : 0);
    return true;
}

static void copy_kv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct copy_job *j = arg;
    const struct attention *a = j->a;

    (void)thread;
    for (int64_t n = begin; j->in_place && n < end; n++) {
        int64_t i = n % a->kv_len, h = n / a->kv_len % a->kv_heads,
                b = n / (a->kv_len * a->kv_heads), at = past_of(a, j->c, b) + i,
                r = (b * a->kv_heads + h) * a->total + at;

        if (at < a->total) {
            copy_kv_row(j, SDPA_K, j->k + r * a->width, b, h, at);
            copy_kv_row(j, SDPA_V, j->v + r * a->v_width, b, h, at);
        }
    }
    for (int64_t r = begin; !j->in_place && r < end; r++) {
        int64_t i = r % a->total, h = r / a->total % a->kv_heads, b = r / (a->total * a->kv_heads);
        float *k = j->k + r * a->width, *v = j->v + r * a->v_width;

        if (!copy_kv_row(j, SDPA_K, k, b, h, i))
            memset(k, 0, (size_t)a->width * sizeof(*k));
        if (!copy_kv_row(j, SDPA_V, v, b, h, i))
            memset(v, 0, (size_t)a->v_width * sizeof(*v));
    }
}

static void set_stride(int64_t to[4], const struct rows *r, bool turned)
{
    to[0] = r->batch;
    to[1] = r->head;
    to[turned ? 3 : 2] = r->step;
    to[turned ? 2 : 3] = 1;
}

static int32_t key_at(const struct attention *a, int64_t n)
{
    return (int32_t)MIN(MAX(n, (int64_t)0), a->total);
}

/* Which keys each row of each batch item sees: from first to before limit. */
static void set_limits(const struct attention *a, const struct attention_call *c, int32_t *limit,
                       int32_t *first)
{
    for (int64_t b = 0; b < a->batch; b++) {
        int64_t before = c->seq ? past_of(a, c, b) : a->before,
                all = c->seq ? nt_int(c->seq, b) + 1 : a->total;

        if (c->lengths) {
            all = nt_int(c->lengths, b);
            before = c->past_k ? before : all - a->q_len;
        }
        if (a->masked)
            all = MIN(all, a->masked);
        for (int64_t i = 0; i < a->q_len; i++) {
            int64_t own = before + i, n = a->causal ? MIN(own + 1, MAX(all, (int64_t)0)) : all;

            if (a->right >= 0 && a->right < a->total)
                n = MIN(n, own + 1 + a->right);
            limit[b * a->q_len + i] = key_at(a, n);
            first[b * a->q_len + i] =
                key_at(a, a->left >= 0 && a->left < a->total ? own - a->left : 0);
        }
    }
}

int attention_bring(struct op *op, const struct attention *a, const struct attention_call *call,
                    struct rows *q, struct rows *k, struct rows *v, opm_error *err)
{
    char *scratch = op->scratch;
    struct copy_job j = { op,
                          a,
                          call,
                          (float *)(scratch + a->at_q),
                          call->present_k ? call->present_k : (float *)(scratch + a->at_k),
                          call->present_v ? call->present_v : (float *)(scratch + a->at_v),
                          call->past_k && call->past_k == call->present_k };

    *q = call->q;
    *k = call->k;
    *v = call->v;
    if (a->copy_q) {
        pool_for(kernel_pool(op), a->batch * a->heads * a->q_len,
                 MAX(4096 / (a->width + 1), (int64_t)1), copy_q_part, &j);
        *q = (struct rows){ j.q, a->heads * a->q_len * a->width, a->q_len * a->width, a->width };
    }
    if (a->copy_kv) {
        if (j.in_place && a->past != a->total)
            return kernel_fail(op, OPM_EINVAL, err, "the cache has room for %lld tokens, not %lld",
                               (long long)a->past, (long long)a->total);
        pool_for(kernel_pool(op), a->batch * a->kv_heads * (j.in_place ? a->kv_len : a->total),
                 MAX(4096 / (a->width + 1), (int64_t)1), copy_kv_part, &j);
        *k = (struct rows){ j.k, a->kv_heads * a->total * a->width, a->total * a->width, a->width };
        *v = (struct rows){ j.v, a->kv_heads * a->total * a->v_width, a->total * a->v_width,
                            a->v_width };
    }
    return 0;
}

int attention_run_call(struct op *op, const struct attention *a, const struct attention_call *call,
                       opm_error *err)
{
    char *scratch = op->scratch;
    struct sdpa core = a->core;
    struct rows q, k, v, out;
    struct sdpa_data d = { .mask = call->mask,
                           .where = call->where,
                           .sink = call->sink,
                           .out = kernel_out(op, 0)->data,
                           .scores = call->scores,
                           .scratch = scratch + a->at_core };
    int rc = attention_bring(op, a, call, &q, &k, &v, err);

    if (rc)
        return rc;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (a->total == 0) { /* no keys: a product with nothing */
        memset(kernel_out(op, 0)->data, 0, kernel_out(op, 0)->bytes);
        return 0;
    }
    if (call->scored)
        core.sk = call->scored;
    if (a->causal || call->seq || call->lengths || a->masked || a->left >= 0 || a->right >= 0) {
        int32_t *limit = (int32_t *)(void *)(scratch + a->at_limit);

        core.limit = limit;
        core.first = limit + a->batch * a->q_len;
        set_limits(a, call, limit, limit + a->batch * a->q_len);
        if (!call->scores) { /* a cache may have more room than there are tokens */
            core.sk = 1;
            for (int64_t i = 0; i < a->batch * a->q_len; i++)
                core.sk = MAX(core.sk, (int64_t)limit[i]);
        }
    }
    out = attention_rows(kernel_out(op, 0), a->heads);
    set_stride(core.stride[SDPA_Q], &q, false);
    set_stride(core.stride[SDPA_K], &k, true);
    set_stride(core.stride[SDPA_V], &v, false);
    set_stride(core.stride[SDPA_OUT], &out, false);
    memcpy(call->where ? core.where : core.mask, call->mask_stride, sizeof(core.mask));
    d.q = q.base;
    d.k = k.base;
    d.v = v.base;
    sdpa_run(op, &core, &d);
    return 0;
}

/* -- Attention: q, k, v, mask, past key, past value, lengths; output, present key, present value,
 * scores -- */

/* Strides of Attention's mask, which may have fewer keys than there are. */
static bool short_mask_stride(const struct attention *a, const struct shape *s, int64_t stride[4])
{
    struct attention cut = *a;

    if (a->masked)
        cut.total = a->masked;
    return attention_mask_stride(&cut, s, stride);
}

/* Past keys and values: both or none, [batch, kv_heads, past, width]. */
static int want_past(const struct op *op, uint32_t slot, struct attention *a, opm_error *err)
{
    const struct nt *k = kernel_in(op, slot), *v = kernel_in(op, slot + 1);
    int rc;

    if (!k && !v)
        return 0;
    rc = attention_want_f32(op, slot, err);
    if (!rc)
        rc = attention_want_f32(op, slot + 1, err);
    if (rc)
        return rc;
    if (k->shape.rank != 4 || v->shape.rank != 4 || k->shape.dim[0] != a->batch ||
        v->shape.dim[0] != a->batch || k->shape.dim[1] != a->kv_heads ||
        v->shape.dim[1] != a->kv_heads || k->shape.dim[2] != v->shape.dim[2] ||
        k->shape.dim[3] != a->width || v->shape.dim[3] != a->v_width)
        return kernel_fail(op, OPM_EINVAL, err, "past keys and values do not fit");
    a->past = k->shape.dim[2];
    return 0;
}

/* Keys and values that come together, and whether the outputs for them are wanted. */
static void find_present(const struct op *op, struct attention *a, bool past)
{
    a->total = a->past + a->kv_len;
    for (uint32_t i = 0; i < 2; i++)
        a->present[i] = kernel_out(op, i + 1) != NULL;
    a->copy_kv = a->copy_kv || past || a->present[0] || a->present[1];
}

static void past_and_present(const struct op *op, uint32_t slot, struct attention_call *c)
{
    c->past_k = kernel_in(op, slot) ? kernel_in(op, slot)->data : NULL;
    c->past_v = kernel_in(op, slot + 1) ? kernel_in(op, slot + 1)->data : NULL;
    c->present_k = kernel_out(op, 1) ? kernel_out(op, 1)->data : NULL;
    c->present_v = kernel_out(op, 2) ? kernel_out(op, 2)->data : NULL;
}

int attention_prepare(struct op *op, opm_error *err)
{
    struct attention *a = kernel_new_state(op, sizeof(*a));
    const struct nt *q, *k, *v, *mask = kernel_in(op, 3);
    int64_t len, stride[4], scores = node_attr_int(op->node, "qk_matmul_output_mode", 0), last;
    int rc = a ? 0 : kernel_nomem(op, err);

    for (uint32_t i = 0; i < 3 && !rc; i++)
        rc = attention_want_f32(op, i, err);
    if (!rc && kernel_in(op, 6))
        rc = kernel_want(op, 6, TYPES_INDEX, err);
    if (rc)
        return rc;
    *a = ATTENTION_NONE;
    q = kernel_in(op, 0);
    k = kernel_in(op, 1);
    v = kernel_in(op, 2);
    a->heads = q->shape.rank == 4 ? q->shape.dim[1] : node_attr_int(op->node, "q_num_heads", 0);
    a->kv_heads = k->shape.rank == 4 ? k->shape.dim[1] : node_attr_int(op->node, "kv_num_heads", 0);
    a->batch = q->shape.rank > 0 ? q->shape.dim[0] : 0;
    if (scores < SCORES_PRODUCT || scores > SCORES_WEIGHTS)
        return kernel_fail(op, OPM_EINVAL, err, "qk_matmul_output_mode %lld is not 0 to 3",
                           (long long)scores);
    if (kernel_out(op, 3) && kernel_in(op, 2)->count == 0)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for scores without values");
    if (kernel_in(op, 6) && kernel_in(op, 6)->count != a->batch)
        return kernel_fail(op, OPM_EINVAL, err, "%lld lengths of keys for a batch of %lld",
                           (long long)kernel_in(op, 6)->count, (long long)a->batch);
    if (!attention_shape(&q->shape, a->heads, &a->q_len, &a->width) ||
        !attention_shape(&k->shape, a->kv_heads, &a->kv_len, &len) || len != a->width ||
        !attention_shape(&v->shape, a->kv_heads, &len, &a->v_width) || len != a->kv_len ||
        a->kv_heads < 1 || a->heads < 1 || a->heads % a->kv_heads || k->shape.dim[0] != a->batch ||
        v->shape.dim[0] != a->batch)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    rc = want_past(op, 4, a, err);
    if (rc)
        return rc;
    find_present(op, a, kernel_in(op, 4) != NULL);
    last = mask && mask->shape.rank ? mask->shape.dim[mask->shape.rank - 1] : 0;
    a->masked = last > 1 && last < a->total ? last : 0;
    if (mask && (mask->shape.rank < 1 || !short_mask_stride(a, &mask->shape, stride) ||
                 !(TYPE_BIT(mask->type) & (TYPE_BIT(TENSOR_F32) | TYPE_BIT(TENSOR_BOOL)))))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    a->causal = node_attr_int(op->node, "is_causal", 0) != 0;
    a->left = MAX(node_attr_int(op->node, "left_window_size", -1), (int64_t)-1);
    a->right = MAX(node_attr_int(op->node, "right_window_size", -1), (int64_t)-1);
    a->before = a->past;
    a->scale = node_attr_float(op->node, "scale", 1 / sqrtf((float)a->width));
    a->cap = node_attr_float(op->node, "softcap", 0);
    rc = kernel_infer(op, err);
    if (!rc)
        rc = attention_plan(op, a, err);
    a->core.scores = (enum sdpa_scores)scores;
    a->core.blind_zero = mask != NULL;
    return rc;
}

int attention_run(struct op *op, opm_error *err)
{
    const struct attention *a = op->state;
    const struct nt *mask = kernel_in(op, 3);
    struct attention_call c = { .q = attention_rows(kernel_in(op, 0), a->heads),
                                .k = attention_rows(kernel_in(op, 1), a->kv_heads),
                                .v = attention_rows(kernel_in(op, 2), a->kv_heads),
                                .lengths = kernel_in(op, 6),
                                .scores = kernel_out(op, 3) ? kernel_out(op, 3)->data : NULL };

    past_and_present(op, 4, &c);
    if (mask) {
        short_mask_stride(a, &mask->shape, c.mask_stride);
        if (mask->type == TENSOR_BOOL)
            c.where = mask->data;
        else
            c.mask = mask->data;
    }
    return attention_run_call(op, a, &c, err);
}

/* -- MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias, past key, past
 * value; output, present key, present value -- */

static bool multihead_geometry(const struct op *op, struct attention *a)
{
    const struct nt *q = kernel_in(op, 0), *k = kernel_in(op, 1), *v = kernel_in(op, 2);
    int64_t len;

    a->heads = a->kv_heads = node_attr_int(op->node, "num_heads", 0);
    a->batch = q->shape.rank > 0 ? q->shape.dim[0] : 0;
    return a->heads >= 1 && q->shape.rank == 3 && k->shape.rank >= 3 && v->shape.rank >= 3 &&
           k->shape.dim[0] == a->batch && v->shape.dim[0] == a->batch &&
           attention_shape(&q->shape, a->heads, &a->q_len, &a->width) &&
           attention_shape(&k->shape, a->heads, &a->kv_len, &len) && len == a->width &&
           attention_shape(&v->shape, a->heads, &len, &a->v_width) && len == a->kv_len;
}

int multihead_prepare(struct op *op, opm_error *err)
{
    struct attention *a = kernel_new_state(op, sizeof(*a));
    const struct nt *bias = kernel_in(op, 3), *keep = kernel_in(op, 4), *add = kernel_in(op, 5);
    int64_t stride[4];
    int rc = a ? 0 : kernel_nomem(op, err);

    for (uint32_t i = 0; i < 3 && !rc; i++)
        rc = attention_want_f32(op, i, err);
    if (rc)
        return rc;
    *a = ATTENTION_NONE;
    if (kernel_in(op, 8) || kernel_in(op, 9))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for a shared buffer");
    if (!multihead_geometry(op, a))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    if (bias && (bias->type != TENSOR_F32 || bias->count != a->heads * (2 * a->width + a->v_width)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "bias does not fit");
    rc = want_past(op, 6, a, err);
    if (rc)
        return rc;
    a->copy_q = bias != NULL;
    a->copy_kv = bias && kernel_in(op, 1)->shape.rank == 3;
    find_present(op, a, kernel_in(op, 6) != NULL);
    if (keep && !attention_key_mask_fits(a, keep))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    if (add && (add->type != TENSOR_F32 || !attention_mask_stride(a, &add->shape, stride)))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "attention bias does not fit");
    if (keep)
        attention_key_mask_room(a, keep, add);
    a->causal = node_attr_int(op->node, "unidirectional", 0) != 0;
    a->before = a->total - a->q_len;
    a->scale = node_attr_float(op->node, "scale", 0);
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    rc = kernel_infer(op, err);
    if (!rc)
        rc = attention_plan(op, a, err);
    a->core.scores = SCORES_MASKED;
    a->core.beyond = -FLT_MAX;
    return rc;
}

int multihead_run(struct op *op, opm_error *err)
{
    const struct attention *a = op->state;
    const struct nt *bias = kernel_in(op, 3), *keep = kernel_in(op, 4), *add = kernel_in(op, 5);
    struct attention_call c = { .q = attention_rows(kernel_in(op, 0), a->heads),
                                .k = attention_rows(kernel_in(op, 1), a->heads),
                                .v = attention_rows(kernel_in(op, 2), a->heads),
                                .scores = kernel_out(op, 3) ? kernel_out(op, 3)->data : NULL };

    /* Keys and values of four dimensions come from an earlier call, which added theirs. */
    for (int i = 0; bias && i < (kernel_in(op, 1)->shape.rank == 4 ? 1 : 3); i++)
        c.bias[i] = (const float *)bias->data + i * a->heads * a->width;
    past_and_present(op, 6, &c);
    if (keep) {
        c.mask = attention_key_mask(op, a, keep, add, c.mask_stride);
    } else if (add) {
        c.mask = add->data;
        attention_mask_stride(a, &add->shape, c.mask_stride);
    }
    return attention_run_call(op, a, &c, err);
}
