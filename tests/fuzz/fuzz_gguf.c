/* fuzz_gguf.c -- any bytes as a GGUF file. */
#include "run/gguf.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct gguf_file f;
    opm_error err = { 0 };

    if (gguf_read(data, len, len, "fuzz", &f, &err)) {
        if (!err.code || !err.msg[0])
            abort(); /* failed, and said nothing */
        return 0;
    }
    if (f.ntype > GGUF_TYPES_MAX || f.missing < 0 || strlen(f.name) >= sizeof(f.name))
        abort();
    return 0;
}
