/* footprint.h -- how much an operator computes and moves, from its shapes alone.
 *
 * The formulas are with the operators, in ops/. They count what the operator's definition demands,
 * not what an implementation does: a Winograd convolution has the FLOPs of the direct one. A
 * multiply and an add are two; integer operations count like floating-point ones. */
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
/* Does it do nothing but run graphs that are its attributes? What it reads and writes is theirs. */
bool node_is_control_flow(const struct node *n);

/* The constant that an input is, or that a DequantizeLinear with zero points of 0 makes it from;
 * NULL if there is none. Zeros of it are zeros of the weight. */
const struct tensor *node_weight(const struct graph *g, const struct node *n, uint32_t slot);

/* Which dimension of a node's weight, input `slot`, counts output channels: 0 for Conv, the last
 * for MatMul, ... */
int weight_axis(const struct graph *g, const struct node *n, int slot);

#endif
