/* cmd_steps.c -- which part of a step is slow. */
#include "cli/answers.h"
#include "cli/steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TREND_COLUMNS 60
#define LABEL_COLUMNS 16 /* in front of a bar or a sentence */
#define OUTLIERS_SHOWN 5

static const char about[] =
    "Show the parts of a training or inference step (gap, forward, backward, tail), on average or "
    "of one step, how steps changed over time, and what the device did meanwhile.";

struct steps {
    struct cli *cli;
    opm_trace *t;
    int64_t step; /* the one asked for, or -1 */
    bool one;
    const char *fp, *bp; /* operators to split at; NULL: as the trace tells */
    int rc;
};

static opm_rows *query(struct steps *s, const char *sql)
{
    opm_rows *r = NULL;
    opm_error err;

    if (s->rc == CLI_OK && opm_trace_query(s->t, sql, &r, &err) < 0)
        s->rc = cli_error("%s", err.msg);
    return r;
}

static bool next(struct steps *s, opm_rows *r)
{
    opm_error err;
    int more = r ? opm_rows_next(r, &err) : 0;

    if (more < 0)
        s->rc = cli_error("%s", err.msg);
    return more > 0;
}

static bool known(const opm_rows *r, int col)
{
    return opm_rows_type(r, col) != OPM_TYPE_NULL;
}

/* A bar of eighths. */
static void put_bar(struct cli *cli, double share, int columns)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    int filled = (int)(share * columns * 8 + 0.5), width = 0;

    if (filled > columns * 8)
        filled = columns * 8;
    for (; width < filled / 8; width++)
        io_out_addf(&cli->out, "█");
    if (filled % 8) {
        io_out_addf(&cli->out, "%s", eighths[filled % 8]);
        width++;
    }
    io_out_addf(&cli->out, "%*s", columns - width, "");
}

int steps_bar_columns(void)
{
    return MIN(36,
               MAX(cli_text_width() - LABEL_COLUMNS - 20, 1)); /* behind it: " 12.3 ms 45.67 %" */
}

static void put_part(struct steps *s, const char *name, double ns, double total)
{
    char room[HUMAN_ROOM];

    io_out_addf(&s->cli->out, "  %-14s", name);
    put_bar(s->cli, total > 0 ? ns / total : 0, steps_bar_columns());
    human_ns(room, ns);
    io_out_addf(&s->cli->out, " %*s %6.2f %%\n", cli_bytes(room, 10), room,
                total > 0 ? 100 * ns / total : 0);
}

/* The mean parts of the steps that match, of those that have any: what is not split is in the mean
 * of no part, so not in the whole that they are parts of, either. */
static void print_parts(struct steps *s, const char *where)
{
    const char *parts[] = { "gap", "forward", "backward", "fwd+backward", "tail" };
    char room[3][HUMAN_ROOM];
    struct buf sql = { 0 };
    opm_rows *r;

    buf_addf(&sql,
             "SELECT avg(total_ns), avg(gap_ns), avg(forward_ns), avg(backward_ns),"
             " CASE WHEN count(forward_ns) < count(*) THEN avg(fp_bp_ns) END, avg(tail_ns),"
             " avg(update_ns), avg(collective_ns), avg(exposed_ns), min(split_by), min(fp_point),"
             " min(bp_point), count(DISTINCT split_by) FROM step_trace WHERE %s AND (split_by IS "
             "NOT NULL"
             " OR NOT EXISTS (SELECT 1 FROM step_trace WHERE %s AND split_by IS NOT NULL))",
             where, where);
    r = query(s, buf_str(&sql));
    if (next(s, r) && known(r, 0)) {
        double total = opm_rows_real(r, 0);
        bool together = known(r, 4);

        if (known(r, 9) && strcmp(opm_rows_text(r, 9, NULL), "operators") == 0)
            parts[3] = "operators";
        for (int i = 0; i < 5; i++)
            if (known(r, i + 1) && !(together && (i == 1 || i == 2)))
                put_part(s, parts[i], opm_rows_real(r, i + 1), total);
        if (!known(r, 9))
            io_out_addf(&s->cli->out, "  No operator or phase is inside: the parts of a step are "
                                      "not known.\n");
        if (known(r, 6))
            io_out_addf(&s->cli->out, "  in the optimizer: %s\n",
                        human_ns(room[0], opm_rows_real(r, 6)));
        if (known(r, 7))
            io_out_addf(&s->cli->out,
                        "  collectives: %s, of which %s with nothing computed "
                        "meanwhile\n",
                        human_ns(room[1], opm_rows_real(r, 7)),
                        human_ns(room[2], opm_rows_real(r, 8)));
    }
    opm_rows_close(r);
    buf_release(&sql);
}

/* What the devices did in the windows of the steps that match; nobody knows it of those that were
 * not recorded. */
static void print_occupation(struct steps *s, const char *where, const char *title)
{
    struct buf sql = { 0 };
    opm_rows *r;
    bool first = true;

    buf_addf(&sql,
             "SELECT bucket, sum(ns), sum(sum(ns)) OVER () FROM occupation WHERE (%s)"
             " AND bucket <> 'not_recorded' GROUP BY bucket ORDER BY 2 DESC",
             where);
    r = query(s, buf_str(&sql));
    while (next(s, r)) {
        double ns = opm_rows_real(r, 1), total = opm_rows_real(r, 2);

        if (ns <= 0)
            continue;
        if (first)
            io_out_addf(&s->cli->out, "\n  %s:\n", title);
        first = false;
        io_out_addf(&s->cli->out, "  %-14s", opm_rows_text(r, 0, NULL));
        put_bar(s->cli, ns / total, steps_bar_columns());
        io_out_addf(&s->cli->out, " %17.2f %%\n", 100 * ns / total);
    }
    opm_rows_close(r);
    buf_release(&sql);
}

/* Several steps share a column where there are more steps than columns: the longest is shown. */
static void print_trend(struct steps *s, const char *where)
{
    static const char *const heights[] = { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" };
    char low[HUMAN_ROOM], high[HUMAN_ROOM];
    struct buf sql = { 0 };
    opm_rows *r;
    double min = 0, max = 0;
    int64_t n = 0, columns;

    buf_addf(&sql, "SELECT count(*), min(total_ns), max(total_ns) FROM step_trace WHERE %s", where);
    r = query(s, buf_str(&sql));
    if (next(s, r) && known(r, 1)) {
        n = opm_rows_int(r, 0);
        min = opm_rows_real(r, 1);
        max = opm_rows_real(r, 2);
    }
    opm_rows_close(r);
    buf_clear(&sql);
    human_ns(low, min);
    human_ns(high, max);
    columns =
        cli_text_width() - LABEL_COLUMNS - (int)(strlen(low) + strlen(high) + strlen("   to "));
    columns = MIN(MIN(MAX(columns, 1), TREND_COLUMNS), n);
    if (n > 1) {
        buf_addf(&sql,
                 "SELECT max(total_ns) FROM (SELECT total_ns, (row_number() OVER (ORDER BY ts) - 1)"
                 " * %lld / %lld AS col FROM step_trace WHERE %s) GROUP BY col ORDER BY col",
                 (long long)columns, (long long)n, where);
        io_out_addf(&s->cli->out, "\n  %-14s", "over time");
        r = query(s, buf_str(&sql));
        while (next(s, r))
            io_out_addf(
                &s->cli->out, "%s",
                heights[max > min ? (int)((opm_rows_real(r, 0) - min) / (max - min) * 7.999) : 0]);
        opm_rows_close(r);
        io_out_addf(&s->cli->out, "  %s to %s\n", low, high);
    }
    buf_release(&sql);
}

static void print_outliers(struct steps *s, const char *where)
{
    char room[HUMAN_ROOM];
    struct buf sql = { 0 }, text = { 0 }, line = { 0 };
    opm_rows *r;
    int64_t shown = 0, n = 0;

    buf_addf(&sql,
             "SELECT num, total_ns, total_ns / (SELECT median(total_ns) FROM step_trace WHERE %s),"
             " count(*) OVER () FROM step_trace WHERE outlier = 1 AND %s ORDER BY total_ns DESC"
             " LIMIT %d",
             where, where, OUTLIERS_SHOWN);
    r = query(s, buf_str(&sql));
    while (next(s, r)) {
        n = opm_rows_int(r, 3);
        buf_addf(&text, "%sstep %" PRId64 " (%s, %.1f × the median)", shown ? ", " : "",
                 opm_rows_int(r, 0), human_ns(room, opm_rows_real(r, 1)), opm_rows_real(r, 2));
        shown++;
    }
    if (n > shown)
        buf_addf(&text, " and %" PRId64 " more", n - shown);
    if (shown) {
        buf_addf(&line, "  %-14s", "outliers");
        text_wrap(&line, buf_str(&text), LABEL_COLUMNS, LABEL_COLUMNS, cli_text_width());
        io_out_addf(&s->cli->out, "%s\n", buf_str(&line));
    }
    opm_rows_close(r);
    buf_release(&sql);
    buf_release(&text);
    buf_release(&line);
}

/* How the steps came about, in words. */
static void print_title(struct steps *s, const char *model, const char *where)
{
    char mean[HUMAN_ROOM], count[HUMAN_ROOM];
    struct buf sql = { 0 }, text = { 0 }, line = { 0 };
    opm_rows *r;

    buf_addf(
        &sql,
        "SELECT count(*) FILTER (WHERE warmup = 0), avg(total_ns) FILTER (WHERE warmup = 0),"
        " sum(warmup), min(found_by), min(split_by), min(fp_point), min(bp_point), avg(total_ns),"
        " (SELECT count(*) FROM step WHERE dur < 0 AND model IS step_trace.model)"
        " FROM step_trace WHERE %s",
        where);
    r = query(s, buf_str(&sql));
    if (next(s, r)) {
        int64_t n = opm_rows_int(r, 0), warmup = opm_rows_int(r, 2);
        const char *split = opm_rows_text(r, 4, NULL);

        if (s->one)
            buf_addf(&text, "%s%sstep %" PRId64 ": %s", model, *model ? ": " : "", s->step,
                     human_ns(mean, opm_rows_real(r, 7)));
        else if (n)
            buf_addf(&text, "%s%s%s step%s, %s on average", model, *model ? ": " : "",
                     human_count(count, n), human_s(n), human_ns(mean, opm_rows_real(r, 1)));
        else
            buf_addf(&text, "%s%sno step that counts", model, *model ? ": " : "");
        if (warmup && !s->one)
            buf_addf(&text, " (%" PRId64 " warm-up step%s left out)", warmup, human_s(warmup));
        if (opm_rows_int(r, 8) && !s->one)
            buf_addf(&text, "; %" PRId64 " never ended and %s not counted", opm_rows_int(r, 8),
                     opm_rows_int(r, 8) == 1 ? "is" : "are");
        if (strcmp(opm_rows_text(r, 3, NULL), "repetition") == 0)
            buf_adds(&text, ". Nothing marks steps in this trace: they were found where the "
                            "sequence of operators repeats");
        if (strcmp(opm_rows_text(r, 3, NULL), "optimizer") == 0)
            buf_adds(&text, ". The program marks no steps: each ends with a step of its optimizer");
        if (split && strcmp(split, "phases") == 0)
            buf_adds(&text, ". Split as the program marked it");
        else if (split && strcmp(split, "autograd") == 0)
            buf_adds(&text, ". Split where the autograd engine runs");
        else if (split && strcmp(split, "points") == 0)
            buf_adds(&text, ". Split at the chosen operators");
        else if (split && strcmp(split, "reduction") == 0)
            buf_adds(&text, ". Split at the first operator after input data arrived and the last "
                            "before the last all-reduce");
        else if (split)
            buf_adds(&text, ". Split at the first and the last operator");
        if (split && known(r, 5) && known(r, 6)) {
            buf_adds(&text, " (");
            cli_add_name(&text, opm_rows_text(r, 5, NULL));
            buf_adds(&text, " to ");
            cli_add_name(&text, opm_rows_text(r, 6, NULL));
            buf_adds(&text, ")");
        }
        buf_adds(&text, ".");
        cli_clean(&text);
        text_wrap(&line, buf_str(&text), 0, 0, cli_text_width());
        io_out_addf(&s->cli->out, "%s\n\n", buf_str(&line));
    }
    opm_rows_close(r);
    buf_release(&sql);
    buf_release(&text);
    buf_release(&line);
}

/* Steps without operators, or without the chosen ones, are in no average of parts. */
static void print_unsplit(struct steps *s, const char *where)
{
    struct buf sql = { 0 }, text = { 0 }, said = { 0 }, line = { 0 };
    int64_t n = 0, all = 0;
    opm_rows *r;

    buf_addf(&sql,
             "SELECT num, count(*) OVER (), (SELECT count(*) FROM step_trace WHERE %s)"
             " FROM step_trace WHERE %s AND split_by IS NULL ORDER BY num LIMIT %d",
             where, where, OUTLIERS_SHOWN);
    r = query(s, buf_str(&sql));
    while (next(s, r)) {
        n = opm_rows_int(r, 1);
        all = opm_rows_int(r, 2);
        buf_addf(&text, "%s%" PRId64, text.len ? ", " : "", opm_rows_int(r, 0));
    }
    if (n && (n < all || s->fp || s->bp)) {
        const char *lacks = s->fp || s->bp ? "such operators"
                            : n == 1       ? "operators of its own"
                                           : "operators of their own";

        buf_addf(&said,
                 "%" PRId64 " of %" PRId64 " step%s hold%s no %s and %s in none of these figures:"
                 " step%s %s%s",
                 n, all, human_s(all), n == 1 ? "s" : "", lacks, n == 1 ? "is" : "are", human_s(n),
                 buf_str(&text), n > OUTLIERS_SHOWN ? ", ..." : "");
        buf_adds(&line, "  ");
        text_wrap(&line, buf_str(&said), 2, 2, cli_text_width());
        io_out_addf(&s->cli->out, "%s\n", buf_str(&line));
    }
    opm_rows_close(r);
    buf_release(&sql);
    buf_release(&text);
    buf_release(&said);
    buf_release(&line);
}

/* What was found out about one model on one rank. */
static void print_series(struct steps *s, const opm_rows *r)
{
    struct buf model = { 0 }, all = { 0 }, counted = { 0 }, occupied = { 0 }, title = { 0 };

    if (known(r, 0)) {
        buf_adds(&model, "model = ");
        cli_sql_text(&model, opm_rows_text(r, 0, NULL));
        buf_adds(&title, opm_rows_text(r, 0, NULL));
    } else {
        buf_adds(&model, "model IS NULL");
    }
    buf_addf(&all, "%s AND rank IS ", buf_str(&model));
    if (known(r, 1)) {
        buf_addf(&all, "%" PRId64, opm_rows_int(r, 1));
        buf_addf(&title, "%srank %" PRId64, title.len ? ", " : "", opm_rows_int(r, 1));
    } else {
        buf_adds(&all, "NULL");
    }
    if (s->one)
        buf_addf(&all, " AND num = %" PRId64, s->step);
    buf_addf(&counted, "%s%s", buf_str(&all), s->one ? "" : " AND warmup = 0");
    if (known(r, 2))
        buf_addf(&occupied, "step IN (SELECT step FROM step_trace WHERE %s)", buf_str(&counted));
    else
        buf_adds(&occupied, "step IS NULL");
    print_title(s, buf_str(&title), buf_str(&all));
    print_parts(s, buf_str(&counted));
    if (!s->one || s->fp || s->bp)
        print_unsplit(s, buf_str(&counted));
    if (known(r, 2) || !s->one)
        print_occupation(s, buf_str(&occupied),
                         known(r, 2) ? "What happened meanwhile"
                                     : "What happened in the whole trace");
    if (!s->one) {
        print_trend(s, buf_str(&counted));
        print_outliers(s, buf_str(&counted));
    }
    if (all.failed || counted.failed || occupied.failed || title.failed)
        s->rc = cli_out_of_memory();
    buf_release(&model);
    buf_release(&all);
    buf_release(&counted);
    buf_release(&occupied);
    buf_release(&title);
}

static void print_all(struct steps *s)
{
    struct buf sql = { 0 };
    opm_rows *r;
    int64_t n = 0;

    buf_adds(&sql, "SELECT model, rank, max(step) FROM step_trace");
    if (s->one)
        buf_addf(&sql, " WHERE num = %" PRId64, s->step);
    buf_adds(&sql, " GROUP BY model, rank ORDER BY min(ts)");
    r = query(s, buf_str(&sql));
    while (next(s, r)) {
        if (n++)
            io_out_addf(&s->cli->out, "\n");
        print_series(s, r);
    }
    opm_rows_close(r);
    buf_release(&sql);
    if (n == 0 && s->rc == CLI_OK && s->one)
        s->rc = cli_error("no step %" PRId64 "; 'opmeter steps --csv' lists them", s->step);
    else if (n == 0 && s->rc == CLI_OK)
        cli_tell(s->cli, "This trace has no steps, and its operators do not repeat: there is "
                         "nothing to split.");
    if (s->rc == CLI_OK && !s->one) {
        s->rc = cli_print_reconciliation(s->cli, s->t, "1");
        cli_remark_attribution(s->cli, s->t);
    }
}

/* "conv1" of "Default/network/conv1": names of operators may be paths. */
static const char *last_part(const char *name)
{
    const char *slash = strrchr(name, '/');

    return slash && slash[1] ? slash + 1 : name;
}

/* Names nearest to one that is not there, the best first. */
static void add_nearest(struct steps *s, const char *name, struct buf *out)
{
    struct buf found[3] = { { 0 } };

    for (size_t k = 0; k < ARRAY_SIZE(found); k++) {
        struct nearest n = { last_part(name), NULL, 0 };
        opm_rows *r = query(s, "SELECT DISTINCT name FROM span WHERE layer IN ('framework',"
                               " 'hardware') AND name IS NOT NULL ORDER BY length(name), name");

        while (next(s, r)) {
            const char *text = opm_rows_text(r, 0, NULL), *best = n.best;
            bool known_already = false;

            for (size_t i = 0; i < k; i++)
                known_already |= strcmp(text, buf_str(&found[i])) == 0;
            if (known_already)
                continue;
            nearest_try(&n, last_part(text));
            if (n.best != best) {
                buf_clear(&found[k]);
                buf_adds(&found[k], text);
                n.best = last_part(buf_str(&found[k]));
            }
        }
        opm_rows_close(r);
        if (n.best)
            buf_addf(out, "%s'%s'", k ? ", " : "; the nearest: ", buf_str(&found[k]));
        else
            k = ARRAY_SIZE(found);
    }
    for (size_t k = 0; k < ARRAY_SIZE(found); k++)
        buf_release(&found[k]);
}

/* A name that is not there, or in no step, is a mistake. */
static void check_point(struct steps *s, const char *name)
{
    struct buf sql = { 0 }, near = { 0 };

    buf_adds(&sql, "SELECT count(*) FROM span WHERE name = ");
    cli_sql_text(&sql, name);
    if (s->rc == CLI_OK && cli_query_int(s->t, buf_str(&sql)) == 0) {
        add_nearest(s, name, &near);
        cli_clean(&near);
        if (s->rc == CLI_OK)
            s->rc = cli_error("no operator '%s' is in this trace%s", name, buf_str(&near));
    }
    buf_release(&sql);
    buf_release(&near);
}

static void check_points(struct steps *s)
{
    if (s->fp)
        check_point(s, s->fp);
    if (s->bp)
        check_point(s, s->bp);
    if (s->rc == CLI_OK && cli_query_int(s->t, "SELECT count(*) FROM step_trace") > 0 &&
        cli_query_int(s->t, "SELECT count(*) FROM step_trace WHERE split_by = 'points'") == 0)
        s->rc = cli_error("no step holds %s%s%s; 'opmeter query' shows which operators a step has",
                          s->fp ? s->fp : s->bp, s->fp && s->bp ? " and " : "",
                          s->fp && s->bp ? s->bp : "");
}

int cmd_steps(struct cli *cli, int argc, char **argv)
{
    struct steps s = { .cli = cli, .step = -1 };
    const char *meta[3] = { NULL };
    struct buf point[2] = { { 0 } };
    bool path = false;
    size_t nmeta = 0;
    const struct option opts[] = {
        OPT_INT(0, "step", &s.step, "N", 0, INT64_MAX, "show this step instead of the average"),
        OPT_BOOL(0, "critical-path", &path, "show the chain of work that bounds a step"),
        OPT_STR(0, "fp-point", &s.fp, "OPERATOR", "the forward pass starts with this operator"),
        OPT_STR(0, "bp-point", &s.bp, "OPERATOR", "the backward pass ends with this operator"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv);

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    if (answer_is_database(argv[0]))
        return answer_table(cli, ASK_steps, n, argv, 0);
    s.one = s.step >= 0;
    if (s.fp) {
        buf_addf(&point[0], "step.fp_point=%s", s.fp);
        meta[nmeta++] = buf_str(&point[0]);
    }
    if (s.bp) {
        buf_addf(&point[1], "step.bp_point=%s", s.bp);
        meta[nmeta++] = buf_str(&point[1]);
    }
    cli->trace_meta = meta;
    s.rc = cli_open(cli, &s.t, argv, n);
    cli->trace_meta = NULL;
    if (s.rc == CLI_OK) {
        if (s.fp || s.bp)
            check_points(&s);
        if (s.rc != CLI_OK)
            ; /* said already */
        else if (cli->json || cli->csv) {
            const char *table = path ? "critical_path" : "step_trace";
            char sql[100];

            if (s.one)
                snprintf(sql, sizeof(sql), "SELECT * FROM %s WHERE num = %" PRId64, table, s.step);
            else
                snprintf(sql, sizeof(sql), "SELECT * FROM %s", table);
            s.rc = cli_print_query(cli, s.t, sql);
        } else if (path) {
            s.rc = steps_print_path(cli, s.t, s.step);
        } else {
            print_all(&s);
            if (s.rc == CLI_OK && !s.one)
                s.rc = steps_print_arrivals(cli, s.t);
        }
        opm_trace_close(s.t);
    }
    buf_release(&point[0]);
    buf_release(&point[1]);
    return s.rc;
}
