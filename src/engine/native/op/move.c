/* move.c -- Transpose, Expand, Tile, Slice, Split, Concat, Pad, DepthToSpace, ...: elements go
 * elsewhere, unchanged. */
#include "engine/native/math/broadcast.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"
#include "graph/ops/args.h"
#include "graph/ops/slice.h"

#include <string.h>

static void strides_of(const struct shape *s, int64_t *stride)
{
    int64_t step = 1;

    for (int32_t i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s->dim[i];
    }
}

int transpose_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

int transpose_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], by[SHAPE_RANK_MAX];
    int perm[SHAPE_RANK_MAX], rc;
    struct view v;

    view_begin(&v, op, err);
    rc = transpose_perm(&v.base, in->shape.rank, perm);
    view_end(&v);
    if (rc)
        return rc;
    strides_of(&in->shape, stride);
    for (int32_t i = 0; i < in->shape.rank; i++)
        by[i] = stride[perm[i]];
    strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), out->shape.rank,
                 out->shape.dim, by);
    return 0;
}

int expand_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

int expand_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], by[SHAPE_RANK_MAX] = { 0 };
    int32_t lead = out->shape.rank - in->shape.rank;

    (void)err;
    strides_of(&in->shape, stride);
    for (int32_t i = 0; i < in->shape.rank; i++)
        by[lead + i] = in->shape.dim[i] == 1 ? 0 : stride[i];
    strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), out->shape.rank,
                 out->shape.dim, by);
    return 0;
}

int tile_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc && 2 * kernel_in(op, 0)->shape.rank > SHAPE_RANK_MAX)
        rc = kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d dimensions",
                         kernel_in(op, 0)->shape.rank);
    return rc ? rc : kernel_infer(op, err);
}

#define TILE_BYTES 128 /* from which on copies are worth a call */

struct tile_job {
    const struct nt *in, *out;
    int32_t first, last; /* dimensions that are repeated */
    int64_t outer;       /* blocks: of the dimensions before them */
};

/* What one element of each dimension before d becomes. */
static size_t tile_block(const struct tile_job *j, char *to, const char *from, int32_t d)
{
    const struct shape *s = &j->in->shape;
    int64_t n = s->dim[d], times = j->out->shape.dim[d] / n;
    size_t part = (size_t)nt_span(s, d, s->rank) * nt_width(j->in->type), size = part;

    if (d >= j->last)
        memcpy(to, from, part);
    else
        for (int64_t i = 0, at = size = 0; i < n; i++, at += (int64_t)(part / (size_t)n))
            size += tile_block(j, to + size, from + at, d + 1);
    for (int64_t k = 1; k < times; k++)
        memcpy(to + (size_t)k * size, to, size);
    return size * (size_t)times;
}

static void tile_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct tile_job *j = arg;
    size_t from = j->in->bytes / (size_t)j->outer, to = j->out->bytes / (size_t)j->outer;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        tile_block(j, (char *)j->out->data + (size_t)i * to,
                   (const char *)j->in->data + (size_t)i * from, j->first);
}

/* Whole blocks again and again, where they are long; from the first dimension that is repeated. */
static bool tile_blocks(struct op *op)
{
    struct tile_job j = { kernel_in(op, 0), kernel_out(op, 0), 0, 0, 1 };
    const int64_t *in = j.in->shape.dim, *out = j.out->shape.dim;

    while (j.first < j.in->shape.rank && in[j.first] == out[j.first])
        j.outer *= in[j.first++];
    if (j.first == j.in->shape.rank)
        return false;
    for (int32_t d = j.first; d < j.in->shape.rank; d++)
        j.last = in[d] == out[d] ? j.last : d;
    if (nt_span(&j.in->shape, j.last, j.in->shape.rank) * (int64_t)nt_width(j.in->type) <
            TILE_BYTES ||
        j.outer < pool_threads(kernel_pool(op)))
        return false;
    pool_for(kernel_pool(op), j.outer,
             MAX((int64_t)(16384 * j.outer / (int64_t)j.out->bytes), (int64_t)1), tile_part, &j);
    return true;
}

int tile_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], dim[SHAPE_RANK_MAX], by[SHAPE_RANK_MAX];
    int32_t r = in->shape.rank;

    (void)err;
    if (out->count == 0 || tile_blocks(op))
        return 0;
    strides_of(&in->shape, stride);
    for (int32_t i = 0; i < r; i++) {
        dim[2 * i] = out->shape.dim[i] / in->shape.dim[i];
        by[2 * i] = 0;
        dim[2 * i + 1] = in->shape.dim[i];
        by[2 * i + 1] = stride[i];
    }
    strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), 2 * r, dim, by);
    return 0;
}

int slice_prepare(struct op *op, opm_error *err)
{
    struct slicing *s = kernel_new_state(op, sizeof(*s));
    struct view v;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!s)
        return kernel_nomem(op, err);
    if (rc)
        return rc;
    view_begin(&v, op, err);
    rc = slice_read(&v.base, s);
    view_end(&v);
    if (rc)
        return rc;
    return s->all ? kernel_set(op, 0, kernel_in(op, 0)->type, &s->out, err) : NEED_DATA;
}

int slice_run(struct op *op, opm_error *err)
{
    const struct slicing *s = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], offset = 0;
    size_t w = nt_width(in->type);

    (void)err;
    strides_of(&in->shape, stride);
    for (int32_t i = 0; i < in->shape.rank; i++) {
        offset += s->first[i] * stride[i];
        stride[i] *= s->step[i];
    }
    if (out->count)
        strided_copy(kernel_pool(op), out->data, (const char *)in->data + offset * (int64_t)w, w,
                     out->shape.rank, out->shape.dim, stride);
    return 0;
}

int split_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

int split_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    int64_t outer = nt_span(&in->shape, 0, axis), at = 0;
    size_t inner = (size_t)nt_span(&in->shape, axis + 1, in->shape.rank) * nt_width(in->type);
    size_t row = inner * (size_t)in->shape.dim[axis];

    (void)err;
    for (uint32_t i = 0; i < op->nout; i++) {
        struct nt *out = kernel_out(op, i);
        size_t len;

        if (!out)
            return kernel_fail(op, OPM_EINVAL, err, "output %u is missing", i);
        len = inner * (size_t)out->shape.dim[axis];
        for (int64_t o = 0; o < outer; o++)
            memcpy((char *)out->data + (size_t)o * len,
                   (const char *)in->data + (size_t)o * row + (size_t)at * inner, len);
        at += out->shape.dim[axis];
    }
    return 0;
}

int concat_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    for (uint32_t i = 1; i < op->nin && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(kernel_in(op, 0)->type), err);
    return rc ? rc : kernel_infer(op, err);
}

struct concat_job {
    const struct op *op;
    int axis;
    size_t inner, row;
    bool single; /* one element of each input side by side */
};

#define CONCAT_CASE(T)                                                   \
    case sizeof(T):                                                      \
        for (int64_t o = begin; o < end; o++)                            \
            *(T *)(void *)(to + (size_t)o * row) = ((const T *)from)[o]; \
        break;

/* Parts of one element each. */
static void concat_single(const void *from, char *to, size_t width, size_t row, int64_t begin,
                          int64_t end)
{
    switch (width) {
        CONCAT_CASE(uint8_t)
        CONCAT_CASE(uint16_t)
        CONCAT_CASE(uint32_t)
        CONCAT_CASE(uint64_t)
    }
}

#define PARTS 16u /* that are laid down at a time */

static void concat_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct concat_job *j = arg;
    char *out = kernel_out(j->op, 0)->data;
    size_t w = nt_width(kernel_out(j->op, 0)->type);

    (void)thread;
    if (j->single) {
        for (uint32_t i = 0; i < j->op->nin; i++)
            concat_single(kernel_in(j->op, i)->data, out + i * w, w, j->row, begin, end);
        return;
    }
    for (uint32_t first = 0; first < j->op->nin; first += PARTS) {
        uint32_t n = MIN(j->op->nin - first, PARTS);
        const char *from[PARTS];
        size_t len[PARTS], all = 0;

        for (uint32_t i = 0; i < n; i++) {
            const struct nt *t = kernel_in(j->op, first + i);

            len[i] = j->inner * (size_t)t->shape.dim[j->axis];
            from[i] = (const char *)t->data + (size_t)begin * len[i];
            all += len[i];
        }
        for (int64_t o = begin; o < end; o++) {
            char *to = out + (size_t)o * j->row;

            for (uint32_t i = 0; i < n; to += len[i], from[i] += len[i], i++)
                if (len[i])
                    memcpy(to, from[i], len[i]);
        }
        out += all;
    }
}

int concat_run(struct op *op, opm_error *err)
{
    const struct nt *out = kernel_out(op, 0);
    struct concat_job j = { .op = op };

    (void)err;
    j.axis = nt_axis(node_attr_int(op->node, "axis", op->node->opset < 4 ? 1 : 0), out->shape.rank);
    j.inner = (size_t)nt_span(&out->shape, j.axis + 1, out->shape.rank) * nt_width(out->type);
    j.row = j.inner * (size_t)out->shape.dim[j.axis];
    j.single = j.row == op->nin * nt_width(out->type) && j.inner <= sizeof(uint64_t);
    for (uint32_t i = 0; i < op->nin; i++)
        j.single &= kernel_in(op, i)->shape.dim[j.axis] == 1 && j.inner == nt_width(out->type);
    if (out->count)
        pool_for(kernel_pool(op), nt_span(&out->shape, 0, j.axis),
                 MAX((int64_t)(65536 / MAX(j.row, (size_t)1)), (int64_t)1), concat_part, &j);
    return 0;
}

int depthspace_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    return rc ? rc : kernel_infer(op, err);
}

int depthspace_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    const int64_t *d = in->shape.dim;
    int64_t b = node_attr_int(op->node, "blocksize", 1), n = d[0], c = d[1], h = d[2], w = d[3];
    bool dcr = node_attr_is(op->node, "mode", "DCR", "DCR");

    (void)err;
    if (out->count == 0)
        return 0;
    if (op->kernel->arg == SPACE_TO_DEPTH && dcr) {
        /* n, bh, bw, c, h', w' of an input n, c, h', bh, w', bw */
        int64_t dim[] = { n, b, b, c, h / b, w / b };
        int64_t by[] = { c * h * w, w, 1, h * w, b * w, b };

        strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), 6, dim, by);
    } else if (op->kernel->arg == SPACE_TO_DEPTH) { /* n, c, bh, bw, h', w' */
        int64_t dim[] = { n, c, b, b, h / b, w / b };
        int64_t by[] = { c * h * w, h * w, w, 1, b * w, b };

        strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), 6, dim, by);
    } else { /* n, c', h, bh, w, bw */
        int64_t co = c / (b * b), cs = dcr ? h * w : b * b * h * w;
        int64_t bh = dcr ? b * co * h * w : b * h * w, bw = dcr ? co * h * w : h * w;
        int64_t dim[] = { n, co, h, b, w, b };
        int64_t by[] = { c * h * w, cs, w, bh, 1, bw };

        strided_copy(kernel_pool(op), out->data, in->data, nt_width(in->type), 6, dim, by);
    }
    return 0;
}
