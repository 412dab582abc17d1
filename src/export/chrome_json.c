/* chrome_json.c -- see chrome_json.h. */
#include "export/chrome_json.h"

#include "export/writer.h"

#include <string.h>

const char *const arg_names[ARG_COUNT] = {
    [ARG_LAYER] = "layer",
    [ARG_PHASE] = "phase",
    [ARG_OP] = "op",
    [ARG_STEP] = "step",
    [ARG_RECORD] = "record",
    [ARG_CORRELATION] = "correlation",
    [ARG_NEVER_ENDED] = "never ended",
};

struct json_writer chrome_metadata(struct io_out *out, uint64_t *nevent, const char *name,
                                   int32_t pid, int32_t tid)
{
    struct json_writer w = { .out = out };

    io_out_adds(out, (*nevent)++ ? ",\n" : "\n");
    json_object(&w);
    json_key(&w, "ph");
    json_cstr(&w, "M");
    json_key(&w, "pid");
    json_i64(&w, pid);
    if (tid >= 0) {
        json_key(&w, "tid");
        json_i64(&w, tid);
    }
    json_key(&w, "name");
    json_cstr(&w, name);
    json_key(&w, "args");
    json_object(&w);
    return w;
}

void chrome_metadata_end(struct json_writer *w)
{
    json_object_end(w);
    json_object_end(w);
}

void chrome_text(struct json_writer *w, const struct store *st, str_id id)
{
    json_str(w, strpool_get(store_strings(st), id), strpool_len(store_strings(st), id));
}

void chrome_cell(struct json_writer *w, const struct store *st, const char *key,
                 enum table_id table, size_t row, int col, bool is_json)
{
    struct cell cell = store_cell(st, table, row, col);

    if (cell.kind == CELL_NULL)
        return;
    json_key(w, key);
    if (cell.kind == CELL_I64)
        json_i64(w, cell.i64);
    else if (cell.kind == CELL_F64)
        json_f64(w, cell.f64);
    else {
        const char *s = strpool_get(store_strings(st), cell.str);
        size_t len = strpool_len(store_strings(st), cell.str);

        if (is_json && text_is_json(s, len))
            json_raw(w, s, len);
        else
            json_str(w, s, len);
    }
}

void chrome_site(const struct timeline *tl, uint32_t i, struct buf *out, size_t *out_head)
{
    const struct site *site = &tl->site[i];
    struct json_writer w = { .buf = out };
    size_t from = out->len;

    json_object(&w);
    json_key(&w, "name");
    if (site->name)
        chrome_text(&w, tl->st, site->name);
    else
        json_cstr(&w, "");
    if (site->cat) {
        json_key(&w, "cat");
        chrome_text(&w, tl->st, site->cat);
    }
    json_object_end(&w);
    *out_head = out->len - from;
    json_object(&w);
    if (site->layer) {
        json_key(&w, arg_names[ARG_LAYER]);
        chrome_text(&w, tl->st, site->layer);
    }
    if (site->phase) {
        json_key(&w, arg_names[ARG_PHASE]);
        chrome_text(&w, tl->st, site->phase);
    }
    json_object_end(&w);
}

static void put_tensors(const struct timeline *tl, struct json_writer *w, uint32_t op)
{
    static const char *const lists[] = { "inputs", "weights", "outputs", "tensors" };
    const struct tensor_ref *ref;
    size_t n = timeline_tensors(tl, op, &ref);

    for (size_t i = 0; i < n; i++) {
        size_t row = ref[i].row;

        if (!i || ref[i].io != ref[i - 1].io) {
            if (i)
                json_array_end(w);
            json_key(w, lists[ref[i].io]);
            json_array(w);
        }
        json_object(w);
        chrome_cell(w, tl->st, "name", TABLE_op_tensor, row, op_tensor_col_name, false);
        chrome_cell(w, tl->st, "dtype", TABLE_op_tensor, row, op_tensor_col_dtype, false);
        chrome_cell(w, tl->st, "shape", TABLE_op_tensor, row, op_tensor_col_shape, false);
        chrome_cell(w, tl->st, "bytes", TABLE_op_tensor, row, op_tensor_col_bytes, false);
        if (ref[i].io == 3)
            chrome_cell(w, tl->st, "io", TABLE_op_tensor, row, op_tensor_col_io, false);
        json_object_end(w);
    }
    if (n)
        json_array_end(w);
}

void chrome_op(const struct timeline *tl, uint32_t op, struct buf *out)
{
    struct json_writer w = { .buf = out };

    json_object(&w);
    json_key(&w, arg_names[ARG_OP]);
    json_object(&w);
    for (int col = 0; col < op_col_COUNT; col++) {
        bool is_json = col == op_col_attributes || col == op_col_nodes;

        chrome_cell(&w, tl->st, store_table_defs[TABLE_op].col[col].name, TABLE_op, op, col,
                    is_json);
    }
    put_tensors(tl, &w, op);
    json_object_end(&w);
    json_object_end(&w);
}

/* Past a JSON string that is known to be valid; p is on its first quote. */
static const char *skip_string(const char *p)
{
    for (p++; *p != '"'; p++)
        if (*p == '\\')
            p++;
    return p + 1;
}

/* Which of our keys a valid JSON object uses. A key with an escape in it might be any of them. */
static unsigned object_keys(const char *p, const char *end)
{
    unsigned found = 0;
    int depth = 0;
    bool is_key = false;

    while (p < end) {
        const char *from = p;
        size_t len;

        switch (*p) {
        case '{':
        case '[':
            depth++;
            is_key = depth == 1;
            p++;
            break;
        case '}':
        case ']':
            depth--;
            p++;
            break;
        case ',':
            is_key = depth == 1;
            p++;
            break;
        case '"':
            p = skip_string(p);
            if (!is_key)
                break;
            is_key = false;
            len = (size_t)(p - from) - 2;
            if (memchr(from + 1, '\\', len))
                return ARGS_NOT_OBJECT - 1;
            for (size_t i = 0; i < ARG_COUNT; i++)
                if (len == strlen(arg_names[i]) && memcmp(from + 1, arg_names[i], len) == 0)
                    found |= 1u << i;
            break;
        default:
            p++;
        }
    }
    return found;
}

unsigned chrome_keys(const char *s, size_t len)
{
    return len && *s == '{' && text_is_json(s, len) ? object_keys(s, s + len) : ARGS_NOT_OBJECT;
}
