/* arrow.c -- tables of the store as Arrow IPC files (Feather, version 2): columns as they lie in
 * memory, for pandas, Polars, DuckDB and others to map.
 *
 * With options->table, that one goes to path. Otherwise path is a folder that gets TABLE.arrow for
 * every table with rows. Texts are dictionaries, one per column and file; those that are put
 * together as they are asked for (args) are plain. */
#include "base/alloc.h"
#include "base/error.h"
#include "base/folder.h"
#include "export/arrow/flat.h"
#include "export/columns.h"
#include "export/export.h"
#include "export/writer.h"

#include <string.h>
#include <unistd.h>

#define MAGIC "ARROW1"
#define BATCH_ROWS ((size_t)1 << 17)
#define COLUMNS_MAX 40
#define VERSION 4 /* V5 of the metadata */
#define ALIGN 64  /* of buffers, as Arrow recommends */

enum { MESSAGE_SCHEMA = 1, MESSAGE_DICTIONARY = 2, MESSAGE_BATCH = 3 };
enum { TYPE_INT = 2, TYPE_FLOAT = 3, TYPE_UTF8 = 5 };

/* Where a message lies, for the footer. */
struct block {
    uint64_t at, body;
    uint32_t head;
};

struct blocks {
    struct block *item;
    size_t n, cap;
};

struct arrow {
    const struct store *st;
    const struct export_options *opts;
    struct io_out *out;
    uint64_t begin; /* bytes that were in out before */
    struct export_column col[COLUMNS_MAX];
    int ncol;
    struct export_scratch scratch;
    uint32_t
        *number[COLUMNS_MAX]; /* of a column of texts: by str_id, place in the dictionary + 1 */
    struct buf meta, body;
    struct {
        uint64_t at, len;
    } buffer[3 * COLUMNS_MAX];
    uint64_t node[2 * COLUMNS_MAX]; /* rows and NULLs of each column */
    size_t nbuffer, nnode;
    struct blocks dictionaries, batches;
    uint64_t done, total;
};

static bool is_dictionary(const struct export_column *c)
{
    return c->type == COL_STR && !c->args;
}

static void put_type(struct buf *b, size_t at, const struct export_column *c)
{
    struct flat_field none[1] = { { 0 } };

    if (c->type == COL_STR)
        flat_table(b, at, none, 0);
    else if (c->type == COL_F64)
        flat_table(b, at, (struct flat_field[]){ { 2, 2, 0 } }, 1);
    else
        flat_table(b, at, (struct flat_field[]){ { 4, 64, 0 }, { 1, 1, 0 } }, 2);
}

static void put_field(struct buf *b, size_t at, const struct export_column *c, int i)
{
    int type = c->type == COL_STR ? TYPE_UTF8 : c->type == COL_F64 ? TYPE_FLOAT : TYPE_INT;
    struct flat_field field[] = { FLAT_LINK, { 1, 1, 0 }, { 1, (uint64_t)type, 0 },
                                  FLAT_LINK, FLAT_LINK,   FLAT_LINK };
    struct flat_field encoding[] = { { 8, (uint64_t)i, 0 }, FLAT_LINK };

    if (!is_dictionary(c))
        field[4].size = 0;
    flat_table(b, at, field, ARRAY_SIZE(field));
    flat_text(b, field[0].at, c->name);
    put_type(b, field[3].at, c);
    if (is_dictionary(c)) {
        flat_table(b, field[4].at, encoding, ARRAY_SIZE(encoding));
        flat_table(b, encoding[1].at, (struct flat_field[]){ { 4, 32, 0 }, { 1, 1, 0 } }, 2);
    }
    flat_vector(b, field[5].at, 0, 4);
}

static void put_schema(const struct arrow *a, struct buf *b, size_t at)
{
    struct flat_field schema[] = { { 2, 0, 0 }, FLAT_LINK };
    size_t first;

    flat_table(b, at, schema, ARRAY_SIZE(schema));
    first = flat_vector(b, schema[1].at, (size_t)a->ncol, 4);
    for (int i = 0; i < a->ncol; i++)
        buf_add(b, "\0\0\0", 4);
    for (int i = 0; i < a->ncol; i++)
        put_field(b, first + 4 * (size_t)i, &a->col[i], i);
}

/* The head of a message; returns where its content is to be linked. */
static size_t message(struct arrow *a, int kind)
{
    struct flat_field field[] = {
        { 2, VERSION, 0 }, { 1, (uint64_t)kind, 0 }, FLAT_LINK, { 8, a->body.len, 0 }
    };

    flat_table(&a->meta, flat_begin(&a->meta), field, ARRAY_SIZE(field));
    return field[2].at;
}

/* The message in a->meta with the body in a->body. */
static int put_message(struct arrow *a, struct blocks *list)
{
    static const char zeros[8];
    size_t pad = (8 - a->meta.len % 8) % 8;
    uint32_t head[2] = { UINT32_MAX, (uint32_t)(a->meta.len + pad) };

    if (a->meta.failed || a->body.failed)
        return OPM_ENOMEM;
    if (list) {
        if (!GROW(list->item, list->cap, list->n + 1))
            return OPM_ENOMEM;
        list->item[list->n++] = (struct block){ a->out->total - a->begin, a->body.len,
                                                head[1] + (uint32_t)sizeof(head) };
    }
    io_out_add(a->out, head, sizeof(head));
    io_out_add(a->out, buf_str(&a->meta), a->meta.len);
    io_out_add(a->out, zeros, pad);
    io_out_add(a->out, buf_str(&a->body), a->body.len);
    return 0;
}

static void batch_begin(struct arrow *a)
{
    buf_clear(&a->body);
    a->nbuffer = a->nnode = 0;
}

/* A buffer of the body that begins now. */
static void buffer_begin(struct arrow *a)
{
    flat_align(&a->body, ALIGN);
    a->buffer[a->nbuffer].at = a->body.len;
}

static void buffer_end(struct arrow *a)
{
    a->buffer[a->nbuffer].len = a->body.len - a->buffer[a->nbuffer].at;
    a->nbuffer++;
    assert(a->nbuffer <= ARRAY_SIZE(a->buffer));
}

static void add_node(struct arrow *a, size_t n, size_t nulls)
{
    a->node[a->nnode++] = n;
    a->node[a->nnode++] = nulls;
    assert(a->nnode <= ARRAY_SIZE(a->node));
}

static void put_batch(struct arrow *a, size_t at, size_t n)
{
    struct buf *b = &a->meta;
    struct flat_field field[] = { { 8, n, 0 }, FLAT_LINK, FLAT_LINK };

    flat_table(b, at, field, ARRAY_SIZE(field));
    flat_vector(b, field[1].at, a->nnode / 2, 8);
    for (size_t i = 0; i < a->nnode; i++)
        flat_u64(b, a->node[i]);
    flat_vector(b, field[2].at, a->nbuffer, 8);
    for (size_t i = 0; i < a->nbuffer; i++) {
        flat_u64(b, a->buffer[i].at);
        flat_u64(b, a->buffer[i].len);
    }
}

static bool is_null(const struct export_scratch *s, const struct export_column *c, size_t i)
{
    if (c->args)
        return s->end[i] == (i ? s->end[i - 1] : 0);
    if (c->type == COL_STR)
        return !s->str[i];
    return c->type == COL_F64 ? s->f64[i] != s->f64[i] : s->i64[i] == OPM_NULL_I64;
}

/* Which rows are there, a bit each; nothing if all are. */
static void put_there(struct arrow *a, const struct export_column *c, size_t n)
{
    size_t nulls = 0;

    buffer_begin(a);
    for (size_t i = 0; i < n; i++)
        nulls += is_null(&a->scratch, c, i);
    for (size_t i = 0; i < n && nulls; i += 8) {
        unsigned bits = 0;

        for (size_t k = 0; k < 8 && i + k < n; k++)
            bits |= (unsigned)!is_null(&a->scratch, c, i + k) << k;
        buf_addc(&a->body, (char)bits);
    }
    buffer_end(a);
    add_node(a, n, nulls);
}

/* Texts: where each ends, then all of them. */
static int put_texts(struct arrow *a, size_t n, const char *(*text)(void *, size_t, size_t *),
                     void *ctx)
{
    struct buf all = { .max = INT32_MAX };
    int32_t end = 0;
    int rc = 0;

    buffer_begin(a);
    buf_add(&a->body, &end, sizeof(end));
    for (size_t i = 0; i < n && !rc; i++) {
        size_t len;
        const char *s = text(ctx, i, &len);

        if (text_is_utf8(s, len))
            buf_add(&all, s, len);
        else
            text_add_utf8(&all, s, len);
        end = (int32_t)all.len;
        buf_add(&a->body, &end, sizeof(end));
        if (all.failed)
            rc = all.len + len > INT32_MAX ? OPM_ELIMIT : OPM_ENOMEM;
    }
    buffer_end(a);
    buffer_begin(a);
    buf_add(&a->body, buf_str(&all), all.len);
    buffer_end(a);
    buf_release(&all);
    return rc;
}

static const char *scratch_text(void *ctx, size_t i, size_t *len)
{
    const struct export_scratch *s = ctx;
    size_t from = i ? s->end[i - 1] : 0;

    *len = s->end[i] - from;
    return buf_str(&s->text) + from;
}

static int put_column(struct arrow *a, int k, size_t from, size_t n)
{
    const struct export_column *c = &a->col[k];
    int rc = export_column_take(c, from, n, &a->scratch);

    if (rc)
        return rc;
    put_there(a, c, n);
    if (c->args)
        return put_texts(a, n, scratch_text, &a->scratch);
    buffer_begin(a);
    for (size_t i = 0; i < n && c->type == COL_STR; i++) {
        int32_t at = a->scratch.str[i] ? (int32_t)a->number[k][a->scratch.str[i]] - 1 : 0;

        buf_add(&a->body, &at, sizeof(at));
    }
    if (c->type != COL_STR)
        buf_add(&a->body, c->type == COL_F64 ? (const void *)a->scratch.f64 : a->scratch.i64,
                n * 8);
    buffer_end(a);
    return a->body.failed ? OPM_ENOMEM : 0;
}

struct entries {
    const struct strpool *pool;
    str_id *str;
};

static const char *entry_text(void *ctx, size_t i, size_t *len)
{
    const struct entries *e = ctx;

    *len = strpool_len(e->pool, e->str[i]);
    return strpool_get(e->pool, e->str[i]);
}

/* All texts of a column get numbers, and are written. */
static int put_dictionary(struct arrow *a, int k, size_t nrow)
{
    struct entries e = { .pool = store_strings(a->st) };
    struct flat_field field[] = { { 8, (uint64_t)k, 0 }, FLAT_LINK };
    size_t n = 0, cap = 0;
    int rc = 0;

    a->number[k] = mem_calloc(strpool_count(e.pool) + 1, sizeof(*a->number[k]));
    if (!a->number[k])
        return OPM_ENOMEM;
    for (size_t from = 0; from < nrow && !rc; from += BATCH_ROWS) {
        size_t m = MIN(nrow - from, BATCH_ROWS);

        rc = export_column_take(&a->col[k], from, m, &a->scratch);
        for (size_t i = 0; i < m && !rc; i++) {
            str_id id = a->scratch.str[i];

            if (!id || a->number[k][id])
                continue;
            if (GROW(e.str, cap, n + 1)) {
                e.str[n++] = id;
                a->number[k][id] = (uint32_t)n;
            } else {
                rc = OPM_ENOMEM;
            }
        }
    }
    batch_begin(a);
    buffer_begin(a); /* all are there */
    buffer_end(a);
    add_node(a, n, 0);
    if (!rc)
        rc = put_texts(a, n, entry_text, &e);
    flat_align(&a->body, ALIGN);
    if (!rc) {
        flat_table(&a->meta, message(a, MESSAGE_DICTIONARY), field, ARRAY_SIZE(field));
        put_batch(a, field[1].at, n);
        rc = put_message(a, &a->dictionaries);
    }
    mem_free(e.str);
    return rc;
}

static int put_rows(struct arrow *a, size_t from, size_t n)
{
    int rc = 0;

    batch_begin(a);
    for (int k = 0; k < a->ncol && !rc; k++)
        rc = put_column(a, k, from, n);
    flat_align(&a->body, ALIGN);
    if (rc)
        return rc;
    put_batch(a, message(a, MESSAGE_BATCH), n);
    return put_message(a, &a->batches);
}

static void put_blocks(struct buf *b, size_t at, const struct blocks *list)
{
    flat_vector(b, at, list->n, 8);
    for (size_t i = 0; i < list->n; i++) {
        flat_u64(b, list->item[i].at);
        flat_u64(b, list->item[i].head); /* 32 bits and as many to fill up */
        flat_u64(b, list->item[i].body);
    }
}

static int put_footer(struct arrow *a)
{
    struct flat_field field[] = { { 2, VERSION, 0 }, FLAT_LINK, FLAT_LINK, FLAT_LINK };
    uint32_t end[2] = { UINT32_MAX, 0 }, len;

    io_out_add(a->out, end, sizeof(end));
    flat_table(&a->meta, flat_begin(&a->meta), field, ARRAY_SIZE(field));
    put_schema(a, &a->meta, field[1].at);
    put_blocks(&a->meta, field[2].at, &a->dictionaries);
    put_blocks(&a->meta, field[3].at, &a->batches);
    len = (uint32_t)a->meta.len;
    io_out_add(a->out, buf_str(&a->meta), a->meta.len);
    io_out_add(a->out, &len, sizeof(len));
    io_out_adds(a->out, MAGIC);
    return a->meta.failed ? OPM_ENOMEM : 0;
}

static int put_all(struct arrow *a, size_t nrow)
{
    int rc;

    io_out_add(a->out, MAGIC "\0\0", 8);
    buf_clear(&a->body);
    put_schema(a, &a->meta, message(a, MESSAGE_SCHEMA));
    rc = put_message(a, NULL);
    if (!rc)
        rc = writer_progress(a->opts, a->out, a->done, a->total);
    for (int k = 0; k < a->ncol && !rc; k++)
        if (is_dictionary(&a->col[k]))
            rc = put_dictionary(a, k, nrow);
    for (size_t from = 0; from < nrow && !rc; from += BATCH_ROWS) {
        size_t n = MIN(nrow - from, BATCH_ROWS);

        rc = put_rows(a, from, n);
        a->done += n;
        if (!rc)
            rc = writer_progress(a->opts, a->out, a->done, a->total);
    }
    return rc ? rc : put_footer(a);
}

static int put_table(struct arrow *a, enum table_id table)
{
    int rc = export_columns(a->st, table, a->col, COLUMNS_MAX, &a->ncol);

    a->begin = a->out->total;
    a->scratch = (struct export_scratch){ 0 };
    if (!rc)
        rc = export_scratch_init(&a->scratch, BATCH_ROWS);
    if (!rc)
        rc = put_all(a, store_nrow(a->st, table));
    export_scratch_release(&a->scratch);
    for (int k = 0; k < COLUMNS_MAX; k++) {
        mem_free(a->number[k]);
        a->number[k] = NULL;
    }
    buf_release(&a->meta);
    buf_release(&a->body);
    mem_free(a->dictionaries.item);
    mem_free(a->batches.item);
    a->dictionaries = a->batches = (struct blocks){ 0 };
    return rc;
}

static int put_file(struct arrow *a, enum table_id table, const char *path, opm_error *err)
{
    struct io_out out = { 0 };
    int rc = writer_open(&out, a->st, path, err);

    if (rc)
        return rc;
    a->out = &out;
    rc = put_table(a, table);
    return writer_close(&out, rc, path, err);
}

static int put_folder(struct arrow *a, const char *folder, opm_error *err)
{
    struct buf path = { 0 };
    int rc = folder_make(folder, err);

    for (int i = 0; i < TABLE_COUNT && !rc; i++) {
        buf_clear(&path);
        buf_addf(&path, "%s/%s.arrow", folder, store_table_defs[i].name);
        if (path.failed)
            rc = opm__fail(err, OPM_ENOMEM, "%s: out of memory", folder);
        else if (store_nrow(a->st, (enum table_id)i) || access(buf_str(&path), F_OK) == 0)
            rc = put_file(a, (enum table_id)i, buf_str(&path), err);
    }
    buf_release(&path);
    return rc;
}

int export_arrow(const struct store *st, const char *path, const struct export_options *opts,
                 opm_error *err)
{
    struct arrow *a = mem_calloc(1, sizeof(*a));
    enum table_id table;
    int rc = a ? 0 : opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);

    if (rc)
        return rc;
    a->st = st;
    a->opts = opts;
    for (int i = 0; i < TABLE_COUNT; i++)
        a->total += store_nrow(st, (enum table_id)i);
    if (opts && opts->table) {
        rc = export_find_table(opts->table, "Arrow", &table, err);
        a->total = rc ? 0 : store_nrow(st, table);
        rc = rc ? rc : put_file(a, table, path, err);
    } else if (strcmp(path, "-") == 0) {
        rc = opm__fail(err, OPM_EINVAL,
                       "arrow: standard output takes one table; name it, or write to a folder");
    } else {
        rc = put_folder(a, path, err);
    }
    mem_free(a);
    return rc;
}
