/* dbfile.c -- see dbfile.h. */
#include "sql/dbfile.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUSY_MS 30000
#define VALUE_MAX_BYTES (16 << 20)
#define HEAD_BYTES 100
#define HEAD_MARK_AT 68 /* where SQLite keeps the application_id, big end first */

struct dbfile {
    sqlite3 *db;
    char *path;
    const struct dbfile_kind *kind;
    bool open; /* a transaction */
    int version;
};

struct dbquery {
    struct dbfile *f;
    sqlite3_stmt *stmt;
    int nbound;
    int failed; /* SQLite's code of a value that could not be taken */
};

/* The first bytes of the file; *len of them. False: it cannot be read. */
static bool read_head(const char *path, uint8_t head[HEAD_BYTES], size_t *len)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    struct stat st;
    ssize_t n = -1;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        n = read(fd, head, HEAD_BYTES);
    close(fd);
    *len = n > 0 ? (size_t)n : 0;
    return n >= 0;
}

bool dbfile_is(const char *path, const struct dbfile_kind *kind)
{
    static const char magic[16] = "SQLite format 3";
    uint8_t head[HEAD_BYTES];
    uint32_t mark = 0;
    size_t len;

    if (!read_head(path, head, &len) || len < HEAD_BYTES || memcmp(head, magic, 16) != 0)
        return false;
    for (int i = 0; i < 4; i++)
        mark = mark << 8 | head[HEAD_MARK_AT + i];
    return mark == kind->mark;
}

/* One line for everything that SQLite can say. */
static int fail(const struct dbfile *f, int rc, opm_error *err)
{
    const char *path = f->path;

    switch (rc & 0xff) {
    case SQLITE_NOMEM:
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
        return opm__fail(err, OPM_EBUSY,
                         "%s: others have been writing to it for %d s; try again, or see whether "
                         "one of them hangs",
                         path, BUSY_MS / 1000);
    case SQLITE_NOTADB:
        return opm__fail(err, OPM_EFORMAT, "%s is no database, so not %s", path, f->kind->what);
    case SQLITE_CORRUPT:
        return opm__fail(err, OPM_EFORMAT,
                         "%s is damaged; 'sqlite3 %s .recover' saves what can be read of it", path,
                         path);
    case SQLITE_FULL:
        return opm__fail(err, OPM_EIO, "%s: no space left on the disk; nothing was changed", path);
    case SQLITE_READONLY:
        if (sqlite3_extended_errcode(f->db) == SQLITE_READONLY_ROLLBACK)
            return opm__fail(err, OPM_EIO,
                             "%s is half-written by a process that was killed, and cannot be put "
                             "right: it or its folder is read-only",
                             path);
        /* fall through */
    case SQLITE_PERM:
    case SQLITE_AUTH:
        return opm__fail(err, OPM_EIO, "%s cannot be written: it or its folder is read-only", path);
    case SQLITE_CANTOPEN:
        return opm__fail(err, OPM_EIO, "%s cannot be opened: %s", path,
                         errno ? strerror(errno) : sqlite3_errmsg(f->db));
    case SQLITE_IOERR:
        return opm__fail(err, OPM_EIO, "%s: reading or writing failed: %s", path,
                         errno ? strerror(errno) : sqlite3_errmsg(f->db));
    case SQLITE_TOOBIG:
        return opm__fail(err, OPM_ELIMIT, "%s: a value is larger than %d MiB", path,
                         VALUE_MAX_BYTES >> 20);
    default:
        return opm__fail(err, OPM_EFORMAT, "%s is not as %s should be: %s", path, f->kind->what,
                         sqlite3_errmsg(f->db));
    }
}

static int execute(struct dbfile *f, const char *sql, opm_error *err)
{
    int rc;

    errno = 0;
    rc = sqlite3_exec(f->db, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? 0 : fail(f, rc, err);
}

static int read_pragma(struct dbfile *f, const char *sql, int64_t *out, opm_error *err)
{
    struct dbquery *q = NULL;
    int rc = dbquery_open(f, sql, &q, err);

    *out = 0;
    if (rc == 0)
        rc = dbquery_next(q, err);
    if (rc == 1) {
        *out = dbquery_get_int(q, 0, 0);
        rc = 0;
    }
    dbquery_close(q);
    return rc;
}

/* The statements from version `from` of the tables to the one that we know. */
static int upgrade(struct dbfile *f, int from, opm_error *err)
{
    struct buf sql = { 0 };
    int rc;

    for (int i = from; i < f->kind->version; i++)
        buf_addf(&sql, "%s;", f->kind->upgrade[i - 1]);
    buf_addf(&sql, "PRAGMA user_version = %d", f->kind->version);
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory") : execute(f, buf_str(&sql), err);
    buf_release(&sql);
    if (rc == 0)
        f->version = f->kind->version;
    return rc;
}

/* Whose file is it? *empty: nobody's yet. Within a transaction: another process may be making the
 * tables. */
static int check_kind(struct dbfile *f, bool *empty, opm_error *err)
{
    int64_t mark, version, tables;
    int rc = read_pragma(f, "PRAGMA application_id", &mark, err);

    if (rc == 0)
        rc = read_pragma(f, "PRAGMA user_version", &version, err);
    if (rc == 0)
        rc = read_pragma(f, "SELECT count(*) FROM sqlite_schema", &tables, err);
    if (rc < 0)
        return rc;
    *empty = tables == 0 && mark == 0;
    if (*empty)
        return 0;
    if ((uint32_t)mark != f->kind->mark)
        return opm__fail(err, OPM_EFORMAT, "%s is another program's database, not %s", f->path,
                         f->kind->what);
    if (version > f->kind->version)
        return opm__fail(err, OPM_EFORMAT,
                         "%s was written by a newer opmeter (version %lld of its tables, this one "
                         "knows %d): use that one",
                         f->path, (long long)version, f->kind->version);
    if (version < 1)
        return opm__fail(err, OPM_EFORMAT, "%s is damaged: it does not say what tables it has",
                         f->path);
    f->version = (int)version;
    return 0;
}

static int look(struct dbfile *f, bool *empty, bool *half_written, opm_error *err)
{
    int rc = execute(f, "BEGIN", err);

    if (rc == 0) {
        rc = check_kind(f, empty, err);
        *half_written = rc < 0 && sqlite3_extended_errcode(f->db) == SQLITE_READONLY_ROLLBACK;
        sqlite3_exec(f->db, "ROLLBACK", NULL, NULL, NULL);
    }
    return rc;
}

static void be_careful(sqlite3 *db)
{
    sqlite3_limit(db, SQLITE_LIMIT_LENGTH, VALUE_MAX_BYTES);
    sqlite3_limit(db, SQLITE_LIMIT_ATTACHED, 0);
    sqlite3_limit(db, SQLITE_LIMIT_WORKER_THREADS, 0);
    sqlite3_db_config(db, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_VIEW, 0, NULL);
    sqlite3_db_config(db, SQLITE_DBCONFIG_ENABLE_LOAD_EXTENSION, 0, NULL);
    /* A column that is missing is no text. */
    sqlite3_db_config(db, SQLITE_DBCONFIG_DQS_DML, 0, NULL);
    sqlite3_busy_timeout(db, BUSY_MS);
}

/* What a process that was killed wrote is taken back, which who only reads cannot do. */
static bool take_back(const struct dbfile *f)
{
    sqlite3 *db;
    bool done = sqlite3_open_v2(f->path, &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL) ==
                SQLITE_OK;

    if (done) {
        be_careful(db);
        done =
            sqlite3_exec(db, "SELECT count(*) FROM sqlite_schema", NULL, NULL, NULL) == SQLITE_OK;
    }
    sqlite3_close(db);
    return done;
}

static int make_tables(struct dbfile *f, opm_error *err)
{
    struct buf sql = { 0 };
    bool empty;
    int rc = dbfile_begin(f, err);

    if (rc < 0)
        return rc;
    rc = check_kind(f, &empty, err); /* another process may have been faster */
    if (rc == 0 && empty) {
        buf_addf(&sql, "%s; PRAGMA application_id = %u", f->kind->schema, (unsigned)f->kind->mark);
        rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                        : execute(f, buf_str(&sql), err);
        buf_release(&sql);
        f->version = 1;
    }
    if (rc == 0 && (empty || f->version < f->kind->version))
        rc = upgrade(f, f->version, err);
    if (rc == 0)
        return dbfile_commit(f, err);
    dbfile_rollback(f);
    return rc;
}

/* SQLite would try again without writing, and say of a folder that is read-only that there is no
 * such file. An empty file is an empty database. */
static bool make_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0644);

    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

int dbfile_open(struct dbfile **out, const char *path, const struct dbfile_kind *kind,
                enum dbfile_use use, opm_error *err)
{
    static const int flags[] = { SQLITE_OPEN_READONLY, SQLITE_OPEN_READWRITE,
                                 SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE };
    struct dbfile *f = mem_calloc(1, sizeof(*f));
    struct stat st;
    bool empty = false, half_written = false;
    int rc;

    if (f)
        f->path = mem_strdup(path);
    if (!f || !f->path) {
        mem_free(f);
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    }
    f->kind = kind;
    if (stat(path, &st) == 0 && !S_ISREG(st.st_mode)) {
        rc = opm__fail(err, OPM_EFORMAT, "%s is no file, so not %s", path, kind->what);
    } else if (use == DBFILE_CREATE && access(path, F_OK) < 0 && !make_file(path)) {
        rc = opm__fail(err, OPM_EIO, "%s cannot be opened: %s", path, strerror(errno));
    } else if (use != DBFILE_CREATE && access(path, R_OK) < 0) {
        rc = opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    } else {
        errno = 0;
        rc = sqlite3_open_v2(path, &f->db, flags[use] | SQLITE_OPEN_NOMUTEX, NULL);
        rc = rc == SQLITE_OK ? 0 : fail(f, rc, err);
    }
    if (rc == 0) {
        be_careful(f->db);
        rc = execute(f, "PRAGMA cell_size_check = 1; PRAGMA temp_store = 2", err);
    }
    if (rc == 0)
        rc = look(f, &empty, &half_written, err);
    if (half_written && take_back(f))
        rc = look(f, &empty, &half_written, err);
    if (rc == 0 && empty && use != DBFILE_CREATE)
        rc = opm__fail(err, OPM_EFORMAT, "%s is empty: not %s", path, kind->what);
    else if (rc == 0 && use != DBFILE_READ && (empty || f->version < kind->version))
        rc = make_tables(f, err);
    if (rc < 0)
        dbfile_close(f);
    else
        *out = f;
    return rc;
}

void dbfile_close(struct dbfile *f)
{
    if (!f)
        return;
    dbfile_rollback(f);
    sqlite3_close(f->db);
    mem_free(f->path);
    mem_free(f);
}

int dbfile_version(const struct dbfile *f)
{
    return f->version;
}

const char *dbfile_path(const struct dbfile *f)
{
    return f->path;
}

int dbfile_begin(struct dbfile *f, opm_error *err)
{
    int rc = execute(f, "BEGIN IMMEDIATE", err);

    f->open = rc == 0;
    return rc;
}

int dbfile_commit(struct dbfile *f, opm_error *err)
{
    int rc = execute(f, "COMMIT", err);

    if (rc == 0)
        f->open = false;
    return rc;
}

void dbfile_rollback(struct dbfile *f)
{
    if (f->open)
        sqlite3_exec(f->db, "ROLLBACK", NULL, NULL, NULL);
    f->open = false;
}

/* -- queries -- */

int dbquery_open_of_user(struct dbfile *f, const char *sql, struct dbquery **out, opm_error *err)
{
    int rc = dbquery_open(f, sql, out, err);

    return rc == OPM_EFORMAT && sqlite3_errcode(f->db) == SQLITE_ERROR
               ? opm__fail(err, OPM_EINVAL, "%s: %s", f->path, sqlite3_errmsg(f->db))
               : rc;
}

int dbquery_open(struct dbfile *f, const char *sql, struct dbquery **out, opm_error *err)
{
    struct dbquery *q = mem_calloc(1, sizeof(*q));
    int rc;

    if (!q)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    q->f = f;
    errno = 0;
    rc = sqlite3_prepare_v2(f->db, sql, -1, &q->stmt, NULL);
    if (rc != SQLITE_OK) {
        mem_free(q);
        return fail(f, rc, err);
    }
    *out = q;
    return 0;
}

static void bound(struct dbquery *q, int rc)
{
    if (rc != SQLITE_OK && !q->failed)
        q->failed = rc;
}

void dbquery_int(struct dbquery *q, int64_t v)
{
    bound(q, sqlite3_bind_int64(q->stmt, ++q->nbound, v));
}

void dbquery_real(struct dbquery *q, double v)
{
    q->nbound++;
    bound(q, isnan(v) ? sqlite3_bind_null(q->stmt, q->nbound)
                      : sqlite3_bind_double(q->stmt, q->nbound, v));
}

void dbquery_text(struct dbquery *q, const char *text)
{
    bound(q, sqlite3_bind_text(q->stmt, ++q->nbound, text, -1, SQLITE_TRANSIENT));
}

void dbquery_bytes(struct dbquery *q, const void *bytes, size_t len)
{
    bound(q, sqlite3_bind_blob64(q->stmt, ++q->nbound, bytes, len, SQLITE_TRANSIENT));
}

int dbquery_next(struct dbquery *q, opm_error *err)
{
    int rc = q->failed;

    errno = 0;
    if (!rc)
        rc = sqlite3_step(q->stmt);
    if (rc == SQLITE_ROW)
        return 1;
    sqlite3_reset(q->stmt);
    sqlite3_clear_bindings(q->stmt);
    q->nbound = 0;
    q->failed = 0;
    return rc == SQLITE_DONE ? 0 : fail(q->f, rc, err);
}

void dbquery_close(struct dbquery *q)
{
    if (!q)
        return;
    sqlite3_finalize(q->stmt);
    mem_free(q);
}

bool dbquery_reads(const struct dbquery *q)
{
    return q->stmt && sqlite3_stmt_readonly(q->stmt);
}

int dbquery_columns(const struct dbquery *q)
{
    return sqlite3_column_count(q->stmt);
}

const char *dbquery_name(const struct dbquery *q, int col)
{
    return sqlite3_column_name(q->stmt, col);
}

enum dbcell dbquery_type(const struct dbquery *q, int col)
{
    switch (sqlite3_column_type(q->stmt, col)) {
    case SQLITE_INTEGER:
        return DBCELL_INT;
    case SQLITE_FLOAT:
        return DBCELL_REAL;
    case SQLITE_TEXT:
        return DBCELL_TEXT;
    case SQLITE_BLOB:
        return DBCELL_BYTES;
    default:
        return DBCELL_NULL;
    }
}

int64_t dbquery_get_int(const struct dbquery *q, int col, int64_t otherwise)
{
    return sqlite3_column_type(q->stmt, col) == SQLITE_INTEGER ? sqlite3_column_int64(q->stmt, col)
                                                               : otherwise;
}

double dbquery_get_real(const struct dbquery *q, int col)
{
    int type = sqlite3_column_type(q->stmt, col);

    return type == SQLITE_FLOAT || type == SQLITE_INTEGER ? sqlite3_column_double(q->stmt, col)
                                                          : (double)NAN;
}

const char *dbquery_get_text(const struct dbquery *q, int col)
{
    return sqlite3_column_type(q->stmt, col) == SQLITE_TEXT
               ? (const char *)sqlite3_column_text(q->stmt, col)
               : NULL;
}

const void *dbquery_get_bytes(const struct dbquery *q, int col, size_t *len)
{
    const void *bytes = NULL;

    *len = 0;
    if (sqlite3_column_type(q->stmt, col) == SQLITE_BLOB) {
        bytes = sqlite3_column_blob(q->stmt, col);
        *len = (size_t)sqlite3_column_bytes(q->stmt, col);
    }
    return bytes;
}
