/* fuzz_npz.c -- any bytes as .npz and as .npy. */
#include "run/npy.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct arena arena = { 0 };
    struct tensor t;
    struct npz z;

    if (npz_parse(&z, data, len, "fuzz", NULL) == 0) {
        for (size_t i = 0; i < z.n; i++)
            if (z.array[i].count)
                tensor_float(&z.array[i], z.array[i].count - 1);
        npz_close(&z);
    }
    if (npy_parse(&t, data, len, "fuzz", &arena, NULL) == 0 && t.count)
        tensor_float(&t, t.count - 1);
    arena_release(&arena);
    return 0;
}
