/* meetings_align.c -- collectives that some ranks have no record of.
 *
 * The nth of one rank is the nth of the others, unless a step of one lacks some: events were lost,
 * or what a device did had been launched before the recording began. Then all behind the gap would
 * be compared to the wrong ones, and the rank look late by the time between two. Where ranks have
 * different numbers of a series in a step, the one with most tells which there were, and those of
 * the others are given the numbers of the ones that end with them: clocks are known from steps in
 * which nothing lacks. */
#include "analyze/meetings_int.h"

#include "analyze/groups.h"
#include "base/alloc.h"
#include <stdlib.h>
#include <string.h>

/* A stretch of m->at, which is by series and rank. */
struct run {
    size_t from, to;
};

/* How far ahead the clock of a rank was in a step. */
struct known {
    int64_t rank, num, clock_ns;
};

struct clocks {
    struct known *at;
    size_t n;
};

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_rank(const void *va, const void *vb)
{
    const struct known *a = va, *b = vb;

    ORDER(a->rank, b->rank);
    ORDER(a->num, b->num);
    ORDER(a->clock_ns, b->clock_ns);
    return 0;
}

static struct run series_at(const struct meetings *m, size_t from)
{
    struct run r = { from, from + 1 };

    while (r.to < m->n && meetings_same_series(&m->at[from], &m->at[r.to]))
        r.to++;
    return r;
}

static struct run rank_at(const struct meetings *m, size_t from, size_t end)
{
    struct run r = { from, from + 1 };

    while (r.to < end && m->at[r.to].rank == m->at[from].rank)
        r.to++;
    return r;
}

static size_t length(struct run r)
{
    return r.to - r.from;
}

/* The rank with most; *gaps: others have fewer. */
static struct run longest(const struct meetings *m, struct run series, bool *gaps)
{
    struct run most = rank_at(m, series.from, series.to);

    *gaps = false;
    for (size_t i = most.to; i < series.to;) {
        struct run r = rank_at(m, i, series.to);

        *gaps |= length(r) != length(most);
        if (length(r) > length(most))
            most = r;
        i = r.to;
    }
    return most;
}

/* Clocks by the series that nobody lacks any of. */
static int find_clocks(struct clocks *c, const struct meetings *m)
{
    struct meetings whole = { .at = mem_alloc((m->n + 1) * sizeof(*m->at)) };
    int rc = whole.at ? 0 : OPM_ENOMEM;

    for (size_t i = 0; rc == 0 && i < m->n;) {
        struct run series = series_at(m, i);
        bool gaps;

        longest(m, series, &gaps);
        if (!gaps) {
            memcpy(&whole.at[whole.n], &m->at[i], length(series) * sizeof(*m->at));
            whole.n += length(series);
        }
        i = series.to;
    }
    if (rc == 0)
        rc = meetings_match(&whole);
    c->at = rc == 0 ? mem_alloc((whole.n + 1) * sizeof(*c->at)) : NULL;
    if (rc == 0 && !c->at)
        rc = OPM_ENOMEM;
    for (size_t i = 0; rc == 0 && i < whole.n; i++)
        c->at[c->n++] = (struct known){ whole.at[i].rank, whole.at[i].num, whole.at[i].clock_ns };
    if (rc == 0 && c->n)
        qsort(c->at, c->n, sizeof(*c->at), by_rank);
    meetings_release(&whole);
    return rc;
}

/* That of a rank at a step or the next one that tells, else the one before; NULL: nothing tells. */
static const struct known *clock_of(const struct clocks *c, int64_t rank, int64_t num)
{
    size_t low = 0, high = c->n;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (c->at[mid].rank < rank || (c->at[mid].rank == rank && c->at[mid].num < num))
            low = mid + 1;
        else
            high = mid;
    }
    if (low < c->n && c->at[low].rank == rank)
        return &c->at[low];
    return low && c->at[low - 1].rank == rank ? &c->at[low - 1] : NULL;
}

static uint64_t apart(int64_t a, int64_t b)
{
    return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

/* Each of `own` gets the number of the one of `most` that ends nearest to it, in order. */
static void give_numbers(struct meetings *m, struct run own, struct run most, int64_t ahead_ns)
{
    size_t k = most.from;

    for (size_t i = own.from; i < own.to; i++, k++) {
        int64_t end_ns = add_ns(m->at[i].end_ns, -ahead_ns);
        size_t last = most.to - (own.to - i); /* those behind it need one each */

        while (k < last && apart(m->at[k + 1].end_ns, end_ns) < apart(m->at[k].end_ns, end_ns))
            k++;
        m->at[i].nth = m->at[k].nth;
    }
}

int meetings_align(struct meetings *m)
{
    struct clocks c = { 0 };
    bool gaps = false;
    int rc = 0;

    for (size_t i = 0; i < m->n && !gaps; i = series_at(m, i).to)
        longest(m, series_at(m, i), &gaps);
    if (gaps)
        rc = find_clocks(&c, m);
    for (size_t i = 0; rc == 0 && gaps && i < m->n;) {
        struct run series = series_at(m, i);
        bool some;
        struct run most = longest(m, series, &some);
        const struct known *there = clock_of(&c, m->at[most.from].rank, m->at[i].num);

        for (size_t at = series.from; some && there && at < series.to;) {
            struct run own = rank_at(m, at, series.to);
            const struct known *here = clock_of(&c, m->at[at].rank, m->at[i].num);

            if (here && length(own) < length(most))
                give_numbers(m, own, most, here->clock_ns - there->clock_ns);
            at = own.to;
        }
        i = series.to;
    }
    mem_free(c.at);
    return rc;
}
