/* product.h -- matrix products of doubles and of integers, which wrap. */
#ifndef NATIVE_PRODUCT_H
#define NATIVE_PRODUCT_H

#include "engine/native/op.h"

#define TYPES_PRODUCT                                                                            \
    (TYPE_BIT(TENSOR_F64) | TYPE_BIT(TENSOR_I32) | TYPE_BIT(TENSOR_U32) | TYPE_BIT(TENSOR_I64) | \
     TYPE_BIT(TENSOR_U64))

/* Element (i, p) of A is at a[i * ars + p * aks], (p, j) of B at b[p * brs + j * bcs]; C is m x n,
 * rows ldc apart. Strides are in elements. */
struct product {
    const struct isa *isa;
    enum tensor_type type; /* of TYPES_PRODUCT */
    int64_t m, n, k;
    const void *a, *b;
    int64_t ars, aks, brs, bcs;
    void *c;
    int64_t ldc;
    enum tensor_type narrow; /* I16 or U16: what B is of, in a product of I32; else NONE */
};

/* Products are cut into panels of columns. */
int64_t product_panels(const struct product *p);
double product_panel_ns(const struct product *p); /* about */
/* Bytes that a thread works in. */
size_t product_room(const struct isa *isa);
void product_panel(const struct product *p, int64_t panel, void *room);

#endif
