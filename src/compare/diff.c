/* diff.c -- see diff.h. */
#include "compare/diff.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "compare/align.h"
#include "compare/discovery.h"
#include "compare/recording.h"
#include "compare/robust.h"
#include "compare/student.h"
#include "compare/tail.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define TAIL 0.99

const char *const diff_metric_names[] = {
#define X(name) #name,
    DIFF_METRICS(X)
#undef X
        NULL
};

static const char latency_sql[] = "SELECT scope, name, count, stdev_ns"
#define X(name) ", " #name "_ns"
    DIFF_METRICS(X)
#undef X
        " FROM latency WHERE count > 0 ORDER BY scope DESC, count * mean_ns DESC";

/* Own time and its variance, nodes and work, by what a row is called: of the whole trace, */
static const char ops_sql[] =
    "SELECT s.name, s.type, sum(s.typical_ns), sum(s.stdev_ns * s.stdev_ns * s.count), o.nodes,"
    " " RECORDING_WORK_SQL ", 0, min(s.op) FROM op_stats AS s JOIN op AS o ON o.id = s.op"
    " WHERE s.count > 0 GROUP BY 1, 2, 5, 6 ORDER BY 8";
static const char spans_sql[] =
    "SELECT name, cat, sum(self_ns), NULL, NULL, NULL, 0, 0 FROM span_stats GROUP BY 1, 2";
/* and of an iteration: the mean of those that were recorded of what runs in them. What runs in
 * none is spread over all of them (the number). The last but one: which of several runs at once. */
static const char ops_iteration_sql[] =
    "SELECT s.name, s.type, sum(t.time_ns / iif(t.iterations IS NULL, %lld, 1)),"
    " sum(s.stdev_ns * s.stdev_ns * s.count * 1.0 / coalesce(t.iterations, %lld) /"
    " coalesce(t.iterations, %lld)), o.nodes, " RECORDING_WORK_SQL ", %s, min(s.op)"
    " FROM op_stats AS s JOIN (SELECT op, min(section), time_ns, iterations FROM op_times"
    " WHERE op IS NOT NULL GROUP BY op) AS t ON t.op = s.op JOIN op AS o ON o.id = s.op%s%s%s"
    " WHERE s.count > 0 AND s.self_ns IS NOT NULL GROUP BY 1, 2, 5, 6, 7";
static const char spans_iteration_sql[] =
    "SELECT name, type, sum(time_ns / iif(iterations IS NULL, %lld, 1)), NULL, NULL, NULL, 0, 0"
    " FROM op_times GROUP BY 1, 2";

static double real_or_nan(const opm_rows *r, int col)
{
    return opm_rows_type(r, col) == OPM_TYPE_NULL ? (double)NAN : opm_rows_real(r, col);
}

static char *copy(struct diff *d, const opm_rows *r, int col, bool *ok)
{
    size_t len;
    const char *text = opm_rows_text(r, col, &len);
    char *s = text ? arena_strndup(&d->text, text, len) : NULL;

    if (text && !s)
        *ok = false;
    return s;
}

static int out_of_memory(opm_error *err)
{
    return opm__fail(err, OPM_ENOMEM, "out of memory");
}

/* Give every row of the answer to take(), which is false for lack of memory. */
static int rows_read(struct diff *d, opm_trace *t, const char *sql, enum diff_side side,
                     bool (*take)(struct diff *, const opm_rows *, enum diff_side, void *),
                     void *user, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, err);
    bool ok = true;

    if (rc < 0)
        return rc;
    do {
        rc = opm_rows_next(r, err);
        ok = rc != 1 || take(d, r, side, user);
    } while (rc == 1 && ok);
    opm_rows_close(r);
    return ok ? MIN(rc, 0) : out_of_memory(err);
}

/* Whether the trace has operators that ran. */
static int has_operators(opm_trace *t, bool *out, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, "SELECT 1 FROM op_stats LIMIT 1", &r, err);

    if (rc == 0)
        rc = opm_rows_next(r, err);
    *out = rc > 0;
    opm_rows_close(r);
    return MIN(rc, 0);
}

/* -- latency -- */

static struct diff_latency *latency_find(struct diff *d, const char *scope, const char *name)
{
    for (size_t i = 0; i < d->nlatency; i++) {
        struct diff_latency *l = &d->latency[i];

        if (!l->there[DIFF_B] && strcmp(l->scope, scope) == 0 &&
            strcmp(l->name[DIFF_A] ? l->name[DIFF_A] : "", name ? name : "") == 0)
            return l;
    }
    return NULL;
}

static bool latency_take(struct diff *d, const opm_rows *r, enum diff_side side, void *unused)
{
    bool ok = true;
    const char *scope = copy(d, r, 0, &ok), *name = copy(d, r, 1, &ok);
    struct diff_latency *l;

    (void)unused;
    if (!ok || !GROW(d->latency, d->latency_cap, d->nlatency + 1))
        return false;
    l = side == DIFF_B ? latency_find(d, scope, name) : NULL;
    if (!l) {
        l = &d->latency[d->nlatency++];
        *l = (struct diff_latency){ .scope = scope };
    }
    l->there[side] = true;
    l->name[side] = name;
    l->count[side] = opm_rows_int(r, 2);
    l->stdev_ns[side] = real_or_nan(r, 3);
    for (int m = 0; m < DIFF_NMETRICS; m++)
        l->ns[m][side] = real_or_nan(r, 4 + m);
    if (strcmp(scope, "step") == 0)
        d->iterations[side] += l->count[side];
    return true;
}

/* One model on each side: they are what is to be compared, whatever they are called. */
static void latency_pair(struct diff *d)
{
    struct diff_latency *only[DIFF_SIDES] = { NULL, NULL };
    size_t steps = 0;

    for (size_t i = 0; i < d->nlatency; i++) {
        struct diff_latency *l = &d->latency[i];

        if (strcmp(l->scope, "step") != 0)
            continue;
        steps++;
        for (int s = 0; s < DIFF_SIDES; s++)
            if (l->there[s] && !l->there[!s])
                only[s] = l;
    }
    if (steps != 2 || !only[DIFF_A] || !only[DIFF_B])
        return;
    only[DIFF_A]->there[DIFF_B] = true;
    only[DIFF_A]->name[DIFF_B] = only[DIFF_B]->name[DIFF_B];
    only[DIFF_A]->count[DIFF_B] = only[DIFF_B]->count[DIFF_B];
    only[DIFF_A]->stdev_ns[DIFF_B] = only[DIFF_B]->stdev_ns[DIFF_B];
    for (int m = 0; m < DIFF_NMETRICS; m++)
        only[DIFF_A]->ns[m][DIFF_B] = only[DIFF_B]->ns[m][DIFF_B];
    d->nlatency--;
    memmove(only[DIFF_B], only[DIFF_B] + 1,
            (size_t)(&d->latency[d->nlatency] - only[DIFF_B]) * sizeof(*only[DIFF_B]));
}

/* -- operators -- */

/* Operators of both sides as they are read. */
struct reading {
    struct align_op *op;
    double *variance; /* of that on its side */
    size_t n, cap, variance_cap;
};

static const char *copy_or_empty(struct diff *d, const opm_rows *r, int col, bool *ok)
{
    const char *s = copy(d, r, col, ok);

    return s ? s : "";
}

static bool op_take(struct diff *d, const opm_rows *r, enum diff_side side, void *user)
{
    struct reading *x = user;
    bool ok = GROW(x->op, x->cap, x->n + 1) && GROW(x->variance, x->variance_cap, x->n + 1);
    struct align_op op = { .ns = { NAN, NAN } };

    op.name = copy_or_empty(d, r, 0, &ok);
    op.type = copy_or_empty(d, r, 1, &ok);
    op.ns[side] = opm_rows_real(r, 2);
    op.nodes = copy_or_empty(d, r, 4, &ok);
    op.work = copy_or_empty(d, r, 5, &ok);
    if (!ok)
        return false;
    x->variance[x->n] = real_or_nan(r, 3);
    x->op[x->n++] = op;
    return true;
}

/* A row of the answer, as groups or types of them have it. */
static void row_add(struct diff_row *row, const struct align_op *op, double variance)
{
    for (int s = 0; s < DIFF_SIDES; s++) {
        if (isnan(op->ns[s]))
            continue;
        row->there[s] = true;
        row->ns[s] += op->ns[s];
        row->variance[s] += variance;
        row->op_name[s] = row->ops[s]++ == 0 && op->name[0] ? op->name : NULL;
    }
}

static const char *text_of(struct diff *d, const char *s)
{
    return s[0] ? arena_strndup(&d->text, s, strlen(s)) : NULL;
}

static int make_rows(struct diff *d, const struct reading *x, bool by_type, opm_error *err)
{
    struct align a = { 0 };
    int rc = d->spans ? align_names(&a, x->op, x->n) : align_ops(&a, x->op, x->n);

    if (rc == 0 && by_type)
        rc = align_by_type(&a, x->n);
    if (rc == 0 && !GROW(d->row, d->cap, a.n + 1))
        rc = OPM_ENOMEM;
    for (size_t i = 0; i < a.n && rc == 0; i++) {
        const struct align_group *g = &a.group[i];

        d->row[i] = (struct diff_row){ .name = text_of(d, g->name), .type = text_of(d, g->type) };
        if ((g->name[0] && !d->row[i].name) || (g->type[0] && !d->row[i].type))
            rc = OPM_ENOMEM;
    }
    for (size_t i = 0; i < x->n && rc == 0; i++)
        row_add(&d->row[a.group_of[i]], &x->op[i], x->variance[i]);
    d->n = rc == 0 ? a.n : 0;
    for (size_t i = 0; i < d->n; i++)
        for (int s = 0; s < DIFF_SIDES; s++) {
            d->total_ns[s] += d->row[i].ns[s];
            if (d->row[i].there[s] && !d->row[i].there[!s])
                d->alone_ns[s] += d->row[i].ns[s];
        }
    align_release(&a);
    return rc == 0 ? 0 : out_of_memory(err);
}

static int by_change(const void *pa, const void *pb)
{
    const struct diff_row *a = pa, *b = pb;
    double x = fabs(a->ns[DIFF_B] - a->ns[DIFF_A]), y = fabs(b->ns[DIFF_B] - b->ns[DIFF_A]);
    int c;

    if (x != y)
        return x < y ? 1 : -1;
    c = strcmp(a->name ? a->name : "", b->name ? b->name : "");
    return c ? c : strcmp(a->type ? a->type : "", b->type ? b->type : "");
}

/* Names of spans of a trace that has operators are in span_stats alone. Of several runs at once the
 * mean: those of one name in different ones are one. */
static void put_sql(struct buf *b, const struct diff *d, enum diff_side side, int64_t instances,
                    const bool none[DIFF_SIDES])
{
    long long n = (long long)MAX(d->iterations[side] / MAX(instances, 1), 1);

    if (!d->spans && d->iterations[side] && instances > 1) {
        buf_adds(b, "WITH one(name, type, ns, variance, nodes, work, source, first) AS (");
        buf_addf(b, ops_iteration_sql, n, n, n, "c.source", " LEFT JOIN ", recording_sources_sql,
                 " AS c ON c.op = s.op");
        buf_adds(b, ") SELECT name, type, avg(ns), sum(variance) / count(*) / count(*), nodes,"
                    " work, 0, min(first) FROM one GROUP BY 1, 2, 5, 6 ORDER BY 8");
    } else if (!d->spans && d->iterations[side]) {
        buf_addf(b, ops_iteration_sql, n, n, n, "0", "", "", "");
        buf_adds(b, " ORDER BY 8");
    } else if (!d->spans) {
        buf_adds(b, ops_sql);
    } else if (d->iterations[side] && none[DIFF_A] && none[DIFF_B]) {
        buf_addf(b, spans_iteration_sql, n);
    } else {
        buf_adds(b, spans_sql);
    }
}

/* The chance of so much change if there is none, by what iterations differ; NAN: not known, or it
 * is on one side only. */
static double chance(const struct diff_row *r)
{
    double change = fabs(r->ns[DIFF_B] - r->ns[DIFF_A]);
    double error = sqrt(r->variance[DIFF_A] + r->variance[DIFF_B]);

    if (!r->there[DIFF_A] || !r->there[DIFF_B])
        return (double)NAN;
    if (error > 0)
        return 2 * normal_above(change / error);
    return isnan(error) ? (double)NAN : change > 0 ? 0 : 1;
}

static int judge(struct diff *d, opm_error *err)
{
    double *p = mem_calloc(d->n + 1, sizeof(*p)), found;
    size_t n = 0;

    if (!p)
        return out_of_memory(err);
    for (size_t i = 0; i < d->n; i++) {
        double one = chance(&d->row[i]);

        if (!isnan(one))
            p[n++] = one;
    }
    found = discovery_threshold(p, n);
    for (size_t i = 0; i < d->n; i++)
        d->row[i].certain = chance(&d->row[i]) <= found;
    mem_free(p);
    return 0;
}

/* -- the tail -- */

struct durations {
    double *v;
    size_t n, cap;
};

static bool duration_take(struct diff *d, const opm_rows *r, enum diff_side side, void *user)
{
    struct durations *x = (struct durations *)user + side;

    (void)d;
    if (!GROW(x->v, x->cap, x->n + 1))
        return false;
    x->v[x->n++] = opm_rows_real(r, 0);
    return true;
}

/* Of the first steps that both have. */
static int read_tail(struct diff *d, opm_trace *const trace[DIFF_SIDES], opm_error *err)
{
    const struct diff_latency *l = NULL;
    struct durations x[DIFF_SIDES] = { 0 };
    struct diff_tail *t = &d->tail;
    double p = 1;
    int rc = 0;

    for (size_t i = 0; i < d->nlatency && !l; i++)
        if (d->latency[i].there[DIFF_A] && d->latency[i].there[DIFF_B] &&
            strcmp(d->latency[i].scope, "step") == 0)
            l = &d->latency[i];
    for (int s = 0; s < DIFF_SIDES && l && rc == 0; s++) {
        struct buf sql = { 0 };

        buf_adds(&sql, "SELECT dur FROM step WHERE warmup = 0 AND dur > 0 AND model IS ");
        if (l->name[s])
            buf_addc(&sql, '\'');
        for (const char *at = l->name[s]; at && *at; at++)
            buf_addf(&sql, *at == '\'' ? "''" : "%c", *at);
        buf_adds(&sql, l->name[s] ? "'" : "NULL");
        rc = sql.failed ? out_of_memory(err)
                        : rows_read(d, trace[s], buf_str(&sql), s, duration_take, x, err);
        buf_release(&sql);
    }
    if (rc == 0 && x[DIFF_A].n && x[DIFF_B].n) {
        if (tail_chance(x[DIFF_A].v, x[DIFF_A].n, x[DIFF_B].v, x[DIFF_B].n, TAIL, DISCOVERY_FALSE,
                        &p, &t->enough) < 0)
            rc = out_of_memory(err);
        t->certain = t->enough && p <= DISCOVERY_FALSE;
        for (int s = 0; s < DIFF_SIDES && rc == 0; s++) {
            t->n[s] = (int64_t)x[s].n;
            t->ns[s] = robust_quantile(x[s].v, x[s].n, TAIL);
        }
    }
    for (int s = 0; s < DIFF_SIDES; s++)
        mem_free(x[s].v);
    return rc;
}

const char *diff_tail_state(const struct diff_tail *t)
{
    if (!t->enough)
        return "cannot tell";
    if (!t->certain)
        return "~";
    return t->ns[DIFF_B] > t->ns[DIFF_A] ? "slower" : "faster";
}

int diff_read(struct diff *d, opm_trace *const trace[DIFF_SIDES], bool by_type, opm_error *err)
{
    bool none[DIFF_SIDES] = { false, false };
    struct reading x = { 0 };
    int rc = 0;

    for (int s = 0; s < DIFF_SIDES && rc == 0; s++) {
        bool has = false;

        rc = has_operators(trace[s], &has, err);
        none[s] = !has;
    }
    d->spans = none[DIFF_A] || none[DIFF_B];
    for (int s = 0; s < DIFF_SIDES && rc == 0; s++)
        rc = rows_read(d, trace[s], latency_sql, s, latency_take, NULL, err);
    if (rc == 0)
        latency_pair(d);
    if (!d->iterations[DIFF_A] || !d->iterations[DIFF_B])
        d->iterations[DIFF_A] = d->iterations[DIFF_B] = 0;
    for (int s = 0; s < DIFF_SIDES && rc == 0; s++) {
        struct buf sql = { 0 };
        int64_t instances = 0;

        rc = recording_instances(trace[s], &instances, err);
        put_sql(&sql, d, s, instances, none);
        if (rc == 0)
            rc = sql.failed ? out_of_memory(err)
                            : rows_read(d, trace[s], buf_str(&sql), s, op_take, &x, err);
        buf_release(&sql);
    }
    if (rc == 0)
        rc = make_rows(d, &x, by_type, err);
    if (rc == 0 && d->n)
        qsort(d->row, d->n, sizeof(*d->row), by_change);
    if (rc == 0)
        rc = judge(d, err);
    if (rc == 0)
        rc = read_tail(d, trace, err);
    mem_free(x.op);
    mem_free(x.variance);
    return rc;
}

void diff_release(struct diff *d)
{
    arena_release(&d->text);
    mem_free(d->latency);
    mem_free(d->row);
    *d = (struct diff){ 0 };
}

const char *diff_state(const struct diff_row *r)
{
    if (!r->there[DIFF_B])
        return "only A";
    if (!r->there[DIFF_A])
        return "only B";
    if (!r->certain)
        return "~";
    return r->ns[DIFF_B] > r->ns[DIFF_A] ? "slower" : "faster";
}

struct diff_row diff_total(const struct diff *d)
{
    struct diff_row total = { .name = "all", .type = "", .there = { true, true } };

    for (int s = 0; s < DIFF_SIDES; s++) {
        total.ns[s] = d->total_ns[s];
        for (size_t i = 0; i < d->n; i++)
            total.variance[s] += d->row[i].there[s] ? d->row[i].variance[s] : 0;
    }
    total.certain = chance(&total) <= DISCOVERY_FALSE;
    return total;
}

double diff_share(double a, double b)
{
    return a > 0 ? (b - a) / a : (double)NAN;
}
