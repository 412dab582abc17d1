/* onnx_int.h -- the parts of the ONNX reader, and what they share while one file is being read.
 *
 * onnx.c reads a ModelProto; onnx_graph.c a GraphProto; onnx_node.c nodes and calls of functions;
 * onnx_attr.c attributes; onnx_tensor.c tensors; onnx_extern.c external data; onnx_type.c types.
 * All walk the file's bytes in place, several times rather than building a tree first. */
#ifndef GRAPH_ONNX_INT_H
#define GRAPH_ONNX_INT_H

#include "base/pb.h"
#include "base/u64map.h"
#include "graph/model_int.h"

struct slice {
    const uint8_t *p;
    size_t len;
};

/* A model-local function; its parts are found once, its body is read again for each call. */
struct function {
    struct slice bytes;
    str_id key; /* domain, name and overload together */
    const char *name;
    const struct opset *opset;
    size_t nopset;
};

/* A graph while it is being read; arrays move when they grow, so others keep indices. */
struct gbuild {
    struct graph *graph;
    uint32_t scope; /* id of the scope of its own names */
    struct value *value;
    size_t nvalue, value_cap;
    struct node *node;
    size_t nnode, node_cap;
    struct capture *capture;
    size_t ncapture, capture_cap;
};

/* Where names of values are looked up: one per graph, one per call of a function. */
struct scope {
    uint32_t id;
    struct gbuild *g;          /* whose values the names stand for */
    const struct scope *outer; /* of a subgraph: where the names it lacks are looked up */
    const struct function *fn; /* the call's, or NULL */
    const char *prefix;        /* the call's, for names of what it adds; NULL outside of calls */
    const struct attr *given;  /* attributes of the call, for references in the function's body */
    size_t ngiven;
    uint32_t call_index; /* of the outermost call, for messages */
    const struct opset *opset;
    size_t nopset;
    uint32_t fn_depth;
};

struct loader {
    struct model *m;
    struct model_impl *impl;
    opm_error *err;     /* never NULL */
    const char *dir;    /* of external data; NULL: refuse it */
    struct u64map name; /* scope id << 32 | name -> value index, with the bits below */
    struct u64map dim;  /* name -> its place in impl->dim */
    struct function *fn;
    size_t nfn, fn_cap;
    struct u64map fn_key; /* key -> place in fn */
    struct buf text;      /* scratch */
    uint32_t nscope;
    uint32_t nnode, nvalue;    /* over all graphs, for the limits */
    uint64_t steps, steps_max; /* wire fields read: what bounds the time */
    size_t dense_bytes;        /* made of sparse tensors */
    bool over;                 /* steps_max was reached */
    bool odd_wire;             /* a field had another wire type than its number says */
};

/* Bits of loader.name's values beside the index. */
#define NAME_INDEX(v) ((uint32_t)(v))
#define NAME_DUE                                                                    \
    ((uint64_t)1 << 32) /* an output of a function that its body has yet to produce \
                         */

/* Next field of a message that spec describes: spec[number] is V varint, L bytes, F 32 bits,
 * R varints (packed or not), S 32-bit values (likewise), E 64-bit values (likewise); blank or past
 * the end: of no interest, skipped. Field 0 does not exist; the place names the message. */
bool ld_next(struct loader *ld, struct rd *r, struct pb_field *f, const char *spec);
/* After the last ld_next(): 0, or the error if that was not the end. what: "the graph". */
__attribute__((format(printf, 3, 4))) int ld_end(struct loader *ld, const struct rd *r,
                                                 const char *what, ...);
__attribute__((format(printf, 3, 4))) int ld_fail(struct loader *ld, int code, const char *fmt,
                                                  ...); /* "FILE: " + fmt */
int ld_nomem(struct loader *ld);
/* Memory in the model's arena, zeroed; NULL after ld->err was filled (OPM_ENOMEM or OPM_ELIMIT). */
void *ld_alloc(struct loader *ld, size_t n, size_t size);
/* Intern; *out is NUL-terminated and lives as long as the model. Either out may be NULL. */
/* Domain, name and overload of a function as one text, in ld->text. */
int ld_function_key(struct loader *ld, const struct slice part[3]);
int ld_name(struct loader *ld, const void *p, size_t len, str_id *id, const char **out);
int ld_string(struct loader *ld, const struct pb_field *f, struct tensor_string *out);
int ld_opset(struct loader *ld, const struct pb_field *f, struct opset *out);

/* Integers of a repeated field, packed or not: how many one occurrence holds, and their values. */
size_t ld_count_ints(const struct pb_field *f);
size_t ld_take_ints(const struct pb_field *f, int64_t *out, size_t room);

int ld_model(struct loader *ld, const uint8_t *p, size_t len);
int ld_graph(struct loader *ld, struct slice bytes, const struct scope *around, struct graph **out);
int ld_attrs(struct loader *ld, const struct scope *sc, struct slice node, const char *what,
             const struct attr **out, uint32_t *n);
int ld_tensor(struct loader *ld, struct slice bytes, const char *what, struct tensor *out);
int ld_sparse(struct loader *ld, struct slice bytes, const char *what, struct tensor *out);
int ld_extern(struct loader *ld, const char *what, const char *location, size_t len,
              uint64_t offset, uint64_t bytes, const uint8_t **out);

struct type_info {
    enum value_kind kind;
    enum tensor_type type;
    struct shape shape;
    bool shaped; /* shape was given */
};
/* A ValueInfoProto: its name and, if it has one, its type. */
int ld_value_info(struct loader *ld, struct slice bytes, str_id *name, struct type_info *out,
                  bool *typed);

/* What a file that is not ONNX looks like: "a zip archive, ..."; NULL: no idea. */
const char *ld_looks_like(const uint8_t *p, size_t len);

/* Parts of the graph that the reader of nodes needs. */
int gb_add_value(struct loader *ld, struct gbuild *g, const char *name, uint32_t *out);
int gb_bind(struct loader *ld, uint32_t scope, str_id name, uint64_t value);
/* The value that a name stands for; *found false: none. Captures it from the graph around. */
int gb_resolve(struct loader *ld, const struct scope *sc, str_id name, uint32_t *out, bool *found);
int gb_declare_outputs(struct loader *ld, const struct scope *sc, struct slice body,
                       uint32_t field);
int gb_read_nodes(struct loader *ld, const struct scope *sc, struct slice body, uint32_t field);

#endif
