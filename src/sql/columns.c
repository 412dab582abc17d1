/* columns.c -- answers by column, for any statement; see columns.h. */
#include "sql/columns.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/utf8.h"

#include <stdio.h>
#include <string.h>

#define WORDS_MAX ((size_t)INT32_MAX)

/* Room for so many rows in all columns, and the texts of each. */
struct builder {
    struct sql_columns *out;
    struct strpool *pool; /* of each column */
    size_t cap;
};

static int no_memory(opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM, "out of memory for the answer");
}

uint8_t *sql_valid_new(size_t rows)
{
    uint8_t *valid = mem_alloc(rows / 8 + 1);

    if (valid)
        memset(valid, 0xff, rows / 8 + 1);
    return valid;
}

static bool is_utf8(const char *s, size_t len)
{
    uint32_t cp;

    for (size_t i = 0; i < len;) {
        i += utf8_next(s + i, len - i, &cp);
        if (cp == UTF8_BAD)
            return false;
    }
    return true;
}

static void add_bytes(struct sql_words *w, const char *s, size_t len)
{
    memcpy(w->bytes + w->len, s, len);
    w->len += len;
}

int sql_words_add(struct sql_words *w, const char *s, size_t len)
{
    static const char replacement[] = "\xef\xbf\xbd";
    bool good = is_utf8(s, len);
    uint32_t cp;

    if (w->n == WORDS_MAX || !GROW(w->offset, w->cap_offset, w->n + 2) ||
        !GROW(w->bytes, w->cap_bytes, w->len + (good ? len : 3 * len) + 1))
        return OPM_ENOMEM;
    if (w->n == 0)
        w->offset[0] = 0;
    if (good)
        add_bytes(w, s, len);
    for (size_t i = 0, n; !good && i < len; i += n) {
        n = utf8_next(s + i, len - i, &cp);
        if (cp == UTF8_BAD)
            add_bytes(w, replacement, sizeof(replacement) - 1);
        else
            add_bytes(w, s + i, n);
    }
    w->offset[++w->n] = (int64_t)w->len;
    return 0;
}

static size_t width(enum sql_type type)
{
    return type == SQL_TEXT ? sizeof(int32_t) : sizeof(int64_t);
}

static int grow(struct builder *b, opm_error *err)
{
    size_t cap = b->cap ? 2 * b->cap : 1024;

    for (int i = 0; i < b->out->ncol; i++) {
        struct sql_column *c = &b->out->col[i];
        void *p;

        if (c->data) {
            p = mem_realloc(c->data, cap * width(c->type));
            if (!p)
                return no_memory(err);
            c->data = p;
        }
        if (c->valid) {
            p = mem_realloc(c->valid, cap / 8 + 1);
            if (!p)
                return no_memory(err);
            c->valid = p;
            memset(c->valid + b->cap / 8 + 1, 0xff, cap / 8 - b->cap / 8);
        }
    }
    b->cap = cap;
    return 0;
}

static bool is_null(const struct sql_column *c, size_t row)
{
    return c->valid && !(c->valid[row / 8] >> row % 8 & 1);
}

static int put_null(struct builder *b, struct sql_column *c, opm_error *err)
{
    size_t row = b->out->nrow;

    if (!c->valid)
        c->valid = sql_valid_new(b->cap);
    if (!c->valid)
        return no_memory(err);
    c->valid[row / 8] &= (uint8_t) ~(1u << row % 8);
    c->nulls++;
    if (c->data)
        memset((char *)c->data + row * width(c->type), 0, width(c->type));
    return 0;
}

static int put_word(struct builder *b, int i, size_t row, const char *s, size_t len, opm_error *err)
{
    struct sql_column *c = &b->out->col[i];
    size_t before = strpool_count(&b->pool[i]);
    str_id id;

    if (strpool_intern(&b->pool[i], s, len, &id) < 0 ||
        (id > before && sql_words_add(&c->words, s, len) < 0))
        return no_memory(err);
    c->word[row] = (int32_t)(id - 1);
    return 0;
}

/* Numbers of the rows so far become words. */
static int to_words(struct builder *b, int i, opm_error *err)
{
    struct sql_column *c = &b->out->col[i];
    struct sql_column old = *c;
    int rc = 0;

    c->type = SQL_TEXT;
    c->word = mem_calloc(b->cap, sizeof(*c->word));
    if (!c->word)
        rc = no_memory(err);
    for (size_t row = 0; !rc && old.type != SQL_NULL && row < b->out->nrow; row++) {
        char text[40];

        if (is_null(&old, row))
            continue;
        if (old.type == SQL_INT)
            snprintf(text, sizeof(text), "%lld", (long long)old.i64[row]);
        else
            snprintf(text, sizeof(text), "%.15g", old.f64[row]);
        rc = put_word(b, i, row, text, strlen(text), err);
    }
    mem_free(old.data);
    return rc;
}

/* Make the column one that can hold values of a type, too. */
static int widen(struct builder *b, int i, enum sql_type type, opm_error *err)
{
    struct sql_column *c = &b->out->col[i];

    if (type == SQL_TEXT)
        return to_words(b, i, err);
    if (c->type == SQL_INT) { /* integers, and now a real */
        for (size_t row = 0; row < b->out->nrow; row++)
            c->f64[row] = (double)c->i64[row];
        c->type = SQL_REAL;
        return 0;
    }
    c->data = mem_calloc(b->cap, width(type));
    c->type = type;
    return c->data ? 0 : no_memory(err);
}

static int put_cell(struct builder *b, int i, const struct sql_rows *r, opm_error *err)
{
    struct sql_column *c = &b->out->col[i];
    enum sql_type type = sql_rows_type(r, i);
    size_t row = b->out->nrow, len;
    const char *s;
    int rc = 0;

    if (type == SQL_NULL)
        return put_null(b, c, err);
    if (type > c->type)
        rc = widen(b, i, type, err);
    if (rc)
        return rc;
    switch (c->type) {
    case SQL_INT:
        c->i64[row] = sql_rows_int(r, i);
        break;
    case SQL_REAL:
        c->f64[row] = sql_rows_real(r, i);
        break;
    default:
        s = sql_rows_text(r, i, &len);
        rc = s ? put_word(b, i, row, s, len, err) : no_memory(err);
        break;
    }
    return rc;
}

/* Columns that turned out to have no value get the type they were declared with. */
static int settle(struct sql_columns *out, const struct sql_rows *r, opm_error *err)
{
    for (int i = 0; i < out->ncol; i++) {
        struct sql_column *c = &out->col[i];

        if (c->type == SQL_NULL)
            c->type = sql_rows_declared(r, i);
        if (!c->data && c->type != SQL_NULL)
            c->data = mem_calloc(out->nrow + 1, width(c->type));
        if (!c->data && c->type != SQL_NULL)
            return no_memory(err);
    }
    return 0;
}

static int fetch(struct builder *b, struct sql_rows *r, opm_error *err)
{
    int rc, cell = 0;

    for (;;) {
        rc = sql_rows_next(r, err);
        if (rc != 1)
            break;
        if (b->out->nrow == b->cap)
            cell = grow(b, err);
        for (int i = 0; !cell && i < b->out->ncol; i++)
            cell = put_cell(b, i, r, err);
        if (cell)
            return cell;
        b->out->nrow++;
    }
    return rc;
}

static int start(struct builder *b, const struct sql_rows *r, opm_error *err)
{
    int n = sql_rows_columns(r);

    b->out->col = mem_calloc((size_t)n + 1, sizeof(*b->out->col));
    b->pool = mem_calloc((size_t)n + 1, sizeof(*b->pool));
    if (!b->out->col || !b->pool)
        return no_memory(err);
    b->out->ncol = n;
    for (int i = 0; i < n; i++) {
        const char *name = sql_rows_name(r, i);

        b->out->col[i].name = name ? mem_strdup(name) : NULL;
        if (!b->out->col[i].name)
            return no_memory(err);
    }
    return 0;
}

int sql_columns(struct sql *q, const char *text, struct sql_columns *out, opm_error *err)
{
    struct sql_columns made = { 0 };
    struct builder b = { .out = &made };
    struct sql_rows *r = NULL;
    int rc = sql_columns_plain(q, text, out, err);

    if (rc)
        return MIN(rc, 0);
    rc = sql_query(q, text, &r, err);
    if (!rc)
        rc = start(&b, r, err);
    if (!rc)
        rc = fetch(&b, r, err);
    if (!rc)
        rc = settle(&made, r, err);
    sql_rows_close(r);
    for (int i = 0; b.pool && i < made.ncol; i++)
        strpool_release(&b.pool[i]);
    mem_free(b.pool);
    if (rc)
        sql_columns_release(&made);
    else
        *out = made;
    return rc;
}

void sql_column_release(struct sql_column *c)
{
    mem_free(c->name);
    mem_free(c->data);
    mem_free(c->valid);
    mem_free(c->words.bytes);
    mem_free(c->words.offset);
    *c = (struct sql_column){ 0 };
}

void sql_columns_release(struct sql_columns *c)
{
    for (int i = 0; i < c->ncol; i++)
        sql_column_release(&c->col[i]);
    mem_free(c->col);
    *c = (struct sql_columns){ 0 };
}
