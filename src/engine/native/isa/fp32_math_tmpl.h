/* fp32_math_tmpl.h -- more functions of a vector: part of fp32_tmpl.h, included once by it. */

#define LANES(name, f)                        \
    INLINE vf name(vf x)                      \
    {                                         \
        for (int lane = 0; lane < VL; lane++) \
            x[lane] = f(x[lane]);             \
        return x;                             \
    }

#ifdef VSQRT
INLINE vf vsqrt(vf x)
{
    return VSQRT(x);
}

INLINE vf vfloor(vf x)
{
    return VFLOOR(x);
}

INLINE vf vceil(vf x)
{
    return VCEIL(x);
}

INLINE vf vround(vf x)
{
    return VROUND(x);
}
#else
LANES(vsqrt, sqrtf)
LANES(vfloor, floorf)
LANES(vceil, ceilf)
LANES(vround, rintf)
#endif

/* Cephes' logf, about 1 ulp; subnormal numbers included. */
INLINE vf vlog(vf x)
{
    vi tiny = x < vset(1.17549435e-38f);
    vf m = vsel(tiny, x * 8388608.0f, x), z, y, e;
    vi bits = (vi)m, low;

    e = __builtin_convertvector((bits >> 23 & 0xff) - 126, vf) - vsel(tiny, vset(23), vset(0));
    m = (vf)((bits & 0x007fffff) | 0x3f000000); /* 0.5 .. 1 */
    low = m < vset(0.707106781186547524f);
    e = e - vsel(low, vset(1), vset(0));
    m = m + vsel(low, m, vset(0)) - 1.0f;
    z = m * m;
    y = VFMA(vset(7.0376836292e-2f), m, vset(-1.1514610310e-1f));
    y = VFMA(y, m, vset(1.1676998740e-1f));
    y = VFMA(y, m, vset(-1.2420140846e-1f));
    y = VFMA(y, m, vset(1.4249322787e-1f));
    y = VFMA(y, m, vset(-1.6668057665e-1f));
    y = VFMA(y, m, vset(2.0000714765e-1f));
    y = VFMA(y, m, vset(-2.4999993993e-1f));
    y = VFMA(y, m, vset(3.3333331174e-1f)) * m * z;
    y = VFMA(e, vset(-2.12194440e-4f), y);
    y = VFMA(z, vset(-0.5f), y);
    y = VFMA(e, vset(0.693359375f), m + y);
    y = vsel(x == vset(INFINITY), x, y);
    y = vsel(x == vset(0), vset(-INFINITY), y);
    y = vsel(x < vset(0), vset(NAN), y);
    return vsel(x != x, x, y);
}

/* Near 0 the polynomial of vexp() without its 1. */
INLINE vf vexpm1(vf x)
{
    vi near = (vf)((vi)x & 0x7fffffff) < vset(0.34f);
    vf p = vset(1.9875691500e-4f);

    p = VFMA(p, x, vset(1.3981999507e-3f));
    p = VFMA(p, x, vset(8.3334519073e-3f));
    p = VFMA(p, x, vset(4.1665795894e-2f));
    p = VFMA(p, x, vset(1.6666665459e-1f));
    p = VFMA(p, x, vset(5.0000001201e-1f));
    return vsel(near, VFMA(p, x * x, x), vexp(x) - 1.0f);
}

/* max(x, 0) + log(1 + t), t = exp(-|x|); what 1 + t rounds off is put right. */
INLINE vf vsoftplus(vf x)
{
    vf t = vexp((vf)((vi)x | (int32_t)0x80000000)), u = t + 1.0f, d = u - 1.0f;
    vi none = d == vset(0);
    vf l = vsel(none, t, vlog(u) * (t / vsel(none, vset(1), d)));

    return vmax(x, vset(0)) + l;
}

/* sin(x), or with quarter 1 cos(x): x less n quarter turns, then Cephes' polynomials, about 1 ulp
 * of 1. Big numbers, where that takes more than three constants, go one by one. */
INLINE vf vsin(vf x, int quarter)
{
    vi big = ~((vf)((vi)x & 0x7fffffff) < vset(8192.0f)), which, n;
    vf f, r, z, s, c;

    f = VFMA(x, vset(0.636619772f), vset(12582912.0f)) - vset(12582912.0f);
    r = VFMA(f, vset(-1.5703125f), x);
    r = VFMA(f, vset(-4.83751296997070312500e-4f), r);
    r = VFMA(f, vset(-7.54978995489188216e-8f), r);
    z = r * r;
    n = __builtin_convertvector(vsel(big, vset(0), f), vi) + quarter;
    s = VFMA(vset(-1.9515295891e-4f), z, vset(8.3321608736e-3f));
    s = VFMA(s, z, vset(-1.6666654611e-1f)) * z;
    s = VFMA(s, r, r);
    c = VFMA(vset(2.443315711809948e-5f), z, vset(-1.388731625493765e-3f));
    c = VFMA(c, z, vset(4.166664568298827e-2f)) * z;
    c = VFMA(c, z, VFMA(z, vset(-0.5f), vset(1)));
    which = (n & 1) != 0;
    s = vsel(which, c, s);
    s = (vf)((vi)s ^ ((n & 2) << 30));
    for (int i = 0; i < VL; i++)
        if (UNLIKELY(big[i]))
            s[i] = quarter ? cosf(x[i]) : sinf(x[i]);
    return s;
}
