/* tfidf.c -- TfIdfVectorizer over integers or words: how often each n-gram of a pool occurs. */
#include "engine/native/math/infer.h"
#include "engine/native/op/kernels.h"
#include "engine/native/op/text.h"

#include <string.h>

struct tfidf {
    int64_t shortest, longest, skips;
    const int64_t *pool, *starts, *index; /* starts: of the n-grams of each length */
    const struct tensor_string *words;    /* instead of pool */
    size_t npool, nstarts, nindex, nweights;
    const float *weights; /* or NULL */
    bool counts, weighed; /* what an element of the output is: the count, the weight, or both */
    int64_t width;        /* of the output */
};

static bool read_attributes(const struct op *op, bool words, struct tfidf *s)
{
    const struct node *n = op->node;
    const struct attr *a = node_attr(n, "pool_strings");
    int64_t before = 0;

    s->shortest = node_attr_int(n, "min_gram_length", 0);
    s->longest = node_attr_int(n, "max_gram_length", 0);
    s->skips = node_attr_int(n, "max_skip_count", 0);
    s->pool = node_attr_ints(n, "pool_int64s", &s->npool);
    if (words) {
        s->words = a && a->type == ATTR_STRINGS ? a->string : NULL;
        s->npool = s->words ? a->n : 0;
    }
    s->starts = node_attr_ints(n, "ngram_counts", &s->nstarts);
    s->index = node_attr_ints(n, "ngram_indexes", &s->nindex);
    s->weights = node_attr_floats(n, "weights", &s->nweights);
    s->weighed = !node_attr_is(n, "mode", "TF", "");
    s->counts = !node_attr_is(n, "mode", "IDF", "");
    if (s->shortest < 1 || s->longest < s->shortest || s->skips < 0 || s->nindex < 1 ||
        s->longest > (int64_t)s->nstarts || (s->nweights && s->nweights != s->nindex))
        return false;
    for (size_t i = 0; i < s->nstarts; i++) {
        if (s->starts[i] < before || s->starts[i] > (int64_t)s->npool)
            return false;
        before = s->starts[i];
    }
    for (size_t i = 0; i < s->nindex; i++) {
        if (s->index[i] < 0 || s->index[i] >= INT32_MAX)
            return false;
        s->width = MAX(s->width, s->index[i] + 1);
    }
    return true;
}

int tfidf_prepare(struct op *op, opm_error *err)
{
    struct tfidf *s = kernel_new_state(op, sizeof(*s));
    const struct nt *x = kernel_in(op, 0);
    int rc =
        s ? kernel_want(op, 0, TYPES_INDEX | TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    *s = (struct tfidf){ 0 };
    if (!read_attributes(op, x->type == TENSOR_STRING, s))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this pool of n-grams");
    if (x->shape.rank < 1 || x->shape.rank > 2)
        return kernel_fail(op, OPM_EINVAL, err, "wants one or two dimensions");
    return kernel_infer(op, err);
}

/* Of all n-grams before those of length n, so many. */
static int64_t grams_before(const struct tfidf *s, int64_t n)
{
    int64_t count = 0;

    for (int64_t k = 1; k < n; k++)
        count += (s->starts[k] - s->starts[k - 1]) / k;
    return count;
}

static bool same(const struct tfidf *s, const struct nt *x, int64_t at, int64_t p)
{
    return s->words ? text_equal(&nt_strings(x)[at], &s->words[p]) : nt_int(x, at) == s->pool[p];
}

/* Count the n-gram that starts at `at` in a row and takes every step-th item. */
static void count_gram(const struct tfidf *s, const struct nt *x, int64_t at, int64_t n,
                       int64_t step, float *out)
{
    int64_t end = n < (int64_t)s->nstarts ? s->starts[n] : (int64_t)s->npool,
            id = grams_before(s, n);

    for (int64_t p = s->starts[n - 1]; p + n <= end; p += n, id++) {
        int64_t k = 0;

        while (k < n && same(s, x, at + k * step, p + k))
            k++;
        if (k == n && id < (int64_t)s->nindex)
            out[s->index[id]]++;
    }
}

int tfidf_run(struct op *op, opm_error *err)
{
    const struct tfidf *s = op->state;
    const struct nt *x = kernel_in(op, 0);
    int64_t len = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1,
            rows = x->shape.rank == 2 ? x->shape.dim[0] : 1;
    float *out = kernel_out(op, 0)->data;

    (void)err;
    memset(out, 0, kernel_out(op, 0)->bytes);
    for (int64_t r = 0; r < rows; r++, out += s->width) {
        for (int64_t n = s->shortest; n <= s->longest; n++)
            for (int64_t step = 1; step <= (n == 1 ? 1 : s->skips + 1); step++)
                for (int64_t i = 0; i < len && (n - 1) * step < len - i; i++)
                    count_gram(s, x, r * len + i, n, step, out);
        for (size_t i = 0; i < s->nindex && s->weighed; i++) {
            float *v = &out[s->index[i]], weight = s->weights ? s->weights[i] : 1;

            *v = *v > 0 ? (s->counts ? *v * weight : weight) : 0;
        }
    }
    return 0;
}
