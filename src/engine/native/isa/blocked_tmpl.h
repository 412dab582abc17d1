/* blocked_tmpl.h -- body of struct blk (blocked_isa.h), included by fp32_tmpl.h. Tiles keep their
 * sums in variables that macros name, so that nothing depends on how far the compiler unrolls
 * loops. */
#include "engine/native/isa/shuffle.h"

/* Numbers that two taps share are loaded twice: keeping them would cost the registers of the sums.
 */
#define APART(p) __asm__("" : "+r"(p))

#define REP1(M) M(0)
#define REP2(M) REP1(M) M(1)
#define REP3(M) REP2(M) M(2)
#define REP4(M) REP3(M) M(3)
#define REP5(M) REP4(M) M(4)
#define REP6(M) REP5(M) M(5)
#define REP7(M) REP6(M) M(6)
#define REP8(M) REP7(M) M(7)
#define REP9(M) REP8(M) M(8)
#define REP10(M) REP9(M) M(9)
#define REP11(M) REP10(M) M(10)
#define REP12(M) REP11(M) M(11)
#define REP13(M) REP12(M) M(12)
#define REP14(M) REP13(M) M(13)

#define INIT1(p) vf a##p = a;
#define MAC1(p)                     \
    {                               \
        vf x = VDUP(in + (p)*step); \
        a##p = VFMA(x, w0, a##p);   \
    }
#define ADD1(p) a##p = a##p + vload(add + (p)*VL);
#define LIMIT1(p) a##p = VMINN(hi, VMAXN(lo, a##p));
#define STORE1(p) vstore(out + (p)*VL, a##p);

#define INIT2(p) vf a##p = a, b##p = b;
#define MAC2(p)                     \
    {                               \
        vf x = VDUP(in + (p)*step); \
        a##p = VFMA(x, w0, a##p);   \
        b##p = VFMA(x, w1, b##p);   \
    }
#define ADD2(p) ADD1(p) b##p = b##p + vload(add + t->out_block + (p)*VL);
#define LIMIT2(p) LIMIT1(p) b##p = VMINN(hi, VMAXN(lo, b##p));
#define STORE2(p) STORE1(p) vstore(out + t->out_block + (p)*VL, b##p);

#define TAP1(M, REP)      \
    {                     \
        vf w0 = vload(w); \
        REP(M) in++;      \
        w += VL;          \
        APART(in);        \
    }
#define TAP2(M, REP)                              \
    {                                             \
        vf w0 = vload(w), w1 = vload(w + w_next); \
        REP(M) in++;                              \
        w += VL;                                  \
        APART(in);                                \
    }

/* The steps with a run of one whole block are the usual ones. */
#define TILE(OCB, PX, NAME, STEP)                                           \
    static void tile##OCB##_##PX##_##NAME(const struct blk_tile *t)         \
    {                                                                       \
        const int64_t step = STEP, w_next = t->w_block;                     \
        const float *w = t->w, *add = t->add;                               \
        const vf lo = vset(t->lo), hi = vset(t->hi);                        \
        vf a = t->init ? vload(t->init) : vset(0), b = a;                   \
        float *out = t->out;                                                \
                                                                            \
        if (t->init && OCB == 2)                                            \
            b = vload(t->init + VL);                                        \
        REP##PX(INIT##OCB) for (int64_t s = 0; s < t->steps; s++)           \
        {                                                                   \
            const float *in = t->in + t->off[s];                            \
            int64_t i = t->run;                                             \
                                                                            \
            for (; i >= 4; i -= 4) {                                        \
                TAP##OCB(MAC##OCB, REP##PX) TAP##OCB(MAC##OCB, REP##PX)     \
                    TAP##OCB(MAC##OCB, REP##PX) TAP##OCB(MAC##OCB, REP##PX) \
            }                                                               \
            for (; i > 0; i--)                                              \
                TAP##OCB(MAC##OCB, REP##PX)                                 \
        }                                                                   \
        for (int64_t s = t->steps; s < t->steps + t->tail_steps; s++) {     \
            const float *in = t->in + t->off[s];                            \
                                                                            \
            for (int64_t i = t->tail_run; i > 0; i--)                       \
                TAP##OCB(MAC##OCB, REP##PX)                                 \
        }                                                                   \
        if (add) {                                                          \
            REP##PX(ADD##OCB)                                               \
        }                                                                   \
        if (t->limit) {                                                     \
            REP##PX(LIMIT##OCB)                                             \
        }                                                                   \
        REP##PX(STORE##OCB)(void) w_next;                                   \
        (void)b;                                                            \
    }

#define TILES(PX)               \
    TILE(1, PX, block, VL)      \
    TILE(2, PX, block, VL)      \
    TILE(1, PX, block2, 2 * VL) \
    TILE(2, PX, block2, 2 * VL) \
    TILE(1, PX, one, 1)         \
    TILE(2, PX, one, 1)         \
    TILE(1, PX, two, 2) TILE(2, PX, two, 2) TILE(1, PX, any, t->step) TILE(2, PX, any, t->step)

BLK_TILES(TILES)

INLINE vf blk_finish(vf v, const struct blk_end *end, int64_t at)
{
    if (end->add)
        v = v + vload(end->add + at);
    if (end->limit)
        v = VMINN(vset(end->hi), VMAXN(vset(end->lo), v));
    return v;
}

#define DW_INIT(p) vf a##p = b;
#define DW_MAC(p) a##p = VFMA(vload(in + (p)*s), w0, a##p);
#define DW_STORE(p) vstore(out + (p)*VL, blk_finish(a##p, end, at + (p)*VL));
#define DW_RUN(PX)                                                                     \
    for (; n >= PX; n -= PX, out += (PX)*VL, at += (PX)*VL, x += (PX)*s) {             \
        REP##PX(DW_INIT) for (int r = 0; r < rows; r++) for (int k = 0; k < taps; k++) \
        {                                                                              \
            const float *in = row[r] + x + k * dl;                                     \
            vf w0 = vload(wt[r] + k * VL);                                             \
                                                                                       \
            REP##PX(DW_MAC)                                                            \
        }                                                                              \
        REP##PX(DW_STORE)                                                              \
    }

/* Three taps at distance 1: each input vector is loaded once for the outputs that it is part of. */
#define DW3_RUN(PX)                                                                   \
    for (; n >= PX; n -= PX, out += (PX)*VL, at += (PX)*VL, x += (PX)*VL) {           \
        REP##PX(DW_INIT) for (int r = 0; r < rows; r++)                               \
        {                                                                             \
            const float *in = row[r] + x;                                             \
            vf w0 = vload(wt[r]), w1 = vload(wt[r] + VL), w2 = vload(wt[r] + 2 * VL); \
            vf x0 = vload(in), x1 = vload(in + VL), x2;                               \
                                                                                      \
            REP##PX(DW3_MAC)                                                          \
        }                                                                             \
        REP##PX(DW_STORE)                                                             \
    }
#define DW3_MAC(p)                   \
    x2 = vload(in + ((p) + 2) * VL); \
    a##p = VFMA(x0, w0, a##p);       \
    a##p = VFMA(x1, w1, a##p);       \
    a##p = VFMA(x2, w2, a##p);       \
    x0 = x1;                         \
    x1 = x2;

/* Three rows of three, six outputs at a time, with the weights in registers; how many it did. */
INLINE int64_t dw33(float *out, int64_t n, const float *const *row, const float *const *wt, vf b,
                    const struct blk_end *end)
{
    const float *r0 = row[0], *r1 = row[1], *r2 = row[2];
    vf w[9];
    int64_t x = 0;

#pragma GCC unroll 9
    for (int k = 0; k < 9; k++)
        w[k] = vload(wt[k / 3] + k % 3 * VL);
    for (; x + 6 <= n; x += 6) {
        vf a[6];

#pragma GCC unroll 6
        for (int p = 0; p < 6; p++)
            a[p] = b;
#pragma GCC unroll 3
        for (int r = 0; r < 3; r++) {
            const float *in = (r == 0 ? r0 : r == 1 ? r1 : r2) + x * VL;
            vf v[8];

#pragma GCC unroll 8
            for (int p = 0; p < 8; p++)
                v[p] = vload(in + p * VL);
#pragma GCC unroll 3
            for (int k = 0; k < 3; k++)
#pragma GCC unroll 6
                for (int p = 0; p < 6; p++)
                    a[p] = VFMA(v[p + k], w[3 * r + k], a[p]);
        }
#pragma GCC unroll 6
        for (int p = 0; p < 6; p++)
            vstore(out + (x + p) * VL, blk_finish(a[p], end, (x + p) * VL));
    }
    return x;
}

static void blk_depthwise(float *out, int64_t n, const float *const *row, const float *const *wt,
                          int rows, int taps, int64_t step, int64_t dilation, const float *bias,
                          const struct blk_end *end)
{
    const int64_t s = step * VL, dl = dilation * VL;
    const vf b = bias ? vload(bias) : vset(0);
    int64_t x = 0, at = 0;

    if (step == 1 && dilation == 1 && taps == 3) {
        if (rows == 3 && n >= 6) {
            int64_t done = dw33(out, n, row, wt, b, end);

            n -= done;
            x = at = done * VL;
            out += at;
        }
        DW3_RUN(6)
        DW3_RUN(4)
        DW3_RUN(2)
    }
    DW_RUN(6)
    DW_RUN(4)
    DW_RUN(2)
    DW_RUN(1)
}

static void blk_pool(enum blk_pool what, float *out, int64_t n, const float *const *row, int rows,
                     int taps, int64_t step, int64_t dilation, float scale)
{
    for (int64_t i = 0; i < n; i++, out += VL) {
        const int64_t x = i * step * VL;
        vf v;

        if (what == BLK_MAX) {
            v = vload(row[0] + x);
            for (int r = 0; r < rows; r++)
                for (int k = 0; k < taps; k++) {
                    vf y = vload(row[r] + x + k * dilation * VL);

                    v = vsel((v < y) | (y != y), y, v);
                }
        } else {
            v = vset(0);
            for (int r = 0; r < rows; r++)
                for (int k = 0; k < taps; k++)
                    v = v + vload(row[r] + x + k * dilation * VL);
            v = v * scale;
        }
        vstore(out, v);
    }
}

static void blk_mean(float *out, const float *in, int64_t n)
{
    vf a = vset(0), b = a, c = a, d = a;
    int64_t i = 0;

    for (; i + 4 <= n; i += 4, in += 4 * VL) {
        a = a + vload(in);
        b = b + vload(in + VL);
        c = c + vload(in + 2 * VL);
        d = d + vload(in + 3 * VL);
    }
    for (; i < n; i++, in += VL)
        a = a + vload(in);
    vstore(out, ((a + b) + (c + d)) * vset(1.0f / (float)MAX(n, (int64_t)1)));
}

/* Rows become columns: log2(VL) times the first half interleaved with the second. */
INLINE void transpose(vf *r)
{
    vf t[VL];

    for (int stage = 1; stage < VL; stage *= 2) {
        for (int i = 0; i < VL / 2; i++) {
            t[2 * i] = __builtin_shufflevector(r[i], r[i + VL / 2], INTERLEAVE_LO);
            t[2 * i + 1] = __builtin_shufflevector(r[i], r[i + VL / 2], INTERLEAVE_HI);
        }
        memcpy(r, t, sizeof(t));
    }
}

static void blk_pack(float *out, const float *in, int64_t plane, int channels, int64_t n)
{
    int64_t i = 0;

    for (; i < n; i += VL, out += VL * VL) {
        int64_t m = MIN(n - i, (int64_t)VL);
        vf r[VL];

        for (int c = 0; c < VL; c++)
            r[c] = c >= channels ? vset(0)
                   : m == VL     ? vload(in + c * plane + i)
                                 : vload_n(in + c * plane + i, m);
        transpose(r);
        for (int64_t k = 0; k < m; k++)
            vstore(out + k * VL, r[k]);
    }
}

static void blk_unpack(float *out, const float *in, int64_t plane, int channels, int64_t n)
{
    for (int64_t i = 0; i < n; i += VL, in += VL * VL) {
        int64_t m = MIN(n - i, (int64_t)VL);
        vf r[VL];

        for (int64_t k = 0; k < VL; k++)
            r[k] = k < m ? vload(in + k * VL) : vset(0);
        transpose(r);
        for (int c = 0; c < channels; c++)
            if (m == VL)
                vstore(out + c * plane + i, r[c]);
            else
                vstore_n(out + c * plane + i, r[c], m);
    }
}

/* One dimension of the transforms; the points are 0, 1, -1, 2, -2 and infinity. */
INLINE void wino_in1(const vf d[6], vf o[6])
{
    vf p = VFMA(vset(-4), d[2], d[4]), q = VFMA(vset(-4), d[1], d[3]), r = d[4] - d[2],
       s = (d[3] - d[1]) * 2.0f;

    o[0] = VFMA(vset(4), d[0], VFMA(vset(-5), d[2], d[4]));
    o[1] = p + q;
    o[2] = p - q;
    o[3] = r + s;
    o[4] = r - s;
    o[5] = VFMA(vset(4), d[1], VFMA(vset(-5), d[3], d[5]));
}

INLINE void wino_out1(const vf m[6], vf o[4])
{
    vf p = m[1] + m[2], q = m[1] - m[2], r = m[3] + m[4], s = m[3] - m[4];

    o[0] = m[0] + p + r;
    o[1] = VFMA(vset(2), s, q);
    o[2] = VFMA(vset(4), r, p);
    o[3] = VFMA(vset(8), s, q) + m[5];
}

INLINE void wino_weights1(const vf g[3], vf o[6])
{
    vf a = (g[0] + g[2]) * (-1.0f / 6), c = VFMA(vset(4), g[2], g[0]) * (1.0f / 24);

    o[0] = g[0] * 0.25f;
    o[1] = VFMA(vset(-1.0f / 6), g[1], a);
    o[2] = VFMA(vset(1.0f / 6), g[1], a);
    o[3] = VFMA(vset(1.0f / 12), g[1], c);
    o[4] = VFMA(vset(-1.0f / 12), g[1], c);
    o[5] = g[2];
}

static void blk_wino_weights(float *u, int64_t gap, const float *w, int64_t channel, int channels)
{
    vf g[3], t[6][3], o[6];
    float taps[9][VL] = { { 0 } };

    for (int c = 0; c < channels; c++)
        for (int k = 0; k < 9; k++)
            taps[k][c] = w[c * channel + k];
    for (int x = 0; x < 3; x++) {
        for (int y = 0; y < 3; y++)
            g[y] = vload(taps[3 * y + x]);
        wino_weights1(g, o);
        for (int y = 0; y < 6; y++)
            t[y][x] = o[y];
    }
    for (int y = 0; y < 6; y++) {
        wino_weights1(t[y], o);
        for (int x = 0; x < 6; x++)
            vstore(u + (6 * y + x) * gap, o[x]);
    }
}

static void blk_wino_in(float *v, int64_t gap, const float *in, int64_t pitch)
{
    vf t[6][6], d[6], o[6];

    for (int x = 0; x < 6; x++) {
        d[0] = vload(in + x * VL);
        d[1] = vload(in + pitch + x * VL);
        d[2] = vload(in + 2 * pitch + x * VL);
        d[3] = vload(in + 3 * pitch + x * VL);
        d[4] = vload(in + 4 * pitch + x * VL);
        d[5] = vload(in + 5 * pitch + x * VL);
        wino_in1(d, o);
        t[0][x] = o[0];
        t[1][x] = o[1];
        t[2][x] = o[2];
        t[3][x] = o[3];
        t[4][x] = o[4];
        t[5][x] = o[5];
    }
    for (int y = 0; y < 6; y++, v += 6 * gap) {
        wino_in1(t[y], o);
        vstore(v, o[0]);
        vstore(v + gap, o[1]);
        vstore(v + 2 * gap, o[2]);
        vstore(v + 3 * gap, o[3]);
        vstore(v + 4 * gap, o[4]);
        vstore(v + 5 * gap, o[5]);
    }
}

static void blk_wino_out(float *out, int64_t pitch, int rows, int cols, const float *m, int64_t gap,
                         const float *bias, const struct blk_end *end)
{
    vf t[4][6], d[6], o[4], b = bias ? vload(bias) : vset(0);

    for (int x = 0; x < 6; x++) {
        d[0] = vload(m + x * gap);
        d[1] = vload(m + (6 + x) * gap);
        d[2] = vload(m + (12 + x) * gap);
        d[3] = vload(m + (18 + x) * gap);
        d[4] = vload(m + (24 + x) * gap);
        d[5] = vload(m + (30 + x) * gap);
        wino_out1(d, o);
        t[0][x] = o[0];
        t[1][x] = o[1];
        t[2][x] = o[2];
        t[3][x] = o[3];
    }
    for (int y = 0; y < rows; y++) {
        float *to = out + y * pitch;
        int64_t at = y * pitch;

        wino_out1(t[y], o);
        vstore(to, blk_finish(o[0] + b, end, at));
        if (cols > 1)
            vstore(to + VL, blk_finish(o[1] + b, end, at + VL));
        if (cols > 2)
            vstore(to + 2 * VL, blk_finish(o[2] + b, end, at + 2 * VL));
        if (cols > 3)
            vstore(to + 3 * VL, blk_finish(o[3] + b, end, at + 3 * VL));
    }
}

INLINE void blk_binary_loop(const enum isa_binary f, float *out, const float *a, const float *b,
                            bool a_once, bool b_once, int64_t n)
{
    const vf a0 = vload(a), b0 = vload(b);

    if (b_once)
        for (int64_t i = 0; i < n; i++)
            vstore(out + i * VL, binary1(f, a_once ? a0 : vload(a + i * VL), b0));
    else
        for (int64_t i = 0; i < n; i++)
            vstore(out + i * VL, binary1(f, a_once ? a0 : vload(a + i * VL), vload(b + i * VL)));
}

static void blk_binary(int f, float *out, const float *a, const float *b, bool a_once, bool b_once,
                       int64_t n)
{
    switch (f) {
#define CASE(op)                                           \
    case op:                                               \
        blk_binary_loop(op, out, a, b, a_once, b_once, n); \
        break;
        CASE(B_ADD)
        CASE(B_SUB)
        CASE(B_MUL)
        CASE(B_DIV)
        CASE(B_MAX)
        CASE(B_MIN)
#undef CASE
    default:
        for (int64_t i = 0; i < n; i++) {
            vf x = vload(a_once ? a : a + i * VL), y = vload(b_once ? b : b + i * VL);

            vstore(out + i * VL, vsel(x < vset(0), x * y, x));
        }
    }
}

static void blk_lanes(float *out, const float *in, int lanes, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        vstore_n(out + i * VL, vload_n(in + i * VL, lanes), lanes);
}

static void blk_strew(float *out, int64_t step, const float *in, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        vstore(out + i * step * VL, vload(out + i * step * VL) + vload(in + i * VL));
}

static void blk_affine(float *out, const float *in, const float *scale, const float *shift,
                       int64_t n)
{
    const vf a = vload(scale), b = vload(shift);

    for (int64_t i = 0; i < n; i++)
        vstore(out + i * VL, VFMA(vload(in + i * VL), a, b));
}

static void blk_mix(float *out, const float *a, const float *b, float wa, float wb, int64_t n)
{
    const vf va = vset(wa), vb = vset(wb);

    for (int64_t i = 0; i < n; i++)
        vstore(out + i * VL, VFMA(va, vload(a + i * VL), vb * vload(b + i * VL)));
}

#define ROW1(PX, NAME) [PX - 1] = tile1_##PX##_##NAME,
#define ROW2(PX, NAME) [PX - 1] = tile2_##PX##_##NAME,
#define ROW_BLOCK1(PX) ROW1(PX, block)
#define ROW_BLOCK2(PX) ROW2(PX, block)
#define ROW_BLOCK2_1(PX) ROW1(PX, block2)
#define ROW_BLOCK2_2(PX) ROW2(PX, block2)
#define ROW_ONE1(PX) ROW1(PX, one)
#define ROW_ONE2(PX) ROW2(PX, one)
#define ROW_TWO1(PX) ROW1(PX, two)
#define ROW_TWO2(PX) ROW2(PX, two)
#define ROW_ANY1(PX) ROW1(PX, any)
#define ROW_ANY2(PX) ROW2(PX, any)

static const struct blk blk = {
    .block = VL,
    .px = BLK_PX,
    .tile = { [STEP_BLOCK] = { { BLK_TILES(ROW_BLOCK1) }, { BLK_TILES(ROW_BLOCK2) } },
              [STEP_BLOCK2] = { { BLK_TILES(ROW_BLOCK2_1) }, { BLK_TILES(ROW_BLOCK2_2) } },
              [STEP_1] = { { BLK_TILES(ROW_ONE1) }, { BLK_TILES(ROW_ONE2) } },
              [STEP_2] = { { BLK_TILES(ROW_TWO1) }, { BLK_TILES(ROW_TWO2) } },
              [STEP_ANY] = { { BLK_TILES(ROW_ANY1) }, { BLK_TILES(ROW_ANY2) } } },
    .depthwise = blk_depthwise,
    .pool = blk_pool,
    .mean = blk_mean,
    .pack = blk_pack,
    .unpack = blk_unpack,
    .wino_weights = blk_wino_weights,
    .wino_in = blk_wino_in,
    .wino_out = blk_wino_out,
    .binary = blk_binary,
    .lanes = blk_lanes,
    .strew = blk_strew,
    .affine = blk_affine,
    .mix = blk_mix,
};
