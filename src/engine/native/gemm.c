/* gemm.c -- see gemm.h. */
#include "engine/native/gemm.h"

#include <string.h>

#define KC 256
#define MB 12 /* panels of rows in a block: A's block stays in the second-level cache */
#define NB 4

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

int64_t gemm_kc(int64_t k)
{
    int64_t blocks = (k + KC - 1) / KC;

    return blocks ? (k + blocks - 1) / blocks : 1;
}

static inline float load(const char *p, int64_t i)
{
    float f;

    memcpy(&f, p + i * (int64_t)sizeof(f), sizeof(f));
    return f;
}

/* Panels of `width` along the first index, k along the second. */
static void pack(float *out, const char *src, int64_t rows, int64_t k, int64_t rs, int64_t cs,
                 int width, int64_t p0, int64_t p1)
{
    for (int64_t p = p0; p < p1; p++) {
        float *to = out + p * width * k;
        const char *from = src + p * width * rs * (int64_t)sizeof(float);
        int64_t n = MIN((int64_t)width, rows - p * width);

        if (rs == 1) {
            for (int64_t j = 0; j < k; j++, to += width) {
                memcpy(to, from + j * cs * (int64_t)sizeof(float), (size_t)n * sizeof(float));
                for (int64_t i = n; i < width; i++)
                    to[i] = 0;
            }
            continue;
        }
        for (int64_t i = 0; i < n; i++)
            for (int64_t j = 0; j < k; j++)
                to[j * width + i] = load(from, i * rs + j * cs);
        for (int64_t i = n; i < width; i++)
            for (int64_t j = 0; j < k; j++)
                to[j * width + i] = 0;
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

static void finish(const struct gemm *g, int64_t r0, int64_t rows, int64_t c0, int64_t cols)
{
    float *c = g->c + r0 * g->ldc + c0;

    if (g->alpha != 1)
        for (int64_t i = 0; i < rows; i++)
            g->isa->unary(U_AFFINE, c + i * g->ldc, c + i * g->ldc, cols, g->alpha, 0);
    if (g->add)
        for (int64_t i = 0; i < rows; i++)
            g->isa->binary(B_ADD, c + i * g->ldc, c + i * g->ldc, 1,
                           g->add + (r0 + i) * g->add_rs + c0 * g->add_cs, g->add_cs, cols);
    if (g->posts)
        posts_apply(g->posts, c, g->ldc, rows, cols, r0, c0, g->base);
}

void gemm_block(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1)
{
    const int mr = g->isa->mr, nr = g->isa->nr;
    int64_t kc = gemm_kc(g->k), r0 = i0 * mr, r1 = MIN(i1 * mr, g->m), c0 = j0 * nr,
            c1 = MIN(j1 * nr, g->n);

    for (int64_t k0 = 0; k0 < g->k || k0 == 0; k0 += kc) {
        int64_t len = MIN(kc, g->k - k0);

        for (int64_t j = j0; j < j1; j++) {
            const float *b = g->b + j * nr * g->k + k0 * nr;
            int n = (int)MIN((int64_t)nr, g->n - j * nr);

            for (int64_t i = i0; i < i1; i++)
                g->isa->gemm((int)MIN((int64_t)mr, g->m - i * mr), n, len,
                             g->a + i * mr * g->k + k0 * mr, b, g->c + i * mr * g->ldc + j * nr,
                             g->ldc, k0 > 0);
        }
    }
    finish(g, r0, r1 - r0, c0, c1 - c0);
}

void gemm_grid(struct gemm_grid *grid, const struct isa *isa, int64_t m, int64_t n)
{
    grid->mp = gemm_panels(m, isa->mr);
    grid->np = gemm_panels(n, isa->nr);
    grid->mb = MIN(grid->mp, (int64_t)MB);
    grid->nb = MIN(grid->np, (int64_t)(grid->mp < MB ? 1 : NB));
    grid->nmb = grid->mb ? (grid->mp + grid->mb - 1) / grid->mb : 0;
    grid->nnb = grid->nb ? (grid->np + grid->nb - 1) / grid->nb : 0;
}

void gemm_item(const struct gemm *g, const struct gemm_grid *grid, int64_t item)
{
    int64_t i = item % grid->nmb, j = item / grid->nmb;

    gemm_block(g, i * grid->mb, MIN((i + 1) * grid->mb, grid->mp), j * grid->nb,
               MIN((j + 1) * grid->nb, grid->np));
}
