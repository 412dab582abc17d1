/* fattn.c -- see fattn.h.
 *
 * Work is cut into blocks of rows of one head. A thread packs the head's keys and values, when it
 * comes to a new one, into memory of its own; per block the scores stay in the second-level cache
 * from the first product through softmax to the second. exp() is not divided by its sum: the rows
 * of the result are, which are shorter. */
#include "engine/native/fattn.h"
#include "engine/native/bcast.h"
#include "engine/native/gemm.h"
#include "engine/native/kernels.h"

#include <string.h>

#define SCORES_MAX 65536 /* floats of scores at a time */
#define ROW_PANELS 4

/* A mask of this and less leaves nothing of a key if another one has about none. */
#define MASKED (-1e4f)
#define UNMASKED (-100.0f)

/* The dimensions and strides of a tensor as a view shows it. */
struct seen {
    int rank;
    int64_t dim[SHAPE_RANK_MAX], stride[SHAPE_RANK_MAX], at;
};

static bool take_step(struct seen *s, const struct view_step *step)
{
    struct seen old = *s;
    bool used[SHAPE_RANK_MAX] = { 0 };

    if (step->select) {
        int axis = nt_axis(step->axis, s->rank);
        int64_t i = step->index;

        if (axis < 0)
            return false;
        i = i < 0 ? i + s->dim[axis] : i;
        if (i < 0 || i >= s->dim[axis])
            return false;
        s->at += i * s->stride[axis];
        s->rank--;
        for (int k = axis; k < s->rank; k++) {
            s->dim[k] = old.dim[k + 1];
            s->stride[k] = old.stride[k + 1];
        }
        return true;
    }
    if (step->rank != s->rank)
        return false;
    for (int k = 0; k < s->rank; k++) {
        int64_t from = step->perm[k];

        if (from < 0 || from >= s->rank || used[from])
            return false;
        used[from] = true;
        s->dim[k] = old.dim[from];
        s->stride[k] = old.stride[from];
    }
    return true;
}

/* A tensor as four dimensions, contiguous but for the view (NULL: none). */
static int look(const struct op *op, uint32_t slot, const struct view *v, struct seen *s,
                opm_error *err)
{
    const struct nt *t = kop_in(op, slot);
    int64_t step = 1;
    struct seen four = { .rank = 4, .dim = { 1, 1, 1, 1 } };

    *s = (struct seen){ .rank = t->shape.rank };
    for (int i = s->rank - 1; i >= 0; i--) {
        s->dim[i] = t->shape.dim[i];
        s->stride[i] = step;
        step *= t->shape.dim[i];
    }
    for (int i = v ? v->nstep - 1 : -1; i >= 0; i--)
        if (!take_step(s, &v->step[i]))
            return kop_fail(op, OPM_EINVAL, err, "input %u cannot be seen that way", slot);
    if (s->rank > 4 || (v && s->rank < 2))
        return kop_fail(op, OPM_EINVAL, err, "input %u has rank %d", slot, s->rank);
    for (int i = 0; i < s->rank; i++) {
        four.dim[4 - s->rank + i] = s->dim[i];
        four.stride[4 - s->rank + i] = s->stride[i];
    }
    four.at = s->at;
    *s = four;
    return 0;
}

/* b becomes what a and b broadcast to. */
static bool join(int64_t a, int64_t *b)
{
    if (a != *b && a != 1 && *b != 1)
        return false;
    *b = *b == 1 ? a : *b;
    return true;
}

static bool known(const struct op *op, uint32_t slot)
{
    const struct val *v = op->in[slot] == NO_VALUE ? NULL : &op->plan->val[op->in[slot]];

    return v && (v->kind == VAL_KNOWN || v->kind == VAL_CONST) && v->t.data;
}

/* Keys of a row that are not masked to the end: a causal mask leaves half of them. */
static int64_t row_limit(const struct op *op, const struct fattn *s, int64_t row)
{
    const float *m = known(op, FATTN_MASK) ? kop_in(op, FATTN_MASK)->data : NULL;
    const uint8_t *w = known(op, FATTN_WHERE) ? kop_in(op, FATTN_WHERE)->data : NULL;
    int64_t n = s->sk;
    bool open = false;

    m += m ? row * s->mask[2] : 0;
    w += w ? row * s->where[2] : 0;
    while (n > 0 && (m ? m[n - 1] <= MASKED : !w[n - 1] == s->where_keeps))
        n--;
    for (int64_t i = 0; i < n && !open; i++)
        open = m ? m[i] >= UNMASKED : !w[i] != s->where_keeps;
    return open ? n : s->sk;
}

static void fattn_release(void *state)
{
    mem_free(((struct fattn *)state)->limit);
}

/* One mask for all heads, known now, tells what need not be computed. */
static int find_limits(struct op *op, struct fattn *s, opm_error *err)
{
    uint32_t slot = op->in[FATTN_MASK] != NO_VALUE ? FATTN_MASK : FATTN_WHERE;
    const int64_t *stride = slot == FATTN_MASK ? s->mask : s->where;
    int32_t *limit;

    mem_free(s->limit);
    s->limit = NULL;
    if ((op->in[FATTN_MASK] != NO_VALUE && op->in[FATTN_WHERE] != NO_VALUE) || !known(op, slot) ||
        stride[0] || stride[1] || stride[3] != 1 || s->sk > INT32_MAX || s->sq == 0 ||
        (slot == FATTN_WHERE && !(s->fill <= MASKED)))
        return 0;
    limit = mem_calloc((size_t)s->sq, sizeof(*limit));
    if (!limit)
        return kop_nomem(op, err);
    for (int64_t i = 0; i < s->sq; i++)
        limit[i] = (int32_t)row_limit(op, s, i);
    s->limit = limit;
    return 0;
}

static int set_output(struct op *op, struct fattn *s, int rank, opm_error *err)
{
    const int64_t dim[4] = { s->outer[0], s->outer[1], s->sq, s->dv };
    struct shape out = { .rank = rank };
    int64_t step = 1, own[4];
    int skip = 4 - rank;

    if (s->out_rank && s->out_rank != rank)
        return kop_fail(op, OPM_EINVAL, err, "the result has rank %d", rank);
    for (int i = 0; i < rank; i++) {
        int64_t from = s->out_rank ? s->out_perm[i] : i;

        if (from < 0 || from >= rank)
            return kop_fail(op, OPM_EINVAL, err, "the result cannot be transposed that way");
        out.dim[i] = dim[skip + from];
    }
    memset(s->stride[3], 0, sizeof(s->stride[3]));
    for (int i = rank - 1; i >= 0; i--) {
        own[i] = step;
        step *= out.dim[i];
    }
    for (int i = 0; i < rank; i++)
        s->stride[3][skip + (s->out_rank ? s->out_perm[i] : i)] = own[i];
    return kop_set(op, 0, TENSOR_F32, &out, err);
}

static int plan_blocks(struct op *op, struct fattn *s, opm_error *err)
{
    const struct isa *isa = kop_isa(op);
    int64_t per, total;

    s->kp_floats = gemm_size_b(isa, s->d, s->sk);
    s->vp_floats = gemm_size_b(isa, s->sk, s->dv);
    if (s->kp_floats < 0 || s->vp_floats < 0 || s->kp_floats > PTRDIFF_MAX / 64 ||
        s->vp_floats > PTRDIFF_MAX / 64 || s->sk > INT32_MAX)
        return kop_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    s->ld = gemm_panels(s->sk, isa->nr) * isa->nr + 16;
    s->mq = isa->mr * MIN(MAX(SCORES_MAX / s->ld / isa->mr, (int64_t)1), (int64_t)ROW_PANELS);
    s->score_floats = s->mq * s->ld;
    per = s->kp_floats + s->vp_floats + s->score_floats;
    if (__builtin_mul_overflow(per, (int64_t)pool_threads(kop_pool(op)) * 4, &total))
        return kop_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    op->scratch_bytes = (size_t)total;
    return 0;
}

int fattn_prepare(struct op *op, opm_error *err)
{
    struct fattn *s = op->state;
    struct seen x[FATTN_NIN];
    int64_t dim[4] = { 1, 1, 1, 1 };
    int rank = 2, rc = 0;

    op->release = fattn_release;
    for (uint32_t i = 0; i < FATTN_NIN && !rc; i++) {
        if (op->in[i] == NO_VALUE)
            continue;
        rc = kop_want(op, i, i == FATTN_WHERE ? TYPE_BIT(TENSOR_BOOL) : TYPE_BIT(TENSOR_F32), err);
        if (!rc)
            rc = look(op, i, i < FATTN_MASK ? &s->view[i] : NULL, &x[i], err);
        if (!rc) {
            int r = kop_in(op, i)->shape.rank;

            for (int k = 0; i < FATTN_MASK && k < s->view[i].nstep; k++)
                r -= s->view[i].step[k].select;
            rank = MAX(rank, r);
        }
    }
    if (rc)
        return rc;
    s->d = x[FATTN_Q].dim[3];
    s->dv = x[FATTN_V].dim[3];
    dim[2] = x[FATTN_Q].dim[2];
    dim[3] = x[FATTN_K].dim[3];
    bool fits = x[FATTN_K].dim[2] == s->d;
    for (uint32_t i = 0; i < FATTN_NIN; i++)
        if (op->in[i] != NO_VALUE)
            for (int k = 0; k < (i < FATTN_MASK ? 2 : 4); k++)
                fits = fits && join(x[i].dim[k], &dim[k]);
    if (!fits || x[FATTN_V].dim[2] != dim[3])
        return kop_fail(op, OPM_EINVAL, err, "the operands of attention do not fit");
    memcpy(s->outer, dim, sizeof(s->outer));
    s->sq = dim[2];
    s->sk = dim[3];
    for (uint32_t i = 0; i < FATTN_NIN; i++) {
        if (op->in[i] == NO_VALUE)
            continue;
        for (int k = 0; k < 4; k++) { /* a dimension of 1 is repeated */
            bool repeat = x[i].dim[k] == 1 && (i >= FATTN_MASK || k < 2 ? dim[k] != 1 : false);
            int64_t *to = i < FATTN_MASK ? s->stride[i] : i == FATTN_MASK ? s->mask : s->where;

            to[k] = repeat ? 0 : x[i].stride[k];
        }
        if (i < FATTN_MASK)
            s->at[i] = x[i].at;
    }
    if (x[FATTN_Q].dim[2] == 1)
        s->stride[FATTN_Q][2] = 0;
    if (x[FATTN_K].dim[3] == 1)
        s->stride[FATTN_K][3] = 0;
    rc = set_output(op, s, rank, err);
    if (!rc)
        rc = find_limits(op, s, err);
    return rc ? rc : plan_blocks(op, s, err);
}

struct fattn_job {
    const struct op *op;
    const struct fattn *s;
    const float *q, *k, *v, *mask;
    const uint8_t *where;
    float *out;
    int64_t blocks; /* of rows in a head */
};

static void pack_head(const struct fattn_job *j, int64_t b, int64_t h, float *kp, float *vp)
{
    const struct fattn *s = j->s;
    const struct isa *isa = kop_isa(j->op);
    const int64_t *ks = s->stride[FATTN_K], *vs = s->stride[FATTN_V];

    gemm_pack_b(isa, kp, j->k + b * ks[0] + h * ks[1], s->d, s->sk, ks[2], ks[3], 0,
                gemm_panels(s->sk, isa->nr));
    gemm_pack_b(isa, vp, j->v + b * vs[0] + h * vs[1], s->sk, s->dv, vs[2], vs[3], 0,
                gemm_panels(s->dv, isa->nr));
}

/* Scores of one row to weights; the sum of the weights is returned. */
static float weigh(const struct fattn_job *j, float *x, int64_t n, int64_t b, int64_t h,
                   int64_t row)
{
    const struct fattn *s = j->s;
    const struct isa *isa = kop_isa(j->op);
    const float *mask = j->mask;
    float scale = s->scale;

    if (j->where) {
        const uint8_t *w = j->where + b * s->where[0] + h * s->where[1] + row * s->where[2];

        isa->unary(U_AFFINE, x, x, n, scale, 0);
        scale = 1;
        for (int64_t i = 0; i < n; i++)
            x[i] = !w[i * s->where[3]] == s->where_keeps ? s->fill : x[i];
    }
    if (mask) {
        mask += b * s->mask[0] + h * s->mask[1] + row * s->mask[2];
        if (s->mask[3] == 0) { /* the same for all keys */
            isa->unary(U_AFFINE, x, x, n, scale, *mask);
            scale = 1;
            mask = NULL;
        }
    }
    return isa->softexp(x, n, scale, mask);
}

/* Rows [r0, r1) of one head, at most a panel. */
static void attend_panel(const struct fattn_job *j, int64_t b, int64_t h, int64_t r0, int64_t r1,
                         const float *kp, const float *vp, float *score)
{
    const struct fattn *s = j->s;
    const struct isa *isa = kop_isa(j->op);
    const int64_t *qs = s->stride[FATTN_Q], *os = s->stride[3];
    int64_t keys = s->limit ? 0 : s->sk;
    float *out = j->out + b * os[0] + h * os[1] + r0 * os[2];
    struct isa_tile t = { .m = (int)(r1 - r0),
                          .k = s->d,
                          .a = j->q + b * qs[0] + h * qs[1] + r0 * qs[2],
                          .ars = qs[2],
                          .aks = qs[3],
                          .ldc = s->ld };
    float inv[16];

    for (int64_t r = r0; s->limit && r < r1; r++)
        keys = MAX(keys, (int64_t)s->limit[r]);
    for (int64_t p = 0; p * isa->nr < keys; p++) {
        t.n = (int)MIN((int64_t)isa->nr, keys - p * isa->nr);
        t.b = kp + p * isa->nr * s->d;
        t.c = score + p * isa->nr;
        isa->tile(&t);
    }
    for (int64_t r = r0; r < r1; r++) {
        float *x = score + (r - r0) * s->ld;
        int64_t n = s->limit ? s->limit[r] : keys;

        inv[r - r0] = 1 / weigh(j, x, n, b, h, r);
        memset(x + n, 0, (size_t)(keys - n) * sizeof(*x));
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

static void fattn_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct fattn_job *j = arg;
    const struct fattn *s = j->s;
    const struct isa *isa = kop_isa(j->op);
    float *kp = (float *)j->op->scratch + thread * (s->kp_floats + s->vp_floats + s->score_floats),
          *vp = kp + s->kp_floats, *score = vp + s->vp_floats;
    int64_t packed = -1;

    for (int64_t i = begin; i < end; i++) {
        int64_t head = i / j->blocks, r0 = i % j->blocks * s->mq, r1 = MIN(r0 + s->mq, s->sq),
                b = head / s->outer[1], h = head % s->outer[1];

        if (head != packed)
            pack_head(j, b, h, kp, vp);
        packed = head;
        for (int64_t r = r0; r < r1; r += isa->mr)
            attend_panel(j, b, h, r, MIN(r + isa->mr, r1), kp, vp, score);
    }
}

int fattn_run(struct op *op, opm_error *err)
{
    const struct fattn *s = op->state;
    struct fattn_job j = { .op = op, .s = s };

    (void)err;
    if (kop_out(op, 0)->count == 0)
        return 0;
    if (s->sk == 0) { /* no keys: a product with nothing */
        memset(kop_out(op, 0)->data, 0, kop_out(op, 0)->bytes);
        return 0;
    }
    j.q = (const float *)kop_in(op, FATTN_Q)->data + s->at[FATTN_Q];
    j.k = (const float *)kop_in(op, FATTN_K)->data + s->at[FATTN_K];
    j.v = (const float *)kop_in(op, FATTN_V)->data + s->at[FATTN_V];
    j.mask = kop_in(op, FATTN_MASK) ? kop_in(op, FATTN_MASK)->data : NULL;
    j.where = kop_in(op, FATTN_WHERE) ? kop_in(op, FATTN_WHERE)->data : NULL;
    j.out = kop_out(op, 0)->data;
    j.blocks = (s->sq + s->mq - 1) / s->mq;
    pool_for(kop_pool(op), s->outer[0] * s->outer[1] * j.blocks,
             pool_grain((double)(MIN(s->mq, s->sq) * s->sk) * (double)(s->d + s->dv) / 40),
             fattn_part, &j);
    return 0;
}
