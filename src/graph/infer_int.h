/* infer_int.h -- what the files of shape inference share.
 *
 * infer.c drives; one infer_*.c per family of operators has functions that set the outputs of one
 * node; fold.c and fold_*.c compute constants where operands are small and known. A function that
 * cannot tell leaves the output as it is (unknown); one that finds operands that cannot fit
 * returns op_fail(). */
#ifndef GRAPH_INFER_INT_H
#define GRAPH_INFER_INT_H

#include "graph/infer.h"
#include "graph/model_int.h"

/* Constants are computed up to so many elements each, and so many bytes in all. */
#define FOLD_ELEMS_MAX 4096
#define FOLD_MAX_BYTES ((size_t)64 << 20)

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

/* A node being inferred. */
struct op {
    struct infer *inf;
    struct graph *g;
    const struct node *n;
};

/* Elements of a small value as numbers: integers and bool in i, floats in f. An integer may be an
 * open dimension, or not known at all; floats are all known. */
struct elems {
    enum tensor_type type;
    struct shape shape; /* concrete */
    int64_t n;
    bool open; /* some element is not a number */
    union {
        int64_t *i;
        double *f;
    };
};

/* Integers that are not numbers, in a range that no real shape arithmetic meets: ELEM_ANY can be
 * anything, the ones after it are open dimensions, which are at least not negative. */
#define ELEM_ANY (INT64_MIN + ((int64_t)1 << 40))
static inline bool elem_open(int64_t e)
{
    return e >= ELEM_ANY && e <= ELEM_ANY + UINT32_MAX;
}
static inline bool elem_is_dim(int64_t e)
{
    return elem_open(e) && e != ELEM_ANY;
}
static inline int64_t elem_of_dim(int64_t dim)
{
    return dim >= 0 ? dim : ELEM_ANY - dim;
}
/* The dimension; DIM_OPEN for ELEM_ANY; a number unchanged, be it negative. */
static inline int64_t dim_of_elem(int64_t e)
{
    return !elem_open(e) ? e : e == ELEM_ANY ? DIM_OPEN : ELEM_ANY - e;
}

/* Inputs. Absent ones have type TENSOR_NONE and an unknown shape. */
bool op_has(const struct op *o, uint32_t slot);
enum tensor_type op_type(const struct op *o, uint32_t slot);
const struct shape *op_shape(const struct op *o, uint32_t slot);
int op_rank(const struct op *o, uint32_t slot); /* -1: unknown */
int64_t op_int(const struct op *o, const char *attr, int64_t missing);
/* The elements of an input if they are few and known; NULL otherwise. */
const struct elems *op_known(const struct op *o, uint32_t slot);
/* The same, integers only. */
const struct elems *op_known_ints(const struct op *o, uint32_t slot);
/* The one element of an input; false if it is not known. */
bool op_known_int(const struct op *o, uint32_t slot, int64_t *out);
bool op_known_float(const struct op *o, uint32_t slot, double *out);
/* A list that is an attribute in older opsets and an input in newer ones. *n is -1 if it is given
 * but not known, and 0 if it is absent (*given false) or empty. At most max integers; more, or open
 * ones, count as not known. */
int op_list(const struct op *o, const char *attr, uint32_t slot, int64_t *out, int64_t max,
            int64_t *n, bool *given);

/* Outputs. s NULL: unknown shape. Slots that the node does not have are ignored. */
void op_set(const struct op *o, uint32_t slot, enum tensor_type type, const struct shape *s);
void op_set_kind(const struct op *o, uint32_t slot, enum value_kind kind);
/* Same type and shape as an input. */
void op_same(const struct op *o, uint32_t slot, uint32_t in);
/* Room for the elements of a result, zeroed; NULL if it is too big or its type is not handled. */
struct elems *op_new_known(const struct op *o, enum tensor_type type, const struct shape *s);
/* Give output `slot` its elements, which must match the type and shape it was given. */
void op_set_known(const struct op *o, uint32_t slot, struct elems *e);

/* "FILE: node ...: " + fmt; returns OPM_EINVAL. */
__attribute__((format(printf, 2, 3))) int op_fail(const struct op *o, const char *fmt, ...);

/* Axis in [0, rank) of one in [-rank, rank), or an error. */
int op_axis(const struct op *o, int64_t axis, int rank, int *out);
/* NumPy's broadcasting, or an error. */
int op_broadcast(const struct op *o, const struct shape *a, const struct shape *b,
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

typedef int (*infer_fn)(const struct op *o);
typedef void (*fold_fn)(const struct op *o);

/* One line per operator; infer_ops.def has the table. */
#define OP(domain, name, infer, fold) int infer(const struct op *o);
#define FOLD(fn) void fn(const struct op *o);
#include "graph/infer_ops.def"
#undef OP
#undef FOLD

#endif
