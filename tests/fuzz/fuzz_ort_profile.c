/* fuzz_ort_profile.c -- any bytes as a profile of ONNX Runtime. */
#include "engine/ort/ort_int.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct ort_profile p;

    if (ort_profile_read(&p, data, len, NULL) < 0)
        return 0;
    for (size_t i = 0; i < p.nevent; i++)
        if (p.event[i].dur_us < 0 || p.event[i].node >= (p.event[i].session ? p.nsession : p.nnode))
            abort();
    ort_profile_release(&p);
    return 0;
}
