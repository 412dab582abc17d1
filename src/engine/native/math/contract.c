/* contract.c -- see contract.h.
 *
 * A label is of one of four kinds: of both operands and the result (a batch of products), of the
 * left one and the result (rows), of the right one and the result (columns), of both operands only
 * (summed). Labels of one operand alone are summed up beforehand. Where the labels of a kind lie
 * one behind the other in memory the matrices are used as they are, else they are copied. */
#include "engine/native/math/contract.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/math/broadcast.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/product.h"

#include <string.h>

#define SMALL 512 /* multiplications of one product for which plain loops are quicker */

enum side { SIDE_A, SIDE_B, SIDE_OUT, SIDES };

/* Labels of one kind, the fastest of the result last. */
struct group {
    int n;
    int label[CONTRACT_LABELS];
    int64_t count;
};

static bool has(const int64_t *stride, const struct contract *t, int l)
{
    return stride[l] != 0 && t->dim[l] > 1;
}

/* Sorted by `by`, greatest stride first. */
static void group_add(struct group *g, int l, int64_t dim, const int64_t *by)
{
    int i = g->n++;

    for (; i > 0 && by[g->label[i - 1]] < by[l]; i--)
        g->label[i] = g->label[i - 1];
    g->label[i] = l;
    g->count = (g->count ? g->count : 1) * dim;
}

/* The one stride of a group, or -1 if there is none. */
static int64_t group_stride(const struct group *g, const int64_t *dim, const int64_t *stride)
{
    for (int i = 0; i + 1 < g->n; i++)
        if (stride[g->label[i]] != stride[g->label[i + 1]] * dim[g->label[i + 1]])
            return -1;
    return g->n ? stride[g->label[g->n - 1]] : 0;
}

static int64_t group_offset(const struct group *g, const int64_t *dim, const int64_t *stride,
                            int64_t i)
{
    int64_t at = 0;

    for (int k = g->n - 1; k >= 0; k--) {
        at += i % dim[g->label[k]] * stride[g->label[k]];
        i /= dim[g->label[k]];
    }
    return at;
}

/* -- plain loops -- */

struct walk {
    const struct contract *t;
    int n;
    int label[CONTRACT_LABELS]; /* all but the inner one, kept ones first */
    int kept;
    int inner; /* -1: none */
};

/* Sums in W, of which the low bits are those of T's. */
#define WALK(T, W)                                                                         \
    do {                                                                                   \
        const T *a = (const T *)t->a->data + at[SIDE_A],                                   \
                *b = t->b ? (const T *)t->b->data + at[SIDE_B] : NULL;                     \
        T *out = (T *)t->out + at[SIDE_OUT];                                               \
        if (so)                                                                            \
            for (int64_t i = 0; i < n; i++)                                                \
                out[i * so] = (T)((W)out[i * so] + (W)a[i * sa] * (b ? (W)b[i * sb] : 1)); \
        else {                                                                             \
            W sum = 0;                                                                     \
            for (int64_t i = 0; i < n; i++)                                                \
                sum += (W)a[i * sa] * (b ? (W)b[i * sb] : 1);                              \
            *out = (T)((W)*out + sum);                                                     \
        }                                                                                  \
    } while (0)

static void walk_inner(const struct walk *w, const int64_t *at)
{
    const struct contract *t = w->t;
    int64_t n = w->inner < 0 ? 1 : t->dim[w->inner];
    int64_t sa = w->inner < 0 ? 0 : t->a->stride[w->inner],
            sb = w->inner < 0 || !t->b ? 0 : t->b->stride[w->inner],
            so = w->inner < 0 ? 0 : t->out_stride[w->inner];

    if (t->type == TENSOR_F32 && !so && sa == 1 && (!t->b || sb == 1)) {
        const float *a = (const float *)t->a->data + at[SIDE_A];

        ((float *)t->out)[at[SIDE_OUT]] +=
            t->b ? t->isa->dot(a, (const float *)t->b->data + at[SIDE_B], n)
                 : t->isa->reduce(R_SUM, a, n);
        return;
    }
    switch (t->type) {
    case TENSOR_F32:
        WALK(float, float);
        break;
    case TENSOR_F64:
        WALK(double, double);
        break;
    case TENSOR_I8:
    case TENSOR_U8:
        WALK(uint8_t, uint32_t);
        break;
    case TENSOR_I16:
    case TENSOR_U16:
        WALK(uint16_t, uint32_t);
        break;
    case TENSOR_I32:
    case TENSOR_U32:
        WALK(uint32_t, uint32_t);
        break;
    default:
        WALK(uint64_t, uint64_t);
    }
}

/* Items are those of the kept labels but the inner one. */
static void walk_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct walk *w = arg;
    const struct contract *t = w->t;
    const int64_t *stride[SIDES] = { t->a->stride, t->b ? t->b->stride : t->a->stride,
                                     t->out_stride };
    int64_t inside = 1;

    (void)thread;
    for (int i = w->kept; i < w->n; i++)
        inside *= t->dim[w->label[i]];
    for (int64_t item = begin; item < end; item++) {
        int64_t at[SIDES] = { 0 }, index[CONTRACT_LABELS] = { 0 }, rest = item;

        for (int i = w->kept - 1; i >= 0; i--) {
            for (int s = 0; s < SIDES; s++)
                at[s] += rest % t->dim[w->label[i]] * stride[s][w->label[i]];
            rest /= t->dim[w->label[i]];
        }
        for (int64_t k = 0; k < inside; k++) {
            walk_inner(w, at);
            for (int i = w->n - 1; i >= w->kept; i--) {
                int l = w->label[i];
                bool carry = ++index[i] == t->dim[l];

                for (int s = 0; s < SIDES; s++)
                    at[s] += stride[s][l] * (carry ? 1 - t->dim[l] : 1);
                if (!carry)
                    break;
                index[i] = 0;
            }
        }
    }
}

static int64_t out_count(const struct contract *t)
{
    int64_t n = 1;

    for (int l = 0; l < t->nlabel; l++)
        n *= t->out_stride[l] ? t->dim[l] : 1;
    return n;
}

static void walk_all(const struct contract *t)
{
    struct walk w = { .t = t, .inner = -1 };
    int64_t items = 1, all = 1, longest = 0;

    memset(t->out, 0, (size_t)out_count(t) * nt_width(t->type));
    /* A label that goes along with memory in all of them is best inside. */
    for (int l = 0; l < t->nlabel; l++) {
        bool dense =
            t->a->stride[l] <= 1 && t->out_stride[l] <= 1 && (!t->b || t->b->stride[l] <= 1);
        int64_t worth = t->dim[l] * (dense ? 16 : 1);

        if (t->dim[l] > 1 && worth > longest) {
            longest = worth;
            w.inner = l;
        }
        all *= t->dim[l];
    }
    for (int kept = 1; kept >= 0; kept--) {
        for (int l = 0; l < t->nlabel; l++)
            if (l != w.inner && t->dim[l] > 1 && kept == (t->out_stride[l] != 0)) {
                w.label[w.n++] = l;
                items *= kept ? t->dim[l] : 1;
            }
        if (kept)
            w.kept = w.n;
    }
    pool_for(t->pool, items, pool_grain((double)all / (double)items), walk_part, &w);
}

/* -- products of matrices -- */

struct layout {
    const struct contract *t;
    struct group batch, rows, columns, sum;
    const void *data[SIDES];
    int64_t stride[SIDES][CONTRACT_LABELS];
    void *copy[SIDES];
    int64_t rs[SIDES], cs[SIDES];
};

/* rows and columns of side s, in this order, contiguous behind the batch. */
static int copy_side(struct layout *p, enum side s, const struct group *g1, const struct group *g2)
{
    const struct group *const order[] = { &p->batch, g1, g2 };
    int64_t dim[CONTRACT_LABELS], stride[CONTRACT_LABELS], step = 1;
    int n = 0;

    for (int k = 0; k < 3; k++)
        for (int i = 0; i < order[k]->n; i++) {
            int l = order[k]->label[i];

            if (k == 0 && s != SIDE_OUT && !p->stride[s][l])
                continue;
            dim[n] = p->t->dim[l];
            stride[n++] = l;
        }
    for (int i = n - 1; i >= 0; i--) {
        int64_t old = p->stride[s][stride[i]];

        p->stride[s][stride[i]] = step;
        stride[i] = old;
        step *= dim[i];
    }
    p->copy[s] = native_alloc((size_t)step * nt_width(p->t->type));
    if (!p->copy[s])
        return OPM_ENOMEM;
    if (s != SIDE_OUT)
        strided_copy(p->t->pool, p->copy[s], p->data[s], nt_width(p->t->type), n, dim, stride);
    p->data[s] = p->copy[s];
    return 0;
}

static int arrange(struct layout *p, enum side s, const struct group *g1, const struct group *g2)
{
    bool one = group_stride(g1, p->t->dim, p->stride[s]) >= 0 &&
               group_stride(g2, p->t->dim, p->stride[s]) >= 0;
    int rc;

    if (s == SIDE_OUT && one && g2->n && group_stride(g2, p->t->dim, p->stride[s]) != 1)
        one = false;
    rc = one ? 0 : copy_side(p, s, g1, g2);
    p->rs[s] = group_stride(g1, p->t->dim, p->stride[s]);
    p->cs[s] = group_stride(g2, p->t->dim, p->stride[s]);
    return rc;
}

struct item_job {
    const struct layout *p;
    char *room;
    size_t room_each;
    int64_t panels;
};

static void one_product(const struct item_job *j, int64_t item, int64_t part, int thread)
{
    const struct layout *p = j->p;
    const struct contract *t = p->t;
    char *room = j->room + (size_t)thread * j->room_each;
    int64_t at[SIDES], m = p->rows.count, n = p->columns.count, k = p->sum.count;
    int64_t w = (int64_t)nt_width(t->type);

    for (int s = 0; s < SIDES; s++)
        at[s] = group_offset(&p->batch, t->dim, p->stride[s], item) * w;
    if (t->type == TENSOR_F32) {
        struct gemm g = { .isa = t->isa,
                          .m = m,
                          .n = n,
                          .k = k,
                          .a = (const float *)(const void *)((const char *)p->data[SIDE_A] +
                                                             at[SIDE_A]),
                          .ars = p->rs[SIDE_A],
                          .aks = p->cs[SIDE_A],
                          .b = (const float *)(const void *)room,
                          .c = (float *)(void *)((char *)p->copy[SIDE_OUT] + at[SIDE_OUT]),
                          .ldc = p->rs[SIDE_OUT],
                          .alpha = 1 };
        struct gemm_grid grid;

        gemm_pack_b(t->isa, (float *)(void *)room, (const char *)p->data[SIDE_B] + at[SIDE_B], k, n,
                    p->rs[SIDE_B], p->cs[SIDE_B], 0, gemm_panels(n, t->isa->nr));
        gemm_grid(&grid, t->isa, m, n, k, 1, 1);
        for (int64_t i = 0; i < grid.nmb * grid.nnb; i++)
            gemm_item(&g, &grid, i);
        return;
    }
    struct product q = { .isa = t->isa,
                         .type = t->type,
                         .m = m,
                         .n = n,
                         .k = k,
                         .a = (const char *)p->data[SIDE_A] + at[SIDE_A],
                         .b = (const char *)p->data[SIDE_B] + at[SIDE_B],
                         .ars = p->rs[SIDE_A],
                         .aks = p->cs[SIDE_A],
                         .brs = p->rs[SIDE_B],
                         .bcs = p->cs[SIDE_B],
                         .c = (char *)p->copy[SIDE_OUT] + at[SIDE_OUT],
                         .ldc = p->rs[SIDE_OUT] };

    product_panel(&q, part, room);
}

static void item_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct item_job *j = arg;

    for (int64_t i = begin; i < end; i++)
        one_product(j, i / j->panels, i % j->panels, thread);
}

/* One big product of floats, shared by all threads. */
struct pack_job {
    const struct layout *p;
    float *to;
};

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;

    (void)thread;
    gemm_pack_b(j->p->t->isa, j->to, j->p->data[SIDE_B], j->p->sum.count, j->p->columns.count,
                j->p->rs[SIDE_B], j->p->cs[SIDE_B], begin, end);
}

static void single(const struct layout *p, float *room)
{
    const struct isa *isa = p->t->isa;
    struct pack_job j = { p, room };
    struct gemm g = { .isa = isa,
                      .m = p->rows.count,
                      .n = p->columns.count,
                      .k = p->sum.count,
                      .a = p->data[SIDE_A],
                      .ars = p->rs[SIDE_A],
                      .aks = p->cs[SIDE_A],
                      .b = room,
                      .c = p->copy[SIDE_OUT],
                      .ldc = p->rs[SIDE_OUT],
                      .alpha = 1 };

    pool_for(p->t->pool, gemm_panels(g.n, isa->nr), 4, pack_part, &j);
    gemm_run_all(&g, p->t->pool);
}

static int multiply(struct layout *p)
{
    const struct contract *t = p->t;
    int64_t m = p->rows.count, n = p->columns.count, k = p->sum.count;
    struct product shape = { .isa = t->isa, .type = t->type, .m = m, .n = n, .k = k };
    bool f32 = t->type == TENSOR_F32, alone = f32 && p->batch.count == 1;
    struct item_job j = { .p = p, .panels = f32 ? 1 : product_panels(&shape) };
    int64_t floats = f32 ? gemm_size_b(t->isa, k, n) : 0;
    double ns = f32 ? 2.0 * (double)m * (double)n * (double)k / 80 : product_panel_ns(&shape);

    if (floats < 0)
        return OPM_ENOMEM;
    j.room_each = f32 ? ((size_t)floats * sizeof(float) + 63) / 64 * 64 : product_room(t->isa);
    j.room = native_alloc(j.room_each * (size_t)(alone ? 1 : pool_threads(t->pool)) + 64);
    if (!j.room)
        return OPM_ENOMEM;
    if (alone)
        single(p, (float *)(void *)j.room);
    else
        pool_for(t->pool, p->batch.count * j.panels, pool_grain(ns), item_part, &j);
    native_free(j.room);
    return 0;
}

/* The result from the order in which it was computed. */
static void copy_back(const struct layout *p)
{
    const struct contract *t = p->t;
    int64_t dim[CONTRACT_LABELS], stride[CONTRACT_LABELS];
    struct group all = { 0 };

    for (int l = 0; l < t->nlabel; l++)
        if (has(t->out_stride, t, l))
            group_add(&all, l, t->dim[l], t->out_stride);
    for (int i = 0; i < all.n; i++) {
        dim[i] = t->dim[all.label[i]];
        stride[i] = p->stride[SIDE_OUT][all.label[i]];
    }
    strided_copy(t->pool, t->out, p->copy[SIDE_OUT], nt_width(t->type), all.n, dim, stride);
}

static int as_matrices(const struct contract *t)
{
    struct layout p = { .t = t, .data = { t->a->data, t->b->data, t->out } };
    int rc;

    memcpy(p.stride[SIDE_A], t->a->stride, sizeof(p.stride[0]));
    memcpy(p.stride[SIDE_B], t->b->stride, sizeof(p.stride[0]));
    memcpy(p.stride[SIDE_OUT], t->out_stride, sizeof(p.stride[0]));
    p.batch.count = p.rows.count = p.columns.count = p.sum.count = 1;
    for (int l = 0; l < t->nlabel; l++) {
        bool a = has(t->a->stride, t, l), b = has(t->b->stride, t, l),
             out = has(t->out_stride, t, l);

        if (a || b)
            group_add(out ? (a && b ? &p.batch
                             : a    ? &p.rows
                                    : &p.columns)
                          : &p.sum,
                      l, t->dim[l], out ? t->out_stride : t->a->stride);
    }
    if (p.rows.count * p.columns.count * p.sum.count <= SMALL) {
        walk_all(t);
        return 0;
    }
    rc = arrange(&p, SIDE_A, &p.rows, &p.sum);
    if (!rc)
        rc = arrange(&p, SIDE_B, &p.sum, &p.columns);
    if (!rc)
        rc = arrange(&p, SIDE_OUT, &p.rows, &p.columns);
    if (!rc) {
        bool direct = !p.copy[SIDE_OUT];

        if (direct)
            p.copy[SIDE_OUT] = t->out;
        rc = multiply(&p);
        if (direct)
            p.copy[SIDE_OUT] = NULL;
        else if (!rc)
            copy_back(&p);
    }
    for (int s = 0; s < SIDES; s++)
        native_free(p.copy[s]);
    return rc;
}

/* t->a without the labels that only it has; *own is what to free. */
static int sum_alone(const struct contract *t, const struct contract_tensor *from,
                     const struct contract_tensor *other, struct contract_tensor *out, void **own)
{
    struct contract s = { .pool = t->pool,
                          .isa = t->isa,
                          .type = t->type,
                          .nlabel = t->nlabel,
                          .dim = t->dim,
                          .a = from };
    int64_t step = 1, dim[CONTRACT_LABELS];
    bool any = false;

    for (int l = t->nlabel - 1; l >= 0; l--) {
        bool mine = has(from->stride, t, l);

        dim[l] = mine ? t->dim[l] : 1;
        if (mine && !has(t->out_stride, t, l) && !has(other->stride, t, l))
            any = true;
        else if (mine) {
            s.out_stride[l] = step;
            step *= t->dim[l];
        }
    }
    *out = *from;
    if (!any)
        return 0;
    s.dim = dim;
    s.out = native_alloc((size_t)step * nt_width(t->type));
    if (!s.out)
        return OPM_ENOMEM;
    walk_all(&s);
    *own = s.out;
    out->data = s.out;
    memcpy(out->stride, s.out_stride, sizeof(out->stride));
    return 0;
}

/* Nothing is summed: elements in another order. */
static bool moved(const struct contract *t)
{
    struct group all = { 0 };
    int64_t dim[CONTRACT_LABELS], stride[CONTRACT_LABELS];

    for (int l = 0; l < t->nlabel; l++)
        if (has(t->a->stride, t, l) && !has(t->out_stride, t, l))
            return false;
        else if (has(t->out_stride, t, l))
            group_add(&all, l, t->dim[l], t->out_stride);
    for (int i = 0; i < all.n; i++) {
        dim[i] = t->dim[all.label[i]];
        stride[i] = t->a->stride[all.label[i]];
    }
    strided_copy(t->pool, t->out, t->a->data, nt_width(t->type), all.n, dim, stride);
    return true;
}

#define SUM_ROWS 256
#define LONG_ROW 64 /* floats, from which on a call for each row is worth it */
#define PIECE 4096  /* floats, up to which they are summed as such */

/* One operand, whose summed labels lie side by side, and those of the result in its own order
 * around them: rows, each of which becomes a number. */
static bool summed_rows(const struct contract *t)
{
    const struct rows_isa *on = t->isa->rows;
    int64_t n = 1, rows = 1, step = 1;
    double acc[SUM_ROWS];

    if (t->type != TENSOR_F32 && t->type != TENSOR_F64)
        return false;
    for (int l = t->nlabel - 1; l >= 0; l--) {
        bool kept = has(t->out_stride, t, l);

        if (!has(t->a->stride, t, l))
            continue;
        if (t->a->stride[l] != step || (kept && t->out_stride[l] != rows) || (!kept && rows > 1))
            return false;
        step *= t->dim[l];
        n *= kept ? 1 : t->dim[l];
        rows *= kept ? t->dim[l] : 1;
    }
    for (int64_t i = 0; i < rows; i += SUM_ROWS) {
        int64_t m = MIN(rows - i, (int64_t)SUM_ROWS), w = (int64_t)nt_width(t->type);

        memset(acc, 0, sizeof(acc));
        if (t->type == TENSOR_F32 && n >= LONG_ROW && n <= PIECE) {
            for (int64_t k = 0; k < m; k++)
                ((float *)t->out)[i + k] =
                    t->isa->reduce(R_SUM, (const float *)t->a->data + (i + k) * n, n);
            continue;
        }
        on->folds->rows[FOLD_SUM][t->type](acc, (const char *)t->a->data + i * n * w, n, n, m);
        on->cast[TENSOR_F64][t->type]((char *)t->out + i * w, acc, m);
    }
    return true;
}

static int labels(const int64_t *stride, const struct contract *t)
{
    int n = 0;

    for (int l = 0; l < t->nlabel; l++)
        n += has(stride, t, l);
    return n;
}

int contract_run(const struct contract *t)
{
    bool matrices = t->type == TENSOR_F32 || (TYPE_BIT(t->type) & TYPES_PRODUCT);
    struct contract_tensor a, b;
    struct contract both = *t, turned;
    void *own[2] = { NULL, NULL };
    int64_t rows = 0, columns = 0, dim[CONTRACT_LABELS];
    int rc;

    if (!t->b) {
        if (labels(t->out_stride, t) > SHAPE_RANK_MAX || (!moved(t) && !summed_rows(t)))
            walk_all(t);
        return 0;
    }
    /* Copies are of tensors that a model could have. */
    matrices &= labels(t->a->stride, t) <= SHAPE_RANK_MAX &&
                labels(t->b->stride, t) <= SHAPE_RANK_MAX &&
                labels(t->out_stride, t) <= SHAPE_RANK_MAX;
    rc = sum_alone(t, t->a, t->b, &a, &own[0]);
    if (!rc)
        rc = sum_alone(t, t->b, t->a, &b, &own[1]);
    for (int l = 0; l < t->nlabel && !rc; l++) /* what was summed up is gone */
        dim[l] = a.stride[l] || b.stride[l] ? t->dim[l] : 1;
    both.dim = dim;
    both.a = &a;
    both.b = &b;
    /* The fastest label of the result is a column. */
    for (int l = 0; l < t->nlabel; l++)
        if (t->out_stride[l] == 1 && has(t->out_stride, t, l)) {
            rows = has(a.stride, t, l) && !has(b.stride, t, l);
            columns = !rows;
        }
    turned = both;
    turned.a = &b;
    turned.b = &a;
    if (!rc && !matrices)
        walk_all(&both);
    else if (!rc)
        rc = as_matrices(rows && !columns ? &turned : &both);
    native_free(own[0]);
    native_free(own[1]);
    return rc;
}
