/* nbits_isa.h -- the inner loops of products by weights of 2, 4 or 8 bits in blocks, once per
 * instruction set.
 *
 * Rows of floats become integers before: in each block of k, a scale times a number of one to three
 * signed digits of 8 bits. Three keep what a float32 of the block's size keeps; one is what
 * activations of 8 bits are. Products of digits by weights are exact, so that only blocks are added
 * in floats.
 *
 * Weights lie in pairs of groups of `lanes` columns, blocks of k and words, the words of both
 * groups side by side, so that one row reads them from one end to the other: a word of 32 bits has
 * 32 / bits numbers k of one column, four at a time in the same bits of its four bytes. Scales and
 * zero points of a block have both groups side by side, too. */
#ifndef NATIVE_NBITS_ISA_H
#define NATIVE_NBITS_ISA_H

#include "engine/native/isa/isa.h"

#define NBITS_DIGITS 3
/* How far ahead of its use a weight is fetched where each is used once: in bytes. */
#define NBITS_AHEAD 6144
#define NBITS_ROWS 8 /* of a tile, at most; with several digits half as many */

/* Rows of a tile by one group of columns. */
struct nbits_tile {
    int bits, digits, rows;
    int cols;             /* of the group that count */
    int64_t blocks;       /* of k */
    const int32_t *words; /* in each block */
    const uint8_t *w;     /* words of `lanes` columns, beside those of the other group */
    const float *scale;   /* of each block, by column */
    const uint8_t *zero;  /* likewise; NULL: */
    const float *zero_f;  /* likewise; NULL: */
    int32_t zero_all;     /* the same for all, which is in a_sum already */
    const int8_t *a;      /* digits of a row: those of the first for all k, the second, ... */
    int64_t a_row, a_digit;
    const float *a_scale; /* of a row: blocks */
    const int32_t *a_sum; /* of a row: blocks, digits: sums over k; times -zero_all unless there are
                           * other zero points */
    const float *a_whole; /* of a row: blocks: sums over k of all digits together */
    const float *bias;    /* by column, or NULL */
    float *c;
    int64_t ldc;
    int row_words; /* row(): in each block, if all have as many, else 0 */
};

struct nbits_isa {
    int lanes;
    void (*tile)(const struct nbits_tile *t);
    /* One row by a pair of groups, of which all lanes count. */
    void (*row)(const struct nbits_tile *t);
    /* n floats as digits at out + d * stride, zeros from n to room; their sums, and the scale. */
    void (*digits)(int digits, int8_t *out, int64_t stride, const float *x, int64_t n, int64_t room,
                   float *scale, int32_t *sum);
    /* The weights of a tile's columns as floats, `lanes` of them at out + (k - k0) * ldo, for k in
     * k0 .. k1 - 1. Place i holds k = order[i]; order NULL: i, and all blocks are as long. */
    void (*widen)(const struct nbits_tile *t, float *out, int64_t ldo, const int32_t *order,
                  int64_t k0, int64_t k1);
};

/* Where a group begins, in words or scales, of which a column has `each`. */
static inline int64_t nbits_group_at(int64_t group, int64_t each, int64_t lanes)
{
    return (group / 2 * each * 2 + group % 2) * lanes;
}

/* What all digits of a block are together, of their sums. */
static inline float nbits_whole(int digits, const int32_t *sum)
{
    float whole = 0;

    for (int d = 0; d < digits; d++)
        whole = whole * 256 + (float)sum[d];
    return whole;
}

extern const struct nbits_isa nbits_c, nbits_avx2, nbits_vnni, nbits_neon, nbits_dotprod,
    nbits_i8mm;

#endif
