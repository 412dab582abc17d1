/* nhwc_depthwise_tmpl.h -- depthwise convolution with VNNI, for vectors of two widths; body of
 * nhwc_isa.c. No include guard: the includer defines W(name), V (a vector), V_(op) (an intrinsic on
 * it), WIDE (its bytes, which is the channels at a time), MASK, V_LOAD, V_STORE and V_ZERO, and
 * undefines them.
 *
 * Four rows of one column of the window are a group, so that the groups of WIDE channels are four
 * vectors. A column in that form serves every tap that meets it. */

INLINE void W(column)(V *to, const struct nhwc_depthwise *d, const int g, const int rows, int64_t x,
                      int64_t c, MASK mask)
{
    V r[4], a, b, e, f;

    if (x < 0 || x >= d->width) {
        to[0] = to[1] = to[2] = to[3] = V_(set1_epi8)((char)d->zero);
        return;
    }
    for (int t = 0; t < 4; t++)
        r[t] = 4 * g + t < rows ? V_LOAD(mask, d->row[4 * g + t] + x * d->pitch + c) : V_ZERO();
    a = V_(unpacklo_epi8)(r[0], r[1]);
    b = V_(unpackhi_epi8)(r[0], r[1]);
    e = V_(unpacklo_epi8)(r[2], r[3]);
    f = V_(unpackhi_epi8)(r[2], r[3]);
    to[0] = V_(unpacklo_epi16)(a, e);
    to[1] = V_(unpackhi_epi16)(a, e);
    to[2] = V_(unpacklo_epi16)(b, f);
    to[3] = V_(unpackhi_epi16)(b, f);
}

INLINE V W(load)(const void *p)
{
    V v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void W(emit)(const struct nhwc_depthwise *d, int64_t i, int64_t c, MASK mask, const V *sum)
{
    V s[4], lo, hi;

#pragma GCC unroll 4
    for (int j = 0; j < 4; j++)
        s[j] = V_(cvtps_epi32)(V_(fmadd_ps)(V_(cvtepi32_ps)(sum[j]),
                                            V_(loadu_ps)(d->scale + c + WIDE / 4 * j),
                                            V_(loadu_ps)(d->shift + c + WIDE / 4 * j)));
    lo = V_(adds_epi16)(V_(packs_epi32)(s[0], s[1]), V_(set1_epi16)((int16_t)d->end.zero));
    hi = V_(adds_epi16)(V_(packs_epi32)(s[2], s[3]), V_(set1_epi16)((int16_t)d->end.zero));
    lo = V_(packus_epi16)(lo, hi);
    lo = V_(max_epu8)(lo, V_(set1_epi8)((char)d->end.lo));
    lo = V_(min_epu8)(lo, V_(set1_epi8)((char)d->end.hi));
    V_STORE(d->out + i * d->pitch + c, mask, lo);
}

INLINE V W(minus)(const struct nhwc_depthwise *d, int64_t c, int j, V sum, V all)
{
    return V_(add_epi32)(sum, V_(mullo_epi32)(all, W(load)(d->less + c + WIDE / 4 * j)));
}

/* Ones for the rows that group g has. */
INLINE V W(ones)(int g, int rows)
{
    return V_(set1_epi32)(rows - 4 * g >= 4 ? 0x01010101
                                            : 0x01010101 & ((1 << 8 * (rows - 4 * g)) - 1));
}

/* Windows of three columns, side by side; up to four rows. */
INLINE void W(three)(const struct nhwc_depthwise *d, const uint8_t *w, int64_t c, MASK mask,
                     const int rows, const int step, const bool less)
{
    const V ones = W(ones)(0, rows);
    V k[3][4], x[3][4];
    int64_t first = d->first;

#pragma GCC unroll 3
    for (int t = 0; t < 3; t++)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++)
            k[t][j] = W(load)(w + (t * 4 + j) * WIDE);

#define ONE(p, q, r)                                               \
    {                                                              \
        V sum[4];                                                  \
                                                                   \
        _Pragma("GCC unroll 4") for (int j = 0; j < 4; j++)        \
        {                                                          \
            sum[j] = W(load)(d->init + c + WIDE / 4 * j);          \
            sum[j] = V_(dpbusd_epi32)(sum[j], x[p][j], k[0][j]);   \
            sum[j] = V_(dpbusd_epi32)(sum[j], x[q][j], k[1][j]);   \
            sum[j] = V_(dpbusd_epi32)(sum[j], x[r][j], k[2][j]);   \
            if (less) {                                            \
                V all = V_(dpbusd_epi32)(V_ZERO(), x[p][j], ones); \
                all = V_(dpbusd_epi32)(all, x[q][j], ones);        \
                all = V_(dpbusd_epi32)(all, x[r][j], ones);        \
                sum[j] = W(minus)(d, c, j, sum[j], all);           \
            }                                                      \
        }                                                          \
        W(emit)(d, i, c, mask, sum);                               \
    }
    W(column)(x[0], d, 0, rows, first, c, mask);
    if (step == 1) {
        W(column)(x[1], d, 0, rows, first + 1, c, mask);
        for (int64_t i = 0; i < d->n; i++) {
            W(column)(x[2], d, 0, rows, first + i + 2, c, mask);
            ONE(0, 1, 2)
            if (++i == d->n)
                break;
            W(column)(x[0], d, 0, rows, first + i + 2, c, mask);
            ONE(1, 2, 0)
            if (++i == d->n)
                break;
            W(column)(x[1], d, 0, rows, first + i + 2, c, mask);
            ONE(2, 0, 1)
        }
        return;
    }
    for (int64_t i = 0; i < d->n; i++) {
        W(column)(x[1], d, 0, rows, first + 2 * i + 1, c, mask);
        W(column)(x[2], d, 0, rows, first + 2 * i + 2, c, mask);
        ONE(0, 1, 2)
        if (++i == d->n)
            break;
        W(column)(x[1], d, 0, rows, first + 2 * i + 1, c, mask);
        W(column)(x[0], d, 0, rows, first + 2 * i + 2, c, mask);
        ONE(2, 1, 0)
    }
#undef ONE
}

/* Any window: the columns of a strip of pixels first. */
INLINE void W(strips)(const struct nhwc_depthwise *d, const uint8_t *w, int64_t c, MASK mask,
                      const bool less)
{
    int groups = row_groups(d->rows);

    for (int64_t i0 = 0; i0 < d->n; i0 += STRIP) {
        int64_t n = MIN((int64_t)STRIP, d->n - i0),
                cols = (n - 1) * d->step + (d->taps - 1) * d->dilation + 1;

        for (int g = 0; g < groups; g++)
            for (int64_t x = 0; x < cols; x++) {
                V col[4];

                W(column)(col, d, g, d->rows, d->first + i0 * d->step + x, c, mask);
                memcpy(d->room + (g * cols + x) * WIDE * 4, col, sizeof(col));
            }
        for (int64_t i = 0; i < n; i++) {
            V sum[4], all[4];

            for (int j = 0; j < 4; j++) {
                sum[j] = W(load)(d->init + c + WIDE / 4 * j);
                all[j] = V_ZERO();
            }
            for (int g = 0; g < groups; g++) {
                const V ones = W(ones)(g, d->rows);

                for (int t = 0; t < d->taps; t++) {
                    const uint8_t *x =
                        d->room + (g * cols + i * d->step + t * d->dilation) * WIDE * 4;

#pragma GCC unroll 4
                    for (int j = 0; j < 4; j++)
                        sum[j] = V_(dpbusd_epi32)(sum[j], W(load)(x + WIDE * j),
                                                  W(load)(w + ((g * d->taps + t) * 4 + j) * WIDE));
                    if (less)
#pragma GCC unroll 4
                        for (int j = 0; j < 4; j++)
                            all[j] = V_(dpbusd_epi32)(all[j], W(load)(x + WIDE * j), ones);
                }
            }
            for (int j = 0; less && j < 4; j++)
                sum[j] = W(minus)(d, c, j, sum[j], all[j]);
            W(emit)(d, i0 + i, c, mask, sum);
        }
    }
}

static void W(depthwise)(const struct nhwc_depthwise *d, const uint8_t *w, int64_t c)
{
    int64_t left = d->pitch - c;
    MASK mask = left >= WIDE ? (MASK) ~(MASK)0 : (MASK)(((MASK)1 << left) - 1);

    if (d->rows == 3 && d->taps == 3 && d->step <= 2 && d->dilation == 1) {
        if (d->step == 1 && !d->less)
            W(three)(d, w, c, mask, 3, 1, false);
        else if (d->step == 1)
            W(three)(d, w, c, mask, 3, 1, true);
        else if (!d->less)
            W(three)(d, w, c, mask, 3, 2, false);
        else
            W(three)(d, w, c, mask, 3, 2, true);
    } else if (!d->less)
        W(strips)(d, w, c, mask, false);
    else
        W(strips)(d, w, c, mask, true);
}
