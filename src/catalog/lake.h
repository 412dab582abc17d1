/* lake.h -- rollups of ranks as Parquet, in folders by table, job and rank as Hive names them. */
#ifndef CATALOG_LAKE_H
#define CATALOG_LAKE_H

#include "catalog/fleetdb.h"

struct lake_options {
    const char *table; /* this one; NULL: all of rollups.def */
    const char *job;   /* this one; NULL: all */
    int64_t rank;      /* this one; -1: all */
    bool force;        /* replace what is there of the same job and rank */
};

/* FOLDER/rank_op/job=J/rank=N/part-0.parquet, ...; columns job, rank and batch are left out.
 * *rows that were written. Memory is that of a row group and of an answer, however many ranks and
 * jobs there are. OPM_ENOTFOUND: there is no such table, job or rank. */
int lake_write(struct fleetdb *db, const char *folder, const struct lake_options *o, uint64_t *rows,
               opm_error *err);

#endif
