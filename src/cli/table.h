/* table.h -- rows of a query in the style of every table: units, right-aligned figures, no column
 * without a value.
 *
 * What a column is follows from its name: x_ns and dur are times, ts when something began, share
 * and busy shares, bytes an amount of memory, x/s a speed, count and the like numbers of things;
 * an action a sentence; all else is shown as it is. Where there is no room, secondary statistics
 * are left out. */
#ifndef CLI_TABLE_H
#define CLI_TABLE_H

#include "cli/cli.h"

/* Print at most limit rows (0: all) of what sql gives; with --json or --csv all of them, exactly.
 * *rows: how many there are, limit + 1 if there are more than that; nothing is printed for
 * people if that is 0. NULL: not wanted. CLI_OK, or the exit code after a message. */
int table_print(struct cli *cli, opm_trace *t, const char *sql, int64_t limit, int64_t *rows);
/* The same with names and figures as the query gives them. */
int table_print_plain(struct cli *cli, opm_trace *t, const char *sql, int64_t limit, int64_t *rows);

#endif
