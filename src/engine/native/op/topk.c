/* topk.c -- TopK, Unique, NonMaxSuppression: what needs sorting. */
#include "engine/native/math/infer.h"
#include "engine/native/math/order.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <math.h>
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

/* Equal elements have equal bits here: zeros of either sign, and every NaN. */
static uint64_t bits_at(const struct nt *in, int64_t i)
{
    double d;
    uint64_t bits;

    if (!(TYPE_BIT(in->type) & TYPES_FLOAT))
        return (uint64_t)nt_int(in, i);
    d = nt_float(in, i);
    d = isnan(d) ? (double)NAN : d + 0.0;
    memcpy(&bits, &d, sizeof(bits));
    return bits;
}

/* Slices of a tensor: n, each `outer` times `inner` elements side by side. */
struct slices {
    const struct nt *in;
    int64_t outer, n, inner;
};

static uint64_t slice_hash(const struct slices *s, int64_t k)
{
    uint64_t h = 0;

    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++) {
            h ^= bits_at(s->in, (o * s->n + k) * s->inner + i);
            h = (h ^ h >> 32) * 0x9e3779b97f4a7c15u; /* small floats have no low bits */
            h ^= h >> 29;
        }
    return h;
}

static bool slices_equal(const struct slices *s, int64_t a, int64_t b)
{
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t i = 0; i < s->inner; i++)
            if (bits_at(s->in, (o * s->n + a) * s->inner + i) !=
                bits_at(s->in, (o * s->n + b) * s->inner + i))
                return false;
    return true;
}

/* The same of the float k of a list. */
static uint32_t float_bits(const struct slices *s, int64_t k)
{
    float f = ((const float *)s->in->data)[k] + 0.0f;
    uint32_t bits;

    memcpy(&bits, &f, sizeof(bits));
    return isnan(f) ? 0x7fc00000u : bits;
}

/* find_kinds() of a list of floats. */
static void find_floats(struct unique *u, const struct slices *s, int64_t *table, int64_t size)
{
    for (int64_t k = 0; k < u->n; k++) {
        uint32_t bits = float_bits(s, k);
        int64_t at = (int64_t)(bits * 0x9e3779b97f4a7c15u >> 24 & (uint64_t)(size - 1));

        while (table[at] && float_bits(s, u->first[table[at] - 1]) != bits)
            at = (at + 1) & (size - 1);
        if (!table[at]) {
            table[at] = ++u->kinds;
            u->first[u->kinds - 1] = k;
            u->count[u->kinds - 1] = 0;
        }
        u->inverse[k] = table[at] - 1;
        u->count[table[at] - 1]++;
    }
}

/* Kinds in the order in which they come: table has `size` places, a power of two beyond n, for a
 * kind + 1 each, 0 where none is. */
static void find_kinds(struct unique *u, const struct slices *s, int64_t *table, int64_t size)
{
    u->kinds = 0;
    if (s->in->type == TENSOR_F32 && s->outer == 1 && s->inner == 1) {
        find_floats(u, s, table, size);
        return;
    }
    for (int64_t k = 0; k < u->n; k++) {
        int64_t at = (int64_t)(slice_hash(s, k) & (uint64_t)(size - 1));

        while (table[at] && !slices_equal(s, u->first[table[at] - 1], k))
            at = (at + 1) & (size - 1);
        if (!table[at]) {
            table[at] = ++u->kinds;
            u->first[u->kinds - 1] = k;
            u->count[u->kinds - 1] = 0;
        }
        u->inverse[k] = table[at] - 1;
        u->count[table[at] - 1]++;
    }
}

/* Kinds by value: `order` becomes the kinds in that order, with as much room behind it. */
static int64_t *order_kinds(const struct unique *u, const struct slices *s, int64_t *order)
{
    int64_t n = u->kinds, *from = order, *to = order + n;

    for (int64_t k = 0; k < n; k++)
        from[k] = k;
    for (int64_t run = 1; run < n; run *= 2) {
        int64_t *old = from;

        for (int64_t begin = 0; begin < n; begin += 2 * run) {
            int64_t mid = MIN(begin + run, n), end = MIN(begin + 2 * run, n), a = begin, b = mid;

            for (int64_t k = begin; k < end; k++)
                to[k] = b == end || (a < mid &&
                                     compare_slices(s->in, s->outer, s->n, s->inner,
                                                    u->first[from[a]], u->first[from[b]]) <= 0)
                            ? from[a++]
                            : from[b++];
        }
        from = to;
        to = old;
    }
    return from;
}

static void sort_kinds(struct unique *u, const struct slices *s, int64_t *room)
{
    int64_t n = u->kinds, *order = order_kinds(u, s, room), *rank = room + 2 * n;

    for (int64_t k = 0; k < n; k++)
        rank[order[k]] = k;
    for (int64_t i = 0; i < u->n; i++)
        u->inverse[i] = rank[u->inverse[i]];
    for (int64_t k = 0; k < n; k++)
        rank[k] = u->first[order[k]];
    memcpy(u->first, rank, (size_t)n * sizeof(*rank));
    for (int64_t k = 0; k < n; k++)
        rank[k] = u->count[order[k]];
    memcpy(u->count, rank, (size_t)n * sizeof(*rank));
}

int unique_prepare(struct op *op, opm_error *err)
{
    const struct nt *in = kernel_in(op, 0);
    struct unique *u = kernel_new_state(op, sizeof(*u));
    struct shape s = { .rank = 1 }, kinds = { .rank = 1 }, slices = { .rank = 1 };
    int64_t outer = 1, inner = 1, size = 1, *room;
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
    while (size <= u->n)
        size *= 2;
    size *= 2;
    room = mem_calloc((size_t)MAX(size, 3 * u->n), sizeof(*room));
    if (!u->first || !u->inverse || !u->count || !room) {
        mem_free(room);
        return kernel_nomem(op, err);
    }
    find_kinds(u, &(struct slices){ in, outer, u->n, inner }, room, size);
    if (op->kernel->arg == UNIQUE_SLICES && node_attr_int(op->node, "sorted", 1))
        sort_kinds(u, &(struct slices){ in, outer, u->n, inner }, room);
    mem_free(room);
    s.dim[axis] = kinds.dim[0] = u->kinds;
    slices.dim[0] = u->n;
    rc = kernel_set(op, 0, in->type, &s, err);
    if (op->kernel->arg == UNIQUE_VALUES) {
        if (!rc)
            rc = kernel_set(op, 1, TENSOR_I64, &slices, err);
        return rc ? rc : kernel_set(op, 2, TENSOR_I64, &kinds, err);
    }
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
    for (uint32_t i = 1, skipped = op->kernel->arg == UNIQUE_VALUES; i + skipped < 4; i++)
        if (kernel_out(op, i) && kernel_out(op, i)->bytes)
            memcpy(kernel_out(op, i)->data, from[i - 1 + skipped], kernel_out(op, i)->bytes);
    return 0;
}

/* A box by its corners, and its area. */
struct box {
    float y0, x0, y1, x1, area;
};

struct nms {
    int64_t *hit; /* batch, class, box */
    size_t n, cap;
    struct box *box; /* those of a batch */
    float *kept;     /* those of a class that stay: KEPT_AT_ONCE of each member, and so on */
    float *score;    /* those that are enough */
    int64_t *place, *at;
    void *room;
};

static void nms_release(void *state)
{
    struct nms *s = state;

    mem_free(s->hit);
    mem_free(s->box);
    mem_free(s->kept);
    mem_free(s->score);
    mem_free(s->place);
    mem_free(s->at);
    mem_free(s->room);
}

static struct box corners(const float *b, bool center)
{
    struct box c;

    if (center) /* x, y, width, height */
        c = (struct box){ b[1] - b[3] / 2, b[0] - b[2] / 2, b[1] + b[3] / 2, b[0] + b[2] / 2, 0 };
    else
        c = (struct box){ MIN(b[0], b[2]), MIN(b[1], b[3]), MAX(b[0], b[2]), MAX(b[1], b[3]), 0 };
    c.area = (c.y1 - c.y0) * (c.x1 - c.x0);
    return c;
}

#define KEPT_AT_ONCE 8
#define KEPT_MEMBERS 5

static void keep(float *kept, int64_t k, const struct box *b)
{
    float *to = kept + k / KEPT_AT_ONCE * KEPT_AT_ONCE * KEPT_MEMBERS + k % KEPT_AT_ONCE;

    if (k % KEPT_AT_ONCE == 0) /* nothing is in the others yet */
        for (int i = 0; i < KEPT_AT_ONCE; i++) {
            to[i] = to[KEPT_AT_ONCE + i] = INFINITY;
            to[2 * KEPT_AT_ONCE + i] = to[3 * KEPT_AT_ONCE + i] = -INFINITY;
            to[4 * KEPT_AT_ONCE + i] = 0;
        }
    to[0] = b->y0;
    to[KEPT_AT_ONCE] = b->x0;
    to[2 * KEPT_AT_ONCE] = b->y1;
    to[3 * KEPT_AT_ONCE] = b->x1;
    to[4 * KEPT_AT_ONCE] = b->area;
}

/* One of the n boxes that stay takes more than its share of a. */
static bool overlaps(const struct box *a, const float *kept, int64_t n, float limit)
{
    for (int64_t k = 0; k < n; k += KEPT_AT_ONCE, kept += KEPT_AT_ONCE * KEPT_MEMBERS) {
        int any = 0;

        for (int i = 0; i < KEPT_AT_ONCE; i++) {
            float y1 = kept[2 * KEPT_AT_ONCE + i], x1 = kept[3 * KEPT_AT_ONCE + i], y0 = kept[i],
                  x0 = kept[KEPT_AT_ONCE + i], h, w, both, either;

            h = (a->y1 < y1 ? a->y1 : y1) - (a->y0 > y0 ? a->y0 : y0);
            w = (a->x1 < x1 ? a->x1 : x1) - (a->x0 > x0 ? a->x0 : x0);
            both = h * w;
            either = a->area + kept[4 * KEPT_AT_ONCE + i] - both;
            any |= (h > 0) & (w > 0) & (either > 0) & (both / either > limit);
        }
        if (any)
            return true;
    }
    return false;
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

#define FIRST_SORTED 32 /* half of the boxes that are sorted at first, at least */

static int nms_one(struct op *op, struct nms *s, int64_t batch, int64_t cls, int64_t max, float iou,
                   double least, opm_error *err)
{
    const struct nt *scores = kernel_in(op, 1);
    int64_t n = scores->shape.dim[2], m = 0, kept = 0, sorted;
    const float *sc = (const float *)scores->data + (batch * scores->shape.dim[1] + cls) * n;

    for (int64_t i = 0; i < n; i++)
        if ((double)sc[i] > least) {
            s->score[m] = sc[i];
            s->place[m++] = i;
        }
    sorted = MIN(m, 2 * MAX(MIN(max, m), (int64_t)FIRST_SORTED));
    order_first(kernel_isa(op), TENSOR_F32, s->score, 1, m, sorted, true, s->at, s->room);
    for (int64_t i = 0; i < m && kept < max; i++) {
        int64_t at;

        if (i == sorted) {
            sorted = m;
            order_first(kernel_isa(op), TENSOR_F32, s->score, 1, m, m, true, s->at, s->room);
        }
        at = s->place[s->at[i]];
        if (overlaps(&s->box[at], s->kept, kept, iou))
            continue;
        if (!GROW(s->hit, s->cap, 3 * (s->n + 1)))
            return kernel_nomem(op, err);
        keep(s->kept, kept++, &s->box[at]);
        s->hit[3 * s->n] = batch;
        s->hit[3 * s->n + 1] = cls;
        s->hit[3 * s->n + 2] = at;
        s->n++;
    }
    return 0;
}

/* Room for n boxes. */
static int nms_room(struct op *op, struct nms *s, int64_t n, opm_error *err)
{
    int64_t room = order_room(n, n);
    size_t each = (size_t)n + 1;

    if (room < 0)
        return kernel_fail(op, OPM_ELIMIT, err, "%lld boxes are too many", (long long)n);
    nms_release(s);
    *s = (struct nms){ .box = mem_calloc(each, sizeof(*s->box)),
                       .kept = mem_calloc(each + KEPT_AT_ONCE, KEPT_MEMBERS * sizeof(*s->kept)),
                       .score = mem_calloc(each, sizeof(*s->score)),
                       .place = mem_calloc(each, sizeof(*s->place)),
                       .at = mem_calloc(each, sizeof(*s->at)),
                       .room = mem_calloc((size_t)room + 1, 1) };
    return s->box && s->kept && s->score && s->place && s->at && s->room ? 0
                                                                         : kernel_nomem(op, err);
}

int nms_prepare(struct op *op, opm_error *err)
{
    const struct nt *boxes = kernel_in(op, 0), *scores = kernel_in(op, 1);
    struct nms *s = kernel_new_state(op, sizeof(*s));
    struct shape out = { .rank = 2, .dim = { 0, 3 } };
    double max, iou, least;
    int64_t n;
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
    n = boxes->shape.dim[1];
    rc = nms_room(op, s, n, err);
    for (int64_t b = 0; b < scores->shape.dim[0] && !rc; b++) {
        for (int64_t i = 0; i < n; i++)
            s->box[i] = corners((const float *)boxes->data + (b * n + i) * 4,
                                node_attr_int(op->node, "center_point_box", 0));
        for (int64_t c = 0; c < scores->shape.dim[1] && !rc; c++)
            rc =
                nms_one(op, s, b, c, max > 1e15 ? INT64_MAX : (int64_t)max, (float)iou, least, err);
    }
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
