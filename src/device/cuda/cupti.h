/* cupti.h -- NVIDIA's CUPTI, loaded at run time.
 *
 * One instance of it serves a process: where the program has loaded one already (PyTorch has), that
 * one must be used. Never unloaded: CUPTI does not survive it. */
#ifndef DEVICE_CUDA_CUPTI_H
#define DEVICE_CUDA_CUPTI_H

#include "device/cuda/cupti_abi.h"

#include <opmeter/opmeter_error.h>
#include <stdbool.h>

/* The functions by their names without "cupti"; optional ones may be NULL. */
struct cupti {
    void *handle;
    char path[4096]; /* of the library */
#define X(name, required, params) int(*name) params;
    CUPTI_FUNCTIONS(X)
#undef X
};

/* 0, or negative and err says why it cannot be used. OPMETER_CUPTI_LIB names one to use. */
int cupti_load(struct cupti *c, opm_error *err);

/* Why a call failed, in words. */
const char *cupti_text(const struct cupti *c, int result);

#endif
