/* slice.h -- what a Slice takes of each dimension. */
#ifndef GRAPH_OPS_SLICE_H
#define GRAPH_OPS_SLICE_H

#include "graph/ops/ops.h"

struct slicing {
    struct shape out;
    /* Where the known part of it begins and how it goes on; a dimension that out leaves open has
     * 0 and 1. */
    int64_t first[SHAPE_RANK_MAX], step[SHAPE_RANK_MAX];
    bool all; /* every number is known */
};

/* Lists are attributes before opset 10 and inputs since. */
int slice_read(const struct opview *o, struct slicing *s);

#endif
