/* calls.h -- calls of CUDA's runtime and driver as spans of the threads that made them.
 *
 * The runtime's are taken as they happen, by a function that CUPTI calls at both ends: that costs
 * the program less than CUPTI's own records of them. The driver's come as records, for CUPTI leaves
 * out those that the runtime made.
 *
 * Programs ask the runtime small questions (which device is it?) many times for each kernel. Those
 * are left out: CUPTI is not told to watch them. */
#ifndef DEVICE_CUDA_CALLS_H
#define DEVICE_CUDA_CALLS_H

#include "device/cuda/cupti.h"

/* 0, or what CUPTI says. kind: KIND_RUNTIME or KIND_DRIVER. */
int calls_enable(const struct cupti *lib, void *subscriber, uint32_t kind);

/* A call of the runtime that returns, on the thread that made it; times are of opm_now(). args are
 * facts about it, a JSON object, or NULL. */
void calls_take(uint32_t cbid, const struct cupti_call *call, uint64_t start, uint64_t end,
                const char *args);

/* The name that people know a function by; domain: CUPTI_DOMAIN_RUNTIME or CUPTI_DOMAIN_DRIVER. */
void calls_name(const struct cupti *lib, uint32_t domain, uint32_t cbid, char *out, size_t size);

#endif
