/* nhwc_tmpl.h -- body of nhwc_isa.c, once per instruction set. No include guard: the includer
 * defines N(name), VL (32-bit lanes), LANE_BYTES, the loading of weights and DOT, the rounding and
 * packing of sums, EACH_TILE, and undefines them afterwards. */

typedef int32_t N(vi) __attribute__((vector_size(VL * 4)));
typedef float N(vf) __attribute__((vector_size(VL * 4)));
#define vi N(vi)
#define vf N(vf)
#define INLINE static inline __attribute__((always_inline))

INLINE vi N(iset)(int32_t x)
{
    vi v = { 0 };

    return v + x;
}

INLINE vi N(iload)(const void *p)
{
    vi v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE vi N(scaled)(vi sum, const float *scale)
{
    vf s;

    memcpy(&s, scale, sizeof(s));
    return NEAREST(__builtin_convertvector(sum, vf) * s);
}

/* Sums of one pixel to bytes: four, two or one vectors at a time. */
INLINE void N(finish)(const int nv, const vi *sum, const float *scale, const struct nhwc_end *end,
                      uint8_t *out)
{
    int j = 0;

    for (; j + 4 <= nv; j += 4)
        PACK4(out + j * VL, N(scaled)(sum[j], scale + j * VL),
              N(scaled)(sum[j + 1], scale + (j + 1) * VL),
              N(scaled)(sum[j + 2], scale + (j + 2) * VL),
              N(scaled)(sum[j + 3], scale + (j + 3) * VL), end);
    for (; j + 2 <= nv; j += 2)
        PACK2(out + j * VL, N(scaled)(sum[j], scale + j * VL),
              N(scaled)(sum[j + 1], scale + (j + 1) * VL), end);
    for (; j < nv; j++)
        PACK1(out + j * VL, N(scaled)(sum[j], scale + j * VL), end);
}

/* In what is packed together the 128-bit parts of the vectors lie one after the other. */
static int N(place)(int units, int channel)
{
    int first = 0, left = units * NHWC_UNIT / VL, together;

    for (;; first += together * VL, left -= together) {
        together = left >= 4 ? 4 : left >= 2 ? 2 : 1;
        if (channel < first + together * VL)
            break;
    }
    channel -= first;
    return first + channel / 4 % together * VL + channel / (4 * together) * 4 + channel % 4;
}

INLINE void N(tile_n)(const int units, const int m, const struct nhwc_tile *t)
{
    const int nv = units * NHWC_UNIT / VL;
    vi acc[NHWC_PX_MAX][NHWC_UNITS_MAX * NHWC_UNIT / VL];
    const uint8_t *p[NHWC_PX_MAX], *w = t->w;

#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        p[i] = t->in + t->px[i];
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            acc[i][j] = N(iload)(t->init + j * VL);
    }
    for (int64_t tap = 0; tap < t->taps; tap++) {
        int64_t at = t->tap[tap], end = at + 4 * t->k4;

        for (; at < end; at += 4, w += nv * VL * LANE_BYTES) {
            WEIGHTS x[NHWC_UNITS_MAX * NHWC_UNIT / VL];

#pragma GCC unroll 16
            for (int j = 0; j < nv; j++)
                x[j] = LOAD_WEIGHTS(w + j * VL * LANE_BYTES);
#pragma GCC unroll 16
            for (int i = 0; i < m; i++) {
                int32_t four;
                BYTES r;

                memcpy(&four, p[i] + at, sizeof(four));
                r = SPREAD(N(iset)(four));
#pragma GCC unroll 16
                for (int j = 0; j < nv; j++)
                    acc[i][j] = DOT(acc[i][j], r, x[j]);
            }
        }
    }
#pragma GCC unroll 16
    for (int i = 0; i < m; i++)
        N(finish)(nv, acc[i], t->scale, &t->end, t->out + i * t->pitch);
}

#define DEFINE(units, m)                                         \
    static void N(tile_##units##_##m)(const struct nhwc_tile *t) \
    {                                                            \
        N(tile_n)(units, m, t);                                  \
    }
EACH_TILE(DEFINE)
#undef DEFINE

#ifndef OWN_DEPTHWISE
/* A weight of four bytes for each channel, tap by tap. */
static int64_t N(bytes)(int64_t channels, int rows, int taps)
{
    return channels * rows * taps * 4;
}

static void N(put_tap)(uint8_t *w, int rows, int taps, int64_t channel, int r, int k, int8_t v)
{
    int64_t unit = channel / NHWC_UNIT, at = (unit * rows + r) * taps + k;

    memcpy(w + (at * NHWC_UNIT + channel % NHWC_UNIT) * 4, &(int32_t){ v }, 4);
}

static int64_t N(place_wide)(int64_t channel)
{
    return channel;
}

static int64_t N(room)(int rows, int64_t pixels)
{
    (void)rows;
    (void)pixels;
    return 0;
}

static void N(depthwise)(const struct nhwc_depthwise *d)
{
    typedef uint8_t vb __attribute__((vector_size(VL)));

    for (int64_t c = 0; c < d->pitch; c += VL)
        for (int64_t i = 0; i < d->n; i++) {
            const uint8_t *w =
                d->w + (c / NHWC_UNIT * d->rows * d->taps * NHWC_UNIT + c % NHWC_UNIT) * 4;
            vi acc = N(iload)(d->init + c);

            for (int r = 0; r < d->rows; r++)
                for (int k = 0; k < d->taps; k++, w += NHWC_UNIT * 4) {
                    vb b;

                    memcpy(&b, d->row[r] + (i * d->step + k * d->dilation) * d->pitch + c,
                           sizeof(b));
                    acc += __builtin_convertvector(b, vi) * N(iload)(w);
                }
            acc = N(scaled)(acc, d->scale + c);
            for (int k = 0; k < VL; k++)
                d->out[i * d->pitch + c + k] = nhwc_byte(acc[k], &d->end);
        }
}
#endif

#undef vi
#undef vf
#undef INLINE
