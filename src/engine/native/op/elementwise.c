/* elementwise.c -- functions of one element. */
#include "engine/native/op/elementwise.h"

#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"

#include <math.h>
#include <string.h>

#define GRAIN 16384

/* The functions that isa.h has, for float32. */
static int fast_unary(enum un f)
{
    switch (f) {
    case UN_RELU:
        return U_RELU;
    case UN_AFFINE:
    case UN_SCALE:
        return U_AFFINE;
    case UN_LEAKY:
        return U_LEAKY;
    case UN_SIGMOID:
        return U_SIGMOID;
    case UN_TANH:
        return U_TANH;
    case UN_EXP:
        return U_EXP;
    case UN_ERF:
        return U_ERF;
    case UN_GELU:
        return U_GELU;
    case UN_GELU_TANH:
        return U_GELU_TANH;
    case UN_SILU:
        return U_SILU;
    case UN_HARDSWISH:
        return U_HARDSWISH;
    case UN_HARDSIGMOID:
        return U_HARDSIGMOID;
    case UN_SQRT:
        return U_SQRT;
    case UN_RECIPROCAL:
        return U_RECIPROCAL;
    case UN_NEG:
        return U_NEG;
    case UN_ABS:
        return U_ABS;
    case UN_FLOOR:
        return U_FLOOR;
    case UN_CEIL:
        return U_CEIL;
    case UN_ROUND:
        return U_ROUND;
    case UN_LOG:
        return U_LOG;
    case UN_SIN:
        return U_SIN;
    case UN_COS:
        return U_COS;
    case UN_ELU:
        return U_ELU;
    case UN_SOFTPLUS:
        return U_SOFTPLUS;
    case UN_MISH:
        return U_MISH;
    default:
        return -1;
    }
}

/* Those of fp64_isa.h, or -1. */
static int real_function(enum un f)
{
    switch (f) {
#define X(name)     \
    case UN_##name: \
        return F64_##name;
        F64_FUNCTIONS(X)
        X(ASINH)
        X(ACOSH)
        X(ATANH)
#undef X
    default:
        return -1;
    }
}

/* Whether vectors of doubles serve f on a type. */
static bool by_doubles(const struct isa *isa, enum un f, enum tensor_type type)
{
    int real = real_function(f);

    return real >= 0 && (type == TENSOR_F64   ? isa->rows->real->unary[real] != NULL
                         : type == TENSOR_F32 ? isa->rows->real->single[real] != NULL
                                              : false);
}

static double softplus(double x)
{
    return x > 30 ? x : log1p(exp(x));
}

static double unary_double(enum un f, double x, double a, double b)
{
    switch (f) {
    case UN_ACOS:
        return acos(x);
    case UN_ACOSH:
        return acosh(x);
    case UN_ASIN:
        return asin(x);
    case UN_ASINH:
        return asinh(x);
    case UN_ATAN:
        return atan(x);
    case UN_ATANH:
        return atanh(x);
    case UN_AFFINE:
    case UN_SCALE:
        return a * x + b;
    case UN_PARAMETRIC_SOFTPLUS:
        return a * softplus(b * x);
    case UN_SCALED_TANH:
        return a * tanh(b * x);
    case UN_CELU:
        return fmax(x, 0) + fmin(0, a * (exp(x / a) - 1));
    case UN_COS:
        return cos(x);
    case UN_COSH:
        return cosh(x);
    case UN_ELU:
        return x < 0 ? a * (exp(x) - 1) : x;
    case UN_ERF:
        return erf(x);
    case UN_EXP:
        return exp(x);
    case UN_GELU:
        return 0.5 * x * (1 + erf(x * M_SQRT1_2));
    case UN_GELU_TANH:
        return 0.5 * x * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
    case UN_HARDSIGMOID:
        return fmin(fmax(a * x + b, 0), 1);
    case UN_HARDSWISH:
        return x * fmin(fmax(x / 6 + 0.5, 0), 1);
    case UN_LOG:
        return log(x);
    case UN_MISH:
        return x * tanh(softplus(x));
    case UN_SELU:
        return x > 0 ? b * x : b * (a * exp(x) - a);
    case UN_SHRINK: /* a: bias, b: lambd */
        return x < -b ? x + a : x > b ? x - a : 0;
    case UN_SIGMOID:
        return 1 / (1 + exp(-x));
    case UN_SILU:
        return x / (1 + exp(-a * x));
    case UN_SIN:
        return sin(x);
    case UN_SINH:
        return sinh(x);
    case UN_SOFTPLUS:
        return softplus(x);
    case UN_TAN:
        return tan(x);
    case UN_TANH:
        return tanh(x);
    default:
        return x;
    }
}

struct unary {
    enum un f;
    const struct isa *isa;
    float a, b;
};

struct unary_job {
    const struct unary *u;
    const struct nt *in;
    struct nt *out;
};

/* Integers have Shrink alone that is not among the rows; U64 is as I64. */
#define SHRINK_CASE(TYPE, T)                                                                 \
    case TENSOR_##TYPE:                                                                      \
        for (int64_t i = begin; i < end; i++)                                                \
            ((T *)j->out->data)[i] = (T)(int64_t)unary_double(                               \
                UN_SHRINK, (double)((const T *)j->in->data)[i], (double)u->a, (double)u->b); \
        break;

/* The loop that serves f on a type, or NULL. */
static rows_one_fn *unary_rows(const struct isa *isa, enum un f, enum tensor_type type)
{
    return (int)f < ROWS_NONES ? isa->rows->one[f][type] : NULL;
}

#define PIECE 512

/* after * f(before * x), where f is one of isa.h's with a parameter. */
struct scaled {
    float before, after, alpha;
    enum isa_unary f;
};

static bool as_scaled(const struct unary *u, struct scaled *out)
{
    *out = (struct scaled){ u->b, u->a, 0, U_TANH };
    switch (u->f) {
    case UN_CELU:
        *out = (struct scaled){ 1 / u->a, u->a, 1, U_ELU };
        return true;
    case UN_SELU:
        *out = (struct scaled){ 1, u->b, u->a, U_ELU };
        return true;
    case UN_PARAMETRIC_SOFTPLUS:
        out->f = U_SOFTPLUS;
        return true;
    default:
        return u->f == UN_SCALED_TANH;
    }
}

/* out may be in. */
static void run_scaled(const struct unary *u, const struct scaled *s, float *out, const float *in,
                       int64_t n)
{
    float before = s->before, after = s->after, alpha = s->alpha;

    for (int64_t i = 0; i < n; i += PIECE) {
        int64_t m = MIN(n - i, (int64_t)PIECE);
        const float *from = in + i;

        if (before != 1) {
            u->isa->unary(U_AFFINE, out + i, from, m, before, 0);
            from = out + i;
        }
        u->isa->unary(s->f, out + i, from, m, alpha, 0);
        if (after != 1)
            u->isa->unary(U_AFFINE, out + i, out + i, m, after, 0);
    }
}

static void unary_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct unary_job *j = arg;
    const struct unary *u = j->u;
    int fast = j->in->type == TENSOR_F32 ? fast_unary(u->f) : -1;
    rows_one_fn *rows = unary_rows(u->isa, u->f, j->in->type);
    int64_t width = (int64_t)nt_width(j->in->type);
    struct scaled scaled;

    (void)thread;
    if (j->in->type == TENSOR_F32 && as_scaled(u, &scaled)) {
        run_scaled(u, &scaled, (float *)j->out->data + begin, (const float *)j->in->data + begin,
                   end - begin);
        return;
    }
    if (fast >= 0) {
        u->isa->unary((enum isa_unary)fast, (float *)j->out->data + begin,
                      (const float *)j->in->data + begin, end - begin, u->a, u->b);
        return;
    }
    if (by_doubles(u->isa, u->f, j->in->type)) {
        int real = real_function(u->f);

        if (j->in->type == TENSOR_F64)
            u->isa->rows->real->unary[real]((double *)j->out->data + begin,
                                            (const double *)j->in->data + begin, end - begin);
        else
            u->isa->rows->real->single[real]((float *)j->out->data + begin,
                                             (const float *)j->in->data + begin, end - begin);
        return;
    }
    if (rows) {
        rows((char *)j->out->data + begin * width, (const char *)j->in->data + begin * width,
             end - begin, (double)u->a, (double)u->b);
        return;
    }
    switch (j->in->type) {
    case TENSOR_F32: {
        const float *in = j->in->data;
        float *out = j->out->data;

        for (int64_t i = begin; i < end; i++)
            out[i] = (float)unary_double(u->f, (double)in[i], (double)u->a, (double)u->b);
        break;
    }
    case TENSOR_F64: {
        const double *in = j->in->data;
        double *out = j->out->data;

        for (int64_t i = begin; i < end; i++)
            out[i] = unary_double(u->f, in[i], (double)u->a, (double)u->b);
        break;
    }
        SHRINK_CASE(I8, int8_t)
        SHRINK_CASE(I16, int16_t)
        SHRINK_CASE(I32, int32_t)
        SHRINK_CASE(I64, int64_t)
        SHRINK_CASE(U8, uint8_t)
        SHRINK_CASE(U16, uint16_t)
        SHRINK_CASE(U32, uint32_t)
        SHRINK_CASE(U64, int64_t)
    default:
        break;
    }
}

static void unary_params(const struct op *op, struct unary *u)
{
    const struct node *n = op->node;

    u->f = (enum un)op->kernel->arg;
    u->isa = kernel_isa(op);
    u->a = u->b = 0;
    switch (u->f) {
    case UN_CELU:
    case UN_ELU:
        u->a = node_attr_float(n, "alpha", 1.0f);
        break;
    case UN_AFFINE:
        u->a = node_attr_float(n, "alpha", 1.0f);
        u->b = node_attr_float(n, "beta", 0);
        break;
    case UN_SCALE:
        u->a = node_attr_float(n, "scale", 1.0f);
        break;
    case UN_PARAMETRIC_SOFTPLUS:
    case UN_SCALED_TANH:
        u->a = node_attr_float(n, "alpha", 1.0f);
        u->b = node_attr_float(n, "beta", 1.0f);
        break;
    case UN_LEAKY:
        u->a = node_attr_float(n, "alpha", 0.01f);
        break;
    case UN_THRESHOLDED:
        u->a = node_attr_float(n, "alpha", 1.0f);
        break;
    case UN_HARDSIGMOID:
        u->a = node_attr_float(n, "alpha", 0.2f);
        u->b = node_attr_float(n, "beta", 0.5f);
        break;
    case UN_SELU:
        u->a = node_attr_float(n, "alpha", 1.67326319217681884765625f);
        u->b = node_attr_float(n, "gamma", 1.05070102214813232421875f);
        break;
    case UN_SHRINK:
        u->a = node_attr_float(n, "bias", 0);
        u->b = node_attr_float(n, "lambd", 0.5f);
        break;
    case UN_GELU:
        if (node_attr_is(n, "approximate", "tanh", "none"))
            u->f = UN_GELU_TANH;
        break;
    case UN_SILU:
        u->a = node_attr_float(n, "alpha", 1);
        break;
    default:
        break;
    }
}

int unary_prepare(struct op *op, opm_error *err)
{
    enum un f = (enum un)op->kernel->arg;
    bool ints = f == UN_ABS || f == UN_NEG || f == UN_RELU || f == UN_SIGN || f == UN_SHRINK;
    int rc = kernel_want(op, 0, ints ? TYPES_NUM : TYPES_FLOAT, err);

    if (rc)
        return rc;
    return op->kernel->op_type ? kernel_infer(op, err) : kernel_infer_by(op, infer_same, err);
}

int unary_run(struct op *op, opm_error *err)
{
    struct unary u;
    struct unary_job j = { &u, kernel_in(op, 0), kernel_out(op, 0) };

    (void)err;
    unary_params(op, &u);
    pool_for(kernel_pool(op), j.in->count,
             fast_unary(u.f) >= 0 || unary_rows(u.isa, u.f, j.in->type) ? GRAIN : GRAIN / 8,
             unary_part, &j);
    return 0;
}

/* Which of isa.h's functions an operator is, with its parameters; false: none. */
bool unary_as_post(const struct op *op, struct post *out)
{
    struct unary u;
    int fast;

    if (op->kernel->kind != KERNEL_unary)
        return false;
    unary_params(op, &u);
    fast = fast_unary(u.f);
    if (fast < 0)
        return false;
    *out = (struct post){ POST_UNARY, (enum isa_unary)fast, u.a, u.b, -1 };
    return true;
}

int not_prepare(struct op *op, opm_error *err)
{
    int rc =
        kernel_want(op, 0, op->kernel->arg == NOT_BITS ? TYPES_INT : TYPE_BIT(TENSOR_BOOL), err);

    return rc ? rc : kernel_infer(op, err);
}

struct bytes_job {
    rows_one_fn *fn;
    const struct nt *in;
    struct nt *out;
    int64_t width;
    double p, q;
};

static void bytes_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct bytes_job *j = arg;

    (void)thread;
    j->fn((uint8_t *)j->out->data + begin, (const char *)j->in->data + begin * j->width,
          end - begin, j->p, j->q);
}

/* Bits are turned whatever elements they make up. */
int not_run(struct op *op, opm_error *err)
{
    enum un f = op->kernel->arg == NOT_BITS ? UN_BITNOT : UN_NOT;
    struct bytes_job j = { .fn = kernel_isa(op)->rows->one[f][TENSOR_U8],
                           .in = kernel_in(op, 0),
                           .out = kernel_out(op, 0),
                           .width = 1 };

    (void)err;
    pool_for(kernel_pool(op), (int64_t)j.in->bytes, 4 * GRAIN, bytes_part, &j);
    return 0;
}

int isnan_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_FLOAT, err);

    return rc ? rc : kernel_infer(op, err);
}

int isnan_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    enum un f = op->kernel->arg == TEST_INF ? UN_ISINF : UN_ISNAN;
    struct bytes_job j = { .fn = kernel_isa(op)->rows->one[f][in->type],
                           .in = in,
                           .out = kernel_out(op, 0),
                           .width = (int64_t)nt_width(in->type),
                           .p = node_attr_int(op->node, "detect_positive", 1) != 0,
                           .q = node_attr_int(op->node, "detect_negative", 1) != 0 };

    (void)err;
    pool_for(kernel_pool(op), in->count, GRAIN, bytes_part, &j);
    return 0;
}

static double limit(const struct op *op, uint32_t slot, const char *attr, float missing)
{
    const struct nt *t = kernel_in(op, slot);

    if (t && t->data && t->count)
        return nt_float(t, 0);
    return (double)node_attr_float(op->node, attr, missing);
}

int clip_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_NUM, err);

    for (uint32_t i = 1; i < 3 && !rc; i++)
        if (kernel_in(op, i) &&
            (kernel_in(op, i)->type != kernel_in(op, 0)->type || kernel_in(op, i)->count != 1))
            rc = kernel_fail(op, OPM_EINVAL, err, "limit %u must be one number of the input's type",
                             i);
    return rc ? rc : kernel_infer(op, err);
}

struct clip_job {
    const struct nt *in, *lo, *hi;
    struct nt *out;
    const struct isa *isa;
    float flo, fhi;
};

static void clip_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct clip_job *j = arg;
    int64_t width = (int64_t)nt_width(j->in->type);

    (void)thread;
    if (j->in->type == TENSOR_F32)
        j->isa->unary(U_CLIP, (float *)j->out->data + begin, (const float *)j->in->data + begin,
                      end - begin, j->flo, j->fhi);
    else
        j->isa->rows->clip[j->in->type]((char *)j->out->data + begin * width,
                                        (const char *)j->in->data + begin * width, end - begin,
                                        j->lo ? j->lo->data : NULL, j->hi ? j->hi->data : NULL);
}

int clip_run(struct op *op, opm_error *err)
{
    struct clip_job j = { kernel_in(op, 0),
                          kernel_in(op, 1),
                          kernel_in(op, 2),
                          kernel_out(op, 0),
                          kernel_isa(op),
                          0,
                          0 };

    (void)err;
    j.flo = (float)limit(op, 1, "min", -INFINITY);
    j.fhi = (float)limit(op, 2, "max", INFINITY);
    pool_for(kernel_pool(op), j.in->count, GRAIN, clip_part, &j);
    return 0;
}

/* Clip with limits that are constants. */
bool clip_as_post(const struct op *op, struct post *out)
{
    float lim[2] = { -INFINITY, INFINITY };

    if (op->kernel->kind != KERNEL_clip)
        return false;
    for (uint32_t i = 1; i < 3; i++) {
        const struct tensor *t = kernel_const(op, i);

        if (kernel_in(op, i) && (!t || t->type != TENSOR_F32 || t->count != 1))
            return false;
        lim[i - 1] = t ? (float)tensor_float(t, 0)
                       : node_attr_float(op->node, i == 1 ? "min" : "max", lim[i - 1]);
    }
    *out = (struct post){ POST_UNARY, U_CLIP, lim[0], lim[1], -1 };
    return true;
}
