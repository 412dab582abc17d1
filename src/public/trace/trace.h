/* trace.h -- what an opm_trace is, for the files of this folder. */
#ifndef PUBLIC_TRACE_TRACE_H
#define PUBLIC_TRACE_TRACE_H

#include "sql/sql.h"
#include "store/counters.h"
#include "store/lod.h"
#include "store/totals.h"
#include <opmeter/opmeter_trace.h>
#include <stdatomic.h>

struct opm_trace {
    struct store *st;
    atomic_size_t *handles; /* that have this store */
    struct sql *sql;
    struct lod *lod;           /* made when first asked for */
    struct counters *counters; /* ditto */
    struct totals *totals;     /* ditto */
    size_t refs; /* the handle itself and its open rows: freed with the last, in whatever order */
};

void trace_unref(opm_trace *t);

#endif
