/* kernels.h -- every kernel's prepare() and run(), declared from the table. */
#ifndef NATIVE_KERNELS_H
#define NATIVE_KERNELS_H

#include "engine/native/op.h"

#define KERNEL(name)                                   \
    int name##_prepare(struct op *op, opm_error *err); \
    int name##_run(struct op *op, opm_error *err);
#include "engine/native/kernels.def"

#endif
