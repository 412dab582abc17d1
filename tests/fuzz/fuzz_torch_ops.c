/* fuzz_torch_ops.c -- texts of NVTX ranges, which may be anything, as PyTorch's operators. */
#include "device/cuda/torch_ops.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    char *text = malloc(len + 1);
    int64_t dims[TORCH_INPUTS_MAX][TORCH_RANK_MAX];
    opm_tensor in[TORCH_INPUTS_MAX];
    struct torch_text t;

    if (!text)
        return 0;
    if (len)
        memcpy(text, data, len);
    text[len] = '\0';
    if (torch_text_read(text, &t)) {
        uint32_t n = torch_text_inputs(&t, in, dims);

        if (!t.name_len || t.name_len > strlen(text) || n > TORCH_INPUTS_MAX)
            abort();
        for (uint32_t i = 0; i < n; i++)
            if (in[i].ndim > TORCH_RANK_MAX || in[i].dims != dims[i])
                abort();
    }
    free(text);
    return 0;
}
