/* nbits.c -- com.microsoft's MatMulNBits: a product by weights of 2, 4 or 8 bits, each block of k
 * with a scale and a zero point. Inputs: A, B [N, blocks, bytes], scales [N, blocks], zero points
 * (packed like B, or of A's type), which block each k belongs to, bias. Likewise MatMul and Gemm by
 * a constant that DequantizeLinear makes of 4 or 8 bits in blocks of k: B, scales and zero points
 * are then what that reads.
 *
 * The weights are put in the order that nbits_isa.h wants; where k are not in the order of their
 * blocks they are brought into it, and so are A's columns. */
#include "engine/native/isa/nbits_isa.h"
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/families.h"
#include "engine/native/op/kernels.h"

#include <string.h>

#define TYPES_BLOCKS \
    (TYPE_BIT(TENSOR_I4) | TYPE_BIT(TENSOR_U4) | TYPE_BIT(TENSOR_I8) | TYPE_BIT(TENSOR_U8))

enum { NB_A, NB_B, NB_SCALE, NB_ZERO, NB_GROUP, NB_BIAS };

/* What A's digits of one part of the rows take: half of a second-level cache. */
#define PART_BYTES (512 << 10)
/* More rows than this are multiplied by the weights as floats, unless they are of 8 bits. */
#define FEW_ROWS 12
/* Products of a weight and a digit, in one thread. */
#define MACS_PER_NS 60.0

struct nbits {
    int bits, digits;
    bool linear; /* DequantizeLinear's operands */
    bool turned; /* and they have columns first */
    int64_t k, n, rows;
    int64_t block, blocks; /* numbers in a block, blocks of a column in the file */
    int64_t groups;        /* of columns */
    int64_t room;          /* numbers of k, blocks filled up to whole words */
    int64_t words;         /* of a column */
    int32_t *in_block;     /* words in each block */
    int32_t *order;        /* which k is at each place, -1: none; NULL: in order */
    uint8_t *w;
    float *scale, *zero_f;
    uint8_t *zero;
    int32_t zero_all;
    bool packed;
    int64_t part; /* rows whose digits are made at a time */
    /* Digits of rows take `area` bytes: numbers, then at these places what there is one of for
     * each block. In scratch, one area, for one row one for each thread; at at_line floats. */
    size_t at_scale, at_sum, at_whole, area, at_line;
};

static void nbits_release(void *state)
{
    struct nbits *s = state;

    mem_free(s->in_block);
    mem_free(s->order);
    native_free(s->w);
    native_free(s->scale);
    native_free(s->zero);
    native_free(s->zero_f);
}

static int64_t per_word(const struct nbits *s)
{
    return 32 / s->bits;
}

static const void *data_of(const struct op *op, uint32_t slot)
{
    const struct tensor *t = slot == NB_B ? kernel_const(op, slot) : NULL;

    return t ? t->data : kernel_in(op, slot)->data;
}

/* -- the order of k -- */

/* Blocks of the file, one after the other. */
static void plain_blocks(struct nbits *s)
{
    s->words = 0;
    for (int64_t b = 0; b < s->blocks; b++) {
        s->in_block[b] = (int32_t)((s->block + per_word(s) - 1) / per_word(s));
        s->words += s->in_block[b];
    }
}

/* k sorted by the block that each belongs to. */
static int sort_blocks(struct op *op, struct nbits *s, opm_error *err)
{
    const struct nt *of = kernel_in(op, NB_GROUP);
    int64_t at = 0;

    mem_free(s->order);
    s->order = mem_calloc((size_t)(s->k + s->blocks * per_word(s)), sizeof(*s->order));
    if (!s->order)
        return kernel_nomem(op, err);
    s->words = 0;
    for (int64_t b = 0; b < s->blocks; b++) {
        int64_t begin = at;

        for (int64_t k = 0; k < s->k; k++)
            if (nt_int(of, k) == b)
                s->order[at++] = (int32_t)k;
        while (at % per_word(s))
            s->order[at++] = -1;
        s->in_block[b] = (int32_t)((at - begin) / per_word(s));
        s->words += s->in_block[b];
    }
    return 0;
}

static int find_order(struct op *op, struct nbits *s, opm_error *err)
{
    const struct nt *of = kernel_in(op, NB_GROUP);
    bool sorted = true;
    int rc;

    mem_free(s->in_block);
    s->in_block = mem_calloc((size_t)s->blocks + 1, sizeof(*s->in_block));
    if (!s->in_block)
        return kernel_nomem(op, err);
    if (!of) {
        plain_blocks(s);
    } else {
        rc = kernel_want(op, NB_GROUP, TYPE_BIT(TENSOR_I32), err);
        if (rc)
            return rc;
        if (of->count < s->k)
            return kernel_fail(op, OPM_EINVAL, err, "g_idx does not fit");
        if (!kernel_data(op, NB_GROUP))
            return NEED_DATA;
        for (int64_t k = 0; k < s->k; k++) {
            int64_t b = nt_int(of, k);

            if (b < 0 || b >= s->blocks)
                return kernel_fail(op, OPM_EINVAL, err, "g_idx %lld is out of range", (long long)b);
            sorted = sorted && b == k / s->block;
        }
        if (sorted) {
            plain_blocks(s);
        } else {
            rc = sort_blocks(op, s, err);
            if (rc)
                return rc;
        }
    }
    s->room = s->words * per_word(s);
    return 0;
}

/* -- weights in our order -- */

/* Number k of a column whose numbers begin at p. */
static uint32_t number(const uint8_t *p, int64_t k, int bits)
{
    return p[k * bits / 8] >> (k * bits % 8) & ((1u << bits) - 1);
}

/* Four numbers in each byte's low bits, from those that lie side by side in 4 * bits. */
static uint32_t spread(uint32_t x, int bits)
{
    if (bits == 4) {
        x = (x | x << 8) & 0x00ff00ff;
        return (x | x << 4) & 0x0f0f0f0f;
    }
    x = (x | x << 12) & 0x000f000f;
    return (x | x << 6) & 0x03030303;
}

/* Where DequantizeLinear has element (i of n along k, column). */
static int64_t linear_at(const struct nbits *s, int64_t i, int64_t n, int64_t column)
{
    return s->turned ? column * n + i : i * s->n + column;
}

/* As unsigned. */
static uint32_t linear_number(const struct nbits *s, const struct tensor *t, int64_t at)
{
    int64_t x = tensor_int(t, at);

    return (uint32_t)(t->type == TENSOR_I4 || t->type == TENSOR_I8 ? x + (1 << (s->bits - 1)) : x);
}

static uint32_t linear_word(const struct nbits *s, const struct tensor *b, int64_t column,
                            int64_t word)
{
    int64_t each = s->in_block[0], k0 = word / each * s->block, in = word % each * per_word(s);
    uint32_t out = 0;

    for (int i = 0; i < per_word(s) && in + i < s->block && k0 + in + i < s->k; i++)
        out |= linear_number(s, b, linear_at(s, k0 + in + i, s->k, column))
               << (i / 4 * s->bits + i % 4 * 8);
    return out;
}

static uint32_t word_of(const struct nbits *s, const uint8_t *column, int64_t word)
{
    uint32_t out = 0, x;

    if (!s->order) {
        memcpy(&x, column + word * 4, sizeof(x));
        if (s->bits == 8)
            return x;
        for (int i = 0; i < 8 / s->bits; i++)
            out |= spread(x >> (4 * s->bits * i) & ((1u << 4 * s->bits) - 1), s->bits)
                   << (s->bits * i);
        return out;
    }
    for (int i = 0; i < 32 / s->bits; i++) {
        int32_t k = s->order[word * per_word(s) + i];

        if (k >= 0)
            out |= number(column, k, s->bits) << (i / 4 * s->bits + i % 4 * 8);
    }
    return out;
}

static float zero_at(const struct op *op, const struct nbits *s, int64_t column, int64_t b_of)
{
    const struct nt *z = kernel_in(op, NB_ZERO);

    if (s->linear) {
        const struct tensor *b = kernel_const(op, NB_B), *t = kernel_const(op, NB_ZERO);

        return t ? (float)linear_number(s, t, linear_at(s, b_of, s->blocks, column))
                 : (float)(b->type == TENSOR_I4 || b->type == TENSOR_I8 ? 1 << (s->bits - 1) : 0);
    }
    if (!z)
        return (float)(1 << (s->bits - 1));
    if (z->type != TENSOR_U8)
        return ((const float *)z->data)[column * s->blocks + b_of];
    return (float)number((const uint8_t *)z->data + column * ((s->blocks * s->bits + 7) / 8), b_of,
                         s->bits);
}

struct pack_job {
    const struct op *op;
    struct nbits *s;
};

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct pack_job *j = arg;
    struct nbits *s = j->s;
    const struct tensor *b = kernel_const(j->op, NB_B);
    const uint8_t *from = data_of(j->op, NB_B);
    const float *scale = kernel_in(j->op, NB_SCALE)->data;
    int64_t lanes = kernel_isa(j->op)->nbits->lanes, row = s->blocks * s->block * s->bits / 8;

    (void)thread;
    for (int64_t g = begin; g < end; g++)
        for (int64_t l = 0; l < lanes; l++) {
            int64_t column = g * lanes + l;

            for (int64_t i = 0; i < s->words; i++) {
                uint32_t x = column >= s->n ? 0
                             : s->linear    ? linear_word(s, b, column, i)
                                            : word_of(s, from + column * row, i);

                memcpy(s->w + (nbits_group_at(g, s->words, lanes) + i * 2 * lanes + l) * 4, &x,
                       sizeof(x));
            }
            for (int64_t k = 0; k < s->blocks; k++) {
                int64_t at = nbits_group_at(g, s->blocks, lanes) + k * 2 * lanes + l,
                        of =
                            s->linear ? linear_at(s, k, s->blocks, column) : column * s->blocks + k;
                float zero = column < s->n ? zero_at(j->op, s, column, k) : 0;

                s->scale[at] = column < s->n ? scale[of] : 0;
                if (s->zero)
                    s->zero[at] = (uint8_t)zero;
                if (s->zero_f)
                    s->zero_f[at] = zero;
            }
        }
}

/* One number for all of them, if it is whole. */
static bool find_zero(const struct op *op, struct nbits *s)
{
    const struct nt *z = kernel_in(op, NB_ZERO);
    float first = zero_at(op, s, 0, 0);

    s->zero_all = first >= 0 && first < 256 ? (int32_t)first : 0;
    if (!z)
        return first == (float)s->zero_all;
    for (int64_t i = 0; i < s->n; i++)
        for (int64_t b = 0; b < s->blocks; b++)
            if (zero_at(op, s, i, b) != first)
                return false;
    return first == (float)s->zero_all;
}

static int pack(struct op *op, struct nbits *s, opm_error *err)
{
    int64_t lanes = kernel_isa(op)->nbits->lanes;
    int64_t groups = (s->groups + 1) / 2 * 2;
    size_t scales = (size_t)(groups * s->blocks * lanes),
           bytes = (size_t)(groups * s->words * lanes) * 4;
    const struct tensor *b = kernel_const(op, NB_B);
    const struct nt *z = kernel_in(op, NB_ZERO);
    struct pack_job j = { op, s };
    bool same = find_zero(op, s);

    if (!s->w)
        s->w = native_alloc_weights(MAX(bytes, (size_t)1));
    if (!s->scale)
        s->scale = native_alloc_weights(MAX(scales, (size_t)1) * sizeof(float));
    native_free(s->zero);
    native_free(s->zero_f);
    s->zero = NULL;
    s->zero_f = NULL;
    if (!same && (s->linear || z->type == TENSOR_U8))
        s->zero = native_alloc_weights(MAX(scales, (size_t)1));
    else if (!same)
        s->zero_f = native_alloc_weights(MAX(scales, (size_t)1) * sizeof(float));
    if (!s->w || !s->scale || (!same && !s->zero && !s->zero_f))
        return kernel_nomem(op, err);
    op->packed_bytes = bytes + scales * (sizeof(float) + (s->zero     ? 1
                                                          : s->zero_f ? sizeof(float)
                                                                      : 0));
    pool_for(kernel_pool(op), groups, 1, pack_part, &j);
    if (b)
        model_forget(op->plan->engine->model, b->data, b->bytes);
    return 0;
}

/* -- prepare -- */

static bool operands_fit(const struct op *op, const struct nbits *s)
{
    const struct nt *a = kernel_in(op, NB_A), *b = kernel_in(op, NB_B),
                    *scale = kernel_in(op, NB_SCALE), *zero = kernel_in(op, NB_ZERO),
                    *bias = kernel_in(op, NB_BIAS);
    int64_t scales, bits;

    if (s->k < 1 || s->n < 1 || s->k > INT32_MAX || s->n > INT32_MAX || a->shape.rank < 1 ||
        a->shape.dim[a->shape.rank - 1] != s->k ||
        __builtin_mul_overflow(s->n, s->blocks, &scales) ||
        __builtin_mul_overflow(scales, s->block * s->bits, &bits) || b->bytes != (size_t)bits / 8 ||
        scale->type != TENSOR_F32 || scale->count != scales)
        return false;
    if (bias && (bias->type != TENSOR_F32 || bias->count != s->n))
        return false;
    return !zero || (zero->type == TENSOR_F32 && zero->count == scales) ||
           (zero->type == TENSOR_U8 && zero->count == s->n * ((s->blocks * s->bits + 7) / 8));
}

/* What a rewriting has looked at already. */
static int prepare_linear(struct op *op, struct nbits *s, opm_error *err)
{
    const struct nt *b = kernel_in(op, NB_B);
    struct shape out = kernel_in(op, NB_A)->shape;

    s->linear = true;
    s->turned = (node_attr_int(op->node, "transB", 0) != 0) != op->turned_b;
    s->bits = b->type == TENSOR_I4 || b->type == TENSOR_U4 ? 4 : 8;
    s->digits = NBITS_DIGITS;
    s->k = b->shape.dim[s->turned];
    s->n = b->shape.dim[!s->turned];
    s->blocks = kernel_in(op, NB_SCALE)->shape.dim[s->turned];
    if (s->k < 1 || s->n < 1 || s->blocks < 1 || out.rank < 1 || out.dim[out.rank - 1] != s->k)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    s->block = op->block_size;
    out.dim[out.rank - 1] = s->n;
    return kernel_set(op, 0, TENSOR_F32, &out, err);
}

/* Attributes say what the operands are. */
static int prepare_node(struct op *op, struct nbits *s, opm_error *err)
{
    s->bits = (int)MIN(MAX(node_attr_int(op->node, "bits", 4), (int64_t)0), (int64_t)99);
    s->k = node_attr_int(op->node, "K", 0);
    s->n = node_attr_int(op->node, "N", 0);
    s->block = node_attr_int(op->node, "block_size", 0);
    s->digits = node_attr_int(op->node, "accuracy_level", 0) == 4 ? 1 : NBITS_DIGITS;
    if ((s->bits != 2 && s->bits != 4 && s->bits != 8) || s->block < 16 || s->block > 65536 ||
        (s->block & (s->block - 1)) || node_attr_int(op->node, "weight_prepacked", 0))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for %d bits in blocks of %lld",
                           s->bits, (long long)s->block);
    s->blocks = s->k > 0 ? (s->k + s->block - 1) / s->block : 0;
    if (!operands_fit(op, s))
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    return kernel_infer(op, err);
}

static bool as_floats(const struct nbits *s)
{
    return s->digits > 1 && s->rows > FEW_ROWS;
}

static int plan_scratch(struct op *op, struct nbits *s, opm_error *err)
{
    size_t digits, scales, sums;

    if (as_floats(s)) {
        op->scratch_bytes = (size_t)pool_threads(kernel_pool(op)) *
                            (size_t)gemm_wide(kernel_isa(op), s->k) * sizeof(float);
        return 0;
    }
    s->part =
        MAX(PART_BYTES / (s->room * s->digits) / NBITS_ROWS * NBITS_ROWS, (int64_t)NBITS_ROWS);
    s->part = MIN(s->part, MAX(s->rows, (int64_t)1));
    digits = (size_t)(s->part * s->room * s->digits);
    scales = (size_t)(s->part * s->blocks) * sizeof(float);
    sums = (size_t)(s->part * s->blocks) * NBITS_DIGITS * sizeof(int32_t);
    if (s->part > PTRDIFF_MAX / 64 / (s->room * NBITS_DIGITS))
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    s->at_scale = (digits + 2 * NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
    s->at_sum = s->at_scale + (scales + NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
    s->at_whole = s->at_sum + (sums + NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
    s->area = s->at_whole + (scales + NATIVE_ALIGN) / NATIVE_ALIGN * NATIVE_ALIGN;
    s->at_line = s->area * (s->rows == 1 ? (size_t)pool_threads(kernel_pool(op)) : 1);
    op->scratch_bytes =
        s->at_line +
        (s->order ? (size_t)pool_threads(kernel_pool(op)) * (size_t)s->room * sizeof(float) : 0);
    return 0;
}

int nbits_prepare(struct op *op, opm_error *err)
{
    struct nbits *s = kernel_new_state(op, sizeof(*s));
    bool fixed = true;
    int rc = s ? kernel_want(op, NB_A, TYPE_BIT(TENSOR_F32), err) : kernel_nomem(op, err);

    if (!rc)
        rc = kernel_want(op, NB_B,
                         op->kernel->arg == NBITS_LINEAR
                             ? TYPES_BLOCKS
                             : TYPE_BIT(TENSOR_U8) | TYPE_BIT(TENSOR_I32),
                         err);
    if (!rc)
        rc = kernel_want(op, NB_SCALE, TYPE_BIT(TENSOR_F32), err);
    if (rc)
        return rc;
    op->release = nbits_release;
    rc = (op->kernel->arg == NBITS_LINEAR ? prepare_linear : prepare_node)(op, s, err);
    if (rc)
        return rc;
    s->groups = (s->n + kernel_isa(op)->nbits->lanes - 1) / kernel_isa(op)->nbits->lanes;
    s->rows = kernel_in(op, NB_A)->count / s->k;
    for (uint32_t i = NB_B; i <= NB_GROUP; i++)
        fixed = fixed && (!kernel_in(op, i) || kernel_fixed(op, i));
    if (!s->packed) {
        rc = find_order(op, s, err);
        if (!rc && fixed &&
            (!kernel_data(op, NB_SCALE) ||
             (!s->linear && kernel_in(op, NB_ZERO) && !kernel_data(op, NB_ZERO))))
            rc = kernel_nomem(op, err);
        if (!rc && fixed)
            rc = pack(op, s, err);
        if (rc)
            return rc;
        s->packed = fixed;
    }
    op->algorithm = s->digits == 1 ? "8-bit rows" : NULL;
    return plan_scratch(op, s, err);
}

/* -- run -- */

struct run_job {
    const struct op *op;
    const struct nbits *s;
    int64_t row, rows;
    /* Threads that have the digits of a single row: they make them each for itself, as it takes
     * longer to write what another core has read, and to read that there again. */
    bool *made;
    struct gemm g; /* of many rows */
    struct gemm_grid grid;
};

/* A row as digits in an area. */
static void make_digits(const struct run_job *j, char *area, int64_t r, int thread)
{
    const struct nbits *s = j->s;
    const struct nbits_isa *isa = kernel_isa(j->op)->nbits;
    float *line = (float *)(void *)((char *)j->op->scratch + s->at_line) + thread * s->room;
    float *scale = (float *)(void *)(area + s->at_scale) + r * s->blocks;
    int32_t *sum = (int32_t *)(void *)(area + s->at_sum) + r * s->blocks * NBITS_DIGITS;
    float *whole = (float *)(void *)(area + s->at_whole) + r * s->blocks;
    const float *x = (const float *)kernel_in(j->op, NB_A)->data + (j->row + r) * s->k;
    int8_t *out = (int8_t *)area + r * s->room * s->digits;
    int64_t left = s->k;

    for (int64_t i = 0; s->order && i < s->room; i++)
        line[i] = s->order[i] >= 0 ? x[s->order[i]] : 0;
    if (s->order) {
        x = line;
        left = s->room;
    }
    for (int64_t b = 0; b < s->blocks; b++, sum += NBITS_DIGITS) {
        int64_t room = s->in_block[b] * per_word(s), n = MIN(s->order ? room : s->block, left);

        isa->digits(s->digits, out, s->room, x, n, room, scale + b, sum);
        whole[b] = nbits_whole(s->digits, sum);
        for (int d = 0; !s->zero && !s->zero_f && d < s->digits; d++)
            sum[d] *= -s->zero_all;
        x += n;
        left -= n;
        out += room;
    }
}

static void digits_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct run_job *j = arg;

    for (int64_t r = begin; r < end; r++)
        make_digits(j, j->op->scratch, r, thread);
}

/* Weights of a group of columns. */
static struct nbits_tile tile_of(const struct run_job *j, int64_t g)
{
    const struct nbits *s = j->s;
    const struct nbits_isa *isa = kernel_isa(j->op)->nbits;
    const struct nt *bias = kernel_in(j->op, NB_BIAS);
    int64_t column = g * isa->lanes, scales = nbits_group_at(g, s->blocks, isa->lanes);

    return (struct nbits_tile){
        .bits = s->bits,
        .digits = s->digits,
        .cols = (int)MIN((int64_t)isa->lanes, s->n - column),
        .blocks = s->blocks,
        .words = s->in_block,
        .w = s->w + nbits_group_at(g, s->words, isa->lanes) * 4,
        .scale = s->scale + scales,
        .zero = s->zero ? s->zero + scales : NULL,
        .zero_f = s->zero_f ? s->zero_f + scales : NULL,
        .zero_all = s->zero_all,
        .a_row = s->room * s->digits,
        .a_digit = s->room,
        .bias = bias ? (const float *)bias->data + column : NULL,
        .ldc = s->n,
        .row_words = s->order ? 0 : s->in_block[0],
    };
}

/* Rows of A from r on, as digits, and where their results go. */
static void rows_of(struct nbits_tile *t, const struct run_job *j, char *area, int64_t g, int64_t r)
{
    const struct nbits *s = j->s;
    int64_t at = r * s->blocks;

    t->a = (const int8_t *)area + r * t->a_row;
    t->a_scale = (const float *)(void *)(area + s->at_scale) + at;
    t->a_sum = (const int32_t *)(void *)(area + s->at_sum) + at * NBITS_DIGITS;
    t->a_whole = (const float *)(void *)(area + s->at_whole) + at;
    t->c = (float *)kernel_out(j->op, 0)->data + (j->row + r) * s->n +
           g * kernel_isa(j->op)->nbits->lanes;
}

/* Weights that a row begins with: they come while its digits are made. */
static void fetch_first(const struct run_job *j, int64_t g)
{
    const struct nbits *s = j->s;
    int64_t lanes = kernel_isa(j->op)->nbits->lanes;
    const uint8_t *w = s->w + nbits_group_at(g, s->words, lanes) * 4;

    for (int i = 0; i < NBITS_AHEAD; i += NATIVE_ALIGN)
        __builtin_prefetch(w + i);
}

/* Pairs of groups. */
static void tile_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct run_job *j = arg;
    const struct nbits *s = j->s;
    const struct nbits_isa *isa = kernel_isa(j->op)->nbits;
    char *area = (char *)j->op->scratch + (j->made ? (size_t)thread * s->area : 0);
    int64_t g = begin * 2;

    if (j->made && !j->made[thread]) {
        fetch_first(j, g);
        make_digits(j, area, 0, thread);
        j->made[thread] = true;
    }
    for (; j->rows == 1 && g < end * 2 && (g + 2) * isa->lanes <= s->n; g += 2) {
        struct nbits_tile t = tile_of(j, g);

        rows_of(&t, j, area, g, 0);
        isa->row(&t);
    }
    for (; g < MIN(end * 2, s->groups); g++) {
        struct nbits_tile t = tile_of(j, g);

        for (int64_t r = 0; r < j->rows; r += t.rows) {
            t.rows = s->digits == 1 ? NBITS_ROWS : NBITS_ROWS / 2;
            while (t.rows > j->rows - r)
                t.rows /= 2;
            rows_of(&t, j, area, g, r);
            isa->tile(&t);
        }
    }
}

/* Columns of the product's panels as floats. */
static void widen(const struct gemm *g, int64_t j0, int64_t j1, int64_t k0, int64_t len)
{
    const struct run_job *j = g->widen_arg;
    const struct nbits *s = j->s;
    int64_t nr = g->isa->nr, lanes = g->isa->nbits->lanes;

    for (int64_t c = 0; c < (j1 - j0) * nr; c += lanes) {
        float *out = g->wide + c / nr * len * nr + c % nr;
        int64_t group = (j0 * nr + c) / lanes;

        if (group < s->groups) {
            struct nbits_tile t = tile_of(j, group);

            g->isa->nbits->widen(&t, out, nr, s->order, k0, k0 + len);
            continue;
        }
        for (int64_t k = 0; k < len; k++)
            memset(out + k * nr, 0, (size_t)lanes * sizeof(*out));
    }
}

static void float_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct run_job *j = arg;
    struct gemm g = j->g;

    g.wide = (float *)j->op->scratch + thread * gemm_wide(g.isa, g.k);
    for (int64_t i = begin; i < end; i++)
        gemm_item(&g, &j->grid, i);
}

/* Many rows, by weights that are made floats. */
static void run_floats(struct op *op, struct run_job *j)
{
    const struct nbits *s = j->s;
    const struct nt *bias = kernel_in(op, NB_BIAS);

    j->g = (struct gemm){ .isa = kernel_isa(op),
                          .m = s->rows,
                          .n = s->n,
                          .k = s->k,
                          .a = kernel_in(op, NB_A)->data,
                          .ars = s->k,
                          .aks = 1,
                          .widen = widen,
                          .widen_arg = j,
                          .c = kernel_out(op, 0)->data,
                          .ldc = s->n,
                          .alpha = 1,
                          .add = bias ? bias->data : NULL,
                          .add_cs = 1 };
    gemm_grid(&j->grid, j->g.isa, s->rows, s->n, s->k, 1, pool_threads(kernel_pool(op)));
    pool_for(kernel_pool(op), j->grid.nmb * j->grid.nnb, pool_grain(j->grid.item_ns), float_part,
             j);
}

int nbits_run(struct op *op, opm_error *err)
{
    struct nbits *s = op->state;
    struct run_job j = { .op = op, .s = s };
    bool made[POOL_THREADS_MAX] = { false };
    int rc = s->packed ? 0 : pack(op, s, err);

    if (!rc && as_floats(s)) {
        run_floats(op, &j);
        return 0;
    }
    if (s->rows == 1)
        j.made = made;
    for (; j.row < s->rows && !rc; j.row += j.rows) {
        double macs;

        j.rows = MIN(s->part, s->rows - j.row);
        if (!j.made)
            pool_for(kernel_pool(op), j.rows, pool_grain((double)s->room / 2), digits_part, &j);
        macs = (double)(j.rows * s->room * s->digits * kernel_isa(op)->nbits->lanes * 2);
        pool_for(kernel_pool(op), (s->groups + 1) / 2, pool_grain(macs / MACS_PER_NS), tile_part,
                 &j);
    }
    return rc;
}
