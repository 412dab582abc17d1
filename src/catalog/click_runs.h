/* click_runs.h -- runs over time in ClickHouse: the tables of runs.def, as runsdb.h has them in a
 * file.
 *
 * A run is a unit as a recording of a rank is (clickhouse.h), without a job. Nothing is deleted: a
 * row of `mark` says that a run is gone, or that it was accepted. A run that is added again after
 * it went is another generation of it, which its rows bear as `rank`. */
#ifndef CATALOG_CLICK_RUNS_H
#define CATALOG_CLICK_RUNS_H

#include "catalog/clickhouse.h"
#include "catalog/runsdb.h"

/* Each is seen whole or not at all, at once. *added: false if it is there already. */
int click_runs_add(struct clickhouse *c, const struct kept *k, bool *added, opm_error *err);
int click_runs_remove(struct clickhouse *c, const char *id, opm_error *err);
int click_runs_accept(struct clickhouse *c, const char *id, int64_t now_ns, opm_error *err);

/* As runsdb_each_run(), ... */
#define TABLE(table, doc)                                                                \
    int click_runs_each_##table(struct clickhouse *c,                                    \
                                int (*each)(void *user, const struct kept_##table *row), \
                                void *user, opm_error *err);
#define COL(table, column, type, doc)
#define END(table, key)
#include "catalog/runs.def"
#undef TABLE
#undef COL
#undef END

#endif
