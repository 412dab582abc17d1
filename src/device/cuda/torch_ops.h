/* torch_ops.h -- operators of PyTorch out of what its emit_nvtx() names ranges:
 *     aten::addmm, seq = 12, op_id = 34, sizes = [[64], [8, 32], [32, 64]]
 * Numbers differ from call to call; name and sizes make the operator. */
#ifndef DEVICE_CUDA_TORCH_OPS_H
#define DEVICE_CUDA_TORCH_OPS_H

#include "base/common.h"

#include <opmeter/opmeter.h>

#define TORCH_INPUTS_MAX 16
#define TORCH_RANK_MAX 12

/* The parts of such a text; pointers into it. */
struct torch_text {
    const char *name;
    size_t name_len;
    const char *sizes; /* from the first bracket to the last; NULL: none */
    size_t sizes_len;
};

/* False if it is no such text. */
bool torch_text_read(const char *text, struct torch_text *out);
/* The sizes as inputs, dims[] being theirs; how many there are. One of no dimensions may be no
 * tensor at all, but keeps its place. */
uint32_t torch_text_inputs(const struct torch_text *t, opm_tensor in[TORCH_INPUTS_MAX],
                           int64_t dims[TORCH_INPUTS_MAX][TORCH_RANK_MAX]);

/* The operator of a text, described at its first call; NULL if the text is none, or memory is
 * short. From any thread. */
opm_op *torch_op_of(const char *text);

#endif
