/* dbfile.h -- a database file of ours: opened, locked, and read as if an enemy had written it.
 *
 * Files carry a mark and a version of their tables (SQLite's application_id and user_version), so
 * that another program's database is never written to, and a newer one not misread. Several
 * processes may write at once: each waits for the others, and what one did not finish, because it
 * was killed or the disk is full, never happened. Triggers and views of a file are not run.
 *
 * A handle and its statements belong to one thread at a time. SQLite stays behind this header. */
#ifndef SQL_DBFILE_H
#define SQL_DBFILE_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct dbfile;
struct dbquery;

struct dbfile_kind {
    uint32_t mark;
    int version;        /* of the tables */
    const char *what;   /* "a catalogue of runs", for messages */
    const char *schema; /* statements that make the tables of version 1 in an empty file */
    /* upgrade[i] makes version i + 2 of version i + 1; version - 1 of them. */
    const char *const *upgrade;
};

enum dbfile_use {
    DBFILE_READ,
    DBFILE_WRITE,  /* it must be there */
    DBFILE_CREATE, /* made if it is not */
};

/* Does the file begin as one of that kind? Whatever its version. */
bool dbfile_is(const char *path, const struct dbfile_kind *kind);
/* Close with dbfile_close(). Failures name the file and say in one line what is wrong: OPM_EIO,
 * OPM_EFORMAT (it is no such file, is damaged or newer), OPM_EBUSY (others write to it all the
 * time), OPM_ENOMEM. */
int dbfile_open(struct dbfile **out, const char *path, const struct dbfile_kind *kind,
                enum dbfile_use use, opm_error *err);
void dbfile_close(struct dbfile *f); /* NULL is fine; queries are closed before */

int dbfile_version(
    const struct dbfile *f); /* of its tables: kind->version, or less if it is read */
const char *dbfile_path(const struct dbfile *f);

/* From dbfile_begin() to dbfile_commit() no other process writes; dbfile_rollback(), which may
 * follow any failure, undoes it all. */
int dbfile_begin(struct dbfile *f, opm_error *err);
int dbfile_commit(struct dbfile *f, opm_error *err);
void dbfile_rollback(struct dbfile *f);

/* One statement; '?' stand for values, given from left to right. Close with dbquery_close(). */
int dbquery_open(struct dbfile *f, const char *sql, struct dbquery **out, opm_error *err);
/* Likewise, of SQL that is not ours: what is wrong is the statement, not the file. */
int dbquery_open_of_user(struct dbfile *f, const char *sql, struct dbquery **out, opm_error *err);
void dbquery_int(struct dbquery *q, int64_t v);
void dbquery_real(struct dbquery *q, double v);         /* NAN: NULL */
void dbquery_text(struct dbquery *q, const char *text); /* copied; NULL: NULL */
void dbquery_bytes(struct dbquery *q, const void *bytes, size_t len);
/* 1: a row, 0: it is done, < 0: failure. After 0 the query begins anew, with values to be given. */
int dbquery_next(struct dbquery *q, opm_error *err);
void dbquery_close(struct dbquery *q); /* NULL is fine */
/* Does it only read? One that a user wrote had better. */
bool dbquery_reads(const struct dbquery *q);

enum dbcell { DBCELL_NULL, DBCELL_INT, DBCELL_REAL, DBCELL_TEXT, DBCELL_BYTES };
int dbquery_columns(const struct dbquery *q);
const char *dbquery_name(const struct dbquery *q, int col);
enum dbcell dbquery_type(const struct dbquery *q, int col); /* of the cell of the row */

/* Cells of the row, whatever they are: what is of another type is as good as not there. Pointers
 * are valid until the next dbquery_next(). */
int64_t dbquery_get_int(const struct dbquery *q, int col, int64_t otherwise);
double dbquery_get_real(const struct dbquery *q, int col);                    /* NAN: not there */
const char *dbquery_get_text(const struct dbquery *q, int col);               /* NULL: not there */
const void *dbquery_get_bytes(const struct dbquery *q, int col, size_t *len); /* likewise */

#endif
