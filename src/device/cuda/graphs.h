/* graphs.h -- nodes of graphs, when they are made.
 *
 * A graph's kernels run without a call of their own; all they tell is the number of their node. Who
 * made the node is known while it is made: a span of no length at that place, on the thread that
 * makes it, has the number, so that what is around it, an operator, is what the node is for.
 * Instantiating clones nodes, and the clones run: a span tells of which node each is one. */
#ifndef DEVICE_CUDA_GRAPHS_H
#define DEVICE_CUDA_GRAPHS_H

#include "device/cuda/cupti.h"

#define GRAPHS_CATEGORY "cuda_graph"

/* A CUPTI that does not number nodes, or does not tell of them, is left alone. */
void graphs_enable(const struct cupti *lib, void *subscriber);

/* Something was made, on the thread that makes it. */
void graphs_take(const struct cupti *lib, uint32_t cbid, const struct cupti_resource *made);

#endif
