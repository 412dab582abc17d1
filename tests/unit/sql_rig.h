/* sql_rig.h -- ask a store and an ordinary SQLite table with the same rows the same question. */
#ifndef SQL_RIG_H
#define SQL_RIG_H

#include "base/buf.h"
#include "sql/functions.h"
#include "sql/sql.h"
#include "trace_rig.h"

#include <sqlite3.h>

static const struct rig rig = {
    .ntrack = 6, .nop = 9, .nsite = 60, .nstep = 20, .nrecord = 8, .nspan = 500, .warmup = true
};

static inline void add_cell(struct buf *b, int type, const void *bytes, size_t len)
{
    buf_addf(b, "%d:", type);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = ((const unsigned char *)bytes)[i];

        if (c < 0x20 || c > 0x7e || c == '\\')
            buf_addf(b, "\\%02x", c);
        else
            buf_addc(b, (char)c);
    }
    buf_addc(b, '|');
}

/* All rows as text, one line each; "error: ..." where the query fails. */
static inline void ask(struct sql *q, const char *text, struct buf *b)
{
    struct sql_rows *r;
    opm_error err = { 0 };
    int rc = sql_query(q, text, &r, &err);

    if (rc < 0) {
        buf_addf(b, "error: %s", err.msg);
        return;
    }
    for (;;) {
        rc = sql_rows_next(r, &err);
        if (rc <= 0)
            break;
        for (int i = 0; i < sql_rows_columns(r); i++) {
            enum sql_type type = sql_rows_type(r, i);
            size_t len;
            const char *s = sql_rows_text(r, i, &len);

            add_cell(b, (int)type, s, len);
        }
        buf_addc(b, '\n');
    }
    if (rc < 0)
        buf_addf(b, "error: %s", err.msg);
    sql_rows_close(r);
}

static inline void ask_plain(sqlite3 *db, const char *text, struct buf *b)
{
    static const int types[] = { [SQLITE_INTEGER] = SQL_INT,
                                 [SQLITE_FLOAT] = SQL_REAL,
                                 [SQLITE_TEXT] = SQL_TEXT,
                                 [SQLITE_BLOB] = SQL_TEXT,
                                 [SQLITE_NULL] = SQL_NULL };
    sqlite3_stmt *stmt = NULL;
    int rc = sqlite3_prepare_v2(db, text, -1, &stmt, NULL);

    while (rc == SQLITE_OK && sqlite3_step(stmt) == SQLITE_ROW) {
        for (int i = 0; i < sqlite3_column_count(stmt); i++) {
            int type = types[sqlite3_column_type(stmt, i)];
            const void *s = sqlite3_column_text(stmt, i);

            add_cell(b, type, s, (size_t)sqlite3_column_bytes(stmt, i));
        }
        buf_addc(b, '\n');
    }
    if (sqlite3_errcode(db) != SQLITE_OK && sqlite3_errcode(db) != SQLITE_DONE &&
        sqlite3_errcode(db) != SQLITE_ROW)
        buf_addf(b, "error: %s", sqlite3_errmsg(db));
    sqlite3_finalize(stmt);
}

static inline void bind_cell(sqlite3_stmt *stmt, int at, const struct store *st, struct cell c)
{
    if (c.kind == CELL_I64)
        sqlite3_bind_int64(stmt, at, c.i64);
    else if (c.kind == CELL_F64)
        sqlite3_bind_double(stmt, at, c.f64);
    else if (c.kind == CELL_STR)
        sqlite3_bind_text(stmt, at, store_text(st, c.str),
                          (int)strpool_len(store_strings(st), c.str), SQLITE_STATIC);
    else
        sqlite3_bind_null(stmt, at);
}

/* A table of the store as a table of SQLite's own. */
static inline void copy_table(sqlite3 *db, const struct store *st, enum table_id id)
{
    static const char *const types[] = {
        [COL_I64] = "INTEGER", [COL_ID] = "INTEGER", [COL_STR] = "TEXT", [COL_F64] = "REAL"
    };
    const struct table_def *def = &store_table_defs[id];
    struct buf create = { 0 }, insert = { 0 };
    sqlite3_stmt *stmt;

    buf_addf(&create, "CREATE TABLE %s(", def->name);
    buf_addf(&insert, "INSERT INTO %s(rowid", def->name);
    for (int i = 0; i < def->ncol; i++) {
        buf_addf(&create, "%s\"%s\" %s", i ? ", " : "", def->col[i].name, types[def->col[i].type]);
        buf_addf(&insert, ", \"%s\"", def->col[i].name);
    }
    buf_adds(&create, ")");
    buf_adds(&insert, ") VALUES (?");
    for (int i = 0; i < def->ncol; i++)
        buf_adds(&insert, ", ?");
    buf_adds(&insert, ")");
    assert_int_equal(sqlite3_exec(db, buf_str(&create), NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, buf_str(&insert), -1, &stmt, NULL), SQLITE_OK);
    for (size_t row = 0; row < store_nrow(st, id); row++) {
        sqlite3_bind_int64(stmt, 1, (sqlite3_int64)row);
        for (int i = 0; i < def->ncol; i++)
            bind_cell(stmt, i + 2, st, store_cell(st, id, row, i));
        assert_int_equal(sqlite3_step(stmt), SQLITE_DONE);
        sqlite3_reset(stmt);
    }
    sqlite3_finalize(stmt);
    buf_release(&create);
    buf_release(&insert);
}

/* A store and its double. */
struct pair {
    struct store *st;
    struct sql *q;
    sqlite3 *db;
};

/* Takes over st. */
static inline struct pair pair_of(struct store *st)
{
    struct pair p = { .st = st };
    opm_error err;

    if (sql_open(&p.q, p.st, &err) < 0)
        fail_msg("%s", err.msg);
    assert_int_equal(sqlite3_open(":memory:", &p.db), SQLITE_OK);
    assert_int_equal(functions_register(p.db), SQLITE_OK);
    for (int id = 0; id < TABLE_COUNT; id++)
        copy_table(p.db, p.st, (enum table_id)id);
    return p;
}

static inline struct pair pair_open(uint64_t seed)
{
    struct store *st = NULL;

    assert_int_equal(rig_make(&st, &rig, seed), 0);
    return pair_of(st);
}

static inline void pair_close(struct pair *p)
{
    sql_close(p->q);
    store_free(p->st);
    sqlite3_close(p->db);
}

static inline int by_line(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static inline void sort_lines(struct buf *b)
{
    size_t n = 0, cap = 0;
    char **line = NULL, *rest, *copy;
    struct buf out = { 0 };

    if (!b->len)
        return;
    copy = strdup(b->data);
    for (char *s = copy; s; s = rest) {
        rest = strchr(s, '\n');
        if (rest)
            *rest++ = 0;
        assert_true(GROW(line, cap, n + 1));
        line[n++] = s;
    }
    qsort(line, n, sizeof(*line), by_line);
    for (size_t i = 0; i < n; i++) {
        buf_adds(&out, line[i]);
        buf_addc(&out, '\n');
    }
    buf_release(b);
    *b = out;
    free(copy);
    mem_free(line);
}

/* Ask both; the answers must be equal, in order if the query orders all that it selects. */
static inline void compare(struct pair *p, const char *text, bool ordered)
{
    struct buf got = { 0 }, want = { 0 };

    ask(p->q, text, &got);
    ask_plain(p->db, text, &want);
    if (!ordered) {
        sort_lines(&got);
        sort_lines(&want);
    }
    if (strncmp(buf_str(&want), "error: ", 7) == 0 ? strncmp(buf_str(&got), "error: ", 7) != 0
                                                   : strcmp(buf_str(&got), buf_str(&want)) != 0)
        fail_msg("%s\n--- got\n%.2000s\n--- want\n%.2000s", text, buf_str(&got), buf_str(&want));
    buf_release(&got);
    buf_release(&want);
}

#endif
