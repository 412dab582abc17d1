/* binary.c -- functions of two elements, with broadcasting. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

#define GRAIN 8192

struct bin_job {
    struct broadcast b;
    enum bin f;
    enum tensor_type type;
    const struct isa *isa;
    const void *in[2];
    void *out;
    bool fmod, left;
};

/* Integers wrap around, division by zero gives 0: nothing is undefined. The 64-bit forms serve all
 * widths, since the low bits of sums and products do not depend on the high ones. */
static int64_t div_int(int64_t a, int64_t b)
{
    if (b == 0)
        return 0;
    return b == -1 ? (int64_t)(0 - (uint64_t)a) : a / b;
}

/* Python's: the sign of the divisor. */
static int64_t mod_int(int64_t a, int64_t b, bool fmod)
{
    int64_t r;

    if (b == 0 || b == -1)
        return 0;
    r = a % b;
    return !fmod && r && (r < 0) != (b < 0) ? r + b : r;
}

static int64_t bin_int(const struct bin_job *j, int64_t a, int64_t b)
{
    uint64_t x = (uint64_t)a, y = (uint64_t)b;

    switch (j->f) {
    case BIN_ADD:
    case BIN_SUM:
        return (int64_t)(x + y);
    case BIN_SUB:
        return (int64_t)(x - y);
    case BIN_MUL:
        return (int64_t)(x * y);
    case BIN_DIV:
        return div_int(a, b);
    case BIN_MOD:
        return mod_int(a, b, j->fmod);
    case BIN_BITAND:
        return (int64_t)(x & y);
    case BIN_BITOR:
        return (int64_t)(x | y);
    case BIN_BITXOR:
        return (int64_t)(x ^ y);
    case BIN_MAX:
        return MAX(a, b);
    case BIN_MIN:
        return MIN(a, b);
    case BIN_PRELU:
        return a < 0 ? (int64_t)(x * y) : a;
    default:
        return 0;
    }
}

static uint64_t bin_u64(const struct bin_job *j, uint64_t a, uint64_t b)
{
    switch (j->f) {
    case BIN_DIV:
        return b ? a / b : 0;
    case BIN_MOD:
        return b ? a % b : 0;
    case BIN_MAX:
        return MAX(a, b);
    case BIN_MIN:
        return MIN(a, b);
    case BIN_SHIFT:
        return b > 63 ? 0 : j->left ? a << b : a >> b;
    case BIN_PRELU:
        return a;
    default:
        return (uint64_t)bin_int(j, (int64_t)a, (int64_t)b);
    }
}

static double mod_double(double a, double b, bool is_fmod)
{
    double r = fmod(a, b);

    return !is_fmod && r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static double bin_double(const struct bin_job *j, double a, double b)
{
    switch (j->f) {
    case BIN_ADD:
    case BIN_SUM:
    case BIN_MEAN:
        return a + b;
    case BIN_SUB:
        return a - b;
    case BIN_MUL:
        return a * b;
    case BIN_DIV:
        return a / b;
    case BIN_MOD:
        return mod_double(a, b, j->fmod);
    case BIN_MAX:
        return isnan(a) || isnan(b) ? NAN : MAX(a, b);
    case BIN_MIN:
        return isnan(a) || isnan(b) ? NAN : MIN(a, b);
    case BIN_PRELU:
        return a < 0 ? a * b : a;
    default:
        return 0;
    }
}

#define BIN_CASE(TYPE, T, W, fn)                                                      \
    case TENSOR_##TYPE: {                                                             \
        const T *a = (const T *)j->in[0] + off[0], *b = (const T *)j->in[1] + off[1]; \
        T *out = (T *)j->out + at;                                                    \
        for (int64_t i = 0; i < n; i++)                                               \
            out[i] = (T)fn(j, (W)a[i * stride[0]], (W)b[i * stride[1]]);              \
        break;                                                                        \
    }

static int fast_binary(enum bin f)
{
    switch (f) {
    case BIN_ADD:
    case BIN_SUM:
    case BIN_MEAN:
        return B_ADD;
    case BIN_SUB:
        return B_SUB;
    case BIN_MUL:
        return B_MUL;
    case BIN_DIV:
        return B_DIV;
    case BIN_MAX:
        return B_MAX;
    case BIN_MIN:
        return B_MIN;
    default:
        return -1;
    }
}

static void bin_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct bin_job *j = arg;
    int fast = fast_binary(j->f);

    switch (j->type) {
    case TENSOR_F32: {
        const float *a = (const float *)j->in[0] + off[0], *b = (const float *)j->in[1] + off[1];
        float *out = (float *)j->out + at;

        if (fast >= 0 && stride[0] <= 1 && stride[1] <= 1) {
            j->isa->binary((enum isa_binary)fast, out, a, stride[0], b, stride[1], n);
            break;
        }
        if (j->f == BIN_PRELU) {
            for (int64_t i = 0; i < n; i++) {
                float x = a[i * stride[0]];

                out[i] = x < 0 ? x * b[i * stride[1]] : x;
            }
            break;
        }
        for (int64_t i = 0; i < n; i++)
            out[i] = (float)bin_double(j, (double)a[i * stride[0]], (double)b[i * stride[1]]);
        break;
    }
        BIN_CASE(F64, double, double, bin_double)
        BIN_CASE(I8, int8_t, int64_t, bin_int)
        BIN_CASE(I16, int16_t, int64_t, bin_int)
        BIN_CASE(I32, int32_t, int64_t, bin_int)
        BIN_CASE(I64, int64_t, int64_t, bin_int)
        BIN_CASE(U8, uint8_t, uint64_t, bin_u64)
        BIN_CASE(U16, uint16_t, uint64_t, bin_u64)
        BIN_CASE(U32, uint32_t, uint64_t, bin_u64)
        BIN_CASE(U64, uint64_t, uint64_t, bin_u64)
    default:
        break;
    }
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
    if (op->kernel->arg == BIN_SHIFT && tensor_type_signed(kernel_in(op, 0)->type))
        return kernel_fail(op, OPM_EINVAL, err, "shifts unsigned integers only");
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
    struct bin_job j = { .f = f, .type = a->type, .isa = kernel_isa(op) };

    j.in[0] = a->data;
    j.in[1] = b->data;
    j.out = out->data;
    j.fmod = node_attr_int(op->node, "fmod", 0);
    j.left = node_attr_is(op->node, "direction", "LEFT", "LEFT");
    broadcast_init(&j.b, &out->shape, in, 2);
    pool_for(kernel_pool(op), out->count, GRAIN, bin_part, &j);
}

int binary_run(struct op *op, opm_error *err)
{
    struct nt b = *kernel_in(op, 1);

    (void)err;
    b.shape = old_shape(op);
    apply(op, (enum bin)op->kernel->arg, kernel_in(op, 0), &b, kernel_out(op, 0));
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
    enum bin f = (enum bin)op->kernel->arg;
    struct nt *out = kernel_out(op, 0);

    (void)err;
    if (op->nin == 1) {
        strided_copy(kernel_pool(op), out->data, kernel_in(op, 0)->data, 1, 1,
                     &(int64_t){ (int64_t)out->bytes }, &(int64_t){ 1 });
    } else {
        apply(op, f, kernel_in(op, 0), kernel_in(op, 1), out);
        for (uint32_t i = 2; i < op->nin; i++)
            apply(op, f, out, kernel_in(op, i), out);
    }
    if (f == BIN_MEAN && out->type == TENSOR_F32)
        kernel_isa(op)->unary(U_AFFINE, out->data, out->data, out->count, 1.0f / (float)op->nin, 0);
    else if (f == BIN_MEAN && out->type == TENSOR_F64)
        for (int64_t i = 0; i < out->count; i++)
            ((double *)out->data)[i] /= op->nin;
    return 0;
}

struct cmp_job {
    struct broadcast b;
    enum bin f;
    enum tensor_type type;
    const void *in[2];
    uint8_t *out;
};

#define CMP_LOOP(T, expr)                             \
    for (int64_t i = 0; i < n; i++) {                 \
        T x = a[i * stride[0]], y = b[i * stride[1]]; \
        out[i] = (uint8_t)(expr);                     \
    }
#define CMP_CASE(TYPE, T)                                                             \
    case TENSOR_##TYPE: {                                                             \
        const T *a = (const T *)j->in[0] + off[0], *b = (const T *)j->in[1] + off[1]; \
        switch (j->f) {                                                               \
        case BIN_EQUAL:                                                               \
            CMP_LOOP(T, x == y) break;                                                \
        case BIN_LESS:                                                                \
            CMP_LOOP(T, x < y) break;                                                 \
        case BIN_GREATER:                                                             \
            CMP_LOOP(T, x > y) break;                                                 \
        case BIN_LESSEQ:                                                              \
            CMP_LOOP(T, x <= y) break;                                                \
        case BIN_GREATEREQ:                                                           \
            CMP_LOOP(T, x >= y) break;                                                \
        case BIN_AND:                                                                 \
            CMP_LOOP(T, x &&y) break;                                                 \
        case BIN_OR:                                                                  \
            CMP_LOOP(T, x || y) break;                                                \
        default:                                                                      \
            CMP_LOOP(T, !x != !y) break;                                              \
        }                                                                             \
        break;                                                                        \
    }

static void cmp_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct cmp_job *j = arg;
    uint8_t *out = j->out + at;

    switch (j->type) {
        CMP_CASE(F32, float)
        CMP_CASE(F64, double)
        CMP_CASE(I8, int8_t)
        CMP_CASE(I16, int16_t)
        CMP_CASE(I32, int32_t)
        CMP_CASE(I64, int64_t)
        CMP_CASE(U8, uint8_t)
        CMP_CASE(BOOL, uint8_t)
        CMP_CASE(U16, uint16_t)
        CMP_CASE(U32, uint32_t)
        CMP_CASE(U64, uint64_t)
    default:
        break;
    }
}

static void cmp_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct cmp_job *j = arg;

    (void)thread;
    broadcast_each(&j->b, begin, end, cmp_run1, j);
}

int compare_prepare(struct op *op, opm_error *err)
{
    int f = op->kernel->arg;
    uint64_t types = f == BIN_AND || f == BIN_OR || f == BIN_XOR ? TYPE_BIT(TENSOR_BOOL)
                     : f == BIN_EQUAL                            ? TYPES_NUM | TYPE_BIT(TENSOR_BOOL)
                                                                 : TYPES_NUM;
    int rc = kernel_want(op, 0, types, err);

    if (!rc)
        rc = kernel_want(op, 1, types, err);
    if (!rc && kernel_in(op, 0)->type != kernel_in(op, 1)->type)
        rc = kernel_fail(op, OPM_EINVAL, err, "operands are of different types");
    return rc ? rc : kernel_infer(op, err);
}

int compare_run(struct op *op, opm_error *err)
{
    const struct nt *in[2] = { kernel_in(op, 0), kernel_in(op, 1) };
    struct cmp_job j = { .f = (enum bin)op->kernel->arg, .type = in[0]->type };

    (void)err;
    j.in[0] = in[0]->data;
    j.in[1] = in[1]->data;
    j.out = kernel_out(op, 0)->data;
    broadcast_init(&j.b, &kernel_out(op, 0)->shape, in, 2);
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, GRAIN, cmp_part, &j);
    return 0;
}

struct pow_job {
    struct broadcast b;
    const struct nt *in[2];
    struct nt *out;
    const struct isa *isa;
};

static int64_t pow_int(int64_t x, int64_t e)
{
    uint64_t r = 1, b = (uint64_t)x;

    if (e < 0)
        return x == 1 ? 1 : x == -1 ? (e & 1 ? -1 : 1) : 0;
    for (; e; e >>= 1, b *= b)
        if (e & 1)
            r *= b;
    return (int64_t)r;
}

static void store_number(struct nt *t, int64_t i, bool whole, int64_t v, double d);

static void pow_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct pow_job *j = arg;
    bool whole = (TYPE_BIT(j->in[0]->type) & TYPES_INT) && (TYPE_BIT(j->in[1]->type) & TYPES_INT);

    if (j->in[0]->type == TENSOR_F32 && j->in[1]->type == TENSOR_F32) {
        const float *a = (const float *)j->in[0]->data + off[0],
                    *b = (const float *)j->in[1]->data + off[1];
        float *out = (float *)j->out->data + at;

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
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        int64_t x = off[0] + i * stride[0], y = off[1] + i * stride[1];

        if (whole)
            store_number(j->out, at + i, true, pow_int(nt_int(j->in[0], x), nt_int(j->in[1], y)),
                         0);
        else
            store_number(j->out, at + i, false, 0,
                         pow(nt_float(j->in[0], x), nt_float(j->in[1], y)));
    }
}

static int64_t saturate(double d)
{
    if (isnan(d))
        return 0;
    if (d >= 0x1p63)
        return INT64_MAX;
    return d < -0x1p63 ? INT64_MIN : (int64_t)d;
}

static void store_number(struct nt *t, int64_t i, bool whole, int64_t v, double d)
{
    if (!whole && (TYPE_BIT(t->type) & TYPES_INT))
        v = saturate(d);
    else if (whole)
        d = (double)v;
    switch (t->type) {
    case TENSOR_F32:
        ((float *)t->data)[i] = (float)d;
        break;
    case TENSOR_F64:
        ((double *)t->data)[i] = d;
        break;
    case TENSOR_I8:
    case TENSOR_U8:
        ((uint8_t *)t->data)[i] = (uint8_t)v;
        break;
    case TENSOR_I16:
    case TENSOR_U16:
        ((uint16_t *)t->data)[i] = (uint16_t)v;
        break;
    case TENSOR_I32:
    case TENSOR_U32:
        ((uint32_t *)t->data)[i] = (uint32_t)v;
        break;
    default:
        ((int64_t *)t->data)[i] = v;
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
    const uint8_t *cond;
    const char *in[2];
    char *out;
    size_t width;
};

#define WHERE_ONE(T, out, cond, a, b)               \
    do {                                            \
        T mask = (T)(0 - (T)((cond) != 0));         \
        (out) = (T)(((a)&mask) | ((b) & (T)~mask)); \
    } while (0)

#define WHERE_LOOP(T)                                                                          \
    do {                                                                                       \
        const T *a = (const T *)(const void *)j->in[0] + off[1],                               \
                *b = (const T *)(const void *)j->in[1] + off[2];                               \
        T *out = (T *)(void *)j->out + at;                                                     \
        if (stride[0] == 1 && stride[1] == 1 && stride[2] == 1)                                \
            for (int64_t i = 0; i < n; i++) /* no branch that cannot be guessed */             \
                WHERE_ONE(T, out[i], cond[i], a[i], b[i]);                                     \
        else                                                                                   \
            for (int64_t i = 0; i < n; i++)                                                    \
                WHERE_ONE(T, out[i], cond[i * stride[0]], a[i * stride[1]], b[i * stride[2]]); \
    } while (0)

static void where_run1(void *arg, int64_t at, const int64_t *off, const int64_t *stride, int64_t n)
{
    const struct where_job *j = arg;
    const uint8_t *cond = j->cond + off[0];

    switch (j->width) {
    case 1:
        WHERE_LOOP(uint8_t);
        break;
    case 2:
        WHERE_LOOP(uint16_t);
        break;
    case 4:
        WHERE_LOOP(uint32_t);
        break;
    case 8:
        WHERE_LOOP(uint64_t);
        break;
    default:
        for (int64_t i = 0; i < n; i++) {
            int k = !cond[i * stride[0]];

            memcpy(j->out + (at + i) * (int64_t)j->width,
                   j->in[k] + (off[k + 1] + i * stride[k + 1]) * (int64_t)j->width, j->width);
        }
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
    j.width = nt_width(in[1]->type);
    broadcast_init(&j.b, &kernel_out(op, 0)->shape, in, 3);
    pool_for(kernel_pool(op), kernel_out(op, 0)->count, GRAIN, where_part, &j);
    return 0;
}
