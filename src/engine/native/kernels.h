/* kernels.h -- every kernel's prepare() and run(), declared from the table. */
#ifndef NATIVE_KERNELS_H
#define NATIVE_KERNELS_H

#include "engine/native/native.h"

#define K(op, domain, min, max, name, flags, arg, raw)   \
    int name##_prepare(struct op *op_, opm_error *err_); \
    int name##_run(struct op *op_, opm_error *err_);
#include "engine/native/kernels.def"
#undef K

#endif
