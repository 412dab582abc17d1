/* interrupted.c -- see interrupted.h.
 *
 * Most traces have groups whose longest execution tells that none was interrupted; only the others
 * are looked at, and if there are none, no span is. */
#include "analyze/interrupted.h"

#include "analyze/parallel.h"
#include "base/alloc.h"
#include "base/u64map.h"
#include <stdatomic.h>
#include <string.h>

#define AROUND_ROWS 64 /* rows that are looked at for executions around one */
#define GATHERERS 2    /* each fills the room of a group from its own end */

/* What is asked of a group. */
struct suspect {
    size_t first, n;    /* its self times; n 0: it is none */
    double median_ns;   /* of them */
    double more_ns;     /* longer ones are far from it; 0: none is looked for */
    uint32_t far, kept; /* executions that are far; of these, ... */
    uint32_t steps;     /* steps that have such ones */
    uint32_t last_step; /* the last of these */
};

/* An execution that is far from the others of its group. */
struct far {
    uint32_t row, group;
    bool phase; /* so are those around it */
};

/* Rows that are long enough to be far, whatever the median. */
struct found {
    uint32_t *row;
    size_t n, cap;
    bool failed;
};

struct search {
    struct group_rows rows;
    const uint32_t *step; /* of every row, or NULL */
    struct span_tracks track;
    size_t nstep;
    struct suspect *suspect; /* per group */
    int64_t *value;
    int width;
    atomic_uint next_group;
    atomic_bool any; /* group has what is far */
    struct found found[GATHERERS];
    struct far *far;
    size_t nfar, far_cap;
    uint8_t *is_far; /* a bit per row */
};

static bool is_suspect(const struct group_stats *s)
{
    double mean_ns = (double)s->self_ns / (double)MAX(s->count, 1);

    return s->count >= INTERRUPTED_EXECUTIONS && s->max_self_ns > INTERRUPTED_LEAST_NS &&
           (double)s->max_self_ns > 2 * mean_ns;
}

static void gather_slice(void *user, int thread)
{
    struct search *s = user;
    struct found *found = &s->found[thread];
    uint32_t ngroup = s->rows.query->ngroup;
    size_t end = parallel_slice(s->rows.nrow, s->width, thread + 1);
    uint32_t *filled = mem_calloc(ngroup, sizeof(*filled));

    found->failed = !filled;
    for (size_t row = parallel_slice(s->rows.nrow, s->width, thread); filled && row < end; row++) {
        uint32_t g = group_rows_of(&s->rows, row), at;
        const struct suspect *u;

        if (g == GROUP_NONE || !s->suspect[g].n || group_rows_counted(&s->rows, row) == GROUP_NONE)
            continue;
        u = &s->suspect[g];
        at = filled[g]++;
        s->value[u->first + (thread ? u->n - 1 - at : at)] = s->rows.self[row];
        if (LIKELY(s->rows.self[row] <= INTERRUPTED_LEAST_NS))
            continue;
        if (GROW(found->row, found->cap, found->n + 1))
            found->row[found->n++] = (uint32_t)row;
        else
            found->failed = true;
    }
    mem_free(filled);
}

/* Self times of the suspects, group by group, and the rows that may be far. */
static int gather(struct search *s, const struct group_stats *stats)
{
    uint32_t ngroup = s->rows.query->ngroup;
    size_t n = 0;
    bool failed = false;

    for (uint32_t g = 0; g < ngroup; g++) {
        s->suspect[g].first = n;
        s->suspect[g].n = is_suspect(&stats[g]) ? (size_t)stats[g].count : 0;
        n += s->suspect[g].n;
    }
    s->value = mem_alloc(n * sizeof(*s->value));
    if (!s->value)
        return OPM_ENOMEM;
    s->width = ngroup > s->rows.nrow / 16 ? 1 : MIN(parallel_width(s->rows.nrow), GATHERERS);
    parallel_run(s->width, gather_slice, s);
    for (int i = 0; i < s->width; i++)
        failed |= s->found[i].failed;
    return failed ? OPM_ENOMEM : 0;
}

/* What is far in each group. */
static void judge_some(void *user, int thread)
{
    static const double half = 0.5;
    struct search *s = user;

    (void)thread;
    for (;;) {
        uint32_t g = atomic_fetch_add_explicit(&s->next_group, 1, memory_order_relaxed);
        struct suspect *u;
        int64_t *v;
        double more_ns;
        size_t far = 0;

        if (g >= s->rows.query->ngroup)
            break;
        u = &s->suspect[g];
        if (!u->n)
            continue;
        v = s->value + u->first;
        quantiles_i64(v, u->n, &half, 1, &u->median_ns);
        more_ns =
            MAX(INTERRUPTED_TIMES * u->median_ns, u->median_ns + (double)INTERRUPTED_LEAST_NS);
        for (size_t i = 0; i < u->n; i++)
            far += (double)v[i] > more_ns;
        if (!far || far > MAX(u->n / INTERRUPTED_FEW, 1))
            continue;
        u->more_ns = more_ns;
        atomic_store_explicit(&s->any, true, memory_order_relaxed);
    }
}

/* True if anything is. */
static bool judge_groups(struct search *s)
{
    parallel_run(s->width, judge_some, s);
    return s->any;
}

static int find_far(struct search *s)
{
    s->is_far = mem_calloc(s->rows.nrow / 8 + 1, 1);
    if (!s->is_far)
        return OPM_ENOMEM;
    for (int i = 0; i < s->width; i++) {
        for (size_t k = 0; k < s->found[i].n; k++) {
            uint32_t row = s->found[i].row[k], g = group_rows_of(&s->rows, row);

            if (s->suspect[g].more_ns <= 0 || (double)s->rows.self[row] <= s->suspect[g].more_ns)
                continue;
            if (!GROW(s->far, s->far_cap, s->nfar + 1))
                return OPM_ENOMEM;
            s->far[s->nfar++] = (struct far){ .row = row, .group = g };
            s->is_far[row / 8] |= (uint8_t)(1 << row % 8);
        }
    }
    return 0;
}

/* Executions on the track of a row, from it on in one direction: how many of the first few are far.
 */
static unsigned far_beside(const struct search *s, size_t row, int direction)
{
    unsigned met = 0, far = 0;
    size_t at = row;

    for (int i = 0; i < AROUND_ROWS && met < INTERRUPTED_AROUND; i++) {
        if (direction < 0 ? at == 0 : at + 1 == s->rows.nrow)
            break;
        at = direction < 0 ? at - 1 : at + 1;
        if (span_tracks_get(&s->track, at) != span_tracks_get(&s->track, row) ||
            group_rows_counted(&s->rows, at) == GROUP_NONE)
            continue;
        met++;
        far += s->is_far[at / 8] >> at % 8 & 1;
    }
    return far;
}

static uint32_t step_of(const struct search *s, size_t row)
{
    return s->step && s->step[row] < s->nstep ? s->step[row] : OPM_NULL_ID;
}

static void judge_executions(struct search *s)
{
    for (size_t i = 0; i < s->nfar; i++) {
        struct far *f = &s->far[i];
        struct suspect *u = &s->suspect[f->group];
        uint32_t step = step_of(s, f->row);

        f->phase = far_beside(s, f->row, -1) + far_beside(s, f->row, 1) >= INTERRUPTED_PHASE;
        if (f->phase)
            continue;
        /* Rows are in the order of time, and so are the steps of a group, all but. */
        u->steps += step == OPM_NULL_ID || !u->kept || step != u->last_step;
        u->last_step = step;
        u->kept++;
    }
}

static void tell(const struct search *s, uint32_t section, uint32_t alike,
                 struct group_stats *stats, struct iterations *iterations)
{
    for (size_t i = 0; i < s->nfar; i++) {
        const struct far *f = &s->far[i];
        const struct suspect *u = &s->suspect[f->group];
        struct iterations *it = &iterations[f->group];
        struct group_stats *g = &stats[f->group];
        int64_t beyond_ns = s->rows.self[f->row] - (int64_t)(u->median_ns + 0.5);

        if (f->phase || (it->steps ? u->steps > MAX(it->steps / INTERRUPTED_FEW, 1)
                                   : f->group % section >= alike))
            continue;
        g->interrupted++;
        g->interrupted_ns = add_ns(g->interrupted_ns, beyond_ns);
        if (step_of(s, f->row) == OPM_NULL_ID)
            it->outside_interrupted_ns = add_ns(it->outside_interrupted_ns, beyond_ns);
        else
            it->interrupted_ns = add_ns(it->interrupted_ns, beyond_ns);
    }
    /* Steps that do not count may be among them. */
    for (uint32_t g = 0; g < s->rows.query->ngroup; g++) {
        struct iterations *it = &iterations[g];

        it->interrupted_ns = MIN(it->interrupted_ns, it->self_ns);
        it->outside_interrupted_ns = MIN(it->outside_interrupted_ns, it->outside_ns);
    }
}

static int search_run(struct search *s, const struct store *st, const struct group_stats *stats)
{
    const void *step = NULL;
    int rc = 0;

    s->nstep = store_nrow(st, TABLE_step);
    if (s->nstep)
        rc = store_column(st, TABLE_span, span_col_step, &step);
    s->track = store_span_tracks(st);
    s->step = step;
    s->suspect = mem_calloc(s->rows.query->ngroup, sizeof(*s->suspect));
    if (rc == 0 && !s->suspect)
        rc = OPM_ENOMEM;
    if (rc == 0)
        rc = gather(s, stats);
    if (rc == 0 && judge_groups(s))
        rc = find_far(s);
    if (rc == 0)
        judge_executions(s);
    return rc;
}

int interrupted_find(const struct store *st, const struct groups_query *query, uint32_t section,
                     uint32_t alike, struct group_stats *stats, struct iterations *iterations)
{
    struct search s = { 0 };
    bool any = false;
    int rc;

    for (uint32_t g = 0; g < query->ngroup && !any; g++)
        any = is_suspect(&stats[g]);
    if (!any)
        return 0;
    rc = group_rows_open(&s.rows, st, query);
    if (rc == 0 && s.rows.self)
        rc = search_run(&s, st, stats);
    if (rc == 0 && s.rows.self)
        tell(&s, section, alike, stats, iterations);
    mem_free(s.suspect);
    mem_free(s.value);
    for (int i = 0; i < GATHERERS; i++)
        mem_free(s.found[i].row);
    mem_free(s.far);
    mem_free(s.is_far);
    return rc;
}
