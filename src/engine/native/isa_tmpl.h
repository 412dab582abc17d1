/* isa_tmpl.h -- body of isa_c.c, isa_avx2.c and isa_avx512.c. No include guard: included once by
 * each, which define VL (floats in a vector), MR, NV (vectors in a tile's row), VFMA and ISA_NAME
 * first. */

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));

#define NR (NV * VL)
#define INLINE static inline __attribute__((always_inline))

INLINE vf vset(float x)
{
    vf v = { 0 };

    return v + x;
}

INLINE vf vload(const float *p)
{
    vf v;

    memcpy(&v, p, sizeof(v));
    return v;
}

INLINE void vstore(float *p, vf v)
{
    memcpy(p, &v, sizeof(v));
}

/* The first n < VL elements; others are 0. */
INLINE vf vload_n(const float *p, int64_t n)
{
#ifdef VLOAD_N
    return VLOAD_N(p, n);
#else
    vf v = { 0 };

    memcpy(&v, p, (size_t)n * sizeof(*p));
    return v;
#endif
}

INLINE void vstore_n(float *p, vf v, int64_t n)
{
#ifdef VSTORE_N
    VSTORE_N(p, v, n);
#else
    memcpy(p, &v, (size_t)n * sizeof(*p));
#endif
}

INLINE vf vsel(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* NaN in a comes through. */
INLINE vf vmax(vf a, vf b)
{
    return vsel(a < b, b, a);
}

INLINE vf vmin(vf a, vf b)
{
    return vsel(a > b, b, a);
}

INLINE float vsum(vf v)
{
    float s = 0;

    for (int i = 0; i < VL; i++)
        s += v[i];
    return s;
}

/* Cephes' expf: 2^n * p(r), about 1 ulp; 0 where it would be subnormal, infinity above 88.7, NaN
 * stays. */
INLINE vf vexp(vf x)
{
    const vf lo = vset(-87.33654f), hi = vset(88.72283f);
    vi nan = x != x, under = x<lo, over = x> hi;
    vf c = vmin(vmax(x, lo), hi), n, r, p;
    vi e;

    n = VFMA(c, vset(1.44269504f), vset(12582912.0f)) - vset(12582912.0f); /* round to nearest */
    r = VFMA(n, vset(-0.693359375f), c);
    r = VFMA(n, vset(2.12194440e-4f), r);
    p = vset(1.9875691500e-4f);
    p = VFMA(p, r, vset(1.3981999507e-3f));
    p = VFMA(p, r, vset(8.3334519073e-3f));
    p = VFMA(p, r, vset(4.1665795894e-2f));
    p = VFMA(p, r, vset(1.6666665459e-1f));
    p = VFMA(p, r, vset(5.0000001201e-1f));
    p = VFMA(p, r * r, r) + 1.0f;
    e = __builtin_convertvector(n, vi);
    /* In two steps, so that 2^128 * 0.99 does not overflow early. */
    p = p * (vf)(((e >> 1) + 127) << 23);
    p = p * (vf)(((e - (e >> 1)) + 127) << 23);
    p = vsel(under, vset(0), p);
    p = vsel(over, vset(INFINITY), p);
    return vsel(nan, x, p);
}

INLINE vf vsigmoid(vf x)
{
    return vset(1.0f) / (vset(1.0f) + vexp(-x));
}

/* Rational approximations of single precision, as Eigen and XLA have them. */
INLINE vf vtanh(vf x)
{
    vf c = vmin(vmax(x, vset(-7.90531110763549805f)), vset(7.90531110763549805f)), x2 = c * c, p, q;
    vi small = (vf)((vi)x & 0x7fffffff) < vset(0.0004f);

    p = VFMA(vset(-2.76076847742355e-16f), x2, vset(2.00018790482477e-13f));
    p = VFMA(p, x2, vset(-8.60467152213735e-11f));
    p = VFMA(p, x2, vset(5.12229709037114e-08f));
    p = VFMA(p, x2, vset(1.48572235717979e-05f));
    p = VFMA(p, x2, vset(6.37261928875436e-04f));
    p = VFMA(p, x2, vset(4.89352455891786e-03f)) * c;
    q = VFMA(vset(1.19825839466702e-06f), x2, vset(1.18534705686654e-04f));
    q = VFMA(q, x2, vset(2.26843463243900e-03f));
    q = VFMA(q, x2, vset(4.89352518554385e-03f));
    return vsel(small, x, p / q);
}

INLINE vf verf(vf x)
{
    vf c = vmin(vmax(x, vset(-4.0f)), vset(4.0f)), x2 = c * c, p, q;

    p = VFMA(vset(-2.72614225801306e-10f), x2, vset(2.77068142495902e-08f));
    p = VFMA(p, x2, vset(-2.10102402082508e-06f));
    p = VFMA(p, x2, vset(-5.69250639462346e-05f));
    p = VFMA(p, x2, vset(-7.34990630326855e-04f));
    p = VFMA(p, x2, vset(-2.95459980854025e-03f));
    p = VFMA(p, x2, vset(-1.60960333262415e-02f)) * c;
    q = VFMA(vset(-1.45660718464996e-05f), x2, vset(-2.13374055278905e-04f));
    q = VFMA(q, x2, vset(-1.68282697438203e-03f));
    q = VFMA(q, x2, vset(-7.37332916720468e-03f));
    q = VFMA(q, x2, vset(-1.42647390514189e-02f));
    return p / q;
}

/* ISO C forbids contraction, so products and sums that belong together say VFMA. */
INLINE void gemm_rows(const int m, int n, int64_t k, const float *a, const float *b, float *c,
                      int64_t ldc, bool add)
{
    vf acc[MR][NV];
    float row[NR];

    for (int i = 0; i < m; i++)
        for (int j = 0; j < NV; j++)
            acc[i][j] = vset(0);
    for (int64_t p = 0; p < k; p++) {
        vf bv[NV];

        for (int j = 0; j < NV; j++)
            bv[j] = vload(b + j * VL);
        for (int i = 0; i < m; i++) {
            vf av = vset(a[i]);

            for (int j = 0; j < NV; j++)
                acc[i][j] = VFMA(av, bv[j], acc[i][j]);
        }
        a += MR;
        b += NR;
    }
    if (n == NR) {
        for (int i = 0; i < m; i++)
            for (int j = 0; j < NV; j++) {
                float *to = c + i * ldc + j * VL;

                vstore(to, add ? vload(to) + acc[i][j] : acc[i][j]);
            }
        return;
    }
    for (int i = 0; i < m; i++) {
        for (int j = 0; j < NV; j++)
            vstore(row + j * VL, acc[i][j]);
        for (int j = 0; j < n; j++)
            c[i * ldc + j] = add ? c[i * ldc + j] + row[j] : row[j];
    }
}

static void gemm(int m, int n, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                 bool add)
{
    switch (m) {
#define ROWS(i)                                \
    case i:                                    \
        gemm_rows(i, n, k, a, b, c, ldc, add); \
        break;
        GEMM_ROWS(ROWS)
#undef ROWS
    }
}

INLINE vf binary1(enum isa_binary f, vf a, vf b)
{
    switch (f) {
    case B_ADD:
        return a + b;
    case B_SUB:
        return a - b;
    case B_MUL:
        return a * b;
    case B_DIV:
        return a / b;
    case B_MAX:
        return vsel((a < b) | (b != b), b, a);
    default:
        return vsel((a > b) | (b != b), b, a);
    }
}

INLINE void binary_loop(const enum isa_binary f, float *out, const float *a, int64_t sa,
                        const float *b, int64_t sb, int64_t n)
{
    vf a0 = vset(*a), b0 = vset(*b);
    int64_t i = 0;

    for (; i + VL <= n; i += VL)
        vstore(out + i, binary1(f, sa ? vload(a + i) : a0, sb ? vload(b + i) : b0));
    if (i < n)
        vstore_n(out + i,
                 binary1(f, sa ? vload_n(a + i, n - i) : a0, sb ? vload_n(b + i, n - i) : b0),
                 n - i);
}

static void binary(enum isa_binary f, float *out, const float *a, int64_t sa, const float *b,
                   int64_t sb, int64_t n)
{
    if (n <= 0)
        return;
    switch (f) {
#define CASE(op)                               \
    case op:                                   \
        binary_loop(op, out, a, sa, b, sb, n); \
        break;
        CASE(B_ADD)
        CASE(B_SUB)
        CASE(B_MUL)
        CASE(B_DIV)
        CASE(B_MAX)
        CASE(B_MIN)
#undef CASE
    default:
        break;
    }
}

INLINE vf unary1(enum isa_unary f, vf x, float alpha, float beta)
{
    switch (f) {
    case U_RELU:
        return vmax(x, vset(0));
    case U_CLIP:
        return vmin(vmax(x, vset(alpha)), vset(beta));
    case U_LEAKY:
        return vsel(x < vset(0), x * alpha, x);
    case U_SIGMOID:
        return vsigmoid(x);
    case U_TANH:
        return vtanh(x);
    case U_EXP:
        return vexp(x);
    case U_ERF:
        return verf(x);
    case U_GELU:
        return x * 0.5f * (verf(x * 0.70710678f) + 1.0f);
    case U_GELU_TANH:
        return x * 0.5f * (vtanh(0.7978845608f * VFMA(x * x * x, vset(0.044715f), x)) + 1.0f);
    case U_SILU:
        return x * vsigmoid(x * alpha);
    case U_HARDSWISH:
        return x * vmin(vmax(VFMA(x, vset(1.0f / 6), vset(0.5f)), vset(0)), vset(1));
    case U_HARDSIGMOID:
        return vmin(vmax(VFMA(x, vset(alpha), vset(beta)), vset(0)), vset(1));
    case U_RECIPROCAL:
        return vset(1.0f) / x;
    case U_NEG:
        return -x;
    case U_ABS:
        return (vf)((vi)x & 0x7fffffff);
    case U_AFFINE:
        return VFMA(x, vset(alpha), vset(beta));
    case U_SQUARE:
        return x * x;
    default:
        return x;
    }
}

INLINE void unary_loop(const enum isa_unary f, float *out, const float *in, int64_t n, float alpha,
                       float beta)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL)
        vstore(out + i, unary1(f, vload(in + i), alpha, beta));
    if (i < n)
        vstore_n(out + i, unary1(f, vload_n(in + i, n - i), alpha, beta), n - i);
}

static void unary(enum isa_unary f, float *out, const float *in, int64_t n, float alpha, float beta)
{
    switch (f) {
#define CASE(op)                                 \
    case op:                                     \
        unary_loop(op, out, in, n, alpha, beta); \
        break;
        CASE(U_RELU)
        CASE(U_CLIP)
        CASE(U_LEAKY)
        CASE(U_SIGMOID)
        CASE(U_TANH)
        CASE(U_EXP)
        CASE(U_ERF)
        CASE(U_GELU)
        CASE(U_GELU_TANH)
        CASE(U_SILU)
        CASE(U_HARDSWISH)
        CASE(U_HARDSIGMOID)
        CASE(U_RECIPROCAL)
        CASE(U_NEG)
        CASE(U_ABS)
        CASE(U_AFFINE)
        CASE(U_SQUARE)
#undef CASE
    case U_SQRT:
        for (int64_t i = 0; i < n; i++)
            out[i] = sqrtf(in[i]);
        break;
    default:
        break;
    }
}

static void softmax(float *out, const float *in, int64_t n)
{
    float max = -INFINITY, total = 0;
    vf m, s = vset(0);
    int64_t i = 0;

    if (n >= VL) {
        m = vload(in);
        for (i = VL; i + VL <= n; i += VL)
            m = vmax(m, vload(in + i));
        for (int j = 0; j < VL; j++)
            max = m[j] > max ? m[j] : max;
    }
    for (; i < n; i++)
        max = in[i] > max ? in[i] : max;
    if (max == -INFINITY) /* all masked, or nothing: as exp(x - 0) would give NaN by 0 / 0 */
        max = 0;
    for (i = 0; i + VL <= n; i += VL) {
        vf e = vexp(vload(in + i) - max);

        s += e;
        vstore(out + i, e);
    }
    total = vsum(s);
    if (i < n) {
        vf e = vexp(vload_n(in + i, n - i) - max);

        vstore_n(out + i, e, n - i);
        for (int64_t j = 0; j < n - i; j++)
            total += e[j];
    }
    unary_loop(U_AFFINE, out, out, n, 1.0f / total, 0);
}

static void layernorm(float *out, const float *in, const float *scale, const float *bias, int64_t n,
                      float eps, float *out_mean, float *out_inv)
{
    vf s = vset(0), q = vset(0), mv, iv;
    float mean, var, inv;
    int64_t i = 0;

    for (; i + VL <= n; i += VL)
        s += vload(in + i);
    mean = vsum(s);
    for (; i < n; i++)
        mean += in[i];
    mean /= (float)n;
    mv = vset(mean);
    for (i = 0; i + VL <= n; i += VL) {
        vf d = vload(in + i) - mv;

        q = VFMA(d, d, q);
    }
    var = vsum(q);
    for (; i < n; i++)
        var += (in[i] - mean) * (in[i] - mean);
    inv = 1.0f / sqrtf(var / (float)n + eps);
    iv = vset(inv);
    for (i = 0; i + VL <= n; i += VL) {
        vf d = (vload(in + i) - mv) * iv;

        if (scale)
            d = d * vload(scale + i);
        if (bias)
            d = d + vload(bias + i);
        vstore(out + i, d);
    }
    for (; i < n; i++) {
        float d = (in[i] - mean) * inv;

        if (scale)
            d *= scale[i];
        if (bias)
            d += bias[i];
        out[i] = d;
    }
    if (out_mean)
        *out_mean = mean;
    if (out_inv)
        *out_inv = inv;
}

static void depthwise(float *out, int64_t n, const float *const *row, const float *const *w,
                      int rows, int taps, int64_t step, int64_t dilation, float bias)
{
    int64_t i = 0;

    if (step == 1)
        for (; i < n; i += VL) {
            int64_t m = n - i;
            vf acc = vset(bias);

            for (int r = 0; r < rows; r++)
                for (int k = 0; k < taps; k++) {
                    const float *in = row[r] + i + k * dilation;

                    acc = VFMA(vset(w[r][k]), m >= VL ? vload(in) : vload_n(in, m), acc);
                }
            if (m >= VL)
                vstore(out + i, acc);
            else
                vstore_n(out + i, acc, m);
        }
    else if (step == 2)
        for (; i + VL < n; i += VL) { /* not to the end: the last odd element may not exist */
            vf acc = vset(bias);

            for (int r = 0; r < rows; r++)
                for (int k = 0; k < taps; k++) {
                    const float *in = row[r] + 2 * i + k * dilation;

                    acc = VFMA(vset(w[r][k]),
                               __builtin_shufflevector(vload(in), vload(in + VL), EVEN), acc);
                }
            vstore(out + i, acc);
        }
    for (; i < n; i++) {
        float acc = bias;

        for (int r = 0; r < rows; r++)
            for (int k = 0; k < taps; k++)
                acc = FMA1(w[r][k], row[r][i * step + k * dilation], acc);
        out[i] = acc;
    }
}

static float dot(const float *a, const float *b, int64_t n)
{
    vf s = vset(0), s2 = vset(0);
    int64_t i = 0;
    float t;

    for (; i + 2 * VL <= n; i += 2 * VL) {
        s = VFMA(vload(a + i), vload(b + i), s);
        s2 = VFMA(vload(a + i + VL), vload(b + i + VL), s2);
    }
    for (; i + VL <= n; i += VL)
        s = VFMA(vload(a + i), vload(b + i), s);
    t = vsum(s + s2);
    for (; i < n; i++)
        t = FMA1(a[i], b[i], t);
    return t;
}

#include "engine/native/isa_blk_tmpl.h"

const struct isa ISA_NAME = { ISA_TEXT, MR,        NR,        gemm, binary, unary,
                              softmax,  layernorm, depthwise, dot,  &blk };
