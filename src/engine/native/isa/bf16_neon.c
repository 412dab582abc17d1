/* bf16_neon.c -- BFMMLA: two rows by two columns of sums, four products in each; see bf16_isa.h. */
#include "engine/native/isa/bf16_isa.h"

#include "engine/native/isa/target.h"

#ifdef __aarch64__
#include <arm_neon.h>

#define INLINE static inline __attribute__((always_inline))
#define NEVER_INLINE static __attribute__((noinline))
#define NR 16
#define PAIRS (NR / 2) /* of columns */

static void order(uint16_t *out, const uint16_t *b, int64_t k)
{
    for (int64_t p = 0; p < k; p += BF16_GROUP, b += BF16_GROUP * NR)
        for (int h = 0; h < NR; h += 8, out += BF16_GROUP * 8) {
            uint16x8_t r[BF16_GROUP];

            for (int q = 0; q < BF16_GROUP; q++)
                r[q] = p + q < k ? vld1q_u16(b + q * NR + h) : vdupq_n_u16(0);
            for (int high = 0; high < 2; high++) {
                uint32x4_t one = vreinterpretq_u32_u16(high ? vzip2q_u16(r[0], r[1])
                                                            : vzip1q_u16(r[0], r[1])),
                           two = vreinterpretq_u32_u16(high ? vzip2q_u16(r[2], r[3])
                                                            : vzip1q_u16(r[2], r[3]));

                vst1q_u16(out + 16 * high, vreinterpretq_u16_u32(vzip1q_u32(one, two)));
                vst1q_u16(out + 16 * high + 8, vreinterpretq_u16_u32(vzip2q_u32(one, two)));
            }
        }
}

/* acc + rows of a by columns of b, which not every compiler is willing to name. Volatile, so that
 * all of them stay in their order: see next(). */
INLINE float32x4_t mmla(float32x4_t acc, uint16x8_t a, uint16x8_t b)
{
    __asm__ volatile(".arch armv8.2-a+bf16\n\tbfmmla %0.4s, %1.8h, %2.8h"
                     : "+w"(acc)
                     : "w"(a), "w"(b));
    return acc;
}

/* Two pairs of columns on: compilers load no more of them at once, which would push sums out of
 * their registers. */
INLINE const uint16_t *next(const uint16_t *b)
{
    b += 16;
    __asm__ volatile("" : "+r"(b));
    return b;
}

NEVER_INLINE float32x4_t some(const float *p, int64_t n)
{
    float room[4] = { 0 };

    if (n >= 4)
        return vld1q_f32(p);
    for (int64_t i = 0; i < n; i++)
        room[i] = p[i];
    return vld1q_f32(room);
}

NEVER_INLINE void put_some(float *p, float32x4_t v, int64_t n)
{
    float room[4];

    if (n >= 4) {
        vst1q_f32(p, v);
        return;
    }
    vst1q_f32(room, v);
    for (int64_t i = 0; i < n; i++)
        p[i] = room[i];
}

INLINE float32x4_t halves(float32x4_t a, float32x4_t b, bool high)
{
    float64x2_t x = vreinterpretq_f64_f32(a), y = vreinterpretq_f64_f32(b);

    return vreinterpretq_f32_f64(high ? vzip2q_f64(x, y) : vzip1q_f64(x, y));
}

/* The upper halves of four numbers of each row. */
INLINE uint16x8_t upper(float32x4_t a, float32x4_t b)
{
    return vuzp2q_u16(vreinterpretq_u16_f32(a), vreinterpretq_u16_f32(b));
}

/* Of an odd number of rows the last is there twice, and its twin is not stored. */
INLINE void rows(const struct isa_tile *t, const int pairs)
{
    float32x4_t acc[3][PAIRS];
    const float *row[3][2];
    const uint16_t *b = t->half;
    int64_t p = 0;

    UNROLL for (int i = 0; i < pairs; i++)
    {
        int64_t r0 = 2 * i, r1 = 2 * i + 1 < t->m ? 2 * i + 1 : 2 * i;

        row[i][0] = t->a + r0 * t->ars;
        row[i][1] = t->a + r1 * t->ars;
        UNROLL for (int j = 0; j < PAIRS; j += 2)
        {
            float32x4_t v0 = vdupq_n_f32(0), v1 = v0;

            if (t->init) {
                v0 = some(t->init + r0 * t->irs + 2 * j, t->n - 2 * j);
                v1 = some(t->init + r1 * t->irs + 2 * j, t->n - 2 * j);
            }
            acc[i][j] = halves(v0, v1, false);
            acc[i][j + 1] = halves(v0, v1, true);
        }
    }
    for (; p + BF16_GROUP <= t->k; p += BF16_GROUP) {
        uint16x8_t a[3];

        UNROLL for (int i = 0; i < pairs; i++) a[i] =
            upper(vld1q_f32(row[i][0] + p), vld1q_f32(row[i][1] + p));
        UNROLL for (int j = 0; j < PAIRS; j += 2)
        {
            uint16x8_t v0 = vld1q_u16(b), v1 = vld1q_u16(b + 8);

            UNROLL for (int i = 0; i < pairs; i++)
            {
                acc[i][j] = mmla(acc[i][j], a[i], v0);
                acc[i][j + 1] = mmla(acc[i][j + 1], a[i], v1);
            }
            b = next(b);
        }
    }
    if (p < t->k) {
        UNROLL for (int i = 0; i < pairs; i++)
        {
            uint16x8_t a = upper(some(row[i][0] + p, t->k - p), some(row[i][1] + p, t->k - p));

            UNROLL for (int j = 0; j < PAIRS; j++) acc[i][j] =
                mmla(acc[i][j], a, vld1q_u16(b + 8 * j));
        }
    }
    UNROLL for (int i = 0; i < pairs; i++)
    {
        float *to = t->c + 2 * i * t->ldc;

        UNROLL for (int j = 0; j < PAIRS; j += 2)
        {
            put_some(to + 2 * j, halves(acc[i][j], acc[i][j + 1], false), t->n - 2 * j);
            if (2 * i + 1 < t->m)
                put_some(to + t->ldc + 2 * j, halves(acc[i][j], acc[i][j + 1], true), t->n - 2 * j);
        }
    }
}

static void tile(const struct isa_tile *t)
{
    if (t->m > 4)
        rows(t, 3);
    else if (t->m > 2)
        rows(t, 2);
    else
        rows(t, 1);
}

_Static_assert(sizeof(float32x4_t) * 4 == NR * sizeof(float), "a tile of isa_neon is so wide");

const struct bf16_isa bf16_neon = { order, tile };
#endif
