/* diff.c -- see diff.h. */
#include "compare/diff.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"
#include "base/strpool.h"
#include "base/u64map.h"
#include "compare/discovery.h"
#include "compare/student.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

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

/* Own time and its variance, by what a row is called: of the whole trace, */
static const char ops_sql[] =
    "SELECT %s, type, sum(typical_ns), sum(stdev_ns * stdev_ns * count) FROM op_stats"
    " WHERE count > 0 GROUP BY 1, 2";
static const char spans_sql[] = "SELECT %s, cat, sum(self_ns), NULL FROM span_stats GROUP BY 1, 2";
/* and of an iteration: the mean of those that were recorded of what runs in them. What runs in
 * none is spread over all of them (the number). */
static const char ops_iteration_sql[] =
    "SELECT s.%s, s.type, sum(t.time_ns / iif(t.iterations IS NULL, %lld, 1)),"
    " sum(s.stdev_ns * s.stdev_ns * s.count * 1.0 / coalesce(t.iterations, %lld) /"
    " coalesce(t.iterations, %lld))"
    " FROM op_stats AS s JOIN (SELECT op, min(section), time_ns, iterations FROM op_times"
    " WHERE op IS NOT NULL GROUP BY op) AS t ON t.op = s.op"
    " WHERE s.count > 0 AND s.self_ns IS NOT NULL GROUP BY 1, 2";
static const char spans_iteration_sql[] =
    "SELECT %s, type, sum(time_ns / iif(iterations IS NULL, %lld, 1)), NULL FROM op_times"
    " GROUP BY 1, 2";

static double real_or_nan(const opm_rows *r, int col)
{
    return opm_rows_type(r, col) == OPM_TYPE_NULL ? (double)NAN : opm_rows_real(r, col);
}

/* Rows of one side that may have a counterpart: by name and type, and by name alone. */
struct index {
    struct strpool keys;
    struct u64map at; /* id of the key -> row */
};

static void index_release(struct index *x)
{
    strpool_release(&x->keys);
    u64map_release(&x->at);
}

static bool key_id(struct index *x, const char *name, const char *type, str_id *out)
{
    struct buf b = { 0 };
    bool ok;

    buf_adds(&b, name ? name : "");
    buf_addc(&b, '\0');
    buf_adds(&b, type ? type : "");
    ok = !b.failed && strpool_intern(&x->keys, b.data, b.len, out) == 0;
    buf_release(&b);
    return ok;
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

/* Rows of A: by name and type, and by name alone. */
struct indices {
    struct index exact, by_name;
};

static bool row_take(struct diff *d, const opm_rows *r, enum diff_side side, void *user)
{
    struct indices *x = user;
    bool ok = true;
    const char *name = copy(d, r, 0, &ok), *type = copy(d, r, 1, &ok);
    str_id full = 0, short_id = 0;
    struct diff_row *row;
    uint64_t *at;

    if (!ok || !key_id(&x->exact, name, type, &full) ||
        !key_id(&x->by_name, name, NULL, &short_id) || !GROW(d->row, d->cap, d->n + 1))
        return false;
    at = side == DIFF_B ? u64map_get(&x->exact.at, full) : NULL;
    row = at ? &d->row[*at] : &d->row[d->n];
    if (!at) {
        *row = (struct diff_row){ .name = name, .type = type };
        /* Two types of one name: not to be paired by the name alone. */
        if (side == DIFF_A &&
            (u64map_put(&x->exact.at, full, d->n) ||
             u64map_put(&x->by_name.at, short_id,
                        u64map_get(&x->by_name.at, short_id) ? UINT64_MAX : d->n)))
            return false;
        d->n++;
    }
    row->there[side] = true;
    row->ns[side] = opm_rows_real(r, 2);
    row->variance[side] = real_or_nan(r, 3);
    d->total_ns[side] += row->ns[side];
    return true;
}

/* Operators of the same name whose type differs (another engine's name for it) are the same. */
static int pair_by_name(struct diff *d, const struct index *by_name, opm_error *err)
{
    struct u64map taken = { 0 }; /* id of the name -> row of B, or UINT64_MAX: several */
    size_t kept = 0;
    int rc = 0;

    for (size_t i = 0; i < d->n && rc == 0; i++) {
        const char *name = d->row[i].name;
        str_id id;

        if (d->row[i].there[DIFF_A] || !name)
            continue;
        id = strpool_find(&by_name->keys, name, strlen(name) + 1);
        if (u64map_put(&taken, id, u64map_get(&taken, id) ? UINT64_MAX : i) < 0)
            rc = out_of_memory(err);
    }
    for (size_t i = 0; i < d->n && rc == 0; i++) {
        const char *name = d->row[i].name;
        str_id id;
        const uint64_t *a, *b;

        if (!d->row[i].there[DIFF_A] || d->row[i].there[DIFF_B] || !name)
            continue;
        id = strpool_find(&by_name->keys, name, strlen(name) + 1);
        a = u64map_get(&by_name->at, id);
        b = u64map_get(&taken, id);
        if (!a || !b || *a != i || *b == UINT64_MAX)
            continue;
        d->row[i].there[DIFF_B] = true;
        d->row[i].ns[DIFF_B] = d->row[*b].ns[DIFF_B];
        d->row[i].variance[DIFF_B] = d->row[*b].variance[DIFF_B];
        d->row[*b].there[DIFF_B] = false;
    }
    u64map_release(&taken);
    for (size_t i = 0; i < d->n; i++)
        if (d->row[i].there[DIFF_A] || d->row[i].there[DIFF_B])
            d->row[kept++] = d->row[i];
    d->n = kept;
    return rc;
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

/* Names of spans of a trace that has operators are in span_stats alone. */
static void put_sql(struct buf *b, const struct diff *d, enum diff_side side, bool by_type,
                    const bool none[DIFF_SIDES])
{
    long long n = (long long)d->iterations[side];

    if (!d->spans && n)
        buf_addf(b, ops_iteration_sql, by_type ? "type" : "name", n, n, n);
    else if (!d->spans)
        buf_addf(b, ops_sql, by_type ? "type" : "name");
    else if (n && none[DIFF_A] && none[DIFF_B])
        buf_addf(b, spans_iteration_sql, by_type ? "type" : "name", n);
    else
        buf_addf(b, spans_sql, by_type ? "cat" : "name");
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

int diff_read(struct diff *d, opm_trace *const trace[DIFF_SIDES], bool by_type, opm_error *err)
{
    struct indices x = { 0 };
    bool none[DIFF_SIDES] = { false, false };
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

        put_sql(&sql, d, s, by_type, none);
        rc = sql.failed ? out_of_memory(err)
                        : rows_read(d, trace[s], buf_str(&sql), s, row_take, &x, err);
        buf_release(&sql);
    }
    if (rc == 0 && !by_type)
        rc = pair_by_name(d, &x.by_name, err);
    if (rc == 0 && d->n)
        qsort(d->row, d->n, sizeof(*d->row), by_change);
    if (rc == 0)
        rc = judge(d, err);
    index_release(&x.exact);
    index_release(&x.by_name);
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
