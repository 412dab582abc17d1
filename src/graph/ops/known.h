/* known.h -- elements of small values, as far as they are known before anything runs.
 *
 * Shape arithmetic is done on integers that may be open dimensions: elem_open(). */
#ifndef GRAPH_OPS_KNOWN_H
#define GRAPH_OPS_KNOWN_H

#include "graph/ops/ops.h"

/* Constants are computed up to so many elements each, and so many bytes in all. */
#define FOLD_ELEMS_MAX 4096
#define FOLD_MAX_BYTES ((size_t)64 << 20)

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

/* Can a tensor be held in struct elems: a type of numbers, and few of them? */
bool elems_fit(enum tensor_type type, const struct shape *s);
/* Fill e->i or e->f, which has room, from t. False if an integer looks like an open one. */
bool elems_read(struct elems *e, const struct tensor *t);

/* For folding, in graph_infer() only. Room for output `slot` as it was inferred, zeroed; NULL if
 * that is not concrete and small, or of a type that is not handled. */
struct elems *fold_result(const struct opview *o, uint32_t slot);
/* Give output `slot` its elements, which must match the type and shape it was given. */
void fold_set(const struct opview *o, uint32_t slot, struct elems *e);
/* Where element i of a tensor of shape `out` comes from in one of shape `in` that broadcasts to
 * it. */
int64_t fold_index(const struct shape *out, const struct shape *in, int64_t i);
/* Distance of neighbours in each dimension. */
void fold_strides(const struct shape *s, int64_t *stride);
/* The elements before and after an axis. */
void fold_around(const struct shape *s, int axis, int64_t *outer, int64_t *inner);
/* An element of e to one of out; integers and floats alike are 8 bytes. */
static inline void fold_move(struct elems *out, int64_t to, const struct elems *e, int64_t from)
{
    out->i[to] = e->i[from];
}

/* arith.c: operations between two elements. */
enum arith {
    ARITH_ADD,
    ARITH_SUB,
    ARITH_MUL,
    ARITH_DIV,
    ARITH_MOD,
    ARITH_MIN,
    ARITH_MAX,
    ARITH_POW,
    ARITH_AND,
    ARITH_OR,
    ARITH_XOR,
    ARITH_EQUAL, /* from here on: comparisons */
    ARITH_LESS,
    ARITH_GREATER,
    ARITH_LESS_EQUAL,
    ARITH_GREATER_EQUAL,
};
/* Wraps around like the machine; *bad for what has no result. */
int64_t arith_int(enum arith op, int64_t a, int64_t b, bool *bad);
double arith_float(enum arith op, double a, double b, bool *bad);
bool arith_compare(enum arith op, double a, double b);

#endif
