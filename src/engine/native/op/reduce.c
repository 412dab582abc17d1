/* reduce.c -- Reduce*, ArgMax, ArgMin, CumSum.
 *
 * Each output element is computed by one thread, over its inputs in order. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"

#include <math.h>
#include <string.h>

#define PIECE 4096    /* elements that are summed as floats */
#define STRIP 256     /* columns that are reduced together */
#define REDUCE_NS 0.1 /* for an element, about */

struct reduce {
    bool on[SHAPE_RANK_MAX];
    bool copy; /* nothing to reduce */
    /* Input seen as kept and reduced dimensions, strides in elements. */
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
    for (int32_t i = in->rank - 1; i >= 0; i--) { /* innermost first; merged where contiguous */
        int64_t *dim = r->on[i] ? r->rdim : r->kdim, *stride = r->on[i] ? r->rstride : r->kstride;
        int *n = r->on[i] ? &r->nred : &r->nkeep;

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
    r->copy = true;
    for (int32_t i = 0; i < in->shape.rank; i++)
        r->copy = r->copy && !r->on[i];
    reduce_layout(r, &in->shape);
    return kernel_infer(op, err);
}

struct reduce_job {
    const struct reduce *r;
    enum red f;
    const struct nt *in;
    struct nt *out;
    const struct isa *isa;
};

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

#define REDUCE_OVER(T, body)                                                     \
    do {                                                                         \
        int64_t idx[SHAPE_RANK_MAX + 1] = { 0 }, off = base;                     \
        int64_t n0 = r->nred ? r->rdim[0] : 1, s0 = r->nred ? r->rstride[0] : 0; \
        for (int64_t done = 0; done < r->rcount; done += n0) {                   \
            const T *p = (const T *)j->in->data + off;                           \
            for (int64_t q = 0; q < n0; q++) {                                   \
                T x = p[q * s0];                                                 \
                body;                                                            \
            }                                                                    \
            for (int k = 1; k < r->nred; k++) {                                  \
                off += r->rstride[k];                                            \
                if (++idx[k] < r->rdim[k])                                       \
                    break;                                                       \
                off -= idx[k] * r->rstride[k];                                   \
                idx[k] = 0;                                                      \
            }                                                                    \
        }                                                                        \
    } while (0)

#define REDUCE_FLOAT(T)                                                      \
    for (int64_t i = begin; i < end; i++) {                                  \
        int64_t base = reduce_base(r, i);                                    \
        double acc = 0;                                                      \
        T best = j->f == RED_MIN ? (T)INFINITY : (T)-INFINITY;               \
        bool nan = false;                                                    \
        switch (j->f) {                                                      \
        case RED_SUM:                                                        \
        case RED_MEAN:                                                       \
        case RED_LOGSUM:                                                     \
            REDUCE_OVER(T, acc += (double)x);                                \
            break;                                                           \
        case RED_L1:                                                         \
            REDUCE_OVER(T, acc += fabs((double)x));                          \
            break;                                                           \
        case RED_L2:                                                         \
        case RED_SUMSQUARE:                                                  \
            REDUCE_OVER(T, acc += (double)x * (double)x);                    \
            break;                                                           \
        case RED_PROD:                                                       \
            acc = 1;                                                         \
            REDUCE_OVER(T, acc *= (double)x);                                \
            break;                                                           \
        case RED_MIN:                                                        \
            REDUCE_OVER(T, nan = nan || x != x; best = x < best ? x : best); \
            acc = nan ? (double)NAN : (double)best;                          \
            break;                                                           \
        default:                                                             \
            REDUCE_OVER(T, nan = nan || x != x; best = x > best ? x : best); \
            acc = nan ? (double)NAN : (double)best;                          \
        }                                                                    \
        if (j->f == RED_MEAN)                                                \
            acc /= (double)r->rcount;                                        \
        else if (j->f == RED_L2)                                             \
            acc = sqrt(acc);                                                 \
        else if (j->f == RED_LOGSUM)                                         \
            acc = log(acc);                                                  \
        else if (j->f == RED_LOGSUMEXP) {                                    \
            double m = isfinite(acc) ? acc : 0, sum = 0;                     \
            REDUCE_OVER(T, sum += exp((double)x - m));                       \
            acc = log(sum) + m;                                              \
        }                                                                    \
        ((T *)j->out->data)[i] = (T)acc;                                     \
    }

static uint64_t magnitude(int64_t x)
{
    return x < 0 ? 0 - (uint64_t)x : (uint64_t)x;
}

#define REDUCE_INT(TYPE, T, LO, HI, SIGNED)                                                      \
    case TENSOR_##TYPE:                                                                          \
        for (int64_t i = begin; i < end; i++) {                                                  \
            int64_t base = reduce_base(r, i);                                                    \
            uint64_t acc = j->f == RED_PROD;                                                     \
            double real = 0;                                                                     \
            T best = j->f == RED_MIN ? HI : LO;                                                  \
            switch (j->f) {                                                                      \
            case RED_SUM:                                                                        \
            case RED_MEAN:                                                                       \
            case RED_LOGSUM:                                                                     \
                REDUCE_OVER(T, acc += (uint64_t)x; real += (double)x);                           \
                break;                                                                           \
            case RED_L1:                                                                         \
                REDUCE_OVER(T, acc += SIGNED ? magnitude((int64_t)x) : (uint64_t)x);             \
                break;                                                                           \
            case RED_PROD:                                                                       \
                REDUCE_OVER(T, acc *= (uint64_t)x);                                              \
                break;                                                                           \
            case RED_L2:                                                                         \
            case RED_SUMSQUARE:                                                                  \
                REDUCE_OVER(T, acc += (uint64_t)x * (uint64_t)x; real += (double)x * (double)x); \
                break;                                                                           \
            case RED_LOGSUMEXP:                                                                  \
                REDUCE_OVER(T, real += exp((double)x));                                          \
                break;                                                                           \
            case RED_MIN:                                                                        \
                REDUCE_OVER(T, best = x < best ? x : best);                                      \
                acc = (uint64_t)best;                                                            \
                break;                                                                           \
            default:                                                                             \
                REDUCE_OVER(T, best = x > best ? x : best);                                      \
                acc = (uint64_t)best;                                                            \
            }                                                                                    \
            if (j->f == RED_MEAN)                                                                \
                acc = (uint64_t)(int64_t)(real / (double)MAX(r->rcount, (int64_t)1));            \
            else if (j->f == RED_L2)                                                             \
                acc = (uint64_t)sqrt(real);                                                      \
            else if (j->f == RED_LOGSUM || j->f == RED_LOGSUMEXP)                                \
                acc = real > 0 ? (uint64_t)(int64_t)log(real) : 0;                               \
            ((T *)j->out->data)[i] = (T)acc;                                                     \
        }                                                                                        \
        break;

static void reduce_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct reduce_job *j = arg;
    const struct reduce *r = j->r;

    (void)thread;
    switch (j->in->type) {
    case TENSOR_F32:
        REDUCE_FLOAT(float)
        break;
    case TENSOR_F64:
        REDUCE_FLOAT(double)
        break;
        REDUCE_INT(I8, int8_t, INT8_MIN, INT8_MAX, true)
        REDUCE_INT(U8, uint8_t, 0, UINT8_MAX, false)
        REDUCE_INT(BOOL, uint8_t, 0, 1, false)
        REDUCE_INT(I16, int16_t, INT16_MIN, INT16_MAX, true)
        REDUCE_INT(U16, uint16_t, 0, UINT16_MAX, false)
        REDUCE_INT(I32, int32_t, INT32_MIN, INT32_MAX, true)
        REDUCE_INT(U32, uint32_t, 0, UINT32_MAX, false)
        REDUCE_INT(I64, int64_t, INT64_MIN, INT64_MAX, true)
        REDUCE_INT(U64, uint64_t, 0, UINT64_MAX, false)
    default:
        break;
    }
}

/* The instruction set's name for it, or -1. */
static int fast_reduce(enum red f)
{
    switch (f) {
    case RED_SUM:
    case RED_MEAN:
        return R_SUM;
    case RED_L1:
        return R_ABS;
    case RED_L2:
    case RED_SUMSQUARE:
        return R_SQUARES;
    case RED_MAX:
        return R_MAX;
    case RED_MIN:
        return R_MIN;
    default:
        return -1;
    }
}

static float fast_end(const struct reduce_job *j, double x)
{
    return (float)(j->f == RED_MEAN ? x / (double)j->r->rcount : j->f == RED_L2 ? sqrt(x) : x);
}

/* What is reduced lies side by side. Long rows in pieces, whose sums are added in double. */
static void rows_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct reduce_job *j = arg;
    enum isa_reduce f = (enum isa_reduce)fast_reduce(j->f);
    int64_t n = j->r->rcount;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        const float *x = (const float *)j->in->data + reduce_base(j->r, i);
        double acc = (double)j->isa->reduce(f, x, MIN(n, (int64_t)PIECE));

        for (int64_t at = PIECE; at < n; at += PIECE) {
            double more = (double)j->isa->reduce(f, x + at, MIN(n - at, (int64_t)PIECE));

            if (f == R_MAX || f == R_MIN)
                acc = acc != acc || (f == R_MAX ? acc > more : acc < more) ? acc : more;
            else
                acc += more;
        }
        ((float *)j->out->data)[i] = fast_end(j, acc);
    }
}

/* What is kept lies side by side: strips of columns, row after row, PIECE rows at a time. */
static void strips_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct reduce_job *j = arg;
    const struct reduce *r = j->r;
    int64_t inner = r->kdim[0], strips = (inner + STRIP - 1) / STRIP;
    enum isa_binary f = j->f == RED_MAX ? B_MAX : j->f == RED_MIN ? B_MIN : B_ADD;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t c0 = item % strips * STRIP, n = MIN((int64_t)STRIP, inner - c0),
                first = item / strips * inner + c0;
        const float *x = (const float *)j->in->data + reduce_base(r, first);
        float piece[STRIP], row[STRIP];
        double acc[STRIP];

        for (int64_t k = 0; k < r->rcount; k++) {
            const float *in = x + k * r->rstride[0];

            if (j->f == RED_L1 || j->f == RED_L2 || j->f == RED_SUMSQUARE) {
                j->isa->unary(j->f == RED_L1 ? U_ABS : U_SQUARE, row, in, n, 0, 0);
                in = row;
            }
            if (k % PIECE)
                j->isa->binary(f, piece, piece, 1, in, 1, n);
            else {
                for (int64_t i = 0; k && i < n && f == B_ADD; i++)
                    acc[i] = (k == PIECE ? 0 : acc[i]) + (double)piece[i];
                if (k && f != B_ADD)
                    j->isa->binary(f, piece, piece, 1, in, 1, n);
                else
                    memcpy(piece, in, (size_t)n * sizeof(*piece));
            }
        }
        for (int64_t i = 0; i < n; i++)
            ((float *)j->out->data)[first + i] =
                fast_end(j, (f == B_ADD && r->rcount > PIECE ? acc[i] : 0) + (double)piece[i]);
    }
}

static bool run_fast(struct op *op, const struct reduce_job *j)
{
    const struct reduce *r = j->r;

    if (j->in->type != TENSOR_F32 || fast_reduce(j->f) < 0 || r->copy || r->nred != 1 ||
        r->rcount < 1 || j->out->count == 0)
        return false;
    if (r->rstride[0] == 1) {
        pool_for(kernel_pool(op), j->out->count, pool_grain((double)r->rcount * REDUCE_NS),
                 rows_part, (void *)(uintptr_t)j);
        return true;
    }
    if (r->nkeep < 1 || r->kstride[0] != 1 || r->kdim[0] < 4)
        return false;
    pool_for(kernel_pool(op), j->out->count / r->kdim[0] * ((r->kdim[0] + STRIP - 1) / STRIP),
             pool_grain((double)(r->rcount * MIN(r->kdim[0], (int64_t)STRIP)) * REDUCE_NS),
             strips_part, (void *)(uintptr_t)j);
    return true;
}

int reduce_run(struct op *op, opm_error *err)
{
    struct reduce_job j = { op->state, (enum red)op->kernel->arg, kernel_in(op, 0),
                            kernel_out(op, 0), kernel_isa(op) };

    (void)err;
    if (run_fast(op, &j))
        return 0;
    pool_for(kernel_pool(op), j.out->count, MAX(4096 / MAX(j.r->rcount, (int64_t)1), (int64_t)1),
             reduce_part, &j);
    return 0;
}

int argmax_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPES_NUM, err), axis;

    if (rc)
        return rc;
    axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    if (axis >= 0 && in->shape.dim[axis] == 0)
        return kernel_fail(op, OPM_EINVAL, err, "looks for the largest of nothing");
    return kernel_infer(op, err);
}

struct arg_job {
    const struct op *op;
    int64_t n, inner;
    bool min, last;
};

/* NaN is neither less nor greater, so that one which comes first stays. */
#define ARG_CASE(TYPE, T)                                                   \
    case TENSOR_##TYPE: {                                                   \
        const T *x = (const T *)in->data + (o * j->n * j->inner + i);       \
        T best = *x;                                                        \
        for (int64_t k = 1; k < j->n; k++) {                                \
            T v = x[k * j->inner];                                          \
            if ((j->min ? v < best : v > best) || (j->last && v == best)) { \
                best = v;                                                   \
                at = k;                                                     \
            }                                                               \
        }                                                                   \
        break;                                                              \
    }

static int64_t arg_one(const struct arg_job *j, int64_t o, int64_t i)
{
    const struct nt *in = kernel_in(j->op, 0);
    int64_t at = 0;

    switch (in->type) {
        ARG_CASE(F32, float)
        ARG_CASE(F64, double)
        ARG_CASE(I8, int8_t)
        ARG_CASE(I16, int16_t)
        ARG_CASE(I32, int32_t)
        ARG_CASE(I64, int64_t)
        ARG_CASE(U8, uint8_t)
        ARG_CASE(U16, uint16_t)
        ARG_CASE(U32, uint32_t)
        ARG_CASE(U64, uint64_t)
    default:
        break;
    }
    return at;
}

#define ARG_COLUMNS 512 /* side by side: what is known of them stays in the first-level cache */

/* Columns of floats. */
static void arg_columns(const struct arg_job *j, int64_t o, int64_t *out)
{
    const struct loops_isa *loops = kernel_isa(j->op)->loops;
    const float *x = (const float *)kernel_in(j->op, 0)->data + o * j->n * j->inner;
    float best[ARG_COLUMNS];
    int32_t at[ARG_COLUMNS];

    for (int64_t i = 0; i < j->inner; i += ARG_COLUMNS) {
        int64_t n = MIN(j->inner - i, (int64_t)ARG_COLUMNS);

        memcpy(best, x + i, (size_t)n * sizeof(*best));
        memset(at, 0, sizeof(at));
        for (int64_t k = 1; k < j->n; k++)
            loops->arg_rows(best, at, x + k * j->inner + i, n, (int32_t)k, !j->min, j->last);
        for (int64_t q = 0; q < n; q++)
            out[i + q] = at[q];
    }
}

/* A row of floats: the value first, then where it is. */
static int64_t arg_row(const struct arg_job *j, int64_t o)
{
    const struct isa *isa = kernel_isa(j->op);
    const float *x = (const float *)kernel_in(j->op, 0)->data + o * j->n;
    float best = isa->reduce(j->min ? R_MIN : R_MAX, x, j->n);
    int64_t at = j->n - 1;

    if (isnan(best))
        return arg_one(j, o, 0);
    if (!j->last)
        return isa->loops->beyond(x, 0, j->n, nextafterf(best, j->min ? INFINITY : -INFINITY),
                                  !j->min);
    while (x[at] != best)
        at--;
    return at;
}

static void arg_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct arg_job *j = arg;
    int64_t *out = kernel_out(j->op, 0)->data;
    bool f32 = kernel_in(j->op, 0)->type == TENSOR_F32;

    (void)thread;
    for (int64_t o = begin; o < end; o++)
        if (f32 && j->inner == 1)
            out[o] = arg_row(j, o);
        else if (f32 && j->n < INT32_MAX)
            arg_columns(j, o, out + o * j->inner);
        else
            for (int64_t i = 0; i < j->inner; i++)
                out[o * j->inner + i] = arg_one(j, o, i);
}

int argmax_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    struct arg_job j = { .op = op,
                         .n = in->shape.dim[axis],
                         .inner = nt_span(&in->shape, axis + 1, in->shape.rank),
                         .min = op->kernel->arg == ARG_MIN,
                         .last = node_attr_int(op->node, "select_last_index", 0) };

    (void)err;
    if (in->count)
        pool_for(kernel_pool(op), nt_span(&in->shape, 0, axis),
                 pool_grain((double)(j.n * j.inner) / 2), arg_part, &j);
    return 0;
}

int cumsum_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_NUM, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc && kernel_in(op, 1)->count != 1)
        rc = kernel_fail(op, OPM_EINVAL, err, "axis must be one number");
    return rc ? rc : kernel_infer(op, err);
}

struct cumsum_job {
    const struct nt *in;
    struct nt *out;
    rows_pair_fn *fn;
    int64_t n, inner;
    bool exclusive, reverse, product;
    uint64_t one; /* of the type, aligned for all of them */
};

#define CUMSUM_CASE(TYPE, T, A)                                \
    case TENSOR_##TYPE:                                        \
        for (int64_t o = begin; o < end; o++) {                \
            const T *from = (const T *)j->in->data + o * j->n; \
            T *to = (T *)j->out->data + o * j->n;              \
            A sum = j->product;                                \
            for (int64_t q = 0; q < j->n; q++) {               \
                int64_t k = j->reverse ? j->n - 1 - q : q;     \
                A x = (A)from[k];                              \
                A next = j->product ? sum * x : sum + x;       \
                to[k] = (T)(j->exclusive ? sum : next);        \
                sum = next;                                    \
            }                                                  \
        }                                                      \
        break;

/* Along the last dimension: rows one by one. */
static void cumsum_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct cumsum_job *j = arg;

    (void)thread;
    switch (j->in->type) {
        CUMSUM_CASE(F32, float, float)
        CUMSUM_CASE(F64, double, double)
        CUMSUM_CASE(I8, int8_t, uint64_t)
        CUMSUM_CASE(I16, int16_t, uint64_t)
        CUMSUM_CASE(I32, int32_t, uint64_t)
        CUMSUM_CASE(I64, int64_t, uint64_t)
        CUMSUM_CASE(U8, uint8_t, uint64_t)
        CUMSUM_CASE(U16, uint16_t, uint64_t)
        CUMSUM_CASE(U32, uint32_t, uint64_t)
        CUMSUM_CASE(U64, uint64_t, uint64_t)
    default:
        break;
    }
}

/* Along another: each row is the one before it and one of the input. */
static void cumsum_rows(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct cumsum_job *j = arg;
    int64_t w = (int64_t)nt_width(j->in->type), row = j->inner * w, by = j->reverse ? -row : row;

    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        int64_t first = o * j->n * row + (j->reverse ? (j->n - 1) * row : 0);
        const char *from = (const char *)j->in->data + first;
        char *to = (char *)j->out->data + first;

        if (!j->exclusive)
            memcpy(to, from, (size_t)row);
        else if (!j->product)
            memset(to, 0, (size_t)row);
        else
            fill_with(to, &j->one, (size_t)w, j->inner);
        for (int64_t q = 1; q < j->n; q++, from += by, to += by)
            j->fn(to + by, to, 1, j->exclusive ? from : from + by, 1, j->inner);
    }
}

int cumsum_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int axis = nt_axis(nt_int(kernel_in(op, 1), 0), in->shape.rank);
    bool exclusive = node_attr_int(op->node, "exclusive", 0),
         reverse = node_attr_int(op->node, "reverse", 0), product = op->kernel->arg == CUM_PRODUCT;
    struct cumsum_job j = { .in = in,
                            .out = out,
                            .fn =
                                kernel_isa(op)->rows->pair[product ? ROWS_MUL : ROWS_ADD][in->type],
                            .exclusive = exclusive,
                            .reverse = reverse,
                            .product = product };
    int64_t outer;

    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    kernel_isa(op)->rows->cast[TENSOR_U8][in->type](&j.one, &(uint8_t){ 1 }, 1);
    outer = nt_span(&in->shape, 0, axis);
    j.n = in->shape.dim[axis];
    j.inner = nt_span(&in->shape, axis + 1, in->shape.rank);
    if (in->count)
        pool_for(kernel_pool(op), outer, pool_grain((double)(j.n * j.inner)),
                 j.inner == 1 ? cumsum_part : cumsum_rows, &j);
    return 0;
}
