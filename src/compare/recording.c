/* recording.c -- see recording.h. */
#include "compare/recording.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/error.h"

#include <math.h>
#include <stdlib.h>

const char *const recording_basis_names[] = { "", "iterations without recording", "steps",
                                              "the whole program" };

const char recording_sources_sql[] =
    "(SELECT span.op AS op, min(track.source) AS source FROM span JOIN track ON track.id ="
    " span.track WHERE span.op IS NOT NULL GROUP BY 1)";

struct values {
    double *v;
    size_t n, cap;
};

/* Where rows of an answer go. */
struct reading {
    struct trials *trials;
    struct trial *trial;
    struct values times;
};

typedef int (*row_fn)(struct reading *x, const opm_rows *r); /* 0 or OPM_ENOMEM */

static int each_row(opm_trace *t, const char *sql, row_fn row, struct reading *x, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, err), said = 0;

    while (rc >= 0 && said == 0) {
        rc = opm_rows_next(r, err);
        if (rc != 1)
            break;
        said = row(x, r);
    }
    opm_rows_close(r);
    return said < 0 ? opm__fail(err, said, "out of memory") : MIN(rc, 0);
}

static int add_time(struct values *v, double ns)
{
    if (!GROW(v->v, v->cap, v->n + 1))
        return OPM_ENOMEM;
    v->v[v->n++] = ns;
    return 0;
}

/* Numbers with commas in between. */
static int row_bare(struct reading *x, const opm_rows *r)
{
    const char *text = opm_rows_text(r, 0, NULL);
    int rc = 0;
    char *end;

    for (; text && *text && rc == 0; text = *end == ',' ? end + 1 : end) {
        double ns = strtod(text, &end);

        if (end == text)
            break;
        if (ns > 0)
            rc = add_time(&x->times, ns);
    }
    return rc;
}

static int row_time(struct reading *x, const opm_rows *r)
{
    double ns = opm_rows_real(r, 0);

    return ns > 0 ? add_time(&x->times, ns) : 0;
}

static int row_op(struct reading *x, const opm_rows *r)
{
    const struct trials_op op = { opm_rows_text(r, 0, NULL), opm_rows_text(r, 1, NULL),
                                  opm_rows_text(r, 2, NULL), opm_rows_text(r, 3, NULL) };
    size_t at;
    int rc = trials_op(x->trials, &op, &at);

    return rc < 0 ? rc : trial_add_op(x->trial, at, opm_rows_real(r, 4));
}

static const struct {
    const char *sql;
    row_fn row;
} bases[] = {
    [RECORDING_BARE] = { "SELECT value FROM meta WHERE key = 'run.bare_ns_each'", row_bare },
    [RECORDING_STEPS] = { "SELECT dur FROM step WHERE warmup = 0 AND dur > 0 ORDER BY id",
                          row_time },
    [RECORDING_WHOLE] = { "SELECT CAST(value AS REAL) FROM meta WHERE key = 'record.wall_ns'",
                          row_time },
};

static int read_one(opm_trace *t, const char *sql, int64_t *out, opm_error *err)
{
    opm_rows *r = NULL;
    int rc = opm_trace_query(t, sql, &r, err);

    if (rc == 0)
        rc = opm_rows_next(r, err);
    *out = rc > 0 ? opm_rows_int(r, 0) : 0;
    opm_rows_close(r);
    return MIN(rc, 0);
}

int recording_instances(opm_trace *trace, int64_t *out, opm_error *err)
{
    return read_one(trace,
                    "SELECT count(DISTINCT source) FROM latency WHERE scope = 'step' AND count > 0",
                    out, err);
}

/* Of an operator in which nothing else runs the median, which no interruption moves; else the own
 * time. What runs in no step is spread over all of them. Of runs at once it is their mean. */
static int read_ops(struct reading *x, opm_trace *trace, opm_error *err)
{
    struct buf sql = { 0 };
    int64_t steps = 0, instances = 0;
    int rc = read_one(trace, "SELECT count(*) FROM step WHERE warmup = 0 AND dur > 0", &steps, err);

    if (rc == 0)
        rc = recording_instances(trace, &instances, err);
    if (rc < 0)
        return rc;
    buf_addf(&sql,
             "SELECT name, type, nodes, work, avg(ns) FROM (SELECT t.name AS name, t.type AS type,"
             " o.nodes AS nodes, " RECORDING_WORK_SQL " AS work, %s AS source, min(t.op) AS first,"
             " sum(iif(abs((t.time_ns + t.interrupted_ns) * n - t.total_ns) <= 0.001 * t.total_ns,"
             " t.median_ns * t.count / n, t.time_ns) / iif(t.iterations IS NULL, %lld, 1)) AS ns"
             " FROM (SELECT *, coalesce(iterations, 1) AS n FROM op_times WHERE section ="
             " (SELECT min(section) FROM op_times)) AS t LEFT JOIN op AS o ON o.id = t.op",
             instances > 1 ? "s.source" : "0", (long long)MAX(steps / MAX(instances, 1), 1));
    if (instances > 1)
        buf_addf(&sql, " LEFT JOIN %s AS s ON s.op = t.op", recording_sources_sql);
    buf_adds(&sql, " WHERE t.time_ns > 0 GROUP BY 1, 2, 3, 4, 5) GROUP BY 1, 2, 3, 4"
                   " ORDER BY min(first)");
    rc = sql.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : each_row(trace, buf_str(&sql), row_op, x, err);
    buf_release(&sql);
    return rc;
}

int recording_read(struct trials *t, opm_trace *trace, struct trial *out,
                   enum recording_basis *basis, opm_error *err)
{
    int first = *basis ? (int)*basis : RECORDING_BARE;
    int last = *basis ? (int)*basis : RECORDING_WHOLE;
    struct reading x = { .trials = t, .trial = out };
    int rc = 0;

    for (int i = first; i <= last && rc == 0 && !x.times.n; i++) {
        rc = each_row(trace, bases[i].sql, bases[i].row, &x, err);
        if (x.times.n)
            *basis = (enum recording_basis)i;
    }
    out->iteration_ns = x.times.v;
    out->n = x.times.n;
    return rc == 0 ? read_ops(&x, trace, err) : rc;
}
