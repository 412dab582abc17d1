/* fleet_path.c -- the critical path of a job through its collectives.
 *
 * Backwards from the rank that ends a step last: it worked since the last collective that it left;
 * that one went on since its last rank came; who worked since ... A rank is taken to wait in each
 * of its collectives: where it computes meanwhile, less of the path is the collective's than it
 * says (rank_step.exposed_ns tells how much is). */
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "catalog/questions.h"
#include "catalog/walk.h"

#include <stdlib.h>
#include <string.h>

enum kind { WORK, COLLECTIVE, END, KIND_COUNT };
static const char *const kinds[KIND_COUNT] = { "work", "collective", "end" };

/* An arrival as its rank's line through the step has it, by the reference clock. */
struct stop {
    int64_t num, rank, end_ns;
    size_t meeting;
    int64_t clock_ns;
};

struct step_end {
    int64_t num, rank, from_ns, to_ns;
};

struct part {
    enum kind kind;
    int64_t rank, count, total_ns;
    str_id name;
};

struct paths {
    struct answer *out;
    struct fleetdb *db;
    const char *job;
    opm_error *err;
    struct stop *stop;
    struct step_end *end;
    uint32_t *seen; /* per meeting: the step walk that used it */
    uint32_t walks;
    size_t nstop, stop_cap, nend, end_cap, seen_cap;
    struct part *part;
    size_t npart, part_cap;
    struct u64map of_key;
    struct strpool names;
    struct u64map clock; /* of ranks */
};

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_line(const void *va, const void *vb)
{
    const struct stop *a = va, *b = vb;

    ORDER(a->num, b->num);
    ORDER(a->rank, b->rank);
    ORDER(a->end_ns, b->end_ns);
    ORDER(a->meeting, b->meeting);
    return 0;
}

/* The first stop of a rank in a step, or behind it. */
static size_t find_stop(const struct paths *p, const struct stop *key)
{
    size_t low = 0, high = p->nstop;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (by_line(&p->stop[mid], key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static int each_step(void *user, struct fleetrows *rows)
{
    struct paths *p = user;
    int64_t num = fleetrows_int(rows, 0), rank = fleetrows_int(rows, 1);
    const struct stop key = { num, rank, INT64_MIN, 0, 0 };
    const uint64_t *clock = u64map_get(&p->clock, (uint64_t)rank);
    size_t at = find_stop(p, &key);
    int64_t from_ns = fleetrows_size(rows, 2), dur_ns = fleetrows_size(rows, 3);

    if (!clock)
        return 0; /* it met nobody */
    from_ns -= at < p->nstop && p->stop[at].num == num && p->stop[at].rank == rank
                   ? p->stop[at].clock_ns
                   : (int64_t)*clock;
    if (!GROW(p->end, p->end_cap, p->nend + 1))
        return OPM_ENOMEM;
    p->end[p->nend++] = (struct step_end){ num, rank, from_ns, from_ns + dur_ns };
    return 0;
}

static int add_part(struct paths *p, enum kind kind, int64_t rank, const char *name, int64_t ns)
{
    struct part *part;
    const uint64_t *at;
    uint64_t key;
    str_id id;

    if (strpool_intern(&p->names, name, strlen(name), &id))
        return OPM_ENOMEM;
    key = (uint64_t)kind << 62 | ((uint64_t)rank & 0x7fffffff) << 31 | id;
    at = u64map_get(&p->of_key, key);
    if (!at && (!GROW(p->part, p->part_cap, p->npart + 1) || u64map_put(&p->of_key, key, p->npart)))
        return OPM_ENOMEM;
    part = at ? &p->part[*at] : &p->part[p->npart++];
    if (!at)
        *part = (struct part){ .kind = kind, .rank = rank, .name = id };
    part->count++;
    part->total_ns = add_ns(part->total_ns, ns);
    return 0;
}

/* The last stop of a rank in a step that ends by then and was not used; NULL: there is none. */
static const struct stop *stop_before(const struct paths *p, int64_t num, int64_t rank,
                                      int64_t at_ns)
{
    const struct stop key = { num, rank, at_ns, SIZE_MAX, 0 };
    size_t low = find_stop(p, &key);

    while (low && p->stop[low - 1].num == num && p->stop[low - 1].rank == rank) {
        if (p->seen[p->stop[low - 1].meeting] != p->walks)
            return &p->stop[low - 1];
        low--;
    }
    return NULL;
}

static const struct step_end *end_of(const struct step_end *ends, size_t n, int64_t rank)
{
    for (size_t i = 0; i < n; i++)
        if (ends[i].rank == rank)
            return &ends[i];
    return NULL;
}

/* One step: `ends` has its ranks. */
static int walk_step(struct paths *p, const struct walk_window *w, const struct step_end *ends,
                     size_t n)
{
    const struct meetings *m = &w->meetings;
    const struct step_end *last = &ends[0], *own;
    const char *to = NULL; /* the collective that work leads to */
    int64_t rank, at_ns;
    int rc = 0;

    for (size_t i = 1; i < n; i++)
        last = ends[i].to_ns > last->to_ns ? &ends[i] : last;
    rank = last->rank;
    at_ns = last->to_ns;
    p->walks++;
    while (rc == 0) {
        const struct stop *s = stop_before(p, last->num, rank, at_ns);
        struct meeting_order o;

        if (!s)
            break;
        rc = add_part(p, to ? WORK : END, rank, to ? to : "", at_ns - s->end_ns);
        p->seen[s->meeting] = p->walks;
        o = meeting_order(m, s->meeting);
        to = strpool_get(w->names, m->at[o.last].name);
        rank = m->at[o.last].rank;
        at_ns = MIN(o.last_ns, s->end_ns);
        if (rc == 0)
            rc = add_part(p, COLLECTIVE, rank, to, s->end_ns - at_ns);
    }
    own = end_of(ends, n, rank);
    if (rc == 0 && own && at_ns > own->from_ns)
        rc = add_part(p, to ? WORK : END, rank, to ? to : "", at_ns - own->from_ns);
    return rc;
}

static int path_window(void *user, const struct walk_window *w)
{
    struct paths *p = user;
    const struct meetings *m = &w->meetings;
    int rc = 0;

    if (w->to_num < 0)
        return 0;
    p->nstop = p->nend = 0;
    if (!GROW(p->stop, p->stop_cap, m->n + 1) || !GROW(p->seen, p->seen_cap, m->count + 1))
        return OPM_ENOMEM;
    memset(p->seen, 0, (m->count + 1) * sizeof(*p->seen));
    for (size_t i = 0; i < m->count && rc == 0; i++)
        for (size_t k = m->first[i]; k < m->first[i + 1] && rc == 0; k++) {
            const struct arrival *a = &m->at[k];

            p->stop[p->nstop++] =
                (struct stop){ a->num, a->rank, a->end_ns - a->clock_ns, i, a->clock_ns };
            rc = u64map_put(&p->clock, (uint64_t)a->rank, (uint64_t)a->clock_ns);
        }
    if (rc == 0 && p->nstop)
        qsort(p->stop, p->nstop, sizeof(*p->stop), by_line);
    if (rc == 0)
        rc =
            ask_rows(p->db, p->job, each_step, p, p->err,
                     "SELECT num, rank, ts_ns, total_ns FROM rank_step WHERE job = %s"
                     " AND warmup = 0 AND %s >= %lld AND %s <= %lld ORDER BY num + 0, rank",
                     ASK_JOB, w->num, (long long)MAX(w->from_num, 0), w->num, (long long)w->to_num);
    for (size_t i = 0, end; i < p->nend && rc == 0; i = end) {
        for (end = i + 1; end < p->nend && p->end[end].num == p->end[i].num;)
            end++;
        rc = walk_step(p, w, &p->end[i], end - i);
    }
    return rc;
}

static int by_total(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;
    int order;

    ORDER(b[path_col_total_ns].i, a[path_col_total_ns].i);
    ORDER(a[path_col_rank].i, b[path_col_rank].i);
    order = strcmp(a[path_col_kind].text, b[path_col_kind].text);
    return order ? order : strcmp(a[path_col_name].text, b[path_col_name].text);
}

int ask_path(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct paths p = { .out = out, .db = db, .job = job, .err = err };
    double all_ns = 0;
    int rc = walk_meetings(db, job, path_window, &p, err);

    for (size_t i = 0; i < p.npart; i++)
        all_ns += (double)p.part[i].total_ns;
    for (size_t i = 0; i < p.npart && rc == 0; i++) {
        struct answer_cell *c = answer_add(out);

        if (!c) {
            rc = opm__fail(err, OPM_ENOMEM, "out of memory");
            break;
        }
        c[path_col_kind].text = kinds[p.part[i].kind];
        c[path_col_rank].i = p.part[i].rank;
        c[path_col_name].text = answer_keep(out, strpool_get(&p.names, p.part[i].name));
        c[path_col_count].i = p.part[i].count;
        c[path_col_total_ns].i = p.part[i].total_ns;
        if (all_ns > 0)
            c[path_col_share].f = (double)p.part[i].total_ns / all_ns;
    }
    answer_sort(out, by_total);
    mem_free(p.stop);
    mem_free(p.end);
    mem_free(p.seen);
    mem_free(p.part);
    u64map_release(&p.of_key);
    u64map_release(&p.clock);
    strpool_release(&p.names);
    return rc;
}
