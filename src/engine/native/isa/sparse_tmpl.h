/* sparse_tmpl.h -- body of sparse_isa.c, once per instruction set. No include guard: the includer
 * defines N(name), VL (floats in a vector), MV (vectors in a panel), VFMA, XFMA, LOW, HIGH, FRONT,
 * BACK (shuffles within each 128 bits), QUARTER, REPEAT4 (4 floats, over and over) and SPREAD4
 * (each of 4 floats 4 times; the i-th vector of that), EACH_ROW and EACH_MV; they are undefined at
 * the end. */

#include "engine/native/isa/shuffle.h"
#include "engine/native/isa/vector_tmpl.h"

/* Four columns of VL rows, turned; rows and cols say how much of it exists. */
INLINE void N(put4)(vf c0, vf c1, vf c2, vf c3, float *c, int64_t ldc, int rows, int cols)
{
    vf t0 = __builtin_shufflevector(c0, c1, LOW), t1 = __builtin_shufflevector(c0, c1, HIGH);
    vf t2 = __builtin_shufflevector(c2, c3, LOW), t3 = __builtin_shufflevector(c2, c3, HIGH);
    vf turned[4] = { __builtin_shufflevector(t0, t2, FRONT), __builtin_shufflevector(t0, t2, BACK),
                     __builtin_shufflevector(t1, t3, FRONT),
                     __builtin_shufflevector(t1, t3, BACK) };

    if (rows >= VL && cols >= 4) {
#define ROW(i) QUARTER(c + (i)*ldc, turned[(i) % 4], (i) / 4);
        EACH_ROW(ROW)
#undef ROW
        return;
    }
    for (int i = 0; i < VL && i < rows; i++) {
        float four[VL];

        memcpy(four, &turned[i % 4], sizeof(four));
        memcpy(c + i * ldc, four + i / 4 * 4, (size_t)(cols < 4 ? cols : 4) * sizeof(float));
    }
}

INLINE void N(panel4_n)(const int nv, const struct sparse_run *r, const float *a)
{
    const float *w = r->value;
    vf acc[4][MV];

    for (int j = 0; j < 4; j++)
        for (int i = 0; i < nv; i++)
            acc[j][i] = N(fset)(0);
    for (int64_t b = 0; b < r->blocks; b++, w += 4) {
        const float *p = a + (int64_t)r->row[b] * (nv * VL);
        vf av[MV];

        for (int i = 0; i < nv; i++)
            av[i] = N(fload)(p + i * VL);
        for (int j = 0; j < 4; j++) {
            vf wv = N(fset)(w[j]);

            for (int i = 0; i < nv; i++)
                acc[j][i] = VFMA(av[i], wv, acc[j][i]);
        }
    }
    for (int i = 0; i < nv; i++)
        N(put4)
    (acc[0][i], acc[1][i], acc[2][i], acc[3][i], r->c + i * VL * r->ldc, r->ldc, r->rows - i * VL,
     r->cols);
}

static void N(panel4)(const struct sparse_run *r, const float *a, int width)
{
    switch (width / VL) {
#define CASE(i)               \
    case i:                   \
        N(panel4_n)(i, r, a); \
        break;
        EACH_MV(CASE)
#undef CASE
    default:
        break;
    }
}

/* 4 or 8 rows: a vector holds as many columns of 4 rows as fit. */
INLINE void N(quad_n)(const int nq, const struct sparse_run *r, const float *a)
{
    const int nv = 16 / VL, u = nv * nq > 2 ? 1 : 4 / (nv * nq);
    const float *w = r->value;
    vf acc[4][2][16 / VL];
    int64_t b = 0;

    for (int h = 0; h < u; h++)
        for (int q = 0; q < nq; q++)
            for (int i = 0; i < nv; i++)
                acc[h][q][i] = N(fset)(0);
    for (; b + u <= r->blocks; b += u)
        for (int h = 0; h < u; h++, w += 4) {
            const float *p = a + (int64_t)r->row[b + h] * (4 * nq);
            vf av[2] = { REPEAT4(p), REPEAT4(p + 4 * (nq - 1)) };

            for (int i = 0; i < nv; i++) {
                vf wv = SPREAD4(w, i);

                for (int q = 0; q < nq; q++)
                    acc[h][q][i] = VFMA(av[q], wv, acc[h][q][i]);
            }
        }
    for (; b < r->blocks; b++, w += 4) {
        const float *p = a + (int64_t)r->row[b] * (4 * nq);
        vf av[2] = { REPEAT4(p), REPEAT4(p + 4 * (nq - 1)) };

        for (int i = 0; i < nv; i++) {
            vf wv = SPREAD4(w, i);

            for (int q = 0; q < nq; q++)
                acc[0][q][i] = VFMA(av[q], wv, acc[0][q][i]);
        }
    }
    for (int q = 0; q < nq; q++) {
        float col[4][4];

        for (int i = 0; i < nv; i++) {
            vf v = acc[0][q][i];

            for (int h = 1; h < u; h++)
                v += acc[h][q][i];
            memcpy(&col[i * VL / 4], &v, sizeof(v));
        }
        for (int i = 0; i < 4 && 4 * q + i < r->rows; i++)
            for (int j = 0; j < 4 && j < r->cols; j++)
                r->c[(4 * q + i) * r->ldc + j] = col[j][i];
    }
}

static void N(quad)(const struct sparse_run *r, const float *a, int width)
{
    if (width == 4)
        N(quad_n)(1, r, a);
    else
        N(quad_n)(2, r, a);
}

INLINE void N(put_row)(float *c, vf v, int cols)
{
    if (cols >= VL)
        memcpy(c, &v, sizeof(v));
    else
        memcpy(c, &v, (size_t)cols * sizeof(float));
}

/* VL rows at a time: a broadcast of each, and one vector of weights. */
static void N(panel_wide)(const struct sparse_run *r, const float *a, int width)
{
    for (int at = 0; at < width; at += VL) {
        const float *w = r->value;
        vf acc[VL];

        for (int i = 0; i < VL; i++)
            acc[i] = N(fset)(0);
        for (int64_t b = 0; b < r->blocks; b++, w += VL) {
            const float *p = a + (int64_t)r->row[b] * width + at;
            vf wv = N(fload)(w);

            for (int i = 0; i < VL; i++)
                acc[i] = VFMA(N(fset)(p[i]), wv, acc[i]);
        }
        for (int i = 0; i < VL && at + i < r->rows; i++)
            N(put_row)(r->c + (at + i) * r->ldc, acc[i], r->cols);
    }
}

/* Neighbouring blocks are summed apart, so that no sum waits for the one before it. */
INLINE void N(few4_n)(const int m, const int u, const struct sparse_run *r, const float *a,
                      int64_t rs)
{
    const float *w = r->value;
    vx acc[4][SPARSE_FEW];
    int64_t b = 0;

    for (int q = 0; q < u; q++)
        for (int i = 0; i < m; i++)
            acc[q][i] = (vx){ 0 };
    for (; b + u <= r->blocks; b += u, w += 4 * u)
        for (int q = 0; q < u; q++) {
            const float *p = a + r->row[b + q];
            vx wv;

            memcpy(&wv, w + 4 * q, sizeof(wv));
            for (int i = 0; i < m; i++)
                acc[q][i] = XFMA(((vx){ 0 } + p[i * rs]), wv, acc[q][i]);
        }
    for (; b < r->blocks; b++, w += 4) {
        const float *p = a + r->row[b];
        vx wv;

        memcpy(&wv, w, sizeof(wv));
        for (int i = 0; i < m; i++)
            acc[0][i] = XFMA(((vx){ 0 } + p[i * rs]), wv, acc[0][i]);
    }
    for (int q = 1; q < u; q++)
        for (int i = 0; i < m; i++)
            acc[0][i] += acc[q][i];
    for (int i = 0; i < m; i++)
        memcpy(r->c + i * r->ldc, &acc[0][i], (size_t)(r->cols < 4 ? r->cols : 4) * sizeof(float));
}

INLINE void N(few_wide_n)(const int m, const int u, const struct sparse_run *r, const float *a,
                          int64_t rs)
{
    const float *w = r->value;
    vf acc[4][SPARSE_FEW];
    int64_t b = 0;

    for (int q = 0; q < u; q++)
        for (int i = 0; i < m; i++)
            acc[q][i] = N(fset)(0);
    for (; b + u <= r->blocks; b += u, w += VL * u)
        for (int q = 0; q < u; q++) {
            const float *p = a + r->row[b + q];
            vf wv = N(fload)(w + VL * q);

            for (int i = 0; i < m; i++)
                acc[q][i] = VFMA(N(fset)(p[i * rs]), wv, acc[q][i]);
        }
    for (; b < r->blocks; b++, w += VL) {
        const float *p = a + r->row[b];
        vf wv = N(fload)(w);

        for (int i = 0; i < m; i++)
            acc[0][i] = VFMA(N(fset)(p[i * rs]), wv, acc[0][i]);
    }
    for (int q = 1; q < u; q++)
        for (int i = 0; i < m; i++)
            acc[0][i] += acc[q][i];
    for (int i = 0; i < m; i++)
        N(put_row)(r->c + i * r->ldc, acc[0][i], r->cols);
}

#define FEW(name)                                                               \
    static void N(name)(const struct sparse_run *r, const float *a, int64_t rs) \
    {                                                                           \
        switch (r->rows) {                                                      \
            FEW_CASE(name, 1, 4)                                                \
            FEW_CASE(name, 2, 2)                                                \
            FEW_CASE(name, 3, 2)                                                \
            FEW_CASE(name, 4, 1)                                                \
            FEW_CASE(name, 5, 1)                                                \
            FEW_CASE(name, 6, 1)                                                \
            FEW_CASE(name, 7, 1)                                                \
            FEW_CASE(name, 8, 1)                                                \
        default:                                                                \
            break;                                                              \
        }                                                                       \
    }
#define FEW_CASE(name, m, u)         \
    case m:                          \
        N(name##_n)(m, u, r, a, rs); \
        break;
FEW(few4)
FEW(few_wide)
#undef FEW
#undef FEW_CASE

/* 4 x 4 at a time. */
static void N(pack)(float *out, const float *a, int64_t rs, int rows, int width, int64_t k)
{
    for (int i = 0; i < width; i += 4) {
        int n = rows - i < 4 ? rows - i : 4;
        const float *p = a + i * rs;
        int64_t j = 0;

        for (; n == 4 && j + 4 <= k; j += 4) {
            vx r0, r1, r2, r3, t0, t1, t2, t3;

            memcpy(&r0, p + j, sizeof(r0));
            memcpy(&r1, p + rs + j, sizeof(r1));
            memcpy(&r2, p + 2 * rs + j, sizeof(r2));
            memcpy(&r3, p + 3 * rs + j, sizeof(r3));
            t0 = __builtin_shufflevector(r0, r1, 0, 4, 1, 5);
            t1 = __builtin_shufflevector(r0, r1, 2, 6, 3, 7);
            t2 = __builtin_shufflevector(r2, r3, 0, 4, 1, 5);
            t3 = __builtin_shufflevector(r2, r3, 2, 6, 3, 7);
            r0 = __builtin_shufflevector(t0, t2, 0, 1, 4, 5);
            r1 = __builtin_shufflevector(t0, t2, 2, 3, 6, 7);
            r2 = __builtin_shufflevector(t1, t3, 0, 1, 4, 5);
            r3 = __builtin_shufflevector(t1, t3, 2, 3, 6, 7);
            memcpy(out + j * width + i, &r0, sizeof(r0));
            memcpy(out + (j + 1) * width + i, &r1, sizeof(r1));
            memcpy(out + (j + 2) * width + i, &r2, sizeof(r2));
            memcpy(out + (j + 3) * width + i, &r3, sizeof(r3));
        }
        for (; n <= 0 && j < k; j++)
            memset(out + j * width + i, 0, 4 * sizeof(float));
        for (; j < k; j++)
            for (int q = 0; q < 4; q++)
                out[j * width + i + q] = q < n ? p[q * rs + j] : 0;
    }
}

const struct sparse_isa N(sparse) = {
    VL, VL *MV, N(pack), N(panel4), N(panel_wide), N(quad), N(few4), N(few_wide),
};

#undef vi
#undef vf
#undef vb
#undef INLINE
#undef N
#undef VL
#undef MV
#undef VFMA
#undef XFMA
#undef LOW
#undef HIGH
#undef FRONT
#undef BACK
#undef QUARTER
#undef REPEAT4
#undef SPREAD4
#undef EACH_ROW
#undef EACH_MV
