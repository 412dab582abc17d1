/* graph.h -- a neural network in memory, as read from an ONNX file. Neutral: no engine in sight.
 *
 * A model owns graphs; a graph owns values (everything that has a name: inputs, constants, results)
 * and nodes (operators). Nodes refer to values by index into graph->value, never by pointer. A
 * value has one producer at most, or is an input, or a constant, or captured from the graph around.
 *
 * What the reader has already done, so that engines need not:
 *   - nodes are in topological order, whatever order the file had;
 *   - Constant nodes are gone: their outputs are constant values (value.data), like initializers;
 *   - model-local functions are inlined, nested ones too; node.opset is that of the function then;
 *   - an input that has an initializer (IR < 4) is a constant and not in graph->input;
 *   - every tensor's bytes are in place (struct tensor), external data files mapped, nothing copied
 *     but small typed fields.
 *
 * Everything lives as long as the model and is freed by model_free(). A loaded model is changed
 * only by graph_infer() (infer.h); between such calls any number of threads may read it. */
#ifndef GRAPH_GRAPH_H
#define GRAPH_GRAPH_H

#include "graph/tensor.h"

#include <opmeter/opmeter_error.h>

/* Limits of the reader; beyond them a file is refused with OPM_ELIMIT, so that no file can make it
 * take unbounded memory or time. They count over all graphs of a model, after inlining. */
#define MODEL_NODES_MAX ((uint32_t)1 << 20)
#define MODEL_VALUES_MAX ((uint32_t)1 << 21)
#define MODEL_GRAPHS_MAX ((uint32_t)1 << 16)
#define MODEL_SUBGRAPH_DEPTH_MAX 24 /* If in Loop in If ... */
#define MODEL_NAME_MAX_BYTES ((size_t)1 << 16)
#define MODEL_FUNCTION_DEPTH_MAX 16 /* functions that call functions */
#define MODEL_INDEX_MAX_BYTES \
    ((size_t)2 << 30) /* memory for all of this; weights in the file: free */

#define NO_VALUE UINT32_MAX /* an optional input or output that a node leaves out */
#define NO_NODE UINT32_MAX

/* Numbers are those of ONNX's AttributeProto.AttributeType. */
enum attr_type {
    ATTR_NONE = 0,
    ATTR_FLOAT = 1,
    ATTR_INT = 2,
    ATTR_STRING = 3,
    ATTR_TENSOR = 4,
    ATTR_GRAPH = 5,
    ATTR_FLOATS = 6,
    ATTR_INTS = 7,
    ATTR_STRINGS = 8,
    ATTR_TENSORS = 9,
    ATTR_GRAPHS = 10,
    ATTR_SPARSE_TENSOR = 11, /* densified: held as ATTR_TENSOR */
    ATTR_SPARSE_TENSORS = 12,
    ATTR_TYPE_PROTO = 13,
    ATTR_TYPE_PROTOS = 14,
};

struct attr {
    const char *name;
    enum attr_type type;
    size_t n; /* elements of the list that the type picks; 1 for FLOAT, INT, STRING, ... */
    union {   /* ATTR_TYPE_PROTO(S): none, they are only noted */
        const float *floats;                /* FLOAT, FLOATS */
        const int64_t *ints;                /* INT, INTS */
        const struct tensor_string *string; /* STRING, STRINGS */
        const struct tensor *tensor;        /* TENSOR, TENSORS */
        struct graph *const *graph;         /* GRAPH, GRAPHS */
    };
};

enum value_kind {
    VALUE_TENSOR = 0,
    VALUE_SEQUENCE, /* of tensors; type and shape are those of an element, where known */
    VALUE_OPTIONAL, /* of a tensor or a sequence; likewise */
    VALUE_MAP,
    VALUE_SPARSE,
    VALUE_OPAQUE,
};

enum value_flags {
    VALUE_INPUT = 1,    /* of its graph */
    VALUE_OUTPUT = 2,   /* of its graph */
    VALUE_CONSTANT = 4, /* data is the value: initializer or Constant node */
    VALUE_CAPTURED = 8, /* a value of the graph around, see graph->capture */
    VALUE_FOLDED = 16,  /* data was computed by graph_infer(): the producer need not run */
};

struct value {
    const char *name; /* unique in its graph; never NULL */
    enum value_kind kind;
    enum tensor_type type; /* TENSOR_NONE: unknown */
    struct shape shape;
    const struct tensor *data; /* CONSTANT or FOLDED, else NULL. Captured constants have it too */
    uint32_t producer;         /* index into graph->node, or NO_NODE */
    uint32_t slot;             /* which output of the producer */
    uint32_t nuse;             /* node inputs and graph outputs that read it, subgraphs included */
    uint32_t flags;            /* enum value_flags */
    const struct shape *declared; /* as the file has it, or NULL; shape is the inferred one */
    enum tensor_type declared_type;
};

struct node {
    const char *name;    /* as in the file, "" if it has none; inlined ones are "CALL/NAME" */
    const char *op_type; /* "Conv" */
    const char *domain;  /* "" is ai.onnx; "ai.onnx.ml", "com.microsoft", ... */
    int opset;           /* version of that domain that rules this node; see opset_newest() */
    uint32_t index;      /* place in the file's node list; inlined: of the call */
    const uint32_t *in;  /* nin values of the same graph; NO_VALUE where left out */
    const uint32_t *out; /* nout values, likewise */
    uint32_t nin;
    uint32_t nout;
    const struct attr *attr;
    uint32_t nattr;
};

/* A value of the graph around that this graph's nodes (or those of its own subgraphs) read. */
struct capture {
    uint32_t inner; /* in this graph; has VALUE_CAPTURED */
    uint32_t outer; /* in graph->outer, where it may itself be captured */
};

struct graph {
    const char *name;
    struct model *model;
    struct graph *outer; /* NULL for the main graph */
    uint32_t depth;      /* 0 for the main graph */
    struct node *node;   /* topological order */
    uint32_t nnode;
    struct value *value;
    uint32_t nvalue;
    const uint32_t *input;  /* those that the caller must feed, in file order */
    const uint32_t *output; /* in file order */
    uint32_t ninput;
    uint32_t noutput;
    const struct capture *capture;
    uint32_t ncapture;
    uint32_t nconstant;         /* Constant nodes that became constants */
    const struct elems **known; /* graph_infer()'s own, while it runs */
};

struct opset {
    const char *domain;
    int version;
};

struct model_meta {
    const char *key;
    const char *value;
};

struct model {
    const char *name; /* the path, or what the caller called it: for messages */
    struct graph *graph;
    int64_t ir_version;
    int64_t model_version;
    const char *producer; /* "pytorch", "" */
    const char *producer_version;
    const char *domain;
    const char *doc;
    const struct opset *opset;
    size_t nopset;
    const struct model_meta *meta;
    size_t nmeta;
    size_t nfunction;      /* model-local functions in the file, all inlined */
    uint64_t file_bytes;   /* of the model file */
    uint64_t extern_bytes; /* of the mapped external data files */
    struct model_impl *impl;
};

/* Read an ONNX file (plain, .gz or .zst), or build "zoo:NAME?OPTIONS" (zoo.h). The file must not
 * change while the model lives. *out is untouched on failure. Free with model_free(). */
int model_load(struct model **out, const char *path, opm_error *err);
/* The same from memory, which must outlive the model. External data is looked for in dir; NULL:
 * refused. name is for messages. */
int model_parse(struct model **out, const void *p, size_t len, const char *name, const char *dir,
                opm_error *err);
void model_free(struct model *m); /* NULL is fine */
/* The bytes of a tensor were read and will hardly be again: pages of a mapped file are given back
 * to the system, which brings them again if they are. */
void model_forget(const struct model *m, const void *data, size_t bytes);

/* Version of a domain that the model imports; 0: none. "" and "ai.onnx" are the same. */
int model_opset(const struct model *m, const char *domain);
/* The newest version of a domain that is known, which rules nodes of a domain that the model does
 * not import; 1 for domains of others. */
int opset_newest(const char *domain);
/* The name of an open dimension (dim < 0), or NULL if it has none. */
const char *model_dim_name(const struct model *m, int64_t dim);
/* The open dimension of that name, or 0 if the model has none. */
int64_t model_dim_find(const struct model *m, const char *name);
/* Like shape_text(), but open dimensions that have a name show it: "batchx3x224x224". */
void model_shape_text(const struct model *m, const struct shape *s, char *out, size_t size);

/* NO_VALUE if there is none. */
uint32_t graph_find_value(const struct graph *g, const char *name);

/* "m.onnx: node 17 'Conv_3' (Conv)", with the subgraph's name where the node is in one: how every
 * message about a node begins. Cut to size, always terminated. */
void node_text(const struct graph *g, const struct node *n, char *out, size_t size);
/* True for op_type of the default domain: node_is(n, "Conv"). */
bool node_is(const struct node *n, const char *op_type);
/* The value of an input or output, or NULL if the node does not have it. */
struct value *node_in(const struct graph *g, const struct node *n, uint32_t slot);
struct value *node_out(const struct graph *g, const struct node *n, uint32_t slot);
/* The constant that an input is, or NULL if it is absent or not known before running. */
const struct tensor *node_const(const struct graph *g, const struct node *n, uint32_t slot);

/* Attributes. A missing one, or one of another type, gives the default (NULL, *n 0 for lists). */
const struct attr *node_attr(const struct node *n, const char *name); /* NULL if absent */
int64_t node_attr_int(const struct node *n, const char *name, int64_t missing);
float node_attr_float(const struct node *n, const char *name, float missing);
const char *node_attr_str(const struct node *n, const char *name, const char *missing);
const int64_t *node_attr_ints(const struct node *n, const char *name, size_t *len);
const float *node_attr_floats(const struct node *n, const char *name, size_t *len);
const struct tensor *node_attr_tensor(const struct node *n, const char *name);
struct graph *node_attr_graph(const struct node *n, const char *name);

#endif
