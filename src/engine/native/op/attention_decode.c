/* attention_decode.c -- com.microsoft's DecoderMaskedMultiHeadAttention: one new token looks at
 * those before it, or at the encoder's.
 *
 * Keys and values of earlier tokens are in a cache that has room for more. With a beam search, the
 * rows of a batch are beams, and cache_indirection says which beam's cache holds each earlier
 * token. Each head reads its keys and values once, where they lie. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

enum {
    DEC_QUERY,
    DEC_KEY,
    DEC_VALUE,
    DEC_MASK,
    DEC_ADD,
    DEC_PAST,
    DEC_LENGTH = 7,
    DEC_BEAMS,
    DEC_FROM,
    DEC_BIAS
};

struct decode {
    int64_t batch, heads, width, v_width;
    int64_t room; /* tokens that a cache has room for */
    int64_t each; /* floats of scratch of a thread */
    bool cross;   /* keys and values are the encoder's */
    bool packed;  /* query, key and value are one input */
    bool shared;  /* the cache is longer than what is in it */
    float scale, fill;
};

static bool decode_geometry(const struct op *op, struct decode *s)
{
    const struct nt *q = kernel_in(op, DEC_QUERY), *k = kernel_in(op, DEC_KEY),
                    *v = kernel_in(op, DEC_VALUE), *past = kernel_in(op, DEC_PAST);
    int64_t hidden;

    s->heads = node_attr_int(op->node, "num_heads", 0);
    if (q->shape.rank != 3 || q->shape.dim[1] != 1 || s->heads < 1 || !k != !v)
        return false;
    s->batch = q->shape.dim[0];
    s->packed = !k;
    s->cross = k && k->shape.rank == 4;
    hidden = q->shape.dim[2] / (s->packed ? 3 : 1);
    if (hidden % s->heads || (s->packed && q->shape.dim[2] != 3 * hidden))
        return false;
    s->width = s->v_width = hidden / s->heads;
    if (s->cross) {
        s->v_width = v->shape.rank == 4 ? v->shape.dim[3] : 0;
        s->room = k->shape.dim[2];
        return k->shape.dim[0] == s->batch && k->shape.dim[1] == s->heads &&
               k->shape.dim[3] == s->width && v->shape.rank == 4 && v->shape.dim[0] == s->batch &&
               v->shape.dim[1] == s->heads && v->shape.dim[2] == s->room && !past;
    }
    for (uint32_t i = 0; i < 2; i++) {
        const struct nt *p = kernel_in(op, DEC_PAST + i);

        if (!p || p->shape.rank != 4 || p->shape.dim[0] != s->batch ||
            p->shape.dim[1] != s->heads || p->shape.dim[3] != s->width ||
            p->shape.dim[2] != past->shape.dim[2])
            return false;
    }
    s->room = past->shape.dim[2] + !s->shared;
    return !k || (shape_equal(&k->shape, &q->shape) && shape_equal(&v->shape, &q->shape));
}

static int decode_types(const struct op *op, opm_error *err)
{
    static const uint32_t floats[] = { DEC_QUERY, DEC_KEY,      DEC_VALUE, DEC_ADD,
                                       DEC_PAST,  DEC_PAST + 1, DEC_BIAS },
                          numbers[] = { DEC_MASK, DEC_LENGTH, DEC_BEAMS, DEC_FROM };
    int rc = 0;

    for (size_t i = 0; i < ARRAY_SIZE(floats) && !rc; i++)
        if (floats[i] == DEC_QUERY || kernel_in(op, floats[i]))
            rc = attention_want_f32(op, floats[i], err);
    for (size_t i = 0; i < ARRAY_SIZE(numbers) && !rc; i++)
        if (kernel_in(op, numbers[i]))
            rc = kernel_want(op, numbers[i], TYPE_BIT(TENSOR_I32), err);
    return rc;
}

int decodeattention_prepare(struct op *op, opm_error *err)
{
    struct decode *s = kernel_new_state(op, sizeof(*s));
    const struct nt *bias = kernel_in(op, DEC_BIAS), *from = kernel_in(op, DEC_FROM);
    int rc = s ? decode_types(op, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    *s = (struct decode){ .shared = node_attr_int(op->node, "past_present_share_buffer", 0) != 0 };
    if (!decode_geometry(op, s))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for these operands");
    if (bias && bias->count != s->heads * (2 * s->width + s->v_width))
        return kernel_fail(op, OPM_EINVAL, err, "bias does not fit");
    if (s->shared && !s->cross &&
        (!kernel_in(op, DEC_LENGTH) || kernel_in(op, DEC_LENGTH)->count != 1))
        return kernel_fail(op, OPM_EINVAL, err, "wants one past_sequence_length");
    if (from && (from->shape.rank != 3 || from->shape.dim[0] * from->shape.dim[1] != s->batch))
        return kernel_fail(op, OPM_EINVAL, err, "cache_indirection does not fit");
    s->scale = node_attr_float(op->node, "scale", 0);
    if (s->scale == 0)
        s->scale = 1 / sqrtf((float)s->width);
    s->fill = node_attr_float(op->node, "mask_filter_value", -10000);
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    /* Scores, pointers to rows, and a row with its bias. */
    s->each = (3 * s->room + s->width + 32) / 16 * 16;
    if (s->room > INT32_MAX / 64)
        return kernel_fail(op, OPM_ELIMIT, err, "%lld keys", (long long)s->room);
    op->scratch_bytes = (size_t)(s->each * pool_threads(kernel_pool(op))) * sizeof(float);
    return 0;
}

/* -- a call -- */

struct decode_job {
    const struct op *op;
    const struct decode *s;
    int64_t past, total; /* tokens */
    int64_t beams, from_room;
    const float *cache[2]; /* [batch, heads, room, width]: where the earlier tokens are */
    int64_t cache_room;
    float *present[2];
};

/* A row of query, key or value, with its bias. */
static void new_row(const struct decode_job *j, int which, int64_t b, int64_t h, float *to)
{
    const struct decode *s = j->s;
    const struct nt *in = kernel_in(j->op, s->packed ? DEC_QUERY : DEC_QUERY + (uint32_t)which),
                    *bias = kernel_in(j->op, DEC_BIAS);
    int64_t hidden = s->heads * s->width, step = s->packed ? 3 * hidden : hidden;
    const float *row =
        (const float *)in->data + b * step + (s->packed ? which * hidden : 0) + h * s->width;

    if (bias)
        kernel_isa(j->op)->binary(B_ADD, to, row, 1,
                                  (const float *)bias->data + which * hidden + h * s->width, 1,
                                  s->width);
    else
        memcpy(to, row, (size_t)s->width * sizeof(*to));
}

/* Key or value t of a head. */
static const float *cached(const struct decode_job *j, int which, int64_t b, int64_t h, int64_t t)
{
    const struct decode *s = j->s;
    const struct nt *from = kernel_in(j->op, DEC_FROM);
    int64_t width = which ? s->v_width : s->width, holder = b;

    if (!s->cross && t == j->past) /* the new one */
        return j->present[which] + ((b * s->heads + h) * s->room + t) * width;
    if (from && !s->cross && j->beams > 1)
        holder = b / j->beams * j->beams + ((const int32_t *)from->data)[b * j->from_room + t];
    return j->cache[which] + ((holder * s->heads + h) * j->cache_room + t) * width;
}

static void mask_scores(const struct decode_job *j, float *score, int64_t b, int64_t h)
{
    const struct nt *mask = kernel_in(j->op, DEC_MASK), *add = kernel_in(j->op, DEC_ADD);
    const struct isa *isa = kernel_isa(j->op);

    if (mask) {
        const int32_t *keep = (const int32_t *)mask->data + b * j->total;

        for (int64_t t = 0; t < j->total; t++)
            score[t] += keep[t] > 0 ? 0 : j->s->fill;
    }
    if (add)
        isa->binary(B_ADD, score, score, 1,
                    (const float *)add->data +
                        ((add->shape.dim[0] == 1 ? 0 : b * add->shape.dim[1]) +
                         (add->shape.dim[1] == 1 ? 0 : h)) *
                            j->total,
                    1, j->total);
}

static void decode_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct decode_job *j = arg;
    const struct decode *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    struct nt *scores = kernel_out(j->op, 3);
    float *mine = (float *)j->op->scratch + thread * s->each, *score = mine + 2 * s->room,
          *q = score + s->room;
    const float **row = (const float **)(void *)mine;

    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / s->heads, h = i % s->heads;

        new_row(j, 0, b, h, q);
        for (int64_t t = 0; t < j->total; t++)
            score[t] = isa->dot(q, cached(j, 0, b, h, t), s->width) * s->scale;
        mask_scores(j, score, b, h);
        if (scores)
            memcpy((float *)scores->data + i * j->total, score, (size_t)j->total * sizeof(*score));
        isa->softmax(score, score, j->total);
        for (int64_t t = 0; t < j->total; t++)
            row[t] = cached(j, 1, b, h, t);
        isa->loops->mix((float *)kernel_out(j->op, 0)->data + i * s->v_width, row, score,
                        (int)j->total, s->v_width);
    }
}

/* Earlier tokens and the new one of a head. */
static void present_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct decode_job *j = arg;
    const struct decode *s = j->s;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        for (int which = 0; which < 2; which++) {
            float *to = j->present[which] + i * s->room * s->width;
            const float *past = j->cache[which] + i * j->cache_room * s->width;

            if (to != past && j->cache_room)
                memcpy(to, past, (size_t)(j->cache_room * s->width) * sizeof(*to));
            new_row(j, which + 1, i / s->heads, i % s->heads, to + j->past * s->width);
        }
}

/* Of this call: what is known only now must fit. */
static int decode_check(const struct op *op, const struct decode_job *j, opm_error *err)
{
    const struct nt *mask = kernel_in(op, DEC_MASK), *add = kernel_in(op, DEC_ADD),
                    *from = kernel_in(op, DEC_FROM);

    if (j->past < 0 || j->total > j->s->room)
        return kernel_fail(op, OPM_EINVAL, err, "%lld earlier tokens, the cache has room for %lld",
                           (long long)j->past, (long long)j->s->room);
    if (mask && (mask->shape.rank != 2 || mask->shape.dim[0] != j->s->batch ||
                 mask->shape.dim[1] != j->total))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this mask");
    if (add && (add->shape.rank != 4 || add->shape.dim[3] != j->total || add->shape.dim[2] != 1 ||
                (add->shape.dim[0] != 1 && add->shape.dim[0] != j->s->batch) ||
                (add->shape.dim[1] != 1 && add->shape.dim[1] != j->s->heads)))
        return kernel_fail(op, OPM_EINVAL, err, "attention bias does not fit");
    if (j->beams > 1 && !j->s->cross && !from)
        return kernel_fail(op, OPM_EINVAL, err, "several beams and no cache_indirection");
    if (!from || j->s->cross || j->beams <= 1)
        return 0;
    if (from->shape.dim[1] != j->beams || from->shape.dim[2] < j->past)
        return kernel_fail(op, OPM_EINVAL, err, "cache_indirection does not fit");
    for (int64_t b = 0; b < j->s->batch; b++)
        for (int64_t t = 0; t < j->past; t++) {
            int32_t beam = ((const int32_t *)from->data)[b * j->from_room + t];

            if (beam < 0 || beam >= j->beams)
                return kernel_fail(op, OPM_EINVAL, err, "there is no beam %d", beam);
        }
    return 0;
}

int decodeattention_run(struct op *op, opm_error *err)
{
    const struct decode *s = op->state;
    const struct nt *length = kernel_in(op, DEC_LENGTH), *beams = kernel_in(op, DEC_BEAMS),
                    *from = kernel_in(op, DEC_FROM);
    struct decode_job j = { .op = op, .s = s, .cache_room = s->room };
    int rc;

    j.past = s->cross ? 0 : s->shared ? nt_int(length, 0) : s->room - 1;
    j.total = s->cross ? s->room : j.past + 1;
    j.beams = beams && beams->count ? nt_int(beams, 0) : 1;
    j.from_room = from ? from->shape.dim[2] : 0;
    rc = decode_check(op, &j, err);
    if (rc || !s->batch)
        return rc;
    for (uint32_t i = 0; i < 2; i++) {
        j.cache[i] = kernel_in(op, s->cross ? DEC_KEY + i : DEC_PAST + i)->data;
        j.present[i] = kernel_out(op, i + 1) ? kernel_out(op, i + 1)->data : NULL;
        if (!s->cross && !j.present[i])
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel without present keys");
    }
    if (!s->cross) {
        j.cache_room = kernel_in(op, DEC_PAST)->shape.dim[2];
        pool_for(kernel_pool(op), s->batch * s->heads, pool_grain((double)(s->room * s->width) / 4),
                 present_part, &j);
    }
    pool_for(kernel_pool(op), s->batch * s->heads,
             pool_grain((double)(j.total * (s->width + s->v_width)) / 8), decode_part, &j);
    return 0;
}
