/* move.c -- Transpose, Expand, Tile, Slice, Split, Concat, Pad, DepthToSpace, ...: elements go
 * elsewhere, unchanged. */
#include "engine/native/math/broadcast.h"
#include "engine/native/op/kernels.h"

#include <string.h>

static void strides_of(const struct shape *s, int64_t *stride)
{
    int64_t step = 1;

    for (int32_t i = s->rank - 1; i >= 0; i--) {
        stride[i] = step;
        step *= s->dim[i];
    }
}

static int get_perm(const struct op *op, int *perm, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    bool seen[SHAPE_RANK_MAX] = { false };
    size_t n;
    const int64_t *a = node_attr_ints(op->node, "perm", &n);

    if (!node_attr(op->node, "perm")) {
        for (int32_t i = 0; i < in->shape.rank; i++)
            perm[i] = in->shape.rank - 1 - i;
        return 0;
    }
    if (n != (size_t)in->shape.rank)
        return kernel_fail(op, OPM_EINVAL, err, "perm has %zu entries for %d dimensions", n,
                           in->shape.rank);
    for (size_t i = 0; i < n; i++) {
        perm[i] = nt_axis(a[i], in->shape.rank);
        if (perm[i] < 0 || seen[perm[i]])
            return kernel_fail(op, OPM_EINVAL, err, "perm is no permutation");
        seen[perm[i]] = true;
    }
    return 0;
}

int transpose_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int perm[SHAPE_RANK_MAX];
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = get_perm(op, perm, err);
    if (rc)
        return rc;
    s.rank = in->shape.rank;
    for (int32_t i = 0; i < s.rank; i++)
        s.dim[i] = in->shape.dim[perm[i]];
    return kernel_set(op, 0, in->type, &s, err);
}

int transpose_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], by[SHAPE_RANK_MAX];
    int perm[SHAPE_RANK_MAX];
    int rc = get_perm(op, perm, err);

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
    int64_t dim[SHAPE_RANK_MAX];
    struct shape s, to = { 0 };
    size_t n;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_ints(op, 1, dim, SHAPE_RANK_MAX, &n, err);
    if (rc)
        return rc;
    s = kernel_in(op, 0)->shape;
    to.rank = (int32_t)n;
    for (size_t i = 0; i < n; i++) {
        if (dim[i] < 0)
            return kernel_fail(op, OPM_EINVAL, err, "dimension %lld", (long long)dim[i]);
        to.dim[i] = dim[i];
    }
    if (!broadcast_join(&s, &to))
        return kernel_fail(op, OPM_EINVAL, err, "the input does not expand to this shape");
    return kernel_set(op, 0, kernel_in(op, 0)->type, &s, err);
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

/* Opset 1 has one axis and a count for it; later, a count for each. */
int tile_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t times[SHAPE_RANK_MAX];
    struct shape s;
    size_t n;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_ints(op, 1, times, SHAPE_RANK_MAX, &n, err);
    if (rc)
        return rc;
    s = in->shape;
    if (n != (size_t)s.rank || 2 * s.rank > SHAPE_RANK_MAX)
        return kernel_fail(op, OPM_EINVAL, err, "%zu repeats for %d dimensions", n, s.rank);
    for (int32_t i = 0; i < s.rank; i++)
        if (times[i] < 0 || __builtin_mul_overflow(s.dim[i], times[i], &s.dim[i]))
            return kernel_fail(op, OPM_EINVAL, err, "%lld repeats", (long long)times[i]);
    return kernel_set(op, 0, in->type, &s, err);
}

int tile_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], dim[SHAPE_RANK_MAX], by[SHAPE_RANK_MAX];
    int32_t r = in->shape.rank;

    (void)err;
    if (out->count == 0)
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

struct slice_args {
    int64_t start[SHAPE_RANK_MAX], step[SHAPE_RANK_MAX];
    struct shape out;
};

static int slice_lists(struct op *op, int64_t list[4][SHAPE_RANK_MAX], size_t *n, size_t *naxes,
                       size_t *nsteps, opm_error *err)
{
    size_t nend;
    int rc;

    *naxes = *nsteps = 0;
    if (op->node->opset < 10) {
        static const char *const name[] = { "starts", "ends", "axes" };
        size_t len[3];

        for (int i = 0; i < 3; i++) {
            const int64_t *a = node_attr_ints(op->node, name[i], &len[i]);

            if (len[i] > SHAPE_RANK_MAX)
                return kernel_fail(op, OPM_EINVAL, err, "%zu %s", len[i], name[i]);
            for (size_t k = 0; k < len[i]; k++)
                list[i][k] = a[k];
        }
        *n = len[0];
        nend = len[1];
        *naxes = len[2];
    } else {
        rc = kernel_ints(op, 1, list[0], SHAPE_RANK_MAX, n, err);
        if (!rc)
            rc = kernel_ints(op, 2, list[1], SHAPE_RANK_MAX, &nend, err);
        if (!rc)
            rc = kernel_ints(op, 3, list[2], SHAPE_RANK_MAX, naxes, err);
        if (!rc)
            rc = kernel_ints(op, 4, list[3], SHAPE_RANK_MAX, nsteps, err);
        if (rc)
            return rc;
    }
    if (nend != *n || (*naxes && *naxes != *n) || (*nsteps && *nsteps != *n))
        return kernel_fail(op, OPM_EINVAL, err, "starts, ends, axes and steps differ in length");
    return 0;
}

static int slice_args(struct op *op, struct slice_args *a, opm_error *err)
{
    const struct shape *in = &kernel_in(op, 0)->shape;
    int64_t list[4][SHAPE_RANK_MAX];
    size_t n, naxes, nsteps;
    int rc = slice_lists(op, list, &n, &naxes, &nsteps, err);

    if (rc)
        return rc;
    a->out = *in;
    for (int32_t i = 0; i < in->rank; i++) {
        a->start[i] = 0;
        a->step[i] = 1;
    }
    for (size_t i = 0; i < n; i++) {
        int ax = nt_axis(naxes ? list[2][i] : (int64_t)i, in->rank);
        int64_t step = nsteps ? list[3][i] : 1, b = list[0][i], e = list[1][i], d, len;

        if (ax < 0 || step == 0 || step == INT64_MIN)
            return kernel_fail(op, OPM_EINVAL, err,
                               ax < 0 ? "an axis is out of range" : "a step is 0");
        d = in->dim[ax];
        b = b < 0 ? MAX(b, -d - 1) + d : b; /* no overflow: clamped first */
        e = e < 0 ? MAX(e, -d - 1) + d : e;
        if (step > 0) {
            b = MIN(MAX(b, (int64_t)0), d);
            e = MIN(MAX(e, (int64_t)0), d);
            len = e > b ? (e - b - 1) / step + 1 : 0;
        } else {
            b = MIN(MAX(b, (int64_t)-1), d - 1);
            e = MIN(MAX(e, (int64_t)-1), d - 1);
            len = b > e ? (b - e - 1) / -step + 1 : 0;
        }
        a->start[ax] = len ? b : 0;
        a->step[ax] = len > 1 ? step : 1;
        a->out.dim[ax] = len;
    }
    return 0;
}

int slice_prepare(struct op *op, opm_error *err)
{
    struct slice_args *a = kernel_new_state(op, sizeof(*a));
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!a)
        return kernel_nomem(op, err);
    if (!rc)
        rc = slice_args(op, a, err);
    return rc ? rc : kernel_set(op, 0, kernel_in(op, 0)->type, &a->out, err);
}

int slice_run(struct op *op, opm_error *err)
{
    const struct slice_args *a = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    int64_t stride[SHAPE_RANK_MAX], offset = 0;
    size_t w = nt_width(in->type);

    (void)err;
    strides_of(&in->shape, stride);
    for (int32_t i = 0; i < in->shape.rank; i++) {
        offset += a->start[i] * stride[i];
        stride[i] *= a->step[i];
    }
    if (out->count)
        strided_copy(kernel_pool(op), out->data, (const char *)in->data + offset * (int64_t)w, w,
                     out->shape.rank, out->shape.dim, stride);
    return 0;
}

int split_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int rc = kernel_want(op, 0, TYPES_BYTES, err);
    const int64_t *sizes;
    struct shape s;
    size_t n;
    int axis;

    if (rc)
        return rc;
    axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    sizes = node_attr_ints(op->node, "split", &n);
    if (kernel_in(op, 1)) {
        if (!(TYPE_BIT(kernel_in(op, 1)->type) & TYPE_BIT(TENSOR_I64)))
            return kernel_fail(op, OPM_EINVAL, err, "sizes must be int64");
        sizes = kernel_data(op, 1);
        if (!sizes)
            return NEED_DATA;
        n = (size_t)kernel_in(op, 1)->count;
    }
    if (n && n != op->nout)
        return kernel_fail(op, OPM_EINVAL, err, "%zu sizes for %u outputs", n, op->nout);
    s = in->shape;
    int64_t left = in->shape.dim[axis], part = (left + op->nout - 1) / MAX(op->nout, 1u);

    for (uint32_t i = 0; i < op->nout && !rc; i++) {
        s.dim[axis] = n ? sizes[i] : MIN(part, left);
        if (s.dim[axis] < 0 || s.dim[axis] > left)
            return kernel_fail(op, OPM_EINVAL, err, "sizes do not add up to %lld",
                               (long long)in->shape.dim[axis]);
        left -= s.dim[axis];
        rc = kernel_set(op, i, in->type, &s, err);
    }
    if (!rc && left)
        rc = kernel_fail(op, OPM_EINVAL, err, "sizes do not add up to %lld",
                         (long long)in->shape.dim[axis]);
    return rc;
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
    int rc = kernel_want(op, 0, TYPES_BYTES, err), axis;
    struct shape s;

    if (rc)
        return rc;
    s = kernel_in(op, 0)->shape;
    axis = nt_axis(node_attr_int(op->node, "axis", op->node->opset < 4 ? 1 : 0), s.rank);
    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    for (uint32_t i = 1; i < op->nin; i++) {
        const struct nt *t = kernel_in(op, i);
        bool fits;

        rc = kernel_want(op, i, TYPE_BIT(kernel_in(op, 0)->type), err);
        if (rc)
            return rc;
        fits = t->shape.rank == s.rank;
        for (int32_t d = 0; fits && d < s.rank; d++)
            fits = d == axis || t->shape.dim[d] == s.dim[d];
        if (!fits || __builtin_add_overflow(s.dim[axis], t->shape.dim[axis], &s.dim[axis]))
            return kernel_fail(op, OPM_EINVAL, err, "input %u does not fit the others", i);
    }
    return kernel_set(op, 0, kernel_in(op, 0)->type, &s, err);
}

struct concat_job {
    const struct op *op;
    int axis;
    size_t inner, row;
};

static void concat_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct concat_job *j = arg;
    char *out = kernel_out(j->op, 0)->data;

    (void)thread;
    for (int64_t o = begin; o < end; o++) {
        char *to = out + (size_t)o * j->row;

        for (uint32_t i = 0; i < j->op->nin; i++) {
            const struct nt *t = kernel_in(j->op, i);
            size_t len = j->inner * (size_t)t->shape.dim[j->axis];

            if (len)
                memcpy(to, (const char *)t->data + (size_t)o * len, len);
            to += len;
        }
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
    if (out->count)
        pool_for(kernel_pool(op), nt_span(&out->shape, 0, j.axis),
                 MAX((int64_t)(65536 / MAX(j.row, (size_t)1)), (int64_t)1), concat_part, &j);
    return 0;
}

/* DepthToSpace and SpaceToDepth are transpositions of a view of six dimensions. */
int depthspace_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    int64_t b = node_attr_int(op->node, "blocksize", 0), bb;
    struct shape s;
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (rc)
        return rc;
    s = in->shape;
    if (s.rank != 4 || b <= 0 || __builtin_mul_overflow(b, b, &bb))
        return kernel_fail(op, OPM_EINVAL, err, "wants NCHW and a block size");
    if (op->kernel->arg ? s.dim[2] % b || s.dim[3] % b : s.dim[1] % bb)
        return kernel_fail(op, OPM_EINVAL, err, "the input does not divide into blocks of %lld",
                           (long long)b);
    if (op->kernel->arg) {
        s.dim[1] *= bb;
        s.dim[2] /= b;
        s.dim[3] /= b;
    } else {
        s.dim[1] /= bb;
        if (__builtin_mul_overflow(s.dim[2], b, &s.dim[2]) ||
            __builtin_mul_overflow(s.dim[3], b, &s.dim[3]))
            return kernel_fail(op, OPM_EINVAL, err, "block size is too big");
    }
    return kernel_set(op, 0, in->type, &s, err);
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
    if (op->kernel->arg) { /* n, bh, bw, c, h', w' of an input n, c, h', bh, w', bw */
        int64_t dim[] = { n, b, b, c, h / b, w / b };
        int64_t by[] = { c * h * w, w, 1, h * w, b * w, b };

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
