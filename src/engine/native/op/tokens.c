/* tokens.c -- what models of speech and text have around their layers: com.microsoft's
 * NGramRepeatBlock, UnfoldTensor, DynamicTimeWarping and MurmurHash3. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* Tokens so far, a row each; scores of the next one. */
int ngramblock_prepare(struct op *op, opm_error *err)
{
    const struct nt *ids, *scores;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_I64), err);

    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    ids = kernel_in(op, 0);
    scores = kernel_in(op, 1);
    if (ids->shape.rank != 2 || scores->shape.rank != 2 ||
        ids->shape.dim[0] != scores->shape.dim[0] || node_attr_int(op->node, "ngram_size", 0) < 1)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return kernel_infer(op, err);
}

/* What would end an n-gram that was there before cannot come next. */
int ngramblock_run(struct op *op, opm_error *err)
{
    const struct nt *ids = kernel_in(op, 0), *scores = kernel_in(op, 1);
    struct nt *out = kernel_out(op, 0);
    int64_t n = node_attr_int(op->node, "ngram_size", 0), length = ids->shape.dim[1],
            words = scores->shape.dim[1];

    if (out->data != scores->data && out->bytes)
        memcpy(out->data, scores->data, out->bytes);
    for (int64_t row = 0; row < ids->shape.dim[0]; row++) {
        const int64_t *id = (const int64_t *)ids->data + row * length;
        const int64_t *tail = id + MAX(length - (n - 1), (int64_t)0);

        for (int64_t i = 0; i + n <= length; i++) {
            if (memcmp(id + i, tail, (size_t)(n - 1) * sizeof(*id)) != 0)
                continue;
            if (id[i + n - 1] < 0 || id[i + n - 1] >= words)
                return kernel_fail(op, OPM_EINVAL, err, "token %lld has no score",
                                   (long long)id[i + n - 1]);
            ((float *)out->data)[row * words + id[i + n - 1]] = -INFINITY;
        }
    }
    return 0;
}

int unfold_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES & ~TYPE_BIT(TENSOR_STRING), err);

    return rc ? rc : kernel_infer(op, err);
}

int unfold_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "dim", -1), in->shape.rank);
    int64_t size = node_attr_int(op->node, "size", 0), step = node_attr_int(op->node, "step", 1);
    int64_t outer = nt_span(&in->shape, 0, axis), n = in->shape.dim[axis],
            inner = nt_span(&in->shape, axis + 1, in->shape.rank), places = out->shape.dim[axis];
    size_t width = nt_width(in->type);
    char *to = out->data;

    (void)err;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t p = 0; p < places; p++)
            for (int64_t i = 0; i < inner; i++)
                for (int64_t k = 0; k < size; k++, to += width)
                    memcpy(to,
                           (const char *)in->data +
                               (size_t)((o * n + p * step + k) * inner + i) * width,
                           width);
    return 0;
}

struct warping {
    int32_t *path; /* rows, then columns, from the last place to the first */
    int64_t length;
};

static void warping_release(void *state)
{
    struct warping *s = state;

    mem_free(s->path);
}

enum step { STEP_BOTH, STEP_ROW, STEP_COLUMN };

/* The step that each place of rows x columns is reached by at the least cost. */
static void find_steps(const float *x, int64_t rows, int64_t columns, float *cost, uint8_t *step)
{
    for (int64_t j = 0; j <= columns; j++)
        cost[j] = j ? INFINITY : 0;
    for (int64_t i = 1; i <= rows; i++) {
        float corner = cost[0];

        cost[0] = INFINITY;
        for (int64_t j = 1; j <= columns; j++) {
            float above = cost[j], before = cost[j - 1], least;
            enum step s = STEP_COLUMN;

            if (corner < above && corner < before)
                s = STEP_BOTH;
            else if (above < corner && above < before)
                s = STEP_ROW;
            least = s == STEP_BOTH ? corner : s == STEP_ROW ? above : before;
            corner = above;
            cost[j] = x[(i - 1) * columns + j - 1] + least;
            step[i * (columns + 1) + j] = (uint8_t)s;
        }
    }
}

int timewarping_prepare(struct op *op, opm_error *err)
{
    struct warping *s = op->state ? op->state : kernel_new_state(op, sizeof(*s));
    const struct nt *in;
    struct shape out = { 2, { 2, 0 } };
    int64_t rows, columns;
    float *cost;
    uint8_t *step;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = warping_release;
    if (rc)
        return rc;
    in = kernel_in(op, 0);
    if (in->shape.rank < 2 || in->shape.rank > 3 || nt_span(&in->shape, 0, in->shape.rank - 2) != 1)
        return kernel_fail(op, OPM_EINVAL, err, "wants a matrix");
    if (!kernel_data(op, 0))
        return NEED_DATA;
    rows = in->shape.dim[in->shape.rank - 2];
    columns = in->shape.dim[in->shape.rank - 1];
    mem_free(s->path);
    s->path = mem_calloc((size_t)(2 * (rows + columns)) + 1, sizeof(*s->path));
    cost = mem_calloc((size_t)columns + 1, sizeof(*cost));
    step = mem_calloc((size_t)((rows + 1) * (columns + 1)), 1);
    s->length = 0;
    if (s->path && cost && step) {
        int64_t i = rows, j = columns;

        find_steps(in->data, rows, columns, cost, step);
        while (i > 0 || j > 0) {
            enum step how = !i   ? STEP_COLUMN
                            : !j ? STEP_ROW
                                 : (enum step)step[i * (columns + 1) + j];

            s->path[2 * s->length] = (int32_t)i - 1;
            s->path[2 * s->length++ + 1] = (int32_t)j - 1;
            i -= how != STEP_COLUMN;
            j -= how != STEP_ROW;
        }
    } else {
        rc = kernel_nomem(op, err);
    }
    mem_free(cost);
    mem_free(step);
    out.dim[1] = s->length;
    return rc ? rc : kernel_set(op, 0, TENSOR_I32, &out, err);
}

int timewarping_run(struct op *op, opm_error *err)
{
    const struct warping *s = op->state;
    int32_t *out = kernel_out(op, 0)->data;

    (void)err;
    for (int64_t i = 0; i < s->length; i++) {
        out[i] = s->path[2 * (s->length - 1 - i)];
        out[s->length + i] = s->path[2 * (s->length - 1 - i) + 1];
    }
    return 0;
}

int murmur_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0,
                         TYPES_FLOAT | TYPES_INDEX | TYPE_BIT(TENSOR_U32) | TYPE_BIT(TENSOR_U64) |
                             TYPE_BIT(TENSOR_STRING),
                         err);

    return rc ? rc : kernel_infer(op, err);
}

static uint32_t turn(uint32_t v, int by)
{
    return v << by | v >> (32 - by);
}

static uint32_t mixed(uint32_t block)
{
    return turn(block * 0xcc9e2d51u, 15) * 0x1b873593u;
}

/* Austin Appleby's MurmurHash3 of 32 bits. */
static inline uint32_t murmur(const uint8_t *bytes, size_t n, uint32_t seed)
{
    uint32_t h = seed, block = 0;

    for (size_t i = 0; i + 4 <= n; i += 4) {
        block = bytes[i] | (uint32_t)bytes[i + 1] << 8 | (uint32_t)bytes[i + 2] << 16 |
                (uint32_t)bytes[i + 3] << 24;
        h = turn(h ^ mixed(block), 13) * 5 + 0xe6546b64u;
    }
    block = 0;
    for (size_t i = n / 4 * 4; i < n; i++)
        block |= (uint32_t)bytes[i] << 8 * (i % 4);
    h ^= mixed(block) ^ (uint32_t)n;
    h = (h ^ h >> 16) * 0x85ebca6bu;
    h = (h ^ h >> 13) * 0xc2b2ae35u;
    return h ^ h >> 16;
}

int murmur_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    uint32_t seed = (uint32_t)node_attr_int(op->node, "seed", 0), *out = kernel_out(op, 0)->data;
    size_t width = nt_width(in->type);

    (void)err;
    if (in->type == TENSOR_STRING)
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)nt_strings(in)[i].s, nt_strings(in)[i].len, seed);
    else if (width == 4)
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)in->data + (size_t)i * 4, 4, seed);
    else
        for (int64_t i = 0; i < in->count; i++)
            out[i] = murmur((const uint8_t *)in->data + (size_t)i * 8, 8, seed);
    return 0;
}
