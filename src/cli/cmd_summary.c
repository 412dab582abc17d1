/* cmd_summary.c -- how long inferences, runs of the device and operators take. */
#include "cli/summary.h"

#include "base/alloc.h"
#include "cli/histogram.h"
#include "cli/table.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define ROWS_DEFAULT 100

static const char about[] =
    "One page about a trace: model and machine, latency of inferences (steps) and labelled regions "
    "with percentiles, where the time of every device went, the three largest losses, devices, "
    "memory, and what was lost on the way. Of a trace without steps, the runs of its devices are "
    "summed up. Warm-up is left out. Other reports: every inference, every run of a device, its "
    "streams, what the devices computed, every operator on the host.";

static const char *const methods[] = { "linear", "nearest", NULL };
static const char *const layouts[] = { "opmeter", "furiosa", NULL };

/* -- the statements -- */

/* One row per series of durations, in the columns of the analysis `latency`; p: the percentile. */
#define SERIES(p, scope, name, from, where)                                                     \
    "SELECT '" scope "' AS scope, " name " AS name, count(dur) AS count, min(dur) AS min_ns,"   \
    " max(dur) AS max_ns, avg(dur) AS mean_ns, " p "(dur, 50) AS median_ns, " p "(dur, 90) AS"  \
    " p90_ns, " p "(dur, 95) AS p95_ns, " p "(dur, 97) AS p97_ns, " p "(dur, 99) AS p99_ns, " p \
    "(dur, 99.9) AS p999_ns, stdev(dur) AS stdev_ns FROM " from " WHERE " where " GROUP BY " name
#define EXECUTIONS(p)                                                                   \
    SERIES(p, "execution", "coalesce(device, name)",                                    \
           "(SELECT e.total_ns AS dur, e.warmup, t.device, t.name FROM executions AS e" \
           " LEFT JOIN track AS t ON t.id = e.track)",                                  \
           "warmup = 0")
#define NEAREST "percentile_nearest"

/* Files whose rank is no other's. */
#define RANKS                                                                               \
    "(SELECT source, rank FROM (SELECT source, min(rank) AS rank, count(*) OVER (PARTITION" \
    " BY min(rank)) AS n FROM track GROUP BY source HAVING count(DISTINCT rank) = 1) WHERE" \
    " n = 1)"
/* The series of `latency`; where several sources have one of a name, with the source in it. */
#define TITLED                                                                                \
    "(SELECT l.*, l.rowid AS place, iif(count(*) OVER (PARTITION BY l.scope, l.name) > 1, "   \
    "coalesce(coalesce(l.name || ', ', '') || 'rank ' || r.rank, coalesce(l.name, '')"        \
    " || ' (' || f.path || ')'), l.name) AS title"                                            \
    " FROM latency AS l LEFT JOIN source AS f ON f.id = l.source LEFT JOIN " RANKS " AS r ON" \
    " r.source = l.source WHERE l.count > 0)"
/* The durations behind them. */
#define DURATIONS(scope, label)                                                         \
    "(SELECT x.dur, l.title FROM " scope " AS x LEFT JOIN track AS t ON t.id = x.track" \
    " JOIN " TITLED " AS l ON l.scope = '" scope "' AND l.name IS x." label             \
    " AND l.source IS t.source WHERE x.warmup = 0 AND x.dur >= 0)"
#define STEPS DURATIONS("step", "model")
#define REGIONS DURATIONS("record", "label")

/* By method: of steps and regions, and of the runs of devices. */
static const char *const latency_sql[2] = {
    "SELECT scope, title AS name, count, min_ns, max_ns, mean_ns, median_ns, p90_ns, p95_ns,"
    " p97_ns, p99_ns, p999_ns, stdev_ns FROM " TITLED " ORDER BY place",
    SERIES(NEAREST, "step", "title", STEPS, "1") " UNION ALL " SERIES(NEAREST, "record", "title",
                                                                      REGIONS, "1"),
};
static const char *const execution_sql[2] = { EXECUTIONS("percentile"), EXECUTIONS(NEAREST) };

static const char inferences_sql[] =
    "SELECT trace_id, span_id, tid AS \"thread.id\", model, num, ts, dur FROM inferences"
    " WHERE warmup = 0 AND dur >= 0 ORDER BY id";
/* For people a step is called by its number and the row of a device "all"; programs get step.id and
 * NULL. */
#define ALL_EXECUTIONS(step)                                                                      \
    "SELECT iif(json_valid(s.args), json_extract(s.args, '$.trace_id'), NULL) AS trace_id,"       \
    " iif(json_valid(s.args), json_extract(s.args, '$.span_id'), NULL) AS span_id,"               \
    " t.device, iif(json_valid(s.args), json_extract(s.args, '$.pe_index'), NULL) AS pe_index,"   \
    " iif(json_valid(s.args), json_extract(s.args, '$.execution_index'), NULL) AS"                \
    " execution_index, " step " AS step, e.ts, e.total_ns, e.run_ns, e.io_wait_ns, iif(e.span IS" \
    " NULL AND t.kind = 'stream', t.name, NULL) AS stream FROM executions AS e"                   \
    " LEFT JOIN span AS s ON s.id = e.span LEFT JOIN track AS t ON t.id = e.track"                \
    " WHERE e.warmup = 0 ORDER BY e.rowid"
#define ALL_STREAMS(stream)                                                                       \
    "SELECT device, rank, " stream " AS stream, kernels, copies, total_ns, run_ns, copy_ns,"      \
    " wait_ns, longest_wait_ns, longest_wait_ts FROM stream_stats ORDER BY rank, device, scope =" \
    " 'stream', run_ns + copy_ns DESC, track"
static const char executions_sql[] = ALL_EXECUTIONS("e.step");
static const char executions_shown[] =
    ALL_EXECUTIONS("coalesce((SELECT num FROM step WHERE id = e.step), e.step)");
static const char streams_sql[] = ALL_STREAMS("stream");
static const char streams_shown[] = ALL_STREAMS("iif(scope = 'device', 'all', stream)");
static const char operators_sql[] = "SELECT name, mean_ns AS average_elapsed_ns, count, median_ns,"
                                    " min_ns, max_ns, p99_ns, total_ns, share FROM device_ops";
static const char external_sql[] =
    "SELECT trace_id, span_id, tid AS \"thread.id\", name, operator_index, step, ts, dur"
    " FROM host_ops WHERE dur >= 0 AND warmup = 0 AND coalesce(phase, 'forward') = 'forward'"
    " ORDER BY span";

static const struct summary_report reports[] = {
    { "Inferences", inferences_sql, NULL,
      "The trace has no inferences: no steps are marked in it." },
    { "Device executions", executions_sql, executions_shown, "The trace has no runs of a device." },
    { "Streams", streams_sql, streams_shown, "The trace has no streams of a device." },
    { "Device operators", operators_sql, NULL, "The trace has no operators and no device." },
    { "Host operators", external_sql, NULL, "The trace has no operators on the host." },
};

/* -- the summary -- */

static void series_release(struct all_series *all)
{
    for (size_t i = 0; i < all->n; i++) {
        mem_free(all->s[i].scope);
        mem_free(all->s[i].name);
    }
    mem_free(all->s);
    *all = (struct all_series){ 0 };
}

static int read_series(struct summary *s, const char *sql, struct all_series *all)
{
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(s->t, sql, &r, &err);

    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        struct summary_series *x;

        if (!GROW(all->s, all->cap, all->n + 1)) {
            more = OPM_ENOMEM;
            break;
        }
        x = &all->s[all->n++];
        *x = (struct summary_series){ .scope = mem_strdup(opm_rows_text(r, 0, NULL)),
                                      .name = mem_strdup(opm_rows_type(r, 1) == OPM_TYPE_NULL
                                                             ? ""
                                                             : opm_rows_text(r, 1, NULL)),
                                      .count = opm_rows_int(r, 2) };
        for (size_t i = 0; i < ARRAY_SIZE(x->v); i++)
            x->v[i] =
                opm_rows_type(r, 3 + (int)i) == OPM_TYPE_NULL ? NAN : opm_rows_real(r, 3 + (int)i);
        if (!x->scope || !x->name) {
            more = OPM_ENOMEM;
            break;
        }
    }
    opm_rows_close(r);
    if (more == OPM_ENOMEM)
        return cli_out_of_memory();
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* A step with a backward pass, an exchange of gradients or an update of weights is no inference. */
static bool is_training(struct summary *s)
{
    opm_rows *r = NULL;
    opm_error err;
    bool is =
        opm_trace_query(s->t,
                        "SELECT 1 FROM step_trace WHERE backward_ns IS NOT NULL OR update_ns"
                        " IS NOT NULL OR collective_ns IS NOT NULL OR bp_point IS NOT NULL AND"
                        " split_by IN ('phases', 'points') LIMIT 1",
                        &r, &err) == 0 &&
        opm_rows_next(r, &err) > 0;

    opm_rows_close(r);
    return is;
}

const char *summary_word(struct summary *s, const struct summary_series *x)
{
    if (strcmp(x->scope, "step") == 0)
        return is_training(s) ? "Step" : "Inference";
    return strcmp(x->scope, "record") == 0 ? "Region" : "Execution";
}

int summary_put_table(struct summary *s, const struct summary_series *x, size_t n,
                      const char *heading)
{
    static const char *const names[] = { "min", "mean", "median", "p90", "p95",
                                         "p97", "p99",  "p99.9",  "max" };
    static const int values[] = {
        V_MIN, V_MEAN, V_MEDIAN, V_P90, V_P95, V_P97, V_P99, V_P999, V_MAX
    };
    static const int ranks[] = { 2, 0, 0, 4, 3, 5, 0, 1, 0 }; /* left out first: the highest */
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    textable_column(t, heading, TEXTABLE_TEXT);
    textable_column(t, "count", TEXTABLE_INT);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
        textable_column(t, names[i], TEXTABLE_INT);
        textable_optional(t, ranks[i]);
    }
    for (size_t k = 0; k < n; k++) {
        const char *name = *x[k].name ? x[k].name : "(no name)";

        textable_text(t, name, strlen(name));
        textable_int(t, x[k].count);
        for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
            char room[HUMAN_ROOM];
            const char *text = human_ns(room, x[k].v[values[i]]);

            textable_text(t, text, strlen(text));
        }
    }
    return cli_print_table(s->cli, t);
}

static void say_left_out(struct summary *s, const char *why, int64_t steps, int64_t regions)
{
    struct buf b = { 0 };

    if (steps)
        buf_addf(&b, "%" PRId64 " %s%s", steps, is_training(s) ? "step" : "inference",
                 human_s(steps));
    if (regions)
        buf_addf(&b, "%s%" PRId64 " labelled region%s", b.len ? ", " : "", regions,
                 human_s(regions));
    if (b.len)
        cli_remark(s->cli, "left out %s: %s", why, buf_str(&b));
    buf_release(&b);
}

void summary_say_warmup(struct summary *s)
{
    opm_rows *r = NULL;
    opm_error err;

    if (opm_trace_query(s->t,
                        "SELECT coalesce(sum(warmup_count) FILTER (WHERE scope = 'step'), 0),"
                        " coalesce(sum(warmup_count) FILTER (WHERE scope = 'record'), 0) FROM"
                        " latency UNION ALL SELECT (SELECT count(*) FROM step WHERE dur < 0),"
                        " (SELECT count(*) FROM record WHERE dur < 0)",
                        &r, &err) == 0) {
        if (opm_rows_next(r, &err) > 0)
            say_left_out(s, "as warm-up", opm_rows_int(r, 0), opm_rows_int(r, 1));
        if (opm_rows_next(r, &err) > 0)
            say_left_out(s, "because they never ended", opm_rows_int(r, 0), opm_rows_int(r, 1));
    }
    opm_rows_close(r);
}

/* The durations behind a series. */
int summary_put_histogram(struct summary *s, const struct summary_series *x)
{
    struct histogram h = { 0 };
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more, rc = CLI_OK;

    if (strcmp(x->scope, "execution") == 0)
        buf_adds(&sql, "SELECT e.total_ns, coalesce(t.device, t.name, '') FROM executions AS e"
                       " LEFT JOIN track AS t ON t.id = e.track WHERE e.warmup = 0");
    else if (strcmp(x->scope, "record") == 0)
        buf_adds(&sql, "SELECT dur, coalesce(title, '') FROM " REGIONS);
    else
        buf_adds(&sql, "SELECT dur, coalesce(title, '') FROM " STEPS);
    more = sql.failed ? OPM_ENOMEM : opm_trace_query(s->t, buf_str(&sql), &r, &err);
    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        if (strcmp(opm_rows_text(r, 1, NULL), x->name) == 0 &&
            !histogram_add(&h, opm_rows_real(r, 0)))
            more = OPM_ENOMEM;
    }
    opm_rows_close(r);
    buf_release(&sql);
    if (more == OPM_ENOMEM)
        rc = cli_out_of_memory();
    else if (more < 0)
        rc = cli_error("%s", err.msg);
    else
        histogram_print(&h, s->cli);
    histogram_release(&h);
    return rc;
}

int summary_reconcile(struct summary *s)
{
    int rc = cli_print_reconciliation(s->cli, s->t, "1");

    if (rc == CLI_OK)
        cli_remark_attribution(s->cli, s->t);
    return rc;
}

static int print_summary(struct summary *s)
{
    struct all_series all = { 0 };
    bool nearest = strcmp(s->method, "nearest") == 0;
    const char *sql = latency_sql[nearest];
    int rc = read_series(s, sql, &all);

    if (rc == CLI_OK && !all.n) {
        sql = execution_sql[nearest];
        rc = read_series(s, sql, &all);
    }
    if (rc == CLI_OK && (s->cli->json || s->cli->csv))
        rc = cli_print_query(s->cli, s->t, sql);
    else if (rc == CLI_OK)
        rc = s->furiosa ? summary_print_furiosa(s, &all) : summary_print_page(s, &all);
    series_release(&all);
    if (rc == CLI_OK && !s->furiosa && !s->cli->json && !s->cli->csv)
        cli_remark_interruptions(s->cli, s->t);
    return rc;
}

/* Columns that are NULL throughout are not shown: each source knows others. */
static int print_report(struct summary *s, const struct summary_report *rep)
{
    int64_t rows = 0;
    int rc;

    cli_heading(s->cli, "%s", rep->title);
    rc = table_print(s->cli, s->t, rep->shown ? rep->shown : rep->sql, s->limit, &rows);
    if (rc == CLI_OK && !rows)
        io_out_addf(&s->cli->out, "%s\n", rep->empty);
    if (rc == CLI_OK && s->limit && rows > s->limit)
        cli_remark(s->cli, "there are more than these %" PRId64 ": -t 0 shows all", s->limit);
    return rc;
}

static int print(struct summary *s)
{
    const bool wanted[] = { s->inferences, s->executions, s->streams, s->operators, s->external };
    int n = 0, rc = CLI_OK, done = 0;

    for (size_t i = 0; i < ARRAY_SIZE(wanted); i++)
        n += wanted[i];
    if (n > 1 && (s->cli->json || s->cli->csv))
        return cli_usage(s->cli, "one report at a time with --json or --csv");
    if (n && s->histogram)
        return cli_usage(s->cli, "--histogram goes with the summary only");
    if (!n)
        return print_summary(s);
    for (size_t i = 0; i < ARRAY_SIZE(wanted) && rc == CLI_OK; i++) {
        if (!wanted[i])
            continue;
        if (s->cli->json || s->cli->csv)
            return cli_print_query(s->cli, s->t, reports[i].sql);
        if (s->furiosa && n > 1)
            io_out_addf(&s->cli->out, "%s%s\n", done++ ? "\n" : "", reports[i].title);
        else if (!s->furiosa)
            io_out_adds(&s->cli->out, done++ ? "\n" : "");
        rc = s->furiosa ? summary_print_furiosa_report(s, &reports[i])
                        : print_report(s, &reports[i]);
    }
    return rc;
}

int cmd_summary(struct cli *cli, int argc, char **argv)
{
    struct summary s = { .cli = cli, .method = "linear", .limit = ROWS_DEFAULT };
    const char *as = "opmeter";
    const struct option opts[] = {
        OPT_BOOL(0, "inferences", &s.inferences, "every inference"),
        OPT_BOOL(0, "executions", &s.executions,
                 "every run of a device: total time, computing, waiting for data"),
        OPT_BOOL(0, "streams", &s.streams,
                 "every device and its streams: total time, computing, copying, waiting"),
        OPT_BOOL(0, "operators", &s.operators, "what the devices computed, by name"),
        OPT_BOOL(0, "external", &s.external, "every operator that ran on the host"),
        OPT_INT('t', "top", &s.limit, "N", 0, INT64_MAX,
                "rows of these reports to print; 0: all (100)"),
        OPT_GROUP("The summary"),
        OPT_CHOICE(0, "percentile-method", &s.method, "HOW", methods,
                   "linear (between neighbours) or nearest (a value that occurred) (linear)"),
        OPT_BOOL(0, "histogram", &s.histogram, "draw how the latencies are distributed"),
        OPT_GROUP("Output"),
        OPT_CHOICE(0, "as", &as, "TOOL", layouts,
                   "the layout: opmeter, or that of furiosa's profiler, in ns (opmeter)"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    s.furiosa = strcmp(as, "furiosa") == 0;
    rc = cli_open(cli, &s.t, argv, n);
    if (rc == CLI_OK)
        rc = print(&s);
    opm_trace_close(s.t);
    return rc;
}
