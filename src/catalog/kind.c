/* kind.c -- see kind.h: the tables of runs.def and rollups.def as SQLite declares them.
 *
 * Questions are of all ranks of a job, so rollups have an index by job alone: what it finds is read
 * in the order that it lies in, where one by name or step would jump for each row. */
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

static const char rollups_schema[] =
#define SQLTYPE_STR "TEXT NOT NULL"
#define SQLTYPE_INT "INTEGER NOT NULL"
#define SQLTYPE_I64 "INTEGER"
#define SQLTYPE_F64 "REAL"
#define TABLE(table, doc) "CREATE TABLE " #table " ("
#define COL(table, column, type, doc) "\"" #column "\" " SQLTYPE_##type ", "
#define END(table, order) "CHECK (1)) STRICT; CREATE INDEX " #table "_job ON " #table " (job);"
#include "store/rollups.def"
#undef SQLTYPE_STR
#undef SQLTYPE_INT
#undef SQLTYPE_I64
#undef SQLTYPE_F64
#undef TABLE
#undef COL
#undef END
    "CREATE TABLE rank_batch (job TEXT NOT NULL, rank INTEGER NOT NULL, run TEXT NOT NULL,"
    " unit TEXT NOT NULL, batch INTEGER NOT NULL, added_ns INTEGER NOT NULL,"
    " PRIMARY KEY (job, rank, run, unit)) STRICT";

static const char *const upgrades[CATALOG_VERSION - 1] = { rollups_schema };

const struct dbfile_kind catalog_kind = { 0x6f706d72, CATALOG_VERSION, "a catalogue of runs",
                                          schema, upgrades };
