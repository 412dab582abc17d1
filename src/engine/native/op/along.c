/* along.c -- ArgMax, ArgMin, CumSum, CumProd: along one dimension. */
#include "engine/native/isa/folds_isa.h"
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

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

#define ARG_TYPES(X) \
    X(F32, float)    \
    X(F64, double)   \
    X(I8, int8_t)    \
    X(I16, int16_t)  \
    X(I32, int32_t)  \
    X(I64, int64_t)  \
    X(U8, uint8_t)   \
    X(U16, uint16_t) \
    X(U32, uint32_t) \
    X(U64, uint64_t)

static int64_t arg_one(const struct arg_job *j, int64_t o, int64_t i)
{
    const struct nt *in = kernel_in(j->op, 0);
    int64_t at = 0;

    switch (in->type) {
        ARG_TYPES(ARG_CASE)
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
        memset(at, 0, (size_t)n * sizeof(*at));
        for (int64_t k = 1; k < j->n; k++)
            loops->arg_rows(best, at, x + k * j->inner + i, n, (int32_t)k, !j->min, j->last);
        for (int64_t q = 0; q < n; q++)
            out[i + q] = at[q];
    }
}

#define FIND_CASE(TYPE, T)                         \
    case TENSOR_##TYPE: {                          \
        const T *x = row, b = *(const T *)best;    \
        while (at >= 0 && at < n && !(x[at] == b)) \
            at += last ? -1 : 1;                   \
        break;                                     \
    }

/* Where in a row of any type the best is, first or last; out of the row if it is NaN. */
static int64_t find(enum tensor_type type, const void *row, int64_t n, const void *best, bool last)
{
    int64_t at = last ? n - 1 : 0;

    switch (type) {
        ARG_TYPES(FIND_CASE)
    default:
        break;
    }
    return at;
}

static int64_t arg_row_any(const struct arg_job *j, int64_t o)
{
    const struct nt *in = kernel_in(j->op, 0);
    enum fold f = j->min ? FOLD_MIN : FOLD_MAX;
    uint64_t best = fold_start(f, in->type);
    const char *row = (const char *)in->data + o * j->n * (int64_t)nt_width(in->type);
    int64_t at;

    kernel_isa(j->op)->rows->folds->rows[f][in->type](&best, row, j->n, 0, 1);
    at = find(in->type, row, j->n, &best, j->last);
    return at >= 0 && at < j->n ? at : arg_one(j, o, 0);
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
        if (j->inner == 1)
            out[o] = f32 ? arg_row(j, o) : arg_row_any(j, o);
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
