/* model_int.h -- what the files of this folder share about a model's inside. */
#ifndef GRAPH_MODEL_INT_H
#define GRAPH_MODEL_INT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/strpool.h"
#include "graph/graph.h"

/* An external data file, mapped once. */
struct model_map {
    const char *location; /* as the model spells it */
    const uint8_t *data;
    size_t len;
};

struct model_impl {
    struct arena arena;    /* everything that lives as long as the model */
    struct arena folded;   /* constants that graph_infer() computed */
    struct strpool name;   /* of values, nodes, operators, dimensions */
    struct io_map file;    /* the model file, or zeroed */
    struct buf made;       /* a model that was built in memory, or zeroed */
    struct model_map *map; /* external data */
    size_t nmap, map_cap;
    str_id *dim; /* names of open dimensions: dimension -2 - k has name dim[k] */
    size_t ndim, dim_cap;
    struct graph **graph; /* all of them, outer before inner */
    size_t ngraph, graph_cap;
};

/* Open dimensions: DIM_OPEN has no name, -2 - k is number k of model_impl.dim. */
#define DIM_NAMED(k) (-2 - (int64_t)(k))
#define DIM_INDEX(dim) ((size_t)(-2 - (dim)))

/* A tensor in the model's folded arena with room for its bytes (zeroed), or NULL. */
struct tensor *model_new_folded(struct model *m, enum tensor_type type, const struct shape *s);

#endif
