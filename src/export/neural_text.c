/* neural_text.c -- see neural_text.h. */
#include "export/neural_text.h"

#include "base/alloc.h"
#include "base/json_read.h"

#include <stdlib.h>
#include <string.h>

const char *const neural_columns[NEURAL_COLUMNS] = {
    "operator type",
    "post op",
    "operator name",
    "input tensor name",
    "input shape",
    "input dtype",
    "output tensor name",
    "output shape",
    "output dtype",
    "weight shape",
    "weight sparse ratio",
    "sparse support",
    "operator latency (ms)",
    "aim to weight sparse ratio",
    "sparse kernel pref ratio",
    "aim to sparse latency(ms)",
};

static const char *dtype_name(const char *dtype)
{
    static const struct {
        const char *ours, *theirs;
    } names[] = { { "int8", "s8" },      { "uint8", "u8" },     { "int16", "s16" },
                  { "uint16", "u16" },   { "int32", "s32" },    { "uint32", "u32" },
                  { "int64", "s64" },    { "uint64", "u64" },   { "float32", "fp32" },
                  { "float16", "fp16" }, { "bfloat16", "bf16" } };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(names[i].ours, dtype) == 0)
            return names[i].theirs;
    return dtype;
}

static void put_field(const struct op_tensors *t, uint32_t row, enum neural_field field, char times,
                      struct buf *out)
{
    static const int cols[] = { op_tensor_col_name, op_tensor_col_shape, op_tensor_col_dtype };
    size_t len;
    const char *text = op_tensors_text(t, row, cols[field], &len);

    if (!text)
        return;
    if (field == NEURAL_NAME) {
        buf_add(out, text, len);
    } else if (field == NEURAL_DTYPE) {
        buf_adds(out, dtype_name(text));
    } else {
        for (; *text; text++)
            buf_addc(out, *text == 'x' ? times : *text);
    }
}

void neural_tensors(const struct op_tensors *t, size_t op, bool outputs, enum neural_field field,
                    const char *sep, char times, struct buf *out)
{
    const uint32_t *row;
    size_t n = op_tensors_get(t, op, &row);
    bool first = true;

    for (size_t i = 0; i < n; i++) {
        if (t->io[row[i]] == TENSOR_OTHER || (t->io[row[i]] == TENSOR_OUTPUT) != outputs)
            continue;
        if (!first)
            buf_adds(out, sep);
        first = false;
        put_field(t, row[i], field, times, out);
    }
}

void neural_ms(struct buf *out, double ns)
{
    size_t zeros = 0;

    buf_addf(out, "%.6f", ns / 1e6);
    while (zeros < 3 && out->len > zeros && out->data[out->len - 1 - zeros] == '0')
        zeros++;
    out->len -= zeros;
    if (out->data)
        out->data[out->len] = '\0';
}

/* Attributes as "key\1value" texts, one after the other. */
struct attributes {
    struct buf text;
    size_t *at;
    size_t n, cap;
};

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int begin_attribute(struct attributes *a)
{
    if (!GROW(a->at, a->cap, a->n + 1))
        return OPM_ENOMEM;
    a->at[a->n++] = a->text.len;
    return 0;
}

/* A value as they print it: texts bare, lists as 1,0; anything deeper as the JSON it is. */
static void put_value(struct json_reader *r, struct buf *out)
{
    enum json_token token = json_read_next(r);
    const char *from = r->at;
    bool first = true;

    if (token == JSON_STRING) {
        json_read_text(r, out);
    } else if (token == JSON_ARRAY) {
        for (;;) {
            token = json_read_next(r);
            if (token == JSON_ARRAY_END || token == JSON_BAD)
                break;
            if (!first)
                buf_addc(out, ',');
            first = false;
            from = r->at;
            if (token == JSON_STRING)
                json_read_text(r, out);
            else if (token == JSON_NUMBER)
                buf_add(out, r->text, r->len);
            else if (json_read_skip(r) && from < r->at)
                buf_add(out, from, (size_t)(r->at - from));
        }
    } else if (token == JSON_OBJECT) {
        if (json_read_skip(r))
            buf_add(out, from - 1, (size_t)(r->at - from) + 1);
    } else if (token == JSON_NUMBER) {
        buf_add(out, r->text, r->len);
    } else {
        buf_adds(out, token == JSON_TRUE ? "true" : token == JSON_FALSE ? "false" : "");
    }
}

static int read_attributes(struct attributes *a, const char *json, size_t len)
{
    struct json_reader r = json_read_of(json, len);
    int rc = 0;

    if (json_read_next(&r) != JSON_OBJECT)
        return 0;
    while (!rc && json_read_next(&r) == JSON_KEY) {
        rc = begin_attribute(a);
        json_read_text(&r, &a->text);
        buf_addc(&a->text, '\1');
        put_value(&r, &a->text);
        buf_addc(&a->text, '\0');
    }
    return rc;
}

static int put_sorted(const struct attributes *a, struct buf *out)
{
    const char **item = mem_calloc(a->n + 1, sizeof(*item));

    if (!item)
        return OPM_ENOMEM;
    for (size_t i = 0; i < a->n; i++)
        item[i] = a->text.data + a->at[i];
    qsort(item, a->n, sizeof(*item), by_text);
    for (size_t i = 0; i < a->n; i++) {
        const char *mark = strchr(item[i], '\1');

        if (i)
            buf_addc(out, ';');
        if (!mark)
            continue;
        buf_add(out, item[i], (size_t)(mark - item[i]));
        buf_addc(out, ':');
        buf_adds(out, mark + 1);
    }
    mem_free(item);
    return 0;
}

int neural_attributes(const struct store *st, size_t op, struct buf *out)
{
    struct cell json = store_cell(st, TABLE_op, op, op_col_attributes);
    struct cell post = store_cell(st, TABLE_op, op, op_col_post_op);
    struct attributes a = { 0 };
    int rc = 0;

    if (post.kind == CELL_STR && *store_text(st, post.str)) {
        rc = begin_attribute(&a);
        buf_addf(&a.text, "append_op\1%s", store_text(st, post.str));
        buf_addc(&a.text, '\0');
    }
    if (!rc && json.kind == CELL_STR)
        rc =
            read_attributes(&a, store_text(st, json.str), strpool_len(store_strings(st), json.str));
    if (a.text.failed)
        rc = OPM_ENOMEM;
    if (!rc)
        rc = put_sorted(&a, out);
    buf_release(&a.text);
    mem_free(a.at);
    return rc;
}
