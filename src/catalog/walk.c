/* walk.c -- see walk.h. */
#include "catalog/walk.h"

#include "base/alloc.h"
#include "base/error.h"
#include "catalog/questions.h"

#include <string.h>

#define WINDOW_ROWS 400000

struct stretch {
    int64_t from, to;
};

struct walking {
    struct stretch *at;
    size_t n, cap;
    int64_t rows; /* in the last of them */
    struct strpool names;
    struct walk_window w;
    int64_t *bytes;
    str_id *comm;
    size_t arrivals_cap, bytes_cap, comm_cap;
};

static int each_num(void *user, struct fleetrows *rows)
{
    struct walking *k = user;
    int64_t num = fleetrows_int(rows, 0), n = fleetrows_int(rows, 1);

    if (k->n && k->rows + n <= WINDOW_ROWS) {
        k->at[k->n - 1].to = num;
        k->rows += n;
        return 0;
    }
    if (!GROW(k->at, k->cap, k->n + 1))
        return OPM_ENOMEM;
    k->at[k->n++] = (struct stretch){ num, num };
    k->rows = n;
    return 0;
}

static int intern(struct walking *k, struct fleetrows *rows, int col, str_id *out)
{
    const char *text = fleetrows_text(rows, col, NULL);

    return strpool_intern(&k->names, text ? text : "", text ? strlen(text) : 0, out);
}

static int each_arrival(void *user, struct fleetrows *rows)
{
    struct walking *k = user;
    struct meetings *m = &k->w.meetings;
    struct arrival a = { .rank = fleetrows_int(rows, 0), .num = fleetrows_int(rows, 1) };
    size_t i = m->n;
    str_id comm;

    if (!GROW(m->at, k->arrivals_cap, i + 1) || !GROW(k->bytes, k->bytes_cap, i + 1) ||
        !GROW(k->comm, k->comm_cap, i + 1) || intern(k, rows, 2, &comm) ||
        intern(k, rows, 3, &a.name))
        return OPM_ENOMEM;
    if (meetings_between_two(strpool_get(&k->names, a.name)))
        return 0;
    a.group = comm;
    a.ts_ns = fleetrows_int(rows, 4);
    a.end_ns = a.ts_ns + fleetrows_int(rows, 5);
    a.span = (uint32_t)i;
    k->bytes[i] = fleetrows_int(rows, 6);
    k->comm[i] = comm;
    m->at[m->n++] = a;
    return 0;
}

static int walk(struct walking *k, struct fleetdb *db, const char *job, const struct stretch *s,
                opm_error *err)
{
    struct meetings *m = &k->w.meetings;
    int rc;

    m->n = m->count = 0;
    mem_free(m->first);
    m->first = NULL;
    rc = ask_rows(db, job, each_arrival, k, err,
                  "SELECT rank, num, comm, name, ts_ns, dur_ns, bytes FROM rank_exchange"
                  " WHERE job = %s AND warmup = 0 AND num >= %lld AND num <= %lld",
                  ASK_JOB, (long long)s->from, (long long)s->to);
    if (rc == 0 && meetings_match(m) < 0)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    k->w.names = &k->names;
    k->w.bytes = k->bytes;
    k->w.comm = k->comm;
    k->w.from_num = s->from;
    k->w.to_num = s->to;
    return rc;
}

int walk_meetings(struct fleetdb *db, const char *job,
                  int (*each)(void *user, const struct walk_window *w), void *user, opm_error *err)
{
    struct walking k = { 0 };
    int rc = ask_rows(db, job, each_num, &k, err,
                      "SELECT num, count(*) AS arrivals FROM rank_exchange WHERE job = %s"
                      " AND warmup = 0 GROUP BY num ORDER BY num",
                      ASK_JOB);

    for (size_t i = 0; i < k.n && rc == 0; i++) {
        rc = walk(&k, db, job, &k.at[i], err);
        if (rc == 0)
            rc = each(user, &k.w);
    }
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "out of memory");
    meetings_release(&k.w.meetings);
    strpool_release(&k.names);
    mem_free(k.bytes);
    mem_free(k.comm);
    mem_free(k.at);
    return rc;
}
