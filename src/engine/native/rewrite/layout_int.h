/* layout_int.h -- what the files of plan_layout() share. */
#ifndef NATIVE_LAYOUT_INT_H
#define NATIVE_LAYOUT_INT_H

#include "engine/native/op.h"

struct layout {
    struct plan *p;
    int block;
    bool *fixed;       /* graph's values that depend on nothing but constants */
    int64_t *channels; /* of the graph's values that are made blocked; 0: they are not */
    int32_t *rank;     /* of those */
    uint32_t *blocked; /* their blocked form, or NO_VALUE */
    bool *plain;       /* the plain form exists */
    bool *last;        /* the blocked form is of bytes, with channels last */
    struct op *op;     /* the new list */
    size_t nop, cap;
    opm_error *err;
};

static inline bool layout_blocked(const struct layout *l, uint32_t v)
{
    return v < l->p->graph->nvalue && l->channels[v] > 0;
}

/* layout_q8.c: an 8-bit operator's form with channels last, and the channels of its output; NULL:
 * stays plain. */
const struct kernel *layout_q8_form(const struct layout *l, const struct op *op, int64_t *channels);
/* It is such a form. */
bool layout_q8_is(const struct op *op);
/* A Split of bytes into parts of their channels: each part can be an operator of its own. */
bool layout_q8_splits(const struct layout *l, const struct op *op);
/* But its output is plain. */
bool layout_q8_gives_plain(const struct op *op);
/* It reads input i with channels last. */
bool layout_q8_reads(const struct layout *l, const struct op *op, uint32_t i);

#endif
