/* nodes.h -- operators by the numbers of a graph's nodes, where a trace says when each was made.
 *
 * A span "graph node" stands where a node was made, within the operator that it is for; a span
 * "graph node clone" says of which other a node is a copy. A kernel that a graph runs has the
 * number of its node. No names or orders need to agree then. */
#ifndef IMPORT_GRAPH_NODES_H
#define IMPORT_GRAPH_NODES_H

#include "base/u64map.h"
#include "store/store.h"

/* `struct graph_nodes n = {0}` knows of none. */
struct graph_nodes {
    const struct store *st;
    struct u64map made;   /* number in its source -> span */
    struct u64map cloned; /* number in its source -> number of the original */
};

/* st is finished and outlives it. 0 or OPM_ENOMEM. */
int graph_nodes_find(struct graph_nodes *n, const struct store *st);
void graph_nodes_release(struct graph_nodes *n);
/* The operator that the node of a kernel was made for, or OPM_NULL_ID. */
uint32_t graph_nodes_op(const struct graph_nodes *n, uint32_t kernel);

#endif
