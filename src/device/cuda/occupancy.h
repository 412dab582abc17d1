/* occupancy.h -- how many warps of a kernel fit on a multiprocessor, and how many it brought. */
#ifndef DEVICE_CUDA_OCCUPANCY_H
#define DEVICE_CUDA_OCCUPANCY_H

#include "device/cuda/cupti_abi.h"

struct occupancy {
    double blocks_per_sm; /* of the grid, if they were spread evenly */
    double warps_per_sm;
    double theoretical; /* 0 to 1: what registers, shared memory and block size allow */
    double achieved;    /* the same, if the grid is too small for that; an estimate */
};

/* False if the device's limits are not known or make no sense. */
int occupancy_of(const struct cupti_device *d, const struct cupti_kernel *k, struct occupancy *out);

#endif
