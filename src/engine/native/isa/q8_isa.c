/* q8_isa.c -- see q8_isa.h. */
#include "engine/native/isa/q8_isa.h"
#include "engine/native/isa/target.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include "engine/native/isa/neon_dot.h"
#endif

typedef uint8_t bx __attribute__((vector_size(16)));
#define BYTES_LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define BYTES_HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define PAIRS_LOW 0, 1, 16, 17, 2, 3, 18, 19, 4, 5, 20, 21, 6, 7, 22, 23
#define PAIRS_HIGH 8, 9, 24, 25, 10, 11, 26, 27, 12, 13, 28, 29, 14, 15, 30, 31

/* Four products at a time, in plain C. */
typedef int32_t vi_plain __attribute__((vector_size(16)));
static inline vi_plain dot_c(vi_plain acc, vi_plain u, vi_plain s)
{
    for (int t = 0; t < 4; t++)
        acc += ((u >> (8 * t)) & 0xff) * ((s << (24 - 8 * t)) >> 24);
    return acc;
}

#define N(name) name##_c
#define VL 4
#define MR 2
#define NV 2
#define EACH_MR(X) X(1) X(2)
#define PREP vi_plain
#define PREP_U(x) (x)
#define PREP_S(x) (x)
#define DOT(acc, u, s) dot_c(acc, u, s)
#define DOT_SWAPPED(acc, s, u) dot_c(acc, u, s)
#include "engine/native/isa/q8_tmpl.h"

const struct q8_isa q8_c = {
    "c",          2,          4 * 2,       tile_uv_c,    tile_sv_c,   tile_bytes_c, interleave_c,
    end_c,        to_bytes_c, to_floats_c, add_scaled_c, sum_c,       range_c,      quantize_c,
    dequantize_c, largest_c,  pair_c,      lookup_c,     depthwise_c, NULL
};

#ifdef __x86_64__

/* Without VNNI: even and odd bytes apart, as 16-bit numbers, whose pairwise products fit. The
 * instruction that multiplies bytes would saturate. */
TARGET_PUSH(TARGET_AVX2)
struct halves {
    __m256i even, odd;
};
typedef int32_t vi_ymm __attribute__((vector_size(32)));
static inline __attribute__((always_inline)) struct halves halves_u(vi_ymm x)
{
    return (struct halves){ _mm256_and_si256((__m256i)x, _mm256_set1_epi16(0xff)),
                            _mm256_srli_epi16((__m256i)x, 8) };
}
static inline __attribute__((always_inline)) struct halves halves_s(vi_ymm x)
{
    return (struct halves){ _mm256_srai_epi16(_mm256_slli_epi16((__m256i)x, 8), 8),
                            _mm256_srai_epi16((__m256i)x, 8) };
}
static inline __attribute__((always_inline)) vi_ymm dot_avx2(vi_ymm acc, struct halves a,
                                                             struct halves b)
{
    return acc + (vi_ymm)_mm256_madd_epi16(a.even, b.even) +
           (vi_ymm)_mm256_madd_epi16(a.odd, b.odd);
}

#define CLAMP(x, lo, hi) ((vf)_mm256_min_ps(_mm256_max_ps((__m256)(x), (__m256)(lo)), (__m256)(hi)))
#define NEAREST(x) ((vi)_mm256_cvtps_epi32((__m256)(x)))
#define N(name) name##_avx2
#define VL 8
#define MR 3
#define NV 2
#define EACH_MR(X) X(1) X(2) X(3)
#define PREP struct halves
#define PREP_U(x) halves_u(x)
#define PREP_S(x) halves_s(x)
#define DOT(acc, u, s) dot_avx2(acc, u, s)
#define DOT_SWAPPED(acc, s, u) dot_avx2(acc, u, s)
#include "engine/native/isa/q8_tmpl.h"
TARGET_POP

const struct q8_isa q8_avx2 = { "avx2",          3,
                                8 * 2,           tile_uv_avx2,
                                tile_sv_avx2,    tile_bytes_avx2,
                                interleave_avx2, end_avx2,
                                to_bytes_avx2,   to_floats_avx2,
                                add_scaled_avx2, sum_avx2,
                                range_avx2,      quantize_avx2,
                                dequantize_avx2, largest_avx2,
                                pair_avx2,       lookup_avx2,
                                depthwise_avx2,  NULL };

TARGET_PUSH(TARGET_VBMI)
#define CLAMP(x, lo, hi) ((vf)_mm512_min_ps(_mm512_max_ps((__m512)(x), (__m512)(lo)), (__m512)(hi)))
#define NEAREST(x) ((vi)_mm512_cvtps_epi32((__m512)(x)))
#define N(name) name##_vnni
#define VL 16
#define MR 6
#define NV 4
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define PREP vi_vnni
#define PREP_U(x) (x)
#define PREP_S(x) (x)
#define DOT(acc, u, s) ((vi_vnni)_mm512_dpbusd_epi32((__m512i)(acc), (__m512i)(u), (__m512i)(s)))
#define DOT_SWAPPED(acc, s, u) DOT(acc, u, s)
#define OWN_LOOKUP
#define OWN_DEPTHWISE
#include "engine/native/isa/q8_tmpl.h"

/* Halves of the table by seven bits, then one of the two by the eighth. */
static void lookup_vbmi(uint8_t *out, const uint8_t *in, int64_t n, const uint8_t *table)
{
    const __m512i a = _mm512_loadu_si512(table), b = _mm512_loadu_si512(table + 64),
                  c = _mm512_loadu_si512(table + 128), d = _mm512_loadu_si512(table + 192);

    for (int64_t i = 0; i < n; i += 64) {
        __mmask64 some = n - i >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << (n - i)) - 1;
        __m512i x = _mm512_maskz_loadu_epi8(some, in + i), low = _mm512_permutex2var_epi8(a, x, b),
                high = _mm512_permutex2var_epi8(c, x, d);

        _mm512_mask_storeu_epi8(out + i, some,
                                _mm512_mask_blend_epi8(_mm512_movepi8_mask(x), low, high));
    }
}

/* The sliding groups of four bytes are picked out of 64 at once. */
static inline __attribute__((always_inline)) void
pick_rows(int32_t *out, int64_t n, const uint8_t *const *row, const int rows, const int groups,
          int step, const int8_t *w, __m512i index)
{
    for (int64_t i = 0; i < n; i += 16) {
        __m512i acc = _mm512_setzero_si512();

        for (int r = 0; r < rows; r++)
            for (int g = 0; g < groups; g++) {
                __m512i x =
                    _mm512_permutexvar_epi8(index, _mm512_loadu_si512(row[r] + i * step + 4 * g));
                int32_t four;

                memcpy(&four, w + (r * groups + g) * 4, sizeof(four));
                acc = _mm512_dpbusd_epi32(acc, x, _mm512_set1_epi32(four));
            }
        if (n - i >= 16)
            _mm512_storeu_si512(out + i, acc);
        else
            _mm512_mask_storeu_epi32(out + i, (__mmask16)((1u << (n - i)) - 1), acc);
    }
}

static void depthwise_picked(int32_t *out, int64_t n, const uint8_t *const *row, int rows,
                             int groups, int step, const int8_t *w)
{
    uint8_t pick[64];
    __m512i index;

    for (int i = 0; i < 64; i++)
        pick[i] = (uint8_t)(i / 4 * step + i % 4);
    index = _mm512_loadu_si512(pick);
    if (rows == 3 && groups == 1)
        pick_rows(out, n, row, 3, 1, step, w, index);
    else if (rows == 5 && groups == 2)
        pick_rows(out, n, row, 5, 2, step, w, index);
    else
        pick_rows(out, n, row, rows, groups, step, w, index);
}
TARGET_POP

#define VNNI                                                                                       \
    16 * 4, tile_uv_vnni, tile_sv_vnni, tile_bytes_vnni, interleave_vnni, end_vnni, to_bytes_vnni, \
        to_floats_vnni, add_scaled_vnni, sum_vnni, range_vnni, quantize_vnni, dequantize_vnni,     \
        largest_vnni, pair_vnni, lookup_vbmi, depthwise_picked
const struct q8_isa q8_vnni = { "vnni", 6, VNNI, NULL };
const struct q8_isa q8_amx = { "amx", 6, VNNI, &q8_block_amx };
#undef VNNI
#endif

#ifdef __aarch64__

/* 256 bytes are four tables of 64, of which each leaves alone what is beyond it. */
static void lookup_neon(uint8_t *out, const uint8_t *in, int64_t n, const uint8_t *table)
{
    uint8x16x4_t t[4];
    int64_t i = 0;

    for (int q = 0; q < 4; q++)
        t[q] = vld1q_u8_x4(table + 64 * q);
    for (; i + 16 <= n; i += 16) {
        uint8x16_t x = vld1q_u8(in + i), y = vqtbl4q_u8(t[0], x);

        for (int q = 1; q < 4; q++)
            y = vqtbx4q_u8(y, t[q], vsubq_u8(x, vdupq_n_u8((uint8_t)(64 * q))));
        vst1q_u8(out + i, y);
    }
    for (; i < n; i++)
        out[i] = table[in[i]];
}

/* Comparisons, as x86 has them, for NaN. */
#define NEON_CLAMP(x, lo, hi) \
    ((vf)vminq_f32(vmaxnmq_f32((float32x4_t)(x), (float32x4_t)(lo)), (float32x4_t)(hi)))
#define NEON_NEAREST(x) ((vi)vcvtnq_s32_f32((float32x4_t)(x)))

/* Without the dot product. */
#define N(name) name##_neon
#define VL 4
#define MR 3
#define NV 4
#define EACH_MR(X) X(1) X(2) X(3)
#define PREP struct neon_halves
#define PREP_U(x) neon_halves_u(x)
#define PREP_S(x) neon_halves_s(x)
#define DOT(acc, u, s) neon_dot_halves(acc, u, s)
#define DOT_SWAPPED(acc, s, u) neon_dot_halves(acc, u, s)
#define CLAMP(x, lo, hi) NEON_CLAMP(x, lo, hi)
#define NEAREST(x) NEON_NEAREST(x)
#define OWN_LOOKUP
#include "engine/native/isa/q8_tmpl.h"

#define N(name) name##_dotprod
#define VL 4
#define MR 4
#define NV 4
#define EACH_MR(X) X(1) X(2) X(3) X(4)
#define PREP neon_vi
#define PREP_U(x) neon_less_128(x)
#define PREP_S(x) (x)
#define DOT(acc, u, s) neon_sdot(acc, u, s)
#define DOT_SWAPPED(acc, s, u) neon_sdot(acc, u, s)
#define SIGNED_LACKS(less, s) neon_lacks(less, s)
#define CLAMP(x, lo, hi) NEON_CLAMP(x, lo, hi)
#define NEAREST(x) NEON_NEAREST(x)
#define OWN_LOOKUP
#include "engine/native/isa/q8_tmpl.h"

#define N(name) name##_i8mm
#define VL 4
#define MR 6
#define NV 4
#define EACH_MR(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define PREP neon_vi
#define PREP_U(x) (x)
#define PREP_S(x) (x)
#define DOT(acc, u, s) neon_usdot(acc, u, s)
#define DOT_SWAPPED(acc, s, u) neon_usdot(acc, u, s)
#define CLAMP(x, lo, hi) NEON_CLAMP(x, lo, hi)
#define NEAREST(x) NEON_NEAREST(x)
#define OWN_LOOKUP
#include "engine/native/isa/q8_tmpl.h"

#define SET(isa, rows)                                                                            \
    {                                                                                             \
#isa, rows, 4 * 4, tile_uv_##isa, tile_sv_##isa, tile_bytes_##isa, interleave_##isa,      \
            end_##isa, to_bytes_##isa, to_floats_##isa, add_scaled_##isa, sum_##isa, range_##isa, \
            quantize_##isa, dequantize_##isa, largest_##isa, pair_##isa, lookup_neon,             \
            depthwise_##isa, NULL                                                                 \
    }
const struct q8_isa q8_neon = SET(neon, 3);
const struct q8_isa q8_dotprod = SET(dotprod, 4);
const struct q8_isa q8_i8mm = SET(i8mm, 6);
#undef SET
#endif
