/* nbits_isa.c -- see nbits_isa.h. */
#include "engine/native/isa/nbits_isa.h"
#include "engine/native/isa/target.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

/* How far ahead of its use a weight is fetched where each is used once: in bytes. */
#define AHEAD 4096

typedef int32_t four_lanes __attribute__((vector_size(16)));
static inline four_lanes dot_plain(four_lanes acc, four_lanes u, four_lanes s)
{
    for (int t = 0; t < 4; t++)
        acc += ((u >> (8 * t)) & 0xff) * ((s << (24 - 8 * t)) >> 24);
    return acc;
}

#define N(name) name##_c
#define VL 4
#define STEP INT32_MAX
#define APART false
#define DOT(bits, part, u, s) dot_plain(part, u, s)
#define WIDEN(bits, part) (part)
#include "engine/native/isa/nbits_tmpl.h"

const struct nbits_isa nbits_c = { 4, tile_c, row_c, digits_c, widen_c };

#ifdef __x86_64__

/* Sums of two products by weights of up to 4 bits fit 16 bits, eight of them too; those by 8 bits
 * do not. */
TARGET_PUSH(TARGET_AVX2)
typedef int32_t eight_lanes __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) eight_lanes dot_avx2(const int bits, eight_lanes part,
                                                                  eight_lanes u, eight_lanes s)
{
    const __m256i low = _mm256_set1_epi16(0xff);
    __m256i x = (__m256i)u, y = (__m256i)s;

    if (bits < 8)
        return (eight_lanes)_mm256_add_epi16((__m256i)part, _mm256_maddubs_epi16(x, y));
    return part +
           (eight_lanes)_mm256_madd_epi16(_mm256_and_si256(x, low),
                                          _mm256_srai_epi16(_mm256_slli_epi16(y, 8), 8)) +
           (eight_lanes)_mm256_madd_epi16(_mm256_srli_epi16(x, 8), _mm256_srai_epi16(y, 8));
}

#define N(name) name##_avx2
#define VL 8
#define STEP 4
#define APART false
#define DOT(bits, part, u, s) dot_avx2(bits, part, u, s)
#define WIDEN(bits, part) \
    ((bits) < 8 ? (vi)_mm256_madd_epi16((__m256i)(part), _mm256_set1_epi16(1)) : (part))
#include "engine/native/isa/nbits_tmpl.h"
TARGET_POP

const struct nbits_isa nbits_avx2 = { 8, tile_avx2, row_avx2, digits_avx2, widen_avx2 };

TARGET_PUSH(TARGET_VNNI)
#define N(name) name##_vnni
#define VL 16
#define STEP INT32_MAX
#define APART true
#define DOT(bits, part, u, s) ((vi)_mm512_dpbusd_epi32((__m512i)(part), (__m512i)(u), (__m512i)(s)))
#define WIDEN(bits, part) (part)
#include "engine/native/isa/nbits_tmpl.h"
TARGET_POP

const struct nbits_isa nbits_vnni = { 16, tile_vnni, row_vnni, digits_vnni, widen_vnni };
#endif
