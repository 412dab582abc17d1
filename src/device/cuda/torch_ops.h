/* torch_ops.h -- operators of PyTorch out of what its emit_nvtx() names ranges:
 *     aten::addmm, seq = 12, op_id = 34, sizes = [[64], [8, 32], [32, 64]]
 * Numbers differ from call to call; name and sizes make the operator. */
#ifndef DEVICE_CUDA_TORCH_OPS_H
#define DEVICE_CUDA_TORCH_OPS_H

#include "base/common.h"

#include <opmeter/opmeter.h>

/* The operator of a text, described at its first call; NULL if the text is none, or memory is
 * short. From any thread. */
opm_op *torch_op_of(const char *text);

#endif
