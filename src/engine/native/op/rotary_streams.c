/* rotary_streams.c -- com.microsoft's MRotaryEmbedding: pairs of numbers are turned by angles of
 * three positions, in time and in a picture's rows and columns. Which of them a pair goes by is the
 * same for all tokens; so each token's cosines and sines are put together once for all heads. */
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/kernels.h"

#include <string.h>

enum { STREAM_X, STREAM_POSITIONS, STREAM_COS, STREAM_SIN };

struct streams {
    int64_t heads, len, width, half;
    uint8_t *of; /* the stream of each pair */
};

static void streams_release(void *state)
{
    mem_free(((struct streams *)state)->of);
}

/* Chunks one behind the other, or rows and columns at every third place. */
static bool assign(const struct op *op, struct streams *s)
{
    size_t n;
    const int64_t *section = node_attr_ints(op->node, "mrope_section", &n);
    int64_t layout = node_attr_int(op->node, "mrope_layout", 0), at = 0, rest = s->half;

    if (!section || n != 3 || layout < 0 || layout > 1)
        return false;
    for (int k = 0; k < 3; k++) {
        if (section[k] < 0 || section[k] > rest)
            return false;
        rest -= section[k];
    }
    memset(s->of, 0, (size_t)s->half);
    for (uint8_t k = 0; k < 3 && layout == 0; k++)
        for (int64_t i = 0; i < section[k]; i++)
            s->of[at++] = k;
    for (uint8_t k = 1; k < 3 && layout == 1; k++)
        for (int64_t i = k; i < 3 * section[k] && i < s->half; i += 3)
            s->of[i] = k;
    return rest == 0;
}

int streams_prepare(struct op *op, opm_error *err)
{
    struct streams *s = kernel_new_state(op, sizeof(*s));
    int64_t part = node_attr_int(op->node, "rotary_embedding_dim", 0);
    const struct nt *x, *pos, *cos;
    int rc = s ? attention_want_f32(op, STREAM_X, err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, STREAM_POSITIONS, TYPE_BIT(TENSOR_I64), err);
    for (uint32_t i = STREAM_COS; i <= STREAM_SIN && !rc; i++)
        rc = attention_want_f32(op, i, err);
    if (rc)
        return rc;
    op->release = streams_release;
    x = kernel_in(op, STREAM_X);
    pos = kernel_in(op, STREAM_POSITIONS);
    cos = kernel_in(op, STREAM_COS);
    s->heads = x->shape.rank == 4 ? x->shape.dim[1] : node_attr_int(op->node, "num_heads", 0);
    if (!attention_shape(&x->shape, s->heads, &s->len, &s->width) || part < 0 || part > s->width)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    s->half = (part ? part : s->width) / 2;
    if (s->half < 1 || cos->shape.rank != 2 || cos->shape.dim[1] != s->half ||
        !shape_equal(&cos->shape, &kernel_in(op, STREAM_SIN)->shape))
        return kernel_fail(op, OPM_EINVAL, err, "cosines do not fit");
    if (pos->shape.rank != 3 || pos->shape.dim[0] != 3 || pos->shape.dim[1] != x->shape.dim[0] ||
        pos->shape.dim[2] != s->len)
        return kernel_fail(op, OPM_EINVAL, err, "positions do not fit");
    mem_free(s->of);
    s->of = mem_calloc((size_t)s->half, 1);
    if (!s->of)
        return kernel_nomem(op, err);
    if (!assign(op, s))
        return kernel_fail(op, OPM_EINVAL, err, "attributes mrope_section or mrope_layout");
    op->scratch_bytes =
        (size_t)(2 * s->half + 16) * sizeof(float) * (size_t)pool_threads(kernel_pool(op));
    return kernel_infer(op, err);
}

static void streams_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct streams *s = op->state;
    const struct nt *pos = kernel_in(op, STREAM_POSITIONS);
    struct rows in = attention_rows(kernel_in(op, STREAM_X), s->heads),
                out = attention_rows(kernel_out(op, 0), s->heads);
    float scale = node_attr_float(op->node, "scale", 1),
          *cos = (float *)op->scratch + thread * (2 * s->half + 16), *sin = cos + s->half;
    bool mixed = node_attr_int(op->node, "interleaved", 0) != 0;

    for (int64_t t = begin; t < end; t++) {
        int64_t b = t / s->len, i = t % s->len, row[3];

        for (int k = 0; k < 3; k++)
            row[k] = nt_int(pos, k * (pos->count / 3) + t) * s->half;
        for (int64_t k = 0; k < s->half; k++) {
            cos[k] = ((const float *)kernel_in(op, STREAM_COS)->data)[row[s->of[k]] + k] * scale;
            sin[k] = ((const float *)kernel_in(op, STREAM_SIN)->data)[row[s->of[k]] + k] * scale;
        }
        for (int64_t h = 0; h < s->heads; h++)
            rotary_row(kernel_isa(op),
                       (float *)(uintptr_t)out.base + b * out.batch + h * out.head + i * out.step,
                       in.base + b * in.batch + h * in.head + i * in.step, s->width, cos, sin,
                       s->half, mixed);
    }
}

int streams_run(struct op *op, opm_error *err)
{
    const struct streams *s = op->state;
    const struct nt *pos = kernel_in(op, STREAM_POSITIONS);
    int64_t known = kernel_in(op, STREAM_COS)->shape.dim[0];

    for (int64_t i = 0; i < pos->count; i++)
        if (nt_int(pos, i) < 0 || nt_int(pos, i) >= known)
            return kernel_fail(op, OPM_EINVAL, err, "position %lld is not among %lld",
                               (long long)nt_int(pos, i), (long long)known);
    if (kernel_out(op, 0)->count)
        pool_for(kernel_pool(op), pos->count / 3, pool_grain((double)(s->heads * s->width) * 0.3),
                 streams_part, op);
    return 0;
}
