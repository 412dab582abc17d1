/* gemm.h -- packed matrix multiplication of floats.
 *
 * Both operands are packed: A into panels of mr rows, B into panels of nr columns, each panel with
 * its elements in the order in which the inner loop wants them, zero beyond the matrix's edge.
 * Weights are packed once, when preparing. Each element of the product is summed in an order that
 * depends on k only. */
#ifndef NATIVE_GEMM_H
#define NATIVE_GEMM_H

#include "engine/native/native.h"

/* Floats that a packed operand takes; -1: too many. */
int64_t gemm_size_a(const struct isa *isa, int64_t m, int64_t k);
int64_t gemm_size_b(const struct isa *isa, int64_t k, int64_t n);
static inline int64_t gemm_panels(int64_t n, int width)
{
    return (n + width - 1) / width;
}
/* Pack panels [p0, p1). Element (i, j) is at src[i * rs + j * cs]; src may be unaligned. */
void gemm_pack_a(const struct isa *isa, float *out, const void *src, int64_t m, int64_t k,
                 int64_t rs, int64_t cs, int64_t p0, int64_t p1);
void gemm_pack_b(const struct isa *isa, float *out, const void *src, int64_t k, int64_t n,
                 int64_t rs, int64_t cs, int64_t p0, int64_t p1);

/* Length of the blocks that k is cut into: the same for all who multiply. */
int64_t gemm_kc(int64_t k);

struct gemm {
    const struct isa *isa;
    int64_t m, n, k;
    const float *a, *b; /* packed */
    float *c;
    int64_t ldc;
    float alpha;      /* 1: none */
    const float *add; /* + add[i * add_rs + j * add_cs], or NULL */
    int64_t add_rs, add_cs;
    const struct posts *posts; /* or NULL */
    int64_t base;              /* index of c[0] in the operator's output, for posts */
};

/* Rows of panels [i0, i1) of A by panels [j0, j1) of B, everything after the product included. */
void gemm_block(const struct gemm *g, int64_t i0, int64_t i1, int64_t j0, int64_t j1);
/* How a product is cut into blocks; items are numbered with rows fastest. */
struct gemm_grid {
    int64_t mp, np;   /* panels */
    int64_t mb, nb;   /* panels in a block */
    int64_t nmb, nnb; /* blocks */
};
void gemm_grid(struct gemm_grid *grid, const struct isa *isa, int64_t m, int64_t n);
void gemm_item(const struct gemm *g, const struct gemm_grid *grid, int64_t item);

#endif
