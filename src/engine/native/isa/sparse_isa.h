/* sparse_isa.h -- the inner loops of block-sparse multiplication, once per instruction set; see
 * sparse.h for what they work on. */
#ifndef NATIVE_SPARSE_ISA_H
#define NATIVE_SPARSE_ISA_H

#include "engine/native/isa/isa.h"

/* Rows that are multiplied as they lie; more than that are packed into panels. */
#define SPARSE_FEW 8
/* With blocks of 4 columns already more than this are packed, as 4 or 8 rows. */
#define SPARSE_FEW4 2

/* The blocks of one group of columns, and where their product goes: rows x cols of c. */
struct sparse_run {
    int64_t blocks;
    const int32_t *row; /* k of each block */
    const float *value; /* as many floats as the group is wide, each */
    float *c;
    int64_t ldc;
    int rows, cols;
};

struct sparse_isa {
    int lanes; /* floats in a vector; the width of a wide block */
    int panel; /* rows in a panel; one with fewer is rounded up to whole vectors */
    /* out[j * width + i] = a[i * rs + j], zero from i = rows to width. */
    void (*pack)(float *out, const float *a, int64_t rs, int rows, int width, int64_t k);
    /* A packed panel by blocks of 4 columns, and by blocks of `lanes` columns. */
    void (*panel4)(const struct sparse_run *r, const float *a, int width);
    void (*panel_wide)(const struct sparse_run *r, const float *a, int width);
    /* The same by blocks of 4 columns, for panels of width 4 and 8. */
    void (*quad)(const struct sparse_run *r, const float *a, int width);
    /* SPARSE_FEW rows at most, a[i * rs + k]. */
    void (*few4)(const struct sparse_run *r, const float *a, int64_t rs);
    void (*few_wide)(const struct sparse_run *r, const float *a, int64_t rs);
};

extern const struct sparse_isa sparse_c, sparse_avx2, sparse_avx512, sparse_neon;

#endif
