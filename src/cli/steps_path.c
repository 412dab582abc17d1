/* steps_path.c -- `opmeter steps --critical-path`: what bounds a step. */
#include "cli/steps.h"

#include "base/bar.h"
#include "base/glyph.h"
#include "cli/table.h"

#include <inttypes.h>

#define SPANS_SHOWN 12

/* The rows of one model on one rank that count. */
static void where(struct buf *b, const opm_rows *r, int64_t num)
{
    buf_adds(b, num < 0 ? "p.warmup = 0" : "1");
    if (num >= 0)
        buf_addf(b, " AND p.num = %" PRId64, num);
    if (opm_rows_type(r, 1) == OPM_TYPE_NULL)
        buf_adds(b, " AND p.rank IS NULL");
    else
        buf_addf(b, " AND p.rank = %" PRId64, opm_rows_int(r, 1));
    if (opm_rows_type(r, 2) == OPM_TYPE_NULL)
        buf_adds(b, " AND p.step IS NULL");
    else
        buf_addf(b,
                 " AND p.step IN (SELECT id FROM step WHERE model IS"
                 " (SELECT model FROM step WHERE id = %" PRId64 "))",
                 opm_rows_int(r, 2));
}

static void print_title(struct cli *cli, const opm_rows *r, int64_t num)
{
    char room[HUMAN_ROOM], count[HUMAN_ROOM];
    struct buf text = { 0 }, line = { 0 };
    int64_t n = opm_rows_int(r, 3);
    bool found = opm_rows_type(r, 2) == OPM_TYPE_NULL;

    if (opm_rows_type(r, 0) != OPM_TYPE_NULL)
        buf_addf(&text, "%s, ", opm_rows_text(r, 0, NULL));
    if (opm_rows_type(r, 1) != OPM_TYPE_NULL)
        buf_addf(&text, "rank %" PRId64 ", ", opm_rows_int(r, 1));
    if (text.len)
        text.len -= 2;
    buf_adds(&text, text.len ? ": " : "");
    if (num >= 0)
        buf_addf(&text, "critical path of step %" PRId64 ", %s", num,
                 human_ns(room, opm_rows_real(r, 4)));
    else if (n == 0)
        buf_addf(&text, "critical path of the whole trace, which has no steps, %s",
                 human_ns(room, opm_rows_real(r, 4)));
    else
        buf_addf(&text, "critical path of %s step%s%s, mean %s", human_count(count, n), human_s(n),
                 found ? " (found by repetition, not marked)" : "",
                 human_ns(room, opm_rows_real(r, 4) / (double)n));
    buf_adds(&text, ".");
    cli_clean(&text);
    text_wrap(&line, buf_str(&text), 0, 0, cli_text_width());
    io_out_addf(&cli->out, "%s\n\n", buf_str(&line));
    buf_release(&text);
    buf_release(&line);
}

static int print_kinds(struct cli *cli, opm_trace *t, const char *which, double total, int64_t n)
{
    struct buf sql = { 0 }, bar = { 0 };
    opm_rows *rows = NULL;
    opm_error err;
    int rc = 0;

    buf_addf(&sql,
             "SELECT kind, sum(dur) FROM critical_path AS p WHERE %s GROUP BY kind"
             " ORDER BY 2 DESC, 1",
             which);
    rc = opm_trace_query(t, buf_str(&sql), &rows, &err);
    while (rc >= 0) {
        char room[HUMAN_ROOM];
        double ns;

        rc = opm_rows_next(rows, &err);
        if (rc <= 0)
            break;
        ns = opm_rows_real(rows, 1);
        buf_clear(&bar);
        bar_put(&bar, ns / total, steps_bar_columns(), true);
        io_out_addf(&cli->out, "  %-14s%s%*s", opm_rows_text(rows, 0, NULL), buf_str(&bar),
                    steps_bar_columns() - (int)glyph_width(buf_str(&bar), bar.len), "");
        human_ns(room, ns / (double)n);
        io_out_addf(&cli->out, " %*s %6.2f %%\n", cli_bytes(room, 10), room, 100 * ns / total);
    }
    opm_rows_close(rows);
    buf_release(&sql);
    buf_release(&bar);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int print_spans(struct cli *cli, opm_trace *t, const char *which, double total, int64_t n)
{
    struct buf sql = { 0 };
    int rc;

    io_out_addf(&cli->out, "\n");
    buf_addf(&sql,
             "SELECT sum(dur) / %" PRId64 ".0 AS time_ns, sum(dur) / %.0f.0 AS share, count(*) AS"
             " segments, kind, coalesce(name, '') AS name FROM critical_path AS p WHERE %s"
             " GROUP BY kind, name ORDER BY sum(dur) DESC, kind, name LIMIT %d",
             n, total, which, SPANS_SHOWN);
    rc = table_print(cli, t, buf_str(&sql), 0, NULL);
    buf_release(&sql);
    return rc;
}

int steps_print_path(struct cli *cli, opm_trace *t, int64_t num)
{
    struct buf sql = { 0 }, which = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int rc = CLI_OK, more = 0;
    bool any = false;

    buf_adds(&sql, "SELECT (SELECT model FROM step WHERE id = p.step), p.rank, max(p.step),"
                   " count(DISTINCT p.num), sum(p.dur) FROM critical_path AS p WHERE ");
    if (num >= 0)
        buf_addf(&sql, "p.num = %" PRId64, num);
    else
        buf_adds(&sql, "p.warmup = 0");
    buf_adds(&sql, " GROUP BY 1, 2 ORDER BY min(p.ts)");
    if (opm_trace_query(t, buf_str(&sql), &r, &err) < 0)
        rc = cli_error("%s", err.msg);
    while (rc == CLI_OK) {
        int64_t n;

        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        n = opm_rows_int(r, 3) ? opm_rows_int(r, 3) : 1;
        if (any)
            io_out_addf(&cli->out, "\n");
        any = true;
        buf_clear(&which);
        where(&which, r, num);
        print_title(cli, r, num);
        rc = print_kinds(cli, t, buf_str(&which), opm_rows_real(r, 4), n);
        if (rc == CLI_OK)
            rc = print_spans(cli, t, buf_str(&which), opm_rows_real(r, 4), n);
    }
    if (more < 0)
        rc = cli_error("%s", err.msg);
    if (rc == CLI_OK && !any && num >= 0)
        rc = cli_error("no step %" PRId64 " with anything recorded in it; 'opmeter steps --csv' "
                       "lists the steps",
                       num);
    else if (rc == CLI_OK && !any)
        io_out_addf(&cli->out, "Nothing is recorded that a path could lead through.\n");
    opm_rows_close(r);
    buf_release(&sql);
    buf_release(&which);
    return rc;
}
