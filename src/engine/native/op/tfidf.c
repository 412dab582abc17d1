/* tfidf.c -- TfIdfVectorizer over integers or words: how often each n-gram of a pool occurs.
 *
 * N-grams are a tree: items of the pool have numbers, and a node is what its items spell. A row is
 * followed from each of its items for as long as the tree goes on. */
#include "base/u64map.h"
#include "engine/native/isa/rows_isa.h"
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
    struct words number;  /* of words: the place of an equal one in the pool */
    struct u64map place;  /* of integers likewise */
    struct u64map child;  /* of node << 32 | item */
    int64_t *gram;        /* that ends at a node: its number plus one; 0: none */
    int64_t *again;       /* by its number: another of the same items, plus one */
    size_t nodes;
};

static void tfidf_release(void *state)
{
    struct tfidf *s = state;

    words_release(&s->number);
    u64map_release(&s->place);
    u64map_release(&s->child);
    mem_free(s->gram);
    mem_free(s->again);
}

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

/* The places of a row's items in the pool, those of equal ones; -1: there is none. */
static void items_of(const struct op *op, const struct tfidf *s, const struct nt *x, int64_t first,
                     int64_t len, int64_t *item)
{
    if (s->words) {
        for (int64_t i = 0; i < len; i++)
            item[i] = words_find(&s->number, &nt_strings(x)[first + i]);
        return;
    }
    kernel_isa(op)->rows->cast[x->type][TENSOR_I64](
        item, (const char *)x->data + first * (int64_t)nt_width(x->type), len);
    for (int64_t i = 0; i < len; i++) {
        const uint64_t *at = u64map_get(&s->place, (uint64_t)item[i]);

        item[i] = at ? (int64_t)*at : -1;
    }
}

static uint64_t branch(uint64_t node, int64_t item)
{
    return node << 32 | (uint64_t)item;
}

/* The n items from `at` on are n-gram `number`. */
static int put_gram(struct tfidf *s, int64_t at, int64_t n, int64_t number)
{
    uint64_t node = 0;

    for (int64_t i = at; i < at + n; i++) {
        int64_t item = s->words ? words_find(&s->number, &s->words[i])
                                : (int64_t)*u64map_get(&s->place, (uint64_t)s->pool[i]);
        const uint64_t *next = u64map_get(&s->child, branch(node, item));

        if (next) {
            node = *next;
            continue;
        }
        if (u64map_put(&s->child, branch(node, item), ++s->nodes))
            return OPM_ENOMEM;
        node = s->nodes;
    }
    s->again[number] = s->gram[node];
    s->gram[node] = number + 1;
    return 0;
}

static int grow_tree(struct tfidf *s)
{
    int64_t number = 0;
    int rc = s->words ? words_init(&s->number, s->words, s->npool) : 0;

    s->gram = mem_calloc(s->npool + 1, sizeof(*s->gram));
    s->again = mem_calloc(s->nindex, sizeof(*s->again));
    if (!s->gram || !s->again)
        return OPM_ENOMEM;
    for (size_t i = 0; i < s->npool && !s->words && !rc; i++)
        rc = u64map_put(&s->place, (uint64_t)s->pool[i], i);
    for (int64_t n = 1; n <= (int64_t)s->nstarts && !rc; n++) {
        int64_t end = n < (int64_t)s->nstarts ? s->starts[n] : (int64_t)s->npool;

        for (int64_t at = s->starts[n - 1]; at + n <= end && number < (int64_t)s->nindex && !rc;
             at += n)
            rc = put_gram(s, at, n, number++);
    }
    return rc;
}

int tfidf_prepare(struct op *op, opm_error *err)
{
    struct tfidf *s = kernel_new_state(op, sizeof(*s));
    const struct nt *x = kernel_in(op, 0);
    int rc =
        s ? kernel_want(op, 0, TYPES_INDEX | TYPE_BIT(TENSOR_STRING), err) : kernel_nomem(op, err);

    if (rc)
        return rc;
    op->release = tfidf_release;
    tfidf_release(s);
    *s = (struct tfidf){ 0 };
    if (!read_attributes(op, x->type == TENSOR_STRING, s))
        return kernel_fail(op, OPM_EUNSUPPORTED, err, "no kernel for this pool of n-grams");
    if (x->shape.rank < 1 || x->shape.rank > 2)
        return kernel_fail(op, OPM_EINVAL, err, "wants one or two dimensions");
    if (s->npool >= UINT32_MAX / 2)
        return kernel_fail(op, OPM_ELIMIT, err, "the pool of n-grams is too big");
    if (grow_tree(s))
        return kernel_nomem(op, err);
    op->scratch_bytes = (size_t)x->shape.dim[x->shape.rank - 1] * sizeof(int64_t);
    return kernel_infer(op, err);
}

/* Count the n-grams that start at an item and take every step-th one; len items are left. */
static void count_grams(const struct tfidf *s, const int64_t *item, int64_t len, int64_t step,
                        float *out)
{
    uint64_t node = 0;

    for (int64_t n = 1; n <= s->longest && (n - 1) * step < len; n++) {
        const uint64_t *next;

        if (item[(n - 1) * step] < 0)
            return;
        next = u64map_get(&s->child, branch(node, item[(n - 1) * step]));
        if (!next)
            return;
        node = *next;
        if (n < s->shortest || (n == 1 && step > 1))
            continue;
        for (int64_t g = s->gram[node]; g; g = s->again[g - 1])
            out[s->index[g - 1]]++;
    }
}

int tfidf_run(struct op *op, opm_error *err)
{
    const struct tfidf *s = op->state;
    const struct nt *x = kernel_in(op, 0);
    int64_t len = x->shape.rank ? x->shape.dim[x->shape.rank - 1] : 1,
            rows = x->shape.rank == 2 ? x->shape.dim[0] : 1;
    int64_t *item = op->scratch;
    float *out = kernel_out(op, 0)->data;

    (void)err;
    memset(out, 0, kernel_out(op, 0)->bytes);
    for (int64_t r = 0; r < rows; r++, out += s->width) {
        items_of(op, s, x, r * len, len, item);
        for (int64_t step = 1; step <= (s->longest > 1 ? MIN(s->skips, len) : 0) + 1; step++)
            for (int64_t i = 0; i < len; i++)
                count_grams(s, item + i, len - i, step, out);
        for (size_t i = 0; i < s->nindex && s->weighed; i++) {
            float *v = &out[s->index[i]], weight = s->weights ? s->weights[i] : 1;

            *v = *v > 0 ? (s->counts ? *v * weight : weight) : 0;
        }
    }
    return 0;
}
