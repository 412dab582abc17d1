/* move.c -- operators that cut, join and turn tensors: Concat, Split, Transpose, ... */
#include "graph/ops/args.h"
#include "graph/ops/known.h"

int transpose_perm(const struct opview *o, int rank, int *perm)
{
    size_t len;
    const int64_t *given = node_attr_ints(o->n, "perm", &len);
    bool used[SHAPE_RANK_MAX] = { 0 };

    for (int i = 0; !given && i < rank; i++)
        perm[i] = rank - 1 - i;
    if (!given)
        return 0;
    if (len != (size_t)rank)
        return op_fail(o, "attribute 'perm' has %zu numbers, the input %d dimensions", len, rank);
    for (int i = 0; i < rank; i++) {
        int64_t p = given[i] < 0 ? given[i] + rank : given[i];

        if (p < 0 || p >= rank || used[p])
            return op_fail(o, "attribute 'perm' is no permutation");
        used[p] = true;
        perm[i] = (int)p;
    }
    return 0;
}

int infer_transpose(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    size_t len;
    bool given = node_attr_ints(o->n, "perm", &len) && len <= SHAPE_RANK_MAX;
    int perm[SHAPE_RANK_MAX], rc = 0;
    struct shape s = *x;

    if (x->rank >= 0)
        rc = transpose_perm(o, x->rank, perm);
    else if (given)
        s = shape_of_rank((int)len);
    if (rc)
        return rc;
    for (int32_t i = 0; i < x->rank; i++)
        s.dim[i] = x->dim[perm[i]];
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* Inputs from `first` on, `each` slots apart. */
static int concat(const struct opview *o, uint32_t first, uint32_t each, struct shape *out)
{
    struct shape s = shape_unknown();
    int64_t along = 0;
    int axis = 0, rc;

    for (uint32_t i = first; i < o->nin && s.rank < 0; i += each)
        s = *op_shape(o, i);
    *out = s;
    if (s.rank < 0)
        return 0;
    if (!node_attr(o->n, "axis") && o->n->opset >= 4)
        return op_fail(o, "attribute 'axis' is missing");
    rc = op_axis(o, op_int(o, "axis", 1), s.rank, &axis);
    if (rc)
        return rc;
    for (uint32_t i = first; i < o->nin; i += each) {
        const struct shape *x = op_shape(o, i);

        if (x->rank < 0) {
            along = DIM_OPEN;
            continue;
        }
        if (x->rank != s.rank)
            return op_fail(o, "inputs of %d and %d dimensions", s.rank, x->rank);
        for (int k = 0; k < s.rank; k++) {
            if (k == axis)
                continue;
            if (s.dim[k] >= 0 && x->dim[k] >= 0 && s.dim[k] != x->dim[k])
                return op_fail(o, "inputs with %lld and %lld in dimension %d", (long long)s.dim[k],
                               (long long)x->dim[k], k);
            if (s.dim[k] < 0 && (x->dim[k] >= 0 || s.dim[k] == DIM_OPEN))
                s.dim[k] = x->dim[k];
        }
        along = along == DIM_OPEN ? DIM_OPEN : dim_add(along, x->dim[axis]);
    }
    s.dim[axis] = along;
    *out = s;
    return 0;
}

int infer_concat(const struct opview *o)
{
    enum tensor_type type = TENSOR_NONE;
    struct shape s;
    int rc = concat(o, 0, 1, &s);

    if (rc)
        return rc;
    for (uint32_t i = 0; i < o->nin && type == TENSOR_NONE; i++)
        type = op_type(o, i);
    op_set(o, 0, type, &s);
    return 0;
}

/* com.microsoft's QLinearConcat: the result's scale and zero point, then each input with its own.
 */
int infer_qlinear_concat(const struct opview *o)
{
    struct shape s;
    int rc = concat(o, 2, 3, &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 1), &s);
    return 0;
}

/* Sizes of the pieces of Split: given, or equal, the last one smaller since opset 18. */
static int split_size(const struct opview *o, const int64_t *given, int64_t n, int64_t dim,
                      uint32_t i, int64_t *out)
{
    uint32_t pieces = o->nout;
    int64_t size;

    *out = DIM_OPEN;
    if (n > 0) {
        if ((int64_t)i >= n)
            return op_fail(o, "%u outputs, but sizes for %lld", pieces, (long long)n);
        if (given[i] < 0)
            return op_fail(o, "a piece of %lld", (long long)given[i]);
        *out = given[i];
        return 0;
    }
    if (dim < 0 || n < 0)
        return 0;
    if (dim % pieces != 0 && !(o->n->opset >= 18 && op_int(o, "num_outputs", 0) > 0))
        return op_fail(o, "%lld elements in %u equal pieces", (long long)dim, pieces);
    size = dim / pieces + (dim % pieces != 0);
    *out = i + 1 < pieces ? size : dim - size * (pieces - 1);
    return *out < 0 ? op_fail(o, "%lld elements in %u pieces", (long long)dim, pieces) : 0;
}

#define SPLIT_MAX 4096

int infer_split(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    int64_t given[SPLIT_MAX], n, sum = 0;
    bool is_given;
    struct shape s;
    int rc = op_list(o, "split", 1, given, SPLIT_MAX, &n, &is_given), axis;

    if (rc)
        return rc;
    if (x->rank < 0) {
        for (uint32_t i = 0; i < o->nout; i++)
            op_set(o, i, op_type(o, 0), NULL);
        return 0;
    }
    rc = op_axis(o, op_int(o, "axis", 0), x->rank, &axis);
    if (rc)
        return rc;
    for (uint32_t i = 0; !rc && i < o->nout; i++) {
        s = *x;
        rc = split_size(o, given, n, x->dim[axis], i, &s.dim[axis]);
        op_set(o, i, op_type(o, 0), &s);
    }
    for (int64_t i = 0; i < n; i++)
        sum = dim_add(sum, given[i]);
    if (!rc && n > 0 && sum >= 0 && x->dim[axis] >= 0 && sum != x->dim[axis])
        return op_fail(o, "pieces of %lld in all of %lld elements", (long long)sum,
                       (long long)x->dim[axis]);
    return rc;
}

/* Tile before opset 6: how often, and along which axis. */
int infer_tile_axis(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);

    if (s.rank >= 0)
        s = shape_of_rank(s.rank);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_tile(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    const struct elems *times = op_known_ints(o, 1);

    if (s.rank >= 0 && !times) {
        s = shape_of_rank(s.rank);
    } else if (s.rank >= 0) {
        if (times->n != s.rank)
            return op_fail(o, "%lld repeats of %d dimensions", (long long)times->n, s.rank);
        for (int32_t i = 0; i < s.rank; i++) {
            if (!elem_open(times->i[i]) && times->i[i] < 0)
                return op_fail(o, "repeats %lld times", (long long)times->i[i]);
            s.dim[i] = dim_mul(s.dim[i], dim_of_elem(times->i[i]));
        }
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int pad_read(const struct opview *o, int rank, int64_t *before, int64_t *after, bool *known)
{
    const char *attr = node_attr(o->n, "paddings") ? "paddings" : "pads";
    int64_t pads[2 * SHAPE_RANK_MAX], axes[SHAPE_RANK_MAX], n, naxes = 0;
    bool given, axes_given = false;
    int rc = op_list(o, attr, 1, pads, 2 * SHAPE_RANK_MAX, &n, &given), axis;

    if (!rc)
        rc = op_list(o, "axes", 3, axes, SHAPE_RANK_MAX, &naxes, &axes_given);
    if (!rc && !given)
        rc = op_fail(o, "has no pads");
    *known = !rc && n >= 0 && naxes >= 0;
    for (int i = 0; i < rank; i++)
        before[i] = after[i] = 0;
    if (!*known)
        return rc;
    if (!axes_given)
        naxes = rank;
    if (n != 2 * naxes)
        return op_fail(o, "%lld pads for %lld dimensions", (long long)n, (long long)naxes);
    for (int64_t i = 0; i < naxes; i++) {
        axis = (int)i;
        if (axes_given)
            rc = op_axis(o, axes[i], rank, &axis);
        if (rc)
            return rc;
        before[axis] = pads[i];
        after[axis] = pads[i + naxes];
    }
    return 0;
}

int infer_pad(const struct opview *o)
{
    struct shape s = *op_shape(o, 0);
    int64_t before[SHAPE_RANK_MAX], after[SHAPE_RANK_MAX], more;
    bool known = false;
    int rc = s.rank < 0 ? 0 : pad_read(o, s.rank, before, after, &known);

    if (rc)
        return rc;
    if (!known && s.rank >= 0)
        s = shape_of_rank(s.rank);
    for (int32_t i = 0; known && i < s.rank; i++) {
        int64_t dim = s.dim[i];

        if (__builtin_add_overflow(before[i], after[i], &more))
            return op_fail(o, "pads of %lld and %lld", (long long)before[i], (long long)after[i]);
        if (more == 0)
            continue;
        if (dim < 0 || __builtin_add_overflow(dim, more, &s.dim[i]))
            s.dim[i] = DIM_OPEN;
        else if (s.dim[i] < 0)
            return op_fail(o, "pads %lld elements by %lld", (long long)dim, (long long)more);
    }
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

/* The block size, and the result as far as both operators agree; *known: there is an image. */
static int blocks(const struct opview *o, int64_t *size, struct shape *out, bool *known)
{
    const struct shape *x = op_shape(o, 0);

    *size = op_int(o, "blocksize", 0);
    *known = x->rank == 4;
    *out = shape_of_rank(4);
    if (*size < 1 || *size > INT32_MAX)
        return op_fail(o, "attribute 'blocksize' is %lld", (long long)*size);
    if (x->rank >= 0 && x->rank != 4)
        return op_fail(o, "input has %d dimensions", x->rank);
    if (*known)
        out->dim[0] = x->dim[0];
    return 0;
}

/* A dimension in blocks of n. */
static int parted(const struct opview *o, const char *what, int64_t dim, int64_t n, int64_t *out)
{
    *out = dim >= 0 ? dim / n : DIM_OPEN;
    if (dim >= 0 && dim % n)
        return op_fail(o, "%lld %s in blocks of %lld", (long long)dim, what, (long long)n);
    return 0;
}

int infer_depth_to_space(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape s;
    bool known;
    int64_t b;
    int rc = blocks(o, &b, &s, &known);

    if (!rc && known)
        rc = parted(o, "channels", x->dim[1], b * b, &s.dim[1]);
    if (rc)
        return rc;
    for (int i = 2; i < 4 && known; i++)
        s.dim[i] = dim_mul(x->dim[i], b);
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

int infer_space_to_depth(const struct opview *o)
{
    const struct shape *x = op_shape(o, 0);
    struct shape s;
    bool known;
    int64_t b;
    int rc = blocks(o, &b, &s, &known);

    if (!rc && known)
        s.dim[1] = dim_mul(x->dim[1], b * b);
    for (int i = 2; i < 4 && !rc && known; i++)
        rc = parted(o, "elements", x->dim[i], b, &s.dim[i]);
    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s);
    return 0;
}

void fold_concat(const struct opview *o)
{
    struct elems *out = NULL;
    int64_t outer, inner, width, filled = 0;
    int axis;

    for (uint32_t i = 0; i < o->nin; i++)
        if (!op_known(o, i))
            return;
    out = fold_result(o, 0);
    if (!out || op_axis(o, op_int(o, "axis", 1), out->shape.rank, &axis))
        return;
    fold_around(&out->shape, axis, &outer, &inner);
    width = out->shape.dim[axis] * inner;
    for (uint32_t i = 0; i < o->nin; i++) {
        const struct elems *e = op_known(o, i);
        int64_t part = e->shape.rank == out->shape.rank ? e->shape.dim[axis] * inner : -1;

        if (part < 0 || filled + part > width || e->n != outer * part || e->type != out->type)
            return;
        for (int64_t k = 0; k < outer; k++)
            for (int64_t j = 0; j < part; j++)
                fold_move(out, k * width + filled + j, e, k * part + j);
        filled += part;
    }
    if (filled == width)
        fold_set(o, 0, out);
}

void fold_split(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    int64_t outer, inner, width, done = 0;
    int axis;

    if (!e || op_axis(o, op_int(o, "axis", 0), e->shape.rank, &axis))
        return;
    fold_around(&e->shape, axis, &outer, &inner);
    width = e->shape.dim[axis] * inner;
    for (uint32_t i = 0; i < o->nout; i++) {
        const struct value *v = node_out(o->g, o->n, i);
        struct elems *out = fold_result(o, i);
        int64_t part = v && v->shape.rank > axis ? v->shape.dim[axis] * inner : -1;

        if (!out || part < 0 || done + part > width)
            return;
        for (int64_t k = 0; k < outer; k++)
            for (int64_t j = 0; j < part; j++)
                fold_move(out, k * part + j, e, k * width + done + j);
        done += part;
        fold_set(o, i, out);
    }
}

void fold_transpose(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;
    int64_t stride[SHAPE_RANK_MAX];
    int perm[SHAPE_RANK_MAX];

    if (!out || transpose_perm(o, e->shape.rank, perm))
        return;
    fold_strides(&e->shape, stride);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, rest = i;

        for (int32_t d = out->shape.rank - 1; d >= 0; d--) {
            at += rest % out->shape.dim[d] * stride[perm[d]];
            rest /= out->shape.dim[d];
        }
        fold_move(out, i, e, at);
    }
    fold_set(o, 0, out);
}

void fold_tile(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e && e->n ? fold_result(o, 0) : NULL;

    if (!out || out->shape.rank != e->shape.rank)
        return;
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, step = 1, rest = i;

        for (int32_t d = out->shape.rank - 1; d >= 0; d--) {
            at += rest % out->shape.dim[d] % e->shape.dim[d] * step;
            rest /= out->shape.dim[d];
            step *= e->shape.dim[d];
        }
        fold_move(out, i, e, at);
    }
    fold_set(o, 0, out);
}
