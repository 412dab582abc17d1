/* op_copy.h -- rows of op with their tensors, from one store into another, each once. */
#ifndef IMPORT_GRAPH_OP_COPY_H
#define IMPORT_GRAPH_OP_COPY_H

#include "base/u64map.h"
#include "store/store.h"

/* Begins with the first three set, the rest 0. Operators with the same text, work and tensors are
 * one. */
struct op_copier {
    struct store *to;
    const struct store *from;
    struct u64map *known; /* lent: what makes an operator -> row of to */
    uint32_t *tensor;     /* of every op of from: its first row of op_tensor */
    uint32_t *next;       /* of every op_tensor: the next of the same op */
};

void op_copier_release(struct op_copier *c);
/* The copy of a row; module: where in the model it is, or NULL. 0 or OPM_ENOMEM. */
int op_copy(struct op_copier *c, uint32_t op, const char *module, uint32_t *out);

#endif
