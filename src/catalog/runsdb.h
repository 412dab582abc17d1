/* runsdb.h -- many runs, each reduced to its figures, in a file of SQLite or in ClickHouse, with
 * any number of writers.
 *
 * What is read from it may have been written by anybody: cells of the wrong type are as good as not
 * there, rows without an id are passed over. */
#ifndef CATALOG_RUNSDB_H
#define CATALOG_RUNSDB_H

#include "base/arena.h"
#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct runsdb;

struct kept_bytes {
    const void *data;
    size_t len;
};

/* struct kept_run, kept_label, kept_fact, kept_op: a row of each table. Texts may be NULL, reals
 * NAN, integers RUNSDB_NONE: not known. */
#define RUNSDB_NONE INT64_MIN
#define KEPT_I64 int64_t
#define KEPT_F64 double
#define KEPT_STR const char *
#define KEPT_BYTES struct kept_bytes
#define TABLE(table, doc) struct kept_##table {
#define COL(table, column, type, doc) KEPT_##type column;
#define END(table, key) \
    }                   \
    ;
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* A run with all that belongs to it. Nothing in it is owned. */
struct kept {
    struct kept_run run;
    const struct kept_label *label;
    size_t nlabel;
    const struct kept_fact *fact;
    size_t nfact;
    const struct kept_op *op;
    size_t nop;
};

enum runsdb_use { RUNSDB_READ, RUNSDB_WRITE, RUNSDB_CREATE };

bool runsdb_is(const char *path); /* by its first bytes */
/* A file, or clickhouse://... (fleetdb.h). */
int runsdb_open(struct runsdb **out, const char *path, enum runsdb_use use, opm_error *err);
void runsdb_close(struct runsdb *db);             /* NULL is fine */
const char *runsdb_name(const struct runsdb *db); /* for messages, without a password */

/* In a file: from begin to commit no other process writes; without a commit nothing happened.
 * ClickHouse has each change at once. */
int runsdb_begin(struct runsdb *db, opm_error *err);
int runsdb_commit(struct runsdb *db, opm_error *err);

/* Within them: add a run, all of it. *added: false if it is there already, and stays as it is. */
int runsdb_add(struct runsdb *db, const struct kept *k, bool *added, opm_error *err);
int runsdb_remove(struct runsdb *db, const char *id, opm_error *err);
int runsdb_accept(struct runsdb *db, const char *id, int64_t now_ns, opm_error *err);

/* Every row of a table, in no order; nonzero of each() ends it and is returned. The row and its
 * texts are valid during the call. */
#define TABLE(table, doc)                                                                        \
    int runsdb_each_##table(struct runsdb *db,                                                   \
                            int (*each)(void *user, const struct kept_##table *row), void *user, \
                            opm_error *err);
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

/* Add all runs of `from` that are wanted to `to`. */
int runsdb_copy(struct runsdb *from, struct runsdb *to, bool (*wanted)(void *user, const char *id),
                void *user, opm_error *err);

#endif
