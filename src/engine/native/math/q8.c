/* q8.c -- see q8.h. */
#include "engine/native/math/q8.h"

#include <math.h>
#include <string.h>

#define MR_MAX 8
#define NR_MAX 64
#define ROWS_BLOCK 48     /* of A, that one thread takes at a time */
#define ROWS_BLOCK_AMX 64 /* the same, where there are blocks */
#define BLOCK_LEAST 4     /* rows that blocks are worth it for, and groups */

static int64_t panels(const struct q8_isa *isa, int64_t n)
{
    return (n + isa->nr - 1) / isa->nr;
}

static int64_t round64(int64_t bytes)
{
    return (bytes + NATIVE_ALIGN - 1) / NATIVE_ALIGN * NATIVE_ALIGN;
}

int64_t q8_b_bytes(const struct q8_isa *isa, int64_t k, int64_t n)
{
    int64_t data, all;

    if (k > INT32_MAX / (4 * NR_MAX) || n > PTRDIFF_MAX / 64 ||
        __builtin_mul_overflow(panels(isa, n) * isa->nr * 4, q8_groups(k), &data) ||
        __builtin_add_overflow(
            data, 8 * NATIVE_ALIGN + (isa->block ? Q8_BLOCK_BEYOND : 0) + 4 * (n + q8_groups(k)),
            &all) ||
        all > PTRDIFF_MAX / 2)
        return -1;
    return all;
}

void q8_b_place(struct q8_b *b, const struct q8_isa *isa, int64_t k, int64_t n, void *memory)
{
    int64_t data = round64(panels(isa, n) * isa->nr * 4 * q8_groups(k));

    b->k = k;
    b->n = n;
    b->data = memory;
    b->sum = (int32_t *)((char *)memory + data);
    b->off = (int32_t *)((char *)memory + data + round64(4 * n));
}

struct pack_job {
    struct q8_b *b;
    const struct q8_isa *isa;
    const uint8_t *src;
    int64_t rs, cs;
    uint8_t flip;
};

/* Any strides. */
static void pack_slow(const struct pack_job *j, int64_t panel, int64_t group, uint8_t *out)
{
    for (int64_t c = 0; c < j->isa->nr; c++)
        for (int64_t t = 0; t < 4; t++) {
            int64_t k = group * 4 + t, n = panel * j->isa->nr + c;

            out[c * 4 + t] =
                k < j->b->k && n < j->b->n ? j->src[k * j->rs + n * j->cs] ^ j->flip : 0;
        }
}

static void pack_panel(const struct pack_job *j, int64_t panel)
{
    int64_t groups = q8_groups(j->b->k), n0 = panel * j->isa->nr,
            cols = MIN((int64_t)j->isa->nr, j->b->n - n0);
    uint8_t *out = j->b->data + panel * j->isa->nr * 4 * groups;

    for (int64_t c = 0; c < cols; c++)
        j->b->sum[n0 + c] = 0;
    for (int64_t g = 0; g < groups; g++, out += j->isa->nr * 4) {
        if (j->cs == 1 && cols == j->isa->nr) {
            const uint8_t *row[4];

            for (int64_t t = 0; t < 4; t++)
                row[t] = g * 4 + t < j->b->k ? j->src + (g * 4 + t) * j->rs + n0 : NULL;
            j->isa->interleave(out, row, cols, j->flip);
        } else
            pack_slow(j, panel, g, out);
        for (int64_t c = 0; c < cols; c++) {
            const int8_t *q = (const int8_t *)out + c * 4;

            j->b->sum[n0 + c] += q[0] + q[1] + q[2] + q[3];
        }
    }
}

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    (void)thread;
    for (int64_t p = begin; p < end; p++)
        pack_panel(arg, p);
}

void q8_b_pack(struct q8_b *b, const struct q8_isa *isa, const void *src, int64_t rs, int64_t cs,
               uint8_t flip, struct pool *pool)
{
    struct pack_job j = { b, isa, src, rs, cs, flip };

    for (int64_t g = 0; g < q8_groups(b->k); g++)
        b->off[g] = (int32_t)(g * isa->nr * 4);
    pool_for(pool, panels(isa, b->n), MAX(4096 / (b->k + 1), (int64_t)1), pack_part, &j);
}

void q8_a_copy(uint8_t *out, const uint8_t *a, int64_t m, int64_t k, int64_t lda, uint8_t flip)
{
    int64_t width = q8_groups(k) * 4;

    for (int64_t i = 0; i < m; i++, out += width, a += lda) {
        for (int64_t j = 0; j < k; j++)
            out[j] = a[j] ^ flip;
        memset(out + k, 0, (size_t)(width - k));
    }
}

struct mul_job {
    const struct q8_product *p;
    int64_t rows, nblock; /* of a block; blocks */
};

/* Sums of rows from r on, columns from n0 on. */
static void emit(const struct q8_product *p, const int32_t *sum, int64_t pitch, int64_t r, int rows,
                 int64_t n0, int64_t cols)
{
    int64_t at = r * p->b->n + n0;
    struct q8_end e = { .kind = p->kind,
                        .as = p->out_as,
                        .b_zero = p->b_zero ? p->b_zero + n0 : NULL,
                        .row_sum = p->row_sum + r,
                        .out = (char *)p->out + at * (p->kind == Q8_BYTES ? 1 : 4),
                        .ldo = p->b->n };

    e.as.add = p->add + n0;
    e.as.scale += e.as.scale_step ? n0 : 0;
    e.as.shift += e.as.shift ? n0 : 0;
    p->isa->end(&e, rows, cols, sum, pitch);
}

/* Rows [r0, r1) of one panel. */
static void mul_rows(const struct q8_product *p, int64_t panel, int64_t r0, int64_t r1)
{
    int64_t groups = q8_groups(p->b->k), n0 = panel * p->isa->nr,
            cols = MIN((int64_t)p->isa->nr, p->b->n - n0);
    int32_t tile[MR_MAX * NR_MAX] __attribute__((aligned(64)));

    for (int64_t r = r0; r < r1; r += p->isa->mr) {
        int rows = (int)MIN((int64_t)p->isa->mr, r1 - r);

        p->isa->tile_sv(rows, (int)cols, groups, p->b->off, p->b->data + n0 * 4 * groups,
                        p->a + r * p->lda, p->lda, 4, tile);
        emit(p, tile, p->isa->nr, r, rows, n0, cols);
    }
}

static void mul_block(const struct q8_product *p, int64_t panel, int64_t r0, int64_t r1, int *state)
{
    const struct q8_block *block = p->isa->block;
    int64_t groups = q8_groups(p->b->k), n0 = panel * p->isa->nr,
            cols = MIN((int64_t)p->isa->nr, p->b->n - n0);
    int32_t tile[Q8_BLOCK_ROWS * Q8_BLOCK_COLUMNS] __attribute__((aligned(64)));

    for (int64_t r = r0; r < r1; r += block->rows) {
        int rows = (int)MIN((int64_t)block->rows, r1 - r);

        block->tile(state, rows, (int)cols, groups, p->b->data + n0 * 4 * groups, p->isa->nr * 4,
                    p->a + r * p->lda, p->lda, tile);
        emit(p, tile, Q8_BLOCK_COLUMNS, r, rows, n0, cols);
    }
}

static bool by_blocks(const struct q8_product *p)
{
    return p->isa->block && p->m >= BLOCK_LEAST && q8_groups(p->b->k) >= BLOCK_LEAST;
}

static void mul_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct mul_job *j = arg;
    const struct q8_product *p = j->p;
    bool blocks = by_blocks(p);
    int state = 0;

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t panel = item / j->nblock, r0 = item % j->nblock * j->rows,
                r1 = MIN(r0 + j->rows, p->m), n0 = panel * p->isa->nr,
                cols = MIN((int64_t)p->isa->nr, p->b->n - n0);

        if (blocks)
            mul_block(p, panel, r0, r1, &state);
        else
            mul_rows(p, panel, r0, r1);
        if (p->posts)
            posts_apply(p->posts, (float *)p->out + r0 * p->b->n + n0, p->b->n, r1 - r0, cols, r0,
                        n0, p->base);
    }
    if (blocks)
        p->isa->block->end(&state);
}

static void sum_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct q8_product *p = ((const struct mul_job *)arg)->p;

    (void)thread;
    for (int64_t i = begin; i < end; i++) /* groups are filled up with what B has zeros for */
        p->row_sum[i] = p->isa->sum(p->a + i * p->lda, p->b->k);
}

void q8_multiply(const struct q8_product *p)
{
    int64_t rows = by_blocks(p) ? ROWS_BLOCK_AMX : ROWS_BLOCK;
    struct mul_job j = { p, rows, (p->m + rows - 1) / rows };
    uint32_t za = (uint32_t)p->a_zero, k = (uint32_t)p->b->k;
    int64_t work = p->b->k * MIN(p->m, rows) * p->isa->nr / (by_blocks(p) ? 4 : 1);

    for (int64_t n = 0; n < p->b->n; n++)
        p->add[n] = (int32_t)((p->bias ? (uint32_t)p->bias[n] : 0) - za * (uint32_t)p->b->sum[n] +
                              (p->b_zero ? k * za * (uint32_t)p->b_zero[n] : 0));
    if (p->b_zero)
        pool_for(p->pool, p->m, MAX(65536 / (p->b->k + 1), (int64_t)1), sum_part, &j);
    pool_for(p->pool, panels(p->isa, p->b->n) * j.nblock, MAX(262144 / (work + 1), (int64_t)1),
             mul_part, &j);
}

struct range_job {
    const struct q8_isa *isa;
    const float *x;
    float lo[POOL_THREADS_MAX], hi[POOL_THREADS_MAX];
};

static void range_part(void *arg, int64_t begin, int64_t end, int thread)
{
    struct range_job *j = arg;

    j->isa->range(j->x + begin, end - begin, &j->lo[thread], &j->hi[thread]);
}

void q8_dynamic(const struct op *op, const float *x, int64_t n, float *scale, int32_t *zero)
{
    struct range_job j = { .isa = kernel_q8(op), .x = x }; /* 0 belongs to the range */
    float lo = 0, hi = 0;

    pool_for(kernel_pool(op), n, 32768, range_part, &j);
    for (int i = 0; i < pool_threads(kernel_pool(op)); i++) {
        lo = MIN(lo, j.lo[i]);
        hi = MAX(hi, j.hi[i]);
    }
    *scale = hi == lo ? 1 : (hi - lo) / 255;
    *zero = isfinite(*scale) && *scale > 0
                ? (int32_t)MAX(MIN(nearbyintf(0 - lo / *scale), 255.0f), 0.0f)
                : 0;
}

struct quantize_job {
    const struct q8_isa *isa;
    uint8_t *out;
    const float *in;
    float scale;
    int32_t zero, lo, hi;
};

static void quantize_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct quantize_job *j = arg;

    (void)thread;
    j->isa->quantize(j->out + begin, j->in + begin, end - begin, j->scale, j->zero, j->lo, j->hi);
}

void q8_quantize(const struct op *op, uint8_t *out, const float *in, int64_t n, float scale,
                 int32_t zero, enum tensor_type type)
{
    struct quantize_job j = { kernel_q8(op), out, in, scale, zero, q8_lo(type), q8_hi(type) };

    pool_for(kernel_pool(op), n, 16384, quantize_part, &j);
}

void q8_limits(const struct op *op, float y_scale, const struct nt *y_zero, int32_t *lo,
               int32_t *hi, int32_t *zero)
{
    enum tensor_type t = kernel_out(op, 0)->type;

    *lo = q8_lo(t);
    *hi = q8_hi(t);
    *zero = q8_zero(y_zero, 0);
    for (int i = 0; i < op->npost; i++) {
        const struct post *p = &op->post[i];

        if (p->kind != POST_UNARY)
            continue;

        float least = p->unary == U_RELU ? 0 : p->alpha,
              most = p->unary == U_RELU ? INFINITY : p->beta;

        *lo = (int32_t)fminf(fmaxf(nearbyintf(least / y_scale) + (float)*zero, (float)*lo),
                             (float)*hi);
        *hi = (int32_t)fmaxf(fminf(nearbyintf(most / y_scale) + (float)*zero, (float)*hi),
                             (float)*lo);
    }
}

void q8_pair_scales(struct q8_pair *p, float a, float b, float y, int32_t zero)
{
    if (p->product) {
        p->a_scale = a * b / y;
        p->offset = (float)zero;
        return;
    }
    p->a_scale = a / y;
    p->b_scale = b / y;
    p->offset = (float)zero - (p->a_scale * (float)p->a_zero + p->b_scale * (float)p->b_zero);
}
