/* fleet_late.c -- who is late at collectives and what it costs, by rank, by step and by machine. */
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "catalog/questions.h"
#include "catalog/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define LATE_SHARE 0.01   /* of the steps' time, from which on a rank is named */
#define LATE_CHANCE 1e-3  /* that no rank is late and one looks so all the same, at most */
#define CELLS_MAX 1000000 /* of a heat map: beyond, steps are put together */

/* One rank in one step: what collectives of it told. */
struct heat_cell {
    int64_t num, rank;
    int64_t waited_ns, cost_ns, late_ns;
    int64_t last, collectives;
};

struct heat_cells {
    struct heat_cell *at;
    size_t n, cap;
};

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_step(const void *va, const void *vb)
{
    const struct heat_cell *a = va, *b = vb;

    ORDER(a->num, b->num);
    ORDER(a->rank, b->rank);
    return 0;
}

/* Where steps are not marked each collective stands for one. */
static int64_t step_of(const struct meetings *m, size_t meeting)
{
    int64_t num = m->at[m->first[meeting]].num;

    return num >= 0 ? num : -2 - (int64_t)meeting;
}

/* By step, then rank, one for each. */
static int cells_get(struct heat_cells *c, const struct meetings *m)
{
    size_t kept = 0;

    c->n = 0;
    if (!GROW(c->at, c->cap, m->n + 1))
        return OPM_ENOMEM;
    for (size_t i = 0; i < m->count; i++) {
        struct meeting_order o = meeting_order(m, i);

        for (size_t k = m->first[i]; k < m->first[i + 1]; k++) {
            bool last = k == o.last;

            c->at[c->n++] = (struct heat_cell){ .num = step_of(m, i),
                                                .rank = m->at[k].rank,
                                                .waited_ns = o.last_ns - arrival_came_ns(&m->at[k]),
                                                .cost_ns = last ? o.last_ns - o.next_ns : 0,
                                                .late_ns = last ? o.late_ns : 0,
                                                .last = last,
                                                .collectives = 1 };
        }
    }
    if (c->n)
        qsort(c->at, c->n, sizeof(*c->at), by_step);
    for (size_t i = 0; i < c->n; i++) {
        struct heat_cell *to = kept ? &c->at[kept - 1] : NULL, *from = &c->at[i];

        if (!to || by_step(to, from)) {
            c->at[kept++] = *from;
            continue;
        }
        to->waited_ns = add_ns(to->waited_ns, from->waited_ns);
        to->cost_ns = add_ns(to->cost_ns, from->cost_ns);
        to->late_ns = add_ns(to->late_ns, from->late_ns);
        to->last += from->last;
        to->collectives += from->collectives;
    }
    c->n = kept;
    return 0;
}

/* -- late -- */

struct tally {
    int64_t rank, clock_ns;
    int64_t steps, worst;
    double others; /* sum over its steps of 1 / ranks: how often it would be the worst by chance */
    /* The same of steps in which somebody costs LATE_SHARE of a step or more. */
    int64_t dear_steps, dear_worst;
    double dear_others;
    int64_t grouped, group_ns; /* steps in which it is one of those that come late together */
    int64_t collectives, last;
    int64_t waited_ns, cost_ns, late_ns;
    int64_t from_ns, to_ns; /* of its collectives */
    int64_t total_ns;       /* of its steps; 0: it has none */
};

struct tallies {
    struct tally *at;
    size_t n, cap;
    struct u64map of_rank;
    struct heat_cells cells;
    double step_ns; /* of all ranks and steps, on average; 0: unknown */
    int64_t *room;
    size_t room_cap;
};

static struct tally *tally_of(struct tallies *t, int64_t rank)
{
    const uint64_t *at = u64map_get(&t->of_rank, (uint64_t)rank);

    if (at)
        return &t->at[*at];
    if (!GROW(t->at, t->cap, t->n + 1) || u64map_put(&t->of_rank, (uint64_t)rank, t->n))
        return NULL;
    t->at[t->n] = (struct tally){ .rank = rank, .from_ns = INT64_MAX, .to_ns = INT64_MIN };
    return &t->at[t->n++];
}

static int by_number(const void *va, const void *vb)
{
    ORDER(*(const int64_t *)va, *(const int64_t *)vb);
    return 0;
}

/* Those of a step that come late together: at most a quarter of its ranks, behind the widest gap.
 */
static int tally_group(struct tallies *t, const struct heat_cell *c, size_t n)
{
    size_t k = 0;
    int64_t gap = 0;

    if (n < 4)
        return 0;
    if (!GROW(t->room, t->room_cap, n))
        return OPM_ENOMEM;
    for (size_t i = 0; i < n; i++)
        t->room[i] = c[i].waited_ns;
    qsort(t->room, n, sizeof(*t->room), by_number);
    for (size_t i = 1; i <= n / 4; i++)
        if (t->room[i] - t->room[i - 1] > gap) {
            gap = t->room[i] - t->room[i - 1];
            k = i;
        }
    if (k == 0 || (double)gap < LATE_SHARE * t->step_ns)
        return 0;
    for (size_t i = 0; i < n; i++)
        if (c[i].waited_ns < t->room[k]) {
            struct tally *own = tally_of(t, c[i].rank);

            own->grouped++;
            own->group_ns = add_ns(own->group_ns, gap);
        }
    return 0;
}

static int tally_step(struct tallies *t, const struct heat_cell *c, size_t n)
{
    const struct heat_cell *worst = &c[0];
    bool dear;

    for (size_t i = 1; i < n; i++)
        worst = c[i].cost_ns > worst->cost_ns ? &c[i] : worst;
    dear = worst->cost_ns > 0 && (double)worst->cost_ns >= LATE_SHARE * t->step_ns;
    for (size_t i = 0; i < n; i++) {
        struct tally *own = tally_of(t, c[i].rank);

        own->steps++;
        own->others += 1.0 / (double)n;
        own->dear_steps += dear;
        own->dear_others += dear ? 1.0 / (double)n : 0;
        own->collectives += c[i].collectives;
        own->last += c[i].last;
        own->waited_ns = add_ns(own->waited_ns, c[i].waited_ns);
        own->cost_ns = add_ns(own->cost_ns, c[i].cost_ns);
        own->late_ns = add_ns(own->late_ns, c[i].late_ns);
    }
    tally_of(t, worst->rank)->worst += worst->cost_ns > 0;
    tally_of(t, worst->rank)->dear_worst += dear;
    return tally_group(t, c, n);
}

static int tally_window(void *user, const struct walk_window *w)
{
    struct tallies *t = user;
    const struct meetings *m = &w->meetings;
    struct tally *own;
    int rc = cells_get(&t->cells, m);

    for (size_t i = 0; i < m->n && rc == 0; i++) {
        own = tally_of(t, m->at[i].rank);
        if (!own)
            return OPM_ENOMEM;
        own->clock_ns = m->at[i].clock_ns;
        own->from_ns = MIN(own->from_ns, m->at[i].ts_ns);
        own->to_ns = MAX(own->to_ns, m->at[i].end_ns);
    }
    for (size_t i = 0, end; i < t->cells.n && rc == 0; i = end) {
        for (end = i + 1; end < t->cells.n && t->cells.at[end].num == t->cells.at[i].num;)
            end++;
        rc = tally_step(t, &t->cells.at[i], end - i);
    }
    return rc;
}

static int each_total(void *user, struct fleetrows *rows)
{
    struct tallies *t = user;
    const uint64_t *at = u64map_get(&t->of_rank, (uint64_t)fleetrows_int(rows, 0));

    if (at)
        t->at[*at].total_ns = fleetrows_size(rows, 1);
    return 0;
}

static int each_mean(void *user, struct fleetrows *rows)
{
    struct tallies *t = user;

    if (fleetrows_int(rows, 0) > 0)
        t->step_ns = fleetrows_real(rows, 1) / (double)fleetrows_int(rows, 0);
    return 0;
}

static int tallies_get(struct tallies *t, struct fleetdb *db, const char *job, opm_error *err)
{
    int rc = ask_rows(db, job, each_mean, t, err,
                      "SELECT count(*) AS n, sum(total_ns) AS all_ns FROM rank_step WHERE job = %s"
                      " AND warmup = 0",
                      ASK_JOB);

    if (rc == 0)
        rc = walk_meetings(db, job, tally_window, t, err);
    if (rc == 0)
        rc = ask_rows(db, job, each_total, t, err,
                      "SELECT rank, sum(total_ns) AS all_ns FROM rank_step WHERE job = %s"
                      " AND warmup = 0 GROUP BY rank",
                      ASK_JOB);
    for (size_t i = 0; i < t->n; i++)
        if (t->at[i].total_ns <= 0)
            t->at[i].total_ns = t->at[i].to_ns - t->at[i].from_ns;
    return rc;
}

static void tallies_release(struct tallies *t)
{
    mem_free(t->at);
    mem_free(t->cells.at);
    mem_free(t->room);
    u64map_release(&t->of_rank);
}

/* That k or more of n happen by chance, each with probability p. */
static double chance_of(int64_t k, int64_t n, double p)
{
    double sum = 0;

    if (p <= 0 || p >= 1)
        return 1;
    for (int64_t i = k; i <= n && i < k + 200; i++)
        sum += exp(lgamma((double)n + 1) - lgamma((double)i + 1) - lgamma((double)(n - i) + 1) +
                   (double)i * log(p) + (double)(n - i) * log1p(-p));
    return fmin(sum, 1);
}

/* It costs enough, and in too many steps for that to be chance: of all steps, or of those in which
 * somebody costs much. Whoever of many ranks, and two tries. */
static bool is_late(const struct tallies *t, const struct tally *own)
{
    double all, dear = 1;

    if (!own->steps || own->total_ns <= 0 ||
        (double)own->cost_ns < LATE_SHARE * (double)own->total_ns)
        return false;
    all = chance_of(own->worst, own->steps, own->others / (double)own->steps);
    if (own->dear_steps)
        dear =
            chance_of(own->dear_worst, own->dear_steps, own->dear_others / (double)own->dear_steps);
    return 2 * (double)t->n * fmin(all, dear) <= LATE_CHANCE;
}

static bool is_grouped(const struct tallies *t, const struct tally *own)
{
    return own->steps && own->total_ns > 0 &&
           (double)own->group_ns >= LATE_SHARE * (double)own->total_ns &&
           (double)t->n * chance_of(own->grouped, own->steps, 0.25) <= LATE_CHANCE;
}

/* Ranks that are late together, where there are several and none of them is so alone. */
static size_t count_grouped(const struct tallies *t)
{
    size_t n = 0;

    for (size_t i = 0; i < t->n; i++) {
        if (is_late(t, &t->at[i]))
            return 0;
        n += is_grouped(t, &t->at[i]);
    }
    return n;
}

static int by_cost(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;

    ORDER(b[late_col_cost_ns].i, a[late_col_cost_ns].i);
    ORDER(a[late_col_rank].i, b[late_col_rank].i);
    return 0;
}

int ask_late(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct tallies t = { 0 };
    struct rank_hosts hosts = { 0 };
    int rc = tallies_get(&t, db, job, err);

    size_t grouped = rc == 0 ? count_grouped(&t) : 0;

    if (rc == 0)
        rc = rank_hosts_get(&hosts, db, job, err);
    for (size_t i = 0; i < t.n && rc == 0; i++) {
        const struct tally *own = &t.at[i];
        struct answer_cell *c = own->collectives ? answer_add(out) : NULL;

        if (!own->collectives)
            continue;
        if (!c) {
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
            break;
        }
        c[late_col_rank].i = own->rank;
        c[late_col_host].text = answer_keep(out, rank_hosts_at(&hosts, own->rank));
        c[late_col_late].i = is_late(&t, own);
        c[late_col_cost_ns].i = own->cost_ns;
        if (own->total_ns > 0)
            c[late_col_share].f = (double)own->cost_ns / (double)own->total_ns;
        if (grouped > 1 && is_grouped(&t, own))
            c[late_col_together_ns].i = own->group_ns;
        c[late_col_steps_worst].i = own->worst;
        c[late_col_steps].i = own->steps;
        c[late_col_last_count].i = own->last;
        c[late_col_collectives].i = own->collectives;
        c[late_col_late_ns].i = own->late_ns;
        c[late_col_waited_ns].i = own->waited_ns;
        c[late_col_clock_ns].i = own->clock_ns;
    }
    answer_sort(out, by_cost);
    rank_hosts_release(&hosts);
    tallies_release(&t);
    return rc;
}

/* -- heat map -- */

struct heat {
    struct answer *out;
    struct heat_cells cells;
    int64_t bin;           /* steps in a row */
    int64_t ordinal, last; /* of the step that was last */
    int64_t first_num;     /* of the row of steps */
    struct u64map row;     /* rank -> row */
    struct fleetdb *db;
    const char *job, *num; /* as walk_window.num */
    opm_error *err;
};

/* The row of a rank in the present bin of steps. */
static struct answer_cell *heat_row(struct heat *h, int64_t num, int64_t rank)
{
    const uint64_t *at;
    struct answer_cell *c;

    if (h->ordinal == 0 || num != h->last) {
        if (h->ordinal++ % h->bin == 0) {
            u64map_release(&h->row);
            h->first_num = num;
        }
        h->last = num;
    }
    at = u64map_get(&h->row, (uint64_t)rank);
    if (at)
        return &h->out->cell[*at * heatmap_col_COUNT];
    if (u64map_put(&h->row, (uint64_t)rank, h->out->nrow))
        return NULL;
    c = answer_add(h->out);
    if (c) {
        c[heatmap_col_num].i = h->first_num;
        c[heatmap_col_rank].i = rank;
        c[heatmap_col_total_ns].i = 0;
    }
    return c;
}

static void add_cell(struct answer_cell *c, int64_t ns)
{
    c->i = c->i == FLEETDB_NONE ? ns : add_ns(c->i, ns);
}

static int each_heat(void *user, struct fleetrows *rows)
{
    struct heat *h = user;
    const struct heat_cell key = { .num = fleetrows_int(rows, 0), .rank = fleetrows_int(rows, 1) };
    const struct heat_cell *found =
        h->cells.n ? bsearch(&key, h->cells.at, h->cells.n, sizeof(key), by_step) : NULL;
    struct answer_cell *c = heat_row(h, key.num, key.rank);
    int64_t total_ns = fleetrows_size(rows, 2);

    if (!c)
        return OPM_ENOMEM;
    add_cell(&c[heatmap_col_total_ns], total_ns);
    if (found) {
        add_cell(&c[heatmap_col_waited_ns], found->waited_ns);
        add_cell(&c[heatmap_col_cost_ns], found->cost_ns);
    }
    /* Who met nobody waited for nobody that we know of: that is not 0. */
    if (c[heatmap_col_waited_ns].i != FLEETDB_NONE)
        c[heatmap_col_own_ns].i = MAX(c[heatmap_col_total_ns].i - c[heatmap_col_waited_ns].i, 0);
    return 0;
}

static int heat_steps(struct heat *h, int64_t from, int64_t to)
{
    return ask_rows(
        h->db, h->job, each_heat, h, h->err,
        "SELECT num + 0 AS step, rank, sum(total_ns) AS all_ns FROM rank_step WHERE job = %s"
        " AND warmup = 0 AND %s >= %lld AND %s <= %lld GROUP BY step, rank"
        " ORDER BY step, rank",
        ASK_JOB, h->num, (long long)from, h->num, (long long)to);
}

static int heat_window(void *user, const struct walk_window *w)
{
    struct heat *h = user;
    int rc = cells_get(&h->cells, &w->meetings);

    h->num = w->num;
    /* Steps without collectives before the first and between windows come along. */
    if (rc == 0 && w->to_num >= 0)
        rc = heat_steps(h, add_ns(h->last, 1), w->to_num);
    return rc;
}

static int each_size(void *user, struct fleetrows *rows)
{
    int64_t *size = user;

    *size = fleetrows_size(rows, 0);
    return 0;
}

int ask_heatmap(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct heat h = {
        .out = out, .db = db, .job = job, .err = err, .bin = 1, .last = -1, .num = "num"
    };
    int64_t rows = 0;
    int rc = ask_rows(db, job, each_size, &rows, err,
                      "SELECT count(*) FROM rank_step WHERE job = %s AND warmup = 0", ASK_JOB);

    if (rc == 0) {
        h.bin = MAX(rows / CELLS_MAX + (rows % CELLS_MAX != 0), 1);
        rc = walk_meetings(db, job, heat_window, &h, err);
    }
    h.cells.n = 0;
    if (rc == 0)
        rc = heat_steps(&h, add_ns(h.last, 1), INT64_MAX);
    u64map_release(&h.row);
    mem_free(h.cells.at);
    return rc;
}

/* -- machines -- */

struct machine {
    const char *name;
    int64_t jobs, late_jobs, ranks, cost_ns, total_ns;
    bool late_here;
    size_t job; /* that was seen last, from 1 */
};

struct machines {
    struct machine *at;
    size_t n, cap;
    struct answer *out;
    char **job;
    size_t njob, job_cap;
};

static int each_job(void *user, struct fleetrows *rows)
{
    struct machines *m = user;
    const char *text;

    if (!GROW(m->job, m->job_cap, m->njob + 1))
        return OPM_ENOMEM;
    text = fleetrows_text(rows, 0, NULL);
    m->job[m->njob] = mem_strdup(text ? text : "");
    return m->job[m->njob++] ? 0 : OPM_ENOMEM;
}

static struct machine *machine_of(struct machines *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->at[i].name, name) == 0)
            return &m->at[i];
    if (!GROW(m->at, m->cap, m->n + 1))
        return NULL;
    m->at[m->n] = (struct machine){ .name = answer_keep(m->out, name) };
    return m->at[m->n].name ? &m->at[m->n++] : NULL;
}

static int count_job(struct machines *m, struct fleetdb *db, size_t job, opm_error *err)
{
    struct tallies t = { 0 };
    struct rank_hosts hosts = { 0 };
    int rc = tallies_get(&t, db, m->job[job], err);

    if (rc == 0)
        rc = rank_hosts_get(&hosts, db, m->job[job], err);
    for (size_t i = 0; i < hosts.n && rc == 0; i++) {
        struct machine *own = machine_of(m, hosts.at[i].host[0] ? hosts.at[i].host : "(unknown)");
        const uint64_t *at = u64map_get(&t.of_rank, (uint64_t)hosts.at[i].rank);

        if (!own)
            return opm__fail(err, OPM_ENOMEM, "out of memory");
        if (own->job != job + 1)
            own->jobs++, own->late_here = false;
        own->job = job + 1;
        own->ranks++;
        if (at) {
            own->cost_ns = add_ns(own->cost_ns, t.at[*at].cost_ns);
            own->total_ns = add_ns(own->total_ns, t.at[*at].total_ns);
            if (is_late(&t, &t.at[*at]) && !own->late_here)
                own->late_jobs++, own->late_here = true;
        }
    }
    rank_hosts_release(&hosts);
    tallies_release(&t);
    return rc;
}

static int by_host_cost(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;

    ORDER(b[hosts_col_late_jobs].i, a[hosts_col_late_jobs].i);
    ORDER(b[hosts_col_cost_ns].i, a[hosts_col_cost_ns].i);
    return strcmp(a[hosts_col_host].text, b[hosts_col_host].text);
}

int ask_hosts(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct machines m = { .out = out };
    int rc = job ? ask_rows(db, job, each_job, &m, err,
                            "SELECT job FROM rank_file WHERE job = %s GROUP BY job", ASK_JOB)
                 : ask_rows(db, job, each_job, &m, err,
                            "SELECT job FROM rank_file GROUP BY job ORDER BY job");

    for (size_t i = 0; i < m.njob && rc == 0; i++)
        rc = count_job(&m, db, i, err);
    for (size_t i = 0; i < m.n && rc == 0; i++) {
        const struct machine *own = &m.at[i];
        struct answer_cell *c = answer_add(out);

        if (!c) {
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
            break;
        }
        c[hosts_col_host].text = own->name;
        c[hosts_col_jobs].i = own->jobs;
        c[hosts_col_late_jobs].i = own->late_jobs;
        c[hosts_col_ranks].i = own->ranks;
        c[hosts_col_cost_ns].i = own->cost_ns;
        if (own->total_ns > 0)
            c[hosts_col_share].f = (double)own->cost_ns / (double)own->total_ns;
        c[hosts_col_slow].i = own->late_jobs >= 2 && 2 * own->late_jobs > own->jobs;
    }
    answer_sort(out, by_host_cost);
    for (size_t i = 0; i < m.njob; i++)
        mem_free(m.job[i]);
    mem_free(m.job);
    mem_free(m.at);
    return rc;
}
