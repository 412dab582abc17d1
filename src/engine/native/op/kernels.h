/* kernels.h -- every kernel's prepare() and run(), declared from the table. */
#ifndef NATIVE_KERNELS_H
#define NATIVE_KERNELS_H

#include "engine/native/op.h"

#define K(type, domain, min, max, name, flags, arg, raw) \
    int name##_prepare(struct op *op, opm_error *err);   \
    int name##_run(struct op *op, opm_error *err);
#include "engine/native/op/kernels.def"
#undef K

#endif
