/* reduce.c -- Reduce*.
 *
 * Each output element is computed by one thread, over its inputs in an order that depends on the
 * shape alone. */
#include "engine/native/isa/folds_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <math.h>
#include <string.h>

#define PIECE 4096    /* elements that are summed as floats */
#define STRIP 256     /* outputs that are computed together, at most */
#define SHARE 16384   /* elements that are reduced together, unless it is one row */
#define WIDE 512      /* elements that are made doubles at once */
#define LONG_ROW 64   /* of floats, from which on a call for each is worth it */
#define REDUCE_NS 0.1 /* for an element, about */

/* The input seen as kept and reduced dimensions, innermost first, strides in elements. Either the
 * first kept or the first reduced one has stride 1. */
struct reduce {
    bool on[SHAPE_RANK_MAX];
    int nkeep, nred;
    int64_t kdim[SHAPE_RANK_MAX + 1], kstride[SHAPE_RANK_MAX + 1];
    int64_t rdim[SHAPE_RANK_MAX + 1], rstride[SHAPE_RANK_MAX + 1];
    int64_t rcount;
};

static void reduce_layout(struct reduce *r, const struct shape *in)
{
    int64_t step = 1;

    r->nkeep = r->nred = 0;
    r->rcount = 1;
    for (int32_t i = in->rank - 1; i >= 0; i--) { /* merged where contiguous */
        int64_t *dim = r->on[i] ? r->rdim : r->kdim, *stride = r->on[i] ? r->rstride : r->kstride;
        int *n = r->on[i] ? &r->nred : &r->nkeep;

        if (in->dim[i] == 1)
            continue;
        if (r->on[i])
            r->rcount *= in->dim[i];
        if (*n && stride[*n - 1] * dim[*n - 1] == step)
            dim[*n - 1] *= in->dim[i];
        else {
            dim[*n] = in->dim[i];
            stride[*n] = step;
            ++*n;
        }
        step *= in->dim[i];
    }
    if (r->nkeep == 0)
        r->kdim[r->nkeep++] = 1;
    if (r->nred == 0)
        r->rdim[r->nred++] = 1;
}

int reduce_prepare(struct op *op, opm_error *err)
{
    struct reduce *r = kernel_new_state(op, sizeof(*r));
    const struct nt *in = kernel_in(op, 0);
    bool known = false;
    struct view v;
    bool extreme = op->kernel->arg == RED_MAX || op->kernel->arg == RED_MIN;
    int rc = kernel_want(op, 0, TYPES_NUM | (extreme ? TYPE_BIT(TENSOR_BOOL) : 0), err);

    if (!r)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    view_begin(&v, op, err);
    rc = reduce_axes(&v.base, in->shape.rank, r->on, &known);
    view_end(&v);
    if (rc || !known)
        return rc ? rc : NEED_DATA;
    reduce_layout(r, &in->shape);
    return kernel_infer(op, err);
}

struct reduce_job {
    const struct reduce *r;
    enum red f;
    const struct nt *in;
    struct nt *out;
    const struct isa *isa;
    enum fold fold;
    bool wide;             /* elements are made doubles first */
    enum tensor_type type; /* of what is folded */
    enum tensor_type acc;  /* of accumulators */
    int64_t strip, strips; /* outputs that are computed together, and how many such of kdim[0] */
};

/* Accumulators of the outputs that are computed together. */
union accs {
    double real[STRIP];
    uint64_t whole[STRIP];
    int64_t below[STRIP];
    float small[STRIP];
};

static enum fold fold_of(enum red f)
{
    switch (f) {
    case RED_L1:
        return FOLD_ABS;
    case RED_L2:
    case RED_SUMSQUARE:
        return FOLD_SQUARES;
    case RED_PROD:
        return FOLD_PROD;
    case RED_LOGSUMEXP: /* first */
    case RED_MAX:
        return FOLD_MAX;
    case RED_MIN:
        return FOLD_MIN;
    default:
        return FOLD_SUM;
    }
}

/* Start of the inputs of output element i. */
static int64_t reduce_base(const struct reduce *r, int64_t i)
{
    int64_t at = 0;

    for (int k = 0; k < r->nkeep; k++) {
        at += i % r->kdim[k] * r->kstride[k];
        i /= r->kdim[k];
    }
    return at;
}

/* Walk the reduced dimensions but the innermost: offset of the next, or -1. */
struct lines {
    int64_t idx[SHAPE_RANK_MAX + 1];
    int64_t off;
};

static bool next_line(const struct reduce *r, struct lines *l)
{
    for (int k = 1; k < r->nred; k++) {
        l->off += r->rstride[k];
        if (++l->idx[k] < r->rdim[k])
            return true;
        l->off -= l->idx[k] * r->rstride[k];
        l->idx[k] = 0;
    }
    return false;
}

/* n elements at x as doubles. */
static const double *doubles(const struct reduce_job *j, double *room, const char *x, int64_t n)
{
    j->isa->rows->cast[j->in->type][TENSOR_F64](room, x, n);
    return room;
}

/* A row of floats: sums of pieces are added in double. */
static void long_row(const struct reduce_job *j, union accs *acc, int64_t i, const float *x,
                     int64_t n)
{
    static const enum isa_reduce name[FOLD_N] = {
        [FOLD_SUM] = R_SUM, [FOLD_ABS] = R_ABS, [FOLD_SQUARES] = R_SQUARES
    };

    for (int64_t at = 0; at < n; at += PIECE)
        acc->real[i] += (double)j->isa->reduce(name[j->fold], x + at, MIN(n - at, (int64_t)PIECE));
}

/* What is reduced lies side by side: n rows at x, kstride[0] apart, one line of each. */
static void fold_rows(const struct reduce_job *j, union accs *acc, const char *x, int64_t n)
{
    const struct reduce *r = j->r;
    const struct folds_isa *folds = j->isa->rows->folds;
    int64_t w = (int64_t)nt_width(j->in->type), length = r->rdim[0], step = r->kstride[0];

    if (!j->wide && j->type == TENSOR_F32 && length >= LONG_ROW && j->fold <= FOLD_SQUARES) {
        for (int64_t i = 0; i < n; i++)
            long_row(j, acc, i, (const float *)(const void *)x + i * step, length);
        return;
    }
    if (!j->wide) {
        folds->rows[j->fold][j->type](acc, x, length, step, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        for (int64_t at = 0; at < length; at += WIDE) {
            double room[WIDE];
            int64_t m = MIN(length - at, (int64_t)WIDE);

            folds->rows[j->fold][TENSOR_F64](acc->real + i,
                                             doubles(j, room, x + (i * step + at) * w, m), m, 0, 1);
        }
}

/* What is kept lies side by side: n columns at x, rdim[0] rows of them. */
static void fold_columns(const struct reduce_job *j, union accs *acc, const char *x, int64_t n)
{
    const struct reduce *r = j->r;
    const struct folds_isa *folds = j->isa->rows->folds;
    int64_t w = (int64_t)nt_width(j->in->type);

    if (!j->wide) {
        folds->columns[j->fold][j->type](acc, x, n, r->rstride[0], r->rdim[0]);
        return;
    }
    for (int64_t k = 0; k < r->rdim[0]; k++) {
        double room[STRIP];

        folds->columns[j->fold][TENSOR_F64](acc, doubles(j, room, x + k * r->rstride[0] * w, n), n,
                                            0, 1);
    }
}

#define LESS_EACH(to, from)             \
    for (int64_t i = 0; i < rows; i++)  \
        for (int64_t k = 0; k < n; k++) \
    (to)[i * n + k] = (from)[i * n + k] - most[i]

/* Short rows one behind the other: as many at a time as there is room for. */
static void add_short_exps(const struct reduce_job *j, double *sum, const union accs *acc,
                           const char *x, int64_t count)
{
    const struct rows_isa *on = j->isa->rows;
    int64_t n = j->r->rdim[0], at_once = STRIP / n, w = (int64_t)nt_width(j->in->type);

    for (int64_t first = 0; first < count; first += at_once) {
        int64_t rows = MIN(count - first, at_once);
        const char *from = x + first * n * w;
        union accs room;

        if (j->type == TENSOR_F32) {
            const float *most = acc->small + first;

            LESS_EACH(room.small, (const float *)(const void *)from);
            j->isa->unary(U_EXP, room.small, room.small, rows * n, 0, 0);
        } else {
            const double *most = acc->real + first;

            if (j->wide)
                from = (const char *)doubles(j, room.real, from, rows * n);
            LESS_EACH(room.real, (const double *)(const void *)from);
            on->real->unary[F64_EXP](room.real, room.real, rows * n);
        }
        on->folds->rows[FOLD_SUM][j->type](sum + first, &room, n, n, rows);
    }
}

/* The sums of exp(x - most) in double, x side by side as fold_rows() or fold_columns() has them. */
static void add_exps(const struct reduce_job *j, double *sum, const union accs *most, const char *x,
                     int64_t n)
{
    const struct reduce *r = j->r;
    bool rows = r->rstride[0] == 1, small = j->type == TENSOR_F32;
    int64_t w = (int64_t)nt_width(j->in->type), length = rows ? r->rdim[0] : n,
            apart = rows ? r->kstride[0] : r->rstride[0];
    const struct rows_isa *on = j->isa->rows;

    if (rows && length <= STRIP / 4 && r->kstride[0] == length) {
        add_short_exps(j, sum, most, x, n);
        return;
    }
    for (int64_t i = 0; i < (rows ? n : r->rdim[0]); i++)
        for (int64_t at = 0; at < length; at += STRIP) {
            union accs room;
            int64_t m = MIN(length - at, (int64_t)STRIP);
            const char *from = x + (i * apart + at) * w;
            const void *less = small ? (const void *)(most->small + (rows ? i : at))
                                     : (const void *)(most->real + (rows ? i : at));

            if (j->wide)
                from = (const char *)doubles(j, room.real, from, m);
            on->pair[ROWS_SUB][j->type](&room, from, 1, less, !rows, m);
            if (small)
                j->isa->unary(U_EXP, room.small, room.small, m, 0, 0);
            else
                on->real->unary[F64_EXP](room.real, room.real, m);
            if (rows)
                on->folds->rows[FOLD_SUM][j->type](sum + i, &room, m, 0, 1);
            else
                on->folds->columns[FOLD_SUM][j->type](sum + at, &room, m, 0, 1);
        }
}

static void each_line(const struct reduce_job *j, union accs *acc, const char *x, int64_t n,
                      double *exps)
{
    const struct reduce *r = j->r;
    int64_t w = (int64_t)nt_width(j->in->type);
    struct lines l = { 0 };

    do {
        const char *line = x + l.off * w;

        if (exps)
            add_exps(j, exps, acc, line, n);
        else if (r->rstride[0] == 1)
            fold_rows(j, acc, line, n);
        else
            fold_columns(j, acc, line, n);
    } while (next_line(r, &l));
}

/* log of the sums of exp(x): log(sum of exp(x - most)) + most, where most is finite, else 0. */
static void log_sum_exp(const struct reduce_job *j, union accs *acc, const char *x, int64_t n)
{
    double sum[STRIP] = { 0 };
    bool small = j->type == TENSOR_F32;

    for (int64_t i = 0; i < n; i++)
        if (small)
            acc->small[i] = isfinite(acc->small[i]) ? acc->small[i] : 0;
        else
            acc->real[i] = isfinite(acc->real[i]) ? acc->real[i] : 0;
    if (j->r->rcount)
        each_line(j, acc, x, n, sum);
    j->isa->rows->real->unary[F64_LOG](sum, sum, n);
    if (small) /* from the last on: doubles grow over what is read */
        for (int64_t i = n; i-- > 0;)
            acc->real[i] = sum[i] + (double)acc->small[i];
    else
        for (int64_t i = 0; i < n; i++)
            acc->real[i] += sum[i];
}

/* The accumulators become n outputs from the first on. */
static void finish(const struct reduce_job *j, union accs *acc, int64_t first, int64_t n)
{
    enum tensor_type type = j->f == RED_LOGSUMEXP ? TENSOR_F64 : j->acc;
    bool whole = (TYPE_BIT(j->in->type) & TYPES_INT) != 0;
    int64_t count = j->r->rcount;
    char *out = (char *)j->out->data + first * (int64_t)nt_width(j->out->type);

    switch (j->f) {
    case RED_MEAN:
        for (int64_t i = 0; i < n; i++)
            if (type == TENSOR_F64)
                acc->real[i] /= (double)(whole ? MAX(count, (int64_t)1) : count);
            else if (type == TENSOR_I64)
                acc->below[i] /= MAX(count, (int64_t)1);
            else
                acc->whole[i] /= (uint64_t)MAX(count, (int64_t)1);
        break;
    case RED_L2:
        for (int64_t i = 0; i < n; i++)
            acc->real[i] = sqrt(acc->real[i]);
        break;
    case RED_LOGSUM:
        j->isa->rows->real->unary[F64_LOG](acc->real, acc->real, n);
        break;
    default:
        break;
    }
    if (whole && (j->f == RED_LOGSUM || j->f == RED_LOGSUMEXP)) /* of nothing */
        for (int64_t i = 0; i < n; i++)
            acc->real[i] = isfinite(acc->real[i]) ? acc->real[i] : 0;
    if (type == j->out->type || type == TENSOR_BOOL)
        memcpy(out, acc, (size_t)n * nt_width(type));
    else
        j->isa->rows->cast[type][j->out->type](out, acc, n);
}

static void reduce_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct reduce_job *j = arg;
    const struct reduce *r = j->r;
    int64_t w = (int64_t)nt_width(j->in->type);
    uint64_t start = fold_start(j->fold, j->type);

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t c0 = item % j->strips * j->strip, n = MIN(j->strip, r->kdim[0] - c0),
                first = item / j->strips * r->kdim[0] + c0;
        const char *x = (const char *)j->in->data + reduce_base(r, first) * w;
        union accs acc;

        fill_with(&acc, &start, nt_width(j->acc), n);
        if (r->rcount)
            each_line(j, &acc, x, n, NULL);
        if (j->f == RED_LOGSUMEXP)
            log_sum_exp(j, &acc, x, n);
        finish(j, &acc, first, n);
    }
}

int reduce_run(struct op *op, opm_error *err)
{
    struct reduce_job j = { .r = op->state,
                            .f = (enum red)op->kernel->arg,
                            .in = kernel_in(op, 0),
                            .out = kernel_out(op, 0),
                            .isa = kernel_isa(op) };
    bool whole = (TYPE_BIT(j.in->type) & TYPES_INT) != 0, big = nt_width(j.in->type) == 8;
    int64_t columns = j.r->kdim[0];

    (void)err;
    j.fold = fold_of(j.f);
    j.wide = whole && (j.f == RED_L2 || j.f == RED_LOGSUM || j.f == RED_LOGSUMEXP ||
                       (j.f == RED_MEAN && big));
    j.type = j.wide ? TENSOR_F64 : j.in->type;
    if (j.fold == FOLD_ABS && fold_acc(FOLD_SUM, j.type) == TENSOR_U64)
        j.fold = FOLD_SUM;
    j.acc = fold_acc(j.fold, j.type);
    j.strip = j.r->rstride[0] == 1
                  ? MIN(MAX(SHARE / MAX(j.r->rcount, (int64_t)1), (int64_t)1), (int64_t)STRIP)
                  : STRIP;
    j.strips = (columns + j.strip - 1) / j.strip;
    if (j.out->count)
        pool_for(kernel_pool(op), j.out->count / columns * j.strips,
                 pool_grain((double)(j.r->rcount * MIN(columns, j.strip)) * REDUCE_NS), reduce_part,
                 &j);
    return 0;
}
