/* clickhouse.h -- rollups and runs in ClickHouse, through its HTTP interface. See fleetdb.h, whose
 * functions these are; libcurl stays behind this header.
 *
 * No statement depends on what versions after 18.16 brought. */
#ifndef CATALOG_CLICKHOUSE_H
#define CATALOG_CLICKHOUSE_H

#include "catalog/click_text.h"
#include "catalog/fleetdb.h"

struct clickhouse;

int clickhouse_open(struct clickhouse **out, const char *url, enum fleetdb_use use, opm_error *err);
void clickhouse_close(struct clickhouse *c);
const char *clickhouse_name(const struct clickhouse *c);

/* Tables of rollups, and those of runs over time (click_runs.h). */
enum click_table {
    CLICK_BEFORE_RUNS = ROLLUP_COUNT - 1,
#define TABLE(table, doc) CLICK_##table,
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END
    CLICK_mark,
    CLICK_COUNT,
};
#define CLICK_RUN_TABLES (CLICK_COUNT - ROLLUP_COUNT)
extern const struct rollup_def click_run_tables[CLICK_RUN_TABLES];

int clickhouse_begin(struct clickhouse *c, const struct fleet_unit *u, opm_error *err);
/* `table` is of enum rollup_id or enum click_table. */
int clickhouse_put(struct clickhouse *c, int table, const struct rollup_cell *cells,
                   opm_error *err);
int clickhouse_commit(struct clickhouse *c, int64_t now_ns, opm_error *err);
void clickhouse_rollback(struct clickhouse *c);

/* All rows at once: who asks for many asks in parts. */
int clickhouse_query(struct clickhouse *c, const char *sql, struct clickrows **out, opm_error *err);
/* A text as its SQL writes it, in quotes. */
void clickhouse_quote(struct buf *sql, const char *text);

#endif
