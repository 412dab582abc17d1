/* op_tensors.h -- the tensors of each operator, in the order of the trace. */
#ifndef EXPORT_OP_TENSORS_H
#define EXPORT_OP_TENSORS_H

#include "store/store.h"

enum tensor_io { TENSOR_INPUT, TENSOR_WEIGHT, TENSOR_OUTPUT, TENSOR_OTHER };

struct op_tensors {
    const struct store *st;
    size_t nop;
    uint32_t *first; /* [nop + 1] into row */
    uint32_t *row;   /* of op_tensor */
    uint8_t *io;     /* enum tensor_io of every row of op_tensor */
};

int op_tensors_init(struct op_tensors *t, const struct store *st); /* 0 or OPM_ENOMEM */
void op_tensors_release(struct op_tensors *t);                     /* a zeroed one is fine */
/* Rows of op_tensor that belong to op. */
static inline size_t op_tensors_get(const struct op_tensors *t, size_t op, const uint32_t **out)
{
    *out = t->row + t->first[op];
    return t->first[op + 1] - t->first[op];
}

/* Text of a cell; NULL if it has none. */
const char *op_tensors_text(const struct op_tensors *t, uint32_t row, int col, size_t *out_len);

#endif
