/* onnx_write.h -- put an ONNX model together, node by node.
 *
 * Names of values are strings that live as long as the writer. Weights are described, not held:
 * they are generated while the file is written. A failed allocation is remembered and told at the
 * end, so that a model's description reads without checks. */
#ifndef GRAPH_ONNX_WRITE_H
#define GRAPH_ONNX_WRITE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/io.h"
#include "base/strpool.h"
#include "base/u64map.h"
#include "graph/tensor.h"

enum fill {
    FILL_DATA,    /* copied from memory */
    FILL_NORMAL,  /* mean + scale x (nearly) normal */
    FILL_UNIFORM, /* mean + scale x uniform in [0, 1) */
    FILL_CAUSAL,  /* scale above the diagonal of the last two dimensions, 0 elsewhere */
    FILL_NIBBLES, /* uint8: two numbers of 4 bits in each, (nearly) normal about 8 */
    FILL_COS,     /* of rotary embeddings: [position, pair], scale is the base */
    FILL_SIN,
};

/* A standard deviation of FILL_NIBBLES. */
#define OW_NIBBLE_STEPS 2.5

struct ow_weight {
    const char *name;
    enum tensor_type type;
    struct shape shape;
    enum fill fill;
    float mean, scale;
    int sparse_axis;  /* output channels, for zeros in blocks of some of them; -1: dense */
    const void *data; /* FILL_DATA */
};

struct onnx_writer {
    const char *name; /* of the graph */
    int opset;
    uint64_t seed;
    double sparsity; /* 0..1 */
    int sparse_rows; /* output channels in a block of zeros; 4 */
    bool int8;       /* the zoo's: weights and activations; BatchNormalization is folded then */
    enum tensor_type real; /* what float32 is written as: itself, float16 or bfloat16 */
    struct arena text;
    struct buf node; /* fields of the graph: nodes; inputs and outputs */
    struct buf io;
    struct ow_weight *weight;
    size_t nweight, weight_cap;
    struct strpool stem; /* of generated names, and how many there are of each */
    struct u64map stem_count;
    struct strpool constant; /* bytes of shared constants, and the place of each in `weight` */
    struct u64map constant_at;
    struct { /* the last value that DynamicQuantizeLinear was written for */
        const char *of, *q, *scale, *zero;
    } quantized;
    struct buf outer_node, outer_io; /* of the main graph, while one for an attribute is written */
    bool inner;                      /* such a one is */
    bool shares;                     /* there was one: graphs use weights of the same names */
    size_t open;                     /* the node being written */
    const char *open_name;
    const char *out; /* its first output */
    bool microsoft;  /* some node is of com.microsoft */
    bool failed;     /* no memory */
};

void ow_init(struct onnx_writer *w, const char *name, int opset, uint64_t seed, double sparsity);
void ow_release(struct onnx_writer *w);
/* Output channels in a block of this pattern; 0: no such pattern. */
#define OW_PATTERNS "1x1, 4x1, 8x1, 16x1"
int ow_pattern_rows(const char *pattern);

/* "stem_0", "stem_1", ... */
const char *ow_fresh(struct onnx_writer *w, const char *stem);
__attribute__((format(printf, 2, 3))) const char *ow_name(struct onnx_writer *w, const char *fmt,
                                                          ...);

/* dims: `rank` sizes; if batch is not NULL the first is open and has that name. */
const char *ow_input(struct onnx_writer *w, const char *name, enum tensor_type type,
                     const char *batch, const int64_t *dims, int rank);
/* The same with the batch in another place. */
const char *ow_input_at(struct onnx_writer *w, const char *name, enum tensor_type type,
                        const char *batch, int at, const int64_t *dims, int rank);
void ow_output(struct onnx_writer *w, const char *name, enum tensor_type type, const char *batch,
               const int64_t *dims, int rank);

/* The same, where open[i], if it is not NULL, is the name of dimension i. */
const char *ow_input_open(struct onnx_writer *w, const char *name, enum tensor_type type,
                          const char *const *open, const int64_t *dims, int rank);
void ow_output_open(struct onnx_writer *w, const char *name, enum tensor_type type,
                    const char *const *open, const int64_t *dims, int rank);

/* Weights; each returns name. */
const char *ow_normal(struct onnx_writer *w, const char *name, const int64_t *dims, int rank,
                      double std, int sparse_axis);
/* Generated weights are float32 (then written as w->real), uint8, int8 or int32 (rounded). */
const char *ow_add_weight(struct onnx_writer *w, const struct ow_weight *weight);
/* Constants, shared among those that are equal. */
const char *ow_float(struct onnx_writer *w, double v);                    /* as w->real */
const char *ow_float32(struct onnx_writer *w, double v);                  /* in any case */
const char *ow_byte(struct onnx_writer *w, enum tensor_type type, int v); /* uint8 or int8 */
const char *ow_ints(struct onnx_writer *w, const int64_t *v, int n);
const char *ow_int_scalar(struct onnx_writer *w, int64_t v);
#define OW_INTS(w, ...)                            \
    ow_ints((w), (const int64_t[]){ __VA_ARGS__ }, \
            (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))

/* One node: begin, then inputs, outputs and attributes in any order, then end, which returns the
 * first output. name NULL: made from the operator; without ow_out() the output is "NAME_out". */
void ow_begin(struct onnx_writer *w, const char *op, const char *name);
void ow_microsoft(struct onnx_writer *w); /* the open node is of domain com.microsoft */
void ow_in(struct onnx_writer *w, const char *value);
void ow_out(struct onnx_writer *w, const char *value);
void ow_attr_int(struct onnx_writer *w, const char *name, int64_t v);
void ow_attr_type(struct onnx_writer *w, const char *name, enum tensor_type t);
void ow_attr_float(struct onnx_writer *w, const char *name, float v);
void ow_attr_ints(struct onnx_writer *w, const char *name, const int64_t *v, int n);
#define OW_ATTR_INTS(w, name, ...)                              \
    ow_attr_ints((w), (name), (const int64_t[]){ __VA_ARGS__ }, \
                 (int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)))
void ow_attr_empty(struct onnx_writer *w, const char *name, enum tensor_type type,
                   const int64_t *dims, int rank); /* a tensor without elements */
const char *ow_end(struct onnx_writer *w);

/* A graph for an attribute: between begin and end, nodes and outputs are its own. Weights are the
 * main graph's, and one of a name that is there already is that one. Not within each other, nor
 * within a node. */
struct ow_graph {
    const char *data;
    size_t len;
};
void ow_graph_begin(struct onnx_writer *w);
struct ow_graph ow_graph_end(struct onnx_writer *w, const char *name);
void ow_attr_graph(struct onnx_writer *w, const char *name, const struct ow_graph *graph);

/* A node without attributes; inputs end with NULL. */
const char *ow_op(struct onnx_writer *w, const char *op, ...) __attribute__((sentinel));

/* Write the file to b, which must be empty, or (b NULL) to o. 0 or OPM_ENOMEM; errors of o are told
 * when it is closed. */
int ow_finish(struct onnx_writer *w, struct buf *b, struct io_out *o);

#endif
