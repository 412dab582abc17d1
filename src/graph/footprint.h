/* footprint.h -- how much an operator computes and moves, from its shapes alone.
 *
 * The formulas are a table in footprint.c. They count what the operator's definition demands, not
 * what an implementation does: a Winograd convolution has the FLOPs of the direct one. A multiply
 * and an add are two; integer operations count like floating-point ones. */
#ifndef GRAPH_FOOTPRINT_H
#define GRAPH_FOOTPRINT_H

#include "graph/graph.h"

struct footprint {
    int64_t flops;       /* -1: not known: shapes are open, or the operator is */
    int64_t read_bytes;  /* all inputs, each value once; -1: not known */
    int64_t write_bytes; /* all outputs; -1: not known */
    int weight_slot;     /* the input that holds the learnt weights, or -1 */
};

/* Of one node; a node with subgraphs counts only itself (0 FLOPs). Call after graph_infer(). */
void node_footprint(const struct graph *g, const struct node *n, struct footprint *out);

/* Is there a formula for the operator? domain "" is ai.onnx. */
bool footprint_knows(const char *domain, const char *op_type);

#endif
