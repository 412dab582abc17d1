/* rank_reduce.h -- a recording of a rank, reduced to rollups where it lies and added to a database.
 */
#ifndef CATALOG_RANK_REDUCE_H
#define CATALOG_RANK_REDUCE_H

#include "catalog/fleetdb.h"

#define RANK_OF_TRACE (-1)

/* What is not in the trace. */
struct rank_said {
    const char *job;
    int64_t rank;      /* RANK_OF_TRACE: as the trace says */
    int64_t otherwise; /* where it does not say; RANK_OF_TRACE: then that is an error */
    int64_t world;     /* ranks of the job; FLEETDB_NONE: unknown */
    const char *trace; /* where it lies */
    int64_t now_ns;
    bool spans; /* each span, too */
};

struct rank_added {
    size_t added, there; /* recordings of ranks that are new, and that were there already */
};

/* Every rank that the trace has, each in one go; *done counts also before a failure. */
int rank_reduce(struct fleetdb *db, opm_trace *t, const struct rank_said *said,
                struct rank_added *done, opm_error *err);

#endif
