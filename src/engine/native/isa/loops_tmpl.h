/* loops_tmpl.h -- body of loops_isa.c, once per instruction set: N(name), VL (32-bit lanes of a
 * vector), DFMA(a, b, c) of doubles, ROWS of a tile and TILE_ROWS(X, name), which is X(name, i) of
 * each i up to it, EVEN lanes of two vectors, whether ANY(v) of a mask's lanes is set, LOAD_N(p, n)
 * of n < VL floats and zeros, STORE_N(p, v, n) of as many, and GATHER(p, at) of floats, zeros where
 * at is negative, are the includer's; and where there are instructions for it PICK2(a, at, b),
 * lanes of two vectors, with MAX2, LOAD_FILL(p, n, fill) and NAN_MASK(v). No include guard. */
#include "engine/native/isa/shuffle.h"

#define INLINE static inline __attribute__((always_inline))
#define WIDE (VL / 2) /* 64-bit lanes */

typedef double N(vd) __attribute__((vector_size(WIDE * 8)));
typedef uint64_t N(vu) __attribute__((vector_size(WIDE * 8)));
typedef uint32_t N(vw) __attribute__((vector_size(VL * 4)));
typedef float N(vf) __attribute__((vector_size(VL * 4)));
typedef int32_t N(vi) __attribute__((vector_size(VL * 4)));

/* -- products -- */

#define TILE_NV 2

/* Loops over rows and vectors are of constant length, and unrolled at every level of optimization:
 * sums live in registers. V: a vector of T; FMA(a, b, c) of them. Columns beyond n are computed,
 * too, and not written. */
#define TILE(name, T, V, FMA)                                                                   \
    INLINE void N(name##_rows)(const struct loops_tile *t, const int m)                         \
    {                                                                                           \
        const int lanes = (int)(sizeof(V) / sizeof(T));                                         \
        const T *a = t->a, *b = t->b;                                                           \
        V acc[ROWS][TILE_NV];                                                                   \
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int v = 0; v < TILE_NV; v++) acc[i][v] = \
            (V){ 0 };                                                                           \
        for (int64_t p = 0; p < t->k; p++, a += t->aks, b += t->brs) {                          \
            V bv[TILE_NV];                                                                      \
            UNROLL for (int v = 0; v < TILE_NV; v++) memcpy(&bv[v], b + v * lanes, sizeof(V));  \
            UNROLL for (int i = 0; i < m; i++)                                                  \
            {                                                                                   \
                V av = a[i * t->ars] - (V){ 0 };                                                \
                UNROLL for (int v = 0; v < TILE_NV; v++) acc[i][v] = FMA(av, bv[v], acc[i][v]); \
            }                                                                                   \
        }                                                                                       \
        UNROLL for (int i = 0; i < m; i++)                                                      \
        {                                                                                       \
            T *c = (T *)t->c + i * t->ldc;                                                      \
            UNROLL for (int v = 0; v < TILE_NV; v++)                                            \
            {                                                                                   \
                V x = acc[i][v], old;                                                           \
                int n = t->n - v * lanes;                                                       \
                if (n >= lanes) {                                                               \
                    memcpy(&old, c + v * lanes, sizeof(old));                                   \
                    x = t->add ? x + old : x;                                                   \
                    memcpy(c + v * lanes, &x, sizeof(x));                                       \
                    continue;                                                                   \
                }                                                                               \
                for (int j = 0; j < n; j++)                                                     \
                    c[v * lanes + j] = x[j] + (t->add ? c[v * lanes + j] : 0);                  \
            }                                                                                   \
        }                                                                                       \
    }                                                                                           \
    static void N(name)(const struct loops_tile *t)                                             \
    {                                                                                           \
        switch (t->m) {                                                                         \
            TILE_ROWS(TILE_CASE, name)                                                          \
        }                                                                                       \
    }

#define TILE_CASE(name, i)    \
    case i:                   \
        N(name##_rows)(t, i); \
        break;

#define WRAP(a, b, c) ((a) * (b) + (c))

TILE(tile_f64, double, N(vd), DFMA)
TILE(tile_i64, uint64_t, N(vu), WRAP)
TILE(tile_i32, uint32_t, N(vw), WRAP)

static double N(dot_f64)(const double *a, const double *b, int64_t n)
{
    N(vd) acc[4] = { { 0 } };
    double sum = 0;
    int64_t i = 0;

    for (; i + 4 * WIDE <= n; i += 4 * WIDE)
        UNROLL for (int v = 0; v < 4; v++)
        {
            N(vd) x, y;

            memcpy(&x, a + i + v * WIDE, sizeof(x));
            memcpy(&y, b + i + v * WIDE, sizeof(y));
            acc[v] = DFMA(x, y, acc[v]);
        }
    acc[0] = (acc[0] + acc[1]) + (acc[2] + acc[3]);
    for (int v = 0; v < WIDE; v++)
        sum += acc[0][v];
    for (; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}

/* -- rows of floats -- */

INLINE N(vf) N(load)(const float *p)
{
    N(vf) v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE int64_t N(beyond_edge)(const float *x, int64_t i, int64_t n, float edge, const bool above)
{
    const N(vf) e = edge - (N(vf)){ 0 };

    for (; i + 4 * VL <= n; i += 4 * VL) {
        N(vi) inside = (N(vi)){ 0 } - 1;

        for (int k = 0; k < 4; k++)
            inside &= above ? N(load)(x + i + k * VL) <= e : N(load)(x + i + k * VL) >= e;
        if (ANY(~inside))
            break;
    }
    while (i < n && (above ? x[i] <= edge : x[i] >= edge))
        i++;
    return i;
}

static int64_t N(beyond)(const float *x, int64_t i, int64_t n, float edge, bool above)
{
    return above ? N(beyond_edge)(x, i, n, edge, true) : N(beyond_edge)(x, i, n, edge, false);
}

INLINE void N(store)(float *p, N(vf) v)
{
    memcpy(p, &v, sizeof(v));
}

INLINE N(vf) N(set)(float x)
{
    return x - (N(vf)){ 0 };
}

INLINE N(vf) N(choose)(N(vi) mask, N(vf) a, N(vf) b)
{
    return (N(vf))((mask & (N(vi))a) | (~mask & (N(vi))b));
}

INLINE void N(arg_loop)(float *best, int32_t *at, const float *x, int64_t n, int32_t k,
                        const bool max, const bool last)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        N(vf) v = N(load)(x + i), b = N(load)(best + i);
        N(vi) better = max ? (last ? v >= b : v > b) : last ? v <= b : v < b, old;

        memcpy(&old, at + i, sizeof(old));
        old = (better & k) | (~better & old);
        memcpy(at + i, &old, sizeof(old));
        N(store)(best + i, N(choose)(better, v, b));
    }
    for (; i < n; i++) {
        bool better = max    ? (last ? x[i] >= best[i] : x[i] > best[i])
                      : last ? x[i] <= best[i]
                             : x[i] < best[i];

        best[i] = better ? x[i] : best[i];
        at[i] = better ? k : at[i];
    }
}

static void N(arg_rows)(float *best, int32_t *at, const float *x, int64_t n, int32_t k, bool max,
                        bool last)
{
    if (max)
        N(arg_loop)(best, at, x, n, k, true, last);
    else
        N(arg_loop)(best, at, x, n, k, false, last);
}

INLINE N(vf) N(pre)(N(vf) x, const enum loops_pre pre)
{
    return pre == PRE_ABS ? (N(vf))((N(vi))x & 0x7fffffff) : pre == PRE_SQUARE ? x * x : x;
}

INLINE N(vf) N(join)(N(vf) acc, N(vf) x, const bool max)
{
    return max ? N(choose)((x > acc) | (x != x), x, acc) : acc + x;
}

INLINE float N(join1)(float acc, float x, const bool max)
{
    return max ? (x > acc || x != x ? x : acc) : acc + x;
}

/* A line of pad. */
INLINE void N(pool_down)(const struct loops_pool *p, const float *const *row, float *pad,
                         const bool max, const enum loops_pre pre)
{
    int64_t i = 0;

    for (; i < p->width; i += VL) {
        int64_t n = p->width - i;
        N(vf) acc = N(pre)(n >= VL ? N(load)(row[0] + i) : LOAD_N(row[0] + i, n), pre);

        for (int r = 1; r < p->rows; r++)
            acc = N(join)(acc, N(pre)(n >= VL ? N(load)(row[r] + i) : LOAD_N(row[r] + i, n), pre),
                          max);
        N(store)(pad + i, acc);
    }
    for (i = 0; i < p->after; i++)
        pad[p->width + i] = p->fill;
}

/* Every second float from there on. */
INLINE N(vf) N(every2)(const float *p)
{
    return __builtin_shufflevector(N(load)(p), N(load)(p + VL), EVEN);
}

INLINE N(vf) N(strided)(const float *p, const int stride)
{
    return stride == 1   ? N(load)(p)
           : stride == 2 ? N(every2)(p)
                         : __builtin_shufflevector(N(every2)(p), N(every2)(p + 2 * VL), EVEN);
}

INLINE void N(pool_across)(const struct loops_pool *p, const float *pad, const float *factor,
                           float *out, const bool max, const int stride)
{
    for (int64_t i = 0; i < p->n; i += VL) {
        int64_t n = MIN(p->n - i, (int64_t)VL);
        const float *from = pad + i * stride;
        N(vf) acc = N(strided)(from, stride);

        for (int k = 1; k < p->taps; k++)
            acc = N(join)(acc, N(strided)(from + k * p->dilation, stride), max);
        if (!max && factor)
            acc *= n == VL ? N(load)(factor + i) : LOAD_N(factor + i, n);
        if (n == VL)
            N(store)(out + i, acc);
        else
            STORE_N(out + i, acc, n);
    }
}

INLINE void N(pool_loop)(const struct loops_pool *p, const bool max, const enum loops_pre pre)
{
    for (int64_t l = 0; l < p->lines; l++)
        N(pool_down)(p, p->row + l * p->rows, p->pad + l * p->pitch + p->before, max, pre);
    for (int64_t l = 0, at = p->first; l < p->lines; l++, at = at + 1 == p->period ? 0 : at + 1) {
        const float *pad = p->pad + l * p->pitch,
                    *factor = p->factor ? p->factor + at * p->n : NULL;
        float *out = p->out + l * p->n;

        if (p->stride == 1)
            N(pool_across)(p, pad, factor, out, max, 1);
        else if (p->stride == 2)
            N(pool_across)(p, pad, factor, out, max, 2);
        else if (p->stride == 4)
            N(pool_across)(p, pad, factor, out, max, 4);
        else
            for (int64_t i = 0; i < p->n; i++) {
                const float *from = pad + i * p->stride;
                float acc = *from;

                for (int k = 1; k < p->taps; k++)
                    acc = N(join1)(acc, from[k * p->dilation], max);
                out[i] = !max && factor ? acc * factor[i] : acc;
            }
    }
}

#ifdef PICK2
/* Lines of less than two vectors, which are never written in between: every tap across picks its
 * lanes out of them. Lanes beyond the line are what is before and after it. Maxima are those of
 * numbers; false if there is NaN, and nothing is as it should be. */
INLINE bool N(pool_narrow)(const struct loops_pool *p, const bool max, const enum loops_pre pre,
                           const int two)
{
    const int n1 = (int)MIN(p->width, (int64_t)VL), n2 = (int)MAX(p->width - VL, (int64_t)0),
              m1 = (int)MIN(p->n, (int64_t)VL), m2 = (int)MAX(p->n - VL, (int64_t)0);
    const N(vf) fill = N(set)(p->fill);
    N(vi) pick[NARROW_TAPS][2];
    int nan = 0;

    for (int k = 0; k < p->taps; k++)
        for (int i = 0; i < 2 * VL; i++) {
            int64_t at = i * p->stride + k * p->dilation - p->before;

            pick[k][i / VL][i % VL] = at < 0 || at >= p->width ? 2 * VL - 1 : (int32_t)at;
        }
    for (int64_t l = 0, at = p->first; l < p->lines; l++, at = at + 1 == p->period ? 0 : at + 1) {
        const float *const *row = p->row + l * p->rows,
                           *factor = p->factor ? p->factor + at * p->n : NULL;
        N(vf) a = fill, b = fill, y[2];

        for (int r = 0; r < p->rows; r++) {
            N(vf) x = N(pre)(LOAD_FILL(row[r], n1, fill), pre);

            nan |= max ? NAN_MASK(x) : 0;
            a = max ? MAX2(a, x) : a + x;
            if (two) {
                x = N(pre)(LOAD_FILL(row[r] + VL, n2, fill), pre);
                nan |= max ? NAN_MASK(x) : 0;
                b = max ? MAX2(b, x) : b + x;
            }
        }
        for (int v = 0; v <= two; v++) {
            y[v] = PICK2(a, pick[0][v], b);
            for (int k = 1; k < p->taps; k++) {
                N(vf) x = PICK2(a, pick[k][v], b);

                y[v] = max ? MAX2(y[v], x) : y[v] + x;
            }
        }
        if (!max && factor) {
            y[0] *= LOAD_FILL(factor, m1, fill);
            if (two && m2)
                y[1] *= LOAD_FILL(factor + VL, m2, fill);
        }
        STORE_N(p->out + l * p->n, y[0], m1);
        if (two && m2)
            STORE_N(p->out + l * p->n + VL, y[1], m2);
    }
    return nan == 0;
}

static bool N(pool_lines)(const struct loops_pool *p)
{
    const int two = p->width > VL || p->n > VL;

    if (p->width >= 2 * VL || p->n > 2 * VL || p->taps > NARROW_TAPS)
        return false;
    if (p->max)
        return two ? N(pool_narrow)(p, true, PRE_NONE, 1) : N(pool_narrow)(p, true, PRE_NONE, 0);
    if (p->pre == PRE_NONE)
        return two ? N(pool_narrow)(p, false, PRE_NONE, 1) : N(pool_narrow)(p, false, PRE_NONE, 0);
    return N(pool_narrow)(p, false, p->pre, two);
}
#endif

static void N(pool)(const struct loops_pool *p)
{
#ifdef PICK2
    if (N(pool_lines)(p))
        return;
#endif
    if (p->max)
        N(pool_loop)(p, true, PRE_NONE);
    else if (p->pre == PRE_NONE)
        N(pool_loop)(p, false, PRE_NONE);
    else
        N(pool_loop)(p, false, p->pre);
}

INLINE void N(taps_loop)(float *out, const float *p, const int32_t *at, const float *w, int64_t n,
                         const int ntaps)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        N(vf) acc = N(set)(0);

        for (int t = 0; t < ntaps; t++) {
            N(vi) from;

            memcpy(&from, at + t * n + i, sizeof(from));
            acc += N(load)(w + t * n + i) * GATHER(p, from);
        }
        N(store)(out + i, acc);
    }
    for (; i < n; i++) {
        float acc = 0;

        for (int t = 0; t < ntaps; t++)
            acc += at[t * n + i] < 0 ? 0 : w[t * n + i] * p[at[t * n + i]];
        out[i] = acc;
    }
}

static void N(taps)(float *out, const float *p, const int32_t *at, const float *w, int64_t n,
                    int ntaps)
{
    if (ntaps == 2)
        N(taps_loop)(out, p, at, w, n, 2);
    else if (ntaps == 4)
        N(taps_loop)(out, p, at, w, n, 4);
    else
        N(taps_loop)(out, p, at, w, n, ntaps);
}

static void N(mix)(float *out, const float *const *row, const float *w, int nrow, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        N(vf) acc = N(load)(row[0] + i) * w[0];

        for (int r = 1; r < nrow; r++)
            acc += N(load)(row[r] + i) * w[r];
        N(store)(out + i, acc);
    }
    for (; i < n; i++) {
        float acc = row[0][i] * w[0];

        for (int r = 1; r < nrow; r++)
            acc += row[r][i] * w[r];
        out[i] = acc;
    }
}

static void N(turn)(float *to, const float *from, const float *cos, const float *sin, int64_t half)
{
    int64_t k = 0;

    for (; k + VL <= half; k += VL) {
        N(vf)
        u = N(load)(from + k), v = N(load)(from + half + k), c = N(load)(cos + k),
        s = N(load)(sin + k);

        N(store)(to + k, c * u - s * v);
        N(store)(to + half + k, s * u + c * v);
    }
    for (; k < half; k++) {
        float u = from[k], v = from[half + k];

        to[k] = cos[k] * u - sin[k] * v;
        to[half + k] = sin[k] * u + cos[k] * v;
    }
}

static void N(axpy)(float *out, const float *x, float w, int64_t n)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL)
        N(store)(out + i, N(load)(out + i) + N(load)(x + i) * w);
    for (; i < n; i++)
        out[i] += x[i] * w;
}

/* So many vectors of sums live in registers. */
INLINE void N(row_some)(float *out, const float *w, const float *b, int64_t pitch, int64_t k,
                        const int vectors)
{
    N(vf) sum[8] = { { 0 } };

    for (int64_t p = 0; p < k; p++, b += pitch)
        UNROLL for (int v = 0; v < vectors; v++) sum[v] += N(load)(b + v * VL) * w[p];
    UNROLL for (int v = 0; v < vectors; v++) N(store)(out + v * VL, sum[v]);
}

static void N(row_product)(float *out, const float *w, const float *b, int64_t pitch, int64_t k,
                           int64_t n)
{
    int64_t i = 0;

    for (; i + 8 * VL <= n; i += 8 * VL)
        N(row_some)(out + i, w, b + i, pitch, k, 8);
    for (; i + VL <= n; i += VL)
        N(row_some)(out + i, w, b + i, pitch, k, 1);
    for (; i < n; i++) {
        float sum = 0;

        for (int64_t p = 0; p < k; p++)
            sum += w[p] * b[p * pitch + i];
        out[i] = sum;
    }
}

INLINE void N(learn_some)(float *s, const float *k, const float *v, const float *q, float *out,
                          int64_t rows, int64_t n, const int vectors)
{
    N(vf) sum[4] = { { 0 } }, add[4];

    UNROLL for (int i = 0; i < vectors; i++) add[i] = N(load)(v + i * VL);
    for (int64_t d = 0; d < rows; d++, s += n)
        UNROLL for (int i = 0; i < vectors; i++)
        {
            const N(vf) x = N(load)(s + i * VL) + add[i] * k[d];

            N(store)(s + i * VL, x);
            sum[i] += x * q[d];
        }
    UNROLL for (int i = 0; i < vectors; i++) N(store)(out + i * VL, sum[i]);
}

static void N(learn)(float *s, const float *k, const float *v, const float *q, float *out,
                     int64_t rows, int64_t n)
{
    int64_t i = 0;

    for (; i + 4 * VL <= n; i += 4 * VL)
        N(learn_some)(s + i, k, v + i, q, out + i, rows, n, 4);
    for (; i + VL <= n; i += VL)
        N(learn_some)(s + i, k, v + i, q, out + i, rows, n, 1);
    for (; i < n; i++) {
        out[i] = 0;
        for (int64_t d = 0; d < rows; d++) {
            s[d * n + i] += k[d] * v[i];
            out[i] += q[d] * s[d * n + i];
        }
    }
}

#if VL == 16
#define TWICE_LOW 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7
#define TWICE_HIGH 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15
#elif VL == 8
#define TWICE_LOW 0, 0, 1, 1, 2, 2, 3, 3
#define TWICE_HIGH 4, 4, 5, 5, 6, 6, 7, 7
#else
#define TWICE_LOW 0, 0, 1, 1
#define TWICE_HIGH 2, 2, 3, 3
#endif

static void N(twice)(float *out, float *again, const float *in, int64_t n)
{
    for (; n >= VL; n -= VL, in += VL, out += 2 * VL, again += 2 * VL) {
        const N(vf) x = N(load)(in), low = __builtin_shufflevector(x, x, TWICE_LOW),
                    high = __builtin_shufflevector(x, x, TWICE_HIGH);

        N(store)(out, low);
        N(store)(out + VL, high);
        N(store)(again, low);
        N(store)(again + VL, high);
    }
    if (n) {
        const N(vf) x = LOAD_N(in, n), low = __builtin_shufflevector(x, x, TWICE_LOW),
                    high = __builtin_shufflevector(x, x, TWICE_HIGH);
        const int64_t first = MIN(2 * n, (int64_t)VL), rest = 2 * n - first;

        STORE_N(out, low, first);
        STORE_N(again, low, first);
        if (rest) {
            STORE_N(out + VL, high, rest);
            STORE_N(again + VL, high, rest);
        }
    }
}

#undef TWICE_LOW
#undef TWICE_HIGH

/* -- Fourier transform: as many points at once as V has -- */

#define FFT_RADIXES(V, name)                                                                      \
    INLINE V N(name##_get)(const double *p)                                                       \
    {                                                                                             \
        V v;                                                                                      \
        memcpy(&v, p, sizeof(v));                                                                 \
        return v;                                                                                 \
    }                                                                                             \
    INLINE void N(name##_put)(double *p, V v)                                                     \
    {                                                                                             \
        memcpy(p, &v, sizeof(v));                                                                 \
    }                                                                                             \
    INLINE void N(name##_turn)(const struct fft_pass *f, int64_t at, V re, V im, const double *w) \
    {                                                                                             \
        N(name##_put)(f->yr + at, re * w[0] - im * w[1]);                                         \
        N(name##_put)(f->yi + at, re * w[1] + im * w[0]);                                         \
    }                                                                                             \
    INLINE void N(name##_2)(const struct fft_pass *f, int64_t p, int64_t q)                       \
    {                                                                                             \
        int64_t a = q + f->s * p, b = a + f->s * f->m, to = q + f->s * 2 * p;                     \
        V ar = N(name##_get)(f->xr + a), ai = N(name##_get)(f->xi + a),                           \
          br = N(name##_get)(f->xr + b), bi = N(name##_get)(f->xi + b);                           \
        N(name##_put)(f->yr + to, ar + br);                                                       \
        N(name##_put)(f->yi + to, ai + bi);                                                       \
        N(name##_turn)(f, to + f->s, ar - br, ai - bi, f->w + 2 * p);                             \
    }                                                                                             \
    INLINE void N(name##_4)(const struct fft_pass *f, int64_t p, int64_t q)                       \
    {                                                                                             \
        const double *w = f->w + 6 * p;                                                           \
        int64_t a = q + f->s * p, step = f->s * f->m, to = q + f->s * 4 * p;                      \
        V ar = N(name##_get)(f->xr + a), ai = N(name##_get)(f->xi + a),                           \
          br = N(name##_get)(f->xr + a + step), bi = N(name##_get)(f->xi + a + step),             \
          cr = N(name##_get)(f->xr + a + 2 * step), ci = N(name##_get)(f->xi + a + 2 * step),     \
          dr = N(name##_get)(f->xr + a + 3 * step), di = N(name##_get)(f->xi + a + 3 * step);     \
        V sr = ar + cr, si = ai + ci, tr = ar - cr, ti = ai - ci;                                 \
        V ur = br + dr, ui = bi + di, vr = bi - di, vi = dr - br;                                 \
        N(name##_put)(f->yr + to, sr + ur);                                                       \
        N(name##_put)(f->yi + to, si + ui);                                                       \
        N(name##_turn)(f, to + f->s, tr + vr, ti + vi, w);                                        \
        N(name##_turn)(f, to + 2 * f->s, sr - ur, si - ui, w + 2);                                \
        N(name##_turn)(f, to + 3 * f->s, tr - vr, ti - vi, w + 4);                                \
    }                                                                                             \
    /* By sums and differences of the points that mirror each other. */                           \
    INLINE void N(name##_odd)(const struct fft_pass *f, int64_t p, int64_t q, const int r)        \
    {                                                                                             \
        const double *w = f->w + 2 * (r - 1) * p;                                                 \
        int64_t a = q + f->s * p, step = f->s * f->m, to = q + f->s * r * p;                      \
        V sr[FFT_PRIME_MAX / 2 + 1], si[FFT_PRIME_MAX / 2 + 1];                                   \
        V dr[FFT_PRIME_MAX / 2 + 1], di[FFT_PRIME_MAX / 2 + 1];                                   \
        V zr = N(name##_get)(f->xr + a), zi = N(name##_get)(f->xi + a), allr = zr, alli = zi;     \
        for (int k = 1; k <= r / 2; k++) {                                                        \
            V xr = N(name##_get)(f->xr + a + k * step), xi = N(name##_get)(f->xi + a + k * step); \
            V yr = N(name##_get)(f->xr + a + (r - k) * step),                                     \
              yi = N(name##_get)(f->xi + a + (r - k) * step);                                     \
            sr[k] = xr + yr;                                                                      \
            si[k] = xi + yi;                                                                      \
            dr[k] = xr - yr;                                                                      \
            di[k] = xi - yi;                                                                      \
            allr += sr[k];                                                                        \
            alli += si[k];                                                                        \
        }                                                                                         \
        N(name##_put)(f->yr + to, allr);                                                          \
        N(name##_put)(f->yi + to, alli);                                                          \
        for (int k = 1; k <= r / 2; k++) {                                                        \
            V er = zr, ei = zi, hr = zr - zr, hi = hr;                                            \
            for (int j = 1, at = k; j <= r / 2; j++, at = at + k >= r ? at + k - r : at + k) {    \
                er += sr[j] * f->root[2 * at];                                                    \
                ei += si[j] * f->root[2 * at];                                                    \
                hr += di[j] * f->root[2 * at + 1];                                                \
                hi += dr[j] * f->root[2 * at + 1];                                                \
            }                                                                                     \
            N(name##_turn)(f, to + k * f->s, er + hr, ei - hi, w + 2 * (k - 1));                  \
            N(name##_turn)(f, to + (r - k) * f->s, er - hr, ei + hi, w + 2 * (r - k - 1));        \
        }                                                                                         \
    }                                                                                             \
    INLINE void N(name##_some)(const struct fft_pass *f, int64_t p, int64_t q, const int radix)   \
    {                                                                                             \
        if (radix == 4)                                                                           \
            N(name##_4)(f, p, q);                                                                 \
        else if (radix == 2)                                                                      \
            N(name##_2)(f, p, q);                                                                 \
        else                                                                                      \
            N(name##_odd)(f, p, q, radix);                                                        \
    }

typedef double N(vh) __attribute__((vector_size(16)));
FFT_RADIXES(N(vd), many)
FFT_RADIXES(N(vh), two)
FFT_RADIXES(double, one)

INLINE void N(fft_radix)(const struct fft_pass *f, const int radix)
{
    for (int64_t p = 0; p < f->m; p++) {
        int64_t q = 0;

        for (; q + WIDE <= f->s; q += WIDE)
            N(many_some)(f, p, q, radix);
        for (; q + 2 <= f->s; q += 2)
            N(two_some)(f, p, q, radix);
        for (; q < f->s; q++)
            N(one_some)(f, p, q, radix);
    }
}

static void N(fft)(const struct fft_pass *f)
{
    switch (f->radix) {
    case 2:
        N(fft_radix)(f, 2);
        break;
    case 3:
        N(fft_radix)(f, 3);
        break;
    case 4:
        N(fft_radix)(f, 4);
        break;
    case 5:
        N(fft_radix)(f, 5);
        break;
    default:
        N(fft_radix)(f, f->radix);
    }
}

typedef uint16_t N(vs) __attribute__((vector_size(VL * 2)));
typedef uint8_t N(vb) __attribute__((vector_size(VL)));

static void N(twice8)(uint8_t *out, const uint8_t *in, int64_t n)
{
    for (int64_t i = 0; i < n && n >= VL; i += VL) {
        int64_t at = MIN(i, n - VL); /* the last vector may be written again in part */
        N(vb) x;
        N(vs) y;

        memcpy(&x, in + at, sizeof(x));
        y = __builtin_convertvector(x, N(vs)) * 257;
        memcpy(out + 2 * at, &y, sizeof(y));
    }
    for (int64_t i = 0; i < n && n < VL; i++)
        out[2 * i] = out[2 * i + 1] = in[i];
}

static void N(quantize16)(uint16_t *out, const float *in, int64_t n, float scale, int32_t zero,
                          int32_t lo, int32_t hi)
{
    const float l = (float)(lo - zero), h = (float)(hi - zero);
    const N(vf) least = l - (N(vf)){ 0 }, most = h - (N(vf)){ 0 };
    int64_t i = 0;

    /* Adding 1.5 * 2^23 rounds to nearest, ties to even, as |x| < 2^22. */
    for (; i + VL <= n; i += VL) {
        N(vf) x = N(load)(in + i) / scale;
        N(vs) y;

        x = N(choose)(x > least, x, least);
        x = N(choose)(x < most, x, most);
        y = __builtin_convertvector(
            __builtin_convertvector((x + 12582912.0f) - 12582912.0f, N(vi)) + zero, N(vs));
        memcpy(out + i, &y, sizeof(y));
    }
    for (; i < n; i++) {
        float x = in[i] / scale;

        x = x > l ? x : l;
        x = x < h ? x : h;
        out[i] = (uint16_t)((int32_t)((x + 12582912.0f) - 12582912.0f) + zero);
    }
}

const struct loops_isa N(loops) = {
    .fft = N(fft),
    .rows = ROWS,
    .columns64 = TILE_NV * WIDE,
    .columns32 = TILE_NV * VL,
    .tile_f64 = N(tile_f64),
    .tile_i64 = N(tile_i64),
    .tile_i32 = N(tile_i32),
    .dot_f64 = N(dot_f64),
    .beyond = N(beyond),
    .arg_rows = N(arg_rows),
    .pool = N(pool),
    .taps = N(taps),
    .mix = N(mix),
    .row_product = N(row_product),
    .axpy = N(axpy),
    .turn = N(turn),
    .twice = N(twice),
    .twice8 = N(twice8),
    .learn = N(learn),
    .quantize16 = N(quantize16),
};

#undef INLINE
#undef WIDE
#undef TILE_NV
#undef TILE
#undef TILE_CASE
#undef TILE_ROWS
#undef ROWS
#undef WRAP
#undef FFT_RADIXES
#undef N
#undef VL
#undef DFMA
#undef EVEN
#undef ANY
#undef LOAD_N
#undef STORE_N
#undef GATHER
#undef PICK2
#undef MAX2
#undef NAN_MASK
#undef LOAD_FILL
