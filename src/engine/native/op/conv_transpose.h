/* conv_transpose.h -- a ConvTranspose's geometry. */
#ifndef NATIVE_CONV_TRANSPOSE_H
#define NATIVE_CONV_TRANSPOSE_H

#include "engine/native/math/window.h"

/* What op->state begins with once convtranspose_prepare() was there. */
struct convt {
    struct window w; /* in and out as the operator has them */
    int64_t n, ic, oc, groups;
};

#endif
