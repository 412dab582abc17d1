/* model_digest.h -- which model it is, whatever its file is called. */
#ifndef GRAPH_MODEL_DIGEST_H
#define GRAPH_MODEL_DIGEST_H

#include "base/digest.h"
#include "graph/graph.h"

/* Digest of the model's bytes, those of external data files too; false where they are not known, as
 * for one that was parsed from memory of the caller. */
bool model_digest(const struct model *m, char out[DIGEST_ROOM]);

#endif
