/* walk.c -- see walk.h. */
#include "catalog/walk.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/error.h"
#include "catalog/questions.h"
#include "catalog/recordings.h"

#include <string.h>

#define WINDOW_ROWS 100000
#define OPS_ROWS 100000 /* of operators, in an answer */
/* Of a file, a stretch's rows by an index lie all over it: as long as there are no more stretches
 * than these, going through all rows in their order for each is faster. */
#define SCANS_MAX 8

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
    int64_t num = fleetrows_int(rows, 0), n = fleetrows_size(rows, 1);

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
    a.ts_ns = fleetrows_size(rows, 4);
    a.end_ns = MIN(a.ts_ns + fleetrows_size(rows, 5), FLEETDB_SIZE_MAX);
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
                  " WHERE job = %s AND warmup = 0 AND %s >= %lld AND %s <= %lld",
                  ASK_JOB, k->w.num, (long long)s->from, k->w.num, (long long)s->to);
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
                      "SELECT num + 0 AS step, count(*) AS arrivals FROM rank_exchange"
                      " WHERE job = %s AND warmup = 0 GROUP BY step ORDER BY step",
                      ASK_JOB);

    k.w.num = !fleetdb_answers_whole(db) && k.n <= SCANS_MAX ? "num + 0" : "num";

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

/* -- operators -- */

struct names {
    const char *from, *to;
    int64_t rows;
};

struct naming {
    struct names *at;
    size_t n, cap;
    struct arena text;
};

static int each_name(void *user, struct fleetrows *rows)
{
    struct naming *k = user;
    const char *text = fleetrows_text(rows, 0, NULL);
    char *own = arena_strndup(&k->text, text ? text : "", text ? strlen(text) : 0);
    int64_t n = fleetrows_size(rows, 1);

    if (!own || !GROW(k->at, k->cap, k->n + 1))
        return OPM_ENOMEM;
    if (k->n && k->at[k->n - 1].rows + n <= OPS_ROWS) {
        k->at[k->n - 1].to = own;
        k->at[k->n - 1].rows += n;
    } else {
        k->at[k->n++] = (struct names){ own, own, n };
    }
    return 0;
}

struct units {
    int64_t rollups, sums;
};

static int each_unit(void *user, struct fleetrows *rows)
{
    struct units *u = user;
    const char *unit = fleetrows_text(rows, 0, NULL);

    if (unit && strcmp(unit, FLEETDB_SUMS) == 0)
        u->sums = fleetrows_int(rows, 1);
    else if (!unit || !*unit)
        u->rollups = fleetrows_int(rows, 1);
    return 0;
}

void walk_ops_where(struct fleetdb *db, const struct walk_ops *w, struct buf *sql)
{
    buf_addf(sql, " FROM %s WHERE job = ", w->table);
    fleetdb_quote(db, sql, w->job);
    buf_adds(sql, w->left_out);
    if (w->from) {
        buf_adds(sql, " AND name >= ");
        fleetdb_quote(db, sql, w->from);
        buf_adds(sql, " AND name <= ");
        fleetdb_quote(db, sql, w->to);
    }
}

int walk_ops(struct fleetdb *db, const char *job, int (*each)(void *user, const struct walk_ops *w),
             void *user, opm_error *err)
{
    struct naming k = { 0 };
    struct units u = { 0 };
    struct walk_ops w = { .job = job };
    struct buf sql = { 0 };
    const struct left_out *left_out;
    int rc = ask_rows(db, job, each_unit, &u, err,
                      "SELECT unit, count(*) AS n FROM (SELECT rank, run, unit FROM rank_batch"
                      " WHERE job = %s GROUP BY rank, run, unit) AS s GROUP BY unit",
                      ASK_JOB);

    if (rc == 0)
        rc = left_out_get(db, job, &left_out, err);
    w.left_out = rc == 0 ? buf_str(&left_out->sql) : "";
    w.sums = u.sums >= u.rollups;
    w.table = w.sums ? "rank_op_sum" : "rank_op";
    if (rc == 0 && !fleetdb_answers_whole(db))
        rc = each(user, &w);
    if (rc == 0 && fleetdb_answers_whole(db)) {
        buf_adds(&sql, "SELECT name, count(*) AS n");
        walk_ops_where(db, &w, &sql);
        buf_adds(&sql, " GROUP BY name ORDER BY name");
        rc = ask_sql(db, &sql, each_name, &k, err);
    }
    for (size_t i = 0; i < k.n && rc == 0; i++) {
        w.from = k.at[i].from;
        w.to = k.at[i].to;
        rc = each(user, &w);
    }
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "out of memory");
    buf_release(&sql);
    mem_free(k.at);
    arena_release(&k.text);
    return rc;
}
