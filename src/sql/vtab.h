/* vtab.h -- the one SQLite module behind every table. */
#ifndef SQL_VTAB_H
#define SQL_VTAB_H

#include "sql/source.h"
#include <sqlite3.h>

/* Make s known to db as a table of its name. s must outlive db. An SQLite code. */
int vtab_register(sqlite3 *db, struct source *s);

#endif
