/* sql.h -- SQL over a frozen store: its tables, the analyses, views and table `schema`.
 *
 * Only reading is possible. A handle and its rows belong to one thread at a time; sql_interrupt()
 * alone may be called from anywhere. SQLite stays behind this header. */
#ifndef SQL_SQL_H
#define SQL_SQL_H

#include "store/store.h"

struct sql;
struct sql_rows;

/* st stays the caller's and must outlive the handle; names of the schema go into its string pool.
 */
int sql_open(struct sql **out, struct store *st, opm_error *err);
void sql_close(struct sql *q); /* NULL is fine; all rows must be closed */

/* Prepare one statement. Close with sql_rows_close(). */
int sql_query(struct sql *q, const char *text, struct sql_rows **out, opm_error *err);
/* 1: a row, 0: the end, < 0: failure; the last two for good. */
int sql_rows_next(struct sql_rows *r, opm_error *err);
void sql_rows_close(struct sql_rows *r); /* NULL is fine */

/* A column out of range is NULL. */
enum sql_type { SQL_NULL, SQL_INT, SQL_REAL, SQL_TEXT };
int sql_rows_columns(const struct sql_rows *r);
const char *sql_rows_name(const struct sql_rows *r, int col);
enum sql_type sql_rows_type(const struct sql_rows *r, int col);
/* The type that the column it is taken from was declared with; SQL_NULL for expressions. */
enum sql_type sql_rows_declared(const struct sql_rows *r, int col);
int64_t sql_rows_int(const struct sql_rows *r, int col);
double sql_rows_real(const struct sql_rows *r, int col);
const char *sql_rows_text(const struct sql_rows *r, int col, size_t *out_len);

/* Make the queries that run now fail with OPM_ELIMIT. Async-signal-safe. */
void sql_interrupt(struct sql *q);
/* Fail queries after about this many steps of SQLite's machine, 0: never. For fuzzing. */
void sql_limit_steps(struct sql *q, uint64_t steps);
/* Fail queries that make SQLite take this much more than it had; 1 GiB unless set. */
void sql_limit_memory(struct sql *q, int64_t bytes);
/* Fail queries whose temporary files take more; OPMETER_MAX_TEMP, else 16 GiB unless set. */
void sql_limit_temp(struct sql *q, int64_t bytes);

#endif
