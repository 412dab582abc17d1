/* fuzz_torch_ops.c -- texts of NVTX ranges, which may be anything, as PyTorch's operators. */
#include "device/cuda/torch_ops.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);
    int64_t dims[TORCH_INPUTS_MAX * TORCH_RANK_MAX];
    struct torch_call call;

    if (!text)
        return 0;
    if (len)
        memcpy(text, data, len);
    text[len] = '\0';
    if (torch_call_read(text, &call, dims)) {
        if (!call.name_len || call.name_len > strlen(text) || call.ninputs > TORCH_INPUTS_MAX)
            abort();
        for (uint32_t i = 0; i < call.ninputs; i++)
            if (call.in[i].rank > TORCH_RANK_MAX || call.in[i].dims != dims + i * TORCH_RANK_MAX)
                abort();
        (void)torch_call_is_annotation(&call);
    }
    free(text);
    return 0;
}
