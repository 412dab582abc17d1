/* slice.c -- Slice, and DynamicSlice, which ONNX had before Slice took its lists as inputs. */
#include "graph/ops/slice.h"

#include "graph/ops/known.h"

#include <string.h>

/* One of its lists; elements may be open. */
struct numbers {
    bool given; /* and not empty */
    int64_t n;  /* -1: not known */
    const int64_t *v;
};

static struct numbers numbers_of(const struct opview *o, const char *attr, uint32_t slot)
{
    struct numbers l = { 0 };
    const struct elems *e;
    size_t len;

    if (o->n->opset < 10 && o->n->domain[0] == '\0' && strcmp(o->n->op_type, "Slice") == 0) {
        l.v = node_attr_ints(o->n, attr, &len);
        l.n = (int64_t)len;
    } else {
        e = op_known_ints(o, slot);
        l.n = e ? e->n : op_has(o, slot) ? -1 : 0;
        l.v = e ? e->i : NULL;
    }
    l.given = l.n != 0;
    return l;
}

/* [start : end : step] of `dim` elements, which is known. */
static void take(struct slicing *s, int axis, int64_t dim, int64_t start, int64_t end, int64_t step)
{
    int64_t low = step > 0 ? 0 : -1, high = step > 0 ? dim : dim - 1, span, n;

    step = MAX(step, -INT64_MAX);
    if (start < 0)
        start = MAX(start, -dim - 1) + dim;
    if (end < 0)
        end = MAX(end, -dim - 1) + dim;
    start = MIN(MAX(start, low), high);
    end = MIN(MAX(end, low), high);
    span = step > 0 ? end - start : start - end;
    n = span <= 0 ? 0 : (span - 1) / (step > 0 ? step : -step) + 1;
    s->out.dim[axis] = n;
    s->first[axis] = n ? start : 0;
    s->step[axis] = n > 1 ? step : 1;
}

int slice_read(const struct opview *o, struct slicing *s)
{
    struct numbers start = numbers_of(o, "starts", 1), end = numbers_of(o, "ends", 2);
    struct numbers axes = numbers_of(o, "axes", 3), step = numbers_of(o, "steps", 4);
    int64_t n = start.n >= 0 ? start.n : end.n;

    *s = (struct slicing){ .out = *op_shape(o, 0), .all = true };
    for (int i = 0; i < SHAPE_RANK_MAX; i++)
        s->step[i] = 1;
    if (n < 0)
        n = op_rank(o, 1) == 1 ? op_dim(o, 1, 0) : -1;
    if (s->out.rank < 0 || axes.n < 0 || n < 0) {
        /* Which dimensions are cut is not known. */
        if (s->out.rank >= 0)
            s->out = shape_of_rank(s->out.rank);
        s->all = false;
        return 0;
    }
    if (n > s->out.rank || (axes.given && axes.n != n) || (start.n >= 0 && start.n != n) ||
        (end.n >= 0 && end.n != n) || (step.given && step.n >= 0 && step.n != n))
        return op_fail(o, "starts, ends, axes and steps of different lengths");
    for (int64_t i = 0; i < n; i++) {
        int64_t by = !step.given ? 1 : step.v ? step.v[i] : ELEM_ANY, *dim;
        int axis = (int)i, rc = 0;

        if (axes.given && elem_open(axes.v[i])) {
            s->out = shape_of_rank(s->out.rank);
            s->all = false;
            break;
        }
        if (axes.given)
            rc = op_axis(o, axes.v[i], s->out.rank, &axis);
        if (rc)
            return rc;
        if (by == 0)
            return op_fail(o, "a step of 0");
        dim = &s->out.dim[axis];
        if (start.v && end.v && start.v[i] == 0 && by == 1 && *dim < 0 &&
            (end.v[i] == INT64_MAX || end.v[i] == INT32_MAX))
            continue; /* all of it, whatever it is */
        if (!start.v || !end.v || elem_open(start.v[i]) || elem_open(end.v[i]) || elem_open(by) ||
            *dim < 0) {
            *dim = DIM_OPEN;
            s->all = false;
        } else
            take(s, axis, *dim, start.v[i], end.v[i], by);
    }
    return 0;
}

int infer_slice(const struct opview *o)
{
    struct slicing s;
    int rc = slice_read(o, &s);

    if (rc)
        return rc;
    op_set(o, 0, op_type(o, 0), &s.out);
    return 0;
}

void fold_slice(const struct opview *o)
{
    const struct elems *e = op_known(o, 0);
    struct elems *out = e ? fold_result(o, 0) : NULL;
    int64_t stride[SHAPE_RANK_MAX];
    struct slicing s;

    if (!out || slice_read(o, &s) || !s.all || !shape_equal(&s.out, &out->shape))
        return;
    fold_strides(&e->shape, stride);
    for (int64_t i = 0; i < out->n; i++) {
        int64_t at = 0, rest = i;

        for (int32_t d = s.out.rank - 1; d >= 0; d--) {
            at += (s.first[d] + rest % s.out.dim[d] * s.step[d]) * stride[d];
            rest /= s.out.dim[d];
        }
        fold_move(out, i, e, at);
    }
    fold_set(o, 0, out);
}
