/* infer.h -- types and shapes of every value of a model.
 *
 * Works from the inputs on, node by node, and computes small constants on the way (shape
 * arithmetic), so that a graph whose inputs are concrete usually resolves completely. What cannot
 * be known stays unknown; nothing is guessed. */
#ifndef GRAPH_INFER_H
#define GRAPH_INFER_H

#include "graph/graph.h"

struct infer_input {
    const char *name;
    struct shape shape;        /* rank -1: as declared */
    const struct tensor *data; /* the value itself, if it is known already; else NULL */
};

struct infer_dim {
    const char *name; /* of an open dimension */
    int64_t size;
};

struct infer_options {
    const struct infer_input *input;
    size_t ninput;
    const struct infer_dim *dim;
    size_t ndim;
    /* Size for open dimensions of inputs that nothing above fixes; 0: keep them open. */
    int64_t open_dim;
    /* Believe nothing that the file declares about values other than inputs. */
    bool inputs_only;
    /* What the file declares about them helps where inference cannot tell, and is no error where it
     * is wrong: exporters leave stale shapes behind. */
    bool hints;
};

/* Give every value of m its type and shape, starting over from what the file declares: calling it
 * again with other options is fine. opt may be NULL. Sets value.type, .shape, .data and
 * VALUE_FOLDED; data of folded values lives until the next call.
 *
 * Errors name the node: operand shapes that do not fit, and results that contradict what the file
 * declares (only where both are concrete, and only if no option changed a size that the file
 * fixes; see hints). An operator that is not known is no error: its results are as declared, or
 * unknown. */
int graph_infer(struct model *m, const struct infer_options *opt, opm_error *err);

struct infer_count {
    uint32_t values;   /* tensors that some node computes or reads, over all graphs */
    uint32_t resolved; /* those with a type and a concrete shape */
};
/* How far the last graph_infer() came, subgraphs included. */
void graph_infer_count(const struct model *m, struct infer_count *out);

#endif
