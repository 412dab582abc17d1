/* reduce.h -- a trace reduced to what a catalogue of runs keeps of it. */
#ifndef CATALOG_REDUCE_H
#define CATALOG_REDUCE_H

#include "base/arena.h"
#include "catalog/runsdb.h"
#include <opmeter/opmeter_trace.h>

/* What is not in the trace. Texts may be NULL: not known, or as the trace says. */
struct reduce_said {
    const char *model;
    const char *commit_id;
    bool dirty;
    const char *trace; /* where it lies */
    int64_t now_ns;
    const struct kept_label *label; /* their runs are filled in */
    size_t nlabel;
    double loop_ns, stolen, load; /* calibration; NAN: as the trace says */
};

/* Everything in *out lives in `room`. One thread at a time. OPM_EFORMAT: nothing was measured in
 * it. */
int reduce_trace(opm_trace *t, const struct reduce_said *said, struct arena *room, struct kept *out,
                 opm_error *err);

#endif
