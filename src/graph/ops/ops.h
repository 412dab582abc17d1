/* ops.h -- what is known about every operator: the shapes of its results, small constants among
 * them, what it computes and moves, and where its weights are.
 *
 * ops.def is the table, one row for an operator, or for a range of its versions where they differ;
 * a file of this folder has the rules of a family: infer_x() for types and shapes, fold_x() for
 * small constants, flops_x() for FLOPs, axis_x() for weights.
 *
 * A rule sees its node through struct opview: operands with types, shapes that may be open, and
 * elements where they are few and known. Whoever asks says where operands are: graph_infer()
 * (infer.c) has the values of a graph, an engine the tensors that it prepares a kernel for. So both
 * have the same shapes by construction. A rule that cannot tell leaves a result unknown; operands
 * that cannot fit are op_fail().
 *
 * Everything here is thread-safe as long as the graph does not change. */
#ifndef GRAPH_OPS_OPS_H
#define GRAPH_OPS_OPS_H

#include "graph/graph.h"

struct opview_class;
struct elems;

/* A node whose results are asked for. */
struct opview {
    const struct node *n; /* for its attributes and version */
    uint32_t nin, nout;
    const struct opview_class *as;
    struct graph *g;   /* these two in graph_infer(), else NULL: for operators with bodies, and */
    struct infer *inf; /* folding */
};

struct opview_class {
    /* An operand: false if it is absent. Its shape lives at least as long as the view. */
    bool (*in)(const struct opview *o, uint32_t slot, enum tensor_type *type,
               const struct shape **shape);
    /* Its elements if they are few and known, else NULL. */
    const struct elems *(*known)(const struct opview *o, uint32_t slot);
    /* A result, once for each; called for slots that the node has not, too. */
    void (*set)(const struct opview *o, uint32_t slot, enum tensor_type type,
                const struct shape *s);
    /* "node 3 'x' (Conv): " + text, kept for the caller; returns OPM_EINVAL. */
    int (*fail)(const struct opview *o, const char *text);
};

typedef int infer_fn(const struct opview *o); /* 0, or what op_fail() returned */
typedef void fold_fn(const struct opview *o);
/* FLOPs of a node whose shapes are inferred, -1 if not known; cost is the table's. */
typedef int64_t flops_fn(const struct graph *g, const struct node *n, int cost);
/* Which dimension of the weight at input `slot`, of `rank` dimensions, counts output channels. */
typedef int axis_fn(const struct node *n, int slot, int rank);

/* How much of its inputs an operator reads. */
enum op_reads {
    READS_ALL,
    READS_PART, /* of input 0 as much as it returns */
    READS_NONE, /* only the shape */
};

struct op_info {
    const char *domain; /* "" is ai.onnx */
    const char *name;
    struct {
        int first, last; /* of the domain that the row is for; last 0: no end */
    } versions;
    infer_fn *infer;
    fold_fn *fold;
    struct {
        flops_fn *fn;
        int cost; /* what fn makes of it; usually per element */
        enum op_reads reads;
        int rows; /* of inputs `rows` and the next it reads a row for each token; 0: of none */
    } flops;
    struct {
        int slot; /* the input that holds learnt weights if it is a constant, or -1 */
        axis_fn *axis;
        bool either; /* a product: input 0 may be the weight as well */
    } weight;
};

/* NULL if the operator is not known in this version; 0: the newest. */
const struct op_info *op_find(const char *domain, const char *name, int version);
const struct op_info *op_of(const struct node *n);

/* Operands. Absent ones have type TENSOR_NONE and an unknown shape. */
bool op_has(const struct opview *o, uint32_t slot);
enum tensor_type op_type(const struct opview *o, uint32_t slot);
const struct shape *op_shape(const struct opview *o, uint32_t slot);
int op_rank(const struct opview *o, uint32_t slot); /* -1: unknown */
/* Dimension `at` of an operand; DIM_OPEN if it has none. */
int64_t op_dim(const struct opview *o, uint32_t slot, int at);
int64_t op_int(const struct opview *o, const char *attr, int64_t missing);
/* An element type given as an attribute; `missing` if it is absent. Numbers that are none: an
 * error. */
int op_type_attr(const struct opview *o, const char *name, enum tensor_type missing,
                 enum tensor_type *out);
/* The elements of an operand if they are few and known; NULL otherwise. */
const struct elems *op_known(const struct opview *o, uint32_t slot);
/* The same, integers only. */
const struct elems *op_known_ints(const struct opview *o, uint32_t slot);
/* The one element of an operand; false if it is not known. */
bool op_known_int(const struct opview *o, uint32_t slot, int64_t *out);
bool op_known_float(const struct opview *o, uint32_t slot, double *out);
/* A list that is an attribute in older opsets and an input in newer ones. *n is -1 if it is given
 * but not known, and 0 if it is absent (*given false) or empty. At most max integers; more, or open
 * ones, count as not known. */
int op_list(const struct opview *o, const char *attr, uint32_t slot, int64_t *out, int64_t max,
            int64_t *n, bool *given);

/* Results. s NULL: unknown shape. Slots that the node does not have are ignored. */
void op_set(const struct opview *o, uint32_t slot, enum tensor_type type, const struct shape *s);
/* Same type and shape as an operand. */
void op_same(const struct opview *o, uint32_t slot, uint32_t in);

/* "FILE: node ...: " + fmt; returns OPM_EINVAL. */
__attribute__((format(printf, 2, 3))) int op_fail(const struct opview *o, const char *fmt, ...);

/* Axis in [0, rank) of one in [-rank, rank), or an error. */
int op_axis(const struct opview *o, int64_t axis, int rank, int *out);
/* NumPy's broadcasting, or an error. */
int op_broadcast(const struct opview *o, const struct shape *a, const struct shape *b,
                 struct shape *out);

struct shape shape_unknown(void);
struct shape shape_of_rank(int rank); /* all dimensions open */
struct shape shape_scalar(void);
struct shape shape_1d(int64_t n);
/* Arithmetic on dimensions that may be open; what does not fit becomes open. */
int64_t dim_add(int64_t a, int64_t b);
int64_t dim_mul(int64_t a, int64_t b);
/* The more general of two: equal ones stay, others are open. */
void shape_join(struct shape *a, const struct shape *b);
/* s with a new dimension of size n at axis; unknown if there is no room. */
struct shape shape_stacked(const struct shape *s, int64_t n, int axis);

/* Counts of FLOPs, elements and bytes: -1 is unknown, and so is what does not fit. */
int64_t count_mul(int64_t a, int64_t b);
int64_t count_add(int64_t a, int64_t b);
const struct shape *node_in_shape(const struct graph *g, const struct node *n, uint32_t slot);
int64_t node_in_count(const struct graph *g, const struct node *n, uint32_t slot);
int64_t node_out_count(const struct graph *g, const struct node *n); /* of output 0 */
/* Dimension i of a shape, from the end if i < 0; -1 if it has none. */
int64_t shape_at(const struct shape *s, int i);

#define FLOPS(fn, cost) flops_fn fn;
#define FLOPS_PART(fn, cost) flops_fn fn;
#define FLOPS_SHAPE(fn) flops_fn fn;
#define FLOPS_ROWS(fn, cost, slot) flops_fn fn;
#define WEIGHT(slot, axis) axis_fn axis;
#define WEIGHT_EITHER(slot, axis) axis_fn axis;
#define NO_WEIGHT
#define OP(domain, name, versions, infer, fold, flops, weight) \
    infer_fn infer;                                            \
    fold_fn fold;                                              \
    flops weight
#include "graph/ops/ops.def"
#undef FLOPS
#undef FLOPS_PART
#undef FLOPS_SHAPE
#undef FLOPS_ROWS
#undef WEIGHT
#undef WEIGHT_EITHER
#undef NO_WEIGHT
#undef OP

#endif
