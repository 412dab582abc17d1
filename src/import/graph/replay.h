/* replay.h -- operators for the kernels of graphs that are replayed.
 *
 * A replay is a launch of a graph and all that devices ran for it, by their correlation number. Its
 * kernels take operators by the numbers of their nodes (nodes.h); else they are aligned with what
 * was captured (capture.h), else with what the same trace launches one by one, and take operators
 * and modules from there. What stays without one gets a row of its own by graph and position, of
 * type "graph launch". How it went is in meta, as graph.*. */
#ifndef IMPORT_GRAPH_REPLAY_H
#define IMPORT_GRAPH_REPLAY_H

#include "import/graph/capture.h"

/* Both are told of by a trace. */
struct replay_files {
    const char *const *path; /* of captures that were given */
    size_t n;
    const char *const *found; /* of captures that lay among the files of the trace */
    size_t nfound;
};

/* st is finished and nobody else reads it yet. Captures that were given and of which none is of a
 * graph that the trace replays are refused with OPM_EFORMAT. name: of the trace, for messages. */
int replays_link(struct store *st, const char *name, const struct replay_files *captures,
                 const struct import_options *opts, opm_error *err);

#endif
