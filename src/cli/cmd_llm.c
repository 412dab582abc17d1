/* cmd_llm.c -- requests, iterations and tokens of a language model. */
#include "cli/table.h"

#include "base/bar.h"
#include "base/human.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define CHART_COLUMNS 30
#define CHART_ROWS 12

static const char about[] =
    "Show how a language model serves: time to the first token and what it consists of, times "
    "between tokens, prefill and decode with their operators, the effect of batch and context, and "
    "why requests were slow. Iterations come from what vLLM, SGLang, TensorRT-LLM and loops of "
    "PyTorch mark; requests and tokens from OpenTelemetry's spans and from events of category llm.";

static const char latency_sql[] = "SELECT * FROM llm_latency";

static const char phases_sql[] =
    "SELECT phase, iterations, time_ns, share, mean_ns, batch, tokens_in, tokens_out, tokens_per_s"
    " AS \"tokens/s\", device_ns, device_per_token_ns FROM llm_phases";

static const char operators_sql[] = "SELECT * FROM llm_operators";

static const char roofs_sql[] =
    "SELECT phase, tokens, flops_per_token / 1e6 AS \"MFLOP/token\", bytes_per_token / 1e6 AS"
    " \"MB/token\", gflops_per_s AS \"GFLOP/s\", gbytes_per_s AS \"GB/s\", share_of_flops AS"
    " \"of peak\", share_of_bandwidth AS \"of bandwidth\", roof FROM llm_roofs";

static const char requests_sql[] =
    "SELECT name AS request, ts, e2e_ns, ttft_ns, queue_ns, prefill_ns, host_ns, tpot_ns,"
    " itl_max_ns, tokens_in, tokens_out, preemptions, preempted_ns, device_ns, cause FROM"
    " request_latency ORDER BY ts";

struct limits {
    double ttft_ns, itl_ns; /* below 0: none */
};

/* "500ms", "0.5s", "20us", "1000ns". */
static bool read_time(const char *text, double *out)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "ns", 1 }, { "us", 1e3 }, { "µs", 1e3 }, { "ms", 1e6 }, { "s", 1e9 } };
    char *end;
    double v = strtod(text, &end);

    if (end == text || !(v >= 0) || v > 1e9)
        return false;
    for (size_t i = 0; i < ARRAY_SIZE(units); i++)
        if (strcmp(end, units[i].unit) == 0) {
            *out = v * units[i].ns;
            return true;
        }
    return false;
}

/* A sentence; what does not fit in a line is set back. */
static void put_sentence(struct cli *cli, struct buf *text)
{
    struct buf lines = { 0 };

    cli_clean(text);
    text_wrap(&lines, buf_str(text), 0, 2, cli_text_width());
    io_out_addf(&cli->out, "%s\n", buf_str(&lines));
    buf_release(&lines);
    buf_release(text);
}

/* One line on all requests. */
static int put_head(struct cli *cli, opm_trace *t)
{
    static const char sql[] = "SELECT count(*), count(e2e_ns), sum(tokens_in), sum(tokens_out), "
                              "max(ts + e2e_ns) - min(ts),"
                              " sum(preemptions) FROM request_latency";
    char span[HUMAN_ROOM];
    opm_rows *r = NULL;
    opm_error err;
    double s;

    if (opm_trace_query(t, sql, &r, &err) < 0 || opm_rows_next(r, &err) <= 0) {
        opm_rows_close(r);
        return cli_error("%s", err.msg);
    }
    s = opm_rows_real(r, 4) / 1e9;
    cli_heading(cli, "Requests: %" PRId64 ", of which %" PRId64 " ended", opm_rows_int(r, 0),
                opm_rows_int(r, 1));
    if (s > 0) {
        bool in = opm_rows_type(r, 2) != OPM_TYPE_NULL, made = opm_rows_type(r, 3) != OPM_TYPE_NULL;

        if (in)
            io_out_addf(&cli->out, "%" PRId64 " tokens in%s", opm_rows_int(r, 2),
                        made ? " and " : " ");
        if (made)
            io_out_addf(&cli->out, "%" PRId64 "%s out ", opm_rows_int(r, 3), in ? "" : " tokens");
        io_out_addf(&cli->out, "in %s: ", human_ns(span, opm_rows_real(r, 4)));
        if (made)
            io_out_addf(&cli->out, "%.1f tokens/s, ", opm_rows_real(r, 3) / s);
        io_out_addf(&cli->out, "%.2f requests/s\n", opm_rows_real(r, 1) / s);
    }
    if (opm_rows_int(r, 5) > 0)
        io_out_addf(&cli->out, "%" PRId64 " time%s a request was set aside for others\n",
                    opm_rows_int(r, 5), human_s(opm_rows_int(r, 5)));
    io_out_addf(&cli->out, "\n");
    opm_rows_close(r);
    return CLI_OK;
}

/* Requests that kept within the limits: the first token in time, and every one behind it. Where
 * single tokens are not known, their mean. */
static void add_goodput_sql(struct buf *sql, const struct limits *l)
{
    buf_adds(sql, "SELECT count(*) AS requests, sum(good) AS within, CAST(sum(good) AS REAL) /"
                  " count(*) AS share, sum(good) * 1e9 / nullif(max(ts + e2e_ns) - min(ts), 0) AS"
                  " \"requests/s\" FROM (SELECT ts, e2e_ns, 1");
    if (l->ttft_ns >= 0)
        buf_addf(sql, " AND ttft_ns <= %.0f", l->ttft_ns);
    if (l->itl_ns >= 0)
        buf_addf(sql, " AND coalesce(itl_max_ns, tpot_ns, 0) <= %.0f", l->itl_ns);
    buf_adds(sql, " AS good FROM request_latency WHERE e2e_ns IS NOT NULL)");
}

static int put_goodput(struct cli *cli, opm_trace *t, const struct limits *l)
{
    char ttft[HUMAN_ROOM], itl[HUMAN_ROOM];
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int rc = CLI_OK;

    if (l->ttft_ns < 0 && l->itl_ns < 0)
        return CLI_OK;
    add_goodput_sql(&sql, l);
    if (opm_trace_query(t, buf_str(&sql), &r, &err) < 0 || opm_rows_next(r, &err) <= 0) {
        rc = cli_error("%s", err.msg);
    } else {
        struct buf text = { 0 };

        io_out_addf(&cli->out, "\n");
        buf_addf(&text, "Goodput: %" PRId64 " of %" PRId64 " requests (%.1f %%), %.2f/s, ",
                 opm_rows_int(r, 1), opm_rows_int(r, 0), 100 * opm_rows_real(r, 2),
                 opm_rows_real(r, 3));
        buf_addf(&text, "had %s%s%s%s%s", l->ttft_ns >= 0 ? "the first token within " : "",
                 l->ttft_ns >= 0 ? human_ns(ttft, l->ttft_ns) : "",
                 l->ttft_ns >= 0 && l->itl_ns >= 0 ? " and " : "",
                 l->itl_ns >= 0 ? "every further one within " : "",
                 l->itl_ns >= 0 ? human_ns(itl, l->itl_ns) : "");
        put_sentence(cli, &text);
    }
    opm_rows_close(r);
    buf_release(&sql);
    return rc;
}

static int columns_of(const char *utf8)
{
    int n = 0;

    for (; *utf8; utf8++)
        n += ((unsigned char)*utf8 & 0xc0) != 0x80;
    return n;
}

/* Mean time of a decode iteration by what grows: a bar for each of a few classes. */
static int put_chart(struct cli *cli, opm_trace *t, const char *title, const char *what)
{
    struct buf sql = { 0 }, bar = { 0 };
    char time[HUMAN_ROOM];
    opm_rows *r = NULL;
    opm_error err;
    int more;

    buf_addf(
        &sql,
        "WITH d AS (SELECT %s AS x, dur_ns, tokens_out FROM iteration_times WHERE kind ="
        " 'decode' AND x IS NOT NULL AND dur_ns IS NOT NULL), b AS (SELECT *, iif((SELECT"
        " count(DISTINCT x) FROM d) <= %d, x, 1 << CAST(ceil(log2(max(x, 1))) AS INT)) AS"
        " upto FROM d) SELECT upto, count(*), avg(dur_ns), sum(tokens_out) * 1e9 /"
        " sum(iif(tokens_out IS NULL, 0, dur_ns)),"
        " avg(dur_ns) / max(avg(dur_ns)) OVER (), count(*) OVER () FROM b GROUP BY upto ORDER BY"
        " upto LIMIT 40",
        what, CHART_ROWS);
    more = opm_trace_query(t, buf_str(&sql), &r, &err);
    for (int i = 0; more >= 0; i++) {
        more = opm_rows_next(r, &err);
        if (more <= 0 || opm_rows_int(r, 5) < 2)
            break;
        if (i == 0) {
            io_out_addf(&cli->out, "\n");
            cli_heading(cli, "%s", title);
        }
        buf_clear(&bar);
        bar_put(&bar, opm_rows_real(r, 4), CHART_COLUMNS, true);
        io_out_addf(&cli->out, "%10" PRId64 "  %9s  %s%*s", opm_rows_int(r, 0),
                    human_ns(time, opm_rows_real(r, 2)), buf_str(&bar),
                    CHART_COLUMNS - columns_of(buf_str(&bar)), "");
        if (opm_rows_type(r, 3) == OPM_TYPE_NULL)
            io_out_addf(&cli->out, "  %19s", "N/A");
        else
            io_out_addf(&cli->out, "  %10.1f tokens/s", opm_rows_real(r, 3));
        io_out_addf(&cli->out, "  (%" PRId64 ")\n", opm_rows_int(r, 1));
    }
    opm_rows_close(r);
    buf_release(&sql);
    buf_release(&bar);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* Why the slowest requests were slow, a sentence each. */
static int put_slow(struct cli *cli, opm_trace *t)
{
    static const char sql[] =
        "SELECT name, e2e_ns, ttft_ns, cause, cause_ns, tokens_in, preemptions, tokens_out, "
        "count(*)"
        " OVER () FROM request_latency WHERE slow AND cause IS NOT NULL ORDER BY cause_ns DESC"
        " LIMIT 5";
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(t, sql, &r, &err);
    char a[HUMAN_ROOM], b[HUMAN_ROOM], c[HUMAN_ROOM];

    for (int i = 0; more >= 0; i++) {
        struct buf text = { 0 };
        const char *cause;

        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        if (i == 0) {
            io_out_addf(&cli->out, "\n");
            cli_heading(cli, "Slow requests: %" PRId64, opm_rows_int(r, 8));
        }
        cause = opm_rows_text(r, 3, NULL);
        cli_add_name(&text, opm_rows_text(r, 0, NULL) ? opm_rows_text(r, 0, NULL) : "(no name)");
        buf_addf(&text, ": %s, first token after %s; ",
                 opm_rows_type(r, 1) ? human_ns(a, opm_rows_real(r, 1)) : "not ended",
                 opm_rows_type(r, 2) ? human_ns(b, opm_rows_real(r, 2)) : "N/A");
        human_ns(c, opm_rows_real(r, 4));
        if (strcmp(cause, "queue") == 0)
            buf_addf(&text, "it waited %s longer than others in the queue", c);
        else if (strcmp(cause, "prefill") == 0 && !opm_rows_type(r, 5))
            buf_addf(&text, "reading its prompt took %s longer", c);
        else if (strcmp(cause, "prefill") == 0)
            buf_addf(&text, "reading its prompt of %" PRId64 " tokens took %s longer",
                     opm_rows_int(r, 5), c);
        else if (strcmp(cause, "preemption") == 0)
            buf_addf(&text, "it was set aside %" PRId64 " time%s, for %s longer than others",
                     opm_rows_int(r, 6), human_s(opm_rows_int(r, 6)), c);
        else if (strcmp(cause, "prefill of others") == 0)
            buf_addf(&text, "it made tokens in iterations that read prompts of others: %s more", c);
        else if (strcmp(cause, "more tokens") == 0)
            buf_addf(&text, "it made more tokens, %" PRId64 ", for which it took %s longer",
                     opm_rows_int(r, 7), c);
        else
            buf_addf(&text, "%s took %s longer",
                     strcmp(cause, "host") == 0 ? "the host, outside of iterations," : "its decode",
                     c);
        put_sentence(cli, &text);
    }
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int titled(struct cli *cli, opm_trace *t, const char *title, const char *sql, bool gap)
{
    if (gap)
        io_out_addf(&cli->out, "\n");
    cli_heading(cli, "%s", title);
    return table_print(cli, t, sql, 0, NULL);
}

/* What keys and values take, where the trace says what one token's do. */
static int put_cache(struct cli *cli, opm_trace *t)
{
    static const char sql[] =
        "SELECT CAST(value AS INT), (SELECT max(context) FROM iteration), (SELECT CAST(value AS"
        " INT) FROM meta WHERE key GLOB '*generate.cache_held_bytes') FROM meta WHERE key GLOB"
        " '*generate.cache_bytes_per_token' LIMIT 1";
    char token[HUMAN_ROOM], peak[HUMAN_ROOM], held[HUMAN_ROOM];
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(t, sql, &r, &err);

    if (more >= 0)
        more = opm_rows_next(r, &err);
    if (more > 0) {
        struct buf text = { 0 };

        io_out_addf(&cli->out, "\n");
        buf_addf(&text,
                 "KV cache: %s for each token of a row, %s at its peak of %" PRId64
                 " tokens; %s were held for it",
                 human_bytes(token, (uint64_t)opm_rows_int(r, 0)),
                 human_bytes(peak, (uint64_t)(opm_rows_int(r, 0) * opm_rows_int(r, 1))),
                 opm_rows_int(r, 1), human_bytes(held, (uint64_t)opm_rows_int(r, 2)));
        put_sentence(cli, &text);
    }
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int print_all(struct cli *cli, opm_trace *t, const struct limits *l)
{
    bool requests = cli_query_int(t, "SELECT count(*) FROM request") > 0;
    bool iterations = cli_query_int(t, "SELECT count(*) FROM iteration") > 0;
    int rc = CLI_OK;

    if (requests)
        rc = put_head(cli, t);
    if (rc == CLI_OK && requests)
        rc = titled(cli, t, "Latency", latency_sql, false);
    if (rc == CLI_OK && requests)
        rc = put_goodput(cli, t, l);
    if (rc == CLI_OK && iterations)
        rc = titled(cli, t, "Iterations, by phase", phases_sql, requests);
    if (rc == CLI_OK && cli_query_int(t, "SELECT count(*) FROM iteration_ops") > 0)
        rc = titled(cli, t, "Operators of each phase, by device time", operators_sql, true);
    if (rc == CLI_OK && cli_query_int(t, "SELECT count(*) FROM llm_roofs") > 0)
        rc = titled(cli, t, "Work by phase, against what the machine was measured to do", roofs_sql,
                    true);
    if (rc == CLI_OK)
        rc = put_cache(cli, t);
    if (rc == CLI_OK)
        rc = put_chart(cli, t, "Decode iterations, by requests in the batch", "batch");
    if (rc == CLI_OK)
        rc = put_chart(cli, t, "Decode iterations, by tokens of context (up to)", "context");
    if (rc == CLI_OK && requests)
        rc = put_slow(cli, t);
    if (rc == CLI_OK && !requests)
        cli_remark(cli,
                   "nothing in this trace tells of requests: there is no time to the first token; "
                   "docs/llm.md says what can");
    return rc;
}

int cmd_llm(struct cli *cli, int argc, char **argv)
{
    const char *ttft = NULL, *itl = NULL;
    bool requests = false;
    const struct option opts[] = {
        OPT_STR(0, "ttft", &ttft, "TIME",
                "goodput: the first token within this time, such as 500ms"),
        OPT_STR(0, "itl", &itl, "TIME",
                "goodput: every further token within this time, such as 50ms"),
        OPT_BOOL(0, "requests", &requests, "a row per request"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    struct limits limits = { -1, -1 };
    opm_trace *t;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    if ((ttft && !read_time(ttft, &limits.ttft_ns)) || (itl && !read_time(itl, &limits.itl_ns)))
        return cli_usage(cli, "'%s' is not a time: a number and ns, us, ms or s, such as 500ms",
                         ttft && limits.ttft_ns < 0 ? ttft : itl);
    rc = cli_open(cli, &t, argv, n);
    if (rc != CLI_OK)
        return rc;
    if (cli_query_int(
            t, "SELECT EXISTS (SELECT 1 FROM request) OR EXISTS (SELECT 1 FROM iteration)") <= 0)
        rc = cli_error("%s: nothing in it tells of iterations or requests of a language model; "
                       "docs/llm.md says what does",
                       argv[0]);
    else if (requests)
        rc = cli->json || cli->csv ? cli_print_query(cli, t, requests_sql)
                                   : table_print(cli, t, requests_sql, 0, NULL);
    else if ((cli->json || cli->csv) && (limits.ttft_ns >= 0 || limits.itl_ns >= 0)) {
        struct buf sql = { 0 };

        add_goodput_sql(&sql, &limits);
        rc = cli_print_query(cli, t, buf_str(&sql));
        buf_release(&sql);
    } else if (cli->json || cli->csv)
        rc = cli_print_query(cli, t, latency_sql);
    else
        rc = print_all(cli, t, &limits);
    opm_trace_close(t);
    return rc;
}
