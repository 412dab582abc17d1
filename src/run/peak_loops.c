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

static double fp32_plain(long loops, float *sink)
{
    f32x4 a[CHAINS];

    for (int k = 0; k < CHAINS; k++)
        a[k] = (f32x4){ 0 } + (float)k;
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = a[k] * 0.999f + 0.001f;
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += a[k][0];
    return (double)loops * CHAINS * 4 * 2;
}

/* As loops of plain C have them: bytes are widened when they are read. */
static double int8_plain(long loops, float *sink)
{
    i32x4 a[CHAINS], m = (i32x4){ 0 } + *(volatile int32_t *)&(int32_t){ 3 };

    for (int k = 0; k < CHAINS; k++)
        a[k] = (i32x4){ 0 } + k;
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = (i32x4)((u64x2)(a[k] * m) ^ (u64x2)m);
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += (float)a[k][0];
    return (double)loops * CHAINS * 4 * 2;
}

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
__attribute__((target("avx2,fma"))) static double fp32_avx2(long loops, float *sink)
{
    __m256 a[CHAINS], m = _mm256_set1_ps(0.999f), c = _mm256_set1_ps(0.001f);

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm256_set1_ps((float)k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm256_fmadd_ps(a[k], m, c);
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += _mm256_cvtss_f32(a[k]);
    return (double)loops * CHAINS * 8 * 2;
}

__attribute__((target("avx512f"))) static double fp32_avx512(long loops, float *sink)
{
    __m512 a[CHAINS], m = _mm512_set1_ps(0.999f), c = _mm512_set1_ps(0.001f);

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm512_set1_ps((float)k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm512_fmadd_ps(a[k], m, c);
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += _mm512_cvtss_f32(a[k]);
    return (double)loops * CHAINS * 16 * 2;
}

/* Products of 16 bits, added in pairs: bytes are widened when they are packed. */
__attribute__((target("avx2"))) static double int8_avx2(long loops, float *sink)
{
    __m256i a[CHAINS], m = _mm256_set1_epi16(3);

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm256_set1_epi32(k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm256_add_epi32(_mm256_madd_epi16(a[k], m), m);
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += (float)_mm256_cvtsi256_si32(a[k]);
    return (double)loops * CHAINS * 16 * 2;
}

__attribute__((target("avx512f,avx512vnni"))) static double int8_vnni(long loops, float *sink)
{
    __m512i a[CHAINS], m = _mm512_set1_epi8(3);

    for (int k = 0; k < CHAINS; k++)
        a[k] = _mm512_set1_epi32(k);
    for (long i = 0; i < loops; i++) {
#pragma GCC unroll 12
        for (int k = 0; k < CHAINS; k++)
            a[k] = _mm512_dpbusd_epi32(a[k], m, m);
    }
    for (int k = 0; k < CHAINS; k++)
        *sink += (float)_mm512_cvtsi512_si32(a[k]);
    return (double)loops * CHAINS * 64 * 2;
}

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
