/* reduce.c -- see reduce.h. */
#include "catalog/reduce.h"

#include "analyze/groups.h"
#include "base/alloc.h"
#include "base/digest.h"
#include "base/error.h"
#include "base/quantile.h"
#include "base/sketch.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX 4096 /* of a fact or a name */
#define FACTS_MAX 2000

struct reduction {
    opm_trace *t;
    struct arena *room;
    opm_error *err;
    struct digest digest; /* of what was measured */
    double *ns;           /* latencies */
    size_t n, cap;
    struct kept_fact *fact;
    size_t nfact, fact_cap;
    struct kept_op *op;
    size_t nop, op_cap;
    double steps_total_ns;
    size_t steps;
    int failed;
};

static int no_memory(struct reduction *r)
{
    return opm__fail(r->err, OPM_ENOMEM, "out of memory");
}

static const char *keep_text(struct reduction *r, const char *text)
{
    size_t len = text ? strlen(text) : 0;
    char *own = text ? arena_strndup(r->room, text, MIN(len, TEXT_MAX)) : NULL;

    if (text && !own)
        r->failed = no_memory(r);
    return own;
}

static int each_row(struct reduction *r, const char *sql,
                    int (*row)(struct reduction *r, const opm_rows *rows))
{
    opm_rows *rows = NULL;
    int rc = opm_trace_query(r->t, sql, &rows, r->err);

    while (rc >= 0) {
        rc = opm_rows_next(rows, r->err);
        if (rc != 1)
            break;
        rc = row(r, rows);
    }
    opm_rows_close(rows);
    return rc < 0 ? rc : r->failed;
}

/* Cells as bytes that do not depend on how they are stored. */
static void digest_row(struct reduction *r, const opm_rows *rows)
{
    for (int c = 0; c < opm_rows_columns(rows); c++) {
        const char *text = opm_rows_text(rows, c, NULL);

        digest_add(&r->digest, text ? text : "", text ? strlen(text) + 1 : 1);
    }
}

/* -- latencies -- */

static int add_latency(struct reduction *r, double ns)
{
    if (!(ns > 0) || !isfinite(ns))
        return 0;
    if (!GROW(r->ns, r->cap, r->n + 1))
        return no_memory(r);
    r->ns[r->n++] = ns;
    return 0;
}

static int row_bare(struct reduction *r, const opm_rows *rows)
{
    const char *text = opm_rows_text(rows, 0, NULL);
    int rc = 0;
    char *end;

    digest_row(r, rows);
    for (; text && *text && rc == 0; text = *end == ',' ? end + 1 : end) {
        double ns = strtod(text, &end);

        if (end == text)
            break;
        rc = add_latency(r, ns);
    }
    return rc;
}

static int row_latency(struct reduction *r, const opm_rows *rows)
{
    return add_latency(r, opm_rows_real(rows, 0));
}

static int row_steps(struct reduction *r, const opm_rows *rows)
{
    r->steps = (size_t)opm_rows_int(rows, 0);
    r->steps_total_ns = opm_rows_real(rows, 1);
    return 0;
}

static int row_digest(struct reduction *r, const opm_rows *rows)
{
    digest_row(r, rows);
    return 0;
}

/* As bench does it: iterations without recording, which measuring does not change; else steps; else
 * the program from start to end; else the trace. */
static int read_latencies(struct reduction *r, struct kept_run *run)
{
    static const struct {
        const char *basis, *sql;
        int (*row)(struct reduction *r, const opm_rows *rows);
    } ways[] = {
        { "iterations without recording", "SELECT value FROM meta WHERE key = 'run.bare_ns_each'",
          row_bare },
        { "steps", "SELECT dur FROM step WHERE warmup = 0 AND dur > 0 ORDER BY id", row_latency },
        { "program", "SELECT CAST(value AS REAL) FROM meta WHERE key = 'record.wall_ns'",
          row_latency },
    };
    int rc = each_row(r, "SELECT count(*), total(dur) FROM step WHERE warmup = 0 AND dur > 0",
                      row_steps);

    if (rc == 0)
        rc = each_row(r, "SELECT ts, dur, warmup, model FROM step ORDER BY id", row_digest);
    for (size_t i = 0; i < ARRAY_SIZE(ways) && rc == 0 && r->n == 0; i++) {
        run->basis = ways[i].basis;
        rc = each_row(r, ways[i].sql, ways[i].row);
    }
    if (rc == 0 && r->n == 0) {
        run->basis = "trace";
        rc = add_latency(r, (double)opm_trace_end(r->t));
    }
    if (rc == 0 && r->n == 0)
        rc = opm__fail(r->err, OPM_EFORMAT, "nothing in it has a duration");
    return rc;
}

static int figures_of(struct reduction *r, struct kept_run *run)
{
    static const double q[] = { 0.5, PERCENTILE(99) };
    int64_t *keys = mem_calloc(r->n, sizeof(*keys));
    struct sketch sketch = { 0 };
    struct buf bytes = { 0 };
    double at[2], squares = 0;
    int rc = keys ? 0 : OPM_ENOMEM;

    run->count = (int64_t)r->n;
    run->total_ns = 0;
    run->min_ns = run->max_ns = r->ns[0];
    for (size_t i = 0; i < r->n && rc == 0; i++) {
        keys[i] = quantile_key(r->ns[i]);
        run->total_ns += r->ns[i];
        run->min_ns = MIN(run->min_ns, r->ns[i]);
        run->max_ns = MAX(run->max_ns, r->ns[i]);
        rc = sketch_add(&sketch, r->ns[i]);
    }
    if (rc == 0) {
        run->mean_ns = run->total_ns / (double)r->n;
        for (size_t i = 0; i < r->n; i++)
            squares += (r->ns[i] - run->mean_ns) * (r->ns[i] - run->mean_ns);
        run->stdev_ns = r->n > 1 ? sqrt(squares / (double)(r->n - 1)) : (double)NAN;
        quantiles_keys(keys, r->n, q, ARRAY_SIZE(q), at);
        run->median_ns = at[0];
        run->p99_ns = at[1];
        sketch_write(&sketch, &bytes);
        run->sketch.len = bytes.len;
        run->sketch.data = bytes.failed ? NULL : arena_strndup(r->room, bytes.data, bytes.len);
        rc = run->sketch.data ? 0 : OPM_ENOMEM;
    }
    sketch_release(&sketch);
    buf_release(&bytes);
    mem_free(keys);
    return rc < 0 ? no_memory(r) : 0;
}

/* -- facts -- */

static int row_fact(struct reduction *r, const opm_rows *rows)
{
    struct kept_fact *f;

    if (r->nfact == FACTS_MAX)
        return 0;
    if (!GROW(r->fact, r->fact_cap, r->nfact + 1))
        return no_memory(r);
    f = &r->fact[r->nfact++];
    *f = (struct kept_fact){ .key = keep_text(r, opm_rows_text(rows, 0, NULL)),
                             .value = keep_text(r, opm_rows_text(rows, 1, NULL)) };
    return r->failed;
}

static const char *fact(const struct reduction *r, const char *key)
{
    for (size_t i = 0; i < r->nfact; i++)
        if (r->fact[i].key && strcmp(r->fact[i].key, key) == 0)
            return r->fact[i].value;
    return NULL;
}

static double fact_real(const struct reduction *r, const char *key)
{
    const char *text = fact(r, key);
    char *end;
    double v = text ? strtod(text, &end) : (double)NAN;

    return text && end != text ? v : (double)NAN;
}

/* A time since 1970 in ns has more digits than a real number keeps. */
static int64_t fact_int(const struct reduction *r, const char *key)
{
    const char *text = fact(r, key);
    double v = fact_real(r, key);
    long long whole;
    char *end = NULL;

    errno = 0;
    whole = text ? strtoll(text, &end, 10) : 0;
    if (!(fabs(v) < 9e18))
        return RUNSDB_NONE;
    return end != text && *end == '\0' && errno == 0 ? whole : (int64_t)v;
}

static int row_name(struct reduction *r, const opm_rows *rows)
{
    /* Where nobody says what the model is called, its steps or the file do. */
    if (r->nfact < FACTS_MAX && !fact(r, "model.name") && opm_rows_text(rows, 0, NULL)) {
        if (!GROW(r->fact, r->fact_cap, r->nfact + 1))
            return no_memory(r);
        r->fact[r->nfact++] =
            (struct kept_fact){ .key = "model.name",
                                .value = keep_text(r, opm_rows_text(rows, 0, NULL)) };
    }
    return r->failed;
}

/* What a device has to say goes before what the processor is called: it did the work. */
static int row_device(struct reduction *r, const opm_rows *rows)
{
    if (!GROW(r->fact, r->fact_cap, r->nfact + 1))
        return no_memory(r);
    r->fact[r->nfact++] = (struct kept_fact){ .key = "machine.device",
                                              .value = keep_text(r, opm_rows_text(rows, 0, NULL)) };
    return r->failed;
}

static int read_facts(struct reduction *r)
{
    int rc = each_row(r,
                      "SELECT key, max(value) FROM meta WHERE key IS NOT NULL AND key NOT IN"
                      " ('run.bare_ns_each', 'machine.device') AND value <> '' GROUP BY key"
                      " ORDER BY key",
                      row_fact);

    if (rc == 0)
        rc = each_row(r,
                      "SELECT name FROM latency WHERE scope = 'step' AND name <> ''"
                      " ORDER BY count DESC, name LIMIT 1",
                      row_name);
    if (rc == 0)
        rc = each_row(r,
                      "SELECT device FROM track WHERE kind = 'stream' AND device <> ''"
                      " ORDER BY id LIMIT 1",
                      row_device);
    return rc;
}

static const char *first_of(const char *a, const char *b)
{
    return a ? a : b;
}

static void fill_run(struct reduction *r, const struct reduce_said *said, struct kept_run *run)
{
    int64_t began = fact_int(r, "clock.start_realtime_ns"), shift = fact_int(r, "trace.start_ns");

    run->added_ns = said->now_ns;
    run->began_ns = began > 0 ? add_ns(began, MAX(shift, 0)) : said->now_ns;
    run->model = first_of(keep_text(r, said->model), fact(r, "model.name"));
    if (!run->model && said->trace) /* nobody says: the file's name is better than nothing */
        run->model =
            keep_text(r, strrchr(said->trace, '/') ? strrchr(said->trace, '/') + 1 : said->trace);
    run->model_hash = fact(r, "model.digest");
    run->engine = first_of(fact(r, "engine.name"), fact(r, "source.format"));
    run->engine_version = fact(r, "engine.version");
    run->machine = first_of(fact(r, "machine.device"), fact(r, "machine.cpu"));
    run->host = fact(r, "machine.host");
    run->threads = fact_int(r, "engine.threads");
    run->batch = fact_int(r, "run.batch");
    run->sizes = fact(r, "run.sizes");
    run->version = fact(r, "opmeter.version");
    run->commit_id = keep_text(r, said->commit_id);
    run->dirty = said->commit_id ? said->dirty : RUNSDB_NONE;
    run->cost_ns = fact_real(r, "run.cost_ns");
    run->cost_error_ns = fact_real(r, "run.cost_error_ns");
    run->loop_ns = isnan(said->loop_ns) ? fact_real(r, "calm.loop_ns") : said->loop_ns;
    run->stolen = isnan(said->stolen) ? fact_real(r, "calm.stolen") : said->stolen;
    run->load = isnan(said->load) ? fact_real(r, "calm.load") : said->load;
    run->trace = keep_text(r, said->trace);
    run->accepted = 0;
}

/* -- operators -- */

static int row_op(struct reduction *r, const opm_rows *rows)
{
    struct kept_op *o;
    const char *name = opm_rows_text(rows, 0, NULL), *type = opm_rows_text(rows, 1, NULL);

    digest_row(r, rows);
    if (!GROW(r->op, r->op_cap, r->nop + 1))
        return no_memory(r);
    o = &r->op[r->nop++];
    *o = (struct kept_op){ .name = keep_text(r, name ? name : ""),
                           .type = keep_text(r, type ? type : ""),
                           .count = opm_rows_int(rows, 2),
                           .total_ns = opm_rows_real(rows, 3),
                           .iteration_ns = opm_rows_real(rows, 4),
                           .median_ns = opm_rows_real(rows, 5),
                           .p99_ns = opm_rows_real(rows, 6),
                           .stdev_ns = opm_rows_type(rows, 7) == OPM_TYPE_NULL
                                           ? (double)NAN
                                           : opm_rows_real(rows, 7) };
    return r->failed;
}

/* Of an operator in which nothing else runs, its time in an iteration is that of its median, which
 * no interruption moves; else the own time. What runs in no step is spread over all. Figures of
 * several operators of one name and type are those of the longest. */
static int read_ops(struct reduction *r, struct kept_run *run)
{
    char sql[900];
    double sum = 0;
    int rc;

    snprintf(
        sql, sizeof(sql),
        "SELECT name, type, sum(count), sum(total_ns), sum(iif(abs((time_ns + interrupted_ns) * n"
        " - total_ns) <= 0.001 * total_ns, median_ns * count / n, time_ns)"
        " / iif(iterations IS NULL, %zu, 1)) AS own, max(median_ns), max(p99_ns), max(stdev_ns)"
        " FROM (SELECT *, coalesce(iterations, 1) AS n FROM op_times WHERE section ="
        " (SELECT min(section) FROM op_times)) WHERE time_ns > 0 GROUP BY 1, 2 ORDER BY 1, 2",
        MAX(r->steps, (size_t)1));
    rc = each_row(r, sql, row_op);
    for (size_t i = 0; i < r->nop; i++)
        sum += r->op[i].iteration_ns;
    run->explained =
        rc == 0 && r->steps && r->nop ? sum / (r->steps_total_ns / (double)r->steps) : (double)NAN;
    return rc;
}

/* -- all of it -- */

/* A copy of n rows that lives in the room. */
static void *settle(struct reduction *r, const void *rows, size_t n, size_t size)
{
    void *own = arena_alloc(r->room, n * size + 1);

    if (!own)
        r->failed = no_memory(r);
    else if (n)
        memcpy(own, rows, n * size);
    return own;
}

static void name_rows(struct reduction *r, const struct reduce_said *said, struct kept *out)
{
    char text[DIGEST_ROOM];
    const char *id;
    struct kept_label *label = settle(r, said->label, said->nlabel, sizeof(*label));
    struct kept_fact *f = settle(r, r->fact, r->nfact, sizeof(*f));
    struct kept_op *op = settle(r, r->op, r->nop, sizeof(*op));

    digest_text(&r->digest, text);
    id = keep_text(r, text);
    if (r->failed)
        return;
    for (size_t i = 0; i < said->nlabel; i++)
        label[i].run = id;
    for (size_t i = 0; i < r->nfact; i++)
        f[i].run = id;
    for (size_t i = 0; i < r->nop; i++)
        op[i].run = id;
    out->run.id = id;
    out->label = label;
    out->nlabel = said->nlabel;
    out->fact = f;
    out->nfact = r->nfact;
    out->op = op;
    out->nop = r->nop;
}

int reduce_trace(opm_trace *t, const struct reduce_said *said, struct arena *room, struct kept *out,
                 opm_error *err)
{
    struct reduction r = { .t = t, .room = room, .err = err, .digest = DIGEST_INIT };
    int rc;

    *out = (struct kept){ 0 };
    rc = read_facts(&r);
    if (rc == 0)
        rc = read_latencies(&r, &out->run);
    if (rc == 0)
        rc = figures_of(&r, &out->run);
    if (rc == 0)
        rc = read_ops(&r, &out->run);
    if (rc == 0) {
        fill_run(&r, said, &out->run);
        /* Two runs that took the same to the ns began at different times. */
        digest_add(&r.digest, &out->run.began_ns,
                   fact(&r, "clock.start_realtime_ns") ? sizeof(out->run.began_ns) : 0);
        name_rows(&r, said, out);
        rc = r.failed;
    }
    mem_free(r.ns);
    mem_free(r.fact);
    mem_free(r.op);
    return rc;
}
