/* conv.h -- a convolution's geometry and packed weights. */
#ifndef NATIVE_CONV_H
#define NATIVE_CONV_H

#include "engine/native/math/window.h"

struct conv {
    struct window w;
    struct shape out;
    int64_t n, ic, oc, groups, icg; /* icg: input channels of a group */
    bool depthwise, weights_const;
    bool pointwise; /* 1 x 1, nothing skipped: columns are the input's own rows */
    float *packed;  /* by group */
    int64_t packed_group;
    bool rows;          /* output positions are rows: conv_rows.c */
    float *packed_rows; /* for it */
};

/* Geometry from the node and the shapes of input and weights. */
int conv_init(struct conv *c, struct op *op, const struct shape *in, const struct shape *w,
              opm_error *err);

/* conv_rows.c: for few output positions; the kernel's prepare() and run() leave the rest to them.
 */
bool conv_rows_fit(const struct conv *c);
int conv_rows_prepare(struct op *op, struct conv *c, opm_error *err);
int conv_rows_run(struct op *op, const struct conv *c);

#endif
