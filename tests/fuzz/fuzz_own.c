/* fuzz_own.c -- any bytes as trace events that opmeter exported, whole and in pieces: the same
 * comes out. The first byte picks the size of the pieces. */
#include "in_pieces.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len >= 1)
        read_both_ways(&dialect_own, data + 1, len - 1, 1 + data[0] % 61);
    return 0;
}
