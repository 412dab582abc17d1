/* product.c -- see product.h. */
#include "engine/native/math/product.h"
#include "engine/native/isa/loops_isa.h"

#include <string.h>

#define KC 512 /* rows of B at a time: a panel of them stays in a cache */
#define FEW 8  /* rows of A for which packing B does not pay */
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

#define PACK(T)                                                       \
    do {                                                              \
        const T *from = (const T *)p->b + k0 * p->brs + j0 * p->bcs;  \
        T *to = room;                                                 \
        for (int64_t k = 0; k < len; k++, to += nr, from += p->brs) { \
            for (int64_t j = 0; j < n; j++)                           \
                to[j] = from[j * p->bcs];                             \
            for (int64_t j = n; j < nr; j++)                          \
                to[j] = 0;                                            \
        }                                                             \
    } while (0)

static void pack(const struct product *p, void *room, int64_t k0, int64_t len, int64_t j0,
                 int64_t n, int64_t nr)
{
    if (nt_width(p->type) == 8)
        PACK(uint64_t);
    else
        PACK(uint32_t);
}

void product_panel(const struct product *p, int64_t panel, void *room)
{
    const struct loops_isa *l = p->isa->loops;
    size_t w = nt_width(p->type);
    int64_t nr = columns(p), j0 = panel * nr, n = MIN(nr, p->n - j0);
    bool packed = p->bcs != 1 || n < nr || p->m > FEW;

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
