/* fp64_tmpl.h -- body of fp64_isa.c, once per instruction set: N(name), WIDE (lanes), DFMA(a, b,
 * c), DSQRT(x), FLOATS_IN(p) and FLOATS_OUT(p, v) of WIDE floats are the includer's, and FUSED
 * where DFMA() rounds once. No include guard. Polynomials and their ranges are those of Cephes. */

typedef double N(vd) __attribute__((vector_size(WIDE * 8)));
typedef int64_t N(vl) __attribute__((vector_size(WIDE * 8)));
typedef double N(vd_at) __attribute__((vector_size(WIDE * 8), aligned(8), may_alias));
#define vd N(vd)
#define vl N(vl)
#define INLINE static inline __attribute__((always_inline))
#define SHIFTER 0x1.8p52 /* to which a whole number is added: it is in the low bits then */
#define ABS_BITS ((int64_t)0x7fffffffffffffff)

INLINE vd N(set)(double x)
{
    return x - (vd){ 0 };
}

INLINE vd N(sel)(vl mask, vd a, vd b)
{
    return (vd)((mask & (vl)a) | (~mask & (vl)b));
}

INLINE vd N(abs)(vd x)
{
    return (vd)((vl)x & ABS_BITS);
}

/* a with the sign of b. */
INLINE vd N(sign)(vd a, vd b)
{
    return (vd)(((vl)a & ABS_BITS) | ((vl)b & ~ABS_BITS));
}

/* The polynomial of the coefficients, the highest first. */
#define POLY(x, ...)                     \
    N(poly)                              \
    (x, (const double[]){ __VA_ARGS__ }, \
     (int)(sizeof((const double[]){ __VA_ARGS__ }) / sizeof(double)))
INLINE vd N(poly)(vd x, const double *c, const int n)
{
    vd y = N(set)(c[0]);

    UNROLL for (int i = 1; i < n; i++) y = DFMA(y, x, N(set)(c[i]));
    return y;
}

/* 2^n of whole numbers -1022 .. 1023. */
INLINE vd N(power)(vd n)
{
    return (vd)(((vl)(n + SHIFTER) - (vl)N(set)(SHIFTER) + 1023) << 52);
}

INLINE vd N(exp)(vd x)
{
    vd n, half, r, z, p, q;

    x = N(sel)(x > N(set)(710.0), N(set)(710.0), x);
    x = N(sel)(x < N(set)(-746.0), N(set)(-746.0), x);
    n = DFMA(x, N(set)(1.4426950408889634073599), N(set)(SHIFTER)) - SHIFTER;
    r = DFMA(n, N(set)(-6.93145751953125e-1), x);
    r = DFMA(n, N(set)(-1.42860682030941723212e-6), r);
    z = r * r;
    p = r *
        POLY(z, 1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1);
    q = POLY(z, 3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1,
             2.00000000000000000005);
    p = p / (q - p);
    p = p + p + 1.0;
    half = DFMA(n, N(set)(0.5), N(set)(SHIFTER)) - SHIFTER; /* for what is below normal numbers */
    return p * N(power)(half) * N(power)(n - half);
}

INLINE vd N(log)(vd x)
{
    vl tiny = x < N(set)(0x1p-1022), low, bits;
    vd m = N(sel)(tiny, x * 0x1p54, x), e, z, y;

    bits = (vl)m;
    /* The exponent is below 2^52: added to the bits of 2^52 it is a double. */
    e = (vd)(((bits >> 52) & 0x7ff) | (vl)N(set)(0x1p52)) - (0x1p52 + 1022);
    e = e - N(sel)(tiny, N(set)(54), N(set)(0));
    m = (vd)((bits & 0x000fffffffffffff) | 0x3fe0000000000000); /* 0.5 .. 1 */
    low = m < N(set)(0.70710678118654752440);
    e = e - N(sel)(low, N(set)(1), N(set)(0));
    m = m + N(sel)(low, m, N(set)(0)) - 1.0;
    z = m * m;
    y = POLY(m, 1.01875663804580931796e-4, 4.97494994976747001425e-1, 4.70579119878881725854,
             1.44989225341610930846e1, 1.79368678507819816313e1, 7.70838733755885391666) /
        POLY(m, 1.0, 1.12873587189167450590e1, 4.52279145837532221105e1, 8.29875266912776603211e1,
             7.11544750618563894466e1, 2.31251620126765340583e1);
    y = m * (z * y);
    y = DFMA(e, N(set)(-2.121944400546905827679e-4), y);
    y = DFMA(z, N(set)(-0.5), y);
    y = DFMA(e, N(set)(0.693359375), m + y);
    y = N(sel)(x == N(set)((double)INFINITY), x, y);
    y = N(sel)(x == N(set)(0), N(set)(-(double)INFINITY), y);
    y = N(sel)(x < N(set)(0), N(set)((double)NAN), y);
    return N(sel)(x != x, x, y);
}

INLINE vd N(tanh)(vd x)
{
    vd a = N(abs)(x), z = x * x, far, near;

    near =
        POLY(z, -9.64399179425052238628e-1, -9.92877231001918586564e1, -1.61468768441708447952e3) /
        POLY(z, 1.0, 1.12811678491632931402e2, 2.23548839060100448583e3, 4.84406305325125486048e3);
    near = DFMA(x * z, near, x);
    far = N(sign)(1.0 - 2.0 / (N(exp)(a + a) + 1.0), x);
    return N(sel)(a < N(set)(0.625), near, N(sel)(x != x, x, far));
}

INLINE vd N(sigmoid)(vd x)
{
    return 1.0 / (1.0 + N(exp)(-x));
}

/* x less whole quarter turns, which *turns has; big: where that is not exact enough. */
INLINE vd N(quarter)(vd x, vl *turns, vl *big)
{
    vd f, r;

    *big = ~(N(abs)(x) < N(set)(1e6));
    x = N(sel)(*big, N(set)(0), x);
    f = DFMA(x, N(set)(0.63661977236758134308), N(set)(SHIFTER));
    *turns = (vl)f;
    f = f - SHIFTER;
    r = DFMA(f, N(set)(-1.57079625129699707031), x);
    r = DFMA(f, N(set)(-7.54978941586159635336e-8), r);
    return DFMA(f, N(set)(-5.39030285815811905290e-15), r);
}

INLINE vd N(sin_near)(vd r, vd z)
{
    vd p =
        POLY(z, 1.58962301576546568060e-10, -2.50507477628578072866e-8, 2.75573136213857245213e-6,
             -1.98412698295895385996e-4, 8.33333333332211858878e-3, -1.66666666666666307295e-1);

    return DFMA(r * z, p, r);
}

INLINE vd N(cos_near)(vd z)
{
    vd p =
        POLY(z, -1.13585365213876817300e-11, 2.08757008419747316778e-9, -2.75573141792967388112e-7,
             2.48015872888517045348e-5, -1.38888888888730564116e-3, 4.16666666666665929218e-2);

    return DFMA(z * z, p, DFMA(z, N(set)(-0.5), N(set)(1)));
}

#define BIG_ONES(y, x, big, libm)               \
    for (int i = 0; i < WIDE; i++)              \
        if (__builtin_expect((big)[i] != 0, 0)) \
    (y)[i] = libm((x)[i])

INLINE vd N(sin)(vd x)
{
    vl n, big;
    vd r = N(quarter)(x, &n, &big), z = r * r,
       y = N(sel)((n & 1) != 0, N(cos_near)(z), N(sin_near)(r, z));

    y = (vd)((vl)y ^ ((n & 2) << 62));
    BIG_ONES(y, x, big, sin);
    return y;
}

INLINE vd N(cos)(vd x)
{
    vl n, big;
    vd r = N(quarter)(x, &n, &big), z = r * r,
       y = N(sel)((n & 1) != 0, N(sin_near)(r, z), N(cos_near)(z));

    y = (vd)((vl)y ^ (((n + 1) & 2) << 62));
    BIG_ONES(y, x, big, cos);
    return y;
}

INLINE vd N(tan)(vd x)
{
    vl n, big, odd;
    vd r = N(quarter)(x, &n, &big), z = r * r, s = N(sin_near)(r, z), c = N(cos_near)(z), y;

    odd = (n & 1) != 0;
    y = N(sel)(odd, -c, s) / N(sel)(odd, s, c);
    BIG_ONES(y, x, big, tan);
    return y;
}

INLINE vd N(sinh)(vd x)
{
    vd a = N(abs)(x), z = x * x, e = N(exp)(0.5 * a), near, far;

    near = POLY(z, -7.89474443963537015605e-1, -1.63725857525983828727e2, -1.15614435765005216044e4,
                -3.51754964808151394800e5) /
           POLY(z, 1.0, -2.77711081420602794433e2, 3.61578279834431989373e4,
                -2.11052978884890840399e6);
    near = DFMA(x * z, near, x);
    far = N(sign)(0.5 * e * e - 0.5 / (e * e), x);
    return N(sel)(a < N(set)(1), near, N(sel)(x != x, x, far));
}

INLINE vd N(cosh)(vd x)
{
    vd e = N(exp)(0.5 * N(abs)(x));

    return 0.5 * e * e + 0.5 / (e * e);
}

INLINE vd N(erf)(vd x)
{
    vd a = N(abs)(x), z = x * x, near, far, t = N(sel)(a > N(set)(7), N(set)(7), a);

    near = x *
           POLY(z, 9.60497373987051638749, 9.00260197203842689217e1, 2.23200534594684319226e3,
                7.00332514112805075473e3, 5.55923013010394962768e4) /
           POLY(z, 1.0, 3.35617141647503099647e1, 5.21357949780152679795e2,
                4.59432382970980127987e3, 2.26290000613890934246e4, 4.92673942608635921086e4);
    far = N(exp)(-t * t) *
          POLY(t, 2.46196981473530512524e-10, 5.64189564831068821977e-1, 7.46321056442269912687,
               4.86371970985681366614e1, 1.96520832956077098242e2, 5.26445194995477358631e2,
               9.34528527171957607540e2, 1.02755188689515710272e3, 5.57535335369399327526e2) /
          POLY(t, 1.0, 1.32281951154744992508e1, 8.67072140885989742329e1, 3.54937778887819891062e2,
               9.75708501743205489753e2, 1.82390916687909736289e3, 2.24633760818710981792e3,
               1.65666309194161350182e3, 5.57535340817727675546e2);
    far = N(sign)(1.0 - far, x);
    return N(sel)(a < N(set)(1), near, N(sel)(x != x, x, far));
}

/* For floats: what is lost near 0, where a logarithm of about 1 is taken, is put right there. */

INLINE vd N(asinh)(vd x)
{
    vd a = N(abs)(x), z = x * x, y = N(log)(a + DSQRT(DFMA(a, a, N(set)(1))));

    return N(sel)(a < N(set)(1e-3), DFMA(x * z, DFMA(z, N(set)(0.075), N(set)(-1.0 / 6)), x),
                  N(sign)(y, x));
}

INLINE vd N(acosh)(vd x)
{
    return N(log)(x + DSQRT((x - 1.0) * (x + 1.0)));
}

INLINE vd N(atanh)(vd x)
{
    vd a = N(abs)(x), z = x * x, y = 0.5 * N(log)((1.0 + a) / (1.0 - a));

    return N(sel)(a < N(set)(1e-3), DFMA(x * z, DFMA(z, N(set)(0.2), N(set)(1.0 / 3)), x),
                  N(sign)(y, x));
}

#ifdef FUSED
/* The logarithm of a normal number above 0 in two parts, to about 2^-64 of it: with s = (m - 1) /
 * (m + 1) it is 2 * s * (1 + s^2 / 3 + s^4 / 5 + ...), and all but what is small is computed with
 * what was rounded off beside it. */
INLINE vd N(log_two)(vd x, vd *rest)
{
    vl bits = (vl)x, high;
    vd e = (vd)(((bits >> 52) & 0x7ff) | (vl)N(set)(0x1p52)) - (0x1p52 + 1023);
    vd m = (vd)((bits & 0x000fffffffffffff) | 0x3ff0000000000000), d, dl, s, sl, z, zl, q, p, pl, u,
       ul, w, wl, l, ll, a, t;

    high = m > N(set)(1.41421356237309504880);
    m = N(sel)(high, 0.5 * m, m);
    e = e + N(sel)(high, N(set)(1), N(set)(0));
    d = m + 1.0;
    dl = m - (d - 1.0);
    s = (m - 1.0) / d;
    sl = (DFMA(-s, d, m - 1.0) - s * dl) / d;
    z = s * s;
    zl = DFMA(s, s, -z) + 2.0 * s * sl;
    q = z * POLY(z, 1.0 / 23, 1.0 / 21, 1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11, 1.0 / 9,
                 1.0 / 7, 1.0 / 5);
    p = q + 0x1.5555555555555p-2;
    pl = (0x1.5555555555555p-2 - p) + q + 0x1.5555555555555p-56;
    u = z * p;
    ul = DFMA(z, p, -u) + DFMA(z, pl, zl * p);
    w = 1.0 + u;
    wl = (1.0 - w) + u + ul;
    s = 2.0 * s;
    l = s * w;
    ll = DFMA(s, w, -l) + DFMA(s, wl, 2.0 * sl * w);
    a = e * 6.93147180369123816490e-01; /* exact */
    t = a + l;
    ll = (a - t) + l + DFMA(e, N(set)(1.90821492927058770002e-10), ll);
    l = t + ll;
    *rest = (t - l) + ll;
    return l;
}

INLINE vd N(pow)(vd x, vd y)
{
    vd a = N(abs)(x), size = N(abs)(y), l, ll, h, hl, n, r, z, p, q, half;
    vl odd, whole,
        big =
            ~((a >= N(set)(0x1p-1022)) & (a < N(set)((double)INFINITY)) & (size < N(set)(0x1p50)));

    a = N(sel)(big, N(set)(1), a);
    n = y + SHIFTER;
    whole = n - SHIFTER == y;
    odd = whole & (vl)n & 1;
    l = N(log_two)(a, &ll);
    h = y * l;
    hl = DFMA(y, l, -h) + y * ll;
    hl = N(sel)(N(abs)(h) < N(set)(800), hl, N(set)(0));
    h = N(sel)(h > N(set)(710.0), N(set)(710.0), h);
    h = N(sel)(h < N(set)(-746.0), N(set)(-746.0), h);
    n = DFMA(h, N(set)(1.4426950408889634073599), N(set)(SHIFTER)) - SHIFTER;
    r = DFMA(n, N(set)(-6.93145751953125e-1), h);
    r = DFMA(n, N(set)(-1.42860682030941723212e-6), r) + hl;
    z = r * r;
    p = r *
        POLY(z, 1.26177193074810590878e-4, 3.02994407707441961300e-2, 9.99999999999999999910e-1);
    q = POLY(z, 3.00198505138664455042e-6, 2.52448340349684104192e-3, 2.27265548208155028766e-1,
             2.00000000000000000005);
    p = p / (q - p);
    p = p + p + 1.0;
    half = DFMA(n, N(set)(0.5), N(set)(SHIFTER)) - SHIFTER;
    p = p * N(power)(half) * N(power)(n - half);
    p = N(sel)(x < N(set)(0), N(sel)(whole, (vd)((vl)p ^ (odd << 63)), N(set)((double)NAN)), p);
    for (int i = 0; i < WIDE; i++)
        if (__builtin_expect(big[i] != 0, 0))
            p[i] = pow(x[i], y[i]);
    return p;
}

static void N(pow_rows)(double *out, const double *x, const double *y, int64_t n)
{
    int64_t i = 0;

    for (; i + WIDE <= n; i += WIDE)
        *(N(vd_at) *)(out + i) = N(pow)(*(const N(vd_at) *)(x + i), *(const N(vd_at) *)(y + i));
    if (i < n) {
        double rest[2][WIDE] = { { 0 } };
        size_t bytes = (size_t)(n - i) * sizeof(*x);

        memcpy(rest[0], x + i, bytes);
        memcpy(rest[1], y + i, bytes);
        *(N(vd_at) *)rest[0] = N(pow)(*(N(vd_at) *)rest[0], *(N(vd_at) *)rest[1]);
        memcpy(out + i, rest[0], bytes);
    }
}
#endif

INLINE void N(sweep_rows)(double *a, int64_t n, int64_t c, int64_t first, int64_t left, double by,
                          const bool clear)
{
    const double *pivot = a + c * n;

    left -= left % WIDE;
    for (int64_t r = first; r < n; r++) {
        double *row = a + r * n, f = clear ? row[c] : row[c] / by;
        int64_t k = left;

        if (r == c || f == 0)
            continue;
        if (clear)
            row[c] = 0;
        for (; k + WIDE <= n; k += WIDE)
            *(N(vd_at) *)(row + k) =
                DFMA(N(set)(-f), *(const N(vd_at) *)(pivot + k), *(N(vd_at) *)(row + k));
        for (; k < n; k++)
            row[k] -= f * pivot[k];
    }
}

static void N(eliminate)(double *a, int64_t n, int64_t c)
{
    N(sweep_rows)(a, n, c, c + 1, c + 1, a[c * n + c], false);
}

static void N(invert)(double *a, int64_t n, int64_t c)
{
    N(sweep_rows)(a, n, c, 0, 0, 1, true);
}

#define F64_LOOP(NAME, name)                                               \
    static void N(NAME##_f64)(double *out, const double *in, int64_t n)    \
    {                                                                      \
        int64_t i = 0;                                                     \
        for (; i + WIDE <= n; i += WIDE)                                   \
            *(N(vd_at) *)(out + i) = N(name)(*(const N(vd_at) *)(in + i)); \
        if (i < n) {                                                       \
            double rest[WIDE] = { 0 };                                     \
            memcpy(rest, in + i, (size_t)(n - i) * sizeof(*in));           \
            *(N(vd_at) *)rest = N(name)(*(const N(vd_at) *)rest);          \
            memcpy(out + i, rest, (size_t)(n - i) * sizeof(*in));          \
        }                                                                  \
    }
#define F32_LOOP(NAME, name)                                          \
    static void N(NAME##_f32)(float *out, const float *in, int64_t n) \
    {                                                                 \
        int64_t i = 0;                                                \
        for (; i + WIDE <= n; i += WIDE)                              \
            FLOATS_OUT(out + i, N(name)(FLOATS_IN(in + i)));          \
        if (i < n) {                                                  \
            float rest[WIDE] = { 0 };                                 \
            memcpy(rest, in + i, (size_t)(n - i) * sizeof(*in));      \
            FLOATS_OUT(rest, N(name)(FLOATS_IN(rest)));               \
            memcpy(out + i, rest, (size_t)(n - i) * sizeof(*in));     \
        }                                                             \
    }
F64_LOOP(EXP, exp)
F64_LOOP(LOG, log)
F64_LOOP(TANH, tanh)
F64_LOOP(SIGMOID, sigmoid)
F64_LOOP(SIN, sin)
F64_LOOP(COS, cos)
F64_LOOP(TAN, tan)
F64_LOOP(SINH, sinh)
F64_LOOP(COSH, cosh)
F64_LOOP(ERF, erf)
F32_LOOP(TAN, tan)
F32_LOOP(SINH, sinh)
F32_LOOP(COSH, cosh)
F32_LOOP(ASINH, asinh)
F32_LOOP(ACOSH, acosh)
F32_LOOP(ATANH, atanh)

const struct fp64_isa N(fp64) = {
    .unary = {
#define X(name) [F64_##name] = N(name##_f64),
        F64_FUNCTIONS(X)
#undef X
    },
    .single = {
#define X(name) [F64_##name] = N(name##_f32),
        F64_SINGLE(X)
#undef X
    },
#ifdef FUSED
    .pow = N(pow_rows),
#endif
    .eliminate = N(eliminate),
    .invert = N(invert),
};

#undef vd
#undef vl
#undef INLINE
#undef SHIFTER
#undef ABS_BITS
#undef POLY
#undef BIG_ONES
#undef F64_LOOP
#undef F32_LOOP
#undef N
#undef WIDE
#undef DFMA
#undef FUSED
#undef DSQRT
#undef FLOATS_IN
#undef FLOATS_OUT
