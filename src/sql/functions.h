/* functions.h -- SQL functions that SQLite lacks: percentile(x, p),
 * percentile_nearest(x, p), median(x), stdev(x). */
#ifndef SQL_FUNCTIONS_H
#define SQL_FUNCTIONS_H

struct sqlite3;

/* An SQLite code. */
int functions_register(struct sqlite3 *db);

#endif
