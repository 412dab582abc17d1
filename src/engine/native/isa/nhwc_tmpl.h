/* nhwc_tmpl.h -- body of nhwc_isa.c, once per instruction set. No include guard: the includer
 * defines N(name), VL (32-bit lanes), LANE_BYTES, the loading of weights and DOT, FMA, the
 * rounding, packing and unpacking of vectors, EACH_TILE; they are undefined at the end.
 * SIGNED_LACKS as in q8_tmpl.h. */

#ifndef SIGNED_LACKS
#define SIGNED_LACKS(less, s) (less)
#endif

#include "engine/native/isa/vector_tmpl.h"

#define NV_MAX (NHWC_UNITS_MAX * NHWC_UNIT / VL)

INLINE vf N(scaled)(vi sum, const float *scale, const float *shift)
{
    vf s, t;

    memcpy(&s, scale, sizeof(s));
    memcpy(&t, shift, sizeof(t));
    return FMA(__builtin_convertvector(sum, vf), s, t);
}

INLINE vi N(added)(vf a, vf b, const struct nhwc_add *p)
{
    return NEAREST(FMA(b, N(fset)(p->b_scale), FMA(a, N(fset)(p->a_scale), N(fset)(p->offset))));
}

/* Sums of one pixel to bytes. */
INLINE void N(finish)(const int nv, const vi *sum, const float *scale, const float *shift,
                      const struct nhwc_end *end, uint8_t *out, const bool simple)
{
    vi v[NV_MAX];

#pragma GCC unroll 16
    for (int j = 0; j < nv; j++)
        v[j] = NEAREST(N(scaled)(sum[j], scale + j * VL, shift + j * VL));
    if (simple)
        PACK(nv, out, v, 0, 0, 255, false);
    else
        PACK(nv, out, v, end->zero, end->lo, end->hi, true);
}

INLINE void N(finish_add)(const int nv, const vi *sum, const float *scale, const float *shift,
                          const struct nhwc_end *end, const struct nhwc_add *p,
                          const uint8_t *residual, uint8_t *out)
{
    const vf lo = N(fset)((float)(end->lo - end->zero)), hi = N(fset)((float)(end->hi - end->zero)),
             zero = N(fset)((float)end->zero - (p->swapped ? p->b_flip : p->a_flip)),
             flip = N(fset)(p->swapped ? p->a_flip : p->b_flip);
    const vi swap = N(iset)(p->swapped ? -1 : 0);
    vi v[NV_MAX];

    UNPACK(nv, v, residual);
#pragma GCC unroll 16
    for (int j = 0; j < nv; j++) {
        vf s = N(scaled)(sum[j], scale + j * VL, shift + j * VL);
        vi x = (vi)(RINT(CLAMP(s, lo, hi)) + zero),
           y = (vi)(__builtin_convertvector(v[j], vf) - flip);

        v[j] = N(added)((vf)((y & swap) | (x & ~swap)), (vf)((x & swap) | (y & ~swap)), p);
    }
    PACK(nv, out, v, p->flip, p->lo, p->hi, true);
}

/* What is packed together has the 128-bit parts of its vectors side by side. */
static int N(place)(int units, int channel)
{
    int nv = units * NHWC_UNIT / VL;

    return channel / 4 % nv * VL + channel / (4 * nv) * 4 + channel % 4;
}

INLINE void N(tile_n)(const int units, const int m, const struct nhwc_tile *t)
{
    const int nv = units * NHWC_UNIT / VL;
    vi acc[NHWC_PX_MAX][NV_MAX], less[NV_MAX];
    const uint8_t *p[NHWC_PX_MAX], *w = t->w;
    const struct nhwc_end end = t->end;
    const float *scale = t->scale, *shift = t->shift;
    int64_t pitch = t->pitch;
    uint8_t *out = t->out;

#pragma GCC unroll 16
    for (int i = 0; i < m; i++) {
        p[i] = t->in + t->px[i];
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            acc[i][j] = N(iload)(t->init + j * VL);
    }
#pragma GCC unroll 16
    for (int j = 0; j < nv; j++)
        less[j] = N(iset)(0);
    if (t->less)
#pragma GCC unroll 16
        for (int i = 0; i < m; i++)
#pragma GCC unroll 16
            for (int j = 0; j < nv; j++)
                acc[i][j] += N(iload)(t->less + j * VL) * N(iset)(t->sum[i]);
    for (int64_t tap = 0; tap < t->taps; tap++) {
        int64_t at = t->tap[tap], last = at + 4 * t->k4;

        for (; at < last; at += 4, w += nv * VL * LANE_BYTES) {
            WEIGHTS x[NV_MAX];

#pragma GCC unroll 16
            for (int j = 0; j < nv; j++) {
                x[j] = LOAD_WEIGHTS(w + j * VL * LANE_BYTES);
                less[j] = SIGNED_LACKS(less[j], x[j]);
            }
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
#pragma GCC unroll 16
        for (int j = 0; j < nv; j++)
            acc[i][j] -= less[j];
    if (t->add) {
        const struct nhwc_add add = *t->add;
        const uint8_t *residual = t->residual;

#pragma GCC unroll 16
        for (int i = 0; i < m; i++)
            N(finish_add)
        (nv, acc[i], scale, shift, &end, &add, residual + i * pitch, out + i * pitch);
    } else if (end.zero == 0 && end.lo == 0 && end.hi == 255) {
#pragma GCC unroll 16
        for (int i = 0; i < m; i++)
            N(finish)(nv, acc[i], scale, shift, &end, out + i * pitch, true);
    } else {
#pragma GCC unroll 16
        for (int i = 0; i < m; i++)
            N(finish)(nv, acc[i], scale, shift, &end, out + i * pitch, false);
    }
}

#define DEFINE(units, m)                                         \
    static void N(tile_##units##_##m)(const struct nhwc_tile *t) \
    {                                                            \
        N(tile_n)(units, m, t);                                  \
    }
EACH_TILE(DEFINE)
#undef DEFINE

static void N(add)(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n,
                   const struct nhwc_add *p)
{
    const struct nhwc_add add = *p;
    int64_t i = 0;

#define STEP(nv)                                                            \
    for (; i + nv * VL <= n; i += nv * VL) {                                \
        vi x[NV_MAX], y[NV_MAX];                                            \
                                                                            \
        UNPACK(nv, x, a + i);                                               \
        UNPACK(nv, y, b + i);                                               \
        _Pragma("GCC unroll 16") for (int j = 0; j < nv; j++) x[j] =        \
            N(added)(__builtin_convertvector(x[j], vf) - add.a_flip,        \
                     __builtin_convertvector(y[j], vf) - add.b_flip, &add); \
        PACK(nv, out + i, x, add.flip, add.lo, add.hi, true);               \
    }
    STEP(4)
    STEP(NV_UNIT)
#undef STEP
}

static void N(largest)(uint8_t *out, const uint8_t *in, int64_t n, int64_t rows, int64_t row,
                       int64_t cols, int64_t col)
{
    typedef uint8_t vall __attribute__((vector_size(VL * 4)));

    int64_t i = 0;

#define STEP(bytes)                                            \
    for (; i + bytes <= n; i += bytes) {                       \
        vall a = { 0 }, b = { 0 };                             \
                                                               \
        for (int64_t r = 0; r < rows; r++)                     \
            for (int64_t c = 0; c < cols; c++) {               \
                memcpy(&b, in + r * row + c * col + i, bytes); \
                a = MAX_BYTES(a, b);                           \
            }                                                  \
        memcpy(out + i, &a, bytes);                            \
    }
    STEP(VL * 4)
    STEP(NHWC_UNIT)
#undef STEP
}

static void N(sum)(int32_t *sum, const uint8_t *in, int64_t n, int64_t pitch)
{
    vi acc[NV_UNIT] = { 0 };

    for (int64_t i = 0; i < n; i++, in += pitch)
#pragma GCC unroll 16
        for (int j = 0; j < NV_UNIT; j++)
            acc[j] += N(load_u8)(in + j * VL);
    memcpy(sum, acc, sizeof(acc));
}

#ifndef OWN_DEPTHWISE
/* A weight of four bytes for each channel, tap by tap. */
static int64_t N(bytes)(int64_t pitch, int rows, int taps)
{
    return pitch * rows * taps * 4;
}

static void N(put_tap)(uint8_t *w, int64_t pitch, int rows, int taps, int64_t channel, int r, int k,
                       int16_t v)
{
    int64_t unit = channel / NHWC_UNIT, at = (unit * rows + r) * taps + k;

    (void)pitch;
    memcpy(w + (at * NHWC_UNIT + channel % NHWC_UNIT) * 4, &(int32_t){ v }, 4);
}

static int64_t N(place_wide)(int64_t pitch, int64_t channel)
{
    (void)pitch;
    return channel;
}

static int64_t N(room)(int rows, int taps, int64_t step, int64_t dilation)
{
    (void)rows;
    (void)taps;
    (void)step;
    (void)dilation;
    return 0;
}

INLINE vi N(select)(vi mask, vi a, vi b)
{
    return (mask & a) | (~mask & b);
}

static void N(depthwise)(const struct nhwc_depthwise *d)
{
    for (int64_t c = 0; c < d->pitch; c += VL)
        for (int64_t i = 0; i < d->n; i++) {
            const uint8_t *w =
                d->w + (c / NHWC_UNIT * d->rows * d->taps * NHWC_UNIT + c % NHWC_UNIT) * 4;
            vi acc = N(iload)(d->init + c);
            vb bytes;

            for (int r = 0; r < d->rows; r++)
                for (int k = 0; k < d->taps; k++, w += NHWC_UNIT * 4) {
                    int64_t x = d->first + i * d->step + k * d->dilation;
                    vi in = N(iset)(d->zero);

                    if (x >= 0 && x < d->width)
                        in = N(load_u8)(d->row[r] + x * d->pitch + c);
                    acc += in * N(iload)(w);
                }
            acc = NEAREST(N(scaled)(acc, d->scale + c, d->shift + c)) + d->end.zero;
            acc = N(select)(acc < d->end.lo, N(iset)(d->end.lo), acc);
            acc = N(select)(acc > d->end.hi, N(iset)(d->end.hi), acc);
            bytes = N(low_bytes)(acc);
            memcpy(d->out + i * d->pitch + c, &bytes, sizeof(bytes));
        }
}
#endif

#undef vi
#undef vf
#undef vb
#undef NV_MAX
#undef INLINE
#undef N
#undef VL
#undef NV_UNIT
#undef LANE_BYTES
#undef WEIGHTS
#undef LOAD_WEIGHTS
#undef BYTES
#undef SPREAD
#undef DOT
#undef SIGNED_LACKS
#undef FMA
#undef CLAMP
#undef RINT
#undef NEAREST
#undef MAX_BYTES
#undef PACK
#undef UNPACK
#undef EACH_TILE
#undef OWN_DEPTHWISE
