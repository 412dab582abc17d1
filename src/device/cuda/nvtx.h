/* nvtx.h -- what is known of the NVTX ranges of this process, beside what was recorded. */
#ifndef DEVICE_CUDA_NVTX_H
#define DEVICE_CUDA_NVTX_H

#include <stdint.h>

/* Ranges that were operators of PyTorch, and the bytes of their texts. From any thread. */
void nvtx_torch_texts(uint64_t *ranges, uint64_t *bytes);

#endif
