/* peak_loops.c -- see peak_loops.h. Sums go to a sink, which keeps the compiler from leaving them
 * out. */
#include "run/peak_loops.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

#define CHAINS 12 /* that do not wait for each other: more than latency times units */

/* Sixteen bytes, which every processor of 64 bits has registers for. */
typedef float f32x4 __attribute__((vector_size(16)));
typedef int32_t i32x4 __attribute__((vector_size(16)));
typedef uint64_t u64x2 __attribute__((vector_size(16)));

/* double name(long loops, float *sink): CHAINS accumulators `a` of `lanes`, each beginning as
 * start(k), go through `step` in every loop, which is a multiplication and an addition per lane;
 * first() is a lane of one. `constants` are declared in front; target: the attribute
 * for what it is compiled for, or nothing. */
#define CHAIN_LOOP(target, name, type, constants, start, step, first, lanes) \
    target static double name(long loops, float *sink)                       \
    {                                                                        \
        constants;                                                           \
        type acc[CHAINS];                                                    \
                                                                             \
        for (int k = 0; k < CHAINS; k++)                                     \
            acc[k] = start(k);                                               \
        for (long i = 0; i < loops; i++) {                                   \
            _Pragma("GCC unroll 12") for (int k = 0; k < CHAINS; k++)        \
            {                                                                \
                type a = acc[k];                                             \
                                                                             \
                acc[k] = (step);                                             \
            }                                                                \
        }                                                                    \
        for (int k = 0; k < CHAINS; k++)                                     \
            *sink += (float)first(acc[k]);                                   \
        return (double)loops * CHAINS * (lanes)*2;                           \
    }

#define FIRST_PLAIN(a) (a)[0]
#define START_F32(k) ((f32x4){ 0 } + (float)(k))
#define START_I32(k) ((i32x4){ 0 } + (k))

CHAIN_LOOP(, fp32_plain, f32x4, const float m = 0.999f, START_F32, a *m + 0.001f, FIRST_PLAIN, 4)
/* As loops of plain C have them: bytes are widened when they are read. */
CHAIN_LOOP(, int8_plain, i32x4, i32x4 m = (i32x4){ 0 } + *(volatile int32_t *)&(int32_t){ 3 },
           START_I32, (i32x4)((u64x2)(a *m) ^ (u64x2)m), FIRST_PLAIN, 4)

static double read_plain(const char *p, size_t bytes, float *sink)
{
    const u64x2 *v = (const void *)p;
    u64x2 s[4] = { { 0 } };

    for (size_t i = 0; i < bytes / sizeof(*v); i += 16) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            s[k % 4] ^= v[i + (size_t)k];
    }
    *sink += (float)((s[0] ^ s[1] ^ s[2] ^ s[3])[0] & 1);
    return (double)bytes;
}

static double update_plain(char *p, size_t bytes)
{
    u64x2 *v = (void *)p;

    for (size_t i = 0; i < bytes / sizeof(*v); i += 16) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            v[i + (size_t)k] += 1;
    }
    return 2.0 * (double)bytes;
}

#if defined(__x86_64__)
#define ON(isa) __attribute__((target(isa)))
#define FP32_CONSTANTS(set) set(0.999f), c = set(0.001f)

CHAIN_LOOP(ON("avx2,fma"), fp32_avx2, __m256, __m256 m = FP32_CONSTANTS(_mm256_set1_ps),
           _mm256_set1_ps, _mm256_fmadd_ps(a, m, c), _mm256_cvtss_f32, 8)
CHAIN_LOOP(ON("avx512f"), fp32_avx512, __m512, __m512 m = FP32_CONSTANTS(_mm512_set1_ps),
           _mm512_set1_ps, _mm512_fmadd_ps(a, m, c), _mm512_cvtss_f32, 16)
/* Products of 16 bits, added in pairs: bytes are widened when they are packed. */
CHAIN_LOOP(ON("avx2"), int8_avx2, __m256i, __m256i m = _mm256_set1_epi16(3), _mm256_set1_epi32,
           _mm256_add_epi32(_mm256_madd_epi16(a, m), m), _mm256_cvtsi256_si32, 16)
CHAIN_LOOP(ON("avx512f,avx512vnni"), int8_vnni, __m512i, __m512i m = _mm512_set1_epi8(3),
           _mm512_set1_epi32, _mm512_dpbusd_epi32(a, m, m), _mm512_cvtsi512_si32, 64)

__attribute__((target("avx2"))) static double read_avx2(const char *p, size_t bytes, float *sink)
{
    __m256i s[4] = { _mm256_setzero_si256(), _mm256_setzero_si256(), _mm256_setzero_si256(),
                     _mm256_setzero_si256() };

    for (size_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            s[k % 4] =
                _mm256_xor_si256(s[k % 4], _mm256_load_si256((const void *)(p + i + 32 * k)));
    }
    s[0] = _mm256_xor_si256(_mm256_xor_si256(s[0], s[1]), _mm256_xor_si256(s[2], s[3]));
    *sink += (float)(_mm256_cvtsi256_si32(s[0]) & 1);
    return (double)bytes;
}

__attribute__((target("avx2"))) static double update_avx2(char *p, size_t bytes)
{
    __m256i one = _mm256_set1_epi32(1);

    for (size_t i = 0; i < bytes; i += 512) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++) {
            __m256i *v = (void *)(p + i + 32 * k);

            _mm256_store_si256(v, _mm256_add_epi32(_mm256_load_si256(v), one));
        }
    }
    return 2.0 * (double)bytes;
}

__attribute__((target("avx512f"))) static double read_avx512(const char *p, size_t bytes,
                                                             float *sink)
{
    __m512i s[4] = { _mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                     _mm512_setzero_si512() };

    for (size_t i = 0; i < bytes; i += 1024) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++)
            s[k % 4] = _mm512_xor_si512(s[k % 4], _mm512_load_si512(p + i + 64 * k));
    }
    s[0] = _mm512_xor_si512(_mm512_xor_si512(s[0], s[1]), _mm512_xor_si512(s[2], s[3]));
    *sink += (float)(_mm512_cvtsi512_si32(s[0]) & 1);
    return (double)bytes;
}

__attribute__((target("avx512f"))) static double update_avx512(char *p, size_t bytes)
{
    __m512i one = _mm512_set1_epi32(1);

    for (size_t i = 0; i < bytes; i += 1024) {
#pragma GCC unroll 16
        for (int k = 0; k < 16; k++) {
            void *v = p + i + 64 * k;

            _mm512_store_si512(v, _mm512_add_epi32(_mm512_load_si512(v), one));
        }
    }
    return 2.0 * (double)bytes;
}

__attribute__((target("clflushopt"))) static void forget_fast(const char *p, size_t bytes)
{
    for (size_t i = 0; i < bytes; i += 64)
        _mm_clflushopt((void *)(uintptr_t)(p + i));
}

static bool has_avx512(void)
{
    return __builtin_cpu_supports("avx512f");
}

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
#endif

double peak_fp32(long loops, float *sink)
{
#if defined(__x86_64__)
    if (has_avx512())
        return fp32_avx512(loops, sink);
    if (has_avx2())
        return fp32_avx2(loops, sink);
#endif
    return fp32_plain(loops, sink);
}

double peak_int8(long loops, float *sink)
{
#if defined(__x86_64__)
    if (has_avx512() && __builtin_cpu_supports("avx512vnni"))
        return int8_vnni(loops, sink);
    if (has_avx2())
        return int8_avx2(loops, sink);
#endif
    return int8_plain(loops, sink);
}

double peak_read(const char *p, size_t bytes, float *sink)
{
#if defined(__x86_64__)
    if (has_avx512())
        return read_avx512(p, bytes, sink);
    if (has_avx2())
        return read_avx2(p, bytes, sink);
#endif
    return read_plain(p, bytes, sink);
}

double peak_update(char *p, size_t bytes)
{
#if defined(__x86_64__)
    if (has_avx512())
        return update_avx512(p, bytes);
    if (has_avx2())
        return update_avx2(p, bytes);
#endif
    return update_plain(p, bytes);
}

void peak_forget(const char *p, size_t bytes)
{
#if defined(__x86_64__)
    unsigned a, b = 0, c, d;

    /* The old instruction waits for each line. */
    if (__get_cpuid_count(7, 0, &a, &b, &c, &d) && b & bit_CLFLUSHOPT)
        forget_fast(p, bytes);
    else
        for (size_t i = 0; i < bytes; i += 64)
            _mm_clflush(p + i);
    _mm_mfence();
#else
    (void)p;
    (void)bytes;
#endif
}
