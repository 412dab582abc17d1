/* fleetdb.h -- rollups of many ranks in a database: a file of SQLite, or ClickHouse.
 *
 * Both have the tables of store/rollups.def and answer the same SQL (docs/fleet.md says which).
 * What is added is a unit: what one recording of a rank gave. It is seen whole or not at all, and
 * once, however often and by however many writers it is added, whatever is killed meanwhile: in a
 * file by its transaction; in ClickHouse, which has none, by rows that bear the number of their
 * insertion and are shown once rank_batch, which is written last, names it.
 *
 * A handle belongs to one thread at a time. */
#ifndef CATALOG_FLEETDB_H
#define CATALOG_FLEETDB_H

#include "base/buf.h"
#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <opmeter/opmeter_trace.h>

#define FLEETDB_NONE INT64_MIN /* an I64 that is not known */

/* The last two are of runs (click_runs.h) and may be NULL. */
enum rollup_type { ROLLUP_STR, ROLLUP_INT, ROLLUP_I64, ROLLUP_F64, ROLLUP_TEXT, ROLLUP_BYTES };

enum rollup_id {
#define TABLE(table, doc) ROLLUP_##table,
#define COL(table, column, type, doc)
#define END(table, order)
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END
    ROLLUP_COUNT,
};

/* struct rank_op_row, ...: a row of each table. Job, rank and batch are filled in by who adds. */
#define ROLLUP_C_STR const char *
#define ROLLUP_C_INT int64_t
#define ROLLUP_C_I64 int64_t
#define ROLLUP_C_F64 double
#define TABLE(table, doc) struct table##_row {
#define COL(table, column, type, doc) ROLLUP_C_##type column;
#define END(table, order) \
    }                     \
    ;
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END

struct rollup_column {
    const char *name;
    enum rollup_type type;
    const char *doc;
};

struct rollup_def {
    const char *name, *doc, *order;
    const struct rollup_column *col;
    int ncol;
};

extern const struct rollup_def rollups[ROLLUP_COUNT];
#define ROLLUP_COLUMNS_MAX 24

/* By the type of the column. */
struct rollup_cell {
    const char *text; /* NULL: '', or NULL where that may be */
    size_t len;       /* of BYTES */
    int64_t i;
    double f;
};

struct fleetdb;

bool fleetdb_is_url(const char *text); /* of ClickHouse */
enum fleetdb_use { FLEETDB_READ, FLEETDB_ADD };
/* `where` is a file, or clickhouse://[user[:password]@]host[:port][,host[:port]...]/database with
 * ?cluster=NAME&tls=1&ca=FILE&timeout=SECONDS. FLEETDB_ADD makes what is not there. Close with
 * fleetdb_close(). Messages name it without a password. */
int fleetdb_open(struct fleetdb **out, const char *where, enum fleetdb_use use, opm_error *err);
void fleetdb_close(struct fleetdb *db); /* NULL is fine */
const char *fleetdb_name(const struct fleetdb *db);
struct left_out *fleetdb_left_out(struct fleetdb *db); /* kept for recordings.h */

/* What is added at once. */
struct fleet_unit {
    const char *job;
    int64_t rank;
    const char *run;  /* digest of the recording */
    const char *unit; /* part of it: "" its rollups, "spans" */
};

/* The unit "" comes with this one, which has the rows of rank_op_sum; older recordings have none.
 */
#define FLEETDB_SUMS "sums"

int fleetdb_has(struct fleetdb *db, const struct fleet_unit *u, bool *has, opm_error *err);
/* *there: another writer has added it meanwhile. */
int fleetdb_begin(struct fleetdb *db, const struct fleet_unit *u, bool *there, opm_error *err);
int fleetdb_put(struct fleetdb *db, enum rollup_id table, struct rollup_cell *cells,
                opm_error *err);
int fleetdb_commit(struct fleetdb *db, int64_t now_ns, opm_error *err);
void fleetdb_rollback(struct fleetdb *db); /* fine if nothing has begun */

/* fleetdb_put_rank_op(db, &row, err), ... */
#define ROLLUP_CELL_STR(v) \
    {                      \
        .text = (v)        \
    }
#define ROLLUP_CELL_INT(v) \
    {                      \
        .i = (v)           \
    }
#define ROLLUP_CELL_I64(v) \
    {                      \
        .i = (v)           \
    }
#define ROLLUP_CELL_F64(v) \
    {                      \
        .f = (v)           \
    }
#define TABLE(table, doc)                                                                    \
    static inline int fleetdb_put_##table(struct fleetdb *db, const struct table##_row *row, \
                                          opm_error *err)                                    \
    {                                                                                        \
        const enum rollup_id fleetdb_id = ROLLUP_##table;                                    \
        struct rollup_cell fleetdb_cells[] = {
#define COL(table, column, type, doc) ROLLUP_CELL_##type(row->column),
#define END(table, order)                                   \
    }                                                       \
    ;                                                       \
    return fleetdb_put(db, fleetdb_id, fleetdb_cells, err); \
    }
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END

/* One statement that reads. Close with fleetrows_close(), before the database. */
struct fleetrows;
int fleetdb_query(struct fleetdb *db, const char *sql, struct fleetrows **out, opm_error *err);
/* Likewise, of SQL that is not ours: a mistake is in it, not in the catalogue. */
int fleetdb_query_of_user(struct fleetdb *db, const char *sql, struct fleetrows **out,
                          opm_error *err);
int fleetrows_next(struct fleetrows *r, opm_error *err); /* 1: a row, 0: the end, < 0: failure */
int fleetrows_columns(const struct fleetrows *r);
const char *fleetrows_name(const struct fleetrows *r, int col);
enum opm_type fleetrows_type(const struct fleetrows *r, int col); /* of the cell */
int64_t fleetrows_int(const struct fleetrows *r, int col);        /* FLEETDB_NONE: no number */
/* A count, a duration or a time since 1970, whatever is there: from 0 to FLEETDB_SIZE_MAX, so that
 * two of them add up and what one is before another fits. */
#define FLEETDB_SIZE_MAX ((INT64_C(1) << 62) - 1)
int64_t fleetrows_size(const struct fleetrows *r, int col);
double fleetrows_real(const struct fleetrows *r, int col); /* NAN: no number */
/* Until the next row; NULL for NULL. */
const char *fleetrows_text(struct fleetrows *r, int col, size_t *len);
void fleetrows_close(struct fleetrows *r); /* NULL is fine */
/* An answer is in memory as a whole: who asks for many rows asks in parts. */
bool fleetdb_answers_whole(const struct fleetdb *db);

/* A text as the database's SQL writes it, in quotes. */
void fleetdb_quote(const struct fleetdb *db, struct buf *sql, const char *text);

#endif
