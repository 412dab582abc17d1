/* word_conv.c -- com.microsoft's WordConvEmbedding: vectors of words from those of their
 * characters.
 *
 * A word's characters are looked up in a table, filters go over them, and of each filter the
 * greatest tanh counts. tanh grows with its argument, so it is taken but once. A word has as many
 * characters as are above 0, none if its first is not; nothing comes of none. */
#include "engine/native/math/gemm.h"
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"

#include <math.h>
#include <string.h>

/* sequence [words, length], filters [n, 1, width, size], bias [n], table [characters, size] */
enum { WORD_CHARS, WORD_FILTERS, WORD_BIAS, WORD_TABLE };

struct wordconv {
    int64_t words, length, filters, width, size, floats; /* floats: of packed filters */
    int64_t each;                                        /* of scratch, floats of a thread */
};

int wordconv_prepare(struct op *op, opm_error *err)
{
    struct wordconv *s = kernel_new_state(op, sizeof(*s));
    const struct nt *x, *w, *bias, *table;
    int64_t total;
    int rc = s ? kernel_want(op, WORD_CHARS, TYPE_BIT(TENSOR_I32), err) : kernel_nomem(op, err);

    for (uint32_t i = WORD_FILTERS; i <= WORD_TABLE && !rc; i++)
        rc = kernel_want(op, i, TYPE_BIT(TENSOR_F32), err);
    if (!rc)
        rc = kernel_infer(op, err);
    if (rc)
        return rc;
    x = kernel_in(op, WORD_CHARS);
    w = kernel_in(op, WORD_FILTERS);
    bias = kernel_in(op, WORD_BIAS);
    table = kernel_in(op, WORD_TABLE);
    *s = (struct wordconv){ .words = x->shape.dim[0],
                            .length = x->shape.dim[1],
                            .filters = w->shape.dim[0],
                            .width = w->shape.dim[2],
                            .size = w->shape.dim[3] };
    if (w->shape.dim[1] != 1 || table->shape.dim[1] != s->size || bias->count != s->filters ||
        s->width < 1)
        return kernel_fail(op, OPM_EINVAL, err, "operands do not fit");
    if (s->words && s->width > s->length)
        return kernel_fail(op, OPM_EINVAL, err, "a filter of %lld over words of %lld",
                           (long long)s->width, (long long)s->length);
    s->floats = gemm_size_b(kernel_isa(op), s->width * s->size, s->filters);
    if (s->floats < 0 || __builtin_mul_overflow(s->length, s->size + s->filters, &s->each) ||
        __builtin_mul_overflow(s->each + 16, (int64_t)pool_threads(kernel_pool(op)), &total) ||
        total > PTRDIFF_MAX / 8)
        return kernel_fail(op, OPM_ELIMIT, err, "the matrices are too big");
    s->floats = (s->floats + 15) / 16 * 16;
    s->each = (s->each + 15) / 16 * 16;
    op->scratch_bytes =
        (size_t)(s->floats + s->each * pool_threads(kernel_pool(op))) * sizeof(float);
    return 0;
}

static int64_t characters(const int32_t *word, int64_t length)
{
    int64_t n = 0;

    for (int64_t i = 0; i < length && word[0] > 0; i++)
        n += word[i] > 0;
    return n;
}

static void wordconv_part(void *arg, int64_t begin, int64_t end, int thread)
{
    const struct op *op = arg;
    const struct wordconv *s = op->state;
    const struct isa *isa = kernel_isa(op);
    const float *table = kernel_in(op, WORD_TABLE)->data;
    float *looked = (float *)op->scratch + s->floats + thread * s->each,
          *product = looked + s->length * s->size;
    struct gemm g = { .isa = isa,
                      .n = s->filters,
                      .k = s->width * s->size,
                      .a = looked,
                      .ars = s->size, /* windows overlap */
                      .aks = 1,
                      .b = op->scratch,
                      .c = product,
                      .ldc = s->filters,
                      .alpha = 1 };

    for (int64_t i = begin; i < end; i++) {
        const int32_t *word = (const int32_t *)kernel_in(op, WORD_CHARS)->data + i * s->length;
        float *out = (float *)kernel_out(op, 0)->data + i * s->filters;
        int64_t n = characters(word, s->length), reads = MAX(n, s->width);

        if (!n) {
            memset(out, 0, (size_t)s->filters * sizeof(*out));
            continue;
        }
        for (int64_t k = 0; k < reads; k++)
            memcpy(looked + k * s->size, table + word[k] * s->size,
                   (size_t)s->size * sizeof(*looked));
        g.m = reads - s->width + 1;
        gemm_run_here(&g);
        for (int64_t k = 1; k < g.m; k++)
            isa->binary(B_MAX, product, product, 1, product + k * s->filters, 1, s->filters);
        isa->binary(B_ADD, out, product, 1, kernel_in(op, WORD_BIAS)->data, 1, s->filters);
        isa->unary(U_TANH, out, out, s->filters, 0, 0);
    }
}

int wordconv_run(struct op *op, opm_error *err)
{
    const struct wordconv *s = op->state;
    const struct nt *x = kernel_in(op, WORD_CHARS);
    int64_t known = kernel_in(op, WORD_TABLE)->shape.dim[0];

    if (!kernel_out(op, 0)->count)
        return 0;
    for (int64_t i = 0; i < s->words; i++) {
        const int32_t *word = (const int32_t *)x->data + i * s->length;
        int64_t n = characters(word, s->length), reads = n ? MAX(n, s->width) : 0;

        for (int64_t k = 0; k < reads; k++)
            if (word[k] < 0 || word[k] >= known)
                return kernel_fail(op, OPM_EINVAL, err, "character %d is not in a table of %lld",
                                   word[k], (long long)known);
    }
    gemm_pack_b(kernel_isa(op), op->scratch, kernel_in(op, WORD_FILTERS)->data, s->width * s->size,
                s->filters, 1, s->width * s->size, 0, gemm_panels(s->filters, kernel_isa(op)->nr));
    pool_for(kernel_pool(op), s->words,
             pool_grain((double)(s->length * s->width * s->size * s->filters) / 20), wordconv_part,
             op);
    return 0;
}
