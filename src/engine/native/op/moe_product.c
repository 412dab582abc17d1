/* moe_product.c -- see moe.h. Weights of few bits are multiplied as MatMulNBits does it: a few rows
 * as digits, many by weights that are made floats. */
#include "engine/native/op/moe.h"

#include "engine/native/math/gemm.h"

#include <string.h>

/* More rows than this are multiplied by the weights as floats. */
#define FEW_ROWS 12
/* Products of a weight and a digit, in one thread. */
#define MACS_PER_NS 60.0

void moe_matrix_release(struct moe_matrix *m)
{
    native_free(m->panels);
    native_free(m->w);
    native_free(m->zeros);
    native_free(m->scales);
    mem_free(m->in_block);
}

static const void *weights_of(const struct op *op, const struct moe_matrix *m)
{
    const struct tensor *t = kernel_const(op, m->slot);

    return t ? t->data : kernel_in(op, m->slot)->data;
}

/* -- floats -- */

static int pack_floats(struct op *op, struct moe_matrix *m, opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    const float *from = weights_of(op, m);
    int64_t size = gemm_size_b(isa, m->k, m->n), bytes;

    if (size < 0 || __builtin_mul_overflow(size, m->experts * 4, &bytes))
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    m->panels = native_alloc_weights((size_t)MAX(bytes, (int64_t)1));
    if (!m->panels)
        return kernel_nomem(op, err);
    for (int64_t e = 0; e < m->experts; e++)
        gemm_pack_b(isa, m->panels + e * size, from + e * m->n * m->k, m->k, m->n, 1, m->k, 0,
                    gemm_panels(m->n, isa->nr));
    m->expert = size;
    op->packed_bytes += (size_t)bytes;
    return 0;
}

/* -- few bits -- */

static int per_word(const struct moe_matrix *m)
{
    return 32 / m->bits;
}

static uint32_t number(const uint8_t *p, int64_t i, int bits)
{
    return p[i * bits / 8] >> (i * bits % 8) & ((1u << bits) - 1);
}

/* Numbers k0 .. of a column as nbits_isa.h has them in a word; none beyond `count`. */
static uint32_t word_at(const struct moe_matrix *m, const uint8_t *column, int64_t k0,
                        int64_t count)
{
    uint32_t out = 0;

    for (int i = 0; i < per_word(m) && i < count; i++)
        out |= number(column, k0 + i, m->bits) << (i / 4 * m->bits + i % 4 * 8);
    return out;
}

/* Zero points of a column lie in bytes of their own, unless there is one for each. */
static uint8_t zero_of(const struct op *op, const struct moe_matrix *m, int64_t e, int64_t column,
                       int64_t block)
{
    const struct nt *z = kernel_in(op, m->zero);
    const uint8_t *p = z ? z->data : NULL;
    int64_t row = (m->blocks * m->bits + 7) / 8;

    if (!z)
        return (uint8_t)(1u << (m->bits - 1));
    if (m->block == m->k && z->shape.rank == 2)
        return (uint8_t)number(p + e * ((m->n * m->bits + 7) / 8), column, m->bits);
    return (uint8_t)number(p + (e * m->n + column) * row, block, m->bits);
}

struct pack_job {
    const struct op *op;
    struct moe_matrix *m;
};

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    struct moe_matrix *m = j->m;
    const uint8_t *from = weights_of(j->op, m);
    const float *scale = kernel_in(j->op, m->scale)->data;
    int64_t lanes = kernel_isa(j->op)->nbits->lanes, row = m->k * m->bits / 8;

    (void)thread;
    for (int64_t g = begin; g < end; g++)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t e = g / m->expert, column = g % m->expert * lanes + l, at = e * m->n + column;
            uint8_t *w = m->w + (nbits_group_at(g, m->words, lanes) + l) * 4;

            for (int64_t b = 0; b < m->blocks; b++) {
                int64_t to = nbits_group_at(g, m->blocks, lanes) + b * 2 * lanes + l;

                m->scales[to] = column < m->n ? scale[at * m->blocks + b] : 0;
                if (m->zeros)
                    m->zeros[to] = column < m->n ? zero_of(j->op, m, e, column, b) : 0;
                for (int64_t i = 0; i < m->in_block[b]; i++, w += 8 * lanes) {
                    int64_t k = b * m->block + i * per_word(m),
                            left = MIN(m->k, (b + 1) * m->block) - k;
                    uint32_t x = column < m->n ? word_at(m, from + at * row, k, left) : 0;

                    memcpy(w, &x, sizeof(x));
                }
            }
        }
}

static int pack_bits(struct op *op, struct moe_matrix *m, opm_error *err)
{
    int64_t lanes = kernel_isa(op)->nbits->lanes, groups, bytes, scales;
    struct pack_job j = { op, m };

    m->expert = (m->n + 2 * lanes - 1) / (2 * lanes) * 2; /* whole pairs */
    groups = m->experts * m->expert;
    if (__builtin_mul_overflow(groups * lanes, m->words * 4, &bytes) ||
        __builtin_mul_overflow(groups * lanes, m->blocks, &scales))
        return kernel_fail(op, OPM_ELIMIT, err, "the weights are too big");
    if (!m->w)
        m->w = native_alloc_weights((size_t)MAX(bytes, (int64_t)1));
    if (!m->scales)
        m->scales = native_alloc_weights((size_t)MAX(scales, (int64_t)1) * sizeof(float));
    if (!m->zeros && kernel_in(op, m->zero))
        m->zeros = native_alloc_weights((size_t)MAX(scales, (int64_t)1));
    if (!m->w || !m->scales || (!m->zeros && kernel_in(op, m->zero)))
        return kernel_nomem(op, err);
    pool_for(kernel_pool(op), groups, 1, pack_part, &j);
    if (!m->packed)
        op->packed_bytes += (size_t)(bytes + scales * (m->zeros ? 5 : 4));
    return 0;
}

static bool bits_fit(const struct op *op, struct moe_matrix *m)
{
    const struct nt *w = kernel_in(op, m->slot), *scale = kernel_in(op, m->scale),
                    *zero = kernel_in(op, m->zero);
    int64_t columns, row, rows;

    m->blocks = (m->k + m->block - 1) / m->block;
    if (m->k * m->bits % 8 || m->block > 65536 ||
        __builtin_mul_overflow(m->experts, m->n, &columns) ||
        __builtin_mul_overflow(columns, m->k * m->bits / 8, &row) || w->count != row ||
        __builtin_mul_overflow(columns, m->blocks, &row) || scale->count != row)
        return false;
    if (!zero)
        return true;
    row = columns * ((m->blocks * m->bits + 7) / 8);
    rows = m->experts * ((m->n * m->bits + 7) / 8);
    return zero->count == (m->block == m->k && zero->shape.rank == 2 ? rows : row);
}

static int prepare_bits(struct op *op, struct moe_matrix *m, opm_error *err)
{
    int rc = kernel_want(op, m->slot, TYPE_BIT(TENSOR_U8), err);

    if (!rc)
        rc = kernel_want(op, m->scale, TYPE_BIT(TENSOR_F32), err);
    if (!rc && kernel_in(op, m->zero))
        rc = kernel_want(op, m->zero, TYPE_BIT(TENSOR_U8), err);
    if (rc)
        return rc;
    if (!bits_fit(op, m))
        return kernel_fail(op, OPM_EINVAL, err, "weights, scales and zero points do not fit");
    mem_free(m->in_block);
    m->in_block = mem_calloc((size_t)m->blocks + 1, sizeof(*m->in_block));
    if (!m->in_block)
        return kernel_nomem(op, err);
    for (int64_t b = 0; b < m->blocks; b++)
        m->in_block[b] = (int32_t)((m->block + per_word(m) - 1) / per_word(m));
    m->words = m->blocks * m->in_block[0];
    return 0;
}

int moe_matrix_prepare(struct op *op, struct moe_matrix *m, opm_error *err)
{
    const struct nt *w = kernel_in(op, m->slot), *bias = kernel_in(op, m->bias);
    bool fixed = kernel_fixed(op, m->slot);
    int64_t count;
    int rc;

    if (m->bits) {
        fixed = fixed && kernel_fixed(op, m->scale) &&
                (!kernel_in(op, m->zero) || kernel_fixed(op, m->zero));
        rc = prepare_bits(op, m, err);
    } else {
        rc = kernel_want(op, m->slot, TYPE_BIT(TENSOR_F32), err);
        if (!rc && (__builtin_mul_overflow(m->experts * m->n, m->k, &count) || w->count != count))
            rc = kernel_fail(op, OPM_EINVAL, err, "the experts' weights do not fit");
    }
    if (!rc && bias)
        rc = kernel_want(op, m->bias, TYPE_BIT(TENSOR_F32), err);
    if (!rc && bias && bias->count != m->experts * m->n)
        rc = kernel_fail(op, OPM_EINVAL, err, "the experts' biases do not fit");
    if (rc || !fixed || m->packed)
        return rc;
    if (m->bits &&
        (!kernel_data(op, m->scale) || (kernel_in(op, m->zero) && !kernel_data(op, m->zero))))
        return kernel_nomem(op, err);
    rc = m->bits ? pack_bits(op, m, err) : pack_floats(op, m, err);
    m->packed = !rc;
    if (m->packed && kernel_const(op, m->slot))
        model_forget(op->plan->engine->model, kernel_const(op, m->slot)->data,
                     kernel_const(op, m->slot)->bytes);
    return rc;
}

/* -- products -- */

struct product_job {
    const struct op *op;
    const struct moe_matrix *m;
    int64_t e, rows;
    const float *a, *bias;
    float *c;
    char *scratch;
    size_t at_scale, at_sum, at_whole;
    struct gemm g;
    struct gemm_grid grid;
};

static size_t aligned(size_t bytes)
{
    return (bytes + 2 * NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
}

size_t moe_scratch(const struct op *op, const struct moe_matrix *m, int64_t rows)
{
    size_t wide = (size_t)pool_threads(kernel_pool(op)) * (size_t)gemm_wide(kernel_isa(op), m->k) *
                  sizeof(float),
           few = (size_t)MIN(rows, (int64_t)FEW_ROWS),
           room = m->bits ? (size_t)(m->words * per_word(m)) : 0,
           digits = aligned(few * room * NBITS_DIGITS) +
                    2 * aligned(few * (size_t)m->blocks * sizeof(float)) +
                    aligned(few * (size_t)m->blocks * NBITS_DIGITS * sizeof(int32_t));

    return m->panels ? 0 : m->bits ? MAX(wide, digits) : wide;
}

static struct nbits_tile tile_of(const struct product_job *j, int64_t group)
{
    const struct moe_matrix *m = j->m;
    int64_t lanes = kernel_isa(j->op)->nbits->lanes, g = j->e * m->expert + group,
            scales = nbits_group_at(g, m->blocks, lanes), room = m->words * per_word(m);

    return (struct nbits_tile){
        .bits = m->bits,
        .digits = NBITS_DIGITS,
        .cols = (int)MIN(lanes, m->n - group * lanes),
        .blocks = m->blocks,
        .words = m->in_block,
        .w = m->w + nbits_group_at(g, m->words, lanes) * 4,
        .scale = m->scales + scales,
        .zero = m->zeros ? m->zeros + scales : NULL,
        .zero_all = 1 << (m->bits - 1),
        .a_row = room * NBITS_DIGITS,
        .a_digit = room,
        .bias = j->bias ? j->bias + group * lanes : NULL,
        .ldc = m->n,
        .row_words = m->in_block[0],
    };
}

static void digits_of(const struct product_job *j)
{
    const struct moe_matrix *m = j->m;
    int64_t room = (int64_t)m->in_block[0] * per_word(m);
    float *scale = (float *)(void *)(j->scratch + j->at_scale);
    int32_t *sum = (int32_t *)(void *)(j->scratch + j->at_sum);
    float *whole = (float *)(void *)(j->scratch + j->at_whole);

    for (int64_t r = 0; r < j->rows; r++) {
        const float *x = j->a + r * m->k;
        int8_t *out = (int8_t *)j->scratch + r * m->blocks * room * NBITS_DIGITS;

        for (int64_t b = 0; b < m->blocks; b++, out += room, scale++, sum += NBITS_DIGITS) {
            kernel_isa(j->op)->nbits->digits(NBITS_DIGITS, out, m->blocks * room, x + b * m->block,
                                             MIN(m->block, m->k - b * m->block), room, scale, sum);
            *whole++ = nbits_whole(NBITS_DIGITS, sum);
            for (int d = 0; !m->zeros && d < NBITS_DIGITS; d++)
                sum[d] *= -(1 << (m->bits - 1));
        }
    }
}

/* Pairs of groups. */
static void tile_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct product_job *j = arg;
    const struct moe_matrix *m = j->m;
    const struct nbits_isa *isa = kernel_isa(j->op)->nbits;
    const float *scale = (const float *)(const void *)(j->scratch + j->at_scale);
    const float *whole = (const float *)(const void *)(j->scratch + j->at_whole);
    const int32_t *sum = (const int32_t *)(const void *)(j->scratch + j->at_sum);

    (void)thread;
    for (int64_t g = begin * 2; g < end * 2 && g * isa->lanes < m->n;) {
        struct nbits_tile t = tile_of(j, g);
        bool pair = j->rows == 1 && g % 2 == 0 && (g + 2) * isa->lanes <= m->n;

        for (int64_t r = 0; r < j->rows; r += t.rows) {
            t.rows = NBITS_ROWS / 2;
            while (t.rows > j->rows - r)
                t.rows /= 2;
            t.a = (const int8_t *)j->scratch + r * t.a_row;
            t.a_scale = scale + r * m->blocks;
            t.a_whole = whole + r * m->blocks;
            t.a_sum = sum + r * m->blocks * NBITS_DIGITS;
            t.c = j->c + r * m->n + g * isa->lanes;
            if (pair)
                isa->row(&t);
            else
                isa->tile(&t);
        }
        g += pair ? 2 : 1;
    }
}

/* Columns of the product's panels, from weights of few bits. */
static void widen_bits(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len)
{
    const struct product_job *j = g->widen_arg;
    int64_t nr = g->isa->nr, lanes = g->isa->nbits->lanes;

    for (int64_t c = 0; c < (j1 - j0) * nr; c += lanes) {
        float *out = g->wide + c / nr * len * nr + c % nr;
        int64_t group = (j0 * nr + c) / lanes;

        if (group < j->m->expert) {
            struct nbits_tile t = tile_of(j, group);

            g->isa->nbits->widen(&t, out, nr, NULL, k0, k0 + len);
            continue;
        }
        for (int64_t k = 0; k < len; k++)
            memset(out + k * nr, 0, (size_t)lanes * sizeof(*out));
    }
}

/* The same from floats that are no constants. */
static void widen_floats(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len)
{
    const struct product_job *j = g->widen_arg;
    const struct moe_matrix *m = j->m;
    const float *from = (const float *)kernel_in(j->op, m->slot)->data + j->e * m->n * m->k;
    int64_t nr = g->isa->nr;

    for (int64_t p = j0; p < j1; p++)
        for (int64_t c = 0; c < nr; c++) {
            const float *column = p * nr + c < m->n ? from + (p * nr + c) * m->k + k0 : NULL;
            float *out = g->wide + (p - j0) * len * nr + c;

            for (int64_t k = 0; k < len; k++)
                out[k * nr] = column ? column[k] : 0;
        }
}

static void float_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct product_job *j = arg;
    struct gemm g = j->g;

    g.wide = (float *)(void *)j->scratch + thread * gemm_wide(g.isa, g.k);
    for (int64_t i = begin; i < end; i++)
        gemm_item(&g, &j->grid, i);
}

static void run_floats(struct product_job *j)
{
    const struct moe_matrix *m = j->m;
    struct pool *pool = kernel_pool(j->op);

    j->g = (struct gemm){ .isa = kernel_isa(j->op),
                          .m = j->rows,
                          .n = m->n,
                          .k = m->k,
                          .a = j->a,
                          .ars = m->k,
                          .aks = 1,
                          .c = j->c,
                          .ldc = m->n,
                          .alpha = 1,
                          .add = j->bias,
                          .add_cs = 1 };
    if (m->panels) {
        j->g.b = m->panels + j->e * m->expert;
        gemm_run_all(&j->g, pool);
        return;
    }
    j->g.widen = m->bits ? widen_bits : widen_floats;
    j->g.widen_arg = j;
    gemm_grid(&j->grid, j->g.isa, j->rows, m->n, m->k, 1, pool_threads(pool));
    pool_for(pool, j->grid.nmb * j->grid.nnb, pool_grain(j->grid.item_ns), float_part, j);
}

int moe_matrix_begin(struct op *op, struct moe_matrix *m, opm_error *err)
{
    return m->bits && !m->packed ? pack_bits(op, m, err) : 0;
}

void moe_product(struct op *op, const struct moe_matrix *m, int64_t e, const float *a, int64_t rows,
                 float *c, void *scratch)
{
    const struct nt *bias = kernel_in(op, m->bias);
    struct product_job j = { .op = op, .m = m, .e = e, .rows = rows, .a = a, .c = c };
    double macs;

    j.bias = bias ? (const float *)bias->data + e * m->n : NULL;
    j.scratch = scratch;
    if (!m->bits || rows > FEW_ROWS) {
        run_floats(&j);
        return;
    }
    j.at_scale = aligned((size_t)(rows * m->words * per_word(m) * NBITS_DIGITS));
    j.at_sum = j.at_scale + aligned((size_t)(rows * m->blocks) * sizeof(float));
    j.at_whole = j.at_sum + aligned((size_t)(rows * m->blocks) * NBITS_DIGITS * sizeof(int32_t));
    digits_of(&j);
    macs =
        (double)(rows * m->words * per_word(m) * NBITS_DIGITS * kernel_isa(op)->nbits->lanes * 2);
    pool_for(kernel_pool(op), m->expert / 2, pool_grain(macs / MACS_PER_NS), tile_part, &j);
}
