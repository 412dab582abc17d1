/* gemm.h -- packed matrix multiplication of floats.
 *
 * B is packed into panels of nr columns, each with its elements in the order in which the inner
 * loop wants them, zero beyond the matrix's edge; A is read where it lies. (gemm_pack_a() is for
 * who calls the instruction set's gemm() himself.) Weights are packed once, when preparing. Each
 * element of the product is summed in an order that depends on the shapes only. */
#ifndef NATIVE_GEMM_H
#define NATIVE_GEMM_H

#include "engine/native/op.h"

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

/* Whether a B that is used once need not be packed: its rows end where vectors do, and all of it
 * stays in the first-level cache. */
bool gemm_as_it_is(const struct isa *isa, int64_t k, int64_t n, int64_t brs, int64_t bcs);

/* Floats of a block of B that was something else. */
int64_t gemm_wide(const struct isa *isa, int64_t k);

/* Length of the blocks that k is cut into by who calls the instruction set's gemm() himself. */
int64_t gemm_kc(int64_t k);

struct gemm {
    const struct isa *isa;
    int64_t m, n, k;
    const float *a;
    int64_t ars, aks; /* element (i, p) of A is at a[i * ars + p * aks] */
    const float *b;   /* packed */
    int64_t brs;      /* not 0: b is as it is, rows so far apart; see gemm_as_it_is() */
    const void *half; /* instead of b: the same in 16 bits, of that type */
    enum tensor_type half_type;
    bool a_bf16; /* A and half have nothing but bfloat16 numbers; see gemm_is_bf16() */
    /* Instead of b: puts columns of panels [j0, j1), k0 .. k0 + len, into wide, as b would have
     * them. */
    void (*widen)(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len);
    const void *widen_arg;
    float *wide; /* for these two: room for gemm_wide() floats, this thread's own */
    float *c;
    int64_t ldc;
    float alpha;      /* 1: none */
    const float *add; /* + add[i * add_rs + j * add_cs], or NULL */
    int64_t add_rs, add_cs;
    const struct posts *posts; /* or NULL */
    int64_t base;              /* index of c[0] in the operator's output, for posts */
    bool backwards;            /* B's panels last to first: repeated products by the same B find the
                                * end of the last one in the cache */
};

/* Whether a product by 16-bit weights can use instructions that multiply bfloat16: this set has
 * them, and all of the n floats that A is within are such numbers. */
bool gemm_is_bf16(const struct gemm *g, const float *a, int64_t n);

/* How a product is cut into blocks; items are numbered with rows fastest. */
struct gemm_grid {
    int64_t mp, np;   /* panels */
    int64_t mb, nb;   /* panels in a block */
    int64_t nmb, nnb; /* blocks */
    double item_ns;   /* what a block takes, about */
};
/* batch: how many such products there are; threads: that all of them are shared by. */
void gemm_grid(struct gemm_grid *grid, const struct isa *isa, int64_t m, int64_t n, int64_t k,
               int64_t batch, int threads);
/* One block, everything after the product included. */
void gemm_item(const struct gemm *g, const struct gemm_grid *grid, int64_t item);
/* All of a product, shared by the pool's threads. */
void gemm_run_all(const struct gemm *g, struct pool *pool);
/* All of a product, by this thread alone: from within a pool's job. */
void gemm_run_here(const struct gemm *g);

#endif
