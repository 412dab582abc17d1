/* product.c -- see product.h. */
#include "engine/native/math/product.h"
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/shuffle.h"

#include <string.h>

#define KC 128 /* rows of B at a time: a panel of them stays in the first-level cache */
#define FEW 8  /* rows of A for which packing B does not pay */
#define DOTS 2 /* rows of A for which a transposed B is read as it lies */
#define COLUMNS_MAX 64
#define FLOPS_PER_NS 20

static int columns(const struct product *p)
{
    return nt_width(p->type) == 8 ? p->isa->loops->columns64 : p->isa->loops->columns32;
}

int64_t product_panels(const struct product *p)
{
    return (p->n + columns(p) - 1) / columns(p);
}

double product_panel_ns(const struct product *p)
{
    return 2.0 * (double)p->m * (double)p->k * columns(p) / FLOPS_PER_NS;
}

size_t product_room(const struct isa *isa)
{
    (void)isa;
    return (size_t)KC * COLUMNS_MAX * sizeof(int64_t);
}

/* Rows of `count` columns, which is known where there are all of them. */
#define PACK_ROWS(T, count)                                          \
    for (int64_t k = 0; k < len; k++, to += (count), from += p->brs) \
        for (int64_t j = 0; j < (count); j++)                        \
    to[j] = (T)from[j]
#define PACK(T, FROM)                                                      \
    do {                                                                   \
        const FROM *from = (const FROM *)p->b + k0 * p->brs + j0 * p->bcs; \
        T *restrict to = room;                                             \
        if (p->bcs == 1 && n == 16 && nr == 16)                            \
            PACK_ROWS(T, 16);                                              \
        else if (p->bcs == 1 && n == 8 && nr == 8)                         \
            PACK_ROWS(T, 8);                                               \
        else                                                               \
            for (int64_t k = 0; k < len; k++, to += nr, from += p->brs) {  \
                for (int64_t j = 0; j < n; j++)                            \
                    to[j] = from[j * p->bcs];                              \
                for (int64_t j = n; j < nr; j++)                           \
                    to[j] = 0;                                             \
            }                                                              \
    } while (0)

typedef uint64_t two_at __attribute__((vector_size(16), aligned(8), may_alias));

/* Elements of 64 bits of a transposed B, two columns and two rows at a time. */
static void pack_turned(const struct product *p, uint64_t *to, int64_t k0, int64_t len, int64_t j0,
                        int64_t nr)
{
    for (int64_t j = 0; j < nr; j += 2) {
        const uint64_t *from = (const uint64_t *)p->b + k0 + (j0 + j) * p->bcs,
                       *next = from + p->bcs;
        int64_t k = 0;

        for (; k + 2 <= len; k += 2) {
            two_at x = *(const two_at *)(from + k), y = *(const two_at *)(next + k);

            *(two_at *)(to + k * nr + j) = __builtin_shufflevector(x, y, 0, 2);
            *(two_at *)(to + (k + 1) * nr + j) = __builtin_shufflevector(x, y, 1, 3);
        }
        for (; k < len; k++) {
            to[k * nr + j] = from[k];
            to[k * nr + j + 1] = next[k];
        }
    }
}

static void pack(const struct product *p, void *room, int64_t k0, int64_t len, int64_t j0,
                 int64_t n, int64_t nr)
{
    if (p->narrow == TENSOR_I16)
        PACK(int32_t, int16_t);
    else if (p->narrow)
        PACK(int32_t, uint16_t);
    else if (nt_width(p->type) == 8 && p->brs == 1 && n == nr && nr % 2 == 0)
        pack_turned(p, room, k0, len, j0, nr);
    else if (nt_width(p->type) == 8)
        PACK(uint64_t, uint64_t);
    else
        PACK(uint32_t, uint32_t);
}

/* Few rows by rows of doubles. */
static void dots(const struct product *p, int64_t j0, int64_t n)
{
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = j0; j < j0 + n; j++)
            ((double *)p->c)[i * p->ldc + j] = p->isa->loops->dot_f64(
                (const double *)p->a + i * p->ars, (const double *)p->b + j * p->bcs, p->k);
}

void product_panel(const struct product *p, int64_t panel, void *room)
{
    const struct loops_isa *l = p->isa->loops;
    size_t w = nt_width(p->type);
    int64_t nr = columns(p), j0 = panel * nr, n = MIN(nr, p->n - j0);
    bool packed = p->bcs != 1 || n < nr || p->m > FEW || p->narrow;

    if (p->type == TENSOR_F64 && p->brs == 1 && p->aks == 1 && p->m <= DOTS) {
        dots(p, j0, n);
        return;
    }
    for (int64_t k0 = 0; k0 < p->k || k0 == 0; k0 += KC) {
        int64_t len = MIN((int64_t)KC, p->k - k0);

        if (packed)
            pack(p, room, k0, len, j0, n, nr);
        for (int64_t i = 0; i < p->m; i += l->rows) {
            struct loops_tile t = {
                .m = (int)MIN((int64_t)l->rows, p->m - i),
                .n = (int)n,
                .k = len,
                .a = (const char *)p->a + (i * p->ars + k0 * p->aks) * (int64_t)w,
                .ars = p->ars,
                .aks = p->aks,
                .b = packed ? room : (const char *)p->b + (k0 * p->brs + j0) * (int64_t)w,
                .brs = packed ? nr : p->brs,
                .c = (char *)p->c + (i * p->ldc + j0) * (int64_t)w,
                .ldc = p->ldc,
                .add = k0 > 0
            };

            if (p->type == TENSOR_F64)
                l->tile_f64(&t);
            else if (w == 8)
                l->tile_i64(&t);
            else
                l->tile_i32(&t);
        }
    }
}
