/* bf16_isa.h -- products of bfloat16 numbers, which are exact, summed as floats.
 *
 * Only for operands that are bfloat16 numbers, both of them: nothing is rounded on the way in. */
#ifndef NATIVE_ISA_BF16_H
#define NATIVE_ISA_BF16_H

#include "engine/native/isa/isa.h"

#define BF16_GROUP 4 /* numbers of a column that go together */

/* How far rows of a panel reach that is in this order. */
static inline int64_t bf16_rows(int64_t k)
{
    return (k + BF16_GROUP - 1) / BF16_GROUP * BF16_GROUP;
}

struct bf16_isa {
    /* A panel of k rows, each as wide as a tile: bf16_rows(k) rows in the order that tile() wants.
     */
    void (*order)(uint16_t *out, const uint16_t *b, int64_t k);
    /* As tile() of floats with aks 1; half is in that order, b is not looked at. */
    void (*tile)(const struct isa_tile *t);
};
extern const struct bf16_isa bf16_neon;

#endif
