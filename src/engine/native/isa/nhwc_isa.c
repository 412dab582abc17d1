/* nhwc_isa.c -- see nhwc_isa.h. */
#include "engine/native/isa/nhwc_isa.h"
#include "engine/native/isa/q8_isa.h"
#include "engine/native/isa/target.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include "engine/native/isa/neon_dot.h"
#endif

#define INLINE static inline __attribute__((always_inline))

INLINE uint8_t nhwc_byte(int32_t v, int32_t zero, uint8_t lo, uint8_t hi)
{
    int64_t x = (int64_t)v + zero;

    return (uint8_t)MIN(MAX(x, (int64_t)lo), (int64_t)hi);
}

/* Plain C: four lanes, one unit at a time. */
typedef int32_t vi_plain __attribute__((vector_size(16)));
typedef float vf_plain __attribute__((vector_size(16)));

INLINE vi_plain dot_c(vi_plain acc, vi_plain u, vi_plain s)
{
    for (int t = 0; t < 4; t++)
        acc += ((u >> (8 * t)) & 0xff) * ((s << (24 - 8 * t)) >> 24);
    return acc;
}

INLINE vf_plain clamp_c(vf_plain x, vf_plain lo, vf_plain hi)
{
    for (int i = 0; i < 4; i++)
        x[i] = x[i] < lo[i] ? lo[i] : x[i] > hi[i] ? hi[i] : x[i];
    return x;
}

/* To nearest, ties to even; |x| < 2^22. */
INLINE vf_plain rint_c(vf_plain x)
{
    return (x + 12582912.0f) - 12582912.0f;
}

/* Beyond any byte one number is as good as another. */
INLINE vi_plain nearest_c(vf_plain x)
{
    const vf_plain most = { 65536, 65536, 65536, 65536 };

    return __builtin_convertvector(rint_c(clamp_c(x, -most, most)), vi_plain);
}

INLINE void pack_c(int nv, uint8_t *out, const vi_plain *v, int32_t zero, uint8_t lo, uint8_t hi)
{
    for (int i = 0; i < 4 * nv; i++)
        out[i] = nhwc_byte(v[i / 4][i % 4], zero, lo, hi);
}

INLINE void unpack_c(int nv, vi_plain *v, const uint8_t *in)
{
    for (int i = 0; i < 4 * nv; i++)
        v[i / 4][i % 4] = in[i];
}

/* The sums of 16 bytes are one instruction that every x86-64 has. */
static void window_sums(int32_t *sum, int64_t n, const uint8_t *in, const int32_t *px,
                        const int32_t *tap, int64_t taps, const uint8_t *mask, int64_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
#ifdef __x86_64__
        __m128i acc = _mm_setzero_si128();

        for (int64_t t = 0; t < taps; t++)
            for (int64_t b = 0; b < bytes; b += NHWC_UNIT) {
                __m128i x = _mm_loadu_si128((const __m128i *)(in + px[i] + tap[t] + b)),
                        some = _mm_loadu_si128((const __m128i *)(mask + b));

                acc = _mm_add_epi64(acc, _mm_sad_epu8(_mm_and_si128(x, some), _mm_setzero_si128()));
            }
        sum[i] = _mm_cvtsi128_si32(_mm_add_epi64(acc, _mm_srli_si128(acc, 8)));
#else
        sum[i] = 0;
        for (int64_t t = 0; t < taps; t++)
            for (int64_t b = 0; b < bytes; b++)
                sum[i] += (in + px[i] + tap[t])[b] & mask[b];
#endif
    }
}

static void put_bytes(uint8_t *group, int places, const int8_t *four)
{
    memcpy(group, four, (size_t)places * 4);
}

#define NHWC_COMMON(isa)                                                              \
    .place = place_##isa, .bytes = bytes_##isa, .put_tap = put_tap_##isa,             \
    .place_wide = place_wide_##isa, .room = room_##isa, .depthwise = depthwise_##isa, \
    .window_sums = window_sums, .add = add_##isa, .largest = largest_##isa, .sum = sum_##isa

#define N(name) name##_c
#define VL 4
#define NV_UNIT 4
#define LANE_BYTES 4
#define WEIGHTS vi_plain
#define LOAD_WEIGHTS(p) iload_c(p)
#define BYTES vi_plain
#define SPREAD(x) (x)
#define DOT(acc, u, s) dot_c(acc, u, s)
#define FMA(a, b, c) ((a) * (b) + (c))
#define CLAMP(x, lo, hi) clamp_c(x, lo, hi)
#define RINT(x) rint_c(x)
#define NEAREST(x) nearest_c(x)
#define MAX_BYTES(a, b) (((a) & (vall)((a) > (b))) | ((b) & ~(vall)((a) > (b))))
#define PACK(nv, out, v, zero, lo, hi, limit) pack_c(nv, out, v, zero, lo, hi)
#define UNPACK(nv, v, in) unpack_c(nv, v, in)
#define EACH_TILE(X) X(1, 1) X(1, 2)
#undef INLINE
#include "engine/native/isa/nhwc_tmpl.h"

const struct nhwc_isa nhwc_c = {
    .name = "c",
    .units = 1,
    .px = { 2 },
    .tile = { { tile_1_1_c, tile_1_2_c } },
    .lane_bytes = 4,
    .put = put_bytes,
    .deep = true,
    NHWC_COMMON(c),
};

#ifdef __x86_64__

TARGET_PUSH(TARGET_AVX2)
#define INLINE static inline __attribute__((always_inline))
/* Even and odd bytes apart, as 16-bit numbers, weights so from the beginning. */
struct halves {
    __m256i even, odd;
};
typedef int32_t vi_ymm __attribute__((vector_size(32)));
typedef float vf_ymm __attribute__((vector_size(32)));

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

static void put_halves(uint8_t *group, int places, const int8_t *four)
{
    for (int p = 0; p < places; p++, four += 4) {
        int16_t wide[4] = { four[0], four[2], four[1], four[3] };
        uint8_t *to = group + p / 8 * 64 + p % 8 * 4;

        memcpy(to, wide, 4);
        memcpy(to + 32, wide + 2, 4);
    }
}

/* Four vectors, or two: a unit. */
INLINE void pack_ymm(const int nv, uint8_t *out, const vi_ymm *v, int32_t zero, uint8_t lo,
                     uint8_t hi)
{
    __m256i z = _mm256_set1_epi16((int16_t)zero),
            a = _mm256_adds_epi16(_mm256_packs_epi32((__m256i)v[0], (__m256i)v[1]), z), b = a;

    if (nv == 4)
        b = _mm256_adds_epi16(_mm256_packs_epi32((__m256i)v[2], (__m256i)v[3]), z);
    a = _mm256_max_epu8(_mm256_packus_epi16(a, b), _mm256_set1_epi8((char)lo));
    a = _mm256_min_epu8(a, _mm256_set1_epi8((char)hi));
    if (nv == 4)
        _mm256_storeu_si256((__m256i *)out, a);
    else
        _mm_storeu_si128((__m128i *)out, _mm256_castsi256_si128(_mm256_permute4x64_epi64(a, 8)));
}

INLINE void unpack_ymm(const int nv, vi_ymm *v, const uint8_t *in)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i x, lo, hi;

    if (nv == 4) {
        x = _mm256_loadu_si256((const __m256i *)in);
        lo = _mm256_unpacklo_epi8(x, zero);
        hi = _mm256_unpackhi_epi8(x, zero);
        v[2] = (vi_ymm)_mm256_unpacklo_epi16(hi, zero);
        v[3] = (vi_ymm)_mm256_unpackhi_epi16(hi, zero);
    } else
        lo = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)in));
    v[0] = (vi_ymm)_mm256_unpacklo_epi16(lo, zero);
    v[1] = (vi_ymm)_mm256_unpackhi_epi16(lo, zero);
}

#define N(name) name##_avx2
#define VL 8
#define NV_UNIT 2
#define LANE_BYTES 8
#define WEIGHTS struct halves
#define LOAD_WEIGHTS(p) halves_load(p)
#define BYTES struct halves
#define SPREAD(x) halves_of(x)
#define DOT(acc, u, s) halves_dot(acc, u, s)
#define FMA(a, b, c) ((vf_ymm)_mm256_fmadd_ps((__m256)(a), (__m256)(b), (__m256)(c)))
#define CLAMP(x, lo, hi) \
    ((vf_ymm)_mm256_min_ps(_mm256_max_ps((__m256)(x), (__m256)(lo)), (__m256)(hi)))
#define RINT(x) \
    ((vf_ymm)_mm256_round_ps((__m256)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define NEAREST(x) ((vi_ymm)_mm256_cvtps_epi32((__m256)(x)))
#define MAX_BYTES(a, b) ((vall)_mm256_max_epu8((__m256i)(a), (__m256i)(b)))
#define PACK(nv, out, v, zero, lo, hi, limit) pack_ymm(nv, out, v, zero, lo, hi)
#define UNPACK(nv, v, in) unpack_ymm(nv, v, in)
#define EACH_TILE(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(2, 1) X(2, 2)
#define OWN_DEPTHWISE
#undef INLINE
#include "engine/native/isa/nhwc_tmpl.h"
#define INLINE static inline __attribute__((always_inline))

/* Taps go in pairs, a unit of channels at a time: 16-bit products of two taps are one sum. */

static int64_t tap_pairs(int rows, int taps)
{
    return ((int64_t)rows * taps + 1) / 2;
}

static int64_t bytes_avx2(int64_t pitch, int rows, int taps)
{
    return pitch * tap_pairs(rows, taps) * 4;
}

static int64_t place_wide_avx2(int64_t pitch, int64_t channel)
{
    (void)pitch;
    return channel / NHWC_UNIT * NHWC_UNIT + place_avx2(1, (int)(channel % NHWC_UNIT));
}

static void put_tap_avx2(uint8_t *w, int64_t pitch, int rows, int taps, int64_t channel, int r,
                         int k, int16_t v)
{
    int64_t tap = (int64_t)r * taps + k,
            pair = channel / NHWC_UNIT * tap_pairs(rows, taps) + tap / 2,
            place = place_wide_avx2(pitch, channel) % NHWC_UNIT;

    memcpy(w + (pair * NHWC_UNIT + place) * 4 + tap % 2 * 2, &v, sizeof(v));
}

static int64_t room_avx2(int rows, int taps, int64_t step, int64_t dilation)
{
    (void)rows;
    (void)taps;
    (void)step;
    (void)dilation;
    return 0;
}

/* One pixel of one unit, whose taps are at p + at. */
INLINE void depthwise_unit(const struct nhwc_depthwise *d, const uint8_t *const *p, int64_t at,
                           const int64_t pairs, const uint8_t *w, int64_t c, uint8_t *out)
{
    vi_ymm v[2];

    memcpy(v, d->init + c, sizeof(v));
#pragma GCC unroll 16
    for (int64_t j = 0; j < pairs; j++, w += 64) {
        __m256i a = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p[2 * j] + at))),
                b = _mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i *)(p[2 * j + 1] + at)));

        v[0] += (vi_ymm)_mm256_madd_epi16(_mm256_unpacklo_epi16(a, b),
                                          _mm256_loadu_si256((const __m256i *)w));
        v[1] += (vi_ymm)_mm256_madd_epi16(_mm256_unpackhi_epi16(a, b),
                                          _mm256_loadu_si256((const __m256i *)(w + 32)));
    }
    for (int j = 0; j < 2; j++)
        v[j] = (vi_ymm)_mm256_cvtps_epi32(_mm256_fmadd_ps(_mm256_cvtepi32_ps((__m256i)v[j]),
                                                          _mm256_loadu_ps(d->scale + c + 8 * j),
                                                          _mm256_loadu_ps(d->shift + c + 8 * j)));
    pack_ymm(2, out, v, d->end.zero, d->end.lo, d->end.hi);
}

static void depthwise_avx2(const struct nhwc_depthwise *d)
{
    int64_t taps = (int64_t)d->rows * d->taps, pairs = tap_pairs(d->rows, d->taps);
    /* Pixels whose windows lie inside: their taps move along together. */
    int64_t lo = d->first < 0 ? (-d->first + d->step - 1) / d->step : 0,
            hi = d->width - 1 - d->first - (d->taps - 1) * d->dilation;
    uint8_t zeros[NHWC_UNIT];

    memset(zeros, d->zero, sizeof(zeros));
    hi = hi < 0 ? 0 : hi / d->step + 1;
    for (int64_t c = 0; c < d->pitch; c += NHWC_UNIT) {
        const uint8_t *w = d->w + c * pairs * 4;

        for (int64_t i = 0; i < d->n; i++) {
            const uint8_t *p[NHWC_TAPS_MAX + 1];
            int64_t n = 0;

            for (int r = 0; r < d->rows; r++)
                for (int k = 0; k < d->taps; k++) {
                    int64_t x = d->first + i * d->step + k * d->dilation;

                    p[n++] = x >= 0 && x < d->width ? d->row[r] + x * d->pitch + c : zeros;
                }
            p[taps] = zeros;
            if (i < lo || i >= hi) {
                depthwise_unit(d, p, 0, pairs, w, c, d->out + i * d->pitch + c);
                continue;
            }
            p[taps] = p[0];
            for (int64_t at = 0; i < hi && i < d->n; i++, at += d->step * d->pitch)
                if (pairs == 5)
                    depthwise_unit(d, p, at, 5, w, c, d->out + i * d->pitch + c);
                else if (pairs == 13)
                    depthwise_unit(d, p, at, 13, w, c, d->out + i * d->pitch + c);
                else
                    depthwise_unit(d, p, at, pairs, w, c, d->out + i * d->pitch + c);
            i--;
        }
    }
}
#undef INLINE
TARGET_POP

const struct nhwc_isa nhwc_avx2 = {
    .name = "avx2",
    .units = 2,
    .px = { 4, 2 },
    .tile = { { tile_1_1_avx2, tile_1_2_avx2, tile_1_3_avx2, tile_1_4_avx2 },
              { tile_2_1_avx2, tile_2_2_avx2 } },
    .lane_bytes = 8,
    .put = put_halves,
    .deep = true,
    NHWC_COMMON(avx2),
};

TARGET_PUSH(TARGET_VNNI)
#define INLINE static inline __attribute__((always_inline))
typedef int32_t vi_zmm __attribute__((vector_size(64)));
typedef float vf_zmm __attribute__((vector_size(64)));

/* Three vectors leave a gap of four bytes in each 128 bits. */
#define THREE_CLOSED 15, 15, 15, 15, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0
#define THREE_OPEN 15, 11, 10, 9, 15, 8, 7, 6, 15, 5, 4, 3, 15, 2, 1, 0

INLINE void pack_zmm(const int nv, uint8_t *out, const vi_zmm *v, int32_t zero, uint8_t lo,
                     uint8_t hi, const bool limit)
{
    __m512i z = _mm512_set1_epi16((int16_t)zero), a, b;

    if (nv == 1) {
        __m256i x =
            _mm256_adds_epi16(_mm512_cvtsepi32_epi16((__m512i)v[0]), _mm512_castsi512_si256(z));

        x = _mm256_max_epi16(x, _mm256_set1_epi16(lo));
        x = _mm256_min_epi16(x, _mm256_set1_epi16(hi));
        _mm_storeu_si128((__m128i *)out, _mm256_cvtepi16_epi8(x));
        return;
    }
    a = _mm512_packs_epi32((__m512i)v[0], (__m512i)v[1]);
    if (limit)
        a = _mm512_adds_epi16(a, z);
    if (nv == 2) {
        a = _mm512_max_epi16(a, _mm512_set1_epi16(lo));
        a = _mm512_min_epi16(a, _mm512_set1_epi16(hi));
        _mm256_storeu_si256((__m256i *)out, _mm512_cvtepi16_epi8(a));
        return;
    }
    b = _mm512_packs_epi32((__m512i)v[2], (__m512i)v[nv - 1]);
    if (limit)
        b = _mm512_adds_epi16(b, z);
    a = _mm512_packus_epi16(a, b);
    if (limit) {
        a = _mm512_max_epu8(a, _mm512_set1_epi8((char)lo));
        a = _mm512_min_epu8(a, _mm512_set1_epi8((char)hi));
    }
    if (nv == 4) {
        _mm512_storeu_si512(out, a);
        return;
    }
    a = _mm512_permutexvar_epi32(_mm512_set_epi32(THREE_CLOSED), a);
    _mm512_mask_storeu_epi32(out, 0xfff, a);
}

INLINE void unpack_zmm(const int nv, vi_zmm *v, const uint8_t *in)
{
    const __m512i zero = _mm512_setzero_si512();
    __m512i x, lo, hi;

    if (nv == 1) {
        v[0] = (vi_zmm)_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)in));
        return;
    }
    if (nv == 2)
        lo = _mm512_cvtepu8_epi16(_mm256_loadu_si256((const __m256i *)in));
    else {
        x = nv == 4 ? _mm512_loadu_si512(in)
                    : _mm512_permutexvar_epi32(_mm512_set_epi32(THREE_OPEN),
                                               _mm512_maskz_loadu_epi32(0xfff, in));
        lo = _mm512_unpacklo_epi8(x, zero);
        hi = _mm512_unpackhi_epi8(x, zero);
        v[2] = (vi_zmm)_mm512_unpacklo_epi16(hi, zero);
        if (nv == 4)
            v[3] = (vi_zmm)_mm512_unpackhi_epi16(hi, zero);
    }
    v[0] = (vi_zmm)_mm512_unpacklo_epi16(lo, zero);
    v[1] = (vi_zmm)_mm512_unpackhi_epi16(lo, zero);
}

#define N(name) name##_vnni
#define VL 16
#define NV_UNIT 1
#define LANE_BYTES 4
#define WEIGHTS vi_zmm
#define LOAD_WEIGHTS(p) iload_vnni(p)
#define BYTES vi_zmm
#define SPREAD(x) (x)
#define DOT(acc, u, s) ((vi_zmm)_mm512_dpbusd_epi32((__m512i)(acc), (__m512i)(u), (__m512i)(s)))
#define FMA(a, b, c) ((vf_zmm)_mm512_fmadd_ps((__m512)(a), (__m512)(b), (__m512)(c)))
#define CLAMP(x, lo, hi) \
    ((vf_zmm)_mm512_min_ps(_mm512_max_ps((__m512)(x), (__m512)(lo)), (__m512)(hi)))
#define RINT(x) \
    ((vf_zmm)_mm512_roundscale_ps((__m512)(x), _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC))
#define NEAREST(x) ((vi_zmm)_mm512_cvtps_epi32((__m512)(x)))
#define MAX_BYTES(a, b) ((vall)_mm512_max_epu8((__m512i)(a), (__m512i)(b)))
#define PACK(nv, out, v, zero, lo, hi, limit) pack_zmm(nv, out, v, zero, lo, hi, limit)
#define UNPACK(nv, v, in) unpack_zmm(nv, v, in)
#define UP_TO_6(X, u) X(u, 1) X(u, 2) X(u, 3) X(u, 4) X(u, 5) X(u, 6)
#define UP_TO_8(X, u) UP_TO_6(X, u) X(u, 7) X(u, 8)
#define UP_TO_12(X, u) UP_TO_8(X, u) X(u, 9) X(u, 10) X(u, 11) X(u, 12)
#define EACH_TILE(X) UP_TO_12(X, 1) UP_TO_12(X, 2) UP_TO_8(X, 3) UP_TO_6(X, 4)
#define OWN_DEPTHWISE
#undef INLINE
#include "engine/native/isa/nhwc_tmpl.h"
#define INLINE static inline __attribute__((always_inline))

#define STRIP 16

static int row_groups(int rows)
{
    return (rows + 3) / 4;
}

#define W(name) name##_zmm
#define V __m512i
#define V_(op) _mm512_##op
#define WIDE 64
#define MASK __mmask64
#define V_LOAD(mask, p) _mm512_maskz_loadu_epi8(mask, p)
#define V_STORE(p, mask, v) _mm512_mask_storeu_epi8(p, mask, v)
#define V_ZERO() _mm512_setzero_si512()
#include "engine/native/isa/nhwc_depthwise_tmpl.h"
#undef W
#undef V
#undef V_
#undef WIDE
#undef MASK
#undef V_LOAD
#undef V_STORE
#undef V_ZERO
#define W(name) name##_ymm
#define V __m256i
#define V_(op) _mm256_##op
#define WIDE 32
#define MASK __mmask32
#define V_LOAD(mask, p) _mm256_maskz_loadu_epi8(mask, p)
#define V_STORE(p, mask, v) _mm256_mask_storeu_epi8(p, mask, v)
#define V_ZERO() _mm256_setzero_si256()
#include "engine/native/isa/nhwc_depthwise_tmpl.h"
#undef W
#undef V
#undef V_
#undef WIDE
#undef MASK
#undef V_LOAD
#undef V_STORE
#undef V_ZERO

/* Channels are taken 64 at a time, up to 32 that are left then at once. */
static int64_t wide_at(int64_t pitch, int64_t channel)
{
    return channel / 64 * 64 + 32 >= pitch ? 32 : 64;
}

static int64_t bytes_vnni(int64_t pitch, int rows, int taps)
{
    return (pitch + 63) / 64 * 64 * row_groups(rows) * taps * 4;
}

static int64_t place_wide_vnni(int64_t pitch, int64_t channel)
{
    int64_t c = channel % 64;

    return channel / 64 * 64 + c / 4 % 4 * (wide_at(pitch, channel) / 4) + c / 16 * 4 + c % 4;
}

static void put_tap_vnni(uint8_t *w, int64_t pitch, int rows, int taps, int64_t channel, int r,
                         int k, int16_t v)
{
    int64_t groups = (int64_t)row_groups(rows) * taps, group = r / 4 * taps + k,
            wide = wide_at(pitch, channel), place = place_wide_vnni(pitch, channel) % 64;

    w[channel / 64 * 256 * groups + (group * wide + place) * 4 + r % 4] = (uint8_t)v;
}

static int64_t room_vnni(int rows, int taps, int64_t step, int64_t dilation)
{
    return ((STRIP - 1) * step + (taps - 1) * dilation + 1) * row_groups(rows) * 256;
}

static void depthwise_vnni(const struct nhwc_depthwise *d)
{
    for (int64_t c = 0; c < d->pitch; c += 64) {
        const uint8_t *w = d->w + c / 64 * 256 * row_groups(d->rows) * d->taps;

        if (wide_at(d->pitch, c) == 64)
            depthwise_zmm(d, w, c);
        else
            depthwise_ymm(d, w, c);
    }
}

INLINE void end_sums(const int units, const struct nhwc_tile *t, int m, const int32_t *sums)
{
    const struct nhwc_end end = t->end;
    const bool simple = end.zero == 0 && end.lo == 0 && end.hi == 255;
    const struct nhwc_add add = t->add ? *t->add : (struct nhwc_add){ 0 };

    for (int i = 0; i < m; i++, sums += Q8_BLOCK_COLUMNS) {
        vi_vnni acc[NHWC_UNITS_MAX];
        uint8_t *out = t->out + i * t->pitch;

#pragma GCC unroll 16
        for (int j = 0; j < units; j++) {
            acc[j] = iload_vnni(sums + j * 16) + iload_vnni(t->init + j * 16);
            if (t->less)
                acc[j] += iload_vnni(t->less + j * 16) * iset_vnni(t->sum[i]);
        }
        if (t->add)
            finish_add_vnni(units, acc, t->scale, t->shift, &end, &add, t->residual + i * t->pitch,
                            out);
        else if (simple)
            finish_vnni(units, acc, t->scale, t->shift, &end, out, true);
        else
            finish_vnni(units, acc, t->scale, t->shift, &end, out, false);
    }
}

#define END(units)                                                                 \
    static void end_##units(const struct nhwc_tile *t, int m, const int32_t *sums) \
    {                                                                              \
        end_sums(units, t, m, sums);                                               \
    }
END(1)
END(2)
END(3)
END(4)
#undef END

static void windows(uint8_t *out, int64_t rs, int64_t n, const uint8_t *in, const int32_t *px,
                    const int32_t *tap, int64_t taps, int64_t bytes)
{
    __mmask64 last = bytes % 64 ? ((__mmask64)1 << bytes % 64) - 1 : 0;

    for (int64_t i = 0; i < n; i++, out += rs) {
        uint8_t *to = out;

        for (int64_t t = 0; t < taps; t++, to += bytes) {
            const uint8_t *from = in + px[i] + tap[t];
            int64_t b = 0;

            for (; b + 64 <= bytes; b += 64)
                _mm512_storeu_si512(to + b, _mm512_loadu_si512(from + b));
            if (last)
                _mm512_mask_storeu_epi8(to + b, last, _mm512_maskz_loadu_epi8(last, from + b));
        }
    }
}
#undef INLINE
TARGET_POP

#define NAME(u, m) tile_##u##_##m##_vnni,
#define VNNI                            \
    .units = 4, .px = { 12, 12, 8, 6 }, \
    .tile = { { UP_TO_12(NAME, 1) },    \
              { UP_TO_12(NAME, 2) },    \
              { UP_TO_8(NAME, 3) },     \
              { UP_TO_6(NAME, 4) } },   \
    .lane_bytes = 4, .put = put_bytes, NHWC_COMMON(vnni)
const struct nhwc_isa nhwc_vnni = { .name = "vnni", VNNI };
const struct nhwc_isa nhwc_amx = {
    .name = "amx",
    .block = &q8_block_amx,
    .end = { end_1, end_2, end_3, end_4 },
    .windows = windows,
    VNNI,
};
#undef VNNI
#undef NAME
#endif
