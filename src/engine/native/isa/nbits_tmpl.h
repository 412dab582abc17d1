/* nbits_tmpl.h -- body of nbits_isa.c, once per instruction set. No include guard: the includer
 * defines N(name), VL (32-bit lanes), STEP (words whose products may be added before WIDEN),
 * DOT(bits, part, u, s), WIDEN(bits, part) and APART, whether a product waits long for the one
 * before; they are undefined at the end. */

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
        vf scale = N(fload)(t->scale + b * VL), zero = scale;

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
            for (; k < end; k++, w += VL * 4, a += 32 / bits) {
                vi x = N(iload)(w);

                if (rows == 1)
                    __builtin_prefetch(w + AHEAD);
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
            zero = __builtin_convertvector(N(load_u8)(t->zero + b * VL), vf);
        } else if (t->zero_f) {
            zero = N(fload)(t->zero_f + b * VL);
        }
        UNROLL for (int i = 0; i < rows; i++)
        {
            vf all = __builtin_convertvector(sum[i][0], vf);

            UNROLL for (int d = 1; d < digits; d++) all =
                all * 256 + __builtin_convertvector(sum[i][d], vf);
            if (t->zero || t->zero_f) {
                const int32_t *of = t->a_sum + (i * t->blocks + b) * NBITS_DIGITS;
                float whole = (float)of[0];

                UNROLL for (int d = 1; d < digits; d++) whole = whole * 256 + (float)of[d];
                all -= zero * whole;
            }
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

/* One row: each digit that is loaded meets two groups of columns. All loops are of known lengths,
 * so that nothing but loads and products is left of them. */
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

INLINE void N(row_n)(const int digits, const int words, const struct nbits_tile *t)
{
    const vi mask = N(iset)(0x0f0f0f0f);
    const uint8_t *w = t->w;
    const int8_t *a = t->a;
    vf out[2] = { N(fset)(0), N(fset)(0) };

    for (int64_t b = 0; b < t->blocks; b++) {
        vi low[2][NBITS_DIGITS], high[2][NBITS_DIGITS];
        vf by = N(fset)(t->a_scale[b]);
        /* The groups behind these two come next. */
        int64_t ahead = AHEAD + (w + AHEAD >= t->w + t->w_step ? t->w_step : 0);

        __builtin_prefetch(t->scale + b * VL + AHEAD / 16);
        __builtin_prefetch(t->scale + t->scale_step + b * VL + AHEAD / 16);
        UNROLL for (int d = 0; d < digits; d++)
        {
            low[0][d] = low[1][d] =
                N(iset)(t->zero || t->zero_f || !APART ? 0 : t->a_sum[b * NBITS_DIGITS + d]);
            high[0][d] = high[1][d] = N(iset)(0);
        }
        UNROLL for (int k = 0; k < words; k++, w += VL * 4, a += 8)
        {
            vi x[2] = { N(iload)(w), N(iload)(w + t->w_step) };

            __builtin_prefetch(w + ahead);
            __builtin_prefetch(w + ahead + t->w_step);
            UNROLL for (int d = 0; d < digits; d++)
            {
                vi four = N(all_lanes)(a + d * t->a_digit),
                   next = N(all_lanes)(a + d * t->a_digit + 4);

                UNROLL for (int g = 0; g < 2; g++)
                {
                    low[g][d] = DOT(4, low[g][d], x[g] & mask, four);
                    high[g][d] = DOT(4, high[g][d], (x[g] >> 4) & mask, next);
                }
            }
        }
        UNROLL for (int g = 0; g < 2; g++)
        {
            vf scale = N(fload)(t->scale + g * t->scale_step + b * VL), all = scale;

            UNROLL for (int d = 0; d < digits; d++)
            {
                vi sum = WIDEN(4, low[g][d]) + WIDEN(4, high[g][d]);

                if (!APART && !t->zero && !t->zero_f)
                    sum += N(iset)(t->a_sum[b * NBITS_DIGITS + d]);
                all = d ? all * 256 + __builtin_convertvector(sum, vf)
                        : __builtin_convertvector(sum, vf);
            }
            if (t->zero || t->zero_f) {
                const int32_t *of = t->a_sum + b * NBITS_DIGITS;
                float whole = (float)of[0];

                UNROLL for (int d = 1; d < digits; d++) whole = whole * 256 + (float)of[d];
                if (t->zero)
                    all -= whole * __builtin_convertvector(
                                       N(load_u8)(t->zero + g * t->scale_step + b * VL), vf);
                else
                    all -= whole * N(fload)(t->zero_f + g * t->scale_step + b * VL);
            }
            out[g] += all * (scale * by);
        }
    }
    UNROLL for (int g = 0; g < 2; g++)
    {
        if (t->bias)
            out[g] += N(fload)(t->bias + g * VL);
        memcpy(t->c + g * VL, &out[g], sizeof(out[g]));
    }
}

INLINE void N(row_words)(const int digits, const struct nbits_tile *t)
{
    switch (t->words[0]) {
    case 2:
        N(row_n)(digits, 2, t);
        break;
    case 4:
        N(row_n)(digits, 4, t);
        break;
    case 8:
        N(row_n)(digits, 8, t);
        break;
    default:
        assert(t->words[0] == 16);
        N(row_n)(digits, 16, t);
    }
}

static void N(row)(const struct nbits_tile *t)
{
    if (t->digits == 1)
        N(row_words)(1, t);
    else
        N(row_words)(3, t);
}

/* The digits of a number, the last first: what an 8-bit integer can be, and the rest. */
INLINE vi N(digit)(vi *q)
{
    vi d = (*q << 24) >> 24;

    *q = (*q - d) >> 8;
    return d;
}

static void N(digits)(int digits, int8_t *out, int64_t stride, const float *x, int64_t n,
                      int64_t room, float *scale, int32_t *sum)
{
    /* Less than the digits can be, for a quotient that is rounded up. */
    const float most = digits == 1 ? 127 : 127 * 65536 + 127 * 256;
    const vi half = (vi)N(fset)(0.5f);
    vf big = N(fset)(0), odd = big;
    vi sums[NBITS_DIGITS] = { N(iset)(0), N(iset)(0), N(iset)(0) };
    float max = 0, bad = 0, by;
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vf v = N(fload)(x + i), size = (vf)((vi)v & 0x7fffffff);
        vi more = size > big;

        big = (vf)((more & (vi)size) | (~more & (vi)big));
        odd += v * 0;
    }
    for (int k = 0; k < VL; k++) {
        max = MAX(max, big[k]);
        bad += odd[k];
    }
    for (; i < n; i++) {
        max = MAX(max, fabsf(x[i]));
        bad += x[i] * 0;
    }
    by = max > 1e-30f && bad == 0 ? most / max : 0;
    *scale = bad == 0 ? max / most : NAN; /* infinite ones have no digits */
    for (i = 0; i < room; i += VL) {
        vf v = N(fset)(0);
        vi q;

        memcpy(&v, x + MIN(i, n), (size_t)MAX(MIN((int64_t)VL, n - i), (int64_t)0) * sizeof(*x));
        v = bad == 0 ? v * by : N(fset)(0);
        q = __builtin_convertvector(v + (vf)(((vi)v & INT32_MIN) | half), vi);
        for (int d = digits - 1; d >= 0; d--) {
            vi digit = N(digit)(&q);
            vb narrow = N(low_bytes)(digit);

            sums[d] += digit;
            memcpy(out + d * stride + i, &narrow, (size_t)MIN((int64_t)VL, room - i));
        }
    }
    for (int d = 0; d < digits; d++) {
        sum[d] = 0;
        for (int k = 0; k < VL; k++)
            sum[d] += sums[d][k];
    }
}

INLINE void N(widen_n)(const int bits, const struct nbits_tile *t, float *out, int64_t ldo,
                       const int32_t *order, int64_t k0, int64_t k1)
{
    const int32_t mask = (1 << bits) - 1;
    const int in_word = 32 / bits;
    int64_t each = (int64_t)t->words[0] * in_word, first = order ? 0 : k0 / each,
            end = order ? t->blocks : MIN((k1 + each - 1) / each, t->blocks), at = first * each;
    const uint8_t *w = t->w + at / in_word * VL * 4;

    for (int64_t b = first; b < end; b++) {
        vf scale = N(fload)(t->scale + b * VL), zero = N(fset)((float)t->zero_all);

        if (t->zero) {
            zero = __builtin_convertvector(N(load_u8)(t->zero + b * VL), vf);
        } else if (t->zero_f) {
            zero = N(fload)(t->zero_f + b * VL);
        }
        for (int64_t i = 0; i < t->words[b]; i++, w += VL * 4) {
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
#undef DOT
#undef WIDEN
