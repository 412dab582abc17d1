/* nbits_isa.h -- the inner loops of products by weights of 2, 4 or 8 bits in blocks, once per
 * instruction set.
 *
 * Rows of floats become integers before: in each block of k, a scale times a number of one to three
 * signed digits of 8 bits. Three keep what a float32 of the block's size keeps; one is what
 * activations of 8 bits are. Products of digits by weights are exact, so that only blocks are added
 * in floats.
 *
 * Weights lie in groups of `lanes` columns, blocks of k and words: a word of 32 bits has 32 / bits
 * numbers k of one column, four at a time in the same bits of its four bytes. */
#ifndef NATIVE_NBITS_ISA_H
#define NATIVE_NBITS_ISA_H

#include "engine/native/isa/isa.h"

#define NBITS_DIGITS 3
#define NBITS_ROWS 8 /* of a tile, at most; with several digits half as many */

/* Rows of a tile by one group of columns. */
struct nbits_tile {
    int bits, digits, rows;
    int cols;             /* of the group that count */
    int64_t blocks;       /* of k */
    const int32_t *words; /* in each block */
    const uint8_t *w;     /* words, `lanes` columns beside each other */
    const float *scale;   /* of each block, by column */
    const uint8_t *zero;  /* likewise; NULL: */
    const float *zero_f;  /* likewise; NULL: */
    int32_t zero_all;     /* the same for all, which is in a_sum already */
    const int8_t *a;      /* digits of a row: those of the first for all k, the second, ... */
    int64_t a_row, a_digit;
    const float *a_scale; /* of a row: blocks */
    const int32_t *a_sum; /* of a row: blocks, digits: sums over k; times -zero_all unless there are
                           * other zero points */
    const float *bias;    /* by column, or NULL */
    float *c;
    int64_t ldc;
    int64_t w_step, scale_step; /* row(): bytes and scales to the next group of columns */
};

struct nbits_isa {
    int lanes;
    void (*tile)(const struct nbits_tile *t);
    /* One row by two groups of columns, of which all lanes count; only for blocks that
     * nbits_pairs() takes. */
    void (*row)(const struct nbits_tile *t);
    /* n floats as digits at out + d * stride, zeros from n to room; their sums, and the scale. */
    void (*digits)(int digits, int8_t *out, int64_t stride, const float *x, int64_t n, int64_t room,
                   float *scale, int32_t *sum);
    /* The weights of a tile's columns as floats, `lanes` of them at out + (k - k0) * ldo, for k in
     * k0 .. k1 - 1. Place i holds k = order[i]; order NULL: i, and all blocks are as long. */
    void (*widen)(const struct nbits_tile *t, float *out, int64_t ldo, const int32_t *order,
                  int64_t k0, int64_t k1);
};

/* Words of a block, all alike, that row() has a loop for. */
static inline bool nbits_pairs(int bits, int64_t words)
{
    return bits == 4 && (words == 2 || words == 4 || words == 8 || words == 16);
}

extern const struct nbits_isa nbits_c, nbits_avx2, nbits_vnni, nbits_neon, nbits_dotprod,
    nbits_i8mm;

#endif
