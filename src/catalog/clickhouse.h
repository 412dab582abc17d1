/* clickhouse.h -- rollups in ClickHouse, through its HTTP interface. See fleetdb.h, whose functions
 * these are; libcurl stays behind this header.
 *
 * No statement depends on what versions after 18.16 brought. */
#ifndef CATALOG_CLICKHOUSE_H
#define CATALOG_CLICKHOUSE_H

#include "catalog/fleetdb.h"

struct clickhouse;
struct clickrows;

int clickhouse_open(struct clickhouse **out, const char *url, enum fleetdb_use use, opm_error *err);
void clickhouse_close(struct clickhouse *c);
const char *clickhouse_name(const struct clickhouse *c);

int clickhouse_begin(struct clickhouse *c, const struct fleet_unit *u, opm_error *err);
int clickhouse_put(struct clickhouse *c, enum rollup_id table, const struct rollup_cell *cells,
                   opm_error *err);
int clickhouse_commit(struct clickhouse *c, int64_t now_ns, opm_error *err);
void clickhouse_rollback(struct clickhouse *c);

/* All rows at once: who asks for many asks in parts. */
int clickhouse_query(struct clickhouse *c, const char *sql, struct clickrows **out, opm_error *err);
int clickrows_next(struct clickrows *r, opm_error *err);
int clickrows_columns(const struct clickrows *r);
const char *clickrows_name(const struct clickrows *r, int col);
enum opm_type clickrows_type(const struct clickrows *r, int col);
const char *clickrows_text(const struct clickrows *r, int col, size_t *len);
void clickrows_close(struct clickrows *r);

#endif
