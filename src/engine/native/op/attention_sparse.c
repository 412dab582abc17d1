/* attention_sparse.c -- com.microsoft's SparseAttention: tokens look at blocks of those before
 * them.
 *
 * Which blocks of keys a block of queries sees is the same for every layout-th head, and given as
 * block_row_indices (where a row of blocks begins) and block_col_indices (blocks, ascending). Only
 * these are multiplied: the scores of a row lie one behind the other, block after block, and so
 * causality, too, only cuts their end. */
#include "engine/native/isa/loops_isa.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/attention.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

enum { SP_PAST = 3, SP_ROWS = 5, SP_COLUMNS, SP_TOTAL, SP_LENGTHS, SP_COS, SP_SIN };

#define FEW_ROWS 4 /* of queries: keys are read where they lie */

struct sparse_attention {
    struct attention a;
    int64_t layouts, rows, columns; /* of the two tables */
    int64_t block;
    /* Floats of scratch of each thread: packed keys and values, scores or pointers to rows. */
    int64_t keys, values, scores, ld;
    int64_t panels; /* of a packed block of keys */
};

static int sparse_types(const struct op *op, opm_error *err)
{
    int rc = attention_want_f32(op, 0, err);

    for (uint32_t i = 1; i <= SP_PAST + 1 && !rc; i++)
        if (i >= SP_PAST || kernel_in(op, i))
            rc = attention_want_f32(op, i, err);
    for (uint32_t i = SP_ROWS; i <= SP_LENGTHS && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_I32), err);
    return rc;
}

static bool sparse_fits(const struct op *op, struct sparse_attention *s)
{
    struct attention *a = &s->a;
    const struct shape *past = &kernel_in(op, SP_PAST)->shape,
                       *rows = &kernel_in(op, SP_ROWS)->shape,
                       *columns = &kernel_in(op, SP_COLUMNS)->shape;

    s->block = node_attr_int(op->node, "sparse_block_size", 0);
    if (!attention_group_geometry(op, a) || a->width != a->v_width || past->rank != 4 ||
        !shape_equal(past, &kernel_in(op, SP_PAST + 1)->shape) || past->dim[0] != a->batch ||
        past->dim[1] != a->kv_heads || past->dim[3] != a->width || s->block < 1 ||
        s->block > 65536 || rows->rank != 2 || columns->rank != 2 || rows->dim[0] < 1 ||
        rows->dim[1] < 2 || columns->dim[0] != rows->dim[0] || a->heads % rows->dim[0] ||
        kernel_in(op, SP_TOTAL)->count != 1 || kernel_in(op, SP_LENGTHS)->count != a->batch)
        return false;
    s->layouts = rows->dim[0];
    s->rows = rows->dim[1] - 1;
    s->columns = columns->dim[1];
    a->past = a->total = past->dim[2];
    return true;
}

/* What each thread works in. */
static int sparse_room(const struct op *op, struct sparse_attention *s, size_t *bytes,
                       opm_error *err)
{
    const struct isa *isa = kernel_isa(op);
    int64_t blocks = (s->a.total + s->block - 1) / s->block, all;

    s->panels = gemm_panels(s->block, isa->nr);
    s->ld = (blocks * s->block + isa->nr + 16) / 16 * 16;
    s->keys = gemm_size_b(isa, s->a.width, blocks * s->panels * isa->nr);
    s->values = gemm_size_b(isa, MAX(s->a.total, (int64_t)1), s->a.width);
    s->scores = s->ld * MAX(isa->mr, 3);
    if (s->keys < 0 || s->values < 0 || s->a.total > INT32_MAX / 64 ||
        __builtin_mul_overflow(s->keys + s->values + s->scores + 64,
                               (int64_t)pool_threads(kernel_pool(op)), &all) ||
        all > PTRDIFF_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    s->keys = (s->keys + 15) / 16 * 16;
    s->values = (s->values + 15) / 16 * 16;
    if (s->a.q_len <= FEW_ROWS)
        s->keys = s->values = 0;
    *bytes =
        (size_t)((s->keys + s->values + s->scores) * pool_threads(kernel_pool(op))) * sizeof(float);
    return 0;
}

int sparseattention_prepare(struct op *op, opm_error *err)
{
    struct sparse_attention *s = kernel_new_state(op, sizeof(*s));
    bool turn = node_attr_int(op->node, "do_rotary", 0) != 0;
    struct attention *a;
    size_t bytes = 0;
    int rc = s ? sparse_types(op, err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    a = &s->a;
    *a = ATTENTION_NONE;
    if (!sparse_fits(op, s))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (turn && !attention_turns(a, kernel_in(op, SP_COS), kernel_in(op, SP_SIN)))
        return kernel_fail(op, OPM_EINVAL, err, "cosines do not fit");
    a->present[0] = kernel_out(op, 1) != NULL;
    a->present[1] = kernel_out(op, 2) != NULL;
    a->copy_kv = true;
    a->copy_q = turn;
    a->scale = node_attr_float(op->node, "scale", 0);
    if (a->scale == 0)
        a->scale = 1 / sqrtf((float)a->width);
    /* In front: lengths less one, then how many are past, of each batch item. */
    a->own_bytes = (size_t)a->batch * 2 * sizeof(int32_t);
    rc = kernel_infer(op, err);
    if (!rc)
        rc = attention_plan(op, a, err);
    if (!rc)
        rc = sparse_room(op, s, &bytes, err);
    if (!rc) /* instead of what plain attention works in */
        op->scratch_bytes = a->at_core + bytes;
    return rc;
}

/* -- a call -- */

struct sparse_job {
    const struct op *op;
    const struct sparse_attention *s;
    const int32_t *row, *column, *length, *past;
    struct rows q, k, v, out;
    char *scratch;
    int64_t blocks; /* of queries in a head, at most */
};

/* Blocks that a block of queries of a head sees: [*first, result) of the columns. */
static int64_t seen(const struct sparse_job *j, int64_t head, int64_t block, int64_t *first)
{
    int64_t layout = head % j->s->layouts;
    const int32_t *row = j->row + layout * (j->s->rows + 1);

    *first = layout * j->s->columns + row[block];
    return layout * j->s->columns + row[block + 1];
}

/* Keys of block b that row `position` and those before it see. */
static int64_t visible(const struct sparse_attention *s, int64_t block, int64_t position,
                       int64_t length)
{
    int64_t n = MIN(position + 1, length) - block * s->block;

    return MIN(MAX(n, (int64_t)0), s->block);
}

static void pack_keys(const struct sparse_job *j, int64_t b, int64_t h, float *kp, float *vp)
{
    const struct sparse_attention *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    int64_t d = s->a.width, n = j->length[b];
    const float *k = j->k.base + b * j->k.batch + h * j->k.head;

    for (int64_t at = 0; at < n; at += s->block) {
        int64_t len = MIN(s->block, n - at);

        gemm_pack_b(isa, kp + at / s->block * s->panels * isa->nr * d, k + at * j->k.step, d, len,
                    1, j->k.step, 0, gemm_panels(len, isa->nr));
    }
    gemm_pack_b(isa, vp, j->v.base + b * j->v.batch + h * j->v.head, n, d, j->v.step, 1, 0,
                gemm_panels(d, isa->nr));
}

/* Weights of a row of n scores, and their sum's inverse. */
static float weights(const struct sparse_job *j, float *x, int64_t n)
{
    return n ? 1 / kernel_isa(j->op)->softexp(x, n, j->s->a.scale, NULL) : 0;
}

/* Rows [r0, r1) of a head, at most a tile, all in one block. */
static void sparse_panel(const struct sparse_job *j, int64_t b, int64_t h, int64_t r0, int64_t r1,
                         const float *kp, const float *vp, float *score)
{
    const struct sparse_attention *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    int64_t past = j->past[b], length = j->length[b], d = s->a.width, first,
            own = (past + r0) / s->block, last = seen(j, h, own, &first), n, total = 0;
    float *out =
        (float *)(uintptr_t)j->out.base + b * j->out.batch + h * j->out.head + r0 * j->out.step;
    struct isa_tile t = { .m = (int)(r1 - r0),
                          .k = d,
                          .a = j->q.base + b * j->q.batch + h * j->q.head + r0 * j->q.step,
                          .ars = j->q.step,
                          .aks = 1,
                          .brs = isa->nr,
                          .ldc = s->ld };
    float inv[16];

    for (int64_t i = first; i < last; i++, total += n) {
        n = visible(s, j->column[i], past + r1 - 1, length);
        for (int64_t p = 0; p * isa->nr < n; p++) {
            t.n = (int)MIN((int64_t)isa->nr, n - p * isa->nr);
            t.b = kp + (j->column[i] * s->panels + p) * isa->nr * d;
            t.c = score + total + p * isa->nr;
            isa->tile(&t);
        }
    }
    for (int64_t r = r0; r < r1; r++) {
        float *x = score + (r - r0) * s->ld;

        n = 0;
        for (int64_t i = first; i < last; i++)
            n += visible(s, j->column[i], past + r, length);
        inv[r - r0] = weights(j, x, n);
        memset(x + n, 0, (size_t)(total - n) * sizeof(*x));
    }
    t.ars = s->ld;
    t.ldc = j->out.step;
    t.irs = t.ldc;
    for (int64_t p = 0; p * isa->nr < d; p++) {
        t.n = (int)MIN((int64_t)isa->nr, d - p * isa->nr);
        t.c = out + p * isa->nr;
        t.init = NULL;
        t.a = score;
        for (int64_t i = first, next; i < last; i = next) { /* neighbouring blocks at once */
            t.k = 0;
            for (next = i; next < last && j->column[next] == j->column[i] + next - i; next++)
                t.k += visible(s, j->column[next], past + r1 - 1, length);
            t.b = vp + p * isa->nr * length + j->column[i] * s->block * isa->nr;
            if (t.k)
                isa->tile(&t);
            t.a += t.k;
            t.init = t.k ? t.c : t.init;
        }
    }
    for (int64_t r = 0; r < r1 - r0; r++)
        if (total)
            isa->unary(U_AFFINE, out + r * j->out.step, out + r * j->out.step, d, inv[r], 0);
        else
            memset(out + r * j->out.step, 0, (size_t)d * sizeof(*out));
}

/* One row: keys and values where they lie. */
static void sparse_row(const struct sparse_job *j, int64_t b, int64_t h, int64_t r, float *score)
{
    const struct sparse_attention *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    int64_t past = j->past[b], group = s->a.heads / s->a.kv_heads, d = s->a.width, first,
            last = seen(j, h, (past + r) / s->block, &first), n = 0;
    const float *q = j->q.base + b * j->q.batch + h * j->q.head + r * j->q.step,
                *k = j->k.base + b * j->k.batch + h / group * j->k.head,
                *v = j->v.base + b * j->v.batch + h / group * j->v.head;
    const float **row = (const float **)(void *)(score + s->ld);
    float *out =
        (float *)(uintptr_t)j->out.base + b * j->out.batch + h * j->out.head + r * j->out.step;

    for (int64_t i = first; i < last; i++) {
        int64_t from = j->column[i] * s->block,
                to = from + visible(s, j->column[i], past + r, j->length[b]);

        for (; from < to; from++, n++) {
            score[n] = isa->dot(q, k + from * j->k.step, d);
            row[n] = v + from * j->v.step;
        }
    }
    if (!n) {
        memset(out, 0, (size_t)d * sizeof(*out));
        return;
    }
    isa->unary(U_AFFINE, score, score, n, s->a.scale, 0);
    isa->softmax(score, score, n);
    isa->loops->mix(out, row, score, (int)n, d);
}

/* Items: blocks of queries, head after head. */
static void sparse_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct sparse_job *j = arg;
    const struct sparse_attention *s = j->s;
    const struct isa *isa = kernel_isa(j->op);
    int64_t group = s->a.heads / s->a.kv_heads, packed = -1;
    float *kp = (float *)(void *)(j->scratch + s->a.at_core) +
                thread * (s->keys + s->values + s->scores),
          *vp = kp + s->keys, *score = vp + s->values;

    for (int64_t item = begin; item < end; item++) {
        int64_t head = item / j->blocks, b = head / s->a.heads, h = head % s->a.heads,
                block = j->past[b] / s->block + item % j->blocks,
                r0 = MAX(block * s->block - j->past[b], (int64_t)0),
                end_row = MIN((block + 1) * s->block - j->past[b], s->a.q_len);

        for (int64_t r = r0; r < end_row && block >= s->rows; r++) /* beyond the tables */
            memset((float *)(uintptr_t)j->out.base + b * j->out.batch + h * j->out.head +
                       r * j->out.step,
                   0, (size_t)s->a.width * sizeof(float));
        if (r0 >= end_row || block >= s->rows)
            continue;
        if (s->a.q_len > FEW_ROWS && head / group != packed) {
            pack_keys(j, b, h / group, kp, vp);
            packed = head / group;
        }
        for (int64_t r = r0; r < end_row && s->a.q_len <= FEW_ROWS; r++)
            sparse_row(j, b, h, r, score);
        for (int64_t r = r0; r < end_row && s->a.q_len > FEW_ROWS; r += isa->mr)
            sparse_panel(j, b, h, r, MIN(r + isa->mr, end_row), kp, vp, score);
    }
}

/* The tables are what the loops rely on. */
static int check_tables(const struct op *op, const struct sparse_attention *s, opm_error *err)
{
    const int32_t *row = kernel_in(op, SP_ROWS)->data, *column = kernel_in(op, SP_COLUMNS)->data;

    for (int64_t l = 0; l < s->layouts; l++, row += s->rows + 1, column += s->columns)
        for (int64_t r = 0; r < s->rows; r++) {
            if (row[r] < 0 || row[r + 1] < row[r] || row[r + 1] > s->columns)
                return kernel_fail(op, OPM_EINVAL, err, "block_row_indices do not fit");
            for (int32_t i = row[r]; i < row[r + 1]; i++)
                if (column[i] < 0 || column[i] >= s->rows ||
                    (i > row[r] && column[i] <= column[i - 1]))
                    return kernel_fail(op, OPM_EINVAL, err,
                                       "block_col_indices are no blocks that ascend");
        }
    return 0;
}

int sparseattention_run(struct op *op, opm_error *err)
{
    const struct sparse_attention *s = op->state;
    const struct attention *a = &s->a;
    const struct nt *lengths = kernel_in(op, SP_LENGTHS), *cos = kernel_in(op, SP_COS);
    int64_t longest = nt_int(kernel_in(op, SP_TOTAL), 0);
    int32_t *less = op->scratch, *past = less + a->batch;
    struct nt seq = { .type = TENSOR_I32, .count = a->batch, .data = less };
    struct attention_call c = { .seq = &seq };
    struct sparse_job j = { .op = op, .s = s, .scratch = op->scratch };
    int rc = check_tables(op, s, err);

    if (rc)
        return rc;
    if (longest < 0 || longest > MIN(a->total, s->rows * s->block))
        return kernel_fail(op, OPM_EINVAL, err, "%lld keys, there is room for %lld",
                           (long long)longest, (long long)MIN(a->total, s->rows * s->block));
    for (int64_t b = 0; b < a->batch; b++) {
        int64_t n = nt_int(lengths, b);

        if (n < 0 || n > longest)
            return kernel_fail(op, OPM_EINVAL, err, "length %lld is out of range", (long long)n);
        less[b] = (int32_t)n - 1;
        past[b] = longest == a->q_len ? 0 : (int32_t)MAX(n - a->q_len, (int64_t)0);
    }
    attention_group_rows(op, a, &c);
    c.past_k = kernel_in(op, SP_PAST)->data;
    c.past_v = kernel_in(op, SP_PAST + 1)->data;
    c.present_k = kernel_out(op, 1) ? kernel_out(op, 1)->data : NULL;
    c.present_v = kernel_out(op, 2) ? kernel_out(op, 2)->data : NULL;
    if (a->copy_q) {
        c.cos = cos->data;
        c.sin = kernel_in(op, SP_SIN)->data;
        c.half = cos->shape.dim[1];
        c.positions = cos->shape.dim[0];
        c.mixed = node_attr_int(op->node, "rotary_interleaved", 0) != 0;
    }
    rc = attention_bring(op, a, &c, &j.q, &j.k, &j.v, err);
    if (rc || !kernel_out(op, 0)->count)
        return rc;
    j.row = kernel_in(op, SP_ROWS)->data;
    j.column = kernel_in(op, SP_COLUMNS)->data;
    j.length = lengths->data;
    j.past = past;
    j.out = attention_rows(kernel_out(op, 0), a->heads);
    j.blocks = (a->q_len - 1) / s->block + 2;
    pool_for(kernel_pool(op), a->batch * a->heads * j.blocks,
             pool_grain((double)(MIN(s->block, a->q_len) * longest * a->width) / 20), sparse_part,
             &j);
    return 0;
}
