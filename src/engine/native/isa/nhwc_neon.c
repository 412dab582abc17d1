/* nhwc_neon.c -- 8-bit operators with channels last on ARM; see nhwc_isa.h. A unit is four vectors.
 */
#include "engine/native/isa/nhwc_isa.h"

#ifdef __aarch64__
#include "engine/native/isa/neon_dot.h"
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
typedef float neon_vf __attribute__((vector_size(16)));

/* Weights whose even and odd bytes are apart from the beginning. */
INLINE struct neon_halves halves_load(const uint8_t *p)
{
    return (struct neon_halves){ (int16x8_t)vld1q_u8(p), (int16x8_t)vld1q_u8(p + 16) };
}

static void put_halves(uint8_t *group, int places, const int8_t *four)
{
    for (int p = 0; p < places; p++, four += 4) {
        int16_t wide[4] = { four[0], four[2], four[1], four[3] };
        uint8_t *to = group + p / 4 * 32 + p % 4 * 4;

        memcpy(to, wide, 4);
        memcpy(to + 16, wide + 2, 4);
    }
}

static void put_bytes(uint8_t *group, int places, const int8_t *four)
{
    memcpy(group, four, (size_t)places * 4);
}

/* Units, whole. */
INLINE void pack(const int nv, uint8_t *out, const neon_vi *v, int32_t zero, uint8_t lo, uint8_t hi)
{
    const int16x8_t z = vdupq_n_s16((int16_t)zero);

#pragma GCC unroll 16
    for (int j = 0; j < nv; j += 4, out += NHWC_UNIT) {
        int16x8_t a = vqmovn_high_s32(vqmovn_s32((int32x4_t)v[j]), (int32x4_t)v[j + 1]),
                  b = vqmovn_high_s32(vqmovn_s32((int32x4_t)v[j + 2]), (int32x4_t)v[j + 3]);
        uint8x16_t x = vqmovun_high_s16(vqmovun_s16(vqaddq_s16(a, z)), vqaddq_s16(b, z));

        vst1q_u8(out, vminq_u8(vmaxq_u8(x, vdupq_n_u8(lo)), vdupq_n_u8(hi)));
    }
}

INLINE void unpack(const int nv, neon_vi *v, const uint8_t *in)
{
#pragma GCC unroll 16
    for (int j = 0; j < nv; j += 4, in += NHWC_UNIT) {
        uint8x16_t x = vld1q_u8(in);
        uint16x8_t lo = vmovl_u8(vget_low_u8(x)), hi = vmovl_high_u8(x);

        v[j] = (neon_vi)vmovl_u16(vget_low_u16(lo));
        v[j + 1] = (neon_vi)vmovl_high_u16(lo);
        v[j + 2] = (neon_vi)vmovl_u16(vget_low_u16(hi));
        v[j + 3] = (neon_vi)vmovl_high_u16(hi);
    }
}

static void window_sums(int32_t *sum, int64_t n, const uint8_t *in, const int32_t *px,
                        const int32_t *tap, int64_t taps, const uint8_t *mask, int64_t bytes)
{
    for (int64_t i = 0; i < n; i++) {
        uint32x4_t acc = vdupq_n_u32(0);

        for (int64_t t = 0; t < taps; t++)
            for (int64_t b = 0; b < bytes; b += NHWC_UNIT)
                acc = vpadalq_u16(acc, vpaddlq_u8(vandq_u8(vld1q_u8(in + px[i] + tap[t] + b),
                                                           vld1q_u8(mask + b))));
        sum[i] = (int32_t)vaddvq_u32(acc);
    }
}

/* Depthwise: weights of 16 bits, a unit of channels at a time, tap by tap. */

static int64_t bytes16(int64_t pitch, int rows, int taps)
{
    return pitch * rows * taps * 2;
}

static void put_tap16(uint8_t *w, int64_t pitch, int rows, int taps, int64_t channel, int r, int k,
                      int16_t v)
{
    int64_t at = (channel / NHWC_UNIT * rows + r) * taps + k;

    (void)pitch;
    memcpy(w + (at * NHWC_UNIT + channel % NHWC_UNIT) * 2, &v, sizeof(v));
}

static int64_t place_wide16(int64_t pitch, int64_t channel)
{
    (void)pitch;
    return channel;
}

static int64_t no_room(int rows, int taps, int64_t step, int64_t dilation)
{
    (void)rows;
    (void)taps;
    (void)step;
    (void)dilation;
    return 0;
}

INLINE void depthwise_tap(int32x4_t acc[4], uint8x16_t x, const uint8_t *w)
{
    const int16x8_t lo = vreinterpretq_s16_u16(vmovl_u8(vget_low_u8(x))),
                    hi = vreinterpretq_s16_u16(vmovl_high_u8(x)), a = (int16x8_t)vld1q_u8(w),
                    b = (int16x8_t)vld1q_u8(w + 16);

    acc[0] = vmlal_s16(acc[0], vget_low_s16(lo), vget_low_s16(a));
    acc[1] = vmlal_high_s16(acc[1], lo, a);
    acc[2] = vmlal_s16(acc[2], vget_low_s16(hi), vget_low_s16(b));
    acc[3] = vmlal_high_s16(acc[3], hi, b);
}

static void depthwise16(const struct nhwc_depthwise *d)
{
    const uint8x16_t zero = vdupq_n_u8(d->zero);

    for (int64_t c = 0; c < d->pitch; c += NHWC_UNIT) {
        const uint8_t *weights = d->w + c * d->rows * d->taps * 2;

        for (int64_t i = 0; i < d->n; i++) {
            const uint8_t *w = weights;
            int32x4_t acc[4];
            neon_vi v[4];

            for (int j = 0; j < 4; j++)
                acc[j] = vld1q_s32(d->init + c + 4 * j);
            for (int r = 0; r < d->rows; r++)
                for (int k = 0; k < d->taps; k++, w += NHWC_UNIT * 2) {
                    int64_t x = d->first + i * d->step + k * d->dilation;

                    depthwise_tap(
                        acc, x >= 0 && x < d->width ? vld1q_u8(d->row[r] + x * d->pitch + c) : zero,
                        w);
                }
            for (int j = 0; j < 4; j++)
                v[j] = (neon_vi)vcvtnq_s32_f32(vfmaq_f32(vld1q_f32(d->shift + c + 4 * j),
                                                         vcvtq_f32_s32(acc[j]),
                                                         vld1q_f32(d->scale + c + 4 * j)));
            pack(4, d->out + i * d->pitch + c, v, d->end.zero, d->end.lo, d->end.hi);
        }
    }
}
#undef INLINE

#define ANY_NEON_FMA(a, b, c) \
    ((neon_vf)vfmaq_f32((float32x4_t)(c), (float32x4_t)(a), (float32x4_t)(b)))
#define ANY_NEON_CLAMP(x, lo, hi) \
    ((neon_vf)vminq_f32(vmaxnmq_f32((float32x4_t)(x), (float32x4_t)(lo)), (float32x4_t)(hi)))
#define ANY_NEON_RINT(x) ((neon_vf)vrndnq_f32((float32x4_t)(x)))
#define ANY_NEON_NEAREST(x) ((neon_vi)vcvtnq_s32_f32((float32x4_t)(x)))
#define ANY_NEON_MAX_BYTES(a, b) ((vall)vmaxq_u8((uint8x16_t)(a), (uint8x16_t)(b)))

#define N(name) name##_neon
#define VL 4
#define NV_UNIT 4
#define LANE_BYTES 8
#define WEIGHTS struct neon_halves
#define LOAD_WEIGHTS(p) halves_load(p)
#define BYTES struct neon_halves
#define SPREAD(x) neon_halves_u(x)
#define DOT(acc, u, s) neon_dot_halves(acc, u, s)
#define FMA(a, b, c) ANY_NEON_FMA(a, b, c)
#define CLAMP(x, lo, hi) ANY_NEON_CLAMP(x, lo, hi)
#define RINT(x) ANY_NEON_RINT(x)
#define NEAREST(x) ANY_NEON_NEAREST(x)
#define MAX_BYTES(a, b) ANY_NEON_MAX_BYTES(a, b)
#define PACK(nv, out, v, zero, lo, hi, limit) pack(nv, out, v, zero, lo, hi)
#define UNPACK(nv, v, in) unpack(nv, v, in)
#define EACH_TILE(X) X(1, 1) X(1, 2) X(1, 3)
#define OWN_DEPTHWISE
#include "engine/native/isa/nhwc_tmpl.h"

#define N(name) name##_dotprod
#define VL 4
#define NV_UNIT 4
#define LANE_BYTES 4
#define WEIGHTS neon_vi
#define LOAD_WEIGHTS(p) ((neon_vi)vld1q_u8(p))
#define BYTES neon_vi
#define SPREAD(x) neon_less_128(x)
#define DOT(acc, u, s) neon_sdot(acc, u, s)
#define SIGNED_LACKS(less, s) neon_lacks(less, s)
#define FMA(a, b, c) ANY_NEON_FMA(a, b, c)
#define CLAMP(x, lo, hi) ANY_NEON_CLAMP(x, lo, hi)
#define RINT(x) ANY_NEON_RINT(x)
#define NEAREST(x) ANY_NEON_NEAREST(x)
#define MAX_BYTES(a, b) ANY_NEON_MAX_BYTES(a, b)
#define PACK(nv, out, v, zero, lo, hi, limit) pack(nv, out, v, zero, lo, hi)
#define UNPACK(nv, v, in) unpack(nv, v, in)
#define EACH_TILE(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4)
#define OWN_DEPTHWISE
#include "engine/native/isa/nhwc_tmpl.h"

#define N(name) name##_i8mm
#define VL 4
#define NV_UNIT 4
#define LANE_BYTES 4
#define WEIGHTS neon_vi
#define LOAD_WEIGHTS(p) ((neon_vi)vld1q_u8(p))
#define BYTES neon_vi
#define SPREAD(x) (x)
#define DOT(acc, u, s) neon_usdot(acc, u, s)
#define FMA(a, b, c) ANY_NEON_FMA(a, b, c)
#define CLAMP(x, lo, hi) ANY_NEON_CLAMP(x, lo, hi)
#define RINT(x) ANY_NEON_RINT(x)
#define NEAREST(x) ANY_NEON_NEAREST(x)
#define MAX_BYTES(a, b) ANY_NEON_MAX_BYTES(a, b)
#define PACK(nv, out, v, zero, lo, hi, limit) pack(nv, out, v, zero, lo, hi)
#define UNPACK(nv, v, in) unpack(nv, v, in)
#define EACH_TILE(X) X(1, 1) X(1, 2) X(1, 3) X(1, 4) X(1, 5)
#define OWN_DEPTHWISE
#include "engine/native/isa/nhwc_tmpl.h"

#define NHWC_NEON(isa)                                                                           \
    .name = #isa, .units = 1, .deep = true, .place = place_##isa, .bytes = bytes16,              \
    .put_tap = put_tap16, .place_wide = place_wide16, .room = no_room, .depthwise = depthwise16, \
    .window_sums = window_sums, .add = add_##isa, .largest = largest_##isa, .sum = sum_##isa

const struct nhwc_isa nhwc_neon = {
    .px = { 3 },
    .tile = { { tile_1_1_neon, tile_1_2_neon, tile_1_3_neon } },
    .lane_bytes = 8,
    .put = put_halves,
    NHWC_NEON(neon),
};
const struct nhwc_isa nhwc_dotprod = {
    .px = { 4 },
    .tile = { { tile_1_1_dotprod, tile_1_2_dotprod, tile_1_3_dotprod, tile_1_4_dotprod } },
    .lane_bytes = 4,
    .put = put_bytes,
    NHWC_NEON(dotprod),
};
const struct nhwc_isa nhwc_i8mm = {
    .px = { 5 },
    .tile = { { tile_1_1_i8mm, tile_1_2_i8mm, tile_1_3_i8mm, tile_1_4_i8mm, tile_1_5_i8mm } },
    .lane_bytes = 4,
    .put = put_bytes,
    NHWC_NEON(i8mm),
};
#endif
