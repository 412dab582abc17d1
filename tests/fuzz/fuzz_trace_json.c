/* fuzz_trace_json.c -- any bytes as a JSON trace, whole and in pieces: the same comes out. The
 * first byte picks the dialect, the second the size of the pieces. */
#include "in_pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct dialect *const dialects[] = { &dialect_chrome, &dialect_kineto,
                                                      &dialect_ort };

    if (len >= 2)
        read_both_ways(dialects[data[0] % 3], data + 2, len - 2, 1 + data[1] % 61);
    return 0;
}
