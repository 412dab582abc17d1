/* moe.h -- products of rows by the weights of one of many experts. */
#ifndef NATIVE_MOE_H
#define NATIVE_MOE_H

#include "engine/native/isa/nbits_isa.h"
#include "engine/native/op.h"

/* Weights [experts, n, k], as floats or as numbers of few bits with a scale for each block of k. */
struct moe_matrix {
    uint32_t slot, bias, scale, zero; /* inputs; NO_VALUE: of none */
    int64_t experts, n, k;
    bool packed;    /* once and for all */
    float *panels;  /* of all experts; NULL: the weights are no constant */
    int64_t expert; /* floats of panels, or groups of columns, that one has */
    int bits;       /* 0: floats */
    int64_t block, blocks, words;
    int32_t *in_block;
    uint8_t *w, *zeros;
    float *scales;
};

void moe_matrix_release(struct moe_matrix *m);
/* Weights, scales and zero points fit and, if they are constants, lie as they are read; n, k,
 * experts, bits and block are set. NEED_DATA, an error, or 0. */
int moe_matrix_prepare(struct op *op, struct moe_matrix *m, opm_error *err);
/* Bytes that moe_product() wants to work in. */
size_t moe_scratch(const struct op *op, const struct moe_matrix *m, int64_t rows);
/* Before the products of a run: weights that are no constants are looked at anew. */
int moe_matrix_begin(struct op *op, struct moe_matrix *m, opm_error *err);
/* c = a * transposed weights of expert e + bias. */
void moe_product(struct op *op, const struct moe_matrix *m, int64_t e, const float *a, int64_t rows,
                 float *c, void *scratch);

#endif
