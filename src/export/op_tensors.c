/* op_tensors.c -- see op_tensors.h. */
#include "export/op_tensors.h"

#include "base/alloc.h"

#include <string.h>

static size_t op_of(const struct op_tensors *t, size_t row)
{
    struct cell c = store_cell(t->st, TABLE_op_tensor, row, op_tensor_col_op);

    return c.kind == CELL_I64 && c.i64 >= 0 && c.i64 < (int64_t)t->nop ? (size_t)c.i64 : t->nop;
}

static enum tensor_io io_of(const struct op_tensors *t, uint32_t row)
{
    static const char *const words[] = { "input", "weight", "output" };
    const char *io = op_tensors_text(t, row, op_tensor_col_io, NULL);

    for (size_t i = 0; io && i < ARRAY_SIZE(words); i++)
        if (strcmp(io, words[i]) == 0)
            return (enum tensor_io)i;
    return TENSOR_OTHER;
}

int op_tensors_init(struct op_tensors *t, const struct store *st)
{
    size_t n = store_nrow(st, TABLE_op_tensor);

    *t = (struct op_tensors){ .st = st, .nop = store_nrow(st, TABLE_op) };
    t->first = mem_calloc(t->nop + 2, sizeof(*t->first));
    t->row = mem_calloc(n + 1, sizeof(*t->row));
    t->io = mem_calloc(n + 1, sizeof(*t->io));
    if (!t->first || !t->row || !t->io) {
        op_tensors_release(t);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        t->io[i] = (uint8_t)io_of(t, (uint32_t)i);
        t->first[op_of(t, i) + 1]++;
    }
    for (size_t op = 0; op <= t->nop; op++)
        t->first[op + 1] += t->first[op];
    /* Filling moves each start to the start of the next one; they are moved back below. */
    for (size_t i = 0; i < n; i++)
        t->row[t->first[op_of(t, i)]++] = (uint32_t)i;
    memmove(t->first + 1, t->first, (t->nop + 1) * sizeof(*t->first));
    t->first[0] = 0;
    return 0;
}

void op_tensors_release(struct op_tensors *t)
{
    mem_free(t->first);
    mem_free(t->row);
    mem_free(t->io);
    *t = (struct op_tensors){ 0 };
}

const char *op_tensors_text(const struct op_tensors *t, uint32_t row, int col, size_t *out_len)
{
    struct cell c = store_cell(t->st, TABLE_op_tensor, row, col);

    if (out_len)
        *out_len = c.kind == CELL_STR ? strpool_len(store_strings(t->st), c.str) : 0;
    return c.kind == CELL_STR ? store_text(t->st, c.str) : NULL;
}
