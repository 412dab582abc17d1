/* fp32_gemm_tmpl.h -- matrix products of the instruction sets: part of fp32_tmpl.h, included once
 * by it.
 *
 * A tile's sums live in registers; loops over its rows and vectors have constant bounds and are
 * unrolled at every level of optimization. ISO C forbids contraction, so products and sums that
 * belong together say VFMA. */

/* How far ahead of its use B is fetched: a panel may come from memory. */
#define PREFETCH 512

INLINE vf tile_load(const float *p, int64_t n)
{
    return n >= VL ? vload(p) : n > 0 ? vload_n(p, n) : vset(0);
}

INLINE void tile_store(float *p, vf v, int64_t n)
{
    if (n >= VL)
        vstore(p, v);
    else if (n > 0)
        vstore_n(p, v, n);
}

/* Rows go in threes: x86 addresses base, base + 4 * stride and base + 8 * stride from one pair of
 * registers, and a dozen pointers would not fit. */
INLINE void tile_rows(const struct isa_tile *t, const int m, const int nv)
{
    vf acc[MR][NV];
    const float *row[(MR + 2) / 3], *b = t->b;
    const int64_t ars = t->ars, aks = t->aks, brs = t->brs;

    UNROLL for (int i = 0; i < m; i++)
    {
        UNROLL for (int j = 0; j < nv; j++) acc[i][j] =
            t->init ? tile_load(t->init + i * t->irs + j * VL, t->n - j * VL) : vset(0);
    }
    UNROLL for (int i = 0; i < (m + 2) / 3; i++) row[i] = t->a + 3 * i * ars;
    for (int64_t p = 0; p < t->k; p++) {
        vf bv[NV];

        UNROLL for (int j = 0; j < nv; j++)
        {
            bv[j] = vload(b + j * VL);
            __builtin_prefetch(b + PREFETCH + j * VL);
        }
        UNROLL for (int i = 0; i < m; i++)
        {
            vf av = vset(row[i / 3][i % 3 * ars]);

            UNROLL for (int j = 0; j < nv; j++) acc[i][j] = VFMA(av, bv[j], acc[i][j]);
        }
        UNROLL for (int i = 0; i < (m + 2) / 3; i++) row[i] += aks;
        b += brs;
    }
    UNROLL for (int i = 0; i < m; i++)
    {
        float *to = t->c + i * t->ldc;

        UNROLL for (int j = 0; j < nv; j++) tile_store(to + j * VL, acc[i][j], t->n - j * VL);
    }
}

enum row_type { ROW_FLOAT, ROW_F16, ROW_BF16 };

/* A vector of B, so many numbers from where it begins; lane: its place in panels of 16-bit floats,
 * which are fetched once a line. */
INLINE vf row_b(const struct isa_tile *t, const enum row_type type, int64_t at, const int lane)
{
#ifdef VHALF
    if (type != ROW_FLOAT && lane % 32 == 0)
        __builtin_prefetch(t->half + at + 4 * PREFETCH);
    if (type == ROW_F16)
        return VHALF(t->half + at);
    if (type == ROW_BF16)
        return VBF16(t->half + at);
#endif
    (void)type;
    (void)lane;
    return vload(t->b + at);
}

/* One row alone: four sums by turns, because each waits for the one before. brs: t->brs; with a
 * constant in its place loads need no arithmetic. */
INLINE void tile_row(const struct isa_tile *t, const int nv, const enum row_type type,
                     const int64_t brs)
{
    vf acc[4][NV];
    const float *a = t->a;
    int64_t p = 0, b = 0;

    UNROLL for (int u = 0; u < 4; u++)
    {
        UNROLL for (int j = 0; j < nv; j++) acc[u][j] = vset(0);
    }
    for (; p + 4 <= t->k; p += 4) {
        UNROLL for (int u = 0; u < 4; u++)
        {
            vf av = vset(a[u * t->aks]);

            UNROLL for (int j = 0; j < nv; j++) acc[u][j] =
                VFMA(av, row_b(t, type, b + u * brs + j * VL, u * NR + j * VL), acc[u][j]);
        }
        a += 4 * t->aks;
        b += 4 * brs;
    }
    for (; p < t->k; p++) {
        vf av = vset(*a);

        UNROLL for (int j = 0; j < nv; j++) acc[0][j] =
            VFMA(av, row_b(t, type, b + j * VL, j * VL), acc[0][j]);
        a += t->aks;
        b += brs;
    }
    UNROLL for (int j = 0; j < nv; j++)
    {
        vf sum = (acc[0][j] + acc[1][j]) + (acc[2][j] + acc[3][j]);

        if (t->init)
            sum += tile_load(t->init + j * VL, t->n - j * VL);
        tile_store(t->c + j * VL, sum, t->n - j * VL);
    }
}

static void tile(const struct isa_tile *t)
{
    if (t->m == 1) {
#define ROW(type, brs)              \
    if (t->n > VL)                  \
        tile_row(t, NV, type, brs); \
    else                            \
        tile_row(t, 1, type, brs);  \
    return
#ifdef VHALF
        if (t->half && t->bf16) {
            ROW(ROW_BF16, t->brs);
        }
        if (t->half) {
            ROW(ROW_F16, t->brs);
        }
#endif
        if (t->brs == NR) {
            ROW(ROW_FLOAT, NR);
        }
        ROW(ROW_FLOAT, t->brs);
#undef ROW
    }
    switch (t->m) {
#define ROWS(i)                  \
    case i:                      \
        if (t->n > VL)           \
            tile_rows(t, i, NV); \
        else                     \
            tile_rows(t, i, 1);  \
        break;
        GEMM_ROWS(ROWS)
#undef ROWS
    }
}

static void gemm(int m, int n, int64_t k, const float *a, const float *b, float *c, int64_t ldc,
                 bool add)
{
    struct isa_tile t = { .m = m,
                          .n = n,
                          .k = k,
                          .a = a,
                          .ars = 1,
                          .aks = MR,
                          .b = b,
                          .brs = NR,
                          .c = c,
                          .ldc = ldc,
                          .init = add ? c : NULL,
                          .irs = ldc };

    tile(&t);
}
