/* nbits_tmpl.h -- body of nbits_isa.c, once per instruction set. No include guard: the includer
 * defines N(name), VL (32-bit lanes), STEP (words whose products may be added before WIDEN),
 * DOT(bits, part, u, s), WIDEN(bits, part), FMADD(a, b, c), which is a * b + c, and APART, whether
 * a product waits long for the one before and WIDEN does nothing, and BY_WORDS, whether loops that
 * know the words of a block are worth their code; they are undefined at the end. */

#include "engine/native/isa/vector_tmpl.h"

INLINE void N(tile_n)(const int bits, const int digits, const int rows, const struct nbits_tile *t)
{
    const int32_t mask = (int32_t)(0x01010101u * ((1u << bits) - 1));
    const int in_byte = 8 / bits; /* outside of the loop: sanitizers would not unroll a division */
    /* One row has too few sums for them not to wait for each other: those of a byte's further
     * numbers are apart. */
    const bool apart = APART && rows == 1;
    const uint8_t *w = t->w;
    const int8_t *a = t->a;
    vf out[NBITS_ROWS];

    UNROLL for (int i = 0; i < rows; i++) out[i] = N(fset)(0);
    for (int64_t b = 0; b < t->blocks; b++) {
        vi sum[NBITS_ROWS][NBITS_DIGITS];
        vf scale = N(fload)(t->scale + b * 2 * VL), zero = scale;

        UNROLL for (int i = 0; i < rows; i++) UNROLL for (int d = 0; d < digits; d++) sum[i][d] =
            N(iset)(t->zero || t->zero_f ? 0 : t->a_sum[(i * t->blocks + b) * NBITS_DIGITS + d]);
        for (int64_t k = 0; k < t->words[b];) {
            int64_t end = MIN(k + STEP, (int64_t)t->words[b]);
            vi part[NBITS_ROWS][NBITS_DIGITS], more[4][NBITS_DIGITS];

            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int d = 0; d < digits; d++)
                part[i][d] = N(iset)(0);
            if (apart)
                UNROLL for (int s = 1; s < in_byte; s++) UNROLL for (int d = 0; d < digits; d++)
                    more[s][d] = N(iset)(0);
            for (; k < end; k++, w += 2 * VL * 4, a += 32 / bits) {
                vi x = N(iload)(w);

                UNROLL for (int s = 0; s < in_byte; s++)
                {
                    vi u = bits == 8 ? x : (x >> (s * bits)) & mask;

                    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int d = 0; d < digits; d++)
                    {
                        int32_t four;

                        memcpy(&four, a + i * t->a_row + d * t->a_digit + 4 * s, sizeof(four));
                        if (apart && s > 0)
                            more[s][d] = DOT(bits, more[s][d], u, N(iset)(four));
                        else
                            part[i][d] = DOT(bits, part[i][d], u, N(iset)(four));
                    }
                }
            }
            UNROLL for (int i = 0; i < rows; i++) UNROLL for (int d = 0; d < digits; d++)
                sum[i][d] += WIDEN(bits, part[i][d]);
            if (apart)
                UNROLL for (int s = 1; s < in_byte; s++) UNROLL for (int d = 0; d < digits; d++)
                    sum[0][d] += WIDEN(bits, more[s][d]);
        }
        if (t->zero) {
            zero = __builtin_convertvector(N(load_u8)(t->zero + b * 2 * VL), vf);
        } else if (t->zero_f) {
            zero = N(fload)(t->zero_f + b * 2 * VL);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            vf all = __builtin_convertvector(sum[i][0], vf);

            UNROLL for (int d = 1; d < digits; d++) all =
                all * 256 + __builtin_convertvector(sum[i][d], vf);
            if (t->zero || t->zero_f)
                all -= zero * t->a_whole[i * t->blocks + b];
            out[i] += all * (scale * t->a_scale[i * t->blocks + b]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++)
    {
        float *c = t->c + i * t->ldc;

        for (int j = 0; j < t->cols; j++)
            c[j] = out[i][j] + (t->bias ? t->bias[j] : 0);
    }
}

INLINE void N(tile_rows)(const int bits, const int digits, const struct nbits_tile *t)
{
    switch (t->rows) {
    case 1:
        N(tile_n)(bits, digits, 1, t);
        break;
    case 2:
        N(tile_n)(bits, digits, 2, t);
        break;
    case 4:
        N(tile_n)(bits, digits, 4, t);
        break;
    default:
        assert(digits == 1 && t->rows == 8);
        N(tile_n)(bits, 1, 8, t);
    }
}

static void N(tile)(const struct nbits_tile *t)
{
    if (t->bits == 4 && t->digits == 1)
        N(tile_rows)(4, 1, t);
    else if (t->bits == 4)
        N(tile_rows)(4, 3, t);
    else if (t->bits == 8 && t->digits == 1)
        N(tile_rows)(8, 1, t);
    else if (t->bits == 8)
        N(tile_rows)(8, 3, t);
    else if (t->digits == 1)
        N(tile_rows)(2, 1, t);
    else
        N(tile_rows)(2, 3, t);
}

/* One row by both groups of a pair: a digit that is loaded meets both, and weights are read from
 * one end to the other. */
INLINE vi N(all_lanes)(const void *p)
{
#if VL == 16
    vi v;

    /* Compilers that see two neighbours load them as one and shift. */
    __asm__("vpbroadcastd %1, %0" : "=v"(v) : "m"(*(const int32_t *)p));
    return v;
#else
    int32_t x;

    memcpy(&x, p, sizeof(x));
    return N(iset)(x);
#endif
}

/* So many words of a block; products are added to part. */
INLINE void N(row_part)(const int bits, const int digits, const int words, const uint8_t *w,
                        const int8_t *a, int64_t a_digit, vi part[2][2][NBITS_DIGITS])
{
    const vi mask = N(iset)((int32_t)(0x01010101u * ((1u << bits) - 1)));
    const int in_byte = 8 / bits;

    UNROLL for (int k = 0; k < words; k++, w += 2 * VL * 4, a += 32 / bits)
    {
        vi x[2] = { N(iload)(w), N(iload)(w + VL * 4) };

        __builtin_prefetch(w + NBITS_AHEAD);
        if (VL == 16)
            __builtin_prefetch(w + NBITS_AHEAD + VL * 4);
        UNROLL for (int s = 0; s < in_byte; s++)
        {
            const int turn = (in_byte > 1 ? s : k) & 1; /* neighbours do not wait for each other */

            UNROLL for (int d = 0; d < digits; d++)
            {
                vi four = N(all_lanes)(a + d * a_digit + 4 * s);

                UNROLL for (int g = 0; g < 2; g++)
                {
                    vi u = bits == 8 ? x[g] : (x[g] >> (s * bits)) & mask;

                    part[g][turn][d] = DOT(bits, part[g][turn][d], u, four);
                }
            }
        }
    }
}

/* words: of each block, if all have as many and the loop is to know it, else 0. */
INLINE void N(row_n)(const int bits, const int digits, const int words, const struct nbits_tile *t)
{
    /* Each turn has half of the products. */
    const int64_t step = words == 0 ? 4 : words / 2 > STEP ? 2 * (int64_t)STEP : words;
    const bool zeros = t->zero || t->zero_f;
    const uint8_t *w = t->w;
    const int8_t *a = t->a;
    vf out[2] = { N(fset)(0), N(fset)(0) };

    for (int64_t b = 0; b < t->blocks; b++) {
        vi part[2][2][NBITS_DIGITS], sum[2][NBITS_DIGITS];
        vf by = N(fset)(t->a_scale[b]);
        int64_t left = words ? words : t->words[b];

        __builtin_prefetch(t->scale + b * 2 * VL + NBITS_AHEAD / 16);
        if (VL == 16)
            __builtin_prefetch(t->scale + b * 2 * VL + VL + NBITS_AHEAD / 16);
        UNROLL for (int d = 0; d < digits; d++)
        {
            sum[0][d] = sum[1][d] = N(iset)(zeros ? 0 : t->a_sum[b * NBITS_DIGITS + d]);
            UNROLL for (int g = 0; g < 2; g++)
            {
                part[g][0][d] = APART ? sum[g][d] : N(iset)(0);
                part[g][1][d] = N(iset)(0);
            }
        }
        while (left > 0) {
            const bool one = words == 0 && left < step;

            if (one)
                N(row_part)(bits, digits, 1, w, a, t->a_digit, part);
            else
                N(row_part)(bits, digits, (int)step, w, a, t->a_digit, part);
            w += (one ? 1 : step) * 2 * VL * 4;
            a += (one ? 1 : step) * 32 / bits;
            left -= one ? 1 : step;
            if (APART)
                continue;
            UNROLL for (int g = 0; g < 2; g++) UNROLL for (int d = 0; d < digits; d++)
            {
                sum[g][d] += WIDEN(bits, part[g][0][d]) + WIDEN(bits, part[g][1][d]);
                part[g][0][d] = part[g][1][d] = N(iset)(0);
            }
        }
        UNROLL for (int g = 0; g < 2; g++)
        {
            int64_t at = (b * 2 + g) * VL;
            vf scale = N(fload)(t->scale + at), all;

            if (APART)
                UNROLL for (int d = 0; d < digits; d++) sum[g][d] = part[g][0][d] + part[g][1][d];
            all = __builtin_convertvector(sum[g][0], vf);
            /* The last two digits of a short block fit into an integer. */
            if (digits > 1 && words > 0) {
                all = FMADD(all, N(fset)(65536),
                            __builtin_convertvector((sum[g][1] << 8) + sum[g][2], vf));
            } else {
                UNROLL for (int d = 1; d < digits; d++) all =
                    FMADD(all, N(fset)(256), __builtin_convertvector(sum[g][d], vf));
            }
            if (t->zero)
                all -= t->a_whole[b] * __builtin_convertvector(N(load_u8)(t->zero + at), vf);
            else if (t->zero_f)
                all -= t->a_whole[b] * N(fload)(t->zero_f + at);
            out[g] = FMADD(all, scale * by, out[g]);
        }
    }
    UNROLL for (int g = 0; g < 2; g++)
    {
        if (t->bias)
            out[g] += N(fload)(t->bias + g * VL);
        memcpy(t->c + g * VL, &out[g], sizeof(out[g]));
    }
}

INLINE void N(row_words)(const int bits, const int digits, const struct nbits_tile *t)
{
    switch (BY_WORDS ? t->row_words : 0) {
#define WORDS(n)                      \
    case n:                           \
        N(row_n)(bits, digits, n, t); \
        break;
        WORDS(2)
        WORDS(4)
        WORDS(8)
        WORDS(16)
#undef WORDS
    default:
        N(row_n)(bits, digits, 0, t);
    }
}

static void N(row)(const struct nbits_tile *t)
{
    if (t->bits == 4 && t->digits == 1)
        N(row_words)(4, 1, t);
    else if (t->bits == 4)
        N(row_words)(4, 3, t);
    else if (t->bits == 8 && t->digits == 1)
        N(row_words)(8, 1, t);
    else if (t->bits == 8)
        N(row_words)(8, 3, t);
    else if (t->digits == 1)
        N(row_words)(2, 1, t);
    else
        N(row_words)(2, 3, t);
}

/* The digits of a number, the last first: what an 8-bit integer can be, and the rest. */
INLINE vi N(digit)(vi *q)
{
    vi d = (*q << 24) >> 24;

    *q = (*q - d) >> 8;
    return d;
}

/* The greatest of all lanes, and their sum. */

INLINE int32_t N(top)(vi v)
{
#if VL == 16
    return _mm512_reduce_max_epi32((__m512i)v);
#elif VL == 8
    __m128i m =
        _mm_max_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));

    m = _mm_max_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_max_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
#elif defined(__aarch64__)
    return vmaxvq_s32((int32x4_t)v);
#else
    return MAX(MAX(v[0], v[1]), MAX(v[2], v[3]));
#endif
}

INLINE int32_t N(total)(vi v)
{
#if VL == 16
    return _mm512_reduce_add_epi32((__m512i)v);
#elif VL == 8
    __m128i m =
        _mm_add_epi32(_mm256_castsi256_si128((__m256i)v), _mm256_extracti128_si256((__m256i)v, 1));

    m = _mm_add_epi32(m, _mm_shuffle_epi32(m, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(m, _mm_shuffle_epi32(m, 0xb1)));
#elif defined(__aarch64__)
    return vaddvq_s32((int32x4_t)v);
#else
    return v[0] + v[1] + v[2] + v[3];
#endif
}

/* Numbers from x on, of which there may be fewer than lanes, or none: then zeros. */
INLINE vf N(some)(const float *x, int64_t n)
{
    vf v = N(fset)(0);

    if (n >= VL)
        return N(fload)(x);
    for (int64_t i = 0; i < n; i++)
        v[i] = x[i];
    return v;
}

INLINE void N(digits_n)(const int digits, int8_t *out, int64_t stride, const float *x, int64_t n,
                        int64_t room, float *scale, int32_t *sum)
{
    /* Less than the digits can be, for a quotient that is rounded up. */
    const float most = digits == 1 ? 127 : 127 * 65536 + 127 * 256;
    const vi half = (vi)N(fset)(0.5f);
    vi big = N(iset)(0), sums[NBITS_DIGITS] = { big, big, big };
    int32_t top;
    float max, by;

    /* Sizes of floats are in the order of their bits; those that are not finite come last. */
    for (int64_t i = 0; i < n; i += VL) {
        vi size = (vi)N(some)(x + i, n - i) & INT32_MAX, more = size > big;

        big = (more & size) | (~more & big);
    }
    top = N(top)(big);
    if (top >= 0x7f800000) { /* they have no digits */
        for (int d = 0; d < digits; d++) {
            memset(out + d * stride, 0, (size_t)room);
            sum[d] = 0;
        }
        *scale = NAN;
        return;
    }
    memcpy(&max, &top, sizeof(max));
    by = max > 1e-30f ? most / max : 0;
    *scale = max / most;
    for (int64_t i = 0; i < room; i += VL) {
        vf v = N(some)(x + MIN(i, n), n - i) * by;
        vi q = __builtin_convertvector(v + (vf)(((vi)v & INT32_MIN) | half), vi);

        UNROLL for (int d = digits - 1; d >= 0; d--)
        {
            vi digit = N(digit)(&q);
            vb narrow = N(low_bytes)(digit);

            sums[d] += digit;
            if (room - i >= VL)
                memcpy(out + d * stride + i, &narrow, VL);
            else
                memcpy(out + d * stride + i, &narrow, (size_t)(room - i));
        }
    }
    for (int d = 0; d < digits; d++)
        sum[d] = N(total)(sums[d]);
}

static void N(digits)(int digits, int8_t *out, int64_t stride, const float *x, int64_t n,
                      int64_t room, float *scale, int32_t *sum)
{
    if (digits == 1)
        N(digits_n)(1, out, stride, x, n, room, scale, sum);
    else
        N(digits_n)(3, out, stride, x, n, room, scale, sum);
}

INLINE void N(widen_n)(const int bits, const struct nbits_tile *t, float *out, int64_t ldo,
                       const int32_t *order, int64_t k0, int64_t k1)
{
    const int32_t mask = (1 << bits) - 1;
    const int in_word = 32 / bits;
    int64_t each = (int64_t)t->words[0] * in_word, first = order ? 0 : k0 / each,
            end = order ? t->blocks : MIN((k1 + each - 1) / each, t->blocks), at = first * each;
    const uint8_t *w = t->w + at / in_word * 2 * VL * 4;

    for (int64_t b = first; b < end; b++) {
        vf scale = N(fload)(t->scale + b * 2 * VL), zero = N(fset)((float)t->zero_all);

        if (t->zero) {
            zero = __builtin_convertvector(N(load_u8)(t->zero + b * 2 * VL), vf);
        } else if (t->zero_f) {
            zero = N(fload)(t->zero_f + b * 2 * VL);
        }
        for (int64_t i = 0; i < t->words[b]; i++, w += 2 * VL * 4) {
            vi x = N(iload)(w);

            UNROLL for (int s = 0; s < in_word; s++, at++)
            {
                int64_t k = order ? order[at] : at;
                vf v;

                if (k < k0 || k >= k1)
                    continue;
                v = __builtin_convertvector((x >> (s % 4 * 8 + s / 4 * bits)) & mask, vf);
                v = (v - zero) * scale;
                memcpy(out + (k - k0) * ldo, &v, sizeof(v));
            }
        }
    }
}

static void N(widen)(const struct nbits_tile *t, float *out, int64_t ldo, const int32_t *order,
                     int64_t k0, int64_t k1)
{
    if (t->bits == 4)
        N(widen_n)(4, t, out, ldo, order, k0, k1);
    else if (t->bits == 8)
        N(widen_n)(8, t, out, ldo, order, k0, k1);
    else
        N(widen_n)(2, t, out, ldo, order, k0, k1);
}

#undef vi
#undef vf
#undef vb
#undef INLINE
#undef N
#undef VL
#undef STEP
#undef APART
#undef BY_WORDS
#undef DOT
#undef WIDEN
#undef FMADD
