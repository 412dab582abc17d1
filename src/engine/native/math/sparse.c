/* sparse.c -- pack block-sparse weights and multiply by them; see sparse.h. */
#include "engine/native/math/sparse.h"

#include "engine/native/isa/sparse_isa.h"
#include "engine/native/math/measured.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WEIGHTS_MIN 4096   /* elements; fewer are not worth a measurement */
#define DENSITY_MAX 0.6    /* with more of it left, packing it is not worth a try */
#define GAIN 0.9           /* sparse must take less than this share of the dense time */
#define WIDE_MAX 1.15      /* a wide block may keep so much more than narrow ones do */
#define CHUNK_COLS 128     /* columns that one thread works on at a time */
#define MEASURE_NS 2000000 /* of repeating, at most, for each way */

struct sparse {
    int width;
    int64_t k, n, groups;
    int64_t *first; /* of each group's blocks; groups + 1 */
    int32_t *row;
    float *value;
    double density; /* blocks kept, of all */
    char name[32];
};

static float weight(const struct sparse_weights *w, int64_t k, int64_t n)
{
    float f;

    memcpy(&f, (const char *)w->data + (k * w->rs + n * w->cs) * (int64_t)sizeof(f), sizeof(f));
    return f;
}

void sparse_free(struct sparse *s)
{
    if (!s)
        return;
    mem_free(s->first);
    mem_free(s->row);
    native_free(s->value);
    mem_free(s);
}

/* A look at a few hundred places: dense weights shall not be read twice. */
static bool looks_sparse(const struct sparse_weights *w)
{
    int64_t total = w->k * w->n, step = MAX(total / 509, (int64_t)1), seen = 0, zeros = 0;

    for (int64_t i = step / 2; i < total; i += step, seen++)
        zeros += weight(w, i / w->n, i % w->n) == 0;
    return zeros * 4 >= seen;
}

static bool block_zero(const struct sparse_weights *w, int64_t k, int64_t n, int64_t cols)
{
    for (int64_t j = 0; j < cols; j++)
        if (weight(w, k, n + j) != 0)
            return false;
    return true;
}

static int64_t count_blocks(const struct sparse_weights *w, int width)
{
    int64_t blocks = 0;

    for (int64_t k = 0; k < w->k; k++)
        for (int64_t n = 0; n < w->n; n += width)
            blocks += !block_zero(w, k, n, MIN((int64_t)width, w->n - n));
    return blocks;
}

static void fill(struct sparse *s, const struct sparse_weights *w)
{
    int64_t at = 0;

    for (int64_t g = 0; g < s->groups; g++) {
        int64_t n = g * s->width, cols = MIN((int64_t)s->width, s->n - n);

        s->first[g] = at;
        for (int64_t k = 0; k < s->k; k++) {
            if (block_zero(w, k, n, cols))
                continue;
            s->row[at] = (int32_t)k;
            for (int64_t j = 0; j < s->width; j++)
                s->value[at * s->width + j] = j < cols ? weight(w, k, n + j) : 0;
            at++;
        }
    }
    s->first[s->groups] = at;
}

static struct sparse *pack(const struct sparse_weights *w, int width, int64_t blocks)
{
    struct sparse *s = mem_calloc(1, sizeof(*s));

    if (!s)
        return NULL;
    s->width = width;
    s->k = w->k;
    s->n = w->n;
    s->groups = (w->n + width - 1) / width;
    s->density = (double)blocks / ((double)s->groups * (double)w->k);
    s->first = mem_calloc((size_t)s->groups + 1, sizeof(*s->first));
    s->row = mem_calloc((size_t)blocks + 1, sizeof(*s->row));
    s->value = native_alloc(((size_t)blocks + 1) * (size_t)width * sizeof(*s->value));
    if (!s->first || !s->row || !s->value) {
        sparse_free(s);
        return NULL;
    }
    snprintf(s->name, sizeof(s->name), "block-sparse %dx1", width);
    fill(s, w);
    return s;
}

/* Narrow blocks, or wide ones if those keep hardly more. NULL and *enough false: too dense. */
static struct sparse *pack_best(const struct op *op, const struct sparse_weights *w, bool any,
                                bool *enough)
{
    int wide = kernel_isa(op)->sparse->lanes, width = 4;
    int64_t blocks = count_blocks(w, 4), more;
    double all = (double)((w->n + 3) / 4) * (double)w->k;

    *enough = any || (double)blocks <= DENSITY_MAX * all;
    if (!*enough)
        return NULL;
    more = wide > 4 ? count_blocks(w, wide) : 0;
    if (wide > 4 && (double)more * wide <= WIDE_MAX * (double)blocks * 4) {
        width = wide;
        blocks = more;
    }
    return pack(w, width, blocks);
}

/* Choices go by shape, density in steps of 1/32, and the instruction set; not by threads, so that
 * results do not depend on their number. */
static struct ratio question(const struct op *op, int64_t m, const struct sparse *s)
{
    struct ratio r = {
        .sparsity = 1 - MAX(floor(s->density * 32 + 0.5), 0.5) / 32, .n = s->n, .k = s->k, .m = m
    };
    char pattern[16];

    snprintf(pattern, sizeof(pattern), "%dx1", s->width);
    r.pattern = ratio_pattern_find(pattern);
    snprintf(r.isa, sizeof(r.isa), "%s", kernel_isa(op)->name);
    return r;
}

int sparse_look(struct op *op, int64_t m, const struct sparse_weights *w, struct sparse **s,
                opm_error *err)
{
    enum engine_sparse want = op->plan->engine->opts.sparse;
    struct ratio r;
    bool enough = true;

    op->sparse_support = true;
    if (want == ENGINE_SPARSE_NEVER || m == 0 || w->k == 0 || w->n == 0 || w->k > INT32_MAX ||
        (want == ENGINE_SPARSE_AUTO && !*s && (w->k * w->n < WEIGHTS_MIN || !looks_sparse(w))))
        goto no;
    if (!*s)
        *s = pack_best(op, w, want == ENGINE_SPARSE_ALWAYS, &enough);
    if (!enough)
        goto no;
    if (!*s)
        return kernel_nomem(op, err);
    if (want == ENGINE_SPARSE_ALWAYS)
        return SPARSE_YES;
    r = question(op, m, *s);
    if (!measured_get(&r))
        return SPARSE_MEASURE;
    if (r.sparse_ns <= GAIN * r.dense_ns)
        return SPARSE_YES;
no:
    sparse_free(*s);
    *s = NULL;
    return SPARSE_NO;
}

static int64_t clock_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int timed(struct op *op, int64_t *best, opm_error *err)
{
    int64_t begin = clock_ns(), t0, t1 = begin;

    *best = INT64_MAX;
    for (int i = 0; i < 50 && (i < 3 || t1 - begin < MEASURE_NS); i++) {
        int rc;

        t0 = clock_ns();
        rc = op->kernel->run(op, err);
        t1 = clock_ns();
        if (rc)
            return rc;
        *best = MIN(*best, MAX(t1 - t0, (int64_t)1));
    }
    return 0;
}

int sparse_measure_op(struct op *op, int64_t m, const struct sparse *s, bool *use, opm_error *err)
{
    struct nt *in = kernel_in(op, 0), *out = kernel_out(op, 0), had_in = *in, had_out = *out;
    void *scratch = op->scratch;
    int npost = op->npost, rc = 0;
    int64_t ns[2] = { 0, 0 };
    struct ratio r;

    in->data = native_alloc(in->bytes);
    out->data = native_alloc(out->bytes);
    op->scratch = native_alloc(MAX(op->scratch_bytes, (size_t)1));
    op->npost = 0; /* their operands are not there yet */
    if (!in->data || !out->data || !op->scratch)
        rc = kernel_nomem(op, err);
    for (int64_t i = 0; i < in->count && !rc; i++)
        ((float *)in->data)[i] = (float)(i % 17 - 8) / 8;
    for (int i = 0; i < 2 && !rc; i++) {
        *use = i == 1;
        rc = timed(op, &ns[i], err);
    }
    native_free(in->data);
    native_free(out->data);
    native_free(op->scratch);
    *in = had_in;
    *out = had_out;
    op->scratch = scratch;
    op->npost = npost;
    if (rc)
        return rc;
    r = question(op, m, s);
    r.dense_ns = (double)ns[0];
    r.sparse_ns = (double)ns[1];
    r.ratio = r.dense_ns / r.sparse_ns;
    measured_put(&r);
    *use = r.sparse_ns <= GAIN * r.dense_ns;
    return 0;
}

void sparse_tell(struct op *op, const struct sparse *s, bool use)
{
    const char *name = use ? s->name : NULL;

    if (op->algorithm != name)
        op->told = false;
    op->algorithm = name;
}

size_t sparse_scratch(const struct op *op, int64_t m, int64_t k)
{
    int64_t lanes = kernel_isa(op)->sparse->lanes, bytes;

    if (m <= SPARSE_FEW4 || __builtin_mul_overflow((m + lanes - 1) / lanes * lanes * 4, k, &bytes))
        return 0;
    return (size_t)bytes;
}

struct job {
    const struct sparse *s;
    const struct sparse_mul *mul;
    const struct sparse_isa *isa;
    const struct isa *plain;
    const struct posts *posts; /* or NULL */
    float *packed;
    int64_t chunk, nchunk; /* groups of columns that go together */
};

static int panel_width(const struct sparse_isa *isa, const struct sparse *s, int64_t rows)
{
    if (s->width == 4 && rows <= SPARSE_FEW)
        return rows <= 4 ? 4 : 8;
    return (int)(rows + isa->lanes - 1) / isa->lanes * isa->lanes;
}

static void pack_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;

    (void)thread;
    for (int64_t p = begin; p < end; p++) {
        int64_t row = p * j->isa->panel, rows = MIN((int64_t)j->isa->panel, j->mul->m - row);

        j->isa->pack(j->packed + row * j->mul->k, j->mul->a + row * j->mul->lda, j->mul->lda,
                     (int)rows, panel_width(j->isa, j->s, rows), j->mul->k);
    }
}

static void finish(const struct job *j, int64_t r0, int64_t rows, int64_t c0, int64_t cols)
{
    const struct sparse_mul *mul = j->mul;
    float *c = mul->c + r0 * mul->n + c0;

    for (int64_t i = 0; i < rows && mul->alpha != 1; i++)
        j->plain->unary(U_AFFINE, c + i * mul->n, c + i * mul->n, cols, mul->alpha, 0);
    for (int64_t i = 0; i < rows && mul->add; i++)
        j->plain->binary(B_ADD, c + i * mul->n, c + i * mul->n, 1,
                         mul->add + (r0 + i) * mul->add_rs + c0 * mul->add_cs, mul->add_cs, cols);
    if (j->posts)
        posts_apply(j->posts, c, mul->n, rows, cols, r0, c0, 0);
}

static void mul_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct job *j = arg;
    const struct sparse *s = j->s;
    const struct sparse_mul *mul = j->mul;
    bool wide = s->width > 4, few = mul->m <= (wide ? SPARSE_FEW : SPARSE_FEW4);

    (void)thread;
    for (int64_t item = begin; item < end; item++) {
        int64_t r0 = item / j->nchunk * j->isa->panel, g0 = item % j->nchunk * j->chunk;
        int64_t g1 = MIN(g0 + j->chunk, s->groups), rows = MIN((int64_t)j->isa->panel, mul->m - r0);
        int width = panel_width(j->isa, j->s, rows);

        for (int64_t g = g0; g < g1; g++) {
            struct sparse_run r = {
                .blocks = s->first[g + 1] - s->first[g],
                .row = s->row + s->first[g],
                .value = s->value + s->first[g] * s->width,
                .c = mul->c + r0 * mul->n + g * s->width,
                .ldc = mul->n,
                .rows = (int)rows,
                .cols = (int)MIN((int64_t)s->width, s->n - g * s->width),
            };

            if (few)
                (wide ? j->isa->few_wide : j->isa->few4)(&r, mul->a, mul->lda);
            else
                (wide        ? j->isa->panel_wide
                 : width < 9 ? j->isa->quad
                             : j->isa->panel4)(&r, j->packed + r0 * mul->k, width);
        }
        finish(j, r0, rows, g0 * s->width, MIN(g1 * s->width, s->n) - g0 * s->width);
    }
}

void sparse_run(struct op *op, const struct sparse *s, const struct sparse_mul *mul)
{
    const struct sparse_isa *isa = kernel_isa(op)->sparse;
    struct posts posts;
    struct job j = {
        .s = s, .mul = mul, .isa = isa, .plain = kernel_isa(op), .packed = op->scratch
    };
    int64_t panels = (mul->m + isa->panel - 1) / isa->panel, per;

    posts_begin(&posts, op, false);
    j.posts = op->npost ? &posts : NULL;
    j.chunk = MAX(CHUNK_COLS / s->width, 1);
    j.nchunk = (s->groups + j.chunk - 1) / j.chunk;
    if (mul->m > (s->width > 4 ? SPARSE_FEW : SPARSE_FEW4))
        pool_for(kernel_pool(op), panels, MAX(16384 / (mul->k * isa->panel + 1), (int64_t)1),
                 pack_part, &j);
    per = (int64_t)(s->density * (double)(mul->k * CHUNK_COLS * MIN(mul->m, (int64_t)isa->panel)));
    pool_for(kernel_pool(op), panels * j.nchunk, MAX(65536 / (per + 1), (int64_t)1), mul_part, &j);
}
