/* kind.c -- see kind.h: the tables of runs.def and rollups.def as SQLite declares them.
 *
 * Questions are of all ranks of a job, so rollups have an index by job alone: what it finds is read
 * in the order that it lies in, where one by name or step would jump for each row. Collectives and
 * steps are gone through a stretch of steps after the other, and have an index for that, too. */
#include "catalog/kind.h"

static const char schema[] =
#define SQLTYPE_I64 "INTEGER"
#define SQLTYPE_F64 "REAL"
#define SQLTYPE_STR "TEXT"
#define SQLTYPE_BYTES "BLOB"
#define TABLE(table, doc) "CREATE TABLE " #table " ("
#define COL(table, column, type, doc) "\"" #column "\" " SQLTYPE_##type ", "
#define END(table, key) "PRIMARY KEY (" key ")) STRICT;"
#include "catalog/runs.def"
#undef SQLTYPE_I64
#undef SQLTYPE_F64
#undef SQLTYPE_STR
#undef SQLTYPE_BYTES
#undef TABLE
#undef COL
#undef END
    "CREATE INDEX run_began ON run (began_ns);";

static const char rollup_tables[] =
#define SQLTYPE_STR "TEXT NOT NULL"
#define SQLTYPE_INT "INTEGER NOT NULL"
#define SQLTYPE_I64 "INTEGER"
#define SQLTYPE_F64 "REAL"
#define TABLE(table, doc) "CREATE TABLE IF NOT EXISTS " #table " ("
#define COL(table, column, type, doc) "\"" #column "\" " SQLTYPE_##type ", "
#define END(table, order) "CHECK (1)) STRICT;"
#include "store/rollups.def"
#undef SQLTYPE_STR
#undef SQLTYPE_INT
#undef SQLTYPE_I64
#undef SQLTYPE_F64
#undef TABLE
#undef COL
#undef END
    "";

/* Of two indexes that do as well SQLite takes the younger one. */
static const char rollup_rest[] =
    "CREATE INDEX IF NOT EXISTS rank_exchange_num ON rank_exchange (job, num);"
    "CREATE INDEX IF NOT EXISTS rank_step_num ON rank_step (job, num);"
#define TABLE(table, doc) "CREATE INDEX IF NOT EXISTS " #table "_job ON " #table " (job);"
#define COL(table, column, type, doc)
#define END(table, order)
#include "store/rollups.def"
#undef TABLE
#undef COL
#undef END
    "CREATE TABLE IF NOT EXISTS rank_batch (job TEXT NOT NULL, rank INTEGER NOT NULL,"
    " run TEXT NOT NULL, unit TEXT NOT NULL, batch INTEGER NOT NULL, added_ns INTEGER NOT NULL,"
    " PRIMARY KEY (job, rank, run, unit)) STRICT";

/* Version 2 had all of these but rank_op_sum: what came later is made where it is missing. */
static const char *const upgrades[CATALOG_VERSION - 1] = { rollup_tables, rollup_tables,
                                                           rollup_rest };

const struct dbfile_kind catalog_kind = { 0x6f706d72, CATALOG_VERSION, "a catalogue of runs",
                                          schema, upgrades };
