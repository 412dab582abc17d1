/* loops_tmpl.h -- body of loops_isa.c, once per instruction set: N(name), VL (32-bit lanes of a
 * vector), DFMA(a, b, c) of doubles, ROWS of a tile and TILE_ROWS(X, name), which is X(name, i) of
 * each i up to it, are the includer's. No include guard. */

#define INLINE static inline __attribute__((always_inline))
#define WIDE (VL / 2) /* 64-bit lanes */

typedef double N(vd) __attribute__((vector_size(WIDE * 8)));
typedef uint64_t N(vu) __attribute__((vector_size(WIDE * 8)));
typedef uint32_t N(vw) __attribute__((vector_size(VL * 4)));

/* -- products -- */

#define TILE_NV 2

#ifdef __clang__
#define TILE_UNROLL _Pragma("clang loop unroll(full)")
#else
#define TILE_UNROLL _Pragma("GCC unroll 8")
#endif

/* Loops over rows and vectors are of constant length, and unrolled at every level of optimization:
 * sums live in registers. V: a vector of T; FMA(a, b, c) of them. Columns beyond n are computed,
 * too, and not written. */
#define TILE(name, T, V, FMA)                                                                 \
    INLINE void N(name##_rows)(const struct loops_tile *t, const int m)                       \
    {                                                                                         \
        const int lanes = (int)(sizeof(V) / sizeof(T));                                       \
        const T *a = t->a, *b = t->b;                                                         \
        V acc[ROWS][TILE_NV];                                                                 \
        TILE_UNROLL for (int i = 0; i < m; i++) TILE_UNROLL for (int v = 0; v < TILE_NV; v++) \
            acc[i][v] = (V){ 0 };                                                             \
        for (int64_t p = 0; p < t->k; p++, a += t->aks, b += t->brs) {                        \
            V bv[TILE_NV];                                                                    \
            memcpy(bv, b, sizeof(bv));                                                        \
            TILE_UNROLL for (int i = 0; i < m; i++)                                           \
            {                                                                                 \
                V av = a[i * t->ars] - (V){ 0 };                                              \
                TILE_UNROLL for (int v = 0; v < TILE_NV; v++) acc[i][v] =                     \
                    FMA(av, bv[v], acc[i][v]);                                                \
            }                                                                                 \
        }                                                                                     \
        TILE_UNROLL for (int i = 0; i < m; i++)                                               \
        {                                                                                     \
            T *c = (T *)t->c + i * t->ldc;                                                    \
            TILE_UNROLL for (int v = 0; v < TILE_NV; v++)                                     \
            {                                                                                 \
                V x = acc[i][v], old;                                                         \
                int n = t->n - v * lanes;                                                     \
                if (n >= lanes) {                                                             \
                    memcpy(&old, c + v * lanes, sizeof(old));                                 \
                    x = t->add ? x + old : x;                                                 \
                    memcpy(c + v * lanes, &x, sizeof(x));                                     \
                    continue;                                                                 \
                }                                                                             \
                for (int j = 0; j < n; j++)                                                   \
                    c[v * lanes + j] = x[j] + (t->add ? c[v * lanes + j] : 0);                \
            }                                                                                 \
        }                                                                                     \
    }                                                                                         \
    static void N(name)(const struct loops_tile *t)                                           \
    {                                                                                         \
        switch (t->m) {                                                                       \
            TILE_ROWS(TILE_CASE, name)                                                        \
        }                                                                                     \
    }

#define TILE_CASE(name, i)    \
    case i:                   \
        N(name##_rows)(t, i); \
        break;

#define WRAP(a, b, c) ((a) * (b) + (c))

TILE(tile_f64, double, N(vd), DFMA)
TILE(tile_i64, uint64_t, N(vu), WRAP)
TILE(tile_i32, uint32_t, N(vw), WRAP)

/* -- rows of floats -- */

typedef float N(vf) __attribute__((vector_size(VL * 4)));
typedef int32_t N(vi) __attribute__((vector_size(VL * 4)));

INLINE N(vf) N(load)(const float *p)
{
    N(vf) v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE bool N(any)(N(vi) v)
{
    uint64_t part[sizeof(v) / 8], all = 0;

    memcpy(part, &v, sizeof(v));
    for (size_t k = 0; k < ARRAY_SIZE(part); k++)
        all |= part[k];
    return all != 0;
}

INLINE int64_t N(beyond_edge)(const float *x, int64_t i, int64_t n, float edge, const bool above)
{
    const N(vf) e = edge - (N(vf)){ 0 };

    for (; i + 4 * VL <= n; i += 4 * VL) {
        N(vi) inside = (N(vi)){ 0 } - 1;

        for (int k = 0; k < 4; k++)
            inside &= above ? N(load)(x + i + k * VL) <= e : N(load)(x + i + k * VL) >= e;
        if (N(any)(~inside))
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

const struct loops_isa N(loops) = {
    .fft = N(fft),
    .rows = ROWS,
    .columns64 = TILE_NV * WIDE,
    .columns32 = TILE_NV * VL,
    .tile_f64 = N(tile_f64),
    .tile_i64 = N(tile_i64),
    .tile_i32 = N(tile_i32),
    .beyond = N(beyond),
};

#undef INLINE
#undef WIDE
#undef TILE_NV
#undef TILE
#undef TILE_UNROLL
#undef TILE_CASE
#undef TILE_ROWS
#undef ROWS
#undef WRAP
#undef FFT_RADIXES
#undef N
#undef VL
#undef DFMA
