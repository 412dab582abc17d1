/* fleetdb.c -- see fleetdb.h: which database it is, and the one in a file. */
#include "catalog/fleetdb.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "catalog/clickhouse.h"
#include "catalog/kind.h"
#include "catalog/recordings.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TABLE(table, doc) static const struct rollup_column table##_columns[] = {
#define COL(table, column, type, doc) { #column, ROLLUP_##type, doc },
#define END(table, order) \
    }                     \
    ;
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END

const struct rollup_def rollups[ROLLUP_COUNT] = {
#define TABLE(table, doc) [ROLLUP_##table] = { #table, doc,
#define COL(table, column, type, doc)
#define END(table, order)                                    \
    order, table##_columns, (int)ARRAY_SIZE(table##_columns) \
    }                                                        \
    ,
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END
};

static const char insert_batch[] = "INSERT INTO rank_batch VALUES (?, ?, ?, ?, ?, ?)";
static const char views[] = "PRAGMA temp_store = 1;"
#define VIEW(name, doc, sql) "CREATE TEMP VIEW " #name " AS " sql ";"
#include "catalog/fleetviews.def"
#undef VIEW
    ;

struct fleetdb {
    struct dbfile *file; /* one of the two */
    struct clickhouse *click;
    char *name;
    /* What is being added to the file. */
    struct fleet_unit unit;
    int64_t batch;
    struct dbquery *insert[ROLLUP_COUNT];
    struct left_out left_out;
};

struct fleetrows {
    struct dbquery *q; /* one of the two */
    struct clickrows *c;
    char number[40]; /* a number as text */
};

bool fleetdb_is_url(const char *text)
{
    return strncmp(text, "clickhouse://", 13) == 0 || strncmp(text, "clickhouses://", 14) == 0;
}

static int open_file(struct fleetdb *db, const char *path, enum fleetdb_use use, opm_error *err)
{
    struct dbquery *q = NULL;
    int rc = dbfile_open(&db->file, path, &catalog_kind,
                         use == FLEETDB_ADD ? DBFILE_CREATE : DBFILE_READ, err);

    if (rc == 0 && dbfile_version(db->file) < CATALOG_VERSION_ROLLUPS)
        rc = opm__fail(err, OPM_EFORMAT,
                       "%s has no ranks: an older opmeter wrote it; 'opmeter add --job' makes room "
                       "for them",
                       path);
    /* What is sorted for many ranks goes to a file that is removed at once, not to memory. */
    for (const char *at = views; rc == 0 && *at; at = strchr(at, ';') + 1) {
        char sql[2000];
        size_t len = (size_t)(strchr(at, ';') - at);

        snprintf(sql, sizeof(sql), "%.*s", (int)len, at);
        rc = dbquery_open(db->file, sql, &q, err);
        if (rc == 0)
            rc = dbquery_next(q, err);
        dbquery_close(q);
        q = NULL;
    }
    return rc;
}

int fleetdb_open(struct fleetdb **out, const char *where, enum fleetdb_use use, opm_error *err)
{
    struct fleetdb *db = mem_calloc(1, sizeof(*db));
    int rc = db ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");

    if (rc == 0 && fleetdb_is_url(where)) {
        rc = clickhouse_open(&db->click, where, use, err);
    } else if (rc == 0 && strstr(where, "://")) {
        rc = opm__fail(err, OPM_EINVAL,
                       "%.*s:// is no database that we know: give a file, such as runs.db, or "
                       "clickhouse://HOST:8123/DATABASE",
                       (int)MIN(strstr(where, "://") - where, 40), where);
    } else if (rc == 0 && strncmp(where, "clickhouse", 10) == 0 && strchr(where, ':') &&
               strchr(where, '@')) {
        /* It may have a password, which messages about a file would repeat. */
        rc = opm__fail(err, OPM_EINVAL,
                       "clickhouse: two slashes stand behind it: "
                       "clickhouse://HOST:8123/DATABASE");
    } else if (rc == 0) {
        db->name = mem_strdup(where);
        rc =
            db->name ? open_file(db, where, use, err) : opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    if (rc < 0)
        fleetdb_close(db);
    else
        *out = db;
    return rc;
}

static void finish_inserts(struct fleetdb *db)
{
    for (size_t i = 0; i < ROLLUP_COUNT; i++) {
        dbquery_close(db->insert[i]);
        db->insert[i] = NULL;
    }
}

void fleetdb_close(struct fleetdb *db)
{
    if (!db)
        return;
    finish_inserts(db);
    dbfile_close(db->file);
    clickhouse_close(db->click);
    left_out_release(&db->left_out);
    mem_free(db->name);
    mem_free(db);
}

const char *fleetdb_name(const struct fleetdb *db)
{
    return db->click ? clickhouse_name(db->click) : db->name;
}

struct left_out *fleetdb_left_out(struct fleetdb *db)
{
    return &db->left_out;
}

/* -- adding -- */

int fleetdb_has(struct fleetdb *db, const struct fleet_unit *u, bool *has, opm_error *err)
{
    struct fleetrows *r = NULL;
    struct buf sql = { 0 };
    int rc;

    *has = false;
    buf_adds(&sql, "SELECT count(*) FROM rank_batch WHERE job = ");
    fleetdb_quote(db, &sql, u->job);
    buf_addf(&sql, " AND rank = %lld AND run = ", (long long)u->rank);
    fleetdb_quote(db, &sql, u->run);
    buf_adds(&sql, " AND unit = ");
    fleetdb_quote(db, &sql, u->unit);
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : fleetdb_query(db, buf_str(&sql), &r, err);
    if (rc == 0)
        rc = fleetrows_next(r, err);
    if (rc == 1) {
        *has = fleetrows_int(r, 0) > 0;
        rc = 0;
    }
    fleetrows_close(r);
    buf_release(&sql);
    return rc;
}

int fleetdb_begin(struct fleetdb *db, const struct fleet_unit *u, bool *there, opm_error *err)
{
    int rc;

    *there = false;
    if (db->click)
        return clickhouse_begin(db->click, u, err);
    db->unit = *u;
    if (!system_random(&db->batch, sizeof(db->batch)))
        return opm__fail(err, OPM_EIO, "no random numbers: %s", strerror(errno));
    db->batch &= INT64_MAX;
    rc = dbfile_begin(db->file, err);
    return rc == 0 ? fleetdb_has(db, u, there, err) : rc;
}

static void bind(struct dbquery *q, enum rollup_type type, const struct rollup_cell *c)
{
    switch (type) {
    case ROLLUP_STR:
        dbquery_text(q, c->text ? c->text : "");
        break;
    case ROLLUP_F64:
        dbquery_real(q, isfinite(c->f) ? c->f : (double)NAN);
        break;
    case ROLLUP_I64:
        if (c->i == FLEETDB_NONE) {
            dbquery_text(q, NULL);
            break;
        }
        /* fall through */
    default:
        dbquery_int(q, c->i);
    }
}

static int open_insert(struct fleetdb *db, enum rollup_id table, opm_error *err)
{
    struct buf sql = { 0 };
    int rc;

    buf_addf(&sql, "INSERT INTO %s VALUES (?", rollups[table].name);
    for (int c = 1; c < rollups[table].ncol; c++)
        buf_adds(&sql, ", ?");
    buf_addc(&sql, ')');
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : dbquery_open(db->file, buf_str(&sql), &db->insert[table], err);
    buf_release(&sql);
    return rc;
}

int fleetdb_put(struct fleetdb *db, enum rollup_id table, struct rollup_cell *cells, opm_error *err)
{
    const struct rollup_def *def = &rollups[table];
    int rc = 0;

    if (db->click)
        return clickhouse_put(db->click, table, cells, err);
    if (!db->insert[table])
        rc = open_insert(db, table, err);
    if (rc < 0)
        return rc;
    cells[0].text = db->unit.job;
    cells[1].i = db->unit.rank;
    cells[2].i = db->batch;
    for (int c = 0; c < def->ncol; c++)
        bind(db->insert[table], def->col[c].type, &cells[c]);
    return dbquery_next(db->insert[table], err);
}

static int put_batch(struct fleetdb *db, const char *unit, int64_t now_ns, opm_error *err)
{
    const struct fleet_unit *u = &db->unit;
    struct dbquery *q = NULL;
    int rc = dbquery_open(db->file, insert_batch, &q, err);

    if (rc == 0) {
        dbquery_text(q, u->job);
        dbquery_int(q, u->rank);
        dbquery_text(q, u->run);
        dbquery_text(q, unit);
        dbquery_int(q, db->batch);
        dbquery_int(q, now_ns);
        rc = dbquery_next(q, err);
    }
    dbquery_close(q);
    return rc;
}

int fleetdb_commit(struct fleetdb *db, int64_t now_ns, opm_error *err)
{
    int rc;

    if (db->click)
        return clickhouse_commit(db->click, now_ns, err);
    finish_inserts(db);
    rc = put_batch(db, db->unit.unit, now_ns, err);
    if (rc == 0 && db->unit.unit[0] == '\0')
        rc = put_batch(db, FLEETDB_SUMS, now_ns, err);
    return rc == 0 ? dbfile_commit(db->file, err) : rc;
}

void fleetdb_rollback(struct fleetdb *db)
{
    if (db->click) {
        clickhouse_rollback(db->click);
    } else {
        finish_inserts(db);
        dbfile_rollback(db->file);
    }
}

/* -- asking -- */

typedef int open_fn(struct dbfile *f, const char *sql, struct dbquery **out, opm_error *err);

static int query(struct fleetdb *db, const char *sql, open_fn *open, struct fleetrows **out,
                 opm_error *err)
{
    struct fleetrows *r = mem_calloc(1, sizeof(*r));
    int rc = r ? 0 : opm__fail(err, OPM_ENOMEM, "out of memory");

    if (rc == 0 && db->click)
        rc = clickhouse_query(db->click, sql, &r->c, err);
    else if (rc == 0)
        rc = open(db->file, sql, &r->q, err);
    if (rc == 0 && r->q && !dbquery_reads(r->q))
        rc = opm__fail(err, OPM_EINVAL, "only statements that read can be run: SELECT ...");
    if (rc < 0)
        fleetrows_close(r);
    else
        *out = r;
    return rc;
}

int fleetdb_query(struct fleetdb *db, const char *sql, struct fleetrows **out, opm_error *err)
{
    return query(db, sql, dbquery_open, out, err);
}

int fleetdb_query_of_user(struct fleetdb *db, const char *sql, struct fleetrows **out,
                          opm_error *err)
{
    return query(db, sql, dbquery_open_of_user, out, err);
}

int fleetrows_next(struct fleetrows *r, opm_error *err)
{
    return r->c ? clickrows_next(r->c, err) : dbquery_next(r->q, err);
}

int fleetrows_columns(const struct fleetrows *r)
{
    return r->c ? clickrows_columns(r->c) : dbquery_columns(r->q);
}

const char *fleetrows_name(const struct fleetrows *r, int col)
{
    return r->c ? clickrows_name(r->c, col) : dbquery_name(r->q, col);
}

enum opm_type fleetrows_type(const struct fleetrows *r, int col)
{
    static const enum opm_type types[] = { [DBCELL_NULL] = OPM_TYPE_NULL,
                                           [DBCELL_INT] = OPM_TYPE_INT,
                                           [DBCELL_REAL] = OPM_TYPE_REAL,
                                           [DBCELL_TEXT] = OPM_TYPE_TEXT,
                                           [DBCELL_BYTES] = OPM_TYPE_NULL };

    return r->c ? clickrows_type(r->c, col) : types[dbquery_type(r->q, col)];
}

int64_t fleetrows_int(const struct fleetrows *r, int col)
{
    double real;

    if (r->q && dbquery_type(r->q, col) == DBCELL_INT)
        return dbquery_get_int(r->q, col, FLEETDB_NONE);
    if (r->c && clickrows_type(r->c, col) == OPM_TYPE_INT)
        return strtoll(clickrows_text(r->c, col, NULL), NULL, 10);
    real = fleetrows_real(r, col);
    return fabs(real) < 9e18 ? (int64_t)real : FLEETDB_NONE;
}

int64_t fleetrows_size(const struct fleetrows *r, int col)
{
    return MIN(MAX(fleetrows_int(r, col), 0), FLEETDB_SIZE_MAX);
}

double fleetrows_real(const struct fleetrows *r, int col)
{
    enum opm_type type = fleetrows_type(r, col);

    if (r->q)
        return dbquery_get_real(r->q, col);
    return type == OPM_TYPE_INT || type == OPM_TYPE_REAL
               ? strtod(clickrows_text(r->c, col, NULL), NULL)
               : (double)NAN;
}

const char *fleetrows_text(struct fleetrows *r, int col, size_t *len)
{
    const char *text = NULL;

    if (r->c)
        return clickrows_text(r->c, col, len);
    switch (dbquery_type(r->q, col)) {
    case DBCELL_INT:
        snprintf(r->number, sizeof(r->number), "%lld", (long long)dbquery_get_int(r->q, col, 0));
        text = r->number;
        break;
    case DBCELL_REAL:
        snprintf(r->number, sizeof(r->number), "%.17g", dbquery_get_real(r->q, col));
        text = r->number;
        break;
    case DBCELL_TEXT:
        text = dbquery_get_text(r->q, col);
        break;
    default:
        break;
    }
    if (len)
        *len = text ? strlen(text) : 0;
    return text;
}

void fleetrows_close(struct fleetrows *r)
{
    if (!r)
        return;
    dbquery_close(r->q);
    clickrows_close(r->c);
    mem_free(r);
}

bool fleetdb_answers_whole(const struct fleetdb *db)
{
    return db->click != NULL;
}

void fleetdb_quote(const struct fleetdb *db, struct buf *sql, const char *text)
{
    if (db->click) {
        clickhouse_quote(sql, text);
        return;
    }
    buf_addc(sql, '\'');
    for (; *text; text++) {
        if (*text == '\'')
            buf_addc(sql, '\'');
        buf_addc(sql, *text);
    }
    buf_addc(sql, '\'');
}
