/* q8_tmpl.h -- body of q8_isa.c, once per instruction set. No include guard: the includer defines
 * N(name), VL (32-bit lanes), MR, NV, EACH_MR, the preparation of operands and DOT, and where there
 * are instructions for it CLAMP and NEAREST; they are undefined at the end. SIGNED_LACKS(less, s):
 * what DOT leaves out for a signed operand, to be subtracted; undefined: nothing. */

#ifndef SIGNED_LACKS
#define SIGNED_LACKS(less, s) (less)
#endif

#include "engine/native/isa/shuffle.h"
#include "engine/native/isa/vector_tmpl.h"

INLINE vf N(pick)(vi mask, vf a, vf b)
{
    return (vf)((mask & (vi)a) | (~mask & (vi)b));
}

/* NaN becomes lo. */
INLINE vf N(clamp)(vf x, vf lo, vf hi)
{
#ifdef CLAMP
    return CLAMP(x, lo, hi);
#else
    x = N(pick)(x > lo, x, lo);
    return N(pick)(x < hi, x, hi);
#endif
}

/* To nearest, ties to even; |x| < 2^22. */
INLINE vi N(nearest)(vf x)
{
#ifdef NEAREST
    return NEAREST(x);
#else
    return __builtin_convertvector((x + 12582912.0f) - 12582912.0f, vi);
#endif
}

/* The loop over groups; OUT then says what becomes of acc[m][nv]. */
#define TILE(name, VEC, ROW, DOT_, ROW_SIGNED, PARAMS, OUT)                                 \
    INLINE void N(name##_n)(const int m, const int nv, int64_t k4, const int32_t *off,      \
                            const uint8_t *vec, const uint8_t *row, int64_t rs, int64_t ks, \
                            PARAMS)                                                         \
    {                                                                                       \
        vi acc[MR][NV], less[MAX(MR, NV)];                                                  \
                                                                                            \
        UNROLL for (int i = 0; i < MAX(MR, NV); i++) less[i] = N(iset)(0);                  \
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < nv; j++) acc[i][j] =  \
            N(iset)(0);                                                                     \
        for (int64_t k = 0; k < k4; k++, row += ks) {                                       \
            const uint8_t *p = vec + off[k];                                                \
            PREP r[MR];                                                                     \
                                                                                            \
            UNROLL for (int i = 0; i < m; i++)                                              \
            {                                                                               \
                int32_t four;                                                               \
                                                                                            \
                memcpy(&four, row + i * rs, sizeof(four));                                  \
                r[i] = ROW(N(iset)(four));                                                  \
                if (ROW_SIGNED)                                                             \
                    less[i] = SIGNED_LACKS(less[i], r[i]);                                  \
            }                                                                               \
            UNROLL for (int j = 0; j < nv; j++)                                             \
            {                                                                               \
                PREP x = VEC(N(iload)(p + j * VL * 4));                                     \
                                                                                            \
                if (!(ROW_SIGNED))                                                          \
                    less[j] = SIGNED_LACKS(less[j], x);                                     \
                UNROLL for (int i = 0; i < m; i++) acc[i][j] = DOT_(acc[i][j], x, r[i]);    \
            }                                                                               \
        }                                                                                   \
        UNROLL for (int i = 0; i < m; i++) UNROLL for (int j = 0; j < nv; j++)              \
        {                                                                                   \
            acc[i][j] -= less[ROW_SIGNED ? i : j];                                          \
            OUT                                                                             \
        }                                                                                   \
    }
#define SUMS memcpy(c + (i * NV + j) * VL, &acc[i][j], sizeof(vi));
#define BYTES                                                                         \
    {                                                                                 \
        vf x = __builtin_convertvector(acc[i][j] + o->add[i], vf) * o->scale[i];      \
        vb b = N(low_bytes)(N(nearest)(N(clamp)(x, N(fset)((float)(o->lo - o->zero)), \
                                                N(fset)((float)(o->hi - o->zero)))) + \
                            o->zero);                                                 \
                                                                                      \
        memcpy(out + i * os + j * VL, &b, sizeof(b));                                 \
    }
#define BYTES_PARAMS uint8_t *out, int64_t os, const struct q8_out *o
TILE(tile_uv, PREP_U, PREP_S, DOT, true, int32_t *c, SUMS)
TILE(tile_sv, PREP_S, PREP_U, DOT_SWAPPED, false, int32_t *c, SUMS)
TILE(tile_bytes, PREP_U, PREP_S, DOT, true, BYTES_PARAMS, BYTES)
#undef TILE
#undef SUMS
#undef BYTES
#undef BYTES_PARAMS

#define PICK_NV(name, i, ...)                                           \
    case i:                                                             \
        if (nv == NV)                                                   \
            N(name)(i, NV, k4, off, vec, row, rs, ks, __VA_ARGS__);     \
        else if (nv > 1)                                                \
            N(name)(i, NV - 1, k4, off, vec, row, rs, ks, __VA_ARGS__); \
        else                                                            \
            N(name)(i, 1, k4, off, vec, row, rs, ks, __VA_ARGS__);      \
        break;

static void N(tile_uv)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                       const uint8_t *row, int64_t rs, int64_t ks, int32_t *c)
{
    int nv = (n + VL - 1) / VL;

    switch (m) {
#define CASE(i) PICK_NV(tile_uv_n, i, c)
        EACH_MR(CASE)
#undef CASE
    default:
        break;
    }
}

static void N(tile_sv)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                       const uint8_t *row, int64_t rs, int64_t ks, int32_t *c)
{
    int nv = (n + VL - 1) / VL;

    switch (m) {
#define CASE(i) PICK_NV(tile_sv_n, i, c)
        EACH_MR(CASE)
#undef CASE
    default:
        break;
    }
}

static void N(tile_bytes)(int m, int n, int64_t k4, const int32_t *off, const uint8_t *vec,
                          const uint8_t *row, int64_t rs, int64_t ks, uint8_t *out, int64_t os,
                          const struct q8_out *o)
{
    int nv = (n + VL - 1) / VL;

    switch (m) {
#define CASE(i) PICK_NV(tile_bytes_n, i, out, os, o)
        EACH_MR(CASE)
#undef CASE
    default:
        break;
    }
}
#undef PICK_NV

/* 16 columns at a time. */
static void N(interleave)(uint8_t *out, const uint8_t *const *in, int64_t n, uint8_t flip)
{
    const bx zero = { 0 };
    int64_t i = 0;

    for (; i + 16 <= n; i += 16, out += 64) {
        bx r[4], a, b, c, d;

        for (int j = 0; j < 4; j++) {
            if (in[j])
                memcpy(&r[j], in[j] + i, sizeof(bx));
            else
                r[j] = zero + flip;
            r[j] ^= flip;
        }
        a = __builtin_shufflevector(r[0], r[1], BYTES_LOW);
        b = __builtin_shufflevector(r[0], r[1], BYTES_HIGH);
        c = __builtin_shufflevector(r[2], r[3], BYTES_LOW);
        d = __builtin_shufflevector(r[2], r[3], BYTES_HIGH);
        r[0] = __builtin_shufflevector(a, c, PAIRS_LOW);
        r[1] = __builtin_shufflevector(a, c, PAIRS_HIGH);
        r[2] = __builtin_shufflevector(b, d, PAIRS_LOW);
        r[3] = __builtin_shufflevector(b, d, PAIRS_HIGH);
        memcpy(out, r, sizeof(r));
    }
    for (; i < n; i++, out += 4)
        for (int j = 0; j < 4; j++)
            out[j] = in[j] ? in[j][i] ^ flip : 0;
}

/* Up to VL of n numbers. Parts of vectors go by way of an array, as vectors that have an address
 * may not be aligned. */
INLINE vi N(some)(const void *p, int64_t n)
{
    int32_t lane[VL] = { 0 };

    if (n >= VL)
        return N(iload)(p);
    memcpy(lane, p, (size_t)n * 4);
    return N(iload)(lane);
}

/* The first m of a vector's 32-bit lanes. */
INLINE void N(put)(void *to, vi v, int64_t m)
{
    int32_t lane[VL];

    if (m == VL) {
        memcpy(to, &v, sizeof(v));
        return;
    }
    memcpy(lane, &v, sizeof(v));
    memcpy(to, lane, (size_t)m * 4);
}

/* The same of bytes. */
INLINE void N(put_bytes)(uint8_t *to, vb v, int64_t m)
{
    uint8_t lane[VL];

    if (m == VL) {
        memcpy(to, &v, sizeof(v));
        return;
    }
    memcpy(lane, &v, sizeof(v));
    memcpy(to, lane, (size_t)m);
}

INLINE void N(end_kind)(const struct q8_end *e, int rows, int64_t n, const int32_t *sum,
                        int64_t pitch, const enum q8_kind kind)
{
    const struct q8_out *o = &e->as;
    const vf lo = N(fset)((float)(o->lo - o->zero)), hi = N(fset)((float)(o->hi - o->zero));

    for (int64_t j = 0; j < n; j += VL) {
        int64_t m = MIN(n - j, (int64_t)VL);
        const vi add = N(some)(o->add + j, n - j),
                 zero = e->b_zero ? N(some)(e->b_zero + j, n - j) : N(iset)(0);
        vf scale = N(fset)(0), shift = scale;

        if (kind != Q8_INT32) {
            scale = o->scale_step ? (vf)N(some)(o->scale + j, n - j) : N(fset)(*o->scale);
            shift = o->shift ? (vf)N(some)(o->shift + j, n - j) : shift;
        }
        for (int i = 0; i < rows; i++) {
            vi x = N(iload)(sum + i * pitch + j) + add;
            int64_t at = i * e->ldo + j;
            vf y;

            if (e->b_zero)
                x -= zero * N(iset)(e->row_sum[i]);
            if (kind == Q8_INT32) {
                N(put)((int32_t *)e->out + at, x, m);
                continue;
            }
            y = __builtin_convertvector(x, vf) * scale;
            if (o->shift)
                y += shift;
            if (kind == Q8_FLOAT) {
                N(put)((float *)e->out + at, (vi)y, m);
                continue;
            }
            N(put_bytes)
            ((uint8_t *)e->out + at, N(low_bytes)(N(nearest)(N(clamp)(y, lo, hi)) + o->zero), m);
        }
    }
}

static void N(end)(const struct q8_end *e, int rows, int64_t n, const int32_t *sum, int64_t pitch)
{
    if (e->kind == Q8_INT32)
        N(end_kind)(e, rows, n, sum, pitch, Q8_INT32);
    else if (e->kind == Q8_FLOAT)
        N(end_kind)(e, rows, n, sum, pitch, Q8_FLOAT);
    else
        N(end_kind)(e, rows, n, sum, pitch, Q8_BYTES);
}

static void N(to_bytes)(uint8_t *out, const int32_t *in, int64_t n, const struct q8_out *o)
{
    const vf lo = N(fset)((float)(o->lo - o->zero)), hi = N(fset)((float)(o->hi - o->zero));
    const vi add0 = N(iset)(*o->add);
    const vf scale0 = N(fset)(*o->scale), shift0 = N(fset)(o->shift ? *o->shift : 0);
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vi sum = N(iload)(in + i) + (o->add_step ? N(iload)(o->add + i) : add0);
        vf x = __builtin_convertvector(sum, vf) * (o->scale_step ? N(fload)(o->scale + i) : scale0);

        vb b;

        if (o->shift)
            x += o->add_step ? N(fload)(o->shift + i) : shift0;
        b = N(low_bytes)(N(nearest)(N(clamp)(x, lo, hi)) + o->zero);
        memcpy(out + i, &b, sizeof(b));
    }
    for (; i < n; i++) {
        int32_t sum = (int32_t)((uint32_t)in[i] + (uint32_t)o->add[i * o->add_step]);
        float x = (float)sum * o->scale[i * o->scale_step];

        if (o->shift)
            x += o->shift[i * o->add_step];
        x = x > lo[0] ? x : lo[0];
        x = x < hi[0] ? x : hi[0];
        out[i] = (uint8_t)((int32_t)((x + 12582912.0f) - 12582912.0f) + o->zero);
    }
}

static void N(to_floats)(float *out, const int32_t *in, int64_t n, const struct q8_out *o)
{
    const vi add0 = N(iset)(*o->add);
    const vf scale0 = N(fset)(*o->scale), shift0 = N(fset)(o->shift ? *o->shift : 0);
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vi sum = N(iload)(in + i) + (o->add_step ? N(iload)(o->add + i) : add0);
        vf x = __builtin_convertvector(sum, vf) * (o->scale_step ? N(fload)(o->scale + i) : scale0);

        if (o->shift)
            x += o->add_step ? N(fload)(o->shift + i) : shift0;
        memcpy(out + i, &x, sizeof(x));
    }
    for (; i < n; i++)
        out[i] = (float)(int32_t)((uint32_t)in[i] + (uint32_t)o->add[i * o->add_step]) *
                     o->scale[i * o->scale_step] +
                 (o->shift ? o->shift[i * o->add_step] : 0);
}

static void N(add_scaled)(int32_t *acc, const int32_t *with, int step, int32_t by, int64_t n)
{
    const vi with0 = N(iset)(*with);
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vi v = N(iload)(acc + i) + (step ? N(iload)(with + i) : with0) * by;

        memcpy(acc + i, &v, sizeof(v));
    }
    for (; i < n; i++)
        acc[i] = (int32_t)((uint32_t)acc[i] + (uint32_t)with[i * step] * (uint32_t)by);
}

static int32_t N(sum)(const uint8_t *in, int64_t n)
{
    const PREP ones = PREP_S(N(iset)(0x01010101));
    vi acc = N(iset)(0), less = acc;
    uint32_t total = 0;
    int64_t i = 0;

    for (; i + 4 * VL <= n; i += 4 * VL) {
        acc = DOT(acc, PREP_U(N(iload)(in + i)), ones);
        less = SIGNED_LACKS(less, ones);
    }
    acc -= less;
    for (int j = 0; j < VL; j++)
        total += (uint32_t)acc[j];
    for (; i < n; i++)
        total += in[i];
    return (int32_t)total;
}

static void N(range)(const float *in, int64_t n, float *lo, float *hi)
{
    vf l[4], h[4]; /* one after the other would wait for each other */
    int64_t i = 0;

    for (int j = 0; j < 4; j++) {
        l[j] = N(fset)(*lo);
        h[j] = N(fset)(*hi);
    }
    for (; i + 4 * VL <= n; i += 4 * VL)
#pragma GCC unroll 4
        for (int j = 0; j < 4; j++) {
            vf x = N(fload)(in + i + j * VL);

            l[j] = N(pick)(x < l[j], x, l[j]);
            h[j] = N(pick)(x > h[j], x, h[j]);
        }
    for (int j = 0; j < 4; j++)
        for (int v = 0; v < VL; v++) {
            *lo = l[j][v] < *lo ? l[j][v] : *lo;
            *hi = h[j][v] > *hi ? h[j][v] : *hi;
        }
    for (; i < n; i++) {
        *lo = in[i] < *lo ? in[i] : *lo;
        *hi = in[i] > *hi ? in[i] : *hi;
    }
}

static void N(quantize)(uint8_t *out, const float *in, int64_t n, float scale, int32_t zero,
                        int32_t lo, int32_t hi)
{
    const vf l = N(fset)((float)(lo - zero)), h = N(fset)((float)(hi - zero));
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vf x = N(clamp)(N(fload)(in + i) / scale, l, h);
        vb b = N(low_bytes)(N(nearest)(x) + zero);

        memcpy(out + i, &b, sizeof(b));
    }
    for (; i < n; i++) {
        float x = in[i] / scale;

        x = x > l[0] ? x : l[0];
        x = x < h[0] ? x : h[0];
        out[i] = (uint8_t)((int32_t)((x + 12582912.0f) - 12582912.0f) + zero);
    }
}

static void N(dequantize)(float *out, const uint8_t *in, bool is_signed, int64_t n, float scale,
                          int32_t zero)
{
    int64_t i = 0;

    for (; i + VL <= n; i += VL) {
        vi x = is_signed ? N(load_i8)(in + i) : N(load_u8)(in + i);
        vf f = __builtin_convertvector(x - zero, vf) * scale;

        memcpy(out + i, &f, sizeof(f));
    }
    for (; i < n; i++)
        out[i] = (float)((is_signed ? (int8_t)in[i] : in[i]) - zero) * scale;
}

static void N(largest)(uint8_t *out, const uint8_t *in, int64_t n, uint8_t flip)
{
    typedef uint8_t vall __attribute__((vector_size(VL * 4)));
    int64_t i = 0;

    for (; i + VL * 4 <= n; i += VL * 4) {
        vall a, b, more;

        memcpy(&a, out + i, sizeof(a));
        memcpy(&b, in + i, sizeof(b));
        b ^= flip;
        more = (vall)(b > a);
        a = (b & more) | (a & ~more);
        memcpy(out + i, &a, sizeof(a));
    }
    for (; i < n; i++)
        out[i] = (in[i] ^ flip) > out[i] ? in[i] ^ flip : out[i];
}

INLINE vf N(widen)(const uint8_t *p, bool is_signed)
{
    return __builtin_convertvector(is_signed ? N(load_i8)(p) : N(load_u8)(p), vf);
}

/* Whole vectors. */
INLINE void N(pairs)(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n,
                     const struct q8_pair *p, const bool product)
{
    const vf lo = N(fset)((float)p->lo), hi = N(fset)((float)p->hi);
    const vf a0 = N(fset)((float)(p->a_signed ? (int8_t)*a : *a)),
             b0 = N(fset)((float)(p->b_signed ? (int8_t)*b : *b));

    for (int64_t i = 0; i < n; i += VL) {
        vf x = p->a_step ? N(widen)(a + i, p->a_signed) : a0,
           y = p->b_step ? N(widen)(b + i, p->b_signed) : b0;
        vb r;

        if (product)
            x = (x - (float)p->a_zero) * (y - (float)p->b_zero) * p->a_scale + p->offset;
        else
            x = y * p->b_scale + (x * p->a_scale + p->offset);
        r = N(low_bytes)(N(nearest)(N(clamp)(x, lo, hi)));
        memcpy(out + i, &r, sizeof(r));
    }
}

static void N(pair)(uint8_t *out, const uint8_t *a, const uint8_t *b, int64_t n,
                    const struct q8_pair *p)
{
    uint8_t rest[3][VL] = { { 0 } };
    int64_t whole = n / VL * VL, left = n - whole;

    if (p->product)
        N(pairs)(out, a, b, whole, p, true);
    else
        N(pairs)(out, a, b, whole, p, false);
    if (!left)
        return;
    memcpy(rest[0], a + whole * p->a_step, (size_t)(p->a_step ? left : 1));
    memcpy(rest[1], b + whole * p->b_step, (size_t)(p->b_step ? left : 1));
    if (p->product)
        N(pairs)(rest[2], rest[0], rest[1], VL, p, true);
    else
        N(pairs)(rest[2], rest[0], rest[1], VL, p, false);
    memcpy(out + whole, rest[2], (size_t)left);
}

#ifndef OWN_LOOKUP
static void N(lookup)(uint8_t *out, const uint8_t *in, int64_t n, const uint8_t *table)
{
    for (int64_t i = 0; i < n; i++)
        out[i] = table[in[i]];
}
#endif

#ifndef OWN_DEPTHWISE
static void N(depthwise)(int32_t *out, int64_t n, const uint8_t *const *row, int rows, int groups,
                         int step, const int8_t *w)
{
    for (int64_t i = 0; i < n; i += VL) {
        vi acc = N(iset)(0);

        for (int r = 0; r < rows; r++)
            for (int t = 0; t < 4 * groups; t++) {
                const uint8_t *p = row[r] + i * step + t;
                vb b;

                if (step == 1)
                    memcpy(&b, p, sizeof(b));
                else
                    for (int j = 0; j < VL; j++)
                        b[j] = p[j * step];
                acc += N(load_u8)(&b) * w[r * 4 * groups + t];
            }
        memcpy(out + i, &acc, (size_t)(n - i < VL ? n - i : VL) * sizeof(*out));
    }
}
#endif

#undef vi
#undef vf
#undef vb
#undef INLINE
#undef N
#undef VL
#undef MR
#undef NV
#undef EACH_MR
#undef PREP
#undef PREP_U
#undef PREP_S
#undef DOT
#undef DOT_SWAPPED
#undef SIGNED_LACKS
#undef CLAMP
#undef NEAREST
#undef OWN_LOOKUP
#undef OWN_DEPTHWISE
