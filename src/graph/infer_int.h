/* infer_int.h -- graph_infer() from inside, for rules of operators that have graphs of their own
 * and for folding. */
#ifndef GRAPH_INFER_INT_H
#define GRAPH_INFER_INT_H

#include "graph/infer.h"
#include "graph/model_int.h"
#include "graph/ops/known.h"

struct infer {
    struct model *m;
    const struct infer_options *opt;
    opm_error *err;    /* never NULL */
    int64_t *dim_size; /* of named open dimensions, or -1; DIM_TORN: inputs disagree */
    bool distrust;     /* what the file says about inner values does not hold for these inputs */
    bool nomem;        /* an allocation failed where there was no way to say so */
    uint32_t soft;     /* > 0: in a subgraph that may never run, where a misfit is no error */
    uint64_t work;     /* nodes looked at: bodies of loops are gone through more than once */
    uint64_t work_max;
};

#define DIM_TORN (-2)

int infer_graph(struct infer *inf, struct graph *g);
/* Back to what the file says: nothing inferred, nothing folded. */
void infer_forget(struct graph *g);
/* A subgraph gets what it captures before infer_graph(). */
void infer_captures(struct graph *g);
/* The elements of a tensor, or NULL. */
const struct elems *infer_elems(struct infer *inf, const struct tensor *t);
/* Set a graph's own input before infer_graph(). */
void infer_set_input(struct graph *g, uint32_t input, const struct value *from,
                     const struct shape *s);
/* A result that is a sequence or an optional, of what op_set() said. */
void infer_set_kind(const struct opview *o, uint32_t slot, enum value_kind kind);

#endif
