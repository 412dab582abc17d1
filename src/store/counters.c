/* counters.c -- see counters.h.
 *
 * A picture of everything has thousands of samples in a pixel, of which four are seen. Where a
 * pixel ends is found by bisection, its least and greatest value from those of blocks. */
#include "store/counters.h"

#include "base/alloc.h"
#include "base/error.h"

#define BLOCK 64 /* samples */

struct range {
    uint32_t low, high; /* places of the first least and the first greatest value */
};

struct counters {
    const int64_t *ts;
    const double *value;
    size_t ntrack;
    uint32_t *first, *of; /* samples by track: of[first[t] .. first[t + 1]), by time */
    struct range *block;  /* of places [BLOCK * i, BLOCK * (i + 1)) of `of` */
};

/* What is no number is neither least nor greatest, unless there is nothing else. */
static void range_add(struct range *r, const struct counters *c, struct range other)
{
    double low = c->value[c->of[r->low]], high = c->value[c->of[r->high]];

    if (c->value[c->of[other.low]] < low || low != low)
        r->low = other.low;
    if (c->value[c->of[other.high]] > high || high != high)
        r->high = other.high;
}

static struct range range_of(const struct counters *c, uint32_t first, uint32_t end)
{
    struct range r = { first, first };

    for (uint32_t i = first; i < end;) {
        if (c->block && i % BLOCK == 0 && end - i >= BLOCK) {
            range_add(&r, c, c->block[i / BLOCK]);
            i += BLOCK;
        } else {
            range_add(&r, c, (struct range){ i, i });
            i++;
        }
    }
    return r;
}

static int blocks_make(struct counters *c, size_t n)
{
    struct range *block = mem_alloc((n / BLOCK + 1) * sizeof(*block));

    for (size_t i = 0; block && i < n / BLOCK; i++)
        block[i] = range_of(c, (uint32_t)(i * BLOCK), (uint32_t)((i + 1) * BLOCK));
    c->block = block;
    return block ? 0 : OPM_ENOMEM;
}

int counters_new(const struct store *st, struct counters **out)
{
    struct counters *c = mem_calloc(1, sizeof(*c));
    size_t nrow = store_nrow(st, TABLE_sample);
    const void *ts, *value, *track;
    const uint32_t *of_track;

    if (!c || store_column(st, TABLE_sample, sample_col_ts, &ts) ||
        store_column(st, TABLE_sample, sample_col_value, &value) ||
        store_column(st, TABLE_sample, sample_col_track, &track)) {
        mem_free(c);
        return OPM_ENOMEM;
    }
    c->ts = ts;
    c->value = value;
    c->ntrack = store_nrow(st, TABLE_track);
    of_track = track;
    nrow = ts && value && track ? nrow : 0;
    /* One place more than there are tracks, for samples without one, and one to count ahead. */
    c->first = mem_calloc(c->ntrack + 3, sizeof(*c->first));
    c->of = mem_alloc((nrow + 1) * sizeof(*c->of));
    if (!c->first || !c->of) {
        counters_free(c);
        return OPM_ENOMEM;
    }
    for (size_t i = 0; i < nrow; i++)
        c->first[MIN((size_t)of_track[i], c->ntrack) + 2]++;
    for (size_t t = 2; t < c->ntrack + 3; t++)
        c->first[t] += c->first[t - 1];
    for (size_t i = 0; i < nrow; i++)
        c->of[c->first[MIN((size_t)of_track[i], c->ntrack) + 1]++] = (uint32_t)i;
    if (blocks_make(c, nrow)) {
        counters_free(c);
        return OPM_ENOMEM;
    }
    *out = c;
    return 0;
}

void counters_free(struct counters *c)
{
    if (!c)
        return;
    mem_free(c->first);
    mem_free(c->of);
    mem_free(c->block);
    mem_free(c);
}

/* The first of the places [low, high) of c->of, all of one track, that is later than ns; or high.
 */
static uint32_t later_than(const struct counters *c, uint32_t low, uint32_t high, int64_t ns)
{
    while (low < high) {
        uint32_t mid = low + (high - low) / 2;

        if (c->ts[c->of[mid]] <= ns)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

struct points {
    struct counter_point *point;
    size_t n, cap, max;
};

static int points_add(struct points *p, const struct counters *c, uint32_t at)
{
    if (p->n >= p->max)
        return OPM_ELIMIT;
    if (!GROW(p->point, p->cap, p->n + 1))
        return OPM_ENOMEM;
    p->point[p->n++] = (struct counter_point){ c->ts[c->of[at]], c->value[c->of[at]] };
    return 0;
}

/* What is seen of the samples [first, end), which are in one pixel. */
static int add_pixel(struct points *p, const struct counters *c, uint32_t first, uint32_t end)
{
    struct range r = range_of(c, first, end);
    uint32_t pick[4] = { first, MIN(r.low, r.high), MAX(r.low, r.high), end - 1 };
    int rc = 0;

    for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(pick); i++)
        if (i == 0 || pick[i] != pick[i - 1])
            rc = points_add(p, c, pick[i]);
    return rc;
}

/* The first of the places (at, end) that is not in the pixel of `at`. Pixels begin at from_ns, no
 * later than the samples. Looks ahead in steps that double: near by, most often. */
static uint32_t pixel_end(const struct counters *c, uint32_t at, uint32_t end, int64_t from_ns,
                          int64_t pixel_ns)
{
    uint64_t since = (uint64_t)c->ts[c->of[at]] - (uint64_t)from_ns;
    uint64_t left = (uint64_t)pixel_ns - since % (uint64_t)pixel_ns;
    int64_t last_ns = c->ts[c->of[at]];
    uint32_t low = at + 1, step = 1;

    if (__builtin_add_overflow(last_ns, (int64_t)left - 1, &last_ns))
        return end;
    while (low < end && end - low > step && c->ts[c->of[low + step]] <= last_ns) {
        low += step;
        step = MIN(2 * step, UINT32_MAX / 4);
    }
    return later_than(c, low, end - low > step ? low + step : end, last_ns);
}

int counters_query(const struct counters *c, uint32_t track, int64_t from_ns, int64_t to_ns,
                   int64_t pixel_ns, size_t max, struct counter_point **out, size_t *n)
{
    struct points p = { .max = max };
    uint32_t at, end;
    int rc = 0;

    *out = NULL;
    *n = 0;
    if (track >= c->ntrack || to_ns <= from_ns)
        return 0;
    pixel_ns = MAX(pixel_ns, (int64_t)1);
    at = later_than(c, c->first[track], c->first[track + 1], from_ns);
    end = later_than(c, c->first[track], c->first[track + 1], to_ns - 1);
    if (at > c->first[track])
        rc = points_add(&p, c, at - 1);
    while (rc == 0 && at < end) {
        uint32_t first = at;

        at = pixel_end(c, at, end, from_ns, pixel_ns);
        rc = add_pixel(&p, c, first, at);
    }
    if (rc) {
        mem_free(p.point);
        return rc;
    }
    *out = p.point;
    *n = p.n;
    return 0;
}
