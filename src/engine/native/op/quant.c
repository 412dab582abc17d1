/* quant.c -- QuantizeLinear, DequantizeLinear and DynamicQuantizeLinear. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/math/q8.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Those that inner loops know. */
#define TYPES_LOOPS (TYPES_Q8 | TYPE_BIT(TENSOR_U16) | TYPE_BIT(TENSOR_I16))
#define TYPES_Q (TYPES_LOOPS | TYPE_BIT(TENSOR_I32) | TYPES_SMALL)

/* The zero point of the k'th slice. */
static int32_t zero_of(const struct nt *zero, int64_t k)
{
    return zero ? (int32_t)nt_int(zero, zero->count == 1 ? 0 : k) : 0;
}

/* x / scale as an element; zero is added to integers alone. */
static void put(const struct op *op, struct nt *t, int64_t i, float x, double zero)
{
    double v, lo;

    if (TYPE_BIT(t->type) & TYPES_SMALL_FLOAT) {
        tensor_put_code(t->data, t->type, i,
                        f32_to_code(x, t->type, node_attr_int(op->node, "saturate", 1) != 0));
        return;
    }
    v = nearbyint((double)x) + zero;
    if (tensor_type_bits(t->type) <= 8) {
        tensor_put_code(t->data, t->type, i, f32_to_code((float)v, t->type, true));
        return;
    }
    lo = t->type == TENSOR_U16 ? 0 : -32768;
    ((uint16_t *)t->data)[i] = isnan(v) ? 0 : (uint16_t)(int32_t)fmin(fmax(v, lo), lo + 65535);
}

/* Which scale goes with an element: one for all, one for each slice of an axis, or (from opset 21)
 * one for each block along an axis. */
struct scales {
    int64_t n;     /* slices of the axis */
    int64_t inner; /* elements of a slice that follow each other */
    int64_t block; /* slices that share a scale */
    bool blocked;  /* scales differ outside of the axis, too */
};

static int find_scales(const struct op *op, struct scales *s, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *scale = kernel_in(op, 1), *zero = kernel_in(op, 2);
    int64_t block = node_attr_int(op->node, "block_size", 0);
    int axis;

    *s = (struct scales){ 1, MAX(in->count, (int64_t)1), 1, false };
    if (zero && zero->count != scale->count)
        return kernel_fail(op, OPM_EINVAL, err, "scale and zero point differ in length");
    if (scale->count == 1 && !block)
        return 0;
    axis = nt_axis(node_attr_int(op->node, "axis", 1), in->shape.rank);
    if (axis < 0 && scale->shape.rank == 1 && scale->count == 1)
        return 0;
    if (axis < 0)
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "scale does not fit an axis");
    s->n = in->shape.dim[axis];
    s->inner = nt_span(&in->shape, axis + 1, in->shape.rank);
    s->block = MAX(block, (int64_t)1);
    if (!block) {
        if (scale->shape.rank != 1 || scale->count != s->n)
            return kernel_fail(op, OPM_EUNSUPPORTED, err, "scale does not fit an axis");
        return 0;
    }
    s->blocked = true;
    if (block < 0 || scale->shape.rank != in->shape.rank)
        return kernel_fail(op, OPM_EINVAL, err, "scale does not fit blocks of %lld",
                           (long long)block);
    for (int d = 0; d < in->shape.rank; d++)
        if (scale->shape.dim[d] !=
            (d == axis ? (in->shape.dim[d] + block - 1) / block : in->shape.dim[d]))
            return kernel_fail(op, OPM_EINVAL, err, "scale does not fit blocks of %lld",
                               (long long)block);
    return 0;
}

static int64_t scale_of(const struct scales *s, int64_t i)
{
    int64_t slice, blocks;

    if (s->n == 1 && !s->blocked)
        return 0;
    slice = i / s->inner % s->n;
    if (!s->blocked)
        return slice;
    blocks = (s->n + s->block - 1) / s->block;
    return (i / (s->inner * s->n) * blocks + slice / s->block) * s->inner + i % s->inner;
}

int quantize_prepare(struct op *op, opm_error *err)
{
    const struct nt *zero = kernel_in(op, 2);
    enum tensor_type t = zero ? zero->type : TENSOR_U8;
    struct scales s;
    int rc = kernel_want(op, 0, TYPES_FLOAT | TYPE_BIT(TENSOR_I32), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_FLOAT, err);
    if (!rc && zero)
        rc = kernel_want(op, 2, TYPES_Q & ~TYPE_BIT(TENSOR_I32), err);
    if (!zero && node_attr_int(op->node, "output_dtype", 0))
        t = (enum tensor_type)node_attr_int(op->node, "output_dtype", 0);
    if (!rc && (t >= TENSOR_NTYPES || !(TYPE_BIT(t) & TYPES_Q & ~TYPE_BIT(TENSOR_I32))))
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    if (!rc)
        rc = find_scales(op, &s, err);
    return rc ? rc : kernel_infer(op, err);
}

struct slice_job {
    const struct op *op;
    struct scales s;
};

/* n elements from `first` on, which are of one of TYPES_LOOPS and have the k'th scale. */
static void quantize_run_of(const struct op *op, int64_t first, int64_t n, int64_t k)
{
    const struct nt *zero = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    const float *in = (const float *)kernel_in(op, 0)->data + first,
                scale = ((const float *)kernel_in(op, 1)->data)[k];
    int32_t z = zero_of(zero, k), lo = out->type == TENSOR_U16 ? 0 : -32768;

    if (TYPE_BIT(out->type) & TYPES_Q8)
        kernel_q8(op)->quantize((uint8_t *)out->data + first, in, n, scale, z, q8_lo(out->type),
                                q8_hi(out->type));
    else
        kernel_isa(op)->loops->quantize16((uint16_t *)out->data + first, in, n, scale, z, lo,
                                          lo + 65535);
}

/* Slices of an axis, each with its scale. */
static void quantize_slices(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        quantize_run_of(j->op, i * j->s.inner, j->s.inner, i % j->s.n);
}

static void quantize_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;

    (void)thread;
    quantize_run_of(j->op, begin, end - begin, 0);
}

#define CHUNK 256

/* Elements [first, first + n) of one of TYPES_LOOPS, less zero, times scale. */
static void small_to_floats(const struct isa *isa, float *out, const struct nt *in, int64_t first,
                            int64_t n, float scale, int32_t zero)
{
    const size_t size = TYPE_BIT(in->type) & TYPES_Q8 ? 1 : 2;

    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = MIN(n - i, (int64_t)CHUNK);

        isa->rows->cast[in->type][TENSOR_F32](
            out + i, (const uint8_t *)in->data + (size_t)(first + i) * size, m);
        if (zero)
            isa->unary(U_AFFINE, out + i, out + i, m, 1, (float)-zero);
        isa->unary(U_AFFINE, out + i, out + i, m, scale, 0);
    }
}

static void dequantize_slices(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0), *scale = kernel_in(j->op, 1),
                    *zero = kernel_in(j->op, 2);

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        small_to_floats(kernel_isa(j->op), (float *)kernel_out(j->op, 0)->data + i * j->s.inner, in,
                        i * j->s.inner, j->s.inner, ((const float *)scale->data)[i % j->s.n],
                        zero_of(zero, i % j->s.n));
}

#define WIDE_PIECE 4096

/* int32 without blocks: pieces of slices, each of elements with one scale. */
static void dequantize_wide(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0), *scale = kernel_in(j->op, 1),
                    *zero = kernel_in(j->op, 2);
    const struct isa *isa = kernel_isa(j->op);
    int64_t pieces = (j->s.inner + WIDE_PIECE - 1) / WIDE_PIECE;

    (void)thread;
    for (int64_t i = begin; i < end; i++) {
        int64_t slice = i / pieces, at = i % pieces * WIDE_PIECE, k = slice % j->s.n,
                n = MIN(j->s.inner - at, (int64_t)WIDE_PIECE),
                z = zero ? ((const int32_t *)zero->data)[k] : 0;
        float *out = (float *)kernel_out(j->op, 0)->data + slice * j->s.inner + at;
        const int32_t *x = (const int32_t *)in->data + slice * j->s.inner + at;

        if (z == 0)
            isa->rows->cast[TENSOR_I32][TENSOR_F32](out, x, n);
        for (int64_t e = 0; e < n && z; e++)
            out[e] = (float)(x[e] - z);
        isa->unary(U_AFFINE, out, out, n, ((const float *)scale->data)[k], 0);
    }
}

static void dequantize_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;
    const struct nt *in = kernel_in(j->op, 0), *scale = kernel_in(j->op, 1),
                    *zero = kernel_in(j->op, 2);

    (void)thread;
    small_to_floats(kernel_isa(j->op), (float *)kernel_out(j->op, 0)->data + begin, in, begin,
                    end - begin, *(const float *)scale->data, zero_of(zero, 0));
}

int quantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *scale = kernel_in(op, 1), *zero = kernel_in(op, 2);
    struct nt *out = kernel_out(op, 0);
    struct slice_job j = { .op = op };
    int rc = find_scales(op, &j.s, err);

    if (!rc && in->type == TENSOR_F32 && scale->type == TENSOR_F32 &&
        (TYPE_BIT(out->type) & TYPES_LOOPS) && !j.s.blocked && in->count) {
        if (j.s.n == 1)
            pool_for(kernel_pool(op), in->count, 16384, quantize_part, &j);
        else
            pool_for(kernel_pool(op), in->count / j.s.inner, MAX(16384 / j.s.inner, (int64_t)1),
                     quantize_slices, &j);
        return 0;
    }
    for (int64_t i = 0; i < in->count && !rc; i++) {
        int64_t k = scale_of(&j.s, i);

        put(op, out, i, (float)(nt_float(in, i) / nt_float(scale, k)), /* as if in float */
            zero ? nt_float(zero, k) : 0);
    }
    return rc;
}

int dequantize_prepare(struct op *op, opm_error *err)
{
    struct scales s;
    int rc = kernel_want(op, 0, TYPES_Q, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kernel_in(op, 2))
        rc = kernel_want(op, 2, TYPE_BIT(kernel_in(op, 0)->type), err);
    if (!rc)
        rc = find_scales(op, &s, err);
    if (!rc)
        rc = kernel_infer(op, err);
    if (!rc && kernel_out(op, 0)->type != TENSOR_F32)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this output type");
    return rc;
}

/* Elements [first, first + n) as floats. */
static void decode(const struct nt *t, int64_t first, int64_t n, float *out)
{
    const uint8_t *p = t->data;

    if (t->type == TENSOR_U4 || t->type == TENSOR_I4) {
        const int flip = t->type == TENSOR_I4 ? 8 : 0;

        for (int64_t i = first; i < first + n; i++)
            *out++ = (float)(((p[i / 2] >> (i % 2 * 4) & 15) ^ flip) - flip);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        out[i] = (float)nt_float(t, first + i);
}

/* Types without a fast path: slices of the axis, or blocks where elements of one follow each
 * other. */
static void dequantize_decoded(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct slice_job *j = arg;
    const struct scales *s = &j->s;
    const struct nt *in = kernel_in(j->op, 0), *scale = kernel_in(j->op, 1),
                    *zero = kernel_in(j->op, 2);
    int64_t blocks = (s->n + s->block - 1) / s->block;
    bool runs = s->blocked && s->inner == 1; /* of elements with one scale */

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t o = item / (runs ? blocks : s->n), at = item % (runs ? blocks : s->n);
        int64_t first = runs ? o * s->n + at * s->block : item * s->inner,
                len = runs ? MIN(s->block, s->n - at * s->block) : s->inner,
                k = !s->blocked ? at
                    : runs      ? item
                                : (o * blocks + at / s->block) * s->inner;
        int64_t step = s->blocked && !runs; /* of scales */

        for (int64_t c = 0; c < len; c += CHUNK) {
            int64_t n = MIN((int64_t)CHUNK, len - c);
            float x[CHUNK], z[CHUNK] = { 0 },
                            *out = (float *)kernel_out(j->op, 0)->data + first + c;
            const float *by = (const float *)scale->data + (step ? k + c : k);

            decode(in, first + c, n, x);
            if (zero)
                decode(zero, step ? k + c : k, step ? n : 1, z);
            for (int64_t i = 0; i < n; i++)
                out[i] = (x[i] - z[i * step]) * by[i * step];
        }
    }
}

int dequantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *scale = kernel_in(op, 1), *zero = kernel_in(op, 2);
    float *out = kernel_out(op, 0)->data;
    struct slice_job j = { .op = op };
    int rc = find_scales(op, &j.s, err);

    if (!rc && (TYPE_BIT(in->type) & TYPES_LOOPS) && !j.s.blocked && in->count) {
        if (j.s.n == 1)
            pool_for(kernel_pool(op), in->count, 16384, dequantize_part, &j);
        else
            pool_for(kernel_pool(op), in->count / j.s.inner, MAX(16384 / j.s.inner, (int64_t)1),
                     dequantize_slices, &j);
        return 0;
    }
    if (!rc && in->type != TENSOR_I32 && in->count) {
        int64_t rows = in->count / (j.s.n * j.s.inner), blocks;

        blocks = j.s.blocked && j.s.inner == 1 ? (j.s.n + j.s.block - 1) / j.s.block : j.s.n;
        pool_for(kernel_pool(op), rows * blocks,
                 MAX(4096 * blocks / (j.s.n * j.s.inner), (int64_t)1), dequantize_decoded, &j);
        return 0;
    }
    if (!rc && !j.s.blocked && in->count) {
        pool_for(kernel_pool(op),
                 in->count / j.s.inner * ((j.s.inner + WIDE_PIECE - 1) / WIDE_PIECE),
                 MAX(16384 / MIN(j.s.inner, (int64_t)WIDE_PIECE), (int64_t)1), dequantize_wide, &j);
        return 0;
    }
    for (int64_t i = 0; i < in->count && !rc; i++) {
        int64_t k = scale_of(&j.s, i);

        out[i] =
            (float)(nt_int(in, i) - (zero ? nt_int(zero, k) : 0)) * ((const float *)scale->data)[k];
    }
    return rc;
}

int dynquantize_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    return rc ? rc : kernel_infer(op, err);
}

int dynquantize_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    float scale;
    int32_t zero;

    (void)err;
    q8_dynamic(op, in->data, in->count, &scale, &zero);
    if (kernel_out(op, 0))
        q8_quantize(op, kernel_out(op, 0)->data, in->data, in->count, scale, zero, TENSOR_U8);
    if (kernel_out(op, 1))
        *(float *)kernel_out(op, 1)->data = scale;
    if (kernel_out(op, 2))
        *(uint8_t *)kernel_out(op, 2)->data = (uint8_t)zero;
    return 0;
}
