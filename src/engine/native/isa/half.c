/* half.c -- see half.h. */
#include "engine/native/isa/half.h"

#include "engine/native/isa/isa.h"

#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif
#ifdef __aarch64__
#include <arm_neon.h>
#endif

#define CHUNK 256

static int64_t f16_to_float(float *out, const char *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h;

        memcpy(&h, in + 2 * i, sizeof(h));
        out[i] = f16_to_f32(h);
    }
    return n;
}

static int64_t f16_from_float(char *out, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        uint16_t h = f32_to_f16(in[i]);

        memcpy(out + 2 * i, &h, sizeof(h));
    }
    return n;
}

const struct half_isa half_c = { f16_to_float, f16_from_float, NULL };

#ifdef __x86_64__
/* Every processor with AVX2 converts. */
__attribute__((target("avx2,f16c"))) static int64_t f16_to_float_fast(float *out, const char *in,
                                                                      int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm256_storeu_ps(out + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(in + 2 * i))));
    return i;
}

__attribute__((target("avx2,f16c"))) static int64_t f16_from_float_fast(char *out, const float *in,
                                                                        int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(out + 2 * i),
                         _mm256_cvtps_ph(_mm256_loadu_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
    return i;
}

const struct half_isa half_avx2 = { f16_to_float_fast, f16_from_float_fast, NULL };
#endif

#ifdef __aarch64__
static int64_t f16_to_float_neon(float *out, const char *in, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        float16x8_t h = vreinterpretq_f16_u8(vld1q_u8((const uint8_t *)in + 2 * i));

        vst1q_f32(out + i, vcvt_f32_f16(vget_low_f16(h)));
        vst1q_f32(out + i + 4, vcvt_high_f32_f16(h));
    }
    return i;
}

static int64_t f16_from_float_neon(char *out, const float *in, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8)
        vst1q_u8((uint8_t *)out + 2 * i,
                 vreinterpretq_u8_f16(
                     vcvt_high_f16_f32(vcvt_f16_f32(vld1q_f32(in + i)), vld1q_f32(in + i + 4))));
    return i;
}

/* BFCVTN, which not every compiler is willing to name; NaN is the one that it is elsewhere. */
static int64_t bf16_from_float_neon(char *out, const float *in, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        float32x4_t lo = vld1q_f32(in + i), hi = vld1q_f32(in + i + 4);
        uint16x8_t number =
                       vcombine_u16(vmovn_u32(vceqq_f32(lo, lo)), vmovn_u32(vceqq_f32(hi, hi))),
                   h;

        __asm__(".arch armv8.2-a+bf16\n\tbfcvtn %0.4h, %1.4s\n\tbfcvtn2 %0.8h, %2.4s"
                : "=&w"(h)
                : "w"(lo), "w"(hi));
        vst1q_u8((uint8_t *)out + 2 * i,
                 vreinterpretq_u8_u16(vbslq_u16(number, h, vdupq_n_u16(0x7fc0))));
    }
    return i;
}

const struct half_isa half_neon = { f16_to_float_neon, f16_from_float_neon, NULL };
const struct half_isa half_bf16 = { f16_to_float_neon, f16_from_float_neon, bf16_from_float_neon };
#endif

/* By whole vectors: a shift, and rounding to even by what falls off. */
typedef uint32_t wide __attribute__((vector_size(32)));
typedef uint16_t narrow __attribute__((vector_size(16)));

static void bf16_to_float(float *out, const char *in, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        narrow h;
        wide w;

        memcpy(&h, in + 2 * i, sizeof(h));
        w = __builtin_convertvector(h, wide) << 16;
        memcpy(out + i, &w, sizeof(w));
    }
    for (; i < n; i++) {
        uint16_t h;
        uint32_t w;

        memcpy(&h, in + 2 * i, sizeof(h));
        w = (uint32_t)h << 16;
        memcpy(out + i, &w, sizeof(w));
    }
}

static void bf16_from_float(char *out, const float *in, int64_t n)
{
    int64_t i = 0;

    for (; i + 8 <= n; i += 8) {
        narrow h;
        wide w, nan;

        memcpy(&w, in + i, sizeof(w));
        nan = (wide)((w & 0x7fffffff) > 0x7f800000);
        w = (w + 0x7fff + (w >> 16 & 1)) >> 16;
        h = __builtin_convertvector((w & ~nan) | (0x7fc0 & nan), narrow);
        memcpy(out + 2 * i, &h, sizeof(h));
    }
    for (; i < n; i++) {
        uint16_t h = f32_to_bf16(in[i]);

        memcpy(out + 2 * i, &h, sizeof(h));
    }
}

void half_to_float(float *out, const void *in, int64_t n, enum tensor_type t)
{
    int64_t done;

    if (t == TENSOR_BF16) {
        bf16_to_float(out, in, n);
        return;
    }
    done = isa_host()->half->to_float(out, in, n);
    f16_to_float(out + done, (const char *)in + 2 * done, n - done);
}

void half_from_float(void *out, const float *in, int64_t n, enum tensor_type t)
{
    int64_t done;

    if (t == TENSOR_BF16) {
        done = isa_host()->half->to_bf16 ? isa_host()->half->to_bf16(out, in, n) : 0;
        bf16_from_float((char *)out + 2 * done, in + done, n - done);
        return;
    }
    done = isa_host()->half->from_float(out, in, n);
    f16_from_float((char *)out + 2 * done, in + done, n - done);
}

void half_rounded(float *out, const float *in, int64_t n, enum tensor_type t)
{
    uint16_t h[CHUNK];

    for (int64_t i = 0; i < n; i += CHUNK) {
        int64_t m = MIN((int64_t)CHUNK, n - i);

        half_from_float(h, in + i, m, t);
        half_to_float(out + i, h, m, t);
    }
}

void half_round(float *x, int64_t n, enum tensor_type t)
{
    half_rounded(x, x, n, t);
}
