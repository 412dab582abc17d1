/* nhwc_isa.c -- see nhwc_isa.h. */
#include "engine/native/nhwc_isa.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

static inline uint8_t nhwc_byte(int32_t scaled, const struct nhwc_end *end)
{
    int64_t v = (int64_t)scaled + end->zero;

    return (uint8_t)MIN(MAX(v, (int64_t)end->lo), (int64_t)end->hi);
}

/* Plain C: four lanes, one unit at a time. */
typedef int32_t vi_plain __attribute__((vector_size(16)));
typedef float vf_plain __attribute__((vector_size(16)));

static inline vi_plain dot_c(vi_plain acc, vi_plain u, vi_plain s)
{
    for (int t = 0; t < 4; t++)
        acc += ((u >> (8 * t)) & 0xff) * ((s << (24 - 8 * t)) >> 24);
    return acc;
}

/* To nearest, ties to even; beyond 2^22 any number on the right side will do. */
static inline vi_plain nearest_c(vf_plain x)
{
    for (int i = 0; i < 4; i++)
        x[i] = x[i] > 65536 ? 65536 : x[i] < -65536 ? -65536 : x[i];
    return __builtin_convertvector((x + 12582912.0f) - 12582912.0f, vi_plain);
}

static inline void pack_c(uint8_t *out, vi_plain v, const struct nhwc_end *end)
{
    for (int i = 0; i < 4; i++)
        out[i] = nhwc_byte(v[i], end);
}

static void put_bytes(uint8_t *group, int place, const int8_t *four)
{
    memcpy(group + place * 4, four, 4);
}

#define N(name) name##_c
#define VL 4
#define LANE_BYTES 4
#define WEIGHTS vi_plain
#define LOAD_WEIGHTS(p) iload_c(p)
#define BYTES vi_plain
#define SPREAD(x) (x)
#define DOT(acc, u, s) dot_c(acc, u, s)
#define NEAREST(x) nearest_c(x)
#define PACK1(out, a, end) pack_c(out, a, end)
#define PACK2(out, a, b, end) (PACK1(out, a, end), PACK1((out) + 4, b, end))
#define PACK4(out, a, b, c, d, end) (PACK2(out, a, b, end), PACK2((out) + 8, c, d, end))
#define EACH_TILE(X) X(1, 1) X(1, 2)
#include "engine/native/nhwc_tmpl.h"
#undef N
#undef VL
#undef LANE_BYTES
#undef WEIGHTS
#undef LOAD_WEIGHTS
#undef BYTES
#undef SPREAD
#undef DOT
#undef NEAREST
#undef PACK1
#undef PACK2
#undef PACK4
#undef EACH_TILE

static const struct nhwc_isa nhwc_c = {
    "c",       1,
    { 2 },     { { tile_1_1_c, tile_1_2_c } },
    4,         place_c,
    put_bytes, bytes_c,
    put_tap_c, place_wide_c,
    room_c,    depthwise_c,
};

#ifdef __x86_64__

#ifdef __clang__
#pragma clang attribute push(__attribute__((target("avx2,fma"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,fma")
#endif
/* Even and odd bytes apart, as 16-bit numbers, weights so from the beginning. */
struct halves {
    __m256i even, odd;
};
typedef int32_t vi_ymm __attribute__((vector_size(32)));
#define INLINE static inline __attribute__((always_inline))

INLINE struct halves halves_of(vi_ymm x)
{
    return (struct halves){ _mm256_and_si256((__m256i)x, _mm256_set1_epi16(0xff)),
                            _mm256_srli_epi16((__m256i)x, 8) };
}

INLINE struct halves halves_load(const uint8_t *p)
{
    return (struct halves){ _mm256_loadu_si256((const __m256i *)p),
                            _mm256_loadu_si256((const __m256i *)(p + 32)) };
}

INLINE vi_ymm halves_dot(vi_ymm acc, struct halves a, struct halves b)
{
    return acc + (vi_ymm)_mm256_madd_epi16(a.even, b.even) +
           (vi_ymm)_mm256_madd_epi16(a.odd, b.odd);
}

static void put_halves(uint8_t *group, int place, const int8_t *four)
{
    int16_t wide[4] = { four[0], four[2], four[1], four[3] };

    group += place / 8 * 64 + place % 8 * 4;
    memcpy(group, wide, 4);
    memcpy(group + 32, wide + 2, 4);
}

INLINE __m256i words_ymm(vi_ymm a, vi_ymm b, const struct nhwc_end *end)
{
    return _mm256_adds_epi16(_mm256_packs_epi32((__m256i)a, (__m256i)b),
                             _mm256_set1_epi16((int16_t)end->zero));
}

INLINE __m256i limit_ymm(__m256i x, const struct nhwc_end *end)
{
    return _mm256_min_epu8(_mm256_max_epu8(x, _mm256_set1_epi8((char)end->lo)),
                           _mm256_set1_epi8((char)end->hi));
}

INLINE void pack4_ymm(uint8_t *out, vi_ymm a, vi_ymm b, vi_ymm c, vi_ymm d,
                      const struct nhwc_end *end)
{
    __m256i x = _mm256_packus_epi16(words_ymm(a, b, end), words_ymm(c, d, end));

    _mm256_storeu_si256((__m256i *)out, limit_ymm(x, end));
}

INLINE void pack2_ymm(uint8_t *out, vi_ymm a, vi_ymm b, const struct nhwc_end *end)
{
    __m256i x = words_ymm(a, b, end);

    x = _mm256_permute4x64_epi64(limit_ymm(_mm256_packus_epi16(x, x), end), 8);
    _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(x));
}

#define N(name) name##_avx2
#define VL 8
#define LANE_BYTES 8
#define WEIGHTS struct halves
#define LOAD_WEIGHTS(p) halves_load(p)
#define BYTES struct halves
#define SPREAD(x) halves_of(x)
#define DOT(acc, u, s) halves_dot(acc, u, s)
#define NEAREST(x) ((vi_ymm)_mm256_cvtps_epi32((__m256)(x)))
#define PACK1(out, a, end) ((void)(out), (void)(a), (void)(end)) /* units are two vectors */
#define PACK2(out, a, b, end) pack2_ymm(out, a, b, end)
#define PACK4(out, a, b, c, d, end) pack4_ymm(out, a, b, c, d, end)
#define EACH_TILE(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(2, 1) X(2, 2)
#undef INLINE
#include "engine/native/nhwc_tmpl.h"
#undef N
#undef VL
#undef LANE_BYTES
#undef WEIGHTS
#undef LOAD_WEIGHTS
#undef BYTES
#undef SPREAD
#undef DOT
#undef NEAREST
#undef PACK1
#undef PACK2
#undef PACK4
#undef EACH_TILE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static const struct nhwc_isa nhwc_avx2 = {
    "avx2",
    2,
    { 4, 2 },
    { { tile_1_1_avx2, tile_1_2_avx2, tile_1_3_avx2, tile_1_4_avx2 },
      { tile_2_1_avx2, tile_2_2_avx2 } },
    8,
    place_avx2,
    put_halves,
    bytes_avx2,
    put_tap_avx2,
    place_wide_avx2,
    room_avx2,
    depthwise_avx2,
};

#ifdef __clang__
#pragma clang attribute push(                                                          \
    __attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma"))), \
    apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512dq,avx512bw,avx512vl,avx512vnni,avx2,fma")
#endif
typedef int32_t vi_zmm __attribute__((vector_size(64)));
#define INLINE static inline __attribute__((always_inline))

INLINE __m512i words_zmm(vi_zmm a, vi_zmm b, const struct nhwc_end *end)
{
    return _mm512_adds_epi16(_mm512_packs_epi32((__m512i)a, (__m512i)b),
                             _mm512_set1_epi16((int16_t)end->zero));
}

INLINE __m512i bytes_zmm(vi_zmm a, vi_zmm b, vi_zmm c, vi_zmm d, const struct nhwc_end *end)
{
    __m512i x = _mm512_packus_epi16(words_zmm(a, b, end), words_zmm(c, d, end));

    return _mm512_min_epu8(_mm512_max_epu8(x, _mm512_set1_epi8((char)end->lo)),
                           _mm512_set1_epi8((char)end->hi));
}

INLINE void pack4_zmm(uint8_t *out, vi_zmm a, vi_zmm b, vi_zmm c, vi_zmm d,
                      const struct nhwc_end *end)
{
    _mm512_storeu_si512(out, bytes_zmm(a, b, c, d, end));
}

INLINE void pack2_zmm(uint8_t *out, vi_zmm a, vi_zmm b, const struct nhwc_end *end)
{
    __m512i x = words_zmm(a, b, end);

    x = _mm512_min_epi16(_mm512_max_epi16(x, _mm512_set1_epi16(end->lo)),
                         _mm512_set1_epi16(end->hi));
    _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi16_epi8(x));
}

INLINE void pack1_zmm(uint8_t *out, vi_zmm a, const struct nhwc_end *end)
{
    __m256i x = _mm256_adds_epi16(_mm512_cvtsepi32_epi16((__m512i)a),
                                  _mm256_set1_epi16((int16_t)end->zero));

    x = _mm256_min_epi16(_mm256_max_epi16(x, _mm256_set1_epi16(end->lo)),
                         _mm256_set1_epi16(end->hi));
    _mm_storeu_si128((__m128i *)out, _mm256_cvtepi16_epi8(x));
}

#define N(name) name##_vnni
#define VL 16
#define LANE_BYTES 4
#define WEIGHTS vi_zmm
#define LOAD_WEIGHTS(p) iload_vnni(p)
#define BYTES vi_zmm
#define SPREAD(x) (x)
#define DOT(acc, u, s) ((vi_zmm)_mm512_dpbusd_epi32((__m512i)(acc), (__m512i)(u), (__m512i)(s)))
#define NEAREST(x) ((vi_zmm)_mm512_cvtps_epi32((__m512)(x)))
#define PACK1(out, a, end) pack1_zmm(out, a, end)
#define PACK2(out, a, b, end) pack2_zmm(out, a, b, end)
#define PACK4(out, a, b, c, d, end) pack4_zmm(out, a, b, c, d, end)
#define UP_TO_6(X, u) X(u, 1) X(u, 2) X(u, 3) X(u, 4) X(u, 5) X(u, 6)
#define UP_TO_8(X, u) UP_TO_6(X, u) X(u, 7) X(u, 8)
#define UP_TO_12(X, u) UP_TO_8(X, u) X(u, 9) X(u, 10) X(u, 11) X(u, 12)
#define EACH_TILE(X) UP_TO_12(X, 1) UP_TO_12(X, 2) UP_TO_8(X, 3) UP_TO_6(X, 4)
#define OWN_DEPTHWISE
#undef INLINE
#include "engine/native/nhwc_tmpl.h"
#define INLINE static inline __attribute__((always_inline))

/* Depthwise: four rows of a column of the window are one group, so 64 channels' groups are four
 * vectors. A row's columns are brought into that form first and then used for every tap. */
static int row_groups(int rows)
{
    return (rows + 3) / 4;
}

static int64_t bytes_vnni(int64_t channels, int rows, int taps)
{
    return (channels + 63) / 64 * 64 * row_groups(rows) * taps * 4;
}

static int64_t place_wide_vnni(int64_t channel)
{
    return channel / 64 * 64 + channel / 4 % 4 * 16 + channel / 16 % 4 * 4 + channel % 4;
}

static void put_tap_vnni(uint8_t *w, int rows, int taps, int64_t channel, int r, int k, int8_t v)
{
    int64_t vectors = (int64_t)row_groups(rows) * taps, group = r / 4 * taps + k;

    w[((channel / 64 * vectors + group) * 64 + place_wide_vnni(channel % 64)) * 4 + r % 4] =
        (uint8_t)v;
}

static int64_t room_vnni(int rows, int64_t pixels)
{
    return pixels * row_groups(rows) * 256;
}

INLINE void columns(const struct nhwc_depthwise *d, int64_t c, int64_t pixels, const int groups)
{
    int64_t left = d->pitch - c;
    __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;

    for (int g = 0; g < groups; g++) {
        uint8_t *to = d->room + g * pixels * 256;

        for (int64_t i = 0; i < pixels; i++, to += 256) {
            __m512i r[4], a, b, e, f;

            for (int t = 0; t < 4; t++)
                r[t] = 4 * g + t < d->rows
                           ? _mm512_maskz_loadu_epi8(mask, d->row[4 * g + t] + i * d->pitch + c)
                           : _mm512_setzero_si512();
            a = _mm512_unpacklo_epi8(r[0], r[1]);
            b = _mm512_unpackhi_epi8(r[0], r[1]);
            e = _mm512_unpacklo_epi8(r[2], r[3]);
            f = _mm512_unpackhi_epi8(r[2], r[3]);
            _mm512_storeu_si512(to, _mm512_unpacklo_epi16(a, e));
            _mm512_storeu_si512(to + 64, _mm512_unpackhi_epi16(a, e));
            _mm512_storeu_si512(to + 128, _mm512_unpacklo_epi16(b, f));
            _mm512_storeu_si512(to + 192, _mm512_unpackhi_epi16(b, f));
        }
    }
}

INLINE void depthwise_wide(const struct nhwc_depthwise *d, int64_t c, const int groups,
                           const int taps)
{
    int64_t pixels = (d->n - 1) * d->step + (taps - 1) * d->dilation + 1, left = d->pitch - c;
    __mmask64 mask = left >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << left) - 1;
    const uint8_t *w = d->w + c / 64 * groups * taps * 256;

    columns(d, c, pixels, groups);
    for (int64_t i = 0; i < d->n; i++) {
        vi_zmm acc[4];

        for (int j = 0; j < 4; j++)
            acc[j] = iload_vnni(d->init + c + 16 * j);
        for (int g = 0; g < groups; g++)
            for (int k = 0; k < taps; k++) {
                const uint8_t *x = d->room + (g * pixels + i * d->step + k * d->dilation) * 256;

                for (int j = 0; j < 4; j++)
                    acc[j] = DOT(acc[j], iload_vnni(x + 64 * j),
                                 iload_vnni(w + (g * taps + k) * 256 + 64 * j));
            }
        for (int j = 0; j < 4; j++)
            acc[j] = scaled_vnni(acc[j], d->scale + c + 16 * j);
        _mm512_mask_storeu_epi8(d->out + i * d->pitch + c, mask,
                                bytes_zmm(acc[0], acc[1], acc[2], acc[3], &d->end));
    }
}

static void depthwise_vnni(const struct nhwc_depthwise *d)
{
    int groups = row_groups(d->rows);

    for (int64_t c = 0; c < d->pitch; c += 64)
        if (groups == 1 && d->taps == 3)
            depthwise_wide(d, c, 1, 3);
        else if (groups == 2 && d->taps == 5)
            depthwise_wide(d, c, 2, 5);
        else
            depthwise_wide(d, c, groups, d->taps);
}
#undef INLINE
#ifdef __clang__
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

#define NAME(u, m) tile_##u##_##m##_vnni,
static const struct nhwc_isa nhwc_vnni = {
    "vnni",
    4,
    { 12, 12, 8, 6 },
    { { UP_TO_12(NAME, 1) }, { UP_TO_12(NAME, 2) }, { UP_TO_8(NAME, 3) }, { UP_TO_6(NAME, 4) } },
    4,
    place_vnni,
    put_bytes,
    bytes_vnni,
    put_tap_vnni,
    place_wide_vnni,
    room_vnni,
    depthwise_vnni,
};
#undef NAME
#endif

const struct nhwc_isa *nhwc_isa(const struct isa *isa)
{
#ifdef __x86_64__
    if (isa == &isa_avx512 && __builtin_cpu_supports("avx512vnni"))
        return &nhwc_vnni;
    if (isa == &isa_avx512 || isa == &isa_avx2)
        return &nhwc_avx2;
#endif
    (void)isa;
    return &nhwc_c;
}
