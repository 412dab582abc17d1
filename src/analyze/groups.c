/* groups.c -- see groups.h.
 *
 * A counting sort of the durations by group, each thread on its own slice of the rows: count, turn
 * counts into places, scatter. Then every group's durations lie together and one thread at a time
 * takes a group to work out its figures. */
#include "analyze/groups.h"

#include "analyze/parallel.h"
#include "base/alloc.h"
#include <math.h>
#include <stdatomic.h>
#include <string.h>

/* Per thread and group. */
struct tally {
    size_t count; /* then: where its next duration goes */
    int64_t self_ns, max_self_ns;
    int64_t wait_ns;
    uint32_t waits;
    uint32_t warmup;
    uint32_t open;
};

struct pass {
    struct group_rows r;
    int width;
    struct tally *tally; /* [width][ngroup] */
    int64_t *values;     /* durations by group */
    size_t *first;       /* [ngroup + 1] into values */
    struct group_stats *out;
    atomic_uint next_group;
};

/* What it did itself before passing its call on is part of that call. */
static void count_passed_on(const struct group_rows *r, struct tally *tally, size_t row)
{
    uint32_t g = group_rows_of(r, r->query->passed_on[row]);

    if (g != GROUP_NONE && r->self && r->dur[row] >= 0 && !group_rows_warmup(r, row))
        tally[g].self_ns = add_ns(tally[g].self_ns, r->self[row]);
}

static size_t slice(const struct pass *p, int i)
{
    return parallel_slice(p->r.nrow, p->width, i);
}

/* Groups go by site alone, every execution counts, and nobody waits: most traces are such, and then
 * the pass is as fast as memory. */
static bool is_plain(const struct group_rows *r)
{
    return !r->query->row_group && !r->query->passed_on && !r->step && !r->record && !r->wait &&
           r->self;
}

static void count_plain(const struct group_rows *rows, struct tally *tally, size_t from, size_t to)
{
    const uint32_t *site = rows->site, *group = rows->query->group;
    const int64_t *dur = rows->dur, *self = rows->self;

    for (size_t row = from; row < to; row++) {
        uint32_t g = group[site[row]];
        struct tally *t;

        if (g == GROUP_NONE)
            continue;
        t = &tally[g];
        if (UNLIKELY(dur[row] < 0)) {
            t->open++;
            continue;
        }
        t->count++;
        t->self_ns = add_ns(t->self_ns, self[row]);
        t->max_self_ns = MAX(t->max_self_ns, self[row]);
    }
}

static void count_slice(void *user, int thread)
{
    const struct pass *p = user;
    const struct group_rows *r = &p->r;
    struct tally *tally = p->tally + (size_t)thread * r->query->ngroup;
    bool warmup = r->step || r->record;

    if (is_plain(r)) {
        count_plain(r, tally, slice(p, thread), slice(p, thread + 1));
        return;
    }
    for (size_t row = slice(p, thread), end = slice(p, thread + 1); row < end; row++) {
        uint32_t g = group_rows_of(r, row);
        struct tally *t;

        if (g == GROUP_NONE)
            continue;
        t = &tally[g];
        if (UNLIKELY(group_rows_passed_on(r, row))) {
            count_passed_on(r, tally, row);
            continue;
        }
        if (UNLIKELY(r->dur[row] < 0)) {
            t->open++;
            continue;
        }
        if (warmup && group_rows_warmup(r, row)) {
            t->warmup++;
            continue;
        }
        t->count++;
        if (r->self) {
            t->self_ns = add_ns(t->self_ns, r->self[row]);
            t->max_self_ns = MAX(t->max_self_ns, r->self[row]);
        }
        if (r->wait && r->wait[row] != OPM_NULL_I64) {
            t->wait_ns = add_ns(t->wait_ns, r->wait[row]);
            t->waits++;
        }
    }
}

static void scatter_slice(void *user, int thread)
{
    const struct pass *p = user;
    const struct group_rows *r = &p->r;
    struct tally *tally = p->tally + (size_t)thread * r->query->ngroup;
    const uint32_t *site = r->site, *group = r->query->group;
    const int64_t *dur = r->dur;
    int64_t *values = p->values;
    bool plain = is_plain(r);

    for (size_t row = slice(p, thread), end = slice(p, thread + 1); plain && row < end; row++) {
        uint32_t g = group[site[row]];

        if (g != GROUP_NONE && LIKELY(dur[row] >= 0))
            values[tally[g].count++] = dur[row];
    }
    for (size_t row = slice(p, thread), end = slice(p, thread + 1); !plain && row < end; row++) {
        uint32_t g = group_rows_counted(r, row);

        if (g != GROUP_NONE)
            p->values[tally[g].count++] = r->dur[row];
    }
}

/* Four sums side by side: one alone would wait for each addition before the next. */
static double squared_distance(const int64_t *values, size_t n, double from)
{
    double sum[4] = { 0 };
    size_t i = 0;

    for (; i + 4 <= n; i += 4) {
        for (size_t k = 0; k < 4; k++) {
            double d = (double)values[i + k] - from;

            sum[k] += d * d;
        }
    }
    for (; i < n; i++) {
        double d = (double)values[i] - from;

        sum[0] += d * d;
    }
    return (sum[0] + sum[1]) + (sum[2] + sum[3]);
}

void group_stats_of(struct group_stats *s, int64_t *values, size_t n, const double *q, size_t nq)
{
    uint64_t all = 0; /* modulo 2^64 */
    int64_t min, max;

    s->count = (int64_t)n;
    if (n == 0)
        return;
    min = max = values[0];
    for (size_t i = 0; i < n; i++) {
        min = MIN(min, values[i]);
        max = MAX(max, values[i]);
        all += (uint64_t)values[i];
    }
    s->min_ns = min;
    s->max_ns = max;
    s->total_ns = 0;
    if (min >= 0 && max <= INT64_MAX / (int64_t)n) {
        s->total_ns = (int64_t)all;
        s->mean_ns = (double)s->total_ns / (double)n;
    } else {
        double sum = 0;

        for (size_t i = 0; i < n; i++) {
            s->total_ns = add_ns(s->total_ns, values[i]);
            sum += (double)values[i];
        }
        s->mean_ns = sum / (double)n;
    }
    s->stdev_ns = n > 1 ? sqrt(squared_distance(values, n, s->mean_ns) / (double)(n - 1)) : NAN;
    quantiles_i64(values, n, q, nq, s->q);
}

static void finish_groups(void *user, int thread)
{
    struct pass *p = user;
    uint32_t g;

    (void)thread;
    for (;;) {
        g = atomic_fetch_add_explicit(&p->next_group, 1, memory_order_relaxed);
        if (g >= p->r.query->ngroup)
            break;
        group_stats_of(&p->out[g], p->values + p->first[g], p->first[g + 1] - p->first[g],
                       p->r.query->q, p->r.query->nq);
    }
}

int group_rows_open(struct group_rows *r, const struct store *st, const struct groups_query *query)
{
    const void *col;
    int rc;

    *r = (struct group_rows){ .query = query };
    r->nrow = store_nrow(st, TABLE_span);
    r->site = store_span_site(st);
    rc = store_column(st, TABLE_span, span_col_dur, &col);
    if (rc < 0)
        return rc;
    r->dur = col;
    rc = store_column(st, TABLE_span, span_col_self, &col);
    if (rc < 0)
        return rc;
    r->self = col;
    if (query->wait) {
        rc = store_column(st, TABLE_span, span_col_wait, &col);
        if (rc < 0)
            return rc;
        r->wait = col;
    }
    if (!query->skip_warmup)
        return 0;
    static const struct {
        enum table_id table;
        int warmup;
        int ref;
    } owners[] = {
        { TABLE_step, step_col_warmup, span_col_step },
        { TABLE_record, record_col_warmup, span_col_record },
    };
    for (size_t i = 0; i < ARRAY_SIZE(owners); i++) {
        const int64_t *warmup;
        size_t n = store_nrow(st, owners[i].table), row = 0;

        rc = store_column(st, owners[i].table, owners[i].warmup, &col);
        if (rc < 0)
            return rc;
        warmup = col;
        while (warmup && row < n && warmup[row] != 1)
            row++;
        if (!warmup || row == n)
            continue; /* no warm-up at all: do not even ask which step a span belongs to */
        rc = store_column(st, TABLE_span, owners[i].ref, &col);
        if (rc < 0)
            return rc;
        if (owners[i].table == TABLE_step) {
            r->step = col;
            r->step_warmup = warmup;
        } else {
            r->record = col;
            r->record_warmup = warmup;
        }
    }
    return 0;
}

/* Counts into places: groups one after another, within a group the threads in order. */
static void place(struct pass *p)
{
    uint32_t ngroup = p->r.query->ngroup;
    size_t at = 0;

    for (uint32_t g = 0; g < ngroup; g++) {
        p->first[g] = at;
        for (int i = 0; i < p->width; i++) {
            struct tally *t = &p->tally[(size_t)i * ngroup + g];
            size_t count = t->count;

            p->out[g].self_ns = add_ns(p->out[g].self_ns, t->self_ns);
            p->out[g].max_self_ns = MAX(p->out[g].max_self_ns, t->max_self_ns);
            p->out[g].wait_ns = add_ns(p->out[g].wait_ns, t->wait_ns);
            p->out[g].wait_count += t->waits;
            p->out[g].warmup_count += t->warmup;
            p->out[g].open_count += t->open;
            t->count = at;
            at += count;
        }
    }
    p->first[ngroup] = at;
}

int groups_compute(const struct store *st, const struct groups_query *query,
                   struct group_stats *out)
{
    struct pass p = { .out = out };
    uint32_t ngroup = query->ngroup;
    size_t bytes = 0;
    int rc;

    memset(out, 0, ngroup * sizeof(*out));
    if (ngroup == 0 || store_nrow(st, TABLE_span) == 0)
        return 0;
    rc = group_rows_open(&p.r, st, query);
    if (rc < 0)
        return rc;
    p.width = parallel_width(p.r.nrow);
    /* Many groups and few spans in each: a tally per thread would cost more than it saves. */
    if (ngroup > p.r.nrow / 16)
        p.width = 1;
    rc = OPM_ENOMEM;
    p.tally = mem_calloc((size_t)p.width * ngroup, sizeof(*p.tally));
    p.first = mem_calloc((size_t)ngroup + 1, sizeof(*p.first));
    if (!p.tally || !p.first)
        goto out;
    parallel_run(p.width, count_slice, &p);
    place(&p);
    bytes = (p.first[ngroup] + 1) * sizeof(*p.values);
    p.values = mem_map(bytes);
    if (!p.values)
        goto out;
    parallel_run(p.width, scatter_slice, &p);
    parallel_run(p.width, finish_groups, &p);
    rc = 0;
out:
    if (p.values)
        mem_unmap(p.values, bytes);
    mem_free(p.first);
    mem_free(p.tally);
    return rc;
}
