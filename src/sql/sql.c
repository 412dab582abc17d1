/* sql.c -- see sql.h. */
#include "sql/sql.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/error.h"
#include "sql/columns.h"
#include "sql/costly.h"
#include "sql/expansion.h"
#include "sql/explain.h"
#include "sql/functions.h"
#include "sql/regexp.h"
#include "sql/schema.h"
#include "sql/tempfiles.h"
#include "sql/vtab.h"
#include <ctype.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#define NSOURCE (TABLE_COUNT + ANALYSIS_COUNT + 1)
/* How often SQLite asks whether to go on; some microseconds of work, and values in memory. */
#define PROGRESS_STEPS 200
#define MEMORY_MAX_BYTES ((int64_t)1 << 30)
#define VALUE_MAX_BYTES (16 << 20)
#define ARGS_MAX 64 /* of a function: those of JSON look through a whole text for each */

struct sql {
    sqlite3 *db;
    struct source source[NSOURCE];
    atomic_bool stop;
    uint64_t steps_max; /* 0: no limit */
    uint64_t steps;     /* of the present query */
    int64_t memory;     /* of SQLite when it began */
    int64_t memory_max; /* that it may take besides */
    bool greedy;        /* it took more */
    struct tempfiles temp;
    char refused[120]; /* why the authorizer said no; empty if it did not */
};

struct sql_rows {
    struct sql *q;
    sqlite3_stmt *stmt;
    char *text;
    int status; /* 1 while there may be rows, then what sql_rows_next() returned last */
};

static int progress(void *user)
{
    struct sql *q = user;

    q->steps += PROGRESS_STEPS;
    if (q->steps_max && q->steps > q->steps_max)
        return 1;
    q->greedy |= sqlite3_memory_used() - q->memory > q->memory_max;
    return q->greedy || atomic_load_explicit(&q->stop, memory_order_relaxed);
}

/* Pragmas that only tell something about the tables. */
static bool pragma_is_harmless(const char *name)
{
    static const char *const harmless[] = { "table_info", "table_xinfo", "table_list",
                                            "function_list", "compile_options" };

    for (size_t i = 0; name && i < ARRAY_SIZE(harmless); i++)
        if (strcasecmp(name, harmless[i]) == 0)
            return true;
    return false;
}

/* Words for what a statement tried; the codes are SQLite's, from its header. */
static const char *action_name(int action)
{
    switch (action) {
    case SQLITE_INSERT:
        return "INSERT";
    case SQLITE_UPDATE:
        return "UPDATE";
    case SQLITE_DELETE:
        return "DELETE";
    case SQLITE_TRANSACTION:
        return "transactions";
    case SQLITE_SAVEPOINT:
        return "SAVEPOINT";
    case SQLITE_ATTACH:
        return "ATTACH";
    case SQLITE_DETACH:
        return "DETACH";
    case SQLITE_PRAGMA:
        return "PRAGMA";
    case SQLITE_ANALYZE:
        return "ANALYZE";
    case SQLITE_REINDEX:
        return "REINDEX";
    case SQLITE_ALTER_TABLE:
        return "ALTER TABLE";
    case SQLITE_FUNCTION:
        return "function";
    case SQLITE_CREATE_INDEX:
    case SQLITE_CREATE_TABLE:
    case SQLITE_CREATE_TEMP_INDEX:
    case SQLITE_CREATE_TEMP_TABLE:
    case SQLITE_CREATE_TEMP_TRIGGER:
    case SQLITE_CREATE_TEMP_VIEW:
    case SQLITE_CREATE_TRIGGER:
    case SQLITE_CREATE_VIEW:
    case SQLITE_CREATE_VTABLE:
        return "CREATE";
    case SQLITE_DROP_INDEX:
    case SQLITE_DROP_TABLE:
    case SQLITE_DROP_TEMP_INDEX:
    case SQLITE_DROP_TEMP_TABLE:
    case SQLITE_DROP_TEMP_TRIGGER:
    case SQLITE_DROP_TEMP_VIEW:
    case SQLITE_DROP_TRIGGER:
    case SQLITE_DROP_VIEW:
    case SQLITE_DROP_VTABLE:
        return "DROP";
    default:
        return "this statement";
    }
}

static int authorize(void *user, int action, const char *a, const char *b, const char *db,
                     const char *trigger)
{
    struct sql *q = user;
    const char *detail = NULL;

    (void)db;
    (void)trigger;
    switch (action) {
    case SQLITE_SELECT:
    case SQLITE_READ:
    case SQLITE_RECURSIVE:
        return SQLITE_OK;
    case SQLITE_INSERT:
    case SQLITE_UPDATE:
    case SQLITE_DELETE:
        /* SQLite's own bookkeeping, also when json_each() is first used. A user can't get there:
         * the database is defensive, and what creates or drops is refused for itself. */
        if (a && strncmp(a, "sqlite_", 7) == 0)
            return SQLITE_OK;
        break;
    case SQLITE_FUNCTION:
        if (strcasecmp(b, "json_patch") == 0) {
            snprintf(
                q->refused, sizeof(q->refused),
                "json_patch() is not offered: its time grows with the square of its arguments");
            return SQLITE_DENY;
        }
        if (strcasecmp(b, "load_extension") != 0)
            return SQLITE_OK;
        detail = b;
        break;
    case SQLITE_PRAGMA:
        if (pragma_is_harmless(a))
            return SQLITE_OK;
        detail = a;
        break;
    default:
        break;
    }
    if (!q->refused[0]) /* the first of several is what the user wrote */
        snprintf(q->refused, sizeof(q->refused), "only reading is allowed: %s%s%.50s",
                 action_name(action), detail ? " " : "", detail ? detail : "");
    return SQLITE_DENY;
}

static int translate(int rc)
{
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return OPM_ENOMEM;
    case SQLITE_INTERRUPT:
    case SQLITE_TOOBIG:
        return OPM_ELIMIT;
    case SQLITE_IOERR:
    case SQLITE_FULL: /* no room for the temporary file of a large sort */
        return OPM_EIO;
    default:
        return OPM_EINVAL;
    }
}

static int fail(struct sql *q, int rc, const char *text, opm_error *err)
{
    int code = translate(rc);

    if (q->refused[0])
        return opm__fail(err, OPM_EINVAL, "%s", q->refused);
    if (q->temp.full)
        return tempfiles_fail(&q->temp, err);
    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return opm__fail(err, code, "out of memory");
    case SQLITE_INTERRUPT:
        return q->greedy ? opm__fail(err, code, "the query needs more than %lld MiB of memory",
                                     (long long)(q->memory_max >> 20))
                         : opm__fail(err, code, "interrupted");
    default:
        return explain_failure(err, code, sqlite3_errmsg(q->db), text);
    }
}

static int register_sources(struct sql *q, struct store *st)
{
    struct source *s = q->source;
    int rc = 0;

    for (int i = 0; i < TABLE_COUNT && rc == 0; i++)
        rc = source_init(s++, SOURCE_TABLE, i, &store_table_defs[i], st);
    for (int i = 0; i < ANALYSIS_COUNT && rc == 0; i++)
        rc = source_init(s++, SOURCE_ANALYSIS, i, analyses[i].def, st);
    if (rc == 0)
        rc = source_init(s, SOURCE_SCHEMA, 0, &schema_def, st);
    if (rc == 0)
        rc = table_init(&s->own, &schema_def);
    if (rc == 0)
        rc = schema_fill(&s->own, st);
    if (rc < 0)
        return rc;
    s->nrow = s->own.nrow;
    s->ready = true;
    for (size_t i = 0; i < NSOURCE; i++)
        if (vtab_register(q->db, &q->source[i]) != SQLITE_OK)
            return OPM_ENOMEM;
    return 0;
}

static int create_views(sqlite3 *db)
{
    int rc = SQLITE_OK;

    for (const struct view *v = views; v->def && rc == SQLITE_OK; v++) {
        char *made = v->sql ? NULL : v->make();
        const char *select = v->sql ? v->sql : made;
        char *sql =
            select ? sqlite3_mprintf("CREATE VIEW \"%w\" AS %s", v->def->name, select) : NULL;

        sqlite3_free(made);
        rc = sql ? sqlite3_exec(db, sql, NULL, NULL, NULL) : SQLITE_NOMEM;
        sqlite3_free(sql);
    }
    return rc;
}

/* No statement may take the process down with it. */
static void set_limits(struct sql *q)
{
    static const struct {
        int id;
        int value;
    } limits[] = {
        { SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES },   { SQLITE_LIMIT_SQL_LENGTH, 1 << 20 },
        { SQLITE_LIMIT_FUNCTION_ARG, ARGS_MAX },    { SQLITE_LIMIT_EXPR_DEPTH, 200 },
        { SQLITE_LIMIT_COMPOUND_SELECT, 100 },      { SQLITE_LIMIT_VDBE_OP, 1 << 20 },
        { SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 1000 }, { SQLITE_LIMIT_ATTACHED, 0 },
        { SQLITE_LIMIT_TRIGGER_DEPTH, 1 },          { SQLITE_LIMIT_WORKER_THREADS, 0 },
    };

    for (size_t i = 0; i < ARRAY_SIZE(limits); i++)
        sqlite3_limit(q->db, limits[i].id, limits[i].value);
    sqlite3_db_config(q->db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(q->db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    /* "x" is a name; that it also may be text hides misspelt columns. */
    sqlite3_db_config(q->db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_progress_handler(q->db, PROGRESS_STEPS, progress, q);
    sqlite3_set_authorizer(q->db, authorize, q);
}

/* SQLite connects a table when a statement first names it, and asks the authorizer about the
 * declaration then: have that done before there is one. */
static int connect_sources(struct sql *q)
{
    int rc = SQLITE_OK;

    for (size_t i = 0; i < NSOURCE && rc == SQLITE_OK; i++) {
        char text[128];
        sqlite3_stmt *stmt = NULL;

        snprintf(text, sizeof(text), "SELECT 1 FROM \"%s\"", q->source[i].def->name);
        rc = sqlite3_prepare_v2(q->db, text, -1, &stmt, NULL);
        sqlite3_finalize(stmt);
    }
    return rc;
}

int sql_open(struct sql **out, struct store *st, opm_error *err)
{
    struct sql *q = mem_calloc(1, sizeof(*q));
    int rc = OPM_ENOMEM, sqlite_rc;

    if (!q)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    q->memory_max = MEMORY_MAX_BYTES;
    rc = tempfiles_init(&q->temp, err);
    if (rc < 0) {
        mem_free(q);
        return rc;
    }
    rc = OPM_ENOMEM;
    sqlite_rc = sqlite3_open_v2(":memory:", &q->db,
                                SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_MEMORY |
                                    SQLITE_OPEN_NOMUTEX,
                                q->temp.name);
    if (sqlite_rc != SQLITE_OK)
        goto out;
    if (analysis_intern_words(st) < 0 || register_sources(q, st) < 0)
        goto out;
    if (functions_register(q->db) != SQLITE_OK || regexp_register(q->db, &q->stop) != SQLITE_OK ||
        costly_register(q->db, &q->stop) != SQLITE_OK)
        goto out;
    sqlite_rc = create_views(q->db);
    if (sqlite_rc == SQLITE_OK)
        sqlite_rc = connect_sources(q);
    if (sqlite_rc != SQLITE_OK)
        goto out;
    /* SQLite would ask the environment where to put what does not fit into memory. */
    if (environment_privileged())
        sqlite3_exec(q->db, "PRAGMA temp_store = MEMORY", NULL, NULL, NULL);
    set_limits(q);
    rc = 0;
out:
    if (rc == 0) {
        *out = q;
        return 0;
    }
    if (sqlite_rc != SQLITE_OK && translate(sqlite_rc) != OPM_ENOMEM)
        rc = opm__fail(err, translate(sqlite_rc), "SQLite: %s", sqlite3_errstr(sqlite_rc));
    else
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    sql_close(q);
    return rc;
}

void sql_close(struct sql *q)
{
    if (!q)
        return;
    sqlite3_close(q->db);
    tempfiles_release(&q->temp);
    for (size_t i = 0; i < NSOURCE; i++)
        source_release(&q->source[i]);
    mem_free(q);
}

/* Past white space, comments and empty statements. */
static const char *skip_blank(const char *p)
{
    for (;;) {
        if (*p && strchr(" \t\r\n\f;", *p)) {
            p++;
        } else if (p[0] == '-' && p[1] == '-') {
            p += strcspn(p, "\n");
        } else if (p[0] == '/' && p[1] == '*') {
            const char *end = strstr(p + 2, "*/");

            p = end ? end + 2 : p + strlen(p);
        } else {
            return p;
        }
    }
}

/* The word that the statement starts with, if it is one that does not read; else NULL. SQLite asks
 * the authorizer too, but not about all of them, and some fail for other reasons before. */
static const char *refused_word(const char *start)
{
    static const char *const words[] = { "ALTER",     "ANALYZE", "ATTACH",  "BEGIN",   "COMMIT",
                                         "CREATE",    "DELETE",  "DETACH",  "DROP",    "END",
                                         "INSERT",    "REINDEX", "RELEASE", "REPLACE", "ROLLBACK",
                                         "SAVEPOINT", "UPDATE",  "VACUUM" };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
        size_t len = strlen(words[i]);

        if (strncasecmp(start, words[i], len) == 0 && !isalnum((unsigned char)start[len]) &&
            start[len] != '_')
            return words[i];
    }
    return NULL;
}

int sql_query(struct sql *q, const char *text, struct sql_rows **out, opm_error *err)
{
    const char *start = skip_blank(text), *tail = NULL;
    struct sql_rows *r = NULL;
    sqlite3_stmt *stmt = NULL;
    int rc;

    if (!*start)
        return opm__fail(err, OPM_EINVAL, "the SQL statement is empty");
    if (refused_word(start))
        return opm__fail(err, OPM_EINVAL, "only reading is allowed: %s", refused_word(start));
    if (expansion_is_huge(start))
        return opm__fail(err, OPM_ELIMIT,
                         "the tables of WITH name one another too often: written out they are over "
                         "%d queries",
                         EXPANSION_MAX);
    q->refused[0] = '\0';
    q->steps = 0;
    q->memory = sqlite3_memory_used();
    q->greedy = false;
    q->temp.full = false;
    for (size_t i = 0; i < NSOURCE; i++)
        q->source[i].collates = strcasestr(start, "collate") != NULL;
    atomic_store_explicit(&q->stop, false, memory_order_relaxed);
    rc = sqlite3_prepare_v2(q->db, start, -1, &stmt, &tail);
    if (rc != SQLITE_OK)
        return fail(q, rc, text, err);
    if (*skip_blank(tail)) {
        rc = opm__fail(err, OPM_EINVAL, "one statement at a time");
        goto out;
    }
    if (!sqlite3_stmt_readonly(stmt)) { /* no statement is known that gets here */
        rc = opm__fail(err, OPM_EINVAL, "only reading is allowed");
        goto out;
    }
    r = mem_calloc(1, sizeof(*r));
    if (r)
        r->text = mem_strdup(text);
    if (!r || !r->text) {
        mem_free(r);
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
        goto out;
    }
    r->q = q;
    r->stmt = stmt;
    r->status = 1;
    *out = r;
    return 0;
out:
    sqlite3_finalize(stmt);
    return rc;
}

int sql_rows_next(struct sql_rows *r, opm_error *err)
{
    int rc;

    if (r->status < 0)
        return opm__fail(err, r->status, "the query has failed already");
    if (r->status == 0)
        return 0;
    rc = sqlite3_step(r->stmt);
    if (rc == SQLITE_ROW)
        return 1;
    r->status = rc == SQLITE_DONE ? 0 : fail(r->q, rc, r->text, err);
    return r->status;
}

void sql_rows_close(struct sql_rows *r)
{
    if (!r)
        return;
    sqlite3_finalize(r->stmt);
    mem_free(r->text);
    mem_free(r);
}

int sql_rows_columns(const struct sql_rows *r)
{
    return sqlite3_column_count(r->stmt);
}

const char *sql_rows_name(const struct sql_rows *r, int col)
{
    return sqlite3_column_name(r->stmt, col);
}

enum sql_type sql_rows_type(const struct sql_rows *r, int col)
{
    switch (sqlite3_column_type(r->stmt, col)) {
    case SQLITE_INTEGER:
        return SQL_INT;
    case SQLITE_FLOAT:
        return SQL_REAL;
    case SQLITE_NULL:
        return SQL_NULL;
    default:
        return SQL_TEXT; /* blobs are handed out as bytes */
    }
}

enum sql_type sql_rows_declared(const struct sql_rows *r, int col)
{
    const char *type = sqlite3_column_decltype(r->stmt, col);

    if (!type)
        return SQL_NULL;
    return strcasecmp(type, "INTEGER") == 0 ? SQL_INT
           : strcasecmp(type, "REAL") == 0  ? SQL_REAL
                                            : SQL_TEXT;
}

int64_t sql_rows_int(const struct sql_rows *r, int col)
{
    return sqlite3_column_int64(r->stmt, col);
}

double sql_rows_real(const struct sql_rows *r, int col)
{
    return sqlite3_column_double(r->stmt, col);
}

const char *sql_rows_text(const struct sql_rows *r, int col, size_t *out_len)
{
    const char *text = (const char *)sqlite3_column_text(r->stmt, col);

    if (out_len)
        *out_len = text ? (size_t)sqlite3_column_bytes(r->stmt, col) : 0;
    if (!text && sqlite3_column_type(r->stmt, col) == SQLITE_BLOB)
        return ""; /* an empty blob */
    return text;
}

struct source *sql_source(struct sql *q, const char *name, size_t len)
{
    for (size_t i = 0; i < NSOURCE; i++) {
        const char *own = q->source[i].def->name;

        if (strlen(own) == len && strncasecmp(own, name, len) == 0)
            return &q->source[i];
    }
    return NULL;
}

void sql_interrupt(struct sql *q)
{
    atomic_store_explicit(&q->stop, true, memory_order_relaxed);
}

void sql_limit_steps(struct sql *q, uint64_t steps)
{
    q->steps_max = steps;
}

void sql_limit_memory(struct sql *q, int64_t bytes)
{
    q->memory_max = bytes;
}

void sql_limit_temp(struct sql *q, int64_t bytes)
{
    q->temp.max_bytes = bytes;
}
