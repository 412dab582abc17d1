/* torch_ops.h -- operators of PyTorch: a name, and shapes and types of inputs, make one.
 *
 * Either PyTorch's observers tell of a call (torch_hook.h), or its emit_nvtx() names a range
 *     aten::addmm, seq = 12, op_id = 34, sizes = [[64], [8, 32], [32, 64]]
 * where numbers differ from call to call. */
#ifndef DEVICE_CUDA_TORCH_OPS_H
#define DEVICE_CUDA_TORCH_OPS_H

#include "base/common.h"

#include <opmeter/opmeter.h>

#define TORCH_INPUTS_MAX 16
#define TORCH_RANK_MAX 12
#define TORCH_NAME_MAX 256 /* longer names are cut */
#define TORCH_NO_TYPE 255

/* 128 bits that stand for a call, by which calls are told apart. */
struct torch_hash {
    uint64_t low, high;
};

/* An input. One of no dimensions and no type may be no tensor at all, but keeps its place. */
struct torch_input {
    const int64_t *dims;
    uint8_t rank;
    uint8_t type; /* PyTorch's number of it, or TORCH_NO_TYPE */
};

struct torch_call {
    const char *name;
    size_t name_len;
    uint32_t ninputs;
    struct torch_input in[TORCH_INPUTS_MAX];
};

/* What a text says; its name points into it, its shapes into dims. False: it is no operator's. */
bool torch_call_read(const char *text, struct torch_call *out,
                     int64_t dims[TORCH_INPUTS_MAX * TORCH_RANK_MAX]);

/* Is it a mark of PyTorch's users and tools, in the form in which it names operators? */
bool torch_call_is_annotation(const struct torch_call *c);

/* The operator of a call, described at its first; NULL if memory is short. From any thread;
 * without a lock but for the first call of a thread. */
opm_op *torch_op_of(const struct torch_call *c);

/* The same in two steps, for those that need not write a call down to know what it is: what the
 * thread found last by a hash of its own making, or NULL, and what was found then. Whoever calls
 * with equal hashes means the same operator. */
opm_op *torch_op_seek(struct torch_hash hash);
opm_op *torch_op_find(struct torch_hash hash, const struct torch_call *c);

#endif
