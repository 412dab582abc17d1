/* nbits_isa.c -- see nbits_isa.h. */
#include "engine/native/isa/nbits_isa.h"
#include "engine/native/isa/target.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include "engine/native/isa/neon_dot.h"
#endif

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
#define BY_WORDS false
#define DOT(bits, part, u, s) dot_plain(part, u, s)
#define WIDEN(bits, part) (part)
#define FMADD(a, b, c) ((a) * (b) + (c))
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
#define BY_WORDS true
#define DOT(bits, part, u, s) dot_avx2(bits, part, u, s)
#define WIDEN(bits, part) \
    ((bits) < 8 ? (vi)_mm256_madd_epi16((__m256i)(part), _mm256_set1_epi16(1)) : (part))
#define FMADD(a, b, c) ((vf)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#include "engine/native/isa/nbits_tmpl.h"
TARGET_POP

const struct nbits_isa nbits_avx2 = { 8, tile_avx2, row_avx2, digits_avx2, widen_avx2 };

TARGET_PUSH(TARGET_VNNI)
#define N(name) name##_vnni
#define VL 16
#define STEP INT32_MAX
#define APART true
#define BY_WORDS true
#define DOT(bits, part, u, s) ((vi)_mm512_dpbusd_epi32((__m512i)(part), (__m512i)(u), (__m512i)(s)))
#define WIDEN(bits, part) (part)
#define FMADD(a, b, c) ((vf)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#include "engine/native/isa/nbits_tmpl.h"
TARGET_POP

const struct nbits_isa nbits_vnni = { 16, tile_vnni, row_vnni, digits_vnni, widen_vnni };
#endif

#ifdef __aarch64__

/* As with AVX2: sums of 16 bits where weights have up to 4. */
NEON_INLINE neon_vi dot_neon(const int bits, neon_vi part, neon_vi u, neon_vi s)
{
    if (bits < 8) {
        int16x8_t a = vmull_s8(vget_low_s8((int8x16_t)u), vget_low_s8((int8x16_t)s)),
                  b = vmull_high_s8((int8x16_t)u, (int8x16_t)s);

        return (neon_vi)vaddq_s16((int16x8_t)part, vpaddq_s16(a, b));
    }
    return neon_dot_halves(part, neon_halves_u(u), neon_halves_s(s));
}

/* Weights of up to 4 bits are signed bytes, too. */
NEON_INLINE neon_vi dot_dotprod(const int bits, neon_vi part, neon_vi u, neon_vi s)
{
    if (bits < 8)
        return neon_sdot(part, u, s);
    part = neon_sdot(part, neon_less_128(u), s);
    return part - neon_lacks((neon_vi){ 0 }, s);
}

#define N(name) name##_neon
#define VL 4
#define STEP 4
#define APART false
#define BY_WORDS true
#define DOT(bits, part, u, s) dot_neon(bits, part, u, s)
#define WIDEN(bits, part) ((bits) < 8 ? (vi)vpaddlq_s16((int16x8_t)(part)) : (part))
#define FMADD(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#include "engine/native/isa/nbits_tmpl.h"

#define N(name) name##_dotprod
#define VL 4
#define STEP INT32_MAX
#define APART true
#define BY_WORDS true
#define DOT(bits, part, u, s) dot_dotprod(bits, part, u, s)
#define WIDEN(bits, part) (part)
#define FMADD(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#include "engine/native/isa/nbits_tmpl.h"

#define N(name) name##_i8mm
#define VL 4
#define STEP INT32_MAX
#define APART true
#define BY_WORDS true
#define DOT(bits, part, u, s) neon_usdot(part, u, s)
#define WIDEN(bits, part) (part)
#define FMADD(a, b, c) ((vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#include "engine/native/isa/nbits_tmpl.h"

const struct nbits_isa nbits_neon = { 4, tile_neon, row_neon, digits_neon, widen_neon };
const struct nbits_isa nbits_dotprod = { 4, tile_dotprod, row_dotprod, digits_dotprod,
                                         widen_dotprod };
const struct nbits_isa nbits_i8mm = { 4, tile_i8mm, row_i8mm, digits_i8mm, widen_i8mm };
#endif
