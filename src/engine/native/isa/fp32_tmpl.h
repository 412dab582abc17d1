/* fp32_tmpl.h -- body of fp32_c.c, fp32_avx2.c and fp32_avx512.c. No include guard: included once
 * by each, which define VL (floats in a vector), MR, NV (vectors in a tile's row), VFMA and
 * ISA_NAME first. */
#include "engine/native/isa/shuffle.h"

typedef float vf __attribute__((vector_size(VL * 4)));
typedef int32_t vi __attribute__((vector_size(VL * 4)));

#define NR (NV * VL)
#define INLINE static inline __attribute__((always_inline))

INLINE vf vset(float x)
{
    vf v = { 0 };

    return x - v; /* a broadcast and no more: compilers may drop - 0, but not + 0 */
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

/* NaN in a comes through. VMAX and VMIN give their second operand if either is NaN. */
INLINE vf vmax(vf a, vf b)
{
#ifdef VMAX
    return VMAX(b, a);
#else
    return vsel(a < b, b, a);
#endif
}

INLINE vf vmin(vf a, vf b)
{
#ifdef VMIN
    return VMIN(b, a);
#else
    return vsel(a > b, b, a);
#endif
}

/* Lanes put together in halves, not one after the other. */
INLINE float vsum(vf v)
{
#ifdef VSUM
    return VSUM(v);
#else
    float t[VL];

    vstore(t, v);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] += t[i + w];
    return t[0];
#endif
}

INLINE float vlargest(vf v)
{
#ifdef VLARGEST
    return VLARGEST(v);
#else
    float t[VL];

    vstore(t, v);
    for (int w = VL / 2; w > 0; w /= 2)
        for (int i = 0; i < w; i++)
            t[i] = t[i] > t[i + w] ? t[i] : t[i + w];
    return t[0];
#endif
}

/* Cephes' expf: 2^n * p(r), about 1 ulp; infinity above 88.7, NaN stays. Below -87.3 it would be
 * subnormal: 0 there, but for VSCALE, which gets it right. */
INLINE vf vexp(vf x)
{
    const vf lo = vset(-104.0f), hi = vset(89.0f);
    vf c = vmin(vmax(x, lo), hi), n, r, p;

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
#ifdef VSCALE
    return VSCALE(p, n);
#else
    vi e = __builtin_convertvector(vmax(vmin(n, vset(128)), vset(-126)), vi);

    /* In two steps, so that 2^128 * 0.99 does not overflow early. */
    p = p * (vf)(((e >> 1) + 127) << 23);
    p = p * (vf)(((e - (e >> 1)) + 127) << 23);
    p = vsel(x < vset(-87.33654f), vset(0), p);
    p = vsel(x > vset(88.72283f), vset(INFINITY), p);
    return vsel(x != x, x, p);
#endif
}

INLINE vf vsigmoid(vf x)
{
    return vset(1.0f) / (vset(1.0f) + vexp(-x));
}

/* Rational approximations of single precision, as Eigen and XLA have them. tanh is num / den. */
INLINE void vtanh_parts(vf x, vf *num, vf *den)
{
    vf c = vmin(vmax(x, vset(-7.90531110763549805f)), vset(7.90531110763549805f)), x2 = c * c, p, q;

    p = VFMA(vset(-2.76076847742355e-16f), x2, vset(2.00018790482477e-13f));
    p = VFMA(p, x2, vset(-8.60467152213735e-11f));
    p = VFMA(p, x2, vset(5.12229709037114e-08f));
    p = VFMA(p, x2, vset(1.48572235717979e-05f));
    p = VFMA(p, x2, vset(6.37261928875436e-04f));
    *num = VFMA(p, x2, vset(4.89352455891786e-03f)) * c;
    q = VFMA(vset(1.19825839466702e-06f), x2, vset(1.18534705686654e-04f));
    q = VFMA(q, x2, vset(2.26843463243900e-03f));
    *den = VFMA(q, x2, vset(4.89352518554385e-03f));
}

INLINE vf vtanh(vf x)
{
    vi small = (vf)((vi)x & 0x7fffffff) < vset(0.0004f);
    vf p, q;

    vtanh_parts(x, &p, &q);
    return vsel(small, x, p / q);
}

/* sigmoid(a) * tanh(b) with one division */
INLINE vf vgated(vf a, vf b)
{
    vf p, q;

    vtanh_parts(b, &p, &q);
    return p / VFMA(q, vexp(-a), q);
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

#include "engine/native/isa/fp32_math_tmpl.h"

#include "engine/native/isa/fp32_gemm_tmpl.h"

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
        /* 1 + tanh(u) is 2 * sigmoid(2 * u), which loses nothing where it is small */
        return x * vsigmoid(1.5957691216f * VFMA(x * x * x, vset(0.044715f), x));
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
    case U_SQRT:
        return vsqrt(x);
    case U_FLOOR:
        return vfloor(x);
    case U_CEIL:
        return vceil(x);
    case U_ROUND:
        return vround(x);
    case U_LOG:
        return vlog(x);
    case U_SIN:
        return vsin(x, 0);
    case U_COS:
        return vsin(x, 1);
    case U_ELU:
        return vsel(x < vset(0), vexpm1(x) * alpha, x);
    case U_SOFTPLUS:
        return vsoftplus(x);
    case U_MISH:
        return x * vtanh(vsoftplus(x));
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
        CASE(U_SQRT)
        CASE(U_FLOOR)
        CASE(U_CEIL)
        CASE(U_ROUND)
        CASE(U_LOG)
        CASE(U_SIN)
        CASE(U_COS)
        CASE(U_ELU)
        CASE(U_SOFTPLUS)
        CASE(U_MISH)
#undef CASE
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
        max = vlargest(m);
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

/* x less the greatest, less the logarithm of the sum of their exponentials. */
static void logsoftmax(float *out, const float *in, int64_t n)
{
    float max = in[0], total;
    vf m, s = vset(0), mv, lv;
    int64_t i = 0;

    if (n >= VL) {
        m = vload(in);
        for (i = VL; i + VL <= n; i += VL)
            m = vmax(m, vload(in + i));
        max = vlargest(m);
    }
    for (; i < n; i++)
        max = in[i] > max ? in[i] : max;
    if (max == INFINITY || max == -INFINITY)
        max = 0;
    mv = vset(max);
    for (i = 0; i + VL <= n; i += VL)
        s += vexp(vload(in + i) - mv);
    total = vsum(s);
    if (i < n) {
        vf e = vexp(vload_n(in + i, n - i) - mv);

        for (int64_t j = 0; j < n - i; j++)
            total += e[j];
    }
    total = logf(total);
    lv = vset(total);
    for (i = 0; i + VL <= n; i += VL)
        vstore(out + i, (vload(in + i) - mv) - lv);
    if (i < n)
        vstore_n(out + i, (vload_n(in + i, n - i) - mv) - lv, n - i);
}

/* Four rows: while one waits for its sum, others go on. */
INLINE void soft4_of(float *out, const float *in, int64_t n, const bool log)
{
    int64_t whole = n - n % VL;
    float by[VL] = { 1, 1, 1, 1 };
    vf m[4], s[4];
    vi in_rest;

    for (int lane = 0; lane < VL; lane++)
        in_rest[lane] = -(lane < n - whole);
    for (int r = 0; r < 4; r++)
        m[r] = vload(in + r * n + n - VL);
    for (int64_t i = 0; i < whole; i += VL)
        UNROLL for (int r = 0; r < 4; r++) m[r] = vmax(m[r], vload(in + r * n + i));
    for (int r = 0; r < 4; r++) {
        float max = vlargest(m[r]);

        m[r] = vset(max == -INFINITY || (log && max == INFINITY) ? 0 : max);
        s[r] = vset(0);
    }
    for (int64_t i = 0; i < whole; i += VL)
        UNROLL for (int r = 0; r < 4; r++)
        {
            vf e = vexp(vload(in + r * n + i) - m[r]);

            s[r] += e;
            if (!log)
                vstore(out + r * n + i, e);
        }
    for (int r = 0; r < 4; r++) {
        if (whole < n) {
            vf e = vexp(vload_n(in + r * n + whole, n - whole) - m[r]);

            s[r] += vsel(in_rest, e, vset(0));
            if (!log)
                vstore_n(out + r * n + whole, e, n - whole);
        }
        by[r] = vsum(s[r]);
    }
    vstore(by, log ? vlog(vload(by)) : vset(1) / vload(by));
    for (int r = 0; r < 4; r++) {
        float *to = out + r * n;
        const float *from = in + r * n;
        const vf b = vset(by[r]);
        int64_t i = 0;

        for (; i < whole; i += VL)
            vstore(to + i, log ? vload(from + i) - m[r] - b : vload(to + i) * b);
        if (i < n)
            vstore_n(to + i, log ? vload_n(from + i, n - i) - m[r] - b : vload_n(to + i, n - i) * b,
                     n - i);
    }
}

static void soft4(float *out, const float *in, int64_t n, bool log)
{
    if (log)
        soft4_of(out, in, n, true);
    else
        soft4_of(out, in, n, false);
}

/* max of y as it is written over x */
INLINE float soft_begin(float *x, int64_t n, float scale, const float *mask)
{
    vf m = vset(-INFINITY), sv = vset(scale);
    float max = -INFINITY;
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vf y = mask ? VFMA(vload(x + i), sv, vload(mask + i)) : vload(x + i) * sv;

        vstore(x + i, y);
        m = vmax(y, m);
    }
    max = vlargest(m);
    for (; i < n; i++) {
        x[i] = mask ? FMA1(x[i], scale, mask[i]) : x[i] * scale;
        max = x[i] > max ? x[i] : max;
    }
    return max;
}

static float softexp(float *x, int64_t n, float scale, const float *mask)
{
    float max = mask ? soft_begin(x, n, scale, mask) : soft_begin(x, n, scale, NULL), total;
    vf s = vset(0);
    int64_t i = 0;

    if (max == -INFINITY) /* all masked: nothing is left to weigh */
        max = 0;
    for (; i + VL <= n; i += VL) {
        vf e = vexp(vload(x + i) - max);

        s += e;
        vstore(x + i, e);
    }
    total = vsum(s);
    if (i < n) {
        vf e = vexp(vload_n(x + i, n - i) - max);

        vstore_n(x + i, e, n - i);
        for (int64_t j = 0; j < n - i; j++)
            total += e[j];
    }
    return total;
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

INLINE vf reduce1(enum isa_reduce f, vf acc, vf x)
{
    switch (f) {
    case R_SUM:
        return acc + x;
    case R_SQUARES:
        return VFMA(x, x, acc);
    case R_ABS:
        return acc + (vf)((vi)x & 0x7fffffff);
    case R_MAX:
        return binary1(B_MAX, acc, x);
    default:
        return binary1(B_MIN, acc, x);
    }
}

/* Four rows of lanes, put together at the end. */
INLINE float reduce_loop(const enum isa_reduce f, const float *x, int64_t n)
{
    const bool sum = f != R_MAX && f != R_MIN;
    vf first = sum ? vset(0) : vset(*x), acc[4] = { first, first, first, first };
    int64_t i = 0;

    for (; i + 4 * VL <= n; i += 4 * VL)
        for (int k = 0; k < 4; k++)
            acc[k] = reduce1(f, acc[k], vload(x + i + k * VL));
    for (; i + VL <= n; i += VL)
        acc[0] = reduce1(f, acc[0], vload(x + i));
    if (i < n && sum)
        acc[1] = reduce1(f, acc[1], vload_n(x + i, n - i));
    if (i < n && !sum && n >= VL) /* some of them twice */
        acc[1] = reduce1(f, acc[1], vload(x + n - VL));
    for (; i < n && !sum && n < VL; i++)
        acc[1] = reduce1(f, acc[1], vset(x[i]));
    if (sum)
        return vsum((acc[0] + acc[1]) + (acc[2] + acc[3]));
    acc[0] = reduce1(f, reduce1(f, acc[0], acc[1]), reduce1(f, acc[2], acc[3]));
    if (vsum(vsel(acc[0] != acc[0], vset(1), vset(0))) > 0)
        return NAN;
    return f == R_MAX ? vlargest(acc[0]) : -vlargest(-acc[0]);
}

static float reduce(enum isa_reduce f, const float *x, int64_t n)
{
    switch (f) {
    case R_SUM:
        return reduce_loop(R_SUM, x, n);
    case R_SQUARES:
        return reduce_loop(R_SQUARES, x, n);
    case R_ABS:
        return reduce_loop(R_ABS, x, n);
    case R_MAX:
        return reduce_loop(R_MAX, x, n);
    default:
        return reduce_loop(R_MIN, x, n);
    }
}

static void lstm(float *h, float *c, const float *gate, int64_t n)
{
    for (int64_t k = 0; k < n; k += VL) {
        int64_t m = n - k;
        vf i = tile_load(gate + k, m), o = tile_load(gate + n + k, m),
           f = tile_load(gate + 2 * n + k, m), u = tile_load(gate + 3 * n + k, m);
        vf state = VFMA(vsigmoid(f), tile_load(c + k, m), vgated(i, u));
        vf out = vgated(o, state);

        tile_store(c + k, state, m);
        tile_store(h + k, out, m);
    }
}

#include "engine/native/isa/blocked_tmpl.h"

const struct isa ISA_NAME = {
    .mr = MR,
    .nr = NR,
    .lanes = VL,
    .gemm = gemm,
    .binary = binary,
    .unary = unary,
    .softmax = softmax,
    .logsoftmax = logsoftmax,
    .soft4 = soft4,
    .layernorm = layernorm,
    .depthwise = depthwise,
    .dot = dot,
    .tile = tile,
#ifdef VHALF
    .row_half = true,
#endif
    .reduce = reduce,
    .softexp = softexp,
    .lstm = lstm,
    .blk = &blk,
};
