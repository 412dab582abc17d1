/* fuzz_pb.c -- read any bytes as protobuf, descending into everything that has a length. */
#include "base/pb.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

static void walk(struct rd r, int depth)
{
    struct pb_field f;

    while (pb_next(&r, &f)) {
        if (f.wire == PB_LEN && depth < 16)
            walk(rd_of(f.p, f.len), depth + 1);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    walk(rd_of(data, len), 0);
    return 0;
}
