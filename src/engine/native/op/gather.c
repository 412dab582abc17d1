/* gather.c -- Gather, GatherElements, GatherND, ScatterElements, ScatterND. Every index is checked.
 */
#include "engine/native/isa/half.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

/* Index i of an int32 or int64 tensor, counted from the end if negative; -1: out of range. */
static inline int64_t index_at(const struct nt *t, int64_t i, int64_t n)
{
    int64_t v =
        t->type == TENSOR_I64 ? ((const int64_t *)t->data)[i] : ((const int32_t *)t->data)[i];

    if (v < 0)
        v += n;
    return v >= 0 && v < n ? v : -1;
}

static int bad_index(const struct op *op, int64_t i, int64_t n, opm_error *err)
{
    return kernel_fail(op, OPM_EINVAL, err, "index %lld of %lld is out of range", (long long)i,
                       (long long)n);
}

int gather_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    return rc ? rc : kernel_infer(op, err);
}

int gather_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1);
    int axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    int64_t outer = nt_span(&in->shape, 0, axis), n = in->shape.dim[axis];
    int64_t count = nt_span(&in->shape, axis + 1, in->shape.rank);
    const struct tensor *half = kernel_half(op, 0), *plain = half ? half : kernel_const(op, 0);
    const char *from = plain ? plain->data : in->data;
    size_t inner = (size_t)count * nt_width(in->type), step = half ? (size_t)count * 2 : inner;
    char *to = kernel_out(op, 0)->data;

    if (kernel_out(op, 0)->count == 0)
        return 0;
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < index->count; i++, to += inner) {
            int64_t k = index_at(index, i, n);

            if (k < 0)
                return bad_index(op, nt_int(index, i), n, err);
            if (half)
                half_to_float((float *)(void *)to, from + (size_t)(o * n + k) * step, count,
                              half->type);
            else
                memcpy(to, from + (size_t)(o * n + k) * step, inner);
        }
    return 0;
}

int gatherelements_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    return rc ? rc : kernel_infer(op, err);
}

/* Rows of `index`'s shape, along its last dimension, and where each begins in `in` but for the
 * coordinate of axis, which the indices give. */
struct walker {
    int64_t idx[SHAPE_RANK_MAX], stride[SHAPE_RANK_MAX], at;
    int axis;
    const struct shape *shape;
};

static void walker_init(struct walker *w, const struct shape *in, const struct shape *index,
                        int axis)
{
    int64_t step = 1;

    *w = (struct walker){ .axis = axis, .shape = index };
    for (int32_t i = in->rank - 1; i >= 0; i--) {
        w->stride[i] = step;
        step *= in->dim[i];
    }
}

static void walker_next(struct walker *w)
{
    for (int32_t i = w->shape->rank - 2; i >= 0; i--) {
        if (i != w->axis)
            w->at += w->stride[i];
        if (++w->idx[i] < w->shape->dim[i])
            return;
        if (i != w->axis)
            w->at -= w->idx[i] * w->stride[i];
        w->idx[i] = 0;
    }
}

#define INDEX_ROOM 256

#define MOVE(T)                                                            \
    for (int64_t k = 0; k < m; k++)                                        \
        if (scatter)                                                       \
            ((T *)(void *)to)[at[k]] = ((const T *)(const void *)from)[k]; \
        else                                                               \
            ((T *)(void *)to)[k] = ((const T *)(const void *)from)[at[k]]; \
    break

/* A row by its n indices from `first` on: from[k * step + i * along] goes to to[i], or if scatter
 * the other way round. -1, or the index that is out of range. */
static inline int64_t move_row(rows_places_fn *places, char *to, const char *from,
                               const struct nt *index, int64_t first, int64_t n, int64_t size,
                               int64_t step, int64_t along, size_t width, const bool scatter)
{
    int64_t at[INDEX_ROOM], w = (int64_t)width, iw = (int64_t)nt_width(index->type);

    for (int64_t i = 0; i < n; i += INDEX_ROOM) {
        int64_t m = MIN(n - i, (int64_t)INDEX_ROOM);

        if (!places(at, (const char *)index->data + (first + i) * iw, m, size, step, along)) {
            while (index_at(index, first + i, size) >= 0)
                i++;
            return first + i;
        }
        switch (width) {
        case 1:
            MOVE(uint8_t);
        case 2:
            MOVE(uint16_t);
        case 4:
            MOVE(uint32_t);
        case 8:
            MOVE(uint64_t);
        default:
            for (int64_t k = 0; k < m; k++)
                memcpy(to + (scatter ? at[k] : k) * w, from + (scatter ? k : at[k]) * w, width);
        }
        to += (scatter ? along * INDEX_ROOM : INDEX_ROOM) * w;
        from += (scatter ? INDEX_ROOM : along * INDEX_ROOM) * w;
    }
    return -1;
}

int gatherelements_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1);
    int axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    int32_t last = index->shape.rank - 1;
    int64_t size = in->shape.dim[axis], row = index->shape.dim[last];
    size_t w = nt_width(in->type);
    char *to = kernel_out(op, 0)->data;
    rows_places_fn *places = kernel_isa(op)->rows->places[index->type == TENSOR_I64];
    struct walker walk;

    walker_init(&walk, &in->shape, &index->shape, axis);
    for (int64_t i = 0; i < index->count; i += row, walker_next(&walk)) {
        int64_t bad =
            move_row(places, to + (size_t)i * w, (const char *)in->data + (size_t)walk.at * w,
                     index, i, row, size, walk.stride[axis], axis != last, w, false);

        if (bad >= 0)
            return bad_index(op, nt_int(index, bad), size, err);
    }
    return 0;
}

#define REDUCE_CASE(TYPE, T, U)                   \
    case TENSOR_##TYPE: {                         \
        T a, b;                                   \
        memcpy(&a, to, sizeof(a));                \
        memcpy(&b, from, sizeof(b));              \
        a = r == SCATTER_ADD   ? (T)((U)a + (U)b) \
            : r == SCATTER_MUL ? (T)((U)a * (U)b) \
            : r == SCATTER_MAX ? MAX(a, b)        \
                               : MIN(a, b);       \
        memcpy(to, &a, sizeof(a));                \
        break;                                    \
    }

static void put(enum tensor_type type, enum scatter_reduction r, char *to, const char *from)
{
    if (r == SCATTER_SET) {
        memcpy(to, from, nt_width(type));
        return;
    }
    switch (type) {
        REDUCE_CASE(F32, float, float)
        REDUCE_CASE(F64, double, double)
        REDUCE_CASE(I8, int8_t, int64_t)
        REDUCE_CASE(I16, int16_t, int64_t)
        REDUCE_CASE(I32, int32_t, int64_t)
        REDUCE_CASE(I64, int64_t, uint64_t)
        REDUCE_CASE(U8, uint8_t, uint64_t)
        REDUCE_CASE(U16, uint16_t, uint64_t)
        REDUCE_CASE(U32, uint32_t, uint64_t)
        REDUCE_CASE(U64, uint64_t, uint64_t)
    default:
        break;
    }
}

static int reduction(const struct op *op, enum scatter_reduction *out, opm_error *err)
{
    static const char *const name[] = { "none", "add", "mul", "max", "min" };
    const char *r = node_attr_str(op->node, "reduction", "none");

    for (size_t i = 0; i < ARRAY_SIZE(name); i++)
        if (strcmp(r, name[i]) == 0) {
            *out = (enum scatter_reduction)i;
            if (i && !(TYPE_BIT(kernel_in(op, 0)->type) & TYPES_NUM))
                break;
            return 0;
        }
    return kernel_fail(op, OPM_EUNSUPPORTED, err, "reduction '%.20s'", r);
}

/* What is scattered into, where, and what. */
static int scatter_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    if (!rc)
        rc = kernel_want(op, 2, TYPE_BIT(kernel_in(op, 0)->type), err);
    return rc ? rc : kernel_infer(op, err);
}

int scatterelements_prepare(struct op *op, opm_error *err)
{
    return scatter_prepare(op, err);
}

int scatterelements_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1), *up = kernel_in(op, 2);
    int axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    size_t w = nt_width(in->type);
    char *to = kernel_out(op, 0)->data;
    int64_t size, row;
    enum scatter_reduction r;
    struct walker walk;
    int32_t last;
    int rc = reduction(op, &r, err);

    if (rc)
        return rc;
    if (to != in->data && in->bytes)
        memcpy(to, in->data, in->bytes);
    size = in->shape.dim[axis];
    last = index->shape.rank - 1;
    row = index->shape.dim[last];
    walker_init(&walk, &in->shape, &index->shape, axis);
    for (int64_t i = 0; i < index->count; i += row, walker_next(&walk)) {
        char *base = to + (size_t)walk.at * w;
        const char *from = (const char *)up->data + (size_t)i * w;
        int64_t bad = -1;

        if (r == SCATTER_SET)
            bad = move_row(kernel_isa(op)->rows->places[index->type == TENSOR_I64], base, from,
                           index, i, row, size, walk.stride[axis], axis != last, w, true);
        for (int64_t k = 0; k < row && r != SCATTER_SET && bad < 0; k++) {
            int64_t at = index_at(index, i + k, size);

            if (at < 0)
                bad = i + k;
            else
                put(in->type, r,
                    base + (size_t)(at * walk.stride[axis] + (axis != last ? k : 0)) * w,
                    from + (size_t)k * w);
        }
        if (bad >= 0)
            return bad_index(op, nt_int(index, bad), size, err);
    }
    return 0;
}

int gathernd_prepare(struct op *op, opm_error *err)
{
    int rc = kernel_want(op, 0, TYPES_BYTES, err);

    if (!rc)
        rc = kernel_want(op, 1, TYPES_INDEX, err);
    return rc ? rc : kernel_infer(op, err);
}

/* Offset of a tuple of k indices, the first of which is for dimension `first`. -1: out of range. */
static int64_t tuple_offset(const struct nt *index, int64_t at, int64_t k, const struct shape *s,
                            int64_t first)
{
    int64_t off = 0;

    for (int64_t i = 0; i < k; i++) {
        int64_t v = index_at(index, at + i, s->dim[first + i]);

        if (v < 0)
            return -1;
        off = off * s->dim[first + i] + v;
    }
    return off;
}

int gathernd_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1);
    int64_t b = node_attr_int(op->node, "batch_dims", 0),
            k = index->shape.dim[index->shape.rank - 1];
    int64_t batches = nt_span(&in->shape, 0, (int)b),
            tuples = nt_span(&index->shape, (int)b, index->shape.rank - 1);
    int64_t rows = nt_span(&in->shape, (int)b, (int)(b + k));
    size_t inner = (size_t)nt_span(&in->shape, (int)(b + k), in->shape.rank) * nt_width(in->type);
    char *to = kernel_out(op, 0)->data;

    if (kernel_out(op, 0)->count == 0)
        return 0;
    for (int64_t n = 0; n < batches; n++)
        for (int64_t t = 0; t < tuples; t++, to += inner) {
            int64_t off = tuple_offset(index, (n * tuples + t) * k, k, &in->shape, b);

            if (off < 0)
                return kernel_fail(op, OPM_EINVAL, err, "an index is out of range");
            if (inner == 4)
                memcpy(to, (const char *)in->data + (size_t)(n * rows + off) * 4, 4);
            else
                memcpy(to, (const char *)in->data + (size_t)(n * rows + off) * inner, inner);
        }
    return 0;
}

int scatternd_prepare(struct op *op, opm_error *err)
{
    return scatter_prepare(op, err);
}

int scatternd_run(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *index = kernel_in(op, 1), *up = kernel_in(op, 2);
    int64_t k = index->shape.dim[index->shape.rank - 1];
    int64_t tuples = nt_span(&index->shape, 0, index->shape.rank - 1),
            inner = nt_span(&in->shape, (int)k, in->shape.rank);
    size_t w = nt_width(in->type);
    char *out = kernel_out(op, 0)->data;
    enum scatter_reduction r;
    int rc = reduction(op, &r, err);

    if (rc)
        return rc;
    if (out != in->data && in->bytes)
        memcpy(out, in->data, in->bytes);
    if (up->count == 0)
        return 0;
    for (int64_t t = 0; t < tuples; t++) {
        int64_t off = tuple_offset(index, t * k, k, &in->shape, 0);

        if (off < 0)
            return kernel_fail(op, OPM_EINVAL, err, "an index is out of range");
        if (r == SCATTER_SET && inner == 1 && w == 4)
            memcpy(out + off * 4, (const char *)up->data + t * 4, 4);
        else if (r == SCATTER_SET)
            memcpy(out + (size_t)(off * inner) * w,
                   (const char *)up->data + (size_t)(t * inner) * w, (size_t)inner * w);
        else if (r == SCATTER_ADD && in->type == TENSOR_F32)
            kernel_isa(op)->binary(B_ADD, (float *)(void *)out + off * inner,
                                   (const float *)(const void *)out + off * inner, 1,
                                   (const float *)up->data + t * inner, 1, inner);
        else
            for (int64_t i = 0; i < inner; i++)
                put(in->type, r, out + (size_t)(off * inner + i) * w,
                    (const char *)up->data + (size_t)(t * inner + i) * w);
    }
    return 0;
}
