/* regexp.h -- X REGEXP Y for SQL, with Perl's regular expressions.
 *
 * True if Y matches anywhere in X. Bytes that are not UTF-8 match nothing but do no harm. A pattern
 * that cannot be compiled, or needs absurdly many tries, is an error of the statement. A match that
 * takes long ends soon after *stop is set. */
#ifndef SQL_REGEXP_H
#define SQL_REGEXP_H

#include <stdatomic.h>

struct sqlite3;

/* stop must outlive db. An SQLite code. */
int regexp_register(struct sqlite3 *db, const atomic_bool *stop);

#endif
