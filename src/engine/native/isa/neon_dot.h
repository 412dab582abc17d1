/* neon_dot.h -- sums of groups of four bytes on ARM, unsigned times signed: by NEON alone, by the
 * dot product of signed bytes, and by that of unsigned and signed ones (i8mm). Instructions that
 * not every compiler is willing to name are given to the assembler. */
#ifndef NATIVE_ISA_NEON_DOT_H
#define NATIVE_ISA_NEON_DOT_H

#include <arm_neon.h>

#define NEON_INLINE static inline __attribute__((always_inline))

typedef int32_t neon_vi __attribute__((vector_size(16)));

/* Even and odd bytes apart: products of an unsigned and a signed byte fit 16 bits. */
struct neon_halves {
    int16x8_t even, odd;
};

NEON_INLINE struct neon_halves neon_halves_u(neon_vi x)
{
    return (struct neon_halves){ vreinterpretq_s16_u16(vandq_u16((uint16x8_t)x, vdupq_n_u16(0xff))),
                                 vreinterpretq_s16_u16(vshrq_n_u16((uint16x8_t)x, 8)) };
}

NEON_INLINE struct neon_halves neon_halves_s(neon_vi x)
{
    return (struct neon_halves){ vshrq_n_s16(vshlq_n_s16((int16x8_t)x, 8), 8),
                                 vshrq_n_s16((int16x8_t)x, 8) };
}

NEON_INLINE neon_vi neon_dot_halves(neon_vi acc, struct neon_halves a, struct neon_halves b)
{
    int32x4_t sum = vpadalq_s16((int32x4_t)acc, vmulq_s16(a.even, b.even));

    return (neon_vi)vpadalq_s16(sum, vmulq_s16(a.odd, b.odd));
}

/* acc + a . b of signed bytes */
NEON_INLINE neon_vi neon_sdot(neon_vi acc, neon_vi a, neon_vi b)
{
    __asm__(".arch armv8.2-a+dotprod+i8mm\n\tsdot %0.4s, %1.16b, %2.16b"
            : "+w"(acc)
            : "w"(a), "w"(b));
    return acc;
}

/* Unsigned bytes less 128, and 128 times the sums of signed ones, negated: what that lacks. */
NEON_INLINE neon_vi neon_less_128(neon_vi x)
{
    return (neon_vi)veorq_u8((uint8x16_t)x, vdupq_n_u8(0x80));
}

NEON_INLINE neon_vi neon_lacks(neon_vi less, neon_vi s)
{
    return neon_sdot(less, s, (neon_vi)vdupq_n_s8(-128));
}

/* acc + u . s of unsigned and signed bytes */
NEON_INLINE neon_vi neon_usdot(neon_vi acc, neon_vi u, neon_vi s)
{
    __asm__(".arch armv8.2-a+dotprod+i8mm\n\tusdot %0.4s, %1.16b, %2.16b"
            : "+w"(acc)
            : "w"(u), "w"(s));
    return acc;
}

#endif
