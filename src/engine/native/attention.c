/* attention.c -- scaled dot-product attention as one operator: Attention of opset 23, and
 * com.microsoft's MultiHeadAttention; and RotaryEmbedding, which turns their operands. One row of
 * one head at a time. */
#include "engine/native/families.h"
#include "engine/native/kernels.h"

#include <math.h>
#include <string.h>

/* Where head h of batch b has its rows: base[b * batch + h * head + row * step]. */
struct rows {
    const float *base;
    int64_t batch, head, step;
};

struct attention {
    int64_t batch, heads, kv_heads, q_len, kv_len, past, width, v_width;
    float scale, cap;
    bool causal;
    size_t at_score; /* in scratch */
};

static int want_f32(const struct op *op, uint32_t slot, opm_error *err)
{
    return kop_want(op, slot, TYPE_BIT(TENSOR_F32), err);
}

/* [batch, heads, length, width], or [batch, length, heads * width]. */
static bool read_shape(const struct shape *s, int64_t heads, int64_t *len, int64_t *width)
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

static struct rows rows_of(const struct nt *t, int64_t heads)
{
    const struct shape *s = &t->shape;

    if (s->rank == 4)
        return (struct rows){ t->data, nt_span(s, 1, 4), nt_span(s, 2, 4), s->dim[3] };
    return (struct rows){ t->data, nt_span(s, 1, 3), s->dim[2] / heads, s->dim[2] };
}

/* The first three inputs. */
static int want_qkv(const struct op *op, const struct nt **q, const struct nt **k,
                    const struct nt **v, opm_error *err)
{
    int rc = 0;

    for (uint32_t i = 0; i < 3 && !rc; i++)
        rc = want_f32(op, i, err);
    *q = kop_in(op, 0);
    *k = kop_in(op, 1);
    *v = kop_in(op, 2);
    return rc;
}

/* Attention-23: q, k, v, mask, past key, past value. */
int attention_prepare(struct op *op, opm_error *err)
{
    struct attention *a = kop_new_state(op, sizeof(*a));
    const struct nt *q, *k, *v, *mask = kop_in(op, 3);
    int64_t len;
    struct shape out;
    int rc = a ? want_qkv(op, &q, &k, &v, err) : kop_nomem(op, err);

    if (rc)
        return rc;
    a->heads = q->shape.rank == 4 ? q->shape.dim[1] : node_attr_int(op->node, "q_num_heads", 0);
    a->kv_heads = k->shape.rank == 4 ? k->shape.dim[1] : node_attr_int(op->node, "kv_num_heads", 0);
    a->batch = q->shape.rank > 0 ? q->shape.dim[0] : 0;
    if (kop_in(op, 4) || kop_in(op, 5) || (op->nout > 1 && op->out[1] != NO_VALUE) ||
        (op->nout > 2 && op->out[2] != NO_VALUE) || (op->nout > 3 && op->out[3] != NO_VALUE))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for past or present values");
    if (!read_shape(&q->shape, a->heads, &a->q_len, &a->width) ||
        !read_shape(&k->shape, a->kv_heads, &a->kv_len, &len) || len != a->width ||
        !read_shape(&v->shape, a->kv_heads, &len, &a->v_width) || len != a->kv_len ||
        a->kv_heads < 1 || a->heads % a->kv_heads || k->shape.dim[0] != a->batch ||
        v->shape.dim[0] != a->batch)
        return kop_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (mask && (mask->shape.rank < 2 || mask->shape.rank > 4 ||
                 !(TYPE_BIT(mask->type) & (TYPE_BIT(TENSOR_F32) | TYPE_BIT(TENSOR_BOOL)))))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    for (int32_t i = 0; mask && i < mask->shape.rank; i++) {
        int64_t want[4] = { a->batch, a->heads, a->q_len, a->kv_len };
        int64_t have = mask->shape.dim[mask->shape.rank - 1 - i];

        if (have != 1 && have != want[3 - i])
            return kop_fail(op, OPM_EUNSUPPORTED, err, "the mask does not fit");
    }
    a->past = 0;
    a->causal = node_attr_int(op->node, "is_causal", 0) != 0;
    a->scale = node_attr_float(op->node, "scale", 1 / sqrtf((float)a->width));
    a->cap = node_attr_float(op->node, "softcap", 0);
    op->scratch_bytes =
        sizeof(float) * (size_t)MAX(a->kv_len, (int64_t)1) * (size_t)pool_threads(kop_pool(op));
    out = q->shape;
    out.dim[out.rank - 1] = q->shape.rank == 4 ? a->v_width : a->heads * a->v_width;
    return kop_set(op, 0, TENSOR_F32, &out, err);
}

struct attend_job {
    const struct op *op;
    const struct attention *a;
    const struct isa *isa;
    struct rows q, k, v;
    const struct nt *mask, *bias, *keep; /* keep: [batch, kv_len], 0: not looked at */
    float *out, *score;
    struct rows to;
};

/* What a mask of up to four broadcast dimensions has for this score. */
static float masked(const struct nt *m, int64_t b, int64_t h, int64_t i, int64_t j, float score)
{
    int64_t at[4] = { b, h, i, j }, off = 0, step = 1;

    for (int32_t d = m->shape.rank - 1, p = 3; d >= 0; d--, p--) {
        off += (m->shape.dim[d] == 1 ? 0 : at[p]) * step;
        step *= m->shape.dim[d];
    }
    if (m->type == TENSOR_BOOL)
        return ((const uint8_t *)m->data)[off] ? score : -INFINITY;
    return score + ((const float *)m->data)[off];
}

static void attend_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct attend_job *j = arg;
    const struct attention *a = j->a;
    float *score = j->score + thread * a->kv_len;

    for (int64_t r = begin; r < end; r++) {
        int64_t i = r % a->q_len, h = r / a->q_len % a->heads, b = r / (a->q_len * a->heads),
                kv = h / (a->heads / a->kv_heads);
        const float *q = j->q.base + b * j->q.batch + h * j->q.head + i * j->q.step;
        const float *k = j->k.base + b * j->k.batch + kv * j->k.head,
                    *v = j->v.base + b * j->v.batch + kv * j->v.head;
        float *out = j->out + b * j->to.batch + h * j->to.head + i * j->to.step;

        for (int64_t t = 0; t < a->kv_len; t++) {
            float s = j->isa->dot(q, k + t * j->k.step, a->width) * a->scale;

            if (a->cap > 0)
                s = a->cap * tanhf(s / a->cap);
            if (j->mask)
                s = masked(j->mask, b, h, i, t, s);
            if (j->bias)
                s = masked(j->bias, b, h, i, t, s);
            if ((a->causal && t > i + a->past) ||
                (j->keep && nt_int(j->keep, b * a->kv_len + t) == 0))
                s = -INFINITY;
            score[t] = s;
        }
        j->isa->softmax(score, score, a->kv_len);
        memset(out, 0, (size_t)a->v_width * sizeof(*out));
        for (int64_t t = 0; t < a->kv_len; t++)
            for (int64_t c = 0; score[t] != 0 && c < a->v_width; c++)
                out[c] += score[t] * v[t * j->v.step + c];
    }
}

static void attend(struct op *op, struct attend_job *j)
{
    const struct attention *a = j->a;

    j->isa = kop_isa(op);
    j->score = (float *)((char *)op->scratch + a->at_score);
    j->to = rows_of(kop_out(op, 0), a->heads);
    j->out = kop_out(op, 0)->data;
    if (kop_out(op, 0)->count)
        pool_for(kop_pool(op), a->batch * a->heads * a->q_len,
                 MAX(16384 / (a->kv_len * a->width + 1), (int64_t)1), attend_part, j);
}

int attention_run(struct op *op, opm_error *err)
{
    const struct attention *a = op->state;
    struct attend_job j = { .op = op, .a = a, .mask = kop_in(op, 3) };

    (void)err;
    j.q = rows_of(kop_in(op, 0), a->heads);
    j.k = rows_of(kop_in(op, 1), a->kv_heads);
    j.v = rows_of(kop_in(op, 2), a->kv_heads);
    attend(op, &j);
    return 0;
}

/* com.microsoft.MultiHeadAttention: query, key, value, bias, key_padding_mask, attention_bias. */
int multihead_prepare(struct op *op, opm_error *err)
{
    struct attention *a = kop_new_state(op, sizeof(*a));
    const struct nt *q, *k, *v, *bias = kop_in(op, 3), *keep = kop_in(op, 4), *add = kop_in(op, 5);
    int64_t len;
    struct shape out;
    int rc = a ? want_qkv(op, &q, &k, &v, err) : kop_nomem(op, err);

    if (rc)
        return rc;
    a->heads = a->kv_heads = node_attr_int(op->node, "num_heads", 0);
    if (kop_in(op, 6) || kop_in(op, 7) || op->nin > 8 || (op->nout > 1 && op->out[1] != NO_VALUE))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for past or present values");
    if (q->shape.rank != 3 || k->shape.rank < 3 || v->shape.rank < 3 ||
        !read_shape(&q->shape, a->heads, &a->q_len, &a->width) ||
        !read_shape(&k->shape, a->heads, &a->kv_len, &len) || len != a->width ||
        !read_shape(&v->shape, a->heads, &len, &a->v_width) || len != a->kv_len ||
        k->shape.dim[0] != q->shape.dim[0] || v->shape.dim[0] != q->shape.dim[0])
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    a->batch = q->shape.dim[0];
    if (bias && (bias->type != TENSOR_F32 || k->shape.rank != 3 || v->shape.rank != 3 ||
                 bias->count != a->heads * (2 * a->width + a->v_width)))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "bias does not fit");
    if (keep && (!(TYPE_BIT(keep->type) & TYPES_INDEX) || keep->count != a->batch * a->kv_len))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    if (add && (add->type != TENSOR_F32 || add->shape.rank != 4 ||
                (add->shape.dim[0] != 1 && add->shape.dim[0] != a->batch) ||
                (add->shape.dim[1] != 1 && add->shape.dim[1] != a->heads) ||
                add->shape.dim[2] != a->q_len || add->shape.dim[3] != a->kv_len))
        return kop_fail(op, OPM_EUNSUPPORTED, err, "attention bias does not fit");
    a->causal = node_attr_int(op->node, "unidirectional", 0) != 0;
    a->past = a->kv_len - a->q_len;
    a->scale = node_attr_float(op->node, "scale", 0);
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    a->cap = 0;
    a->at_score = bias /* behind the operands with their bias */ ? (q->bytes + k->bytes + v->bytes +
                                                                    NATIVE_ALIGN) /
                                                                       NATIVE_ALIGN * NATIVE_ALIGN
                                                                 : 0;
    op->scratch_bytes = a->at_score + sizeof(float) * (size_t)MAX(a->kv_len, (int64_t)1) *
                                          (size_t)pool_threads(kop_pool(op));
    out = q->shape;
    out.dim[2] = a->heads * a->v_width;
    return kop_set(op, 0, TENSOR_F32, &out, err);
}

int multihead_run(struct op *op, opm_error *err)
{
    const struct attention *a = op->state;
    const struct nt *bias = kop_in(op, 3);
    struct attend_job j = { .op = op, .a = a, .keep = kop_in(op, 4), .bias = kop_in(op, 5) };
    struct rows *rows[3] = { &j.q, &j.k, &j.v };
    float *copy = op->scratch;
    int64_t at = 0;

    (void)err;
    for (uint32_t i = 0; i < 3; i++) {
        const struct nt *t = kop_in(op, i);
        int64_t n = t->shape.dim[2];

        *rows[i] = rows_of(t, a->heads);
        if (!bias)
            continue;
        for (int64_t r = 0; n && r < t->count / n; r++)
            kop_isa(op)->binary(B_ADD, copy + r * n, (const float *)t->data + r * n, 1,
                                (const float *)bias->data + at, 1, n);
        rows[i]->base = copy;
        copy += t->count;
        at += n;
    }
    attend(op, &j);
    return 0;
}

/* Turn pairs of numbers by angles whose cosines and sines are given by position. Opset 23: X, cos,
 * sin, positions; com.microsoft: X, positions, cos, sin. */
int rotary_prepare(struct op *op, opm_error *err)
{
    bool ms = op->kernel->arg;
    uint32_t cos_at = ms ? 2 : 1, sin_at = cos_at + 1, pos_at = ms ? 1 : 3;
    const struct nt *x, *pos = kop_in(op, pos_at), *c, *s;
    int64_t heads = node_attr_int(op->node, "num_heads", 0),
            part = node_attr_int(op->node, "rotary_embedding_dim", 0), len, width, batch;
    int rc = want_f32(op, 0, err);

    if (!rc)
        rc = want_f32(op, cos_at, err);
    if (!rc)
        rc = want_f32(op, sin_at, err);
    if (!rc && pos)
        rc = kop_want(op, pos_at, TYPES_INDEX, err);
    if (rc)
        return rc;
    x = kop_in(op, 0);
    c = kop_in(op, cos_at);
    s = kop_in(op, sin_at);
    if (x->shape.rank == 4)
        heads = x->shape.dim[1];
    else if (ms && heads == 0 && c->shape.rank == 2 && c->shape.dim[1] && x->shape.rank == 3)
        heads = x->shape.dim[2] / (2 * c->shape.dim[1]);
    if (!read_shape(&x->shape, heads, &len, &width) || !shape_equal(&c->shape, &s->shape) ||
        width % 2 || part < 0 || part > width || part % 2)
        return kop_fail(op, OPM_EUNSUPPORTED, err, "operands do not fit");
    batch = x->shape.dim[0];
    part = part ? part : width;
    if (pos ? c->shape.rank != 2 || c->shape.dim[1] != part / 2 ||
                  (pos->count != batch * len && pos->count != 1)
            : c->shape.rank != 3 || c->shape.dim[0] != batch || c->shape.dim[1] != len ||
                  c->shape.dim[2] != part / 2)
        return kop_fail(op, OPM_EUNSUPPORTED, err, "cosines do not fit");
    return kop_set(op, 0, TENSOR_F32, &x->shape, err);
}

int rotary_run(struct op *op, opm_error *err)
{
    bool ms = op->kernel->arg, mixed = node_attr_int(op->node, "interleaved", 0) != 0;
    uint32_t cos_at = ms ? 2 : 1, pos_at = ms ? 1 : 3;
    const struct nt *x = kop_in(op, 0), *pos = kop_in(op, pos_at), *c = kop_in(op, cos_at),
                    *s = kop_in(op, cos_at + 1);
    int64_t half = c->shape.dim[c->shape.rank - 1],
            heads = x->shape.rank == 4 ? x->shape.dim[1] : node_attr_int(op->node, "num_heads", 0),
            len, width, batch = x->shape.dim[0];
    struct rows in, out;

    if (heads == 0)
        heads = x->shape.dim[2] / MAX(2 * half, (int64_t)1);
    if (!read_shape(&x->shape, heads, &len, &width))
        return kop_fail(op, OPM_EINVAL, err, "operands do not fit");
    in = rows_of(x, heads);
    out = rows_of(kop_out(op, 0), heads);
    for (int64_t r = 0; r < batch * heads * len; r++) {
        int64_t i = r % len, h = r / len % heads, b = r / (len * heads),
                at = !pos              ? b * len + i
                     : pos->count == 1 ? nt_int(pos, 0) + i
                                       : nt_int(pos, b * len + i);
        const float *from = in.base + b * in.batch + h * in.head + i * in.step;
        float *to = (float *)kop_out(op, 0)->data + b * out.batch + h * out.head + i * out.step;

        if (at < 0 || (at + 1) * half > c->count)
            return kop_fail(op, OPM_EINVAL, err, "position %lld is out of range", (long long)at);
        for (int64_t k = 0; k < half; k++) {
            int64_t p = mixed ? 2 * k : k, q = mixed ? 2 * k + 1 : k + half;
            float co = ((const float *)c->data)[at * half + k],
                  si = ((const float *)s->data)[at * half + k], u = from[p], v = from[q];

            to[p] = co * u - si * v;
            to[q] = si * u + co * v;
        }
        if (width > 2 * half)
            memcpy(to + 2 * half, from + 2 * half, (size_t)(width - 2 * half) * sizeof(*to));
    }
    return 0;
}
