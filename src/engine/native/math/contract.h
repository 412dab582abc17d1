/* contract.h -- sums of products of two tensors over named dimensions, as products of matrices. */
#ifndef NATIVE_CONTRACT_H
#define NATIVE_CONTRACT_H

#include "engine/native/op.h"

#define CONTRACT_LABELS 64

/* A tensor by labels: element strides, 0 for labels that it does not have. */
struct contract_tensor {
    const void *data;
    int64_t stride[CONTRACT_LABELS];
};

/* out[labels that it has] = the sum over all others of a * b; b NULL: of a. Each label is of a or
 * b. */
struct contract {
    struct pool *pool;
    const struct isa *isa;
    enum tensor_type type; /* numbers; integers wrap */
    int nlabel;
    const int64_t *dim; /* of labels; none is 0 */
    const struct contract_tensor *a, *b;
    void *out;
    int64_t out_stride[CONTRACT_LABELS]; /* of all its elements, contiguous */
};

int contract_run(const struct contract *t); /* OPM_ENOMEM */

#endif
