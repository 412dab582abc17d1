/* kernels.h -- every kernel's prepare() and run(), declared from the table. */
#ifndef NATIVE_KERNELS_H
#define NATIVE_KERNELS_H

#include "engine/native/op.h"

#define KERNEL(name)                                   \
    int name##_prepare(struct op *op, opm_error *err); \
    int name##_run(struct op *op, opm_error *err);
#include "engine/native/kernels.def"

/* The prepare() of one that decides about its outputs while running. */
#define WHILE_RUNNING(name)                           \
    int name##_prepare(struct op *op, opm_error *err) \
    {                                                 \
        (void)op;                                     \
        (void)err;                                    \
        return NEED_DATA;                             \
    }

#endif
