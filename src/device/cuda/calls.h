/* calls.h -- which calls of CUDA's runtime and driver are recorded.
 *
 * A call that is recorded costs the program some microseconds at worst, and programs ask the
 * runtime small questions (which device is it?) many times for each kernel. Those are left out; and
 * where CUPTI can watch single functions, it is not told to watch the others at all. */
#ifndef DEVICE_CUDA_CALLS_H
#define DEVICE_CUDA_CALLS_H

#include "device/cuda/cupti.h"

/* 0, or what CUPTI says. kind: KIND_RUNTIME or KIND_DRIVER. */
int calls_enable(const struct cupti *lib, uint32_t kind);

#endif
