/* mindspore_ops.c -- operators, their tensors, and which task of the device is which operator. */
#include "import/mindspore/mindspore_int.h"

#include "base/csv_read.h"
#include "base/json_read.h"
#include "base/json_write.h"

#include <string.h>

#define COLUMNS_MAX 64
#define SLOT_MAX_BYTES ((size_t)20) /* of the number of a tensor */

/* What an operator's name says about where it stands. */
static void subgraph_add(struct json_writer *w, struct text full_name)
{
    static const char *const names[] = { "Default", "Gradients" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        if (text_starts(full_name, names[i]) && full_name.len > strlen(names[i]) &&
            full_name.p[strlen(names[i])] == '/') {
            json_key(w, "subgraph");
            json_cstr(w, names[i]);
        }
    }
}

/* One value of a line of key:value pairs, perhaps in quotes; *rest goes on behind it. */
static bool pair_read(struct text *rest, struct text *key, struct text *value)
{
    const char *colon;
    size_t n;

    *rest = text_trim(*rest);
    colon = rest->len ? memchr(rest->p, ':', rest->len) : NULL;
    if (!colon)
        return false;
    *key = (struct text){ rest->p, (size_t)(colon - rest->p) };
    rest->len -= key->len + 1;
    rest->p = colon + 1;
    if (rest->len && rest->p[0] == '"') {
        const char *end = memchr(rest->p + 1, '"', rest->len - 1);

        n = end ? (size_t)(end - rest->p) - 1 : rest->len - 1;
        *value = (struct text){ rest->p + 1, n };
        n += 1 + (end != NULL);
    } else {
        for (n = 0; n < rest->len && rest->p[n] != ' ';)
            n++;
        *value = (struct text){ rest->p, n };
    }
    rest->p += n;
    rest->len -= n;
    return true;
}

/* op_name:X op_type:Y input_id:0 input_format:F input_data_type:31 input_shape:"1,2" ... */
static int graph_line(struct ms *m, struct ms_device *d, struct text line)
{
    struct text rest = line, key, value, name = { NULL, 0 }, type = { NULL, 0 };
    struct ms_tensor t = { .slot = -1 };
    struct buf attributes = { 0 };
    struct json_writer w = { .buf = &attributes };
    uint32_t op;
    uint64_t slot;
    int rc;

    if (!pair_read(&rest, &key, &name) || !text_is(key, "op_name") ||
        !pair_read(&rest, &key, &type) || !text_is(key, "op_type") || !name.len) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    json_object(&w);
    subgraph_add(&w, name);
    for (struct text all = rest, slot_id = { "", 0 }; pair_read(&all, &key, &value);) {
        bool in = text_is(key, "input_format");

        if (text_is(key, "input_id") || text_is(key, "output_id")) {
            slot_id = value;
            slot_id.len = MIN(slot_id.len, SLOT_MAX_BYTES);
        } else if ((in || text_is(key, "output_format")) && !text_is(value, "DefaultFormat")) {
            buf_clear(&m->text);
            buf_adds(&m->text, in ? "input_" : "output_");
            buf_add(&m->text, slot_id.p, slot_id.len);
            buf_adds(&m->text, "_format");
            json_key(&w, buf_str(&m->text));
            json_str(&w, value.p, value.len);
        }
    }
    json_object_end(&w);
    rc = attributes.failed
             ? OPM_ENOMEM
             : ms_op_new(m, d, name.p, name.len, type.p, type.len, buf_str(&attributes), &op);
    buf_release(&attributes);
    if (rc || op == OPM_NULL_ID)
        return rc;
    d->added++;
    while (rc == 0 && pair_read(&rest, &key, &value)) {
        if (text_is(key, "input_id") || text_is(key, "output_id")) {
            t = (struct ms_tensor){ .io = text_is(key, "input_id") ? m->w.input : m->w.output,
                                    .slot = text_u64(value, &slot) ? (int64_t)slot : -1 };
        } else if (text_is(key, "input_data_type") || text_is(key, "output_data_type")) {
            t.dtype = value.p;
            t.dtype_len = value.len;
        } else if ((text_is(key, "input_shape") || text_is(key, "output_shape")) && t.slot >= 0) {
            t.shape = value.p;
            t.shape_len = value.len;
            rc = ms_op_tensor(m, op, &t);
        }
    }
    return rc;
}

int ms_read_graph_desc(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line;
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line))
        if (text_trim(line).len)
            rc = graph_line(m, d, text_trim(line));
    return rc;
}

static int task_add(struct ms *m, struct ms_device *d, struct text name, struct text task,
                    struct text stream)
{
    uint64_t task_id, stream_id;
    uint32_t op;
    int rc;

    if (!name.len || !text_u64(task, &task_id) || !text_u64(stream, &stream_id)) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    if (text_starts(name, "Default/InitDataSetQueue"))
        d->skip_first_step = true; /* a graph of its own, run once before the first real step */
    d->added++;
    rc = ms_op(m, d, name.p, name.len, &op);
    return rc ? rc : u64map_put(&d->task, ms_task_key(stream_id, task_id), op);
}

/* full_op_name block_dim task_id stream_id */
int ms_read_task_desc(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct text rest = { (const char *)data, len }, line, word[4];
    int rc = 0;

    while (rc == 0 && text_line(&rest, &line)) {
        size_t n = 0;

        while (n < ARRAY_SIZE(word) && text_word(&line, &word[n]))
            n++;
        if (n == ARRAY_SIZE(word))
            rc = task_add(m, d, word[0], word[2], word[3]);
        else
            store_stat(m->st, STAT_bad_row, n > 0);
    }
    return rc;
}

/* Columns of framework_raw: newer ones call an operator of the device a kernel. */
struct framework {
    int task, stream, block_dim, name, type, subgraph, info;
};

static bool framework_head(const struct csv_field *f, int n, struct framework *c)
{
    memset(c, 0xff, sizeof(*c));
    for (int i = 0; i < n; i++) {
        if (csv_field_is(&f[i], "task_id"))
            c->task = i;
        else if (csv_field_is(&f[i], "stream_id"))
            c->stream = i;
        else if (csv_field_is(&f[i], "block_dim"))
            c->block_dim = i;
        else if (csv_field_is(&f[i], "full_op_name") || csv_field_is(&f[i], "full_kernel_name"))
            c->name = i;
        else if (csv_field_is(&f[i], "op_type") || csv_field_is(&f[i], "kernel_type"))
            c->type = i;
        else if (csv_field_is(&f[i], "subgraph"))
            c->subgraph = i;
        else if (csv_field_is(&f[i], "op_info"))
            c->info = i;
    }
    return c->name >= 0 && c->type >= 0;
}

static struct text cell_of(const struct csv_field *f, int n, int column)
{
    if (column < 0 || column >= MIN(n, COLUMNS_MAX))
        return (struct text){ "", 0 };
    return text_trim((struct text){ f[column].p, f[column].len });
}

/* {"format": F, "data_type": T, "shape": "1,2"}; the reader stands on its brace. */
static int tensor_info(struct ms *m, struct json_reader *r, uint32_t op, str_id io, int64_t slot)
{
    struct ms_tensor t = { .io = io, .slot = slot, .dtype = "", .shape = "" };

    while (json_read_next(r) == JSON_KEY) {
        bool dtype = json_read_is(r, "data_type"), shape = json_read_is(r, "shape");

        if (json_read_next(r) == JSON_STRING && (dtype || shape)) {
            struct text value = json_texts_get(&m->texts, r);

            *(dtype ? &t.dtype : &t.shape) = value.p;
            *(dtype ? &t.dtype_len : &t.shape_len) = value.len;
        } else if (!json_read_skip(r)) {
            return 0;
        }
    }
    return ms_op_tensor(m, op, &t);
}

int ms_op_info(struct ms *m, uint32_t op, const char *json, size_t len)
{
    struct json_reader r = json_read_of(json, len);
    int rc = 0;

    if (json_read_next(&r) != JSON_OBJECT)
        store_stat(m->st, STAT_json_malformed, 1);
    while (rc == 0 && json_read_next(&r) == JSON_KEY) {
        struct text key = json_texts_get(&m->texts, &r), rest;
        uint64_t slot = 0;
        bool in = text_starts(key, "input_");
        bool tensor = (in || text_starts(key, "output_")) && text_after(key, "put_", &rest) &&
                      text_u64(rest, &slot) && slot <= INT32_MAX;

        if (json_read_next(&r) == JSON_OBJECT && tensor)
            rc = tensor_info(m, &r, op, in ? m->w.input : m->w.output, (int64_t)slot);
        else if (!json_read_skip(&r))
            break;
    }
    return rc;
}

static int framework_op(struct ms *m, struct ms_device *d, const struct csv_field *f, int n,
                        const struct framework *c)
{
    struct text name = cell_of(f, n, c->name), type = cell_of(f, n, c->type);
    struct text subgraph = cell_of(f, n, c->subgraph), blocks = cell_of(f, n, c->block_dim);
    struct buf attributes = { 0 };
    struct json_writer w = { .buf = &attributes };
    uint64_t block_dim;
    uint32_t op;
    int rc;

    if (!name.len) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    json_object(&w);
    if (subgraph.len) {
        json_key(&w, "subgraph");
        json_str(&w, subgraph.p, subgraph.len);
    }
    if (text_u64(blocks, &block_dim)) {
        json_key(&w, "block_dim");
        json_u64(&w, block_dim);
    }
    json_object_end(&w);
    rc = attributes.failed
             ? OPM_ENOMEM
             : ms_op_new(m, d, name.p, name.len, type.p, type.len, buf_str(&attributes), &op);
    buf_release(&attributes);
    if (rc || op == OPM_NULL_ID)
        return rc;
    d->added++;
    if (c->info >= 0 && c->info < MIN(n, COLUMNS_MAX)) {
        struct buf json = { 0 };

        csv_field_text(&f[c->info], &json);
        rc = json.failed ? OPM_ENOMEM : ms_op_info(m, op, buf_str(&json), json.len);
        buf_release(&json);
    }
    return rc;
}

static int framework_read(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len,
                          bool tasks)
{
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[COLUMNS_MAX];
    int rc = 0, n = csv_read_row(&r, f, COLUMNS_MAX);
    struct framework c;

    if (!framework_head(f, MIN(n, COLUMNS_MAX), &c)) {
        store_stat(m->st, STAT_bad_row, 1);
        return 0;
    }
    while (rc == 0 && csv_read_next(&r, f, COLUMNS_MAX, &n))
        rc = tasks ? task_add(m, d, cell_of(f, n, c.name), cell_of(f, n, c.task),
                              cell_of(f, n, c.stream))
                   : framework_op(m, d, f, n, &c);
    return rc;
}

int ms_read_framework_ops(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return framework_read(m, d, data, len, false);
}

int ms_read_framework_tasks(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    return framework_read(m, d, data, len, true);
}

/* full_kernel_name, FLOPs, ...: millions of one execution; newer files have the cube's and the
 * vector unit's apart. */
int ms_read_flops(struct ms *m, struct ms_device *d, const uint8_t *data, size_t len)
{
    struct csv_reader r = csv_read_of(data, len);
    struct csv_field f[COLUMNS_MAX];
    int n = csv_read_row(&r, f, COLUMNS_MAX), flops[2] = { -1, -1 }, nflops = 0;

    for (int i = 1; i < MIN(n, COLUMNS_MAX) && nflops < 2; i++) {
        struct text h = cell_of(f, n, i);

        if (text_is(h, "FLOPs") || text_starts(h, "MFLOPs"))
            flops[nflops++] = i;
    }
    if (!nflops)
        store_stat(m->st, STAT_bad_row, 1);
    while (nflops && csv_read_next(&r, f, COLUMNS_MAX, &n)) {
        struct text name = cell_of(f, n, 0);
        int64_t sum = 0, v;
        bool good = name.len > 0;
        str_id id;

        for (int i = 0; i < nflops; i++) {
            good &= text_decimal(cell_of(f, n, flops[i]), 6, &v) && v >= 0;
            good = good && !__builtin_add_overflow(sum, v, &sum);
        }
        if (!good) {
            store_stat(m->st, STAT_bad_row, 1);
            continue;
        }
        d->added++;
        if (store_str(m->st, name.p, name.len, &id) || u64map_put(&d->flops, id, (uint64_t)sum))
            return OPM_ENOMEM;
    }
    return 0;
}
