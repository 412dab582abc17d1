/* op_copy.c -- see op_copy.h. */
#include "import/graph/op_copy.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/json_write.h"

#include <string.h>

void op_copier_release(struct op_copier *c)
{
    mem_free(c->tensor);
    mem_free(c->next);
    *c = (struct op_copier){ 0 };
}

/* Tensors of every operator, in their order. */
static int index_tensors(struct op_copier *c)
{
    size_t nop = store_nrow(c->from, TABLE_op), n = store_nrow(c->from, TABLE_op_tensor);

    c->tensor = mem_alloc((nop + 1) * sizeof(*c->tensor));
    c->next = mem_alloc((n + 1) * sizeof(*c->next));
    if (!c->tensor || !c->next)
        return OPM_ENOMEM;
    for (size_t i = 0; i < nop; i++)
        c->tensor[i] = OPM_NULL_ID;
    for (size_t i = n; i-- > 0;) {
        struct cell op = store_cell(c->from, TABLE_op_tensor, i, op_tensor_col_op);
        size_t of = op.kind == CELL_I64 ? (size_t)op.i64 : nop;

        c->next[i] = OPM_NULL_ID;
        if (of >= nop)
            continue;
        c->next[i] = c->tensor[of];
        c->tensor[of] = (uint32_t)i;
    }
    return 0;
}

static uint64_t mix(uint64_t h, const void *p, size_t len)
{
    const uint8_t *byte = p;

    for (size_t i = 0; i < len; i++)
        h = (h ^ byte[i]) * UINT64_C(0x100000001b3);
    return (h ^ 0xff) * UINT64_C(0x100000001b3);
}

static uint64_t mix_row(const struct op_copier *c, uint64_t h, enum table_id table, size_t row,
                        int first, int count)
{
    for (int col = first; col < count; col++) {
        struct cell v = store_cell(c->from, table, row, col);
        const char *text = v.kind == CELL_STR ? store_text(c->from, v.str) : NULL;

        if (text)
            h = mix(h, text, strlen(text));
        else if (v.kind == CELL_F64)
            h = mix(h, &v.f64, sizeof(v.f64));
        else
            h = mix(h, &v.i64, v.kind == CELL_NULL ? 0 : sizeof(v.i64));
    }
    return h;
}

static uint64_t key_of(const struct op_copier *c, uint32_t op, const char *module)
{
    uint64_t h =
        mix(UINT64_C(0xcbf29ce484222325), module ? module : "", module ? strlen(module) : 0);

    h = mix_row(c, h, TABLE_op, op, op_col_name, op_col_COUNT);
    for (uint32_t t = c->tensor[op]; t != OPM_NULL_ID; t = c->next[t])
        h = mix_row(c, h, TABLE_op_tensor, t, op_tensor_col_io, op_tensor_col_COUNT);
    return h;
}

static int copy_cells(struct op_copier *c, enum table_id table, size_t row, int count,
                      struct cell *cells)
{
    for (int col = 0; col < count; col++) {
        cells[col] = store_cell(c->from, table, row, col);
        if (cells[col].kind == CELL_STR) {
            str_id text;

            if (store_cstr(c->to, store_text(c->from, cells[col].str), &text))
                return OPM_ENOMEM;
            cells[col] = cell_str(text);
        }
    }
    return 0;
}

/* {"module":"Linear"} in front of what there is. */
static int add_module(struct op_copier *c, struct cell *attributes, const char *module)
{
    const char *have = attributes->kind == CELL_STR ? store_text(c->to, attributes->str) : NULL;
    struct buf text = { 0 };
    struct json_writer w = { .buf = &text };
    str_id id;
    int rc;

    json_object(&w);
    json_key(&w, "module");
    json_cstr(&w, module);
    if (have && have[0] == '{' && strcmp(have, "{}") != 0)
        buf_addf(&text, ",%s", have + 1);
    else
        json_object_end(&w);
    rc = text.failed ? OPM_ENOMEM : store_str(c->to, buf_str(&text), text.len, &id);
    if (rc == 0)
        *attributes = cell_str(id);
    buf_release(&text);
    return rc;
}

int op_copy(struct op_copier *c, uint32_t op, const char *module, uint32_t *out)
{
    struct cell cells[op_col_COUNT], tensor[op_tensor_col_COUNT];
    const uint64_t *at;
    uint64_t key;
    int rc;

    if (!c->tensor && index_tensors(c))
        return OPM_ENOMEM;
    key = key_of(c, op, module);
    at = u64map_get(c->known, key);
    if (at) {
        *out = (uint32_t)*at;
        return 0;
    }
    rc = copy_cells(c, TABLE_op, op, op_col_COUNT, cells);
    if (rc == 0 && module)
        rc = add_module(c, &cells[op_col_attributes], module);
    if (rc == 0)
        rc = store_add(c->to, TABLE_op, cells, out);
    for (uint32_t t = c->tensor[op]; t != OPM_NULL_ID && rc == 0; t = c->next[t]) {
        rc = copy_cells(c, TABLE_op_tensor, t, op_tensor_col_COUNT, tensor);
        tensor[op_tensor_col_op] = cell_id(*out);
        if (rc == 0)
            rc = store_add(c->to, TABLE_op_tensor, tensor, NULL);
    }
    return rc ? rc : u64map_put(c->known, key, *out);
}
