/* figure.h -- one figure of all processes of two sides, and what it tells of their difference; the
 * statistics are those that trials.h describes. */
#ifndef COMPARE_FIGURE_H
#define COMPARE_FIGURE_H

#include "compare/trials.h"

/* What processes took. Of each there are variants: the first as measured, the others with its
 * iterations drawn again. `{0}`; figure_release() it in any case. */
struct figure {
    double *ns[2]; /* n[side] * variants; NAN: it did not run in the process */
    size_t n[2], variants;
    double resolution_ns;             /* a change must be beyond it */
    double *log[2], *room[2], *drawn; /* for estimating */
};

/* For n processes of each side. False: no memory. */
bool figure_init(struct figure *f, const size_t n[2], size_t variants, int draws);
void figure_release(struct figure *f);
/* Everything of *e but op and verdict, which says whether it has a test: TRIALS_ONE_SIDED or
 * TRIALS_UNSURE, the latter with change NAN if it has none. Processes come in blocks unless they
 * are unpaired. */
void figure_estimate(struct figure *f, const struct trials_options *o, struct trials_estimate *e);

#endif
