/* sdpa.c -- see sdpa.h.
 *
 * Work is cut into blocks of rows of one head. A thread packs the head's keys and values, when it
 * comes to new ones, into memory of its own; per block the scores stay in the second-level cache
 * from the first product through softmax to the second. exp() is not divided by its sum: the rows
 * of the result are, which are shorter. */
#include "engine/native/math/sdpa.h"
#include "engine/native/math/gemm.h"

#include <math.h>
#include <string.h>

#define SCORES_MAX 65536 /* floats of scores at a time */
#define ROW_PANELS 4

int sdpa_plan(const struct op *op, struct sdpa *s, size_t *scratch_bytes, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t per, total;

    s->kp_floats = gemm_size_b(isa, s->d, s->sk);
    s->vp_floats = gemm_size_b(isa, s->sk, s->dv);
    if (s->kp_floats < 0 || s->vp_floats < 0 || s->kp_floats > PTRDIFF_MAX / 64 ||
        s->vp_floats > PTRDIFF_MAX / 64 || s->sk > INT32_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    s->ld = gemm_panels(s->sk, isa->nr) * isa->nr + 16;
    s->mq = isa->mr * MIN(MAX(SCORES_MAX / s->ld / isa->mr, (int64_t)1), (int64_t)ROW_PANELS);
    s->score_floats = s->mq * s->ld;
    per = s->kp_floats + s->vp_floats + s->score_floats;
    if (__builtin_mul_overflow(per, (int64_t)pool_threads(kernel_pool(op)) * 4, &total))
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    *scratch_bytes = (size_t)total;
    return 0;
}

struct sdpa_job {
    const struct op *op;
    const struct sdpa *s;
    const struct sdpa_data *d;
    int64_t blocks; /* of rows in a head */
};

static void pack_head(const struct sdpa_job *j, int64_t b, int64_t h, float *kp, float *vp)
{
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    const int64_t *ks = s->stride[SDPA_K], *vs = s->stride[SDPA_V];

    gemm_pack_b(isa, kp, j->d->k + b * ks[0] + h * ks[1], s->d, s->sk, ks[2], ks[3], 0,
                gemm_panels(s->sk, isa->nr));
    gemm_pack_b(isa, vp, j->d->v + b * vs[0] + h * vs[1], s->sk, s->dv, vs[2], vs[3], 0,
                gemm_panels(s->dv, isa->nr));
}

/* Scores [start, end) of one row to weights; the sum of the weights is returned. Behind them there
 * is room for one more. */
static float weigh(const struct sdpa_job *j, float *x, int64_t start, int64_t end, int64_t b,
                   int64_t h, int64_t row)
{
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    const float *mask = j->d->mask;
    float scale = s->scale;
    int64_t n = end - start;

    x += start;
    if (s->cap > 0) {
        isa->unary(U_AFFINE, x, x, n, scale / s->cap, 0);
        isa->unary(U_TANH, x, x, n, 0, 0);
        scale = s->cap;
    }
    if (j->d->where) {
        const uint8_t *w = j->d->where + b * s->where[0] + h * s->where[1] + row * s->where[2] +
                           start * s->where[3];

        isa->unary(U_AFFINE, x, x, n, scale, 0);
        scale = 1;
        for (int64_t i = 0; i < n; i++)
            x[i] = !w[i * s->where[3]] == s->where_keeps ? s->fill : x[i];
    }
    if (mask) {
        mask += b * s->mask[0] + h * s->mask[1] + row * s->mask[2] + start * s->mask[3];
        if (s->mask[3] == 0) { /* the same for all keys */
            isa->unary(U_AFFINE, x, x, n, scale, *mask);
            scale = 1;
            mask = NULL;
        }
    }
    if (s->sinks) {
        isa->unary(U_AFFINE, x, x, n, scale, 0);
        if (mask)
            isa->binary(B_ADD, x, x, 1, mask, 1, n);
        x[n] = j->d->sink ? j->d->sink[h] : 0;
        return isa->softexp(x, n + 1, 1, NULL);
    }
    return isa->softexp(x, n, scale, mask);
}

/* Elements of the masks for the scores of a row. */
struct row_mask {
    const float *add;
    const uint8_t *where;
};

static struct row_mask row_mask(const struct sdpa_job *j, int64_t b, int64_t h, int64_t row)
{
    const struct sdpa *s = j->s;
    struct row_mask m = { j->d->mask, j->d->where };

    if (m.add)
        m.add += b * s->mask[0] + h * s->mask[1] + row * s->mask[2];
    if (m.where)
        m.where += b * s->where[0] + h * s->where[1] + row * s->where[2];
    return m;
}

static bool hidden(const struct sdpa *s, const struct row_mask *m, int64_t i)
{
    return (m->where && !m->where[i * s->where[3]] == s->where_keeps && s->fill == -INFINITY) ||
           (m->add && m->add[i * s->mask[3]] == -INFINITY);
}

/* Masks leave none of the keys [start, end). */
static bool blind(const struct sdpa_job *j, int64_t start, int64_t end, int64_t b, int64_t h,
                  int64_t row)
{
    struct row_mask m = row_mask(j, b, h, row);

    for (int64_t i = start; i < end; i++)
        if (!hidden(j->s, &m, i))
            return false;
    return true;
}

/* Write a row of the scores from what the product gave, keys [start, end) of it being looked at. */
static void expose(const struct sdpa_job *j, const float *x, int64_t start, int64_t end, int64_t b,
                   int64_t h, int64_t row)
{
    const struct sdpa *s = j->s;
    struct row_mask m = row_mask(j, b, h, row);
    float *to = j->d->scores + ((b * s->outer[1] + h) * s->sq + row) * s->sk;

    for (int64_t i = 0; i < s->sk; i++) {
        float v = x[i] * s->scale;

        if (s->cap > 0 && s->scores >= SCORES_CAPPED)
            v = s->cap * tanhf(v / s->cap);
        if (s->scores >= SCORES_MASKED) {
            if (m.where && !m.where[i * s->where[3]] == s->where_keeps)
                v = s->fill;
            if (m.add)
                v += m.add[i * s->mask[3]];
            if (i < start || i >= end)
                v = s->beyond;
        }
        to[i] = v;
    }
}

/* Rows [r0, r1) of one head, at most a panel. */
static void sdpa_panel(const struct sdpa_job *j, int64_t b, int64_t h, int64_t r0, int64_t r1,
                       const float *kp, const float *vp, float *score)
{
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    const int64_t *qs = s->stride[SDPA_Q], *os = s->stride[SDPA_OUT];
    const int32_t *limit = s->limit ? s->limit + b * s->limit_batch : NULL;
    const int32_t *first = s->first ? s->first + b * s->limit_batch : NULL;
    int64_t keys = limit && !j->d->scores ? 0 : s->sk;
    float *out = j->d->out + b * os[0] + h * os[1] + r0 * os[2];
    struct isa_tile t = { .m = (int)(r1 - r0),
                          .k = s->d,
                          .a = j->d->q + b * qs[0] + h * qs[1] + r0 * qs[2],
                          .ars = qs[2],
                          .aks = qs[3],
                          .brs = isa->nr,
                          .ldc = s->ld };
    float inv[16];

    for (int64_t r = r0; limit && keys < s->sk && r < r1; r++)
        keys = MAX(keys, (int64_t)limit[r]);
    for (int64_t p = 0; p * isa->nr < keys; p++) {
        t.n = (int)MIN((int64_t)isa->nr, keys - p * isa->nr);
        t.b = kp + p * isa->nr * s->d;
        t.c = score + p * isa->nr;
        isa->tile(&t);
    }
    for (int64_t r = r0; r < r1; r++) {
        float *x = score + (r - r0) * s->ld;
        int64_t n = limit ? limit[r] : keys, start = first ? MIN((int64_t)first[r], n) : 0;

        if (j->d->scores)
            expose(j, x, start, n, b, h, r);
        if (s->blind_zero && n && blind(j, start, n, b, h, r))
            start = n;
        inv[r - r0] = n > start ? 1 / weigh(j, x, start, n, b, h, r) : 0;
        memset(x, 0, (size_t)start * sizeof(*x));
        memset(x + n, 0, (size_t)(keys - n) * sizeof(*x));
        if (j->d->scores && s->scores == SCORES_WEIGHTS)
            isa->unary(U_AFFINE, j->d->scores + ((b * s->outer[1] + h) * s->sq + r) * s->sk, x,
                       keys, inv[r - r0], 0);
    }
    t.k = keys;
    t.a = score;
    t.ars = s->ld;
    t.aks = 1;
    t.ldc = os[2];
    for (int64_t p = 0; p * isa->nr < s->dv; p++) {
        t.n = (int)MIN((int64_t)isa->nr, s->dv - p * isa->nr);
        t.b = vp + p * isa->nr * s->sk;
        t.c = out + p * isa->nr;
        isa->tile(&t);
    }
    for (int64_t r = 0; r < r1 - r0; r++)
        isa->unary(U_AFFINE, out + r * os[2], out + r * os[2], s->dv, inv[r], 0);
}

static void sdpa_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct sdpa_job *j = arg;
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    float *kp = (float *)j->d->scratch + thread * (s->kp_floats + s->vp_floats + s->score_floats),
          *vp = kp + s->kp_floats, *score = vp + s->vp_floats;
    int64_t packed = -1;

    for (int64_t i = begin; i < end; i++) {
        int64_t head = i / j->blocks, r0 = i % j->blocks * s->mq, r1 = MIN(r0 + s->mq, s->sq),
                b = head / s->outer[1], h = head % s->outer[1];

        if (head / s->group != packed)
            pack_head(j, b, h / s->group, kp, vp);
        packed = head / s->group;
        for (int64_t r = r0; r < r1; r += isa->mr)
            sdpa_panel(j, b, h, r, MIN(r + isa->mr, r1), kp, vp, score);
    }
}

/* -- few rows, as when a token is made: keys and values are read where they lie, once for all heads
 * of Q that look at them -- */

#define FEW_ROWS 16

/* Memory that the other way packs keys and values into. */
struct few_room {
    float *turned; /* keys x nr: scores as they come from the product by Q turned */
    float *score;  /* rows x ld */
    float *q;      /* d x nr */
};

static bool few_fits(const struct isa *isa, const struct sdpa *s, const struct sdpa_data *d)
{
    int64_t rows = s->sq * s->group, rest = s->dv % isa->nr;

    return rows <= FEW_ROWS && rows <= isa->nr && isa->nr <= s->d && !d->scores &&
           s->stride[SDPA_K][2] == 1 && s->stride[SDPA_V][3] == 1 && s->stride[SDPA_Q][3] == 1 &&
           s->stride[SDPA_OUT][3] == 1 && s->sk > 0 && (rest == 0 || rest == isa->lanes) &&
           s->stride[SDPA_V][2] >= s->dv && rows * s->ld <= s->vp_floats &&
           s->d * isa->nr <= s->score_floats && s->sk * isa->nr <= s->kp_floats;
}

/* Row i of those that look at one head of keys: a head of Q, and a row of it. */
static const float *few_q(const struct sdpa_job *j, int64_t b, int64_t first, int64_t i)
{
    const struct sdpa *s = j->s;
    const int64_t *q = s->stride[SDPA_Q];

    return j->d->q + b * q[0] + (first + i / s->sq) * q[1] + i % s->sq * q[2];
}

/* Scores of so many keys; with a single row, products of rows, else by tiles. */
static void few_scores(const struct sdpa_job *j, const struct few_room *room, int64_t b,
                       int64_t first, int64_t keys)
{
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    const int64_t *ks = s->stride[SDPA_K];
    const float *k = j->d->k + b * ks[0] + first / s->group * ks[1];
    int64_t rows = s->sq * s->group;
    struct isa_tile t = { .n = (int)rows,
                          .k = s->d,
                          .ars = ks[3],
                          .aks = 1,
                          .b = room->q,
                          .brs = isa->nr,
                          .ldc = isa->nr };

    if (rows == 1) {
        const float *q = few_q(j, b, first, 0);

        for (int64_t i = 0; i < keys; i++)
            room->score[i] = isa->dot(q, k + i * ks[3], s->d);
        return;
    }
    memset(room->q, 0, (size_t)(s->d * isa->nr) * sizeof(*room->q));
    for (int64_t r = 0; r < rows; r++) {
        const float *q = few_q(j, b, first, r);

        for (int64_t p = 0; p < s->d; p++)
            room->q[p * isa->nr + r] = q[p];
    }
    for (int64_t i = 0; i < keys; i += isa->mr) {
        t.m = (int)MIN((int64_t)isa->mr, keys - i);
        t.a = k + i * ks[3];
        t.c = room->turned + i * isa->nr;
        isa->tile(&t);
    }
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < keys; i++)
            room->score[r * s->ld + i] = room->turned[i * isa->nr + r];
}

static void few_values(const struct sdpa_job *j, const float *score, int64_t b, int64_t first,
                       int64_t keys, const float *inv)
{
    const struct sdpa *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    const int64_t *vs = s->stride[SDPA_V], *os = s->stride[SDPA_OUT];
    _Alignas(NATIVE_ALIGN) float out[FEW_ROWS * 64];
    int64_t rows = s->sq * s->group;
    struct isa_tile t = {
        .k = keys, .ars = s->ld, .aks = 1, .brs = vs[2], .c = out, .ldc = isa->nr
    };

    for (int64_t p = 0; p * isa->nr < s->dv; p++) {
        t.n = (int)MIN((int64_t)isa->nr, s->dv - p * isa->nr);
        t.b = j->d->v + b * vs[0] + first / s->group * vs[1] + p * isa->nr;
        for (int64_t r0 = 0; r0 < rows; r0 += isa->mr) {
            t.m = (int)MIN((int64_t)isa->mr, rows - r0);
            t.a = score + r0 * s->ld;
            isa->tile(&t);
            for (int64_t r = r0; r < r0 + t.m; r++)
                isa->unary(U_AFFINE,
                           j->d->out + b * os[0] + (first + r / s->sq) * os[1] + r % s->sq * os[2] +
                               p * isa->nr,
                           out + (r - r0) * isa->nr, t.n, inv[r], 0);
        }
    }
}

/* Item: a head of keys and values of a batch item. */
static void few_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct sdpa_job *j = arg;
    const struct sdpa *s = j->s;
    struct few_room room;
    int64_t heads = s->outer[1] / s->group, rows = s->sq * s->group;

    room.turned = (float *)j->d->scratch + thread * (s->kp_floats + s->vp_floats + s->score_floats);
    room.score = room.turned + s->kp_floats;
    room.q = room.score + s->vp_floats;
    for (int64_t i = begin; i < end; i++) {
        int64_t b = i / heads, first = i % heads * s->group, keys = s->limit ? 0 : s->sk;
        const int32_t *limit = s->limit ? s->limit + b * s->limit_batch : NULL,
                      *from = s->first ? s->first + b * s->limit_batch : NULL;
        float inv[FEW_ROWS];

        for (int64_t r = 0; limit && r < s->sq; r++)
            keys = MAX(keys, (int64_t)limit[r]);
        few_scores(j, &room, b, first, keys);
        for (int64_t r = 0; r < rows; r++) {
            float *x = room.score + r * s->ld;
            int64_t row = r % s->sq, h = first + r / s->sq, n = limit ? limit[row] : keys,
                    start = from ? MIN((int64_t)from[row], n) : 0;

            if (s->blind_zero && n && blind(j, start, n, b, h, row))
                start = n;
            inv[r] = n > start ? 1 / weigh(j, x, start, n, b, h, row) : 0;
            memset(x, 0, (size_t)start * sizeof(*x));
            memset(x + n, 0, (size_t)(keys - n) * sizeof(*x));
        }
        few_values(j, room.score, b, first, keys, inv);
    }
}

void sdpa_run(const struct op *op, const struct sdpa *s, const struct sdpa_data *d)
{
    struct sdpa_job j = { op, s, d, (s->sq + s->mq - 1) / s->mq };

    if (few_fits(kernel_isa(op), s, d)) {
        pool_for(kernel_pool(op), s->outer[0] * s->outer[1] / s->group,
                 pool_grain((double)(s->group * s->sq * s->sk) * (double)(s->d + s->dv) / 20),
                 few_part, &j);
        return;
    }
    pool_for(kernel_pool(op), s->outer[0] * s->outer[1] * j.blocks,
             pool_grain((double)(MIN(s->mq, s->sq) * s->sk) * (double)(s->d + s->dv) / 40),
             sdpa_part, &j);
}
