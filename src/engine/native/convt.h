/* convt.h -- a ConvTranspose's geometry. */
#ifndef NATIVE_CONVT_H
#define NATIVE_CONVT_H

#include "engine/native/window.h"

/* What op->state begins with once convtranspose_prepare() was there. */
struct convt {
    struct window w; /* in and out as the operator has them */
    int64_t n, ic, oc, groups;
};

#endif
