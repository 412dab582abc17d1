/* counters.c -- see counters.h. */
#include "store/counters.h"

#include "base/alloc.h"
#include "base/error.h"

struct counters {
    const int64_t *ts;
    const double *value;
    size_t ntrack;
    uint32_t *first, *of; /* samples by track: of[first[t] .. first[t + 1]), by time */
};

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
    *out = c;
    return 0;
}

void counters_free(struct counters *c)
{
    if (!c)
        return;
    mem_free(c->first);
    mem_free(c->of);
    mem_free(c);
}

/* The first sample of a track, as a place in c->of, that is later than ns. */
static uint32_t later_than(const struct counters *c, uint32_t track, int64_t ns)
{
    uint32_t low = c->first[track], high = c->first[track + 1];

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
    uint32_t low = first, high = first, pick[4];
    int rc = 0;

    for (uint32_t i = first; i < end; i++) {
        if (c->value[c->of[i]] < c->value[c->of[low]])
            low = i;
        if (c->value[c->of[i]] > c->value[c->of[high]])
            high = i;
    }
    pick[0] = first;
    pick[1] = MIN(low, high);
    pick[2] = MAX(low, high);
    pick[3] = end - 1;
    for (size_t i = 0; rc == 0 && i < ARRAY_SIZE(pick); i++)
        if (i == 0 || pick[i] != pick[i - 1])
            rc = points_add(p, c, pick[i]);
    return rc;
}

/* Pixels begin at from_ns; the sample is later than that. */
static uint64_t pixel_of(const struct counters *c, uint32_t at, int64_t from_ns, int64_t pixel_ns)
{
    return ((uint64_t)c->ts[c->of[at]] - (uint64_t)from_ns) / (uint64_t)pixel_ns;
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
    at = later_than(c, track, from_ns);
    end = later_than(c, track, to_ns - 1);
    if (at > c->first[track])
        rc = points_add(&p, c, at - 1);
    while (rc == 0 && at < end) {
        uint64_t pixel = pixel_of(c, at, from_ns, pixel_ns);
        uint32_t first = at++;

        while (at < end && pixel_of(c, at, from_ns, pixel_ns) == pixel)
            at++;
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
