/* pick.c -- see pick.h. */
#include "run/pick.h"

#include "base/alloc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

struct candidate {
    float logit;
    int32_t token;
    double weight;
};

struct picker {
    float *number;
    struct candidate *candidate;
};

struct picker *picker_new(int64_t n)
{
    struct picker *p = mem_calloc(1, sizeof(*p));

    if (!p)
        return NULL;
    p->number = mem_calloc((size_t)n + 1, sizeof(*p->number));
    p->candidate = mem_calloc((size_t)n + 1, sizeof(*p->candidate));
    if (p->number && p->candidate)
        return p;
    picker_free(p);
    return NULL;
}

void picker_free(struct picker *p)
{
    if (!p)
        return;
    mem_free(p->number);
    mem_free(p->candidate);
    mem_free(p);
}

static float bf16_to_f32(uint16_t h)
{
    uint32_t bits = (uint32_t)h << 16;
    float f;

    memcpy(&f, &bits, sizeof(f));
    return f;
}

static const float *as_floats(struct picker *p, const void *logits, enum tensor_type type,
                              int64_t n)
{
    const uint16_t *half = logits;

    if (type == TENSOR_F32)
        return logits;
    for (int64_t i = 0; i < n; i++)
        p->number[i] = type == TENSOR_F16 ? f16_to_f32(half[i]) : bf16_to_f32(half[i]);
    return p->number;
}

static int64_t likeliest(const float *x, int64_t n)
{
    int64_t best = -1;

    for (int64_t i = 0; i < n; i++)
        if (x[i] > (best < 0 ? -INFINITY : x[best]))
            best = i;
    return best;
}

/* The likeliest first; of equals the one with the lower number. */
static int by_logit(const void *a, const void *b)
{
    const struct candidate *x = a, *y = b;

    if (x->logit != y->logit)
        return x->logit < y->logit ? 1 : -1;
    return x->token < y->token ? -1 : x->token > y->token;
}

/* SplitMix64. */
static uint64_t mix(uint64_t x)
{
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static double uniform(const struct pick_options *opt, int64_t row, int64_t place)
{
    uint64_t r = mix(mix(mix(opt->seed) ^ (uint64_t)row) ^ (uint64_t)place);

    return (double)(r >> 11) * 0x1p-53;
}

int64_t pick_token(struct picker *p, const void *logits, enum tensor_type type, int64_t n,
                   const struct pick_options *opt, int64_t row, int64_t place)
{
    const float *x = as_floats(p, logits, type, n);
    struct candidate *c = p->candidate;
    int64_t best = likeliest(x, n), kept = 0;
    double sum = 0, upto = 0, r;

    if (best < 0 || opt->temperature <= 0)
        return best;
    for (int64_t i = 0; i < n; i++)
        if (x[i] > -INFINITY)
            c[kept++] = (struct candidate){ x[i], (int32_t)i, 0 };
    qsort(c, (size_t)kept, sizeof(*c), by_logit);
    if (opt->top_k)
        kept = MIN(kept, opt->top_k);
    for (int64_t i = 0; i < kept; i++) {
        c[i].weight = exp(((double)c[i].logit - (double)c[0].logit) / opt->temperature);
        sum += c[i].weight;
    }
    for (int64_t i = 0; i < kept && opt->top_p < 1; i++) {
        upto += c[i].weight;
        if (upto >= opt->top_p * sum) {
            kept = i + 1;
            sum = upto;
        }
    }
    r = uniform(opt, row, place) * sum;
    for (int64_t i = 0; i < kept; i++) {
        r -= c[i].weight;
        if (r < 0)
            return c[i].token;
    }
    return c[kept - 1].token;
}
