/* costly.h -- SQLite's functions on text that may take far longer than their arguments are long.
 *
 * Written anew so that they end when they are told to: printf() and format(), replace(), instr(),
 * trim() and its like, LIKE and GLOB. Results are those of SQLite, but that
 * printf() of nothing is an empty text, and that a text too long is an error instead of NULL. */
#ifndef SQL_COSTLY_H
#define SQL_COSTLY_H

#include <stdatomic.h>

struct sqlite3;

/* The functions fail with SQLITE_INTERRUPT soon after *stop, which must outlive db, is set. An
 * SQLite code. */
int costly_register(struct sqlite3 *db, const atomic_bool *stop);

#endif
