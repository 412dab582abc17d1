/* arrivals.c -- which ranks the others wait for at collectives. */
#include "analyze/analysis.h"
#include "analyze/groups.h"
#include "analyze/meetings.h"
#include "analyze/step_list.h"
#include "base/alloc.h"
#include "base/error.h"
#include <stdlib.h>

static int add_meeting(const struct meetings *m, size_t i, struct table *out)
{
    struct meeting_order o = meeting_order(m, i);
    int rc = 0;

    for (size_t k = m->first[i]; rc == 0 && k < m->first[i + 1]; k++) {
        const struct arrival *a = &m->at[k];
        struct cell c[arrivals_col_COUNT];

        c[arrivals_col_collective] = cell_i64((int64_t)i + 1);
        c[arrivals_col_name] = cell_str(a->name);
        c[arrivals_col_num] = cell_i64(a->num);
        c[arrivals_col_nth] = cell_i64(a->nth);
        c[arrivals_col_warmup] = cell_i64(a->warmup);
        c[arrivals_col_rank] = cell_i64(a->rank);
        c[arrivals_col_span] = cell_id(a->span);
        c[arrivals_col_came_ns] = cell_i64(arrival_came_ns(a));
        c[arrivals_col_behind_ns] = cell_i64(arrival_came_ns(a) - o.first_ns);
        c[arrivals_col_waited_ns] = cell_i64(o.last_ns - arrival_came_ns(a));
        c[arrivals_col_last] = cell_i64(k == o.last);
        c[arrivals_col_late_ns] = k == o.last ? cell_i64(o.late_ns) : cell_null();
        rc = table_add(out, c);
    }
    return rc;
}

int analyze_arrivals(const struct store *st, struct table *out, opm_error *err)
{
    struct meetings m;
    int rc = meetings_get(&m, st);

    for (size_t i = 0; rc == 0 && i < m.count; i++)
        rc = add_meeting(&m, i, out);
    meetings_release(&m);
    return rc ? opm__fail(err, rc, "arrivals: out of memory") : 0;
}

int analyze_exchanges(const struct store *st, struct table *out, opm_error *err)
{
    struct meetings m;
    int rc = exchanges_get(&m, st);

    for (size_t i = 0; rc == 0 && i < m.n; i++) {
        const struct arrival *a = &m.at[i];
        struct cell c[exchanges_col_COUNT];

        c[exchanges_col_span] = cell_id(a->span);
        c[exchanges_col_rank] = cell_i64(a->rank);
        c[exchanges_col_num] = cell_i64(a->num);
        c[exchanges_col_name] = cell_str(a->name);
        c[exchanges_col_nth] = cell_i64(a->nth);
        c[exchanges_col_warmup] = cell_i64(a->warmup);
        c[exchanges_col_ts] = cell_i64(a->ts_ns);
        c[exchanges_col_dur] = cell_i64(a->end_ns - a->ts_ns);
        rc = table_add(out, c);
    }
    meetings_release(&m);
    return rc ? opm__fail(err, rc, "exchanges: out of memory") : 0;
}

/* Sums of one rank. */
struct tally {
    int64_t rank, clock_ns;
    int64_t collectives, last;
    int64_t late_ns, others_ns, waited_ns;
    int64_t from_ns, to_ns; /* of its collectives */
    int64_t steps_ns;       /* of its steps that count; 0: it has none */
};

static int by_rank(const void *va, const void *vb)
{
    const struct tally *a = va, *b = vb;

    return a->rank < b->rank ? -1 : a->rank > b->rank;
}

static struct tally *tally_of(struct tally *t, size_t n, int64_t rank)
{
    const struct tally key = { .rank = rank };

    return bsearch(&key, t, n, sizeof(*t), by_rank);
}

/* One for every rank of the meetings, by rank. */
static size_t tallies_get(struct tally *t, const struct meetings *m)
{
    size_t n = 0;

    for (size_t i = 0; i < m->n; i++)
        t[i] = (struct tally){ .rank = m->at[i].rank,
                               .clock_ns = m->at[i].clock_ns,
                               .from_ns = INT64_MAX,
                               .to_ns = INT64_MIN };
    qsort(t, m->n, sizeof(*t), by_rank);
    for (size_t i = 0; i < m->n; i++)
        if (n == 0 || t[i].rank != t[n - 1].rank)
            t[n++] = t[i];
    return n;
}

static void count(struct tally *t, size_t n, const struct meetings *m, size_t i)
{
    struct meeting_order o = meeting_order(m, i);
    struct tally *last = tally_of(t, n, m->at[o.last].rank);

    for (size_t k = m->first[i]; k < m->first[i + 1]; k++) {
        struct tally *own = tally_of(t, n, m->at[k].rank);

        own->collectives++;
        own->waited_ns = add_ns(own->waited_ns, o.last_ns - arrival_came_ns(&m->at[k]));
        own->from_ns = MIN(own->from_ns, m->at[k].ts_ns);
        own->to_ns = MAX(own->to_ns, m->at[k].end_ns);
    }
    last->last++;
    last->late_ns = add_ns(last->late_ns, o.late_ns);
    last->others_ns = add_ns(last->others_ns, o.others_ns);
}

static int add_tally(struct table *out, const struct tally *t)
{
    int64_t total_ns = t->steps_ns ? t->steps_ns : t->to_ns - t->from_ns;
    struct cell c[stragglers_col_COUNT];

    c[stragglers_col_rank] = cell_i64(t->rank);
    c[stragglers_col_collectives] = cell_i64(t->collectives);
    c[stragglers_col_last_count] = cell_i64(t->last);
    c[stragglers_col_late_ns] = cell_i64(t->late_ns);
    c[stragglers_col_others_ns] = cell_i64(t->others_ns);
    c[stragglers_col_waited_ns] = cell_i64(t->waited_ns);
    c[stragglers_col_total_ns] = cell_i64(total_ns);
    c[stragglers_col_share] =
        total_ns > 0 ? cell_f64((double)t->late_ns / (double)total_ns) : cell_null();
    c[stragglers_col_clock_ns] = cell_i64(t->clock_ns);
    return table_add(out, c);
}

int analyze_stragglers(const struct store *st, struct table *out, opm_error *err)
{
    struct step_list l = { 0 };
    struct meetings m;
    struct tally *t = NULL;
    size_t n = 0;
    int rc = meetings_get(&m, st);

    if (rc == 0)
        rc = step_list_get(&l, st);
    if (rc == 0) {
        t = mem_alloc((m.n + 1) * sizeof(*t));
        rc = t ? 0 : OPM_ENOMEM;
    }
    if (rc == 0)
        n = tallies_get(t, &m);
    for (size_t i = 0; rc == 0 && i < m.count; i++)
        if (!m.at[m.first[i]].warmup)
            count(t, n, &m, i);
    for (size_t i = 0; rc == 0 && !l.found && i < l.n; i++) {
        struct tally *own = tally_of(t, n, l.row[i].rank);

        if (own && !l.row[i].warmup)
            own->steps_ns = add_ns(own->steps_ns, l.row[i].to_ns - l.row[i].from_ns);
    }
    for (size_t i = 0; rc == 0 && i < n; i++)
        if (t[i].collectives)
            rc = add_tally(out, &t[i]);
    mem_free(t);
    step_list_release(&l);
    meetings_release(&m);
    return rc ? opm__fail(err, rc, "stragglers: out of memory") : 0;
}
