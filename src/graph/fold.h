/* fold.h -- what the files that compute small constants share; see infer_int.h. */
#ifndef GRAPH_FOLD_H
#define GRAPH_FOLD_H

#include "graph/infer_int.h"

/* Room for output `slot` as it was inferred; NULL if that is not concrete and small. */
struct elems *fold_result(const struct op *o, uint32_t slot);
/* Where element i of a tensor of shape `out` comes from in one of shape `in` that broadcasts to
 * it. */
int64_t fold_index(const struct shape *out, const struct shape *in, int64_t i);
/* Shape x with the dimensions that the reduction o runs over set to 1; false if not known. */
bool fold_reduced_shape(const struct op *o, const struct shape *x, struct shape *out);

#endif
