/* runsdb.c -- see runsdb.h. */
#include "catalog/runsdb.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "catalog/click_runs.h"
#include "catalog/kind.h"

#include <math.h>
#include <string.h>

/* "SELECT columns FROM table" and "INSERT OR IGNORE INTO table VALUES (?, ...)". */
#define TABLE(table, doc) static const char select_##table[] = "SELECT "
#define COL(table, column, type, doc) "\"" #column "\", "
#define END(table, key) "0 FROM " #table;
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
#define TABLE(table, doc) \
    static const char insert_##table[] = "INSERT OR IGNORE INTO " #table " VALUES ("
#define COL(table, column, type, doc) "?,"
#define END(table, key) ;
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

struct runsdb {
    struct dbfile *file; /* one of the two */
    struct clickhouse *click;
    char *name;
};

/* -- rows in and out -- */

static void put_I64(struct dbquery *q, int64_t v)
{
    if (v == RUNSDB_NONE)
        dbquery_text(q, NULL);
    else
        dbquery_int(q, v);
}

static void put_F64(struct dbquery *q, double v)
{
    dbquery_real(q, isfinite(v) ? v : (double)NAN);
}

static void put_STR(struct dbquery *q, const char *v)
{
    dbquery_text(q, v);
}

static void put_BYTES(struct dbquery *q, struct kept_bytes v)
{
    dbquery_bytes(q, v.data, v.len);
}

static int64_t get_I64(const struct dbquery *q, int col)
{
    return dbquery_get_int(q, col, RUNSDB_NONE);
}

static double get_F64(const struct dbquery *q, int col)
{
    return dbquery_get_real(q, col);
}

static const char *get_STR(const struct dbquery *q, int col)
{
    return dbquery_get_text(q, col);
}

static struct kept_bytes get_BYTES(const struct dbquery *q, int col)
{
    struct kept_bytes v;

    v.data = dbquery_get_bytes(q, col, &v.len);
    return v;
}

#define TABLE(table, doc)                                                      \
    static void put_##table(struct dbquery *q, const struct kept_##table *row) \
    {
#define COL(table, column, type, doc) put_##type(q, row->column);
#define END(table, key) }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

#define TABLE(table, doc)                                                      \
    static void get_##table(const struct dbquery *q, struct kept_##table *row) \
    {                                                                          \
        int col = 0;
#define COL(table, column, type, doc) row->column = get_##type(q, col++);
#define END(table, key) }
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* -- the file -- */

bool runsdb_is(const char *path)
{
    return dbfile_is(path, &catalog_kind);
}

int runsdb_open(struct runsdb **out, const char *path, enum runsdb_use use, opm_error *err)
{
    static const enum dbfile_use uses[] = { DBFILE_READ, DBFILE_WRITE, DBFILE_CREATE };
    struct runsdb *db = mem_calloc(1, sizeof(*db));
    int rc;

    if (!db)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    if (fleetdb_is_url(path)) {
        rc = clickhouse_open(&db->click, path, use == RUNSDB_CREATE ? FLEETDB_ADD : FLEETDB_READ,
                             err);
    } else {
        db->name = mem_strdup(path);
        rc = db->name ? dbfile_open(&db->file, path, &catalog_kind, uses[use], err)
                      : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    if (rc < 0)
        runsdb_close(db);
    else
        *out = db;
    return rc;
}

void runsdb_close(struct runsdb *db)
{
    if (!db)
        return;
    dbfile_close(db->file);
    clickhouse_close(db->click);
    mem_free(db->name);
    mem_free(db);
}

const char *runsdb_name(const struct runsdb *db)
{
    return db->click ? clickhouse_name(db->click) : db->name;
}

int runsdb_begin(struct runsdb *db, opm_error *err)
{
    return db->click ? 0 : dbfile_begin(db->file, err);
}

int runsdb_commit(struct runsdb *db, opm_error *err)
{
    return db->click ? 0 : dbfile_commit(db->file, err);
}

/* -- writing -- */

/* "... VALUES (?,?," to its end. */
static int open_insert(struct runsdb *db, const char *start, struct dbquery **out, opm_error *err)
{
    struct buf sql = { 0 };
    int rc;

    buf_add(&sql, start, strlen(start) - 1); /* the comma after the last */
    buf_adds(&sql, ") RETURNING 1");
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : dbquery_open(db->file, buf_str(&sql), out, err);
    buf_release(&sql);
    return rc;
}

/* To the end of a statement; *rows of it. */
static int finish(struct dbquery *q, size_t *rows, opm_error *err)
{
    int rc = dbquery_next(q, err);

    for (*rows = 0; rc == 1; ++*rows)
        rc = dbquery_next(q, err);
    return rc;
}

#define ADD_ROWS(table)                                                                    \
    static int add_##table##s(struct runsdb *db, const struct kept_##table *row, size_t n, \
                              size_t *added, opm_error *err)                               \
    {                                                                                      \
        struct dbquery *q = NULL;                                                          \
        int rc = open_insert(db, insert_##table, &q, err);                                 \
                                                                                           \
        *added = 0;                                                                        \
        for (size_t i = 0; i < n && rc == 0; i++) {                                        \
            size_t one;                                                                    \
                                                                                           \
            put_##table(q, &row[i]);                                                       \
            rc = finish(q, &one, err);                                                     \
            *added += one;                                                                 \
        }                                                                                  \
        dbquery_close(q);                                                                  \
        return rc;                                                                         \
    }
ADD_ROWS(run)
ADD_ROWS(label)
ADD_ROWS(fact)
ADD_ROWS(op)

int runsdb_add(struct runsdb *db, const struct kept *k, bool *added, opm_error *err)
{
    size_t n, ignored;
    int rc;

    if (db->click)
        return click_runs_add(db->click, k, added, err);
    rc = add_runs(db, &k->run, 1, &n, err);
    *added = rc == 0 && n == 1;
    if (!*added)
        return rc;
    rc = add_labels(db, k->label, k->nlabel, &ignored, err);
    if (rc == 0)
        rc = add_facts(db, k->fact, k->nfact, &ignored, err);
    if (rc == 0)
        rc = add_ops(db, k->op, k->nop, &ignored, err);
    return rc;
}

/* Run a statement with one or two values. */
static int change(struct runsdb *db, const char *sql, const int64_t *number, const char *id,
                  opm_error *err)
{
    struct dbquery *q = NULL;
    size_t rows;
    int rc = dbquery_open(db->file, sql, &q, err);

    if (rc == 0 && number)
        dbquery_int(q, *number);
    if (rc == 0) {
        dbquery_text(q, id);
        rc = finish(q, &rows, err);
    }
    dbquery_close(q);
    return rc;
}

int runsdb_remove(struct runsdb *db, const char *id, opm_error *err)
{
    static const char *const statements[] = { "DELETE FROM op WHERE run = ?",
                                              "DELETE FROM fact WHERE run = ?",
                                              "DELETE FROM label WHERE run = ?",
                                              "DELETE FROM run WHERE id = ?" };
    int rc = 0;

    if (db->click)
        return click_runs_remove(db->click, id, err);
    for (size_t i = 0; i < ARRAY_SIZE(statements) && rc == 0; i++)
        rc = change(db, statements[i], NULL, id, err);
    return rc;
}

int runsdb_accept(struct runsdb *db, const char *id, int64_t now_ns, opm_error *err)
{
    return db->click ? click_runs_accept(db->click, id, now_ns, err)
                     : change(db, "UPDATE run SET accepted = ? WHERE id = ?", &now_ns, id, err);
}

/* -- reading -- */

#define TABLE(table, doc)                                                                        \
    int runsdb_each_##table(struct runsdb *db,                                                   \
                            int (*each)(void *user, const struct kept_##table *row), void *user, \
                            opm_error *err)                                                      \
    {                                                                                            \
        struct kept_##table row;                                                                 \
        struct dbquery *q = NULL;                                                                \
        int rc, said = 0;                                                                        \
                                                                                                 \
        if (db->click)                                                                           \
            return click_runs_each_##table(db->click, each, user, err);                          \
        rc = dbquery_open(db->file, select_##table, &q, err);                                    \
        while (rc == 0 && said == 0) {                                                           \
            rc = dbquery_next(q, err);                                                           \
            if (rc != 1)                                                                         \
                break;                                                                           \
            get_##table(q, &row);                                                                \
            said = each(user, &row);                                                             \
            rc = 0;                                                                              \
        }                                                                                        \
        dbquery_close(q);                                                                        \
        return rc < 0 ? rc : said;                                                               \
    }
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* -- copying -- */

struct copying {
    struct runsdb *to;
    bool (*wanted)(void *user, const char *id);
    void *user;
    opm_error *err;
};

#define COPY_ROWS(table, id)                                                                      \
    static int copy_##table(void *user, const struct kept_##table *row)                           \
    {                                                                                             \
        struct copying *c = user;                                                                 \
        size_t ignored;                                                                           \
                                                                                                  \
        return c->wanted(c->user, row->id) ? add_##table##s(c->to, row, 1, &ignored, c->err) : 0; \
    }
COPY_ROWS(run, id)
COPY_ROWS(label, run)
COPY_ROWS(fact, run)
COPY_ROWS(op, run)

int runsdb_copy(struct runsdb *from, struct runsdb *to, bool (*wanted)(void *user, const char *id),
                void *user, opm_error *err)
{
    struct copying c = { to, wanted, user, err };
    int rc = runsdb_begin(to, err);

    if (rc == 0)
        rc = runsdb_each_run(from, copy_run, &c, err);
    if (rc == 0)
        rc = runsdb_each_label(from, copy_label, &c, err);
    if (rc == 0)
        rc = runsdb_each_fact(from, copy_fact, &c, err);
    if (rc == 0)
        rc = runsdb_each_op(from, copy_op, &c, err);
    if (rc == 0)
        return runsdb_commit(to, err);
    dbfile_rollback(to->file);
    return rc;
}
