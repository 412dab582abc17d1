/* topk.c -- TopK, Unique, NonMaxSuppression: what needs sorting. */
#include "engine/native/math/infer.h"
#include "engine/native/math/order.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* An element and where it was; ties go by place, so that results do not depend on the sort. */
struct ranked {
    double d;
    int64_t i; /* the value itself for integers */
    int64_t at;
};

static int by_value(const struct ranked *x, const struct ranked *y)
{
    if (x->i != y->i)
        return x->i < y->i ? -1 : 1;
    if (x->d < y->d || x->d > y->d)
        return x->d < y->d ? -1 : 1;
    return isnan(x->d) - isnan(y->d); /* NaN last */
}

static int down(const void *a, const void *b)
{
    const struct ranked *x = a, *y = b;
    int c = by_value(y, x);

    return c ? c : (x->at > y->at) - (x->at < y->at);
}

static struct ranked ranked_of(const struct nt *t, int64_t i, int64_t at)
{
    bool real = TYPE_BIT(t->type) & TYPES_FLOAT;

    return (struct ranked){ real ? nt_float(t, i) : 0, real ? 0 : nt_int(t, i), at };
}

struct topk {
    int64_t n, k, inner, outer;
    size_t room; /* of one row, in bytes */
};

int topk_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0), *any;
    struct topk *t = kernel_new_state(op, sizeof(*t));
    int rc = kernel_want(op, 0, TYPES_NUM, err), axis;
    int64_t room;

    if (!t)
        return kernel_nomem(op, err);
    if (!rc && op->node->opset >= 10)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_I64), err);
    if (!rc && op->node->opset >= 10 && kernel_in(op, 1)->count != 1)
        rc = kernel_fail(op, OPM_EINVAL, err, "k must be one number");
    if (rc)
        return rc;
    axis = nt_axis(node_attr_int(op->node, "axis", -1), in->shape.rank);
    if (axis < 0)
        return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
    rc = kernel_infer(op, err);
    if (rc)
        return rc;
    any = kernel_out(op, 0) ? kernel_out(op, 0) : kernel_out(op, 1);
    t->n = in->shape.dim[axis];
    t->k = any ? any->shape.dim[axis] : 0;
    t->inner = nt_span(&in->shape, axis + 1, in->shape.rank);
    t->outer = nt_span(&in->shape, 0, axis);
    room = order_room(t->n, t->k);
    if (room < 0 || t->n > UINT32_MAX)
        return kernel_fail(op, OPM_ELIMIT, err, "%lld elements are too many", (long long)t->n);
    /* For each thread: what the order is found in, places, and a row that is not contiguous. */
    t->room =
        ((size_t)room + (size_t)t->k * sizeof(int64_t) + (size_t)t->n * nt_width(in->type) + 63) /
        64 * 64;
    op->scratch_bytes = t->room * (size_t)pool_threads(kernel_pool(op));
    return 0;
}

#define PICK(T)                     \
    for (int64_t i = 0; i < n; i++) \
    ((T *)to)[i * to_step] = ((const T *)from)[at ? at[i] * step : i * step]

/* Elements at[i] (NULL: all) of a row, `step` apart. */
static void pick(void *to, int64_t to_step, const void *from, int64_t step, const int64_t *at,
                 int64_t n, size_t width)
{
    switch (width) {
    case 1:
        PICK(uint8_t);
        break;
    case 2:
        PICK(uint16_t);
        break;
    case 4:
        PICK(uint32_t);
        break;
    default:
        PICK(uint64_t);
    }
}

static void topk_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct topk *t = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *values = kernel_out(op, 0), *index = kernel_out(op, 1);
    bool greatest = node_attr_int(op->node, "largest", 1);
    size_t w = nt_width(in->type);
    char *room = (char *)op->scratch + t->room * (size_t)thread;
    int64_t *at = (int64_t *)(void *)(room + order_room(t->n, t->k));
    void *row = at + t->k;

    for (int64_t o = begin; o < end; o++) {
        const char *from =
            (const char *)in->data + (size_t)(o / t->inner * t->n * t->inner + o % t->inner) * w;
        int64_t to = o / t->inner * t->k * t->inner + o % t->inner;

        if (t->inner > 1)
            pick(row, 1, from, t->inner, NULL, t->n, w);
        order_first(kernel_isa(op), in->type, t->inner > 1 ? row : from, 1, t->n, t->k, greatest,
                    at, room);
        if (values)
            pick((char *)values->data + (size_t)to * w, t->inner, from, t->inner, at, t->k, w);
        if (index)
            pick((int64_t *)index->data + to, t->inner, at, 1, NULL, t->k, sizeof(*at));
    }
}

int topk_run(struct op *op, opm_error *err)
{
    const struct topk *t = op->state;

    (void)err;
    if (t->k)
        pool_for(kernel_pool(op), t->outer * t->inner, pool_grain((double)t->n), topk_part, op);
    return 0;
}

/* Slices along an axis (or elements), the first of each kind, in the order asked for. */
struct unique {
    int64_t n, kinds;                 /* slices, and different ones */
    int64_t *first, *inverse, *count; /* by kind, by slice, by kind */
};

static void unique_release(void *state)
{
    struct unique *u = state;

    mem_free(u->first);
    mem_free(u->inverse);
    mem_free(u->count);
}

static int compare_slices(const struct nt *in, int64_t outer, int64_t n, int64_t inner, int64_t a,
                          int64_t b)
{
    for (int64_t o = 0; o < outer; o++)
        for (int64_t i = 0; i < inner; i++) {
            struct ranked x = ranked_of(in, (o * n + a) * inner + i, 0),
                          y = ranked_of(in, (o * n + b) * inner + i, 0);
            int c = by_value(&x, &y);

            if (c)
                return c;
        }
    return 0;
}

/* Insertion into an ordered list of kinds: quadratic at worst, but without a context for qsort().
 */
static void find_kinds(struct unique *u, const struct nt *in, int64_t outer, int64_t inner,
                       bool sorted)
{
    u->kinds = 0;
    for (int64_t s = 0; s < u->n; s++) {
        int64_t lo = 0, hi = u->kinds, hit = -1;

        if (sorted)
            while (lo < hi && hit < 0) {
                int64_t mid = lo + (hi - lo) / 2;
                int c = compare_slices(in, outer, u->n, inner, s, u->first[mid]);

                if (c == 0)
                    hit = mid;
                else if (c < 0)
                    hi = mid;
                else
                    lo = mid + 1;
            }
        else
            for (lo = 0; lo < u->kinds && hit < 0; lo++)
                if (compare_slices(in, outer, u->n, inner, s, u->first[lo]) == 0)
                    hit = lo;
        if (hit < 0) {
            hit = sorted ? lo : u->kinds;
            memmove(u->first + hit + 1, u->first + hit,
                    (size_t)(u->kinds - hit) * sizeof(*u->first));
            memmove(u->count + hit + 1, u->count + hit,
                    (size_t)(u->kinds - hit) * sizeof(*u->count));
            for (int64_t i = 0; i < s; i++)
                u->inverse[i] += u->inverse[i] >= hit;
            u->first[hit] = s;
            u->count[hit] = 0;
            u->kinds++;
        }
        u->inverse[s] = hit;
        u->count[hit]++;
    }
}

int unique_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct unique *u = kernel_new_state(op, sizeof(*u));
    struct shape s = { .rank = 1 }, kinds = { .rank = 1 }, slices = { .rank = 1 };
    int64_t outer = 1, inner = 1;
    int rc = kernel_want(op, 0, TYPES_NUM | TYPE_BIT(TENSOR_BOOL), err), axis = 0;

    if (!u)
        return kernel_nomem(op, err);
    op->release = unique_release;
    if (rc)
        return rc;
    if (!kernel_data(op, 0))
        return NEED_DATA;
    u->n = in->count;
    if (node_attr(op->node, "axis")) {
        axis = nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
        if (axis < 0)
            return kernel_fail(op, OPM_EINVAL, err, "axis is out of range");
        u->n = in->shape.dim[axis];
        outer = nt_span(&in->shape, 0, axis);
        inner = nt_span(&in->shape, axis + 1, in->shape.rank);
        s = in->shape;
    }
    unique_release(u);
    u->first = mem_calloc((size_t)u->n + 1, sizeof(int64_t));
    u->inverse = mem_calloc((size_t)u->n + 1, sizeof(int64_t));
    u->count = mem_calloc((size_t)u->n + 1, sizeof(int64_t));
    if (!u->first || !u->inverse || !u->count)
        return kernel_nomem(op, err);
    find_kinds(u, in, outer, inner, node_attr_int(op->node, "sorted", 1));
    s.dim[axis] = kinds.dim[0] = u->kinds;
    slices.dim[0] = u->n;
    rc = kernel_set(op, 0, in->type, &s, err);
    if (!rc)
        rc = kernel_set(op, 1, TENSOR_I64, &kinds, err);
    if (!rc)
        rc = kernel_set(op, 2, TENSOR_I64, &slices, err);
    return rc ? rc : kernel_set(op, 3, TENSOR_I64, &kinds, err);
}

int unique_run(struct op *op, opm_error *err)
{
    const struct unique *u = op->state;
    const struct nt *in = kernel_in(op, 0);
    struct nt *out = kernel_out(op, 0);
    bool flat = !node_attr(op->node, "axis");
    int axis = flat ? 0 : nt_axis(node_attr_int(op->node, "axis", 0), in->shape.rank);
    int64_t outer = flat ? 1 : nt_span(&in->shape, 0, axis);
    size_t inner =
        (flat ? 1 : (size_t)nt_span(&in->shape, axis + 1, in->shape.rank)) * nt_width(in->type);
    const int64_t *from[] = { u->first, u->inverse, u->count };

    (void)err;
    for (int64_t o = 0; out && o < outer; o++)
        for (int64_t k = 0; k < u->kinds; k++)
            memcpy((char *)out->data + (size_t)(o * u->kinds + k) * inner,
                   (const char *)in->data + (size_t)(o * u->n + u->first[k]) * inner, inner);
    for (uint32_t i = 1; i < 4; i++)
        if (kernel_out(op, i) && kernel_out(op, i)->bytes)
            memcpy(kernel_out(op, i)->data, from[i - 1], kernel_out(op, i)->bytes);
    return 0;
}

struct nms {
    int64_t *hit; /* batch, class, box */
    size_t n, cap;
    struct ranked *e;
};

static void nms_release(void *state)
{
    mem_free(((struct nms *)state)->hit);
    mem_free(((struct nms *)state)->e);
}

static void corners(const float *b, bool center, float *c)
{
    if (center) { /* x, y, width, height */
        c[0] = b[1] - b[3] / 2;
        c[1] = b[0] - b[2] / 2;
        c[2] = b[1] + b[3] / 2;
        c[3] = b[0] + b[2] / 2;
        return;
    }
    c[0] = MIN(b[0], b[2]);
    c[1] = MIN(b[1], b[3]);
    c[2] = MAX(b[0], b[2]);
    c[3] = MAX(b[1], b[3]);
}

static bool overlaps(const float *a, const float *b, bool center, float limit)
{
    float x[4], y[4], h, w, both, either;

    corners(a, center, x);
    corners(b, center, y);
    h = MIN(x[2], y[2]) - MAX(x[0], y[0]);
    w = MIN(x[3], y[3]) - MAX(x[1], y[1]);
    if (h <= 0 || w <= 0)
        return false;
    both = h * w;
    either = (x[2] - x[0]) * (x[3] - x[1]) + (y[2] - y[0]) * (y[3] - y[1]) - both;
    return either > 0 && both / either > limit;
}

/* An optional number: known data, or what is missing. *ok false: not known yet. */
static double number(struct op *op, uint32_t slot, double missing, bool *ok)
{
    const struct nt *t = kernel_in(op, slot);

    if (!t || t->count < 1)
        return missing;
    if (!kernel_data(op, slot)) {
        *ok = false;
        return missing;
    }
    return nt_float(t, 0);
}

static int nms_one(struct op *op, struct nms *s, int64_t batch, int64_t cls, int64_t max, float iou,
                   double least, opm_error *err)
{
    const struct nt *boxes = kernel_in(op, 0), *scores = kernel_in(op, 1);
    int64_t n = boxes->shape.dim[1], classes = scores->shape.dim[1], m = 0;
    const float *b = (const float *)boxes->data + batch * n * 4,
                *sc = (const float *)scores->data + (batch * classes + cls) * n;
    bool center = node_attr_int(op->node, "center_point_box", 0);
    size_t first = s->n;

    for (int64_t i = 0; i < n; i++)
        if ((double)sc[i] > least)
            s->e[m++] = (struct ranked){ (double)sc[i], 0, i };
    qsort(s->e, (size_t)m, sizeof(*s->e), down);
    for (int64_t i = 0; i < m && (int64_t)(s->n - first) < max; i++) {
        bool keep = true;

        for (size_t k = first; k < s->n && keep; k++)
            keep = !overlaps(b + s->e[i].at * 4, b + s->hit[3 * k + 2] * 4, center, iou);
        if (!keep)
            continue;
        if (!GROW(s->hit, s->cap, 3 * (s->n + 1)))
            return kernel_nomem(op, err);
        s->hit[3 * s->n] = batch;
        s->hit[3 * s->n + 1] = cls;
        s->hit[3 * s->n + 2] = s->e[i].at;
        s->n++;
    }
    return 0;
}

int nms_prepare(struct op *op, opm_error *err)
{
    const struct nt *boxes = kernel_in(op, 0), *scores = kernel_in(op, 1);
    struct nms *s = kernel_new_state(op, sizeof(*s));
    struct shape out = { .rank = 2, .dim = { 0, 3 } };
    double max, iou, least;
    bool ok = true;
    int rc = kernel_want(op, 0, TYPE_BIT(TENSOR_F32), err);

    if (!s)
        return kernel_nomem(op, err);
    op->release = nms_release;
    if (!rc)
        rc = kernel_want(op, 1, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    if (boxes->shape.rank != 3 || scores->shape.rank != 3 || boxes->shape.dim[2] != 4 ||
        boxes->shape.dim[0] != scores->shape.dim[0] || boxes->shape.dim[1] != scores->shape.dim[2])
        return kernel_fail(op, OPM_EINVAL, err, "boxes and scores do not fit");
    max = number(op, 2, 0, &ok);
    iou = number(op, 3, 0, &ok);
    least = number(op, 4, -(double)INFINITY, &ok);
    if (!ok || !kernel_data(op, 0) || !kernel_data(op, 1))
        return NEED_DATA;
    mem_free(s->e);
    s->e = mem_calloc((size_t)boxes->shape.dim[1] + 1, sizeof(*s->e));
    if (!s->e)
        return kernel_nomem(op, err);
    s->n = 0;
    for (int64_t b = 0; b < scores->shape.dim[0] && !rc; b++)
        for (int64_t c = 0; c < scores->shape.dim[1] && !rc; c++)
            rc =
                nms_one(op, s, b, c, max > 1e15 ? INT64_MAX : (int64_t)max, (float)iou, least, err);
    out.dim[0] = (int64_t)s->n;
    return rc ? rc : kernel_set(op, 0, TENSOR_I64, &out, err);
}

int nms_run(struct op *op, opm_error *err)
{
    const struct nms *s = op->state;

    (void)err;
    if (s->n)
        memcpy(kernel_out(op, 0)->data, s->hit, s->n * 3 * sizeof(*s->hit));
    return 0;
}
