/* infer.h -- types and shapes of a kernel's results, by the rules of graph/ops: a kernel does not
 * know shapes of its own. */
#ifndef NATIVE_INFER_H
#define NATIVE_INFER_H

#include "engine/native/op.h"
#include "graph/ops/known.h"

/* Set the outputs of op by the rule for the operator that its kernel is registered for. NEED_DATA
 * if the rule wants data that is not known yet; an error that names the node; or 0. Not for
 * forms that only rewriting makes. */
int kernel_infer(struct op *op, opm_error *err);
/* The same by a given rule, for what has none: forms that rewriting makes. */
int kernel_infer_by(struct op *op, infer_fn *rule, opm_error *err);

#define VIEW_KNOWN_MAX 6

/* op as the rules see it, for what they read together with a kernel (sliding_read(), ...). Between
 * view_begin() and view_end(), which frees. */
struct view {
    struct opview base;
    struct op *op;
    opm_error *err;
    int rc;    /* of the first result that could not be set */
    bool open; /* some result is not known */
    struct known {
        struct elems e;
        uint32_t slot;
        int64_t room[2 * SHAPE_RANK_MAX]; /* where e.i is, unless it has more elements */
    } known[VIEW_KNOWN_MAX];
    int nknown;
};
void view_begin(struct view *v, struct op *op, opm_error *err);
void view_end(struct view *v);

#endif
