/* ops.h -- operators of ggml, told once for every name and shapes that they have.
 *
 * Dimensions are written with the fastest last, as everywhere in recordings; ggml has it first. */
#ifndef DEVICE_LLAMA_OPS_H
#define DEVICE_LLAMA_OPS_H

#include "device/llama/library.h"

#include <opmeter/opmeter.h>

/* Nothing is computed for it: a view, a reshaping. */
bool ggml_node_is_empty(const struct ggml_library *l, const void *tensor);
/* device: the name of the backend, or NULL. NULL: no memory. Any thread. */
opm_op *ggml_node_op(const struct ggml_library *l, const void *tensor, const char *device);

/* A graph as a whole: its nodes, the tokens that go in (-1: not known), and up to how many of
 * context. */
struct ggml_graph_facts {
    int nodes;
    int64_t tokens, context;
};
int64_t ggml_graph_tokens(const struct ggml_library *l, void *graph);
opm_op *ggml_graph_op(const struct ggml_library *l, void *graph, const struct ggml_graph_facts *f);

#endif
