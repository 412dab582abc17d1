/* reconcile.c -- the lines by which figures can be checked against each other: where the time of
 * every device went, and how much of it is some operator's. */
#include "cli/cli.h"

#include "base/glyph.h"

#include <inttypes.h>
#include <string.h>

#define PLACES_SHOWN 4
#define NAME_COLUMNS 40   /* of a name in a sentence */
#define SHARE_NAMED 0.01  /* the least unexplained share of which is said whose it is */
#define SHARE_SEEN 0.0005 /* what is less is 0.0 % */

/* Its parts, in the order of the columns that are asked for. */
static const char *const parts[] = { "compute", "exposed communication", "copies", "idle" };

static void put_place(struct cli *cli, const opm_rows *r)
{
    struct buf text = { 0 }, line = { 0 };
    char room[HUMAN_ROOM];
    bool device = opm_rows_type(r, 1) != OPM_TYPE_NULL;
    double steps = opm_rows_int(r, 2) ? (double)opm_rows_int(r, 2) : 1;
    double wall = opm_rows_real(r, 4) / steps;

    if (device)
        buf_addf(&text, "%s", opm_rows_text(r, 1, NULL));
    else
        buf_adds(&text, "host");
    if (opm_rows_type(r, 0) != OPM_TYPE_NULL)
        buf_addf(&text, ", rank %" PRId64, opm_rows_int(r, 0));
    if (opm_rows_int(r, 2))
        buf_addf(&text, ", mean of %" PRId64 " step%s", opm_rows_int(r, 2),
                 human_s(opm_rows_int(r, 2)));
    if (wall > 0)
        buf_addf(&text, ": %s =", human_ns(room, wall));
    for (size_t i = 0, n = 0; i < ARRAY_SIZE(parts); i++) {
        double ns = opm_rows_real(r, 5 + (int)i) / steps;

        if (ns <= 0)
            continue;
        buf_addf(&text, "%s %s %s (%.1f %%)", n++ ? " +" : "",
                 i == ARRAY_SIZE(parts) - 1 && !device ? "outside operators" : parts[i],
                 human_ns(room, ns), wall > 0 ? 100 * ns / wall : 0);
    }
    if (opm_rows_int(r, 3))
        buf_addf(&text, "%s %" PRId64 "%s step%s not recorded", wall > 0 ? ";" : ":",
                 opm_rows_int(r, 3), wall > 0 ? " more" : "",
                 opm_rows_int(r, 3) == 1 ? " was" : "s were");
    cli_clean(&text);
    buf_adds(&line, "  ");
    text_wrap(&line, buf_str(&text), 2, 2, cli_text_width());
    io_out_addf(&cli->out, "%s\n", buf_str(&line));
    buf_release(&text);
    buf_release(&line);
}

int cli_print_reconciliation(struct cli *cli, opm_trace *t, const char *where)
{
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int64_t shown = 0, all = 0;
    int more;

    buf_addf(
        &sql,
        "SELECT rank, device, steps, steps_not_recorded, wall_ns - not_recorded_ns, compute_ns,"
        " exposed_ns, copy_ns, idle_ns, count(*) OVER () FROM reconciliation WHERE %s"
        " ORDER BY rank, device LIMIT %d",
        where, PLACES_SHOWN);
    more = sql.failed ? OPM_ENOMEM : opm_trace_query(t, buf_str(&sql), &r, &err);
    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        if (!shown)
            io_out_adds(&cli->out, "\n");
        put_place(cli, r);
        shown++;
        all = opm_rows_int(r, 9);
    }
    opm_rows_close(r);
    if (all > shown)
        io_out_addf(&cli->out,
                    "  and %" PRId64 " more: opmeter query TRACE 'SELECT * FROM reconciliation'\n",
                    all - shown);
    if (sql.failed)
        more = cli_out_of_memory();
    else if (more < 0)
        more = cli_error("%s", err.msg);
    buf_release(&sql);
    return more;
}

void cli_add_name(struct buf *b, const char *name)
{
    size_t len = strlen(name), tail;

    if (glyph_width(name, len) <= NAME_COLUMNS) {
        buf_adds(b, name);
        return;
    }
    tail = glyph_tail(name, len, NAME_COLUMNS / 2);
    buf_add(b, name, glyph_head(name, len, NAME_COLUMNS / 2 - 1));
    buf_addf(b, "…%s", name + tail);
}

/* Where operators of replayed graphs are from, and how many have one. */
static void remark_graphs(struct cli *cli, opm_trace *t)
{
    static const char sql[] =
        "SELECT max(CASE key WHEN 'graph.kernels' THEN value END), max(CASE key WHEN"
        " 'graph.kernels_by_capture' THEN value END), max(CASE key WHEN"
        " 'graph.kernels_by_launches' THEN value END), max(CASE key WHEN 'graph.aligned_share' THEN"
        " value END), max(CASE key WHEN 'graph.replays' THEN value END), (SELECT sum(count) FROM"
        " import_stat WHERE name = 'graph_capture_strange') FROM meta";
    opm_rows *r = NULL;

    if (opm_trace_query(t, sql, &r, NULL) == 0 && opm_rows_next(r, NULL) > 0 &&
        opm_rows_type(r, 0) != OPM_TYPE_NULL && opm_rows_type(r, 3) != OPM_TYPE_NULL) {
        double share = opm_rows_real(r, 3);
        int64_t launches = opm_rows_int(r, 4);
        bool capture = opm_rows_int(r, 1) > 0;

        if (share > 0)
            cli_remark(cli,
                       "%" PRId64 " launch%s of graphs: %" PRId64 " of %" PRId64
                       " kernels, %.1f %% of their time, have operators from %s",
                       launches, launches == 1 ? "" : "es", opm_rows_int(r, 1) + opm_rows_int(r, 2),
                       opm_rows_int(r, 0), 100 * share,
                       capture && opm_rows_int(r, 2)
                           ? "captures and like launches outside of graphs"
                       : capture ? "the capture"
                                 : "like launches outside of graphs");
        else
            cli_remark(cli,
                       "%" PRId64 " launch%s of graphs: none of %" PRId64
                       " kernels has an operator; %s",
                       launches, launches == 1 ? "" : "es", opm_rows_int(r, 0),
                       opm_rows_int(r, 5) ? "the capture beside it is of other graphs"
                                          : "--capture takes them from the trace of the capture");
    }
    opm_rows_close(r);
}

void cli_remark_attribution(struct cli *cli, opm_trace *t)
{
    static const char sql[] =
        "SELECT iif(op IS NULL, name, substr(name, 1, instr(name, ' #') - 1)) AS name, type,"
        " sum(share) AS share, sum(sum(share)) OVER (), count(*) OVER () FROM op_times WHERE"
        " section = 'device' AND (op IS NULL AND type IN ('kernel', 'copy', 'collective') OR type ="
        " 'graph launch') GROUP BY 1, 2 ORDER BY share DESC, min(rowid) LIMIT 3";
    struct buf text = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int64_t shown = 0, all = 0;
    double rest = 0;

    if (opm_trace_query(t, sql, &r, &err) == 0) {
        while (opm_rows_next(r, &err) > 0) {
            rest = opm_rows_real(r, 3);
            all = opm_rows_int(r, 4);
            buf_adds(&text, shown++ ? ", " : "");
            cli_add_name(&text, opm_rows_text(r, 0, NULL));
            buf_addf(&text, " (%s) %.1f %%", opm_rows_text(r, 1, NULL), 100 * opm_rows_real(r, 2));
        }
    }
    opm_rows_close(r);
    cli_clean(&text);
    if (shown && all > shown)
        buf_addf(&text, " and %" PRId64 " more", all - shown);
    if (shown && rest < SHARE_NAMED)
        cli_remark(cli, "operators explain %.1f %% of device time", 100 * (1 - rest));
    else if (shown && 1 - rest < SHARE_SEEN)
        cli_remark(cli, "no device time is of an operator; it is: %s", buf_str(&text));
    else if (shown)
        cli_remark(cli, "operators explain %.1f %% of device time; the rest: %s", 100 * (1 - rest),
                   buf_str(&text));
    buf_release(&text);
    remark_graphs(cli, t);
}

void cli_remark_interruptions(struct cli *cli, opm_trace *t)
{
    static const char sql[] =
        "SELECT name, interrupted, count, max_ns, median_ns, interrupted_ns, iterations, count(*)"
        " OVER () FROM op_times JOIN (SELECT section AS of, sum(time_ns) AS sum_ns FROM op_times"
        " GROUP BY section) ON of = section WHERE interrupted_ns > 0.01 * sum_ns"
        " ORDER BY interrupted_ns DESC LIMIT 3";
    opm_rows *r = NULL;
    opm_error err;
    int64_t shown = 0, all = 0;

    if (opm_trace_query(t, sql, &r, &err) == 0) {
        while (opm_rows_next(r, &err) > 0) {
            struct buf text = { 0 };
            char longest[HUMAN_ROOM], median[HUMAN_ROOM], beyond[HUMAN_ROOM];

            cli_add_name(&text, opm_rows_text(r, 0, NULL) ? opm_rows_text(r, 0, NULL) : "");
            cli_clean(&text);
            cli_remark(cli,
                       "%" PRId64 " of %" PRId64 " executions of %s took up to %s, the median %s"
                       " (interruptions?): its time leaves out %s%s",
                       opm_rows_int(r, 1), opm_rows_int(r, 2), buf_str(&text),
                       human_ns(longest, opm_rows_real(r, 3)),
                       human_ns(median, opm_rows_real(r, 4)), human_ns(beyond, opm_rows_real(r, 5)),
                       opm_rows_int(r, 6) > 1 ? " per iteration" : "");
            buf_release(&text);
            all = opm_rows_int(r, 7);
            shown++;
        }
    }
    opm_rows_close(r);
    if (all > shown)
        cli_remark(cli, "interruptions of %" PRId64 " more: --columns +interrupted,interruptions",
                   all - shown);
}
