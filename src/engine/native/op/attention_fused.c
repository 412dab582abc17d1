/* attention_fused.c -- see attention_fused.h. */
#include "engine/native/op/attention_fused.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/op/kernels.h"

#include <string.h>

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
    const struct nt *t = kernel_in(op, slot);
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
            return kernel_fail(op, OPM_EINVAL, err, "input %u cannot be seen that way", slot);
    if (s->rank > 4 || (v && s->rank < 2))
        return kernel_fail(op, OPM_EINVAL, err, "input %u has rank %d", slot, s->rank);
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
static int64_t row_limit(const struct op *op, const struct fused_attention *s, int64_t row)
{
    const float *m = known(op, FUSED_MASK) ? kernel_in(op, FUSED_MASK)->data : NULL;
    const uint8_t *w = known(op, FUSED_WHERE) ? kernel_in(op, FUSED_WHERE)->data : NULL;
    int64_t n = s->core.sk;
    bool open = false;

    m += m ? row * s->core.mask[2] : 0;
    w += w ? row * s->core.where[2] : 0;
    while (n > 0 && (m ? m[n - 1] <= MASKED : !w[n - 1] == s->core.where_keeps))
        n--;
    for (int64_t i = 0; i < n && !open; i++)
        open = m ? m[i] >= UNMASKED : !w[i] != s->core.where_keeps;
    return open ? n : s->core.sk;
}

static void fused_attention_release(void *state)
{
    mem_free(((struct fused_attention *)state)->limit);
}

/* One mask for all heads, known now, tells what need not be computed. */
static int find_limits(struct op *op, struct fused_attention *s, opm_error *err)
{
    uint32_t slot = op->in[FUSED_MASK] != NO_VALUE ? FUSED_MASK : FUSED_WHERE;
    const int64_t *stride = slot == FUSED_MASK ? s->core.mask : s->core.where;
    int32_t *limit;

    mem_free(s->limit);
    s->core.limit = s->limit = NULL;
    s->core.group = 1;
    if ((op->in[FUSED_MASK] != NO_VALUE && op->in[FUSED_WHERE] != NO_VALUE) || !known(op, slot) ||
        stride[0] || stride[1] || stride[3] != 1 || s->core.sk > INT32_MAX || s->core.sq == 0 ||
        (slot == FUSED_WHERE && !(s->core.fill <= MASKED)))
        return 0;
    limit = mem_calloc((size_t)s->core.sq, sizeof(*limit));
    if (!limit)
        return kernel_nomem(op, err);
    for (int64_t i = 0; i < s->core.sq; i++)
        limit[i] = (int32_t)row_limit(op, s, i);
    s->core.limit = s->limit = limit;
    return 0;
}

static int set_output(struct op *op, struct fused_attention *s, int rank, opm_error *err)
{
    const int64_t dim[4] = { s->core.outer[0], s->core.outer[1], s->core.sq, s->core.dv };
    struct shape out = { .rank = rank };
    int64_t step = 1, own[4];
    int skip = 4 - rank;

    if (s->out_rank && s->out_rank != rank)
        return kernel_fail(op, OPM_EINVAL, err, "the result has rank %d", rank);
    for (int i = 0; i < rank; i++) {
        int64_t from = s->out_rank ? s->out_perm[i] : i;

        if (from < 0 || from >= rank)
            return kernel_fail(op, OPM_EINVAL, err, "the result cannot be transposed that way");
        out.dim[i] = dim[skip + from];
    }
    memset(s->core.stride[3], 0, sizeof(s->core.stride[3]));
    for (int i = rank - 1; i >= 0; i--) {
        own[i] = step;
        step *= out.dim[i];
    }
    for (int i = 0; i < rank; i++)
        s->core.stride[3][skip + (s->out_rank ? s->out_perm[i] : i)] = own[i];
    return kernel_set(op, 0, TENSOR_F32, &out, err);
}

int fused_attention_prepare(struct op *op, opm_error *err)
{
    struct fused_attention *s = op->state;
    struct seen x[FUSED_NIN];
    int64_t dim[4] = { 1, 1, 1, 1 };
    int rank = 2, rc = 0;

    op->release = fused_attention_release;
    for (uint32_t i = 0; i < FUSED_NIN && !rc; i++) {
        if (op->in[i] == NO_VALUE)
            continue;
        rc = kernel_want(op, i, i == FUSED_WHERE ? TYPE_BIT(TENSOR_BOOL) : TYPE_BIT(TENSOR_F32),
                         err);
        if (!rc)
            rc = look(op, i, i < FUSED_MASK ? &s->view[i] : NULL, &x[i], err);
        if (!rc) {
            int r = kernel_in(op, i)->shape.rank;

            for (int k = 0; i < FUSED_MASK && k < s->view[i].nstep; k++)
                r -= s->view[i].step[k].select;
            rank = MAX(rank, r);
        }
    }
    if (rc)
        return rc;
    s->core.d = x[FUSED_Q].dim[3];
    s->core.dv = x[FUSED_V].dim[3];
    dim[2] = x[FUSED_Q].dim[2];
    dim[3] = x[FUSED_K].dim[3];
    bool fits = x[FUSED_K].dim[2] == s->core.d;
    for (uint32_t i = 0; i < FUSED_NIN; i++)
        if (op->in[i] != NO_VALUE)
            for (int k = 0; k < (i < FUSED_MASK ? 2 : 4); k++)
                fits = fits && join(x[i].dim[k], &dim[k]);
    if (!fits || x[FUSED_V].dim[2] != dim[3])
        return kernel_fail(op, OPM_EINVAL, err, "the operands of attention do not fit");
    memcpy(s->core.outer, dim, sizeof(s->core.outer));
    s->core.sq = dim[2];
    s->core.sk = dim[3];
    for (uint32_t i = 0; i < FUSED_NIN; i++) {
        if (op->in[i] == NO_VALUE)
            continue;
        for (int k = 0; k < 4; k++) { /* a dimension of 1 is repeated */
            bool repeat = x[i].dim[k] == 1 && (i >= FUSED_MASK || k < 2 ? dim[k] != 1 : false);
            int64_t *to = i < FUSED_MASK    ? s->core.stride[i]
                          : i == FUSED_MASK ? s->core.mask
                                            : s->core.where;

            to[k] = repeat ? 0 : x[i].stride[k];
        }
        if (i < FUSED_MASK)
            s->at[i] = x[i].at;
    }
    if (x[FUSED_Q].dim[2] == 1)
        s->core.stride[FUSED_Q][2] = 0;
    if (x[FUSED_K].dim[3] == 1)
        s->core.stride[FUSED_K][3] = 0;
    rc = set_output(op, s, rank, err);
    if (!rc)
        rc = find_limits(op, s, err);
    return rc ? rc : sdpa_plan(op, &s->core, &op->scratch_bytes, err);
}

int fused_attention_run(struct op *op, opm_error *err)
{
    const struct fused_attention *s = op->state;
    struct sdpa_data d = { .scratch = op->scratch, .out = kernel_out(op, 0)->data };

    (void)err;
    if (kernel_out(op, 0)->count == 0)
        return 0;
    if (s->core.sk == 0) { /* no keys: a product with nothing */
        memset(kernel_out(op, 0)->data, 0, kernel_out(op, 0)->bytes);
        return 0;
    }
    d.q = (const float *)kernel_in(op, FUSED_Q)->data + s->at[FUSED_Q];
    d.k = (const float *)kernel_in(op, FUSED_K)->data + s->at[FUSED_K];
    d.v = (const float *)kernel_in(op, FUSED_V)->data + s->at[FUSED_V];
    d.mask = kernel_in(op, FUSED_MASK) ? kernel_in(op, FUSED_MASK)->data : NULL;
    d.where = kernel_in(op, FUSED_WHERE) ? kernel_in(op, FUSED_WHERE)->data : NULL;
    sdpa_run(op, &s->core, &d);
    return 0;
}
