/* binary.c -- functions of two elements, with broadcasting. */
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/text.h"

#include <math.h>
#include <string.h>

#define GRAIN 8192

struct bin_job {
    struct broadcast b;
    rows_pair_fn *fn;
    int64_t width, out_width; /* of an element */
    const char *in[2];
    char *out;
};

static void bin_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct bin_job *j = arg;

    j->fn(j->out + at * j->out_width, j->in[0] + off[0] * j->width, stride[0],
          j->in[1] + off[1] * j->width, stride[1], n);
}

static void bin_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct bin_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, bin_run1, j);
}

/* Before opset 7 the second operand was lined up with an axis of the first, or with the channels
 * for PRelu, and only if the model said so. Gives the shape it stands for. */
static struct shape old_shape(const struct op *op)
{
    const struct shape *a = &kernel_in(op, 0)->shape;
    struct shape b = kernel_in(op, 1)->shape;
    int64_t axis = node_attr_int(op->node, "axis", -1);

    if (op->node->opset >= 7)
        return b;
    if (op->kernel->arg == BIN_PRELU)
        axis = b.rank == 1 && a->rank > 1 && b.dim[0] != 1 ? 1 : a->rank - b.rank;
    else if (!node_attr(op->node, "axis"))
        return b;
    if (axis < 0)
        axis += a->rank;
    while (axis >= 0 && axis + b.rank < a->rank && b.rank < SHAPE_RANK_MAX)
        b.dim[b.rank++] = 1;
    return b;
}

/* PRelu's slope may be broadcast to the input only. */
int binary_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_NUM, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_NUM, err);
    if (rc)
        return rc;
    if (kernel_in(op, 0)->type != kernel_in(op, 1)->type)
        return kernel_fail(op, OPM_EINVAL, err, "operands are %s and %s",
                           tensor_type_name(kernel_in(op, 0)->type),
                           tensor_type_name(kernel_in(op, 1)->type));
    if (!(TYPE_BIT(kernel_in(op, 0)->type) & TYPES_INT) &&
        (op->kernel->arg == BIN_BITAND || op->kernel->arg == BIN_BITOR ||
         op->kernel->arg == BIN_BITXOR || op->kernel->arg == BIN_SHIFT))
        return kernel_fail(op, OPM_EINVAL, err, "wants integers");
    if (op->node->opset < 7 && !op->type) {
        struct shape b = old_shape(op), s = kernel_in(op, 0)->shape;

        if (!broadcast_join(&s, &b) || !shape_equal(&s, &kernel_in(op, 0)->shape))
            return kernel_fail(op, OPM_EINVAL, err, "shapes do not fit");
    }
    return kernel_infer(op, err);
}

static void apply(const struct op *op, enum bin f, const struct nt *a, const struct nt *b,
                  struct nt *out)
{
    const struct nt *in[2] = { a, b };
    struct bin_job j = { .fn = kernel_isa(op)->rows->pair[f][a->type],
                         .width = (int64_t)nt_width(a->type),
                         .out_width = (int64_t)nt_width(out->type) };

    j.in[0] = a->data;
    j.in[1] = b->data;
    j.out = out->data;
    broadcast_init(&j.b, &out->shape, in, 2);
    pool_for(kernel_pool(op), out->count, GRAIN, bin_part, &j);
}

int binary_run(struct op *op, opm_error *err)
{
    struct nt b = *kernel_in(op, 1);
    enum bin f = (enum bin)op->kernel->arg;

    (void)err;
    if (f == BIN_MOD && node_attr_int(op->node, "fmod", 0))
        f = BIN_FMOD;
    else if (f == BIN_SHIFT)
        f = node_attr_is(op->node, "direction", "LEFT", "LEFT") ? BIN_SHL : BIN_SHR;
    b.shape = old_shape(op);
    apply(op, f, kernel_in(op, 0), &b, kernel_out(op, 0));
    return 0;
}

int variadic_prepare(struct op *op, opm_error *err)
{
    int rc = op->nin ? 0 : kernel_fail(op, OPM_EINVAL, err, "has no inputs");

    for (uint32_t i = 0; i < op->nin && !rc; i++) {
        rc = kernel_want(op, i, TYPES_NUM, err);
        if (!rc && kernel_in(op, i)->type != kernel_in(op, 0)->type)
            rc = kernel_fail(op, OPM_EINVAL, err, "operands are of different types");
    }
    return rc ? rc : kernel_infer(op, err);
}

int variadic_run(struct op *op, opm_error *err)
{
    enum bin f = (enum bin)op->kernel->arg, pair = f == BIN_SUM || f == BIN_MEAN ? BIN_ADD : f;
    struct nt *out = kernel_out(op, 0);

    (void)err;
    if (op->nin == 1) {
        strided_copy(kernel_pool(op), out->data, kernel_in(op, 0)->data, 1, 1,
                     &(int64_t){ (int64_t)out->bytes }, &(int64_t){ 1 });
    } else {
        apply(op, pair, kernel_in(op, 0), kernel_in(op, 1), out);
        for (uint32_t i = 2; i < op->nin; i++)
            apply(op, pair, out, kernel_in(op, i), out);
    }
    if (f == BIN_MEAN && out->type == TENSOR_F32)
        kernel_isa(op)->unary(U_AFFINE, out->data, out->data, out->count, 1.0f / (float)op->nin, 0);
    else if (f == BIN_MEAN && out->type == TENSOR_F64)
        for (int64_t i = 0; i < out->count; i++)
            ((double *)out->data)[i] /= op->nin;
    return 0;
}

int compare_prepare(struct op *op, opm_error *err)
{
    int f = op->kernel->arg;
    uint64_t types = f == BIN_AND || f == BIN_OR || f == BIN_XOR ? TYPE_BIT(TENSOR_BOOL)
                     : f == BIN_EQUAL ? TYPES_NUM | TYPE_BIT(TENSOR_BOOL) | TYPE_BIT(TENSOR_STRING)
                                      : TYPES_NUM;
    int rc = kernel_want(op, 0, types, err);

    if (!rc)
        rc = kernel_want(op, 1, types, err);
    if (!rc && kernel_in(op, 0)->type != kernel_in(op, 1)->type)
        rc = kernel_fail(op, OPM_EINVAL, err, "operands are of different types");
    return rc ? rc : kernel_infer(op, err);
}

static void text_row(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct bin_job *j = arg;
    const struct tensor_string *a = (const void *)j->in[0], *b = (const void *)j->in[1];

    for (int64_t i = 0; i < n; i++)
        ((uint8_t *)j->out)[at + i] =
            text_equal(&a[off[0] + i * stride[0]], &b[off[1] + i * stride[1]]);
}

static void equal_texts(const struct op *op)
{
    const struct nt *in[2] = { kernel_in(op, 0), kernel_in(op, 1) };
    struct nt *out = kernel_out(op, 0);
    struct bin_job j = { .in = { in[0]->data, in[1]->data }, .out = out->data };

    broadcast_init(&j.b, &out->shape, in, 2);
    broadcast_each(&j.b, 0, out->count, text_row, &j);
}

int compare_run(struct op *op, opm_error *err)
{
    enum bin f = (enum bin)op->kernel->arg;
    bool turn = f == BIN_GREATER || f == BIN_GREATEREQ;

    (void)err;
    if (kernel_in(op, 0)->type == TENSOR_STRING) {
        equal_texts(op);
        return 0;
    }
    if (turn)
        f = f == BIN_GREATER ? BIN_LESS : BIN_LESSEQ;
    apply(op, f, kernel_in(op, turn), kernel_in(op, !turn), kernel_out(op, 0));
    return 0;
}

struct pow_job {
    struct broadcast b;
    const struct nt *in[2];
    struct nt *out;
    const struct isa *isa;
};

/* Whole numbers to powers below 0. */
static int64_t pow_below(int64_t x, int64_t e)
{
    return x == 1 ? 1 : x == -1 ? (e & 1 ? -1 : 1) : 0;
}

static void pow_floats(const struct pow_job *j, float *out, const float *a, const float *b,
                       const int64_t *stride, int64_t n)
{
    if (stride[0] == 1 && stride[1] == 0 && (*b == 2.0f || *b == 0.5f || *b == 1.0f)) {
        j->isa->unary(*b == 2.0f ? U_SQUARE : *b == 0.5f ? U_SQRT : U_AFFINE, out, a, n, 1, 0);
        return;
    }
    if (stride[0] == 1 && stride[1] == 0 && (*b == 3.0f || *b == -1.0f)) {
        j->isa->unary(*b == 3.0f ? U_SQUARE : U_RECIPROCAL, out, a, n, 1, 0);
        if (*b == 3.0f)
            j->isa->binary(B_MUL, out, out, 1, a, 1, n);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = powf(a[i * stride[0]], b[i * stride[1]]);
}

#define POW_PIECE 256

/* n <= POW_PIECE elements of operand k from `at` on, as ones of type t. */
static void pow_operand(const struct pow_job *j, int k, int64_t at, int64_t stride, int64_t n,
                        enum tensor_type t, void *out)
{
    const struct nt *in = j->in[k];
    const char *from = (const char *)in->data + at * (int64_t)nt_width(in->type);
    size_t width = nt_width(t);
    int64_t m = stride ? n : 1;

    if (in->type == t)
        memcpy(out, from, (size_t)m * width);
    else
        j->isa->rows->cast[in->type][t](out, from, m);
    for (int64_t i = m; i < n; i++)
        memcpy((char *)out + i * (int64_t)width, out, width);
}

static void pow_doubles(const struct isa *isa, double *out, const double *x, const double *e,
                        bool same, int64_t n)
{
    if (same && (*e == 2 || *e == 3 || *e == 1))
        for (int64_t i = 0; i < n; i++)
            out[i] = *e == 1 ? x[i] : *e == 2 ? x[i] * x[i] : x[i] * x[i] * x[i];
    else if (isa->rows->real->pow)
        isa->rows->real->pow(out, x, e, n);
    else
        for (int64_t i = 0; i < n; i++)
            out[i] = pow(x[i], e[i]);
}

static void pow_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct pow_job *j = arg;
    enum tensor_type to = j->out->type;
    bool whole = (TYPE_BIT(j->in[0]->type) & TYPES_INT) && (TYPE_BIT(j->in[1]->type) & TYPES_INT);
    enum tensor_type t = whole ? TENSOR_I64 : TENSOR_F64;
    union {
        double d[POW_PIECE];
        int64_t i[POW_PIECE];
        uint64_t u[POW_PIECE];
    } x, e, y;

    if (j->in[0]->type == TENSOR_F32 && j->in[1]->type == TENSOR_F32) {
        pow_floats(j, (float *)j->out->data + at, (const float *)j->in[0]->data + off[0],
                   (const float *)j->in[1]->data + off[1], stride, n);
        return;
    }
    for (int64_t k = 0; k < n; k += POW_PIECE) {
        int64_t m = MIN(n - k, (int64_t)POW_PIECE);
        char *out = (char *)j->out->data + (at + k) * (int64_t)nt_width(to);
        bool below = false;

        pow_operand(j, 0, off[0] + k * stride[0], stride[0], m, t, &x);
        pow_operand(j, 1, off[1] + k * stride[1], stride[1], m, t, &e);
        for (int64_t i = 0; i < m && whole; i++)
            below |= e.i[i] < 0;
        if (below && tensor_type_signed(j->in[1]->type))
            for (int64_t i = 0; i < m; i++)
                if (e.i[i] < 0) {
                    x.i[i] = pow_below(x.i[i], e.i[i]);
                    e.i[i] = 1;
                }
        if (whole)
            j->isa->rows->power(y.u, x.u, e.u, m);
        else
            pow_doubles(j->isa, y.d, x.d, e.d, stride[1] == 0, m);
        if (to == t)
            memcpy(out, &y, (size_t)m * sizeof(int64_t));
        else
            j->isa->rows->cast[t][to](out, &y, m);
    }
}

static void pow_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct pow_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, pow_run1, j);
}

int pow_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_NUM, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_NUM, err);
    return rc ? rc : kernel_infer(op, err);
}

int pow_run(struct op *op, opm_error *err)
{
    struct pow_job j = { .in = { kernel_in(op, 0), kernel_in(op, 1) }, .out = kernel_out(op, 0) };

    (void)err;
    j.isa = kernel_isa(op);
    broadcast_init(&j.b, &j.out->shape, j.in, 2);
    pool_for(kernel_pool(op), j.out->count, 1024, pow_part, &j);
    return 0;
}

struct where_job {
    struct broadcast b;
    rows_where_fn *fn; /* NULL: of no such width */
    const uint8_t *cond;
    const char *in[2];
    char *out;
    int64_t width;
};

static void where_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct where_job *j = arg;
    const uint8_t *cond = j->cond + off[0];
    int64_t w = j->width;

    if (j->fn) {
        j->fn(j->out + at * w, cond, stride[0], j->in[0] + off[1] * w, stride[1],
              j->in[1] + off[2] * w, stride[2], n);
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int k = !cond[i * stride[0]];

        memcpy(j->out + (at + i) * w, j->in[k] + (off[k + 1] + i * stride[k + 1]) * w, (size_t)w);
    }
}

static void where_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct where_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, where_run1, j);
}

int where_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_BOOL), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_BYTES, err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(kernel_in(op, 1)->type), err);
    return rc ? rc : kernel_infer(op, err);
}

int where_run(struct op *op, opm_error *err)
{
    const struct nt *in[3] = { kernel_in(op, 0), kernel_in(op, 1), kernel_in(op, 2) };
    struct where_job j = { .cond = in[0]->data, .in = { in[1]->data, in[2]->data } };

    (void)err;
    j.out = kernel_out(op, 0)->data;
    j.width = (int64_t)nt_width(in[1]->type);
    for (int i = 0; i < 4; i++)
        if (j.width == 1 << i)
            j.fn = kernel_isa(op)->rows->where[i];
    broadcast_init(&j.b, &kernel_out(op, 0)->shape, in, 3);
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, GRAIN, where_part, &j);
    return 0;
}
