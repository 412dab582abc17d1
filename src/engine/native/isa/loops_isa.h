/* loops_isa.h -- the inner loops of kernels on plain tensors that are neither products of floats
 * nor element-wise, once per instruction set: products of other types, passes of the Fourier
 * transform. */
#ifndef NATIVE_LOOPS_ISA_H
#define NATIVE_LOOPS_ISA_H

#include "engine/native/isa/isa.h"

/* The greatest prime that has passes of its own. */
#define FFT_PRIME_MAX 31

/* One pass of a transform of radix * m * s points, s of them side by side (Stockham's order, by
 * frequency): of p < m, q < s, the points x[q + s * (p + m * k)], k < radix, are transformed and
 * multiplied by w[p][k - 1], and go to y[q + s * (radix * p + k)]. w is cos and sin by turns. */
struct fft_pass {
    int radix; /* 2, 4, or an odd prime up to FFT_PRIME_MAX */
    int64_t m, s;
    const double *xr, *xi;
    double *yr, *yi;
    const double *w;
    const double *root; /* odd: cos and sin of k / radix turns, k < radix */
};

/* c[m x n] (+)= a * b of some type: n <= columns, m <= rows. Element (i, p) of a is at
 * a[i * ars + p * aks]; row p of b, of all columns also where n is less, at b + p * brs. Integers
 * wrap. */
struct loops_tile {
    int m, n;
    int64_t k;
    const void *a, *b;
    int64_t ars, aks, brs;
    void *c;
    int64_t ldc;
    bool add;
};

/* Lines of a pooled plane, first all of them along y, then along x, as what was just written is
 * slow to read: line l's rows of the input, row[l * rows] and so on, each changed as `pre` says,
 * are put together in pad, l * pitch further on, and those windows of pad then make out. pad has
 * room for LOOPS_PAD() floats after each line: what is before and after a row is there, and stays.
 */
enum loops_pre { PRE_NONE, PRE_ABS, PRE_SQUARE };
struct loops_pool {
    const float *const *row;
    int rows;
    int64_t lines;
    int64_t width, before, after;
    float fill; /* of before and after */
    float *pad;
    int64_t pitch; /* of lines of pad */
    float *out;    /* lines of n */
    int64_t n;
    int taps;
    int64_t stride, dilation;
    bool max; /* else the sum; NaN comes through */
    /* n for each line, that its sums are multiplied by: those of line l are the (first + l) mod
     * period'th. NULL: none. */
    const float *factor;
    int64_t first, period;
    enum loops_pre pre;
};
#define LOOPS_PAD(width, before, after, reach) ((width) + (before) + (after) + (reach) + 64)

struct loops_isa {
    void (*fft)(const struct fft_pass *p);
    int rows;                 /* of a tile */
    int columns64, columns32; /* of one with elements of so many bits */
    void (*tile_f64)(const struct loops_tile *t);
    void (*tile_i64)(const struct loops_tile *t);
    void (*tile_i32)(const struct loops_tile *t);
    double (*dot_f64)(const double *a, const double *b, int64_t n);
    /* The first element from i on that is not <= edge, or if below not >= edge; n: none. */
    int64_t (*beyond)(const float *x, int64_t i, int64_t n, float edge, bool above);
    /* Row k of a column-wise search: where x is greater than best, or less, or if last equal, it
     * becomes best, and k at. */
    void (*arg_rows)(float *best, int32_t *at, const float *x, int64_t n, int32_t k, bool max,
                     bool last);
    void (*pool)(const struct loops_pool *p);
    /* out[i] = the sum over t of w[t * n + i] * p[at[t * n + i]], 0 where at is negative. */
    void (*taps)(float *out, const float *p, const int32_t *at, const float *w, int64_t n,
                 int ntaps);
    /* out[i] = the sum over t of w[t] * row[t][i]; out is none of them. */
    void (*mix)(float *out, const float *const *row, const float *w, int nrow, int64_t n);
    /* out[i] = the sum over p < k of w[p] * b[p * pitch + i]. */
    void (*row_product)(float *out, const float *w, const float *b, int64_t pitch, int64_t k,
                        int64_t n);
    /* out[i] += w * x[i] */
    void (*axpy)(float *out, const float *x, float w, int64_t n);
    /* out[2 * i] = out[2 * i + 1] = again[2 * i] = again[2 * i + 1] = in[i], bit by bit */
    void (*twice)(float *out, float *again, const float *in, int64_t n);
    /* The same of bytes, once: out[2 * i] = out[2 * i + 1] = in[i] */
    void (*twice8)(uint8_t *out, const uint8_t *in, int64_t n);
    /* Each of `rows` rows of n of s: s[d] += k[d] * v; out = the sum over d of q[d] * s[d]. */
    void (*learn)(float *s, const float *k, const float *v, const float *q, float *out,
                  int64_t rows, int64_t n);
    /* to[k] = cos[k] * u - sin[k] * v, to[k + half] = sin[k] * u + cos[k] * v of u = from[k],
     * v = from[k + half]; to may be from. */
    void (*turn)(float *to, const float *from, const float *cos, const float *sin, int64_t half);
    /* out[i] = in[i] / scale to nearest + zero, within lo .. hi, which 16 bits hold. */
    void (*quantize16)(uint16_t *out, const float *in, int64_t n, float scale, int32_t zero,
                       int32_t lo, int32_t hi);
};

extern const struct loops_isa loops_c, loops_avx2, loops_avx512, loops_neon;

#endif
