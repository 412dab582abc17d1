/* costly_int.h -- what the files behind costly.h share. */
#ifndef SQL_COSTLY_INT_H
#define SQL_COSTLY_INT_H

#include "base/common.h"
#include <sqlite3.h>
#include <stdatomic.h>

/* Whether the query is to end; the function has failed then, whatever its result is. */
bool costly_stopped(sqlite3_context *ctx);
/* text, which is given up, as the result; or why there is none. */
void costly_result(sqlite3_context *ctx, sqlite3_str *text);

void costly_printf(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void costly_like(sqlite3_context *ctx, int argc, sqlite3_value **argv);
void costly_glob(sqlite3_context *ctx, int argc, sqlite3_value **argv);

#endif
