/* trace.c -- open the traces named on a command line; see cli.h. */
#include "cli/cli.h"

#include <string.h>
#include <unistd.h>

const char *cli_export_format(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    if (dot && (!slash || dot > slash))
        for (const opm_format *f = opm_export_formats(); f->name; f++)
            if (strcmp(f->extension, dot) == 0)
                return f->name;
    return NULL;
}

/* A path of '-' becomes that of standard input. */
static int take_stdin(struct cli *cli, char **paths, int n)
{
    static char standard_input[] = CLI_STDIN;

    for (int i = 0; i < n; i++) {
        if (strcmp(paths[i], "-") != 0)
            continue;
        if (cli->stdin_taken)
            return cli_usage(cli, "'-' is standard input, which can be read only once");
        if (isatty(STDIN_FILENO))
            return cli_usage(cli, "'-' is standard input, which is a terminal: pipe a trace into "
                                  "it, or name a file");
        cli->stdin_taken = true;
        paths[i] = standard_input;
    }
    return CLI_OK;
}

int cli_open(struct cli *cli, opm_trace **out, char **paths, int n)
{
    opm_open_options opts = OPM_OPEN_OPTIONS_INIT;
    struct progress p;
    opm_error err;
    int rc = take_stdin(cli, paths, n);

    if (rc != CLI_OK)
        return rc;
    progress_start(&p, cli, "reading", n ? paths[0] : "");
    p.bytes = true;
    opts.format = cli->trace_format;
    opts.progress = progress_tick;
    opts.user = &p;
    opts.meta = cli->trace_meta;
    opts.redact = cli->redact;
    opts.max_bytes = cli->max_unpacked;
    opts.max_memory = cli->max_memory;
    opts.max_seconds = (uint64_t)cli->max_seconds;
    opts.captures = cli->captures.item;
    opts.ncaptures = cli->captures.n;
    rc = opm_trace_open(out, (const char *const *)paths, (size_t)n, &opts, &err);
    progress_end(&p);
    if (rc < 0) {
        struct buf near = { 0 };

        for (int i = 0; i < n && !near.len; i++)
            cli_near_file(paths[i], &near);
        rc = cli_error("%s%s", err.msg, buf_str(&near));
        buf_release(&near);
    }
    return rc;
}

void cli_counters(opm_trace *t, const char *path, struct buf *b)
{
    static const char sql[] =
        "SELECT (SELECT value FROM meta WHERE key GLOB '*counters.kind' LIMIT 1),"
        " (SELECT value FROM meta WHERE key GLOB '*counters.events' LIMIT 1),"
        " (SELECT value FROM meta WHERE key GLOB '*counters.reason' LIMIT 1),"
        " (SELECT value FROM meta WHERE key GLOB '*counters.cost_ns' LIMIT 1)";
    const char *kind, *events, *reason;
    opm_rows *r = NULL;
    char room[HUMAN_ROOM];

    if (opm_trace_query(t, sql, &r, NULL) < 0 || opm_rows_next(r, NULL) <= 0 ||
        opm_rows_type(r, 0) == OPM_TYPE_NULL) {
        opm_rows_close(r);
        return;
    }
    kind = opm_rows_text(r, 0, NULL);
    events = opm_rows_text(r, 1, NULL);
    reason = opm_rows_text(r, 2, NULL);
    if (events)
        buf_addf(b, "%s (%s), %s an operator; 'opmeter top %s --columns +%s' shows them", kind,
                 events, human_ns(room, (double)opm_rows_int(r, 3)), path,
                 strcmp(kind, "hardware") == 0 ? "ipc,cache_misses" : "cpu_time,page_faults");
    else
        buf_adds(b, kind);
    if (reason)
        buf_addf(b, "; not more, since %s", reason);
    opm_rows_close(r);
}

/* Graphs of llama.cpp that ran node by node (record --ggml-ops), against like ones that ran whole.
 */
static void add_serialising(opm_trace *t, struct buf *b)
{
    static const char sql[] =
        "WITH g AS (SELECT json_extract(args, '$.by_node') AS n, json_extract(args, '$.nodes') AS"
        " nodes, json_extract(args, '$.tokens') AS tokens, dur FROM span WHERE cat = 'ggml' AND"
        " name = 'graph' AND dur > 0), m AS (SELECT sum(n) AS c, sum(1 - n) AS w, median(iif(n, "
        "dur,"
        " NULL)) AS nodes, median(iif(n, NULL, dur)) AS whole FROM g GROUP BY nodes, tokens) SELECT"
        " (SELECT sum(n) FROM g), sum(c), sum(w), sum(c * nodes) / sum(c * whole), sum(c * (nodes -"
        " whole)) FROM m WHERE c > 0 AND w > 0";
    char room[HUMAN_ROOM], count[HUMAN_ROOM], whole[HUMAN_ROOM];
    opm_rows *r = NULL;

    if (cli_query_int(t, "SELECT count(*) FROM meta WHERE key LIKE '%ggml.library'") <= 0 ||
        opm_trace_query(t, sql, &r, NULL) < 0)
        return;
    if (opm_rows_next(r, NULL) > 0 && opm_rows_int(r, 0) > 0) {
        buf_addf(b, "%s%s graph%s of llama.cpp ran node by node", b->len ? "; " : "",
                 human_count(count, opm_rows_int(r, 0)), human_s(opm_rows_int(r, 0)));
        if (opm_rows_int(r, 1) > 0)
            buf_addf(b, ", which took %.2f times as long as %s like them that ran whole, %s",
                     opm_rows_real(r, 3), human_count(whole, opm_rows_int(r, 2)),
                     opm_rows_real(r, 4) > 0 ? human_ns(room, opm_rows_real(r, 4)) : "0 ns");
        if (opm_rows_int(r, 1) > 0)
            buf_adds(b, " more in all");
        else
            buf_adds(b, "; what that cost is not known, as no graph of the same size ran whole");
    }
    opm_rows_close(r);
}

void cli_measuring(opm_trace *t, struct buf *b)
{
    static const char sql[] =
        "SELECT what, count, each_ns, total_ns, sum(total_ns) OVER () FROM measuring"
        " WHERE what IN ('operators of PyTorch', 'CUPTI', 'writing') ORDER BY total_ns DESC";
    char total[HUMAN_ROOM], each[HUMAN_ROOM], count[HUMAN_ROOM];
    opm_rows *r = NULL;

    if (opm_trace_query(t, sql, &r, NULL) < 0)
        return;
    for (int i = 0; opm_rows_next(r, NULL) > 0; i++) {
        const char *what = opm_rows_text(r, 0, NULL);

        if (i == 0)
            buf_addf(b, "about %s of the program's time: ", human_ns(total, opm_rows_real(r, 4)));
        human_ns(total, opm_rows_real(r, 3));
        if (strcmp(what, "CUPTI") == 0)
            buf_addf(b, "%s%s in CUPTI", i ? ", " : "", total);
        else if (strcmp(what, "writing") == 0)
            buf_addf(b, "%s%s in writing what PyTorch told", i ? ", " : "", total);
        else
            buf_addf(b, "%s%s in telling of %s operator%s of PyTorch (%s each)", i ? ", " : "",
                     total, human_count(count, opm_rows_int(r, 1)), human_s(opm_rows_int(r, 1)),
                     human_ns(each, opm_rows_real(r, 2)));
    }
    opm_rows_close(r);
    add_serialising(t, b);
}
