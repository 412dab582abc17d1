/* quantile.c -- see quantile.h.
 *
 * To find a few order statistics: count the values in buckets that rise with the value, see which
 * buckets hold the wanted ranks, throw away everything else, repeat in each of those buckets. Two
 * passes over the values without unpredictable branches, then more over the small rest. The first
 * round cuts the range logarithmically, because durations have long tails; later rounds cut it
 * evenly, each dividing the range by the number of buckets, so there are never more than a few. */
#include "base/quantile.h"

#include <math.h>
#include <string.h>

#define BUCKETS_MAX 4096
#define SORT_BELOW 48 /* values; fewer are simply sorted */
#define RANKS_MAX (2 * QUANTILE_MAX)

/* How values become bucket numbers: rising with v, at most `last`. */
struct scale {
    bool logarithmic;
    int64_t base;
    unsigned shift;
    uint32_t last;
};

static inline uint32_t scale_log(const struct scale *s, int64_t v)
{
    return (uint32_t)(((uint64_t)quantile_key((double)v) - (uint64_t)s->base) >> s->shift);
}

static inline uint32_t scale_even(const struct scale *s, int64_t v)
{
    return (uint32_t)(((uint64_t)v - (uint64_t)s->base) >> s->shift);
}

static struct scale scale_of(int64_t min, int64_t max, size_t n, bool logarithmic)
{
    struct scale s = { .logarithmic = logarithmic, .base = min };
    uint64_t range = (uint64_t)max - (uint64_t)min;
    uint64_t want = BUCKETS_MAX;

    if (logarithmic) {
        s.base = quantile_key((double)min);
        range = (uint64_t)quantile_key((double)max) - (uint64_t)s.base;
    }
    while (want > 64 && want > n / 2)
        want /= 2;
    while (range >> s.shift >= want)
        s.shift++;
    s.last = (uint32_t)(range >> s.shift);
    return s;
}

static void count_buckets(const struct scale *s, const int64_t *v, size_t n, uint32_t *count)
{
    memset(count, 0, ((size_t)s->last + 1) * sizeof(*count));
    if (s->logarithmic)
        for (size_t i = 0; i < n; i++)
            count[scale_log(s, v[i])]++;
    else
        for (size_t i = 0; i < n; i++)
            count[scale_even(s, v[i])]++;
}

static inline uint32_t scale_any(const struct scale *s, int64_t v)
{
    return s->logarithmic ? scale_log(s, v) : scale_even(s, v);
}

/* Move the values whose bucket is wanted to the front, the others behind them; returns how many
 * they are. */
static size_t keep_buckets(const struct scale *s, int64_t *v, size_t n, const uint8_t *wanted)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t x = v[i];

        v[i] = v[m];
        v[m] = x;
        m += wanted[scale_any(s, x)];
    }
    return m;
}

/* Move the values of buckets up to `bucket` to the front. */
static void part_buckets(const struct scale *s, int64_t *v, size_t n, uint32_t bucket)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        int64_t x = v[i];

        v[i] = v[m];
        v[m] = x;
        m += scale_any(s, x) <= bucket;
    }
}

static void sort_few(int64_t *v, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        int64_t x = v[i];
        size_t j = i;

        for (; j > 0 && v[j - 1] > x; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

/* Room that a level of order_statistics() needs only before it goes deeper. */
struct room {
    uint32_t count[BUCKETS_MAX];
    uint8_t wanted[BUCKETS_MAX];
};

/* A bucket in which some of the wanted ranks lie. */
struct piece {
    uint32_t bucket;
    size_t count;
    size_t nrank; /* how many of the ranks, in order */
};

/* The values at ranks[0..nrank), rising, if v were sorted. Disorders v and ranks. n fits 32 bits.
 */
static void order_statistics(struct room *room, int64_t *v, size_t n, size_t *ranks, size_t nrank,
                             int64_t *out, bool logarithmic)
{
    struct piece piece[RANKS_MAX];
    struct scale s;
    size_t npiece = 0, below = 0, r = 0;
    int64_t min = v[0], max = v[0];

    if (n <= SORT_BELOW)
        sort_few(v, n);
    for (size_t i = 1; i < n; i++) {
        min = MIN(min, v[i]);
        max = MAX(max, v[i]);
    }
    if (n <= SORT_BELOW || min == max) {
        for (size_t i = 0; i < nrank; i++)
            out[i] = v[ranks[i]];
        return;
    }
    s = scale_of(min, max, n, logarithmic);
    if (s.last == 0) /* beyond 2^53 neighbours share a logarithm */
        s = scale_of(min, max, n, false);
    count_buckets(&s, v, n, room->count);
    memset(room->wanted, 0, s.last + 1);
    for (uint32_t b = 0; r < nrank; below += room->count[b++]) {
        struct piece *p = &piece[npiece];

        if (ranks[r] >= below + room->count[b])
            continue;
        *p = (struct piece){ .bucket = b, .count = room->count[b] };
        for (; r < nrank && ranks[r] < below + room->count[b]; p->nrank++)
            ranks[r++] -= below;
        room->wanted[b] = 1; /* bounded: the buckets hold all ranks */
        npiece++;
    }
    n = keep_buckets(&s, v, n, room->wanted);
    for (size_t i = 0; i < npiece; i++) {
        if (i + 1 < npiece)
            part_buckets(&s, v, n, piece[i].bucket);
        order_statistics(room, v, piece[i].count, ranks, piece[i].nrank, out, false);
        v += piece[i].count;
        n -= piece[i].count;
        ranks += piece[i].nrank;
        out += piece[i].nrank;
    }
}

/* The values on both sides of each wanted position, and how far between them it lies. */
static void neighbours(int64_t *v, size_t n, const double *q, size_t nq, int64_t *pair,
                       double *frac)
{
    size_t ranks[RANKS_MAX], sorted[RANKS_MAX], working[RANKS_MAX];
    int64_t found[RANKS_MAX];
    struct room room;

    assert(n > 0 && nq <= QUANTILE_MAX);
    for (size_t i = 0; i < nq; i++) {
        double pos = q[i] * (double)(n - 1);
        size_t lo = MIN((size_t)floor(pos), n - 1);

        frac[i] = pos - (double)lo;
        ranks[2 * i] = lo;
        ranks[2 * i + 1] = MIN(lo + 1, n - 1);
    }
    /* Close quantiles of few values interleave: (3, 4), (3, 4), (4, 5). */
    for (size_t i = 0; i < 2 * nq; i++) {
        size_t j = i;

        for (; j > 0 && sorted[j - 1] > ranks[i]; j--)
            sorted[j] = sorted[j - 1];
        sorted[j] = ranks[i];
    }
    memcpy(working, sorted, 2 * nq * sizeof(working[0]));
    order_statistics(&room, v, n, working, 2 * nq, found, true);
    for (size_t i = 0; i < 2 * nq; i++) {
        size_t j = 0;

        while (sorted[j] != ranks[i])
            j++;
        pair[i] = found[j];
    }
}

/* numpy's way, exact at both ends and never outside them; apart: b - a. */
static double lerp(double a, double b, double apart, double t)
{
    if (a == b && apart == 0)
        return a; /* also two equal infinities */
    return t < 0.5 ? a + apart * t : b - apart * (1 - t);
}

void quantiles_i64(int64_t *v, size_t n, const double *q, size_t nq, double *out)
{
    int64_t pair[RANKS_MAX];
    double frac[QUANTILE_MAX];

    neighbours(v, n, q, nq, pair, frac);
    for (size_t i = 0; i < nq; i++) {
        int64_t a = pair[2 * i], b = pair[2 * i + 1];

        /* Beyond 2^53 integers are apart though they are the same number as doubles. */
        out[i] = lerp((double)a, (double)b, (double)((uint64_t)b - (uint64_t)a), frac[i]);
    }
}

void quantiles_keys(int64_t *keys, size_t n, const double *q, size_t nq, double *out)
{
    int64_t pair[RANKS_MAX];
    double frac[QUANTILE_MAX];

    neighbours(keys, n, q, nq, pair, frac);
    for (size_t i = 0; i < nq; i++) {
        double a = quantile_unkey(pair[2 * i]), b = quantile_unkey(pair[2 * i + 1]);

        out[i] = lerp(a, b, a == b ? 0 : b - a, frac[i]);
    }
}

double quantile_nearest(int64_t *keys, size_t n, double q)
{
    double above = ceil(q * (double)n - 1e-9); /* 0.9 * 10 is a hair above 9 */
    size_t rank = above < 1 ? 0 : MIN((size_t)above, n) - 1;
    struct room room;
    int64_t found;

    assert(n > 0);
    order_statistics(&room, keys, n, &rank, 1, &found, true);
    return quantile_unkey(found);
}
