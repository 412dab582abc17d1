/* gemm.c -- see gemm.h. */
#include "engine/native/math/gemm.h"
#include "engine/native/isa/bf16_isa.h"
#include "engine/native/isa/half.h"
#include "engine/native/math/turn.h"

#include <string.h>

/* A block of B, NB panels of KC rows, stays in the second-level cache (half a megabyte of floats
 * with the widest panels) while rows of A pass by. */
#define KC 1024
#define KC_PACKED 256
#define MB 16
#define NB 4
#define MR_MAX 16
#define FLOPS_PER_NS 80      /* about, of one thread */
#define AS_IT_IS_FLOATS 8192 /* of a B that stays in the first-level cache in any order */

/* Rows whose distance is a multiple of this fall on each other in the first-level cache. */
#define ALIAS_FLOATS 1024

int64_t gemm_size_a(const struct isa *isa, int64_t m, int64_t k)
{
    int64_t n;

    if (__builtin_mul_overflow(gemm_panels(m, isa->mr) * isa->mr, k, &n) || n > PTRDIFF_MAX / 8)
        return -1;
    return n;
}

int64_t gemm_size_b(const struct isa *isa, int64_t k, int64_t n)
{
    int64_t size;

    if (__builtin_mul_overflow(gemm_panels(n, isa->nr) * isa->nr, k, &size) ||
        size > PTRDIFF_MAX / 8)
        return -1;
    return size;
}

static int64_t even_blocks(int64_t k, int64_t most)
{
    int64_t blocks = (k + most - 1) / most;

    return blocks ? (k + blocks - 1) / blocks : 1;
}

int64_t gemm_kc(int64_t k)
{
    return even_blocks(k, KC_PACKED);
}

static inline float load(const char *p, int64_t i)
{
    float f;

    memcpy(&f, p + i * (int64_t)sizeof(f), sizeof(f));
    return f;
}

/* A panel whose n rows are contiguous in the source: k x width, turned. */
static void pack_turned(float *to, const char *from, int64_t n, int64_t k, int64_t step, int width)
{
    int64_t j = 0;

    for (; j + 4 <= k; j += 4, to += 4 * width, from += 4 * sizeof(float)) {
        int64_t i = 0;

        for (; i + 4 <= n; i += 4)
            turn4(to + i, width, from + i * step, step);
        for (; i < n; i++)
            for (int64_t q = 0; q < 4; q++)
                to[q * width + i] = load(from + i * step, q);
        for (; i < width; i++)
            for (int64_t q = 0; q < 4; q++)
                to[q * width + i] = 0;
    }
    for (; j < k; j++, to += width, from += sizeof(float)) {
        for (int64_t i = 0; i < n; i++)
            to[i] = load(from + i * step, 0);
        for (int64_t i = n; i < width; i++)
            to[i] = 0;
    }
}

/* Panels of `width` along the first index, k along the second. */
static void pack(float *out, const char *src, int64_t rows, int64_t k, int64_t rs, int64_t cs,
                 int width, int64_t p0, int64_t p1)
{
    for (int64_t p = p0; p < p1; p++) {
        float *to = out + p * width * k;
        const char *from = src + p * width * rs * (int64_t)sizeof(float);
        int64_t n = MIN((int64_t)width, rows - p * width);

        if (cs == 1) {
            pack_turned(to, from, n, k, rs * (int64_t)sizeof(float), width);
            continue;
        }
        for (int64_t j = 0; j < k; j++, to += width) {
            const char *row = from + j * cs * (int64_t)sizeof(float);

            if (rs == 1)
                memcpy(to, row, (size_t)n * sizeof(float));
            else
                for (int64_t i = 0; i < n; i++)
                    to[i] = load(row, i * rs);
            for (int64_t i = n; i < width; i++)
                to[i] = 0;
        }
    }
}

void gemm_pack_a(const struct isa *isa, float *out, const void *src, int64_t m, int64_t k,
                 int64_t rs, int64_t cs, int64_t p0, int64_t p1)
{
    pack(out, src, m, k, rs, cs, isa->mr, p0, p1);
}

void gemm_pack_b(const struct isa *isa, float *out, const void *src, int64_t k, int64_t n,
                 int64_t rs, int64_t cs, int64_t p0, int64_t p1)
{
    pack(out, src, n, k, cs, rs, isa->nr, p0, p1);
}

/* What sums begin with, which saves a pass over the result: the first thing that is added. */
struct start {
    const float *at; /* or NULL */
    int64_t rs;
    bool add;          /* is g->add */
    struct posts left; /* those after it */
    bool more;
};

static void start_of(const struct gemm *g, struct start *s)
{
    const struct post *first = g->posts && g->posts->op->npost ? g->posts->op->post : NULL;

    *s = (struct start){ 0 };
    if (first)
        s->left = *g->posts;
    if (g->alpha == 1 && g->add && g->add_cs == 1) {
        s->at = g->add;
        s->rs = g->add_rs;
        s->add = true;
    } else if (g->alpha == 1 && !g->add && first && first->kind == POST_BIAS && !s->left.bias_row) {
        s->at = s->left.operand[0] + s->left.bias_base;
        s->left.first = 1;
    } else if (g->alpha == 1 && !g->add && first && first->kind == POST_ADD) {
        s->at = s->left.operand[0] + g->base;
        s->rs = g->ldc;
        s->left.first = 1;
    }
    s->more = first && s->left.first < g->posts->op->npost;
}

static void finish(const struct gemm *g, const struct start *s, int64_t r0, int64_t rows,
                   int64_t c0, int64_t cols)
{
    float *c = g->c + r0 * g->ldc + c0;

    if (g->alpha != 1 && cols == g->ldc)
        g->isa->unary(U_AFFINE, c, c, rows * cols, g->alpha, 0);
    else if (g->alpha != 1)
        for (int64_t i = 0; i < rows; i++)
            g->isa->unary(U_AFFINE, c + i * g->ldc, c + i * g->ldc, cols, g->alpha, 0);
    if (g->add && !s->add)
        for (int64_t i = 0; i < rows; i++)
            g->isa->binary(B_ADD, c + i * g->ldc, c + i * g->ldc, 1,
                           g->add + (r0 + i) * g->add_rs + c0 * g->add_cs, g->add_cs, cols);
    if (s->more)
        posts_apply(&s->left, c, g->ldc, rows, cols, r0, c0, g->base);
}

bool gemm_as_it_is(const struct isa *isa, int64_t k, int64_t n, int64_t brs, int64_t bcs)
{
    int64_t rest = n % isa->nr;

    return bcs == 1 && brs >= n && (rest == 0 || rest == isa->lanes) &&
           n <= AS_IT_IS_FLOATS / MAX(k, (int64_t)1);
}

int64_t gemm_wide(const struct isa *isa, int64_t k)
{
    return NB * even_blocks(k, KC) * isa->nr;
}

static void widen_half(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len)
{
    const int64_t nr = g->isa->nr;

    for (int64_t j = j0; j < j1; j++)
        half_to_float(g->wide + (j - j0) * len * nr,
                      (const uint16_t *)g->half + (j * g->k + k0) * nr, len * nr, g->half_type);
}

static void order_half(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len)
{
    const int64_t nr = g->isa->nr;

    for (int64_t j = j0; j < j1; j++)
        g->isa->bf16->order((uint16_t *)g->wide + (j - j0) * bf16_rows(len) * nr,
                            (const uint16_t *)g->half + (j * g->k + k0) * nr, len);
}

bool gemm_is_bf16(const struct gemm *g, const float *a, int64_t n)
{
    int64_t i = 0;

    /* Of one row each weight is read once, in any order; in `wide` short rows would not fit. */
    if (!g->isa->bf16 || !g->half || g->half_type != TENSOR_BF16 || g->m < 2 || g->aks != 1 ||
        g->k < 2 * BF16_GROUP)
        return false;
    for (uint32_t below = 0; i < n && !below;) {
        int64_t end = MIN(i + 256, n);

        for (; i < end; i++) {
            uint32_t x;

            memcpy(&x, a + i, sizeof(x));
            below |= x & 0xffff;
        }
        if (below)
            return false;
    }
    return true;
}

/* One row reads each weight once: it need not be written as a float before. */
static bool row_half(const struct gemm *g)
{
    return g->half && !g->widen && g->m == 1 && g->isa->row_half;
}

/* Panels [j0, j1) of one panel of rows, which are at a, ars apart, k0 .. k0 + len. */
static void panel_row_at(const struct gemm *g, const struct start *s, int64_t i, int64_t j0,
                         int64_t j1, int64_t k0, int64_t len, const float *a, int64_t ars)
{
    const int mr = g->isa->mr, nr = g->isa->nr;
    struct isa_tile t = { .m = (int)MIN((int64_t)mr, g->m - i * mr),
                          .k = len,
                          .a = a,
                          .ars = ars,
                          .aks = g->aks,
                          .brs = g->brs ? g->brs : nr,
                          .ldc = g->ldc,
                          .bf16 = g->half_type == TENSOR_BF16 };
    bool half = row_half(g);

    for (int64_t q = j0; q < j1; q++) {
        int64_t j = g->backwards ? j1 - 1 - (q - j0) : q;

        t.n = (int)MIN((int64_t)nr, g->n - j * nr);
        if (g->a_bf16)
            t.half = (const uint16_t *)g->wide + (j - j0) * bf16_rows(len) * nr;
        else if (half)
            t.half = (const uint16_t *)g->half + (j * g->k + k0) * nr;
        else if (g->brs)
            t.b = g->b + k0 * g->brs + j * nr;
        else
            t.b = g->half || g->widen ? g->wide + (j - j0) * len * nr
                                      : g->b + j * nr * g->k + k0 * nr;
        t.c = g->c + i * mr * g->ldc + j * nr;
        t.init = k0 ? t.c : s->at ? s->at + i * mr * s->rs + j * nr : NULL;
        t.irs = k0 ? t.ldc : s->rs;
        if (g->a_bf16)
            g->isa->bf16->tile(&t);
        else
            g->isa->tile(&t);
    }
}

/* The same of a copy. A function of its own: so much room on the stack takes time. */
static __attribute__((noinline)) void panel_row_copied(const struct gemm *g, const struct start *s,
                                                       int64_t i, int64_t j0, int64_t j1,
                                                       int64_t k0, int64_t len, int64_t rows)
{
    _Alignas(NATIVE_ALIGN) float copy[MR_MAX * (KC + 16)];
    const float *a = g->a + i * g->isa->mr * g->ars + k0;

    for (int64_t r = 0; r < rows; r++)
        memcpy(copy + r * (len + 16), a + r * g->ars, (size_t)len * sizeof(float));
    panel_row_at(g, s, i, j0, j1, k0, len, copy, len + 16);
}

static void panel_row(const struct gemm *g, const struct start *s, int64_t i, int64_t j0,
                      int64_t j1, int64_t k0, int64_t len)
{
    int64_t rows = MIN((int64_t)g->isa->mr, g->m - i * g->isa->mr);

    if (g->aks == 1 && g->ars % ALIAS_FLOATS == 0 && rows > 8 && j1 - j0 > 1)
        panel_row_copied(g, s, i, j0, j1, k0, len, rows);
    else
        panel_row_at(g, s, i, j0, j1, k0, len, g->a + i * g->isa->mr * g->ars + k0 * g->aks,
                     g->ars);
}

/* Rows of panels [i0, i1) of A by panels [j0, j1) of B. */
static void block(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    const int mr = g->isa->mr, nr = g->isa->nr;
    /* One row uses nothing twice: B is read in one go. */
    bool whole = g->m == 1 && !g->widen && (!g->half || row_half(g));
    int64_t kc = whole ? MAX(g->k, (int64_t)1) : even_blocks(g->k, KC), c0 = j0 * nr,
            c1 = MIN(j1 * nr, g->n);
    struct start s;

    start_of(g, &s);
    for (int64_t k0 = 0; k0 < g->k || k0 == 0; k0 += kc) {
        int64_t len = MIN(kc, g->k - k0);

        if (g->a_bf16)
            order_half(g, j0, j1, k0, len);
        else if (g->widen)
            g->widen(g, j0, j1, k0, len);
        else if (g->half && !row_half(g))
            widen_half(g, j0, j1, k0, len);
        for (int64_t i = i0; i < i1; i++) {
            panel_row(g, &s, i, j0, j1, k0, len);
            if (k0 + len >= g->k)
                finish(g, &s, i * mr, MIN((int64_t)mr, g->m - i * mr), c0, c1 - c0);
        }
    }
}

void gemm_grid(struct gemm_grid *grid, const struct isa *isa, int64_t m, int64_t n, int64_t k,
               int64_t batch, int threads)
{
    int64_t want = threads > 1 ? 4 * (int64_t)threads : 1;

    grid->mp = gemm_panels(m, isa->mr);
    grid->np = gemm_panels(n, isa->nr);
    grid->mb = MIN(grid->mp, (int64_t)MB);
    grid->nb = MIN(grid->np, (int64_t)NB);
    grid->nmb = grid->mb ? (grid->mp + grid->mb - 1) / grid->mb : 0;
    for (;; grid->nb--) { /* narrower blocks where there would be too few to share */
        grid->nnb = grid->nb ? (grid->np + grid->nb - 1) / grid->nb : 0;
        if (grid->nb <= 1 || grid->nnb * grid->nmb >= want / MAX(batch, (int64_t)1))
            break;
    }
    while (grid->mb > 4 && grid->nmb * grid->nnb < want / MAX(batch, (int64_t)1)) {
        grid->mb = (grid->mb + 1) / 2;
        grid->nmb = (grid->mp + grid->mb - 1) / grid->mb;
    }
    grid->item_ns = 2.0 * (double)MIN(grid->mb * isa->mr, m) * (double)MIN(grid->nb * isa->nr, n) *
                    (double)k / FLOPS_PER_NS;
    if (m == 1) /* one multiplication for each weight that is read */
        grid->item_ns *= 2;
}

void gemm_item(const struct gemm *g, const struct gemm_grid *grid, int64_t item)
{
    int64_t i = item % grid->nmb, j = item / grid->nmb;

    block(g, i * grid->mb, MIN((i + 1) * grid->mb, grid->mp), j * grid->nb,
          MIN((j + 1) * grid->nb, grid->np));
}

struct all_job {
    const struct gemm *g;
    struct gemm_grid grid;
};

static void all_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct all_job *j = arg;

    (void)thread;
    for (int64_t i = begin; i < end; i++)
        gemm_item(j->g, &j->grid, j->g->backwards ? end - 1 - (i - begin) : i);
}

void gemm_run_all(const struct gemm *g, struct pool *pool)
{
    struct all_job j = { .g = g };

    if (g->m == 0 || g->n == 0)
        return;
    gemm_grid(&j.grid, g->isa, g->m, g->n, g->k, 1, pool_threads(pool));
    pool_for(pool, j.grid.nmb * j.grid.nnb, pool_grain(j.grid.item_ns), all_part, &j);
}

void gemm_run_here(const struct gemm *g)
{
    struct all_job j = { .g = g };

    if (g->m == 0 || g->n == 0)
        return;
    gemm_grid(&j.grid, g->isa, g->m, g->n, g->k, 1, 1);
    all_part(&j, 0, j.grid.nmb * j.grid.nnb, 0);
}
