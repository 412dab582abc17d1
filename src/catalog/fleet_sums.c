/* fleet_sums.c -- operators, steps, memory and ranks of a job, by sums that the database makes. */
#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/error.h"
#include "base/sketch.h"
#include "catalog/questions.h"
#include "catalog/recordings.h"
#include "catalog/walk.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define OUTLIER_FACTOR 1.05 /* of the median of ranks, at least */
#define OUTLIER_SPREADS 6   /* and so many times their usual distance from it */
#define OUTLIER_SHARE 1e-4  /* and, with all executions, of what operators of the rank take */
#define STRETCHES 24        /* of time, at most, that drift is told by */
#define HOUR_NS INT64_C(3600000000000)

#define ORDER(a, b)                    \
    do {                               \
        if ((a) != (b))                \
            return (a) < (b) ? -1 : 1; \
    } while (0)

static int by_number(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return x < y ? -1 : x > y;
}

/* Of v[0..n), whose order is lost. */
static double median_of(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_number);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

/* -- operators -- */

struct merging {
    struct answer *out;
    struct fleetdb *db;
    opm_error *err;
    size_t at; /* row whose sketches come */
    struct sketch sum, one;
    int64_t self_ns[2]; /* of a section: device, host */
};

static bool same_text(const char *a, const char *b)
{
    return strcmp(a ? a : "", b ? b : "") == 0;
}

static void end_op(struct merging *m)
{
    struct answer_cell *c;

    if (!m->sum.count)
        return;
    c = &m->out->cell[m->at * ops_col_COUNT];
    c[ops_col_median_ns].f = sketch_quantile(&m->sum, 0.5);
    c[ops_col_p99_ns].f = sketch_quantile(&m->sum, 0.99);
    sketch_release(&m->sum);
}

/* In the order of operators. */
static int each_sketch(void *user, struct fleetrows *rows)
{
    struct merging *m = user;
    const char *text = fleetrows_text(rows, 3, NULL);
    uint64_t times = (uint64_t)MAX(fleetrows_int(rows, 4), 0);
    int rc;

    for (; m->at < m->out->nrow; m->at++) {
        const struct answer_cell *c = &m->out->cell[m->at * ops_col_COUNT];

        if (same_text(fleetrows_text(rows, 0, NULL), c[ops_col_section].text) &&
            same_text(fleetrows_text(rows, 1, NULL), c[ops_col_name].text) &&
            same_text(fleetrows_text(rows, 2, NULL), c[ops_col_type].text))
            break;
        end_op(m);
    }
    if (m->at == m->out->nrow)
        return 0; /* added while we were asking */
    rc = sketch_read_hex(&m->one, text ? text : "");
    for (size_t i = 0; rc == 0 && i < m->one.n; i++)
        rc = sketch_add_count(&m->sum, m->one.bucket[i].index, m->one.bucket[i].count * times);
    return rc == OPM_EFORMAT ? 0 : rc; /* somebody else's: quantiles leave it out */
}

static int each_op(void *user, struct fleetrows *rows)
{
    struct merging *m = user;
    int64_t *all_ns;
    struct answer_cell *c = answer_add(m->out);

    if (!c)
        return OPM_ENOMEM;
    for (int i = 0; i < 3; i++)
        c[i].text = answer_keep(m->out, fleetrows_text(rows, i, NULL));
    c[ops_col_ranks].i = fleetrows_size(rows, 3);
    c[ops_col_count].i = fleetrows_size(rows, 4);
    c[ops_col_total_ns].i = fleetrows_size(rows, 5);
    c[ops_col_self_ns].i = fleetrows_size(rows, 6);
    c[ops_col_min_ns].i = fleetrows_size(rows, 7);
    c[ops_col_max_ns].i = fleetrows_size(rows, 8);
    all_ns = &m->self_ns[strcmp(c[ops_col_section].text, "host") == 0];
    *all_ns = add_ns(*all_ns, c[ops_col_self_ns].i);
    return 0;
}

static int by_self(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;
    int section = strcmp(a[ops_col_section].text, b[ops_col_section].text);

    if (section)
        return section;
    ORDER(b[ops_col_self_ns].i, a[ops_col_self_ns].i);
    section = strcmp(a[ops_col_name].text, b[ops_col_name].text);
    return section ? section : strcmp(a[ops_col_type].text, b[ops_col_type].text);
}

static int merge_ops(void *user, const struct walk_ops *w)
{
    struct merging *m = user;
    struct buf sql = { 0 };
    int rc;

    buf_adds(&sql, "SELECT section, name, type, count(DISTINCT rank) AS ranks, sum(count) AS n,"
                   " sum(total_ns) AS a, sum(self_ns) AS b, min(min_ns) AS c, max(max_ns) AS d");
    walk_ops_where(m->db, w, &sql);
    buf_adds(&sql, " GROUP BY name, section, type ORDER BY name, section, type");
    rc = ask_sql(m->db, &sql, each_op, m, m->err);
    /* Equal sketches, as those of one execution are, come once with their number. */
    buf_clear(&sql);
    buf_addf(&sql, "SELECT section, name, type, sketch, %s AS times",
             w->sums ? "rank - rank + 1" : "count(*)");
    walk_ops_where(m->db, w, &sql);
    buf_addf(&sql, "%s ORDER BY name, section, type",
             w->sums ? "" : " GROUP BY name, section, type, sketch");
    if (rc == 0)
        rc = ask_sql(m->db, &sql, each_sketch, m, m->err);
    buf_release(&sql);
    return rc;
}

int ask_ops(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct merging m = { .out = out, .db = db, .err = err };
    int rc = walk_ops(db, job, merge_ops, &m, err);

    for (; rc == 0 && m.at < out->nrow; m.at++)
        end_op(&m);
    for (size_t i = 0; i < out->nrow; i++) {
        struct answer_cell *c = &out->cell[i * ops_col_COUNT];
        int64_t all_ns = m.self_ns[strcmp(c[ops_col_section].text, "host") == 0];

        if (all_ns > 0)
            c[ops_col_share].f = (double)c[ops_col_self_ns].i / (double)all_ns;
    }
    answer_sort(out, by_self);
    sketch_release(&m.sum);
    sketch_release(&m.one);
    return rc;
}

/* -- outliers -- */

struct op_rank {
    int64_t rank, count;
    double mean_ns;
};

struct outliers {
    struct answer *out;
    struct fleetdb *db;
    opm_error *err;
    const struct rank_hosts *hosts;
    char *section, *name, *type; /* of the operator that at[] is of */
    struct op_rank *at;
    double *room;
    size_t n, cap, room_cap;
    double own_ns; /* of all operators */
};

/* Whoever waits in it takes longer because others are late. */
static bool waits(const char *name, const char *type)
{
    static const char *const words[] = {
        "nccl",          "rccl",       "allreduce",  "all_reduce", "reduce_scatter",
        "reducescatter", "all_gather", "allgather",  "broadcast",  "barrier",
        "all_to_all",    "alltoall",   "collective", "c10d::",     "gloo:",
        "send",          "recv"
    };

    for (size_t i = 0; i < ARRAY_SIZE(words); i++)
        if (strcasestr(name, words[i]) || strcasestr(type, words[i]))
            return true;
    return false;
}

static int add_outliers(struct outliers *o)
{
    double median, spread;

    if (o->n < 3 || waits(o->name, o->type) || !GROW(o->room, o->room_cap, o->n))
        return o->n < 3 || waits(o->name, o->type) ? 0 : OPM_ENOMEM;
    for (size_t i = 0; i < o->n; i++)
        o->room[i] = o->at[i].mean_ns;
    median = median_of(o->room, o->n);
    for (size_t i = 0; i < o->n; i++)
        o->room[i] = fabs(o->at[i].mean_ns - median);
    spread = 1.4826 * median_of(o->room, o->n);
    for (size_t i = 0; i < o->n; i++) {
        const struct op_rank *r = &o->at[i];
        double extra = (r->mean_ns - median) * (double)r->count;
        struct answer_cell *c;

        if (r->mean_ns < OUTLIER_FACTOR * median || r->mean_ns - median < OUTLIER_SPREADS * spread)
            continue;
        c = answer_add(o->out);
        if (!c)
            return OPM_ENOMEM;
        c[outliers_col_rank].i = r->rank;
        c[outliers_col_host].text = answer_keep(o->out, rank_hosts_at(o->hosts, r->rank));
        c[outliers_col_section].text = answer_keep(o->out, o->section);
        c[outliers_col_name].text = answer_keep(o->out, o->name);
        c[outliers_col_type].text = answer_keep(o->out, o->type);
        c[outliers_col_count].i = r->count;
        c[outliers_col_mean_ns].f = r->mean_ns;
        c[outliers_col_median_ns].f = median;
        if (median > 0)
            c[outliers_col_factor].f = r->mean_ns / median;
        c[outliers_col_extra_ns].i = (int64_t)fmin(extra, 9e18);
    }
    return 0;
}

static void forget_op(struct outliers *o)
{
    mem_free(o->section);
    mem_free(o->name);
    mem_free(o->type);
    o->section = o->name = o->type = NULL;
    o->n = 0;
}

static int each_op_rank(void *user, struct fleetrows *rows)
{
    struct outliers *o = user;
    const char *key[3];
    int64_t count = fleetrows_size(rows, 4);
    int rc = 0;

    for (int i = 0; i < 3; i++) {
        key[i] = fleetrows_text(rows, i, NULL);
        key[i] = key[i] ? key[i] : "";
    }
    if (!o->name || strcmp(o->section, key[0]) != 0 || strcmp(o->name, key[1]) != 0 ||
        strcmp(o->type, key[2]) != 0) {
        rc = o->name ? add_outliers(o) : 0;
        forget_op(o);
        o->section = mem_strdup(key[0]);
        o->name = mem_strdup(key[1]);
        o->type = mem_strdup(key[2]);
        if (!o->section || !o->name || !o->type)
            return OPM_ENOMEM;
    }
    o->own_ns += fleetrows_real(rows, 5);
    if (count <= 0 || rc < 0)
        return rc;
    if (!GROW(o->at, o->cap, o->n + 1))
        return OPM_ENOMEM;
    o->at[o->n++] =
        (struct op_rank){ fleetrows_int(rows, 3), count, fleetrows_real(rows, 5) / (double)count };
    return 0;
}

static int find_outliers(void *user, const struct walk_ops *w)
{
    struct outliers *o = user;
    struct buf sql = { 0 };
    int rc;

    buf_adds(&sql, "SELECT section, name, type, rank, sum(count) AS n, sum(self_ns) AS own");
    walk_ops_where(o->db, w, &sql);
    buf_adds(&sql, " GROUP BY name, section, type, rank ORDER BY name, section, type, rank");
    rc = ask_sql(o->db, &sql, each_op_rank, o, o->err);
    buf_release(&sql);
    return rc;
}

static int by_extra(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;
    int name;

    ORDER(b[outliers_col_extra_ns].i, a[outliers_col_extra_ns].i);
    ORDER(a[outliers_col_rank].i, b[outliers_col_rank].i);
    name = strcmp(a[outliers_col_name].text, b[outliers_col_name].text);
    return name ? name : strcmp(a[outliers_col_section].text, b[outliers_col_section].text);
}

/* Those that matter, once it is known what all operators take. */
static void keep_large(struct answer *out, double least_ns)
{
    size_t kept = 0;

    for (size_t i = 0; i < out->nrow; i++)
        if ((double)answer_at(out, i, outliers_col_extra_ns)->i >= least_ns)
            memmove(&out->cell[kept++ * outliers_col_COUNT], &out->cell[i * outliers_col_COUNT],
                    outliers_col_COUNT * sizeof(*out->cell));
    answer_cut(out, kept);
}

int ask_outliers(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct rank_hosts hosts = { 0 };
    struct outliers o = { .out = out, .db = db, .err = err, .hosts = &hosts };
    int rc = rank_hosts_get(&hosts, db, job, err);

    if (rc == 0)
        rc = walk_ops(db, job, find_outliers, &o, err);
    if (rc == 0 && o.name)
        rc = add_outliers(&o);
    if (hosts.n)
        keep_large(out, OUTLIER_SHARE * o.own_ns / (double)hosts.n);
    if (rc == OPM_ENOMEM)
        opm__fail(err, rc, "out of memory");
    answer_sort(out, by_extra);
    forget_op(&o);
    mem_free(o.at);
    mem_free(o.room);
    rank_hosts_release(&hosts);
    return rc;
}

/* -- steps -- */

struct step_scan {
    struct answer *out;
    double total_ns, collective_ns, exposed_ns;
    int64_t collectives, exposed; /* how many said */
};

static void end_step(struct step_scan *s)
{
    struct answer_cell *c;

    if (!s->out->nrow)
        return;
    c = &s->out->cell[(s->out->nrow - 1) * steps_col_COUNT];
    c[steps_col_mean_ns].f = s->total_ns / (double)c[steps_col_ranks].i;
    if (s->collectives)
        c[steps_col_collective_ns].f = s->collective_ns / (double)s->collectives;
    if (s->exposed)
        c[steps_col_exposed_ns].f = s->exposed_ns / (double)s->exposed;
}

static int each_step(void *user, struct fleetrows *rows)
{
    struct step_scan *s = user;
    int64_t num = fleetrows_int(rows, 0), rank = fleetrows_int(rows, 1);
    int64_t total_ns = fleetrows_size(rows, 2);
    double collective_ns = fleetrows_real(rows, 3), exposed_ns = fleetrows_real(rows, 4);
    struct answer_cell *c =
        s->out->nrow ? &s->out->cell[(s->out->nrow - 1) * steps_col_COUNT] : NULL;

    if (!c || c[steps_col_num].i != num) {
        end_step(s);
        *s = (struct step_scan){ .out = s->out };
        c = answer_add(s->out);
        if (!c)
            return OPM_ENOMEM;
        c[steps_col_num].i = num;
        c[steps_col_ranks].i = 0;
        c[steps_col_min_ns].i = INT64_MAX;
        c[steps_col_max_ns].i = INT64_MIN + 1;
    }
    c[steps_col_ranks].i++;
    c[steps_col_min_ns].i = MIN(c[steps_col_min_ns].i, total_ns);
    if (total_ns > c[steps_col_max_ns].i) {
        c[steps_col_max_ns].i = total_ns;
        c[steps_col_slowest_rank].i = rank;
    }
    s->total_ns += (double)total_ns;
    if (collective_ns == collective_ns)
        s->collective_ns += collective_ns, s->collectives++;
    if (exposed_ns == exposed_ns)
        s->exposed_ns += exposed_ns, s->exposed++;
    return 0;
}

int ask_steps(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct step_scan s = { .out = out };
    int rc = ask_rows(db, job, each_step, &s, err,
                      "SELECT num, rank, total_ns, collective_ns, exposed_ns FROM rank_step"
                      " WHERE job = %s AND warmup = 0 ORDER BY num + 0, rank",
                      ASK_JOB);

    end_step(&s);
    return rc;
}

/* -- drift -- */

struct times {
    int64_t from_ns, to_ns, n;
};

static int each_times(void *user, struct fleetrows *rows)
{
    struct times *t = user;

    t->n = fleetrows_size(rows, 0);
    t->from_ns = fleetrows_size(rows, 1);
    t->to_ns = fleetrows_size(rows, 2);
    return 0;
}

struct drifting {
    struct answer *out;
    int64_t from_ns, each_ns;
    double total_ns, slowest_ns;
};

/* One rank in one stretch, by stretch. */
static int each_stretch(void *user, struct fleetrows *rows)
{
    struct drifting *d = user;
    int64_t at = MIN(fleetrows_size(rows, 0), (FLEETDB_SIZE_MAX - d->from_ns) / d->each_ns);
    int64_t from_ns = d->from_ns + at * d->each_ns;
    int64_t n = MAX(fleetrows_size(rows, 2), 1);
    double total_ns = fleetrows_real(rows, 3);
    struct answer_cell *c =
        d->out->nrow ? &d->out->cell[(d->out->nrow - 1) * drift_col_COUNT] : NULL;

    if (!c || c[drift_col_from_ns].i != from_ns) {
        c = answer_add(d->out);
        if (!c)
            return OPM_ENOMEM;
        c[drift_col_from_ns].i = from_ns;
        c[drift_col_to_ns].i = from_ns + d->each_ns;
        c[drift_col_steps].i = 0;
        d->total_ns = d->slowest_ns = 0;
    }
    d->total_ns += total_ns;
    c[drift_col_steps].i = add_ns(c[drift_col_steps].i, n);
    c[drift_col_mean_ns].f = d->total_ns / (double)c[drift_col_steps].i;
    if (total_ns / (double)n > d->slowest_ns) {
        d->slowest_ns = total_ns / (double)n;
        c[drift_col_slowest_rank].i = fleetrows_int(rows, 1);
    }
    return 0;
}

int ask_drift(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct times t = { 0 };
    struct drifting d = { .out = out };
    int rc = ask_rows(db, job, each_times, &t, err,
                      "SELECT count(*) AS n, min(ts_ns) AS a, max(ts_ns) AS b FROM rank_step"
                      " WHERE job = %s AND warmup = 0",
                      ASK_JOB);

    if (rc < 0 || t.n == 0)
        return rc;
    /* Whole hours where there are some. */
    d.from_ns = t.from_ns;
    d.each_ns = MAX((t.to_ns - t.from_ns) / STRETCHES, 0) + 1;
    if (t.to_ns - t.from_ns >= 2 * HOUR_NS)
        d.each_ns = (d.each_ns + HOUR_NS - 1) / HOUR_NS * HOUR_NS;
    /* Values are not below from_ns, so the remainder floors on either database. */
    rc = ask_rows(db, job, each_stretch, &d, err,
                  "SELECT stretch, rank, count(*) AS n, sum(total_ns) AS all_ns FROM"
                  " (SELECT (ts_ns - %lld - (ts_ns - %lld) %% %lld) / %lld AS stretch, rank,"
                  " total_ns FROM rank_step WHERE job = %s AND warmup = 0) AS s"
                  " GROUP BY stretch, rank ORDER BY stretch, rank",
                  (long long)d.from_ns, (long long)d.from_ns, (long long)d.each_ns,
                  (long long)d.each_ns, ASK_JOB);
    for (size_t i = 0; i < out->nrow; i++) {
        struct answer_cell *c = &out->cell[i * drift_col_COUNT];

        if (out->cell[drift_col_mean_ns].f > 0)
            c[drift_col_change].f = c[drift_col_mean_ns].f / out->cell[drift_col_mean_ns].f - 1;
    }
    return rc;
}

/* -- memory -- */

struct memories {
    struct answer *out;
    const struct rank_hosts *hosts;
};

/* In the order of counter, device, rank, step. */
static int each_memory(void *user, struct fleetrows *rows)
{
    struct memories *m = user;
    int64_t rank = fleetrows_int(rows, 2);
    double peak = fleetrows_real(rows, 4), last = fleetrows_real(rows, 5);
    struct answer_cell *c =
        m->out->nrow ? &m->out->cell[(m->out->nrow - 1) * memory_col_COUNT] : NULL;

    if (!c || c[memory_col_rank].i != rank ||
        !same_text(c[memory_col_counter].text, fleetrows_text(rows, 0, NULL)) ||
        !same_text(c[memory_col_device].text, fleetrows_text(rows, 1, NULL))) {
        c = answer_add(m->out);
        if (!c)
            return OPM_ENOMEM;
        c[memory_col_rank].i = rank;
        c[memory_col_host].text = answer_keep(m->out, rank_hosts_at(m->hosts, rank));
        c[memory_col_counter].text = answer_keep(m->out, fleetrows_text(rows, 0, NULL));
        c[memory_col_device].text = answer_keep(m->out, fleetrows_text(rows, 1, NULL));
        c[memory_col_peak_bytes].f = peak;
        c[memory_col_growth_bytes].f = 0;
        c[memory_col_of_median].f = last; /* of the first step, until all are there */
    }
    c[memory_col_peak_bytes].f = fmax(c[memory_col_peak_bytes].f, peak);
    c[memory_col_growth_bytes].f = last - c[memory_col_of_median].f;
    return 0;
}

static bool same_counter(const struct answer_cell *a, const struct answer_cell *b)
{
    return same_text(a[memory_col_counter].text, b[memory_col_counter].text) &&
           same_text(a[memory_col_device].text, b[memory_col_device].text);
}

static int by_peak(const void *va, const void *vb)
{
    const struct answer_cell *a = va, *b = vb;
    int counter = strcmp(a[memory_col_counter].text, b[memory_col_counter].text);

    if (counter)
        return counter;
    ORDER(b[memory_col_peak_bytes].f, a[memory_col_peak_bytes].f);
    ORDER(a[memory_col_rank].i, b[memory_col_rank].i);
    return strcmp(a[memory_col_device].text, b[memory_col_device].text);
}

int ask_memory(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    struct rank_hosts hosts = { 0 };
    struct memories m = { out, &hosts };
    double *room = NULL;
    int rc = rank_hosts_get(&hosts, db, job, err);

    if (rc == 0)
        rc = ask_rows(db, job, each_memory, &m, err,
                      "SELECT counter, device, rank, num, max(peak_bytes) AS a,"
                      " max(last_bytes) AS b FROM rank_memory WHERE job = %s"
                      " GROUP BY counter, device, rank, num ORDER BY counter, device, rank, num",
                      ASK_JOB);
    room = mem_alloc((out->nrow + 1) * sizeof(*room));
    if (rc == 0 && !room)
        rc = opm__fail(err, OPM_ENOMEM, "out of memory");
    for (size_t i = 0, end; i < out->nrow && rc == 0; i = end) {
        double median;

        for (end = i; end < out->nrow && same_counter(&out->cell[i * memory_col_COUNT],
                                                      &out->cell[end * memory_col_COUNT]);
             end++)
            room[end - i] = out->cell[end * memory_col_COUNT + memory_col_peak_bytes].f;
        median = median_of(room, end - i);
        for (size_t k = i; k < end; k++) {
            struct answer_cell *c = &out->cell[k * memory_col_COUNT];

            c[memory_col_of_median].f =
                median > 0 ? c[memory_col_peak_bytes].f / median : (double)NAN;
        }
    }
    answer_sort(out, by_peak);
    mem_free(room);
    rank_hosts_release(&hosts);
    return rc;
}

/* -- ranks -- */

static int each_rank(void *user, struct fleetrows *rows)
{
    struct answer *out = user;
    int64_t rank = fleetrows_int(rows, 0);
    struct answer_cell *c = out->nrow ? &out->cell[(out->nrow - 1) * ranks_col_COUNT] : NULL;

    if (!c || c[ranks_col_rank].i != rank) {
        c = answer_add(out);
        if (!c)
            return OPM_ENOMEM;
        c[ranks_col_rank].i = rank;
        c[ranks_col_recordings].i = c[ranks_col_spans].i = 0;
        c[ranks_col_left_out].i = c[ranks_col_lost].i = 0;
    }
    c[ranks_col_recordings].i++;
    c[ranks_col_spans].i = add_ns(c[ranks_col_spans].i, fleetrows_size(rows, 4));
    c[ranks_col_host].text = answer_keep(out, fleetrows_text(rows, 1, NULL));
    c[ranks_col_machine].text = answer_keep(out, fleetrows_text(rows, 2, NULL));
    c[ranks_col_trace].text = answer_keep(out, fleetrows_text(rows, 3, NULL));
    c[ranks_col_world].i = MAX(c[ranks_col_world].i, fleetrows_int(rows, 5));
    return 0;
}

/* Its row; NULL: there is none. */
static struct answer_cell *row_of_rank(const struct answer *out, int64_t rank)
{
    size_t low = 0, high = out->nrow;

    while (low < high) {
        size_t mid = (low + high) / 2;

        if (out->cell[mid * ranks_col_COUNT + ranks_col_rank].i < rank)
            low = mid + 1;
        else
            high = mid;
    }
    return low < out->nrow && out->cell[low * ranks_col_COUNT + ranks_col_rank].i == rank
               ? &out->cell[low * ranks_col_COUNT]
               : NULL;
}

static int each_rank_steps(void *user, struct fleetrows *rows)
{
    struct answer_cell *c = row_of_rank(user, fleetrows_int(rows, 0));

    if (c) {
        c[ranks_col_steps].i = fleetrows_size(rows, 1);
        c[ranks_col_mean_ns].f = fleetrows_real(rows, 2) / fleetrows_real(rows, 1);
    }
    return 0;
}

static int each_rank_lost(void *user, struct fleetrows *rows)
{
    struct answer_cell *c = row_of_rank(user, fleetrows_int(rows, 0));

    if (c)
        c[ranks_col_lost].i = 1;
    return 0;
}

int ask_ranks(struct fleetdb *db, const char *job, struct answer *out, opm_error *err)
{
    const struct left_out *left_out;
    int rc =
        ask_rows(db, job, each_rank, out, err,
                 "SELECT rank, host, machine, trace, spans, world FROM rank_file WHERE job = %s"
                 " ORDER BY rank, began_ns",
                 ASK_JOB);

    if (rc == 0)
        rc = ask_rows(db, job, each_rank_steps, out, err,
                      "SELECT rank, count(*) AS n, sum(total_ns) AS all_ns FROM rank_step"
                      " WHERE job = %s AND warmup = 0 GROUP BY rank",
                      ASK_JOB);
    if (rc == 0)
        rc = ask_rows(db, job, each_rank_lost, out, err,
                      "SELECT rank, count(*) AS n FROM rank_advice WHERE job = %s"
                      " AND rule = 'lost_data' GROUP BY rank",
                      ASK_JOB);
    if (rc == 0)
        rc = left_out_get(db, job, &left_out, err);
    for (size_t i = 0; rc == 0 && i < out->nrow; i++) {
        struct answer_cell *c = &out->cell[i * ranks_col_COUNT];

        c[ranks_col_left_out].i = (int64_t)left_out_of(left_out, c[ranks_col_rank].i);
        c[ranks_col_recordings].i += c[ranks_col_left_out].i;
    }
    return rc;
}
