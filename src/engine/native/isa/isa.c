/* isa.c -- which inner loops this processor can run; see isa.h. */
#include "engine/native/isa/isa.h"

#include "base/environment.h"

#include <stdlib.h>
#include <string.h>

const struct isa *isa_get(enum isa_kind kind)
{
    switch (kind) {
    case ISA_C:
        return &isa_c;
#ifdef __x86_64__
    case ISA_AVX2:
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &isa_avx2 : NULL;
    case ISA_AVX512:
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
                       __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") &&
                       __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")
                   ? &isa_avx512
                   : NULL;
#endif
    default:
        return NULL;
    }
}

const struct isa *isa_best(void)
{
    static const char *const name[ISA_N] = { "c", "avx2", "avx512" };
    const char *want = environment_get("OPMETER_ISA");
    const struct isa *isa = NULL;

    for (int k = ISA_N - 1; k >= 0 && !isa; k--)
        if (!want || strcmp(want, name[k]) == 0)
            isa = isa_get((enum isa_kind)k);
    return isa ? isa : &isa_c;
}
