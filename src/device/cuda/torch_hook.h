/* torch_hook.h -- operators of PyTorch as its own observers are told of them.
 *
 * PyTorch calls whatever is registered with at::addGlobalCallback() at the beginning and end of
 * every operator, on every thread: what its profiler is built on. These are functions of C++ with
 * classes of which only PyTorch's headers tell the layout. The Python package reads those headers,
 * and comes here only where they say what is expected; and where things lie in a call that PyTorch
 * passes is not assumed but looked for, in one call whose arguments are known. Whatever does not
 * fit leaves PyTorch untouched, and operators come as NVTX ranges.
 *
 * Called by the Python package alone, on one thread, in this order. */
#ifndef DEVICE_CUDA_TORCH_HOOK_H
#define DEVICE_CUDA_TORCH_HOOK_H

#include "base/common.h"

#include <opmeter/opmeter.h>

/* What is handed to PyTorch by value: a class without a constructor of copies, so as C would. */
#define TORCH_HOOK_SCOPES_MAX 13
struct torch_callback {
    void **(*start)(void **context, const void *function);
    void (*end)(const void *function, void *context);
    double sampling;
    uint8_t tail[TORCH_HOOK_SCOPES_MAX + 3]; /* a flag for each scope, then what is needed: inputs,
                                              * outputs, ids */
};

/* Two tensors that exist: of 3 x 5 x 7 fp32 and 2 x 3 x 4 x 5 x 6 x 7 int64. */
struct torch_probe {
    const void *first, *second; /* their TensorImpl */
};

/* Watch calls for aten::is_same_size of the probe. library is libtorch_cpu.so, loaded; scopes are
 * bits by their numbers: those of operators, and those of what the user marks. 0, or -1: this
 * PyTorch is not what is expected; nothing was registered. */
OPM_API int opmeter_torch_look(const char *library, uint32_t nscopes, uint32_t op_scopes,
                               uint32_t mark_scopes, const struct torch_probe *probe);
/* After that call: 1 if it was seen and understood. Nothing is registered then. */
OPM_API int opmeter_torch_found(void);
/* Record operators and marks from now on (1), or no more (0). Operators only if they are wanted. */
OPM_API void opmeter_torch_watch(int on, int operators);

#endif
