/* weights.h -- how sparse a constant tensor is. */
#ifndef GRAPH_WEIGHTS_H
#define GRAPH_WEIGHTS_H

#include "graph/graph.h"

/* Ratios of zeros, 0..1; NAN if the tensor has no elements or no numbers. The tensor is seen as a
 * matrix of output channels (rows) by everything else, as Neural Engine's sparse kernels see it.
 * Blocks that stick out at the edge count with what they have. -0.0 is zero. */
struct weight_zeros {
    double element; /* zeros / elements */
    double b4x1;    /* all-zero blocks of 4 rows x 1 column / blocks */
    double b1x16;   /* all-zero blocks of 1 row x 16 columns / blocks */
};

/* axis: the dimension of t that counts output channels (footprint.h's weight_axis()); others keep
 * their order. */
void weight_zeros(const struct tensor *t, int axis, struct weight_zeros *out);

#endif
