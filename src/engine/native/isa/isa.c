/* isa.c -- which inner loops this processor can run; see isa.h. */
#include "engine/native/isa/isa.h"

#include "base/capped.h"
#include "base/environment.h"
#include "base/error.h"
#include "engine/native/isa/bf16_isa.h"
#include "engine/native/isa/half.h"
#include "engine/native/isa/loops_isa.h"
#include "engine/native/isa/nbits_isa.h"
#include "engine/native/isa/nhwc_isa.h"
#include "engine/native/isa/q8_isa.h"
#include "engine/native/isa/rows_isa.h"
#include "engine/native/isa/sparse_isa.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#ifdef __aarch64__
#include <sys/auxv.h>
#endif

const char *const isa_names[ISA_N] = {
#define X(kind, name) name,
    ISA_SETS(X)
#undef X
};

/* Bits of the kernel's interface, which older headers do not have. */
#define HWCAP_HAS_DOTPROD (1ul << 20)
#define HWCAP2_HAS_I8MM (1ul << 13)
#define HWCAP2_HAS_BF16 (1ul << 14)

static struct isa set[ISA_N]; /* name NULL: not to be had */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void put(enum isa_kind kind, const struct isa *fp32, const struct q8_isa *q8,
                const struct nhwc_isa *nhwc, const struct sparse_isa *sparse,
                const struct half_isa *half, const struct loops_isa *loops,
                const struct nbits_isa *nbits, const struct rows_isa *rows)
{
    set[kind] = *fp32;
    set[kind].name = isa_names[kind];
    set[kind].q8 = q8;
    set[kind].nhwc = nhwc;
    set[kind].sparse = sparse;
    set[kind].half = half;
    set[kind].loops = loops;
    set[kind].nbits = nbits;
    set[kind].rows = rows;
}

/* The one place that asks what the processor has. */
static void pick(void)
{
    put(ISA_C, &isa_c, &q8_c, &nhwc_c, &sparse_c, &half_c, &loops_c, &nbits_c, &rows_c);
#ifdef __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma"))
        return;
    put(ISA_AVX2, &isa_avx2, &q8_avx2, &nhwc_avx2, &sparse_avx2, &half_avx2, &loops_avx2,
        &nbits_avx2, &rows_avx2);
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq") ||
        !__builtin_cpu_supports("avx512bw") || !__builtin_cpu_supports("avx512vl"))
        return;
    bool vnni = __builtin_cpu_supports("avx512vnni");

    put(ISA_AVX512, &isa_avx512, vnni && __builtin_cpu_supports("avx512vbmi") ? &q8_vnni : &q8_avx2,
        vnni ? &nhwc_vnni : &nhwc_avx2, &sparse_avx512, &half_avx2, &loops_avx512,
        vnni ? &nbits_vnni : &nbits_avx2, &rows_avx512);
    if (!vnni || !__builtin_cpu_supports("avx512vbmi") || !q8_amx_allowed())
        return;
    put(ISA_AMX, &isa_avx512, &q8_amx, &nhwc_amx, &sparse_avx512, &half_avx2, &loops_avx512,
        &nbits_vnni, &rows_avx512);
#elif defined(__aarch64__)
    static struct rows_isa rows_neon;

    /* What the compiler makes of plain loops is NEON already; functions of doubles say more. */
    rows_neon = rows_c;
    rows_neon.real = &fp64_neon;
    put(ISA_NEON, &isa_neon, &q8_neon, &nhwc_neon, &sparse_neon, &half_neon, &loops_neon,
        &nbits_neon, &rows_neon);
    if (!(getauxval(AT_HWCAP) & HWCAP_HAS_DOTPROD))
        return;
    put(ISA_DOTPROD, &isa_neon, &q8_dotprod, &nhwc_dotprod, &sparse_neon, &half_neon, &loops_neon,
        &nbits_dotprod, &rows_neon);
    if (!(getauxval(AT_HWCAP2) & HWCAP2_HAS_I8MM))
        return;
    put(ISA_I8MM, &isa_neon, &q8_i8mm, &nhwc_i8mm, &sparse_neon, &half_neon, &loops_neon,
        &nbits_i8mm, &rows_neon);
    if (!(getauxval(AT_HWCAP2) & HWCAP2_HAS_BF16))
        return;
    put(ISA_BF16, &isa_neon, &q8_i8mm, &nhwc_i8mm, &sparse_neon, &half_bf16, &loops_neon,
        &nbits_i8mm, &rows_neon);
    set[ISA_BF16].bf16 = &bf16_neon;
#endif
}

const struct isa *isa_get(enum isa_kind kind)
{
    pthread_once(&once, pick);
    return set[kind].name ? &set[kind] : NULL;
}

const struct isa *isa_host(void)
{
    int k = ISA_N - 1;

    while (!isa_get((enum isa_kind)k))
        k--;
    return &set[k];
}

int isa_choose(const struct isa **out, opm_error *err)
{
    const char *want = environment_get("OPMETER_ISA");
    char names[64] = "";
    struct capped to = capped_of(names, sizeof(names));
    bool known = false;

    *out = want ? NULL : isa_host();
    for (int k = 0; k < ISA_N && want; k++) {
        bool wanted = strcmp(want, isa_names[k]) == 0;

        known |= wanted;
        if (!isa_get((enum isa_kind)k))
            continue;
        if (wanted)
            *out = &set[k];
        capped_adds(&to, k ? ", " : "");
        capped_adds(&to, isa_names[k]);
    }
    if (*out)
        return 0;
    return opm__fail(err, OPM_EINVAL, "OPMETER_ISA=%.40s: %s; there is: %s", want,
                     known ? "this processor does not have it" : "no such instruction set",
                     capped_str(&to));
}
