/* align.h -- which operators of two sides are the same work.
 *
 * An engine fuses nodes of the model, another does not; an exporter renames them. Operators belong
 * together if they cover a node of the model in common, directly or through others; else if they
 * have one name and type; else if just one of each side has the name. What is left over is aligned
 * in the order of execution: as renamed, where type, operations and weight are the same, or, if
 * nothing at all was aligned before and nothing but types is known, where all types are.
 * What then has no counterpart stands alone. */
#ifndef COMPARE_ALIGN_H
#define COMPARE_ALIGN_H

#include "base/arena.h"

#define ALIGN_NONE SIZE_MAX

struct align_op {
    const char *name, *type; /* "": not known */
    const char *nodes;       /* JSON array of names of the nodes that it covers; "": not known */
    const char *work;        /* what it computes, in some words; "": not known */
    double ns[2];            /* on either side; NAN: it is not there */
};

struct align_group {
    const char *name; /* "a"; "a + b" for several; "a → b" if it was renamed */
    const char *type; /* of the operator that takes longest */
    size_t n[2];      /* operators of either side */
};

/* `{0}`; align_release() it in any case. */
struct align {
    struct arena text;
    struct align_group *group; /* in the order of their first operators */
    size_t n, cap;
    size_t *group_of; /* by operator; ALIGN_NONE: it is on neither side */
};

/* Operators in the order in which they run. Their texts need not stay. 0 or OPM_ENOMEM. */
int align_ops(struct align *a, const struct align_op *op, size_t n);
/* By name and type, and by the name alone: for what is no operators. */
int align_names(struct align *a, const struct align_op *op, size_t n);
/* Of what was aligned, one group for each type, which is its name. 0 or OPM_ENOMEM. */
int align_by_type(struct align *a, size_t nops);
void align_release(struct align *a);

#endif
