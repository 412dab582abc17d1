/* fleet_links.c -- bandwidth between ranks and of communicators, and which of them are slow. */
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/u64map.h"
#include "catalog/questions.h"
#include "catalog/walk.h"

#include <stdlib.h>
#include <string.h>

#define SLOW 0.7       /* of the median of others */
#define FEW 3          /* links of a kind: below, none is compared */
#define BYTES_MIN 4096 /* what is smaller tells of latency, not bandwidth */

struct link {
    str_id name, comm;
    int64_t rank, peer; /* -1: of a communicator */
    int64_t bytes, count, best_ns;
};

struct links {
    struct link *at;
    size_t n, cap;
    struct strpool names;
};

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

/* Names of the two sides of a transfer differ (Send, Recv); a pair is the same from either end. */
static int by_link(const void *va, const void *vb)
{
    const struct link *a = va, *b = vb;

    ORDER(a->rank < 0, b->rank < 0);
    ORDER(a->bytes, b->bytes);
    ORDER(a->rank < 0 ? a->name : 0, b->rank < 0 ? b->name : 0);
    ORDER(a->rank < 0 ? a->comm : 0, b->rank < 0 ? b->comm : 0);
    ORDER(a->rank, b->rank);
    ORDER(a->peer, b->peer);
    return 0;
}

static int intern(struct links *l, const char *text, str_id *out)
{
    return strpool_intern(&l->names, text ? text : "", text ? strlen(text) : 0, out);
}

static int each_pair(void *user, struct fleetrows *rows)
{
    struct links *l = user;
    int64_t a = fleetrows_int(rows, 0), b = fleetrows_int(rows, 1);
    struct link link = { .rank = MIN(a, b),
                         .peer = MAX(a, b),
                         .bytes = fleetrows_size(rows, 4),
                         .count = fleetrows_size(rows, 5),
                         .best_ns = fleetrows_size(rows, 6) };

    if (!GROW(l->at, l->cap, l->n + 1) || intern(l, fleetrows_text(rows, 2, NULL), &link.comm) ||
        intern(l, fleetrows_text(rows, 3, NULL), &link.name))
        return OPM_ENOMEM;
    l->at[l->n++] = link;
    return 0;
}

/* Those of the same key become one; both ends tell of a pair, but the shorter did not wait. */
static void unite(struct links *l)
{
    size_t kept = 0;

    if (l->n)
        qsort(l->at, l->n, sizeof(*l->at), by_link);
    for (size_t i = 0; i < l->n; i++) {
        struct link *to = kept ? &l->at[kept - 1] : NULL, *from = &l->at[i];

        if (!to || by_link(to, from)) {
            l->at[kept++] = *from;
            continue;
        }
        to->count = to->rank < 0 ? add_ns(to->count, from->count) : MAX(to->count, from->count);
        to->best_ns = MIN(to->best_ns, from->best_ns);
    }
    l->n = kept;
}

static int link_window(void *user, const struct walk_window *w)
{
    struct links *l = user;
    const struct meetings *m = &w->meetings;

    for (size_t i = 0; i < m->count; i++) {
        struct meeting_order o = meeting_order(m, i);
        const struct arrival *a = &m->at[o.last];
        struct link link = { .rank = -1,
                             .peer = -1,
                             .bytes = w->bytes[a->span],
                             .count = 1,
                             .best_ns = a->end_ns - a->ts_ns };

        if (link.bytes < BYTES_MIN || link.best_ns <= 0)
            continue;
        if (!GROW(l->at, l->cap, l->n + 1) ||
            intern(l, strpool_get(w->names, a->name), &link.name) ||
            intern(l, strpool_get(w->names, w->comm[a->span]), &link.comm))
            return OPM_ENOMEM;
        l->at[l->n++] = link;
    }
    unite(l);
    return 0;
}

static double speed(const struct link *l)
{
    return l->best_ns > 0 ? (double)l->bytes / (double)l->best_ns : 0;
}

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

static bool same_kind(const struct link *a, const struct link *b)
{
    return (a->rank < 0) == (b->rank < 0) && a->bytes == b->bytes &&
           (a->rank >= 0 || a->name == b->name);
}

static double median_speed(const struct link *l, size_t n, double *room)
{
    for (size_t i = 0; i < n; i++)
        room[i] = speed(&l[i]);
    qsort(room, n, sizeof(*room), by_number);
    return n % 2 ? room[n / 2] : (room[n / 2 - 1] + room[n / 2]) / 2;
}

static int add_kind(struct answer *out, struct links *l, size_t from, size_t to, double *room)
{
    double median = median_speed(&l->at[from], to - from, room);

    for (size_t i = from; i < to; i++) {
        const struct link *k = &l->at[i];
        struct answer_cell *c = answer_add(out);

        if (!c)
            return OPM_ENOMEM;
        c[links_col_kind].text = k->rank < 0 ? "collective" : "pair";
        c[links_col_name].text = answer_keep(out, strpool_get(&l->names, k->name));
        c[links_col_comm].text = answer_keep(out, strpool_get(&l->names, k->comm));
        c[links_col_rank].i = k->rank < 0 ? FLEETDB_NONE : k->rank;
        c[links_col_peer].i = k->rank < 0 ? FLEETDB_NONE : k->peer;
        c[links_col_bytes].i = k->bytes;
        c[links_col_count].i = k->count;
        c[links_col_best_ns].i = k->best_ns;
        c[links_col_gbytes_per_s].f = speed(k);
        if (to - from >= FEW && median > 0)
            c[links_col_of_median].f = speed(k) / median;
        c[links_col_slow].i = to - from >= FEW && speed(k) < SLOW * median;
    }
    return 0;
}

static int by_slowness(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;
    double x = a[links_col_of_median].f, y = b[links_col_of_median].f;

    ORDER(b[links_col_slow].i, a[links_col_slow].i);
    ORDER(x == x ? x : 9e9, y == y ? y : 9e9); /* not compared: last */
    ORDER(b[links_col_bytes].i, a[links_col_bytes].i);
    ORDER(a[links_col_rank].i, b[links_col_rank].i);
    ORDER(a[links_col_peer].i, b[links_col_peer].i);
    return strcmp(a[links_col_name].text, b[links_col_name].text);
}

int ask_links(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct links l = { 0 };
    double *room = NULL;
    int rc = walk_meetings(db, job, link_window, &l, err);

    if (rc == 0)
        rc = ask_rows(db, job, each_pair, &l, err,
                      "SELECT rank, peer, comm, name, bytes, count(*) AS transfers,"
                      " min(dur_ns) AS best_ns FROM rank_exchange WHERE job = %s AND warmup = 0"
                      " AND peer >= 0 AND peer <> rank AND bytes >= %d AND dur_ns > 0"
                      " GROUP BY rank, peer, comm, name, bytes",
                      ASK_JOB, BYTES_MIN);
    unite(&l);
    room = mem_alloc((l.n + 1) * sizeof(*room));
    if (rc == 0 && !room)
        rc = OPM_ENOMEM;
    for (size_t i = 0, end; i < l.n && rc == 0; i = end) {
        for (end = i + 1; end < l.n && same_kind(&l.at[i], &l.at[end]);)
            end++;
        rc = add_kind(out, &l, i, end, room);
    }
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "out of memory");
    answer_sort(out, by_slowness);
    mem_free(room);
    mem_free(l.at);
    strpool_release(&l.names);
    return rc;
}
