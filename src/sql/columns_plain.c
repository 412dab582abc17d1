/* columns_plain.c -- SELECT a, b FROM t, straight from the columns of t; see columns.h. */
#include "sql/columns.h"

#include "base/alloc.h"
#include "base/error.h"

#include <ctype.h>
#include <string.h>
#include <strings.h>

#define COLUMNS_MAX 256

/* Words and punctuation of the statement; anything beyond the plain form ends it. */
struct scan {
    const char *at, *word;
    size_t len; /* of the word; 0: there was none */
};

static void skip_space(struct scan *s)
{
    while (isspace((unsigned char)*s->at))
        s->at++;
}

static bool take_word(struct scan *s)
{
    skip_space(s);
    s->word = s->at;
    if (!isdigit((unsigned char)*s->at))
        while (isalnum((unsigned char)*s->at) || *s->at == '_')
            s->at++;
    s->len = (size_t)(s->at - s->word);
    return s->len > 0;
}

static bool take(struct scan *s, char c)
{
    skip_space(s);
    if (*s->at != c)
        return false;
    s->at++;
    return true;
}

static bool word_is(const struct scan *s, const char *text)
{
    return s->len == strlen(text) && strncasecmp(s->word, text, s->len) == 0;
}

struct plain {
    struct source *from;
    int col[COLUMNS_MAX];
    int n;
};

static int find_column(const struct source *src, const struct scan *name)
{
    for (int i = 0; i < src->def->ncol; i++)
        if (word_is(name, src->def->col[i].name))
            return i;
    return word_is(name, "rowid") ? src->def->ncol : -1;
}

static const char *column_name(const struct source *src, int col)
{
    return col == src->def->ncol ? "rowid" : src->def->col[col].name;
}

static bool parse(struct sql *q, const char *text, struct plain *p)
{
    struct scan s = { .at = text }, name[COLUMNS_MAX];
    bool all;

    p->n = 0;
    if (!take_word(&s) || !word_is(&s, "select"))
        return false;
    all = take(&s, '*');
    while (!all) {
        if (p->n == COLUMNS_MAX || !take_word(&s))
            return false;
        name[p->n++] = s;
        if (!take(&s, ','))
            break;
    }
    if (!take_word(&s) || !word_is(&s, "from") || !take_word(&s))
        return false;
    p->from = sql_source(q, s.word, s.len);
    take(&s, ';');
    skip_space(&s);
    if (*s.at || !p->from || p->from->def->ncol > COLUMNS_MAX)
        return false;
    for (int i = 0; i < p->n; i++) {
        p->col[i] = find_column(p->from, &name[i]);
        if (p->col[i] < 0)
            return false; /* SQLite has the message for it */
    }
    for (; all && p->n < p->from->def->ncol; p->n++)
        p->col[p->n] = p->n;
    return true;
}

static bool set_null(struct sql_column *c, size_t row, size_t nrow)
{
    if (!c->valid)
        c->valid = sql_valid_new(nrow);
    if (!c->valid)
        return false;
    c->valid[row / 8] &= (uint8_t) ~(1u << row % 8);
    c->nulls++;
    return true;
}

static bool copy_i64(struct sql_column *c, const int64_t *from, size_t n)
{
    memcpy(c->i64, from, n * sizeof(*from));
    for (size_t i = 0; i < n; i++) {
        if (UNLIKELY(from[i] == OPM_NULL_I64)) {
            c->i64[i] = 0;
            if (!set_null(c, i, n))
                return false;
        }
    }
    return true;
}

static bool copy_f64(struct sql_column *c, const double *from, size_t n)
{
    memcpy(c->f64, from, n * sizeof(*from));
    for (size_t i = 0; i < n; i++) {
        if (UNLIKELY(from[i] != from[i])) {
            c->f64[i] = 0;
            if (!set_null(c, i, n))
                return false;
        }
    }
    return true;
}

static bool copy_ids(struct sql_column *c, const struct vcol *from, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t id = vcol_u32(from, i);

        c->i64[i] = id == OPM_NULL_ID ? 0 : (int64_t)id;
        if (UNLIKELY(id == OPM_NULL_ID) && !set_null(c, i, n))
            return false;
    }
    return true;
}

/* Interned strings are told apart by their numbers already. */
static bool copy_words(struct sql_column *c, const struct vcol *from, size_t n,
                       const struct strpool *pool)
{
    uint32_t *number = mem_calloc(strpool_count(pool) + 1, sizeof(*number)); /* + 1; 0: none */
    bool ok = number;

    for (size_t i = 0; ok && i < n; i++) {
        str_id id = vcol_u32(from, i);

        if (id == 0) {
            ok = set_null(c, i, n);
            continue;
        }
        if (!number[id]) {
            ok = sql_words_add(&c->words, strpool_get(pool, id), strpool_len(pool, id)) == 0;
            number[id] = (uint32_t)c->words.n;
        }
        c->word[i] = (int32_t)(number[id] - 1);
    }
    mem_free(number);
    return ok;
}

/* Packed arguments are spelt out; rarely are two the same, so nothing is lost by not looking. */
static bool copy_args(struct sql_column *c, const struct source *src, size_t n)
{
    struct buf text = { 0 };
    bool ok = true;

    for (size_t i = 0; ok && i < n; i++) {
        text.len = 0;
        ok = store_span_args(src->st, i, &text) == 0;
        if (ok && text.len == 0) {
            ok = set_null(c, i, n);
        } else if (ok) {
            ok = sql_words_add(&c->words, text.data, text.len) == 0;
            c->word[i] = (int32_t)c->words.n - 1;
        }
    }
    buf_release(&text);
    return ok;
}

static bool all_null(struct sql_column *c, size_t n)
{
    c->valid = mem_calloc(n / 8 + 1, 1);
    c->nulls = n;
    return c->valid;
}

static bool copy_column(struct sql_column *c, const struct source *src, const struct vcol *from,
                        size_t n)
{
    switch (from->kind) {
    case VCOL_ROW:
        for (size_t i = 0; i < n; i++)
            c->i64[i] = (int64_t)i;
        return true;
    case VCOL_I64:
        return copy_i64(c, from->i64, n);
    case VCOL_F64:
        return copy_f64(c, from->f64, n);
    case VCOL_ID:
    case VCOL_SITE_ID:
        return copy_ids(c, from, n);
    case VCOL_STR:
    case VCOL_SITE_STR:
        return copy_words(c, from, n, store_strings(src->st));
    case VCOL_ARGS:
        return copy_args(c, src, n);
    case VCOL_NULL:
    case VCOL_UNKNOWN:
        break;
    }
    return n == 0 || all_null(c, n);
}

static enum sql_type type_of(const struct source *src, int col)
{
    static const enum sql_type types[] = {
        [COL_I64] = SQL_INT, [COL_ID] = SQL_INT, [COL_STR] = SQL_TEXT, [COL_F64] = SQL_REAL
    };

    return col == src->def->ncol ? SQL_INT : types[src->def->col[col].type];
}

static int read_column(struct source *src, int col, struct sql_column *c, opm_error *err)
{
    int rc = source_column(src, col, err);
    size_t n = src->nrow;

    if (rc)
        return rc;
    c->type = type_of(src, col);
    c->name = mem_strdup(column_name(src, col));
    c->data = mem_calloc(n + 1, c->type == SQL_TEXT ? sizeof(int32_t) : sizeof(int64_t));
    if (!c->name || !c->data || !copy_column(c, src, &src->col[col], n))
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory for the answer", src->def->name);
    return 0;
}

int sql_columns_plain(struct sql *q, const char *text, struct sql_columns *out, opm_error *err)
{
    struct sql_columns made = { 0 };
    struct plain p;
    int rc;

    if (!parse(q, text, &p))
        return 0;
    rc = source_ready(p.from, err);
    if (rc)
        return rc;
    made.col = mem_calloc((size_t)p.n + 1, sizeof(*made.col));
    if (!made.col)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", p.from->def->name);
    made.nrow = p.from->nrow;
    for (; !rc && made.ncol < p.n; made.ncol++)
        rc = read_column(p.from, p.col[made.ncol], &made.col[made.ncol], err);
    if (rc) {
        sql_columns_release(&made);
        return rc;
    }
    *out = made;
    return 1;
}
