/* cmd_top.c -- which operators take the time. */
#include "cli/answers.h"
#include "cli/top.h"

#include "base/glyph.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TOP_DEFAULT 20
#define BOXES_DEFAULT 3 /* as profile_analyze has it */
#define UNSET (-1)

static const char about[] =
    "Rank the operators of a trace by time, with the work that they do and how fast they do it. "
    "Times are the mean of the measured iterations; warm-up is left out, and what a few executions "
    "took beyond the median because something interrupted them. An amount that is not "
    "known is N/A: it comes last in any order, and max, min and mean pass over it. Of a trace "
    "without operators, spans are ranked by name. COLUMN is one of:";

static const char *const end_keys[] = { "end", "kern", NULL };
static const char *const aggregates[] = { "max", "min", "sum", "mean", NULL };
static const char *const groups[] = { "type", NULL };
static const char *const layouts[] = { "opmeter", "megengine", NULL };
static const char *const parts[] = { "summary", "device", "host", NULL };

struct args {
    const char *end_key, *print_only, *min_time, *max_time, *as, *by;
    struct option_list order_by, columns;
    bool show_host, sql;
};

/* A time in seconds, or with a unit. */
static int parse_time(const struct cli *cli, const char *name, const char *text, double *out_ns)
{
    static const struct {
        const char *unit;
        double ns;
    } units[] = { { "", 1e9 },   { "s", 1e9 },         { "ms", 1e6 },
                  { "us", 1e3 }, { "\xc2\xb5s", 1e3 }, { "ns", 1 } };
    char *end;
    double v;

    if (!text)
        return CLI_OK;
    errno = 0;
    v = strtod(text, &end);
    while (*end == ' ')
        end++;
    for (size_t i = 0; end != text && !isnan(v) && i < ARRAY_SIZE(units); i++) {
        if (strcmp(end, units[i].unit) == 0) {
            *out_ns = v * units[i].ns;
            return CLI_OK;
        }
    }
    return cli_usage(cli, "--%s: '%s' is no time; give seconds, or a number with ms, us or ns",
                     name, text);
}

/* All column names, for messages and the help. */
static void put_names(struct buf *b)
{
    for (int i = 0; i < TOP_COLUMN_COUNT; i++)
        buf_addf(b, "%s%s", i ? ", " : "", top_columns[i].name);
}

static int unknown_column(const struct cli *cli, const char *option, const char *name, size_t len)
{
    struct buf b = { 0 }, word = { 0 };
    struct nearest n = { NULL, NULL, 0 };
    int rc;

    buf_add(&word, name, len);
    n.word = buf_str(&word);
    for (int i = 0; i < TOP_COLUMN_COUNT; i++)
        nearest_try(&n, top_columns[i].name);
    put_names(&b);
    if (n.best)
        rc = cli_usage(cli, "--%s: no column '%s'; did you mean '%s'?", option, n.word, n.best);
    else
        rc = cli_usage(cli, "--%s: no column '%s'; there are: %s", option, n.word, buf_str(&b));
    buf_release(&b);
    buf_release(&word);
    return rc;
}

/* "time,+memory" and the option repeated come to the same. */
static int parse_order(struct top *t, const struct option_list *list)
{
    for (size_t i = 0; i < list->n; i++) {
        for (const char *p = list->item[i]; p;) {
            size_t len = strcspn(p, ",");
            bool up = *p == '+';
            int c = top_column_find(p + up, len - up);

            if (c < 0)
                return unknown_column(t->cli, "order-by", p + up, len - up);
            if (t->norder == TOP_ORDER_MAX)
                return cli_usage(t->cli, "--order-by: more than %d columns", TOP_ORDER_MAX);
            /* Shapes are put together for the rows that are left; inputs come first in them. */
            c = c == TOP_shapes ? TOP_in_shapes : c;
            t->order[t->norder++] = (struct top_order){ c, up };
            p = p[len] ? p + len + 1 : NULL;
        }
    }
    /* Shares, as times are of an iteration for some and of the whole trace for others. */
    if (!t->norder)
        t->order[t->norder++] = (struct top_order){ t->boxes ? TOP_time : TOP_share, false };
    return CLI_OK;
}

static void add_column(struct top *t, int column)
{
    for (size_t i = 0; i < t->ncolumn; i++)
        if (t->column[i] == column)
            return;
    t->column[t->ncolumn++] = column;
}

static void usual_columns(struct top *t)
{
    static const int one[] = {
        TOP_time, TOP_share, TOP_count,     TOP_median,  TOP_p99,  TOP_type,
        TOP_info, TOP_flops, TOP_bandwidth, TOP_of_peak, TOP_roof, TOP_shapes
    };
    static const int many[] = { TOP_time, TOP_share, TOP_ops,       TOP_count,
                                TOP_type, TOP_flops, TOP_bandwidth, TOP_of_peak };
    const int *list = t->aggregate ? many : one;
    size_t n = t->aggregate ? ARRAY_SIZE(many) : ARRAY_SIZE(one);

    for (int c = TOP_time; t->boxes && c <= TOP_out_shapes; c++)
        add_column(t, c);
    for (size_t i = 0; !t->boxes && i < n; i++)
        add_column(t, list[i]);
}

/* A list replaces the usual columns; one that begins with '+' adds to them. */
static int parse_columns(struct top *t, const struct option_list *list)
{
    bool add = !list->n || list->item[0][0] == '+';

    /* Where time is kernel time, what it leaves out stands beside it. */
    if (add && t->kern) {
        add_column(t, TOP_time);
        add_column(t, TOP_wait);
    }
    if (add)
        usual_columns(t);
    t->nusual = t->ncolumn;
    for (size_t i = 0; i < list->n; i++) {
        const char *p = list->item[i] + (list->item[i][0] == '+');

        while (p) {
            size_t len = strcspn(p, ",");
            bool up = *p == '+';
            int c = top_column_find(p + up, len - up);

            if (c < 0)
                return unknown_column(t->cli, "columns", p, len);
            add_column(t, c);
            p = p[len] ? p + len + 1 : NULL;
        }
    }
    return CLI_OK;
}

/* What the trace has. */
static int look(struct top *t)
{
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int64_t ranks = cli_query_int(t->trace, "SELECT count(DISTINCT rank) FROM track");
    int64_t instances = cli_query_int(t->trace, "SELECT count(DISTINCT instance) FROM track");
    int more;

    t->ranked = ranks > 1;
    t->places = t->boxes ? 1 : MAX(ranks, instances);
    buf_adds(&sql, "WITH times AS ");
    top_put_times(t, &sql);
    buf_adds(&sql, " SELECT (SELECT sum(time_ns) FROM times WHERE section = 'device'),"
                   " (SELECT sum(time_ns) FROM times WHERE section = 'host'),"
                   " (SELECT count(op) FROM times), (SELECT count(wait_ns) FROM times),"
                   " (SELECT count(op) FROM times WHERE section = 'device'),"
                   " (SELECT sum(interrupted_ns) FROM times WHERE section = 'device'),"
                   " (SELECT sum(interrupted_ns) FROM times WHERE section = 'host')");
    if (sql.failed) {
        buf_release(&sql);
        return cli_out_of_memory();
    }
    more = opm_trace_query(t->trace, buf_str(&sql), &r, &err);
    buf_release(&sql);
    if (more == 0)
        more = opm_rows_next(r, &err);
    if (more < 0) {
        opm_rows_close(r);
        return cli_error("%s", err.msg);
    }
    for (int i = 0; i < 2; i++)
        t->total_ns[i] = opm_rows_type(r, i) == OPM_TYPE_NULL
                             ? NAN
                             : opm_rows_real(r, i) + (t->boxes ? opm_rows_real(r, 5 + i) : 0);
    t->has_ops = opm_rows_int(r, 2) > 0;
    t->has_wait = opm_rows_int(r, 3) > 0;
    t->host_only = t->has_ops && opm_rows_int(r, 4) == 0;
    opm_rows_close(r);
    return CLI_OK;
}

/* -- what stands above and below the table -- */

static void say_iterations(const struct top *t, const opm_rows *r)
{
    int64_t least = opm_rows_int(r, 0), most = opm_rows_int(r, 1), steps = opm_rows_int(r, 3);

    if (t->places > 1 && most > 1)
        cli_remark(t->cli,
                   "times are of one iteration of one %s, the mean of %" PRId64
                   "; what runs on some of them weighs less",
                   t->ranked ? "rank" : "instance", t->places);
    else if (least < most)
        cli_remark(t->cli,
                   "times are per iteration, the mean of %" PRId64 " to %" PRId64
                   ": of those that were recorded of each",
                   least, most);
    else if (most > 1 && most < steps)
        cli_remark(t->cli,
                   "times are per iteration, the mean of %" PRId64 "; of the other %" PRId64
                   " no operator was recorded",
                   most, steps - most);
    else if (most > 1)
        cli_remark(t->cli, "times are per iteration, the mean of %" PRId64, most);
    else if (most == 0 && opm_rows_int(r, 4) > 0)
        cli_remark(t->cli, "nothing of it runs in a step: times are of the whole trace");
    else if (most == 0)
        cli_remark(t->cli, "the trace has no iterations: times are of all of it");
    if (most > 1 && opm_rows_int(r, 6) > 0)
        cli_remark(t->cli, "%" PRId64 " of them ran in no iteration: theirs are of the whole trace",
                   opm_rows_int(r, 6));
    if (most > 1 && opm_rows_int(r, 7) > 1)
        cli_remark(t->cli,
                   "there are iterations of %" PRId64 " models: a time is of one of the"
                   " operator's own, and the total adds these up",
                   opm_rows_int(r, 7));
}

static void say_basis(const struct top *t)
{
    static const char sql[] =
        "SELECT coalesce(min(iterations) FILTER (WHERE iterations > 0), 0), max(iterations),"
        " sum(warmup_count), (SELECT count(*) FROM step WHERE coalesce(warmup, 0) = 0 AND dur >= "
        "0),"
        " (SELECT count(*) FROM step), (SELECT count(*) FROM step WHERE warmup = 1),"
        " count(*) FILTER (WHERE coalesce(iterations, 0) = 0),"
        " (SELECT count(DISTINCT name) FROM latency WHERE scope = 'step' AND count > 0)"
        " FROM op_times";
    opm_rows *r = NULL;
    opm_error err;

    if (!t->has_ops)
        cli_remark(t->cli, "no operator was executed in this trace: these are its spans by name");
    if (t->kern && !t->has_wait)
        cli_remark(t->cli, "the trace does not tell waiting from computing: --top-end-key kern "
                           "shows the whole time");
    if (opm_trace_query(t->trace, sql, &r, &err) == 0 && opm_rows_next(r, &err) > 0) {
        int64_t warmup = opm_rows_int(r, 2), steps = opm_rows_int(r, 5);

        say_iterations(t, r);
        if (warmup)
            cli_remark(t->cli,
                       "left out as warm-up: %" PRId64 " execution%s in %" PRId64 " iteration%s",
                       warmup, human_s(warmup), steps, human_s(steps));
    }
    opm_rows_close(r);
    if (t->has_ops)
        cli_remark_attribution(t->cli, t->trace);
    if (!t->boxes)
        cli_remark_interruptions(t->cli, t->trace);
}

static void put_seconds(struct buf *b, const struct top *t, double ns)
{
    char room[HUMAN_ROOM];

    if (isnan(ns))
        buf_adds(b, "N/A");
    else if (t->seconds)
        buf_addf(b, "%g", ns / 1e9);
    else
        buf_adds(b, human_ns(room, ns));
}

static void put_pair(struct buf *b, const struct top *t, const opm_rows *r, int col)
{
    char sum[HUMAN_ROOM], mean[HUMAN_ROOM];

    if (opm_rows_type(r, col) == OPM_TYPE_NULL)
        buf_adds(b, "N/A");
    else if (!t->boxes)
        buf_addf(b, "%s, %s each", human_ns(sum, opm_rows_real(r, col)),
                 human_ns(mean, opm_rows_real(r, col + 1)));
    else
        buf_addf(b, "tot=%.4f avg=%.4f", opm_rows_real(r, col) / 1e9,
                 opm_rows_real(r, col + 1) / 1e9);
}

static int copy_times(const struct top *t, struct buf value[2])
{
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more;

    top_copy_sql(t, &sql);
    more = sql.failed ? OPM_ENOMEM : opm_trace_query(t->trace, buf_str(&sql), &r, &err);
    if (more == 0)
        more = opm_rows_next(r, &err);
    for (int i = 0; more > 0 && i < 2; i++)
        put_pair(&value[i], t, r, 2 * i);
    opm_rows_close(r);
    if (sql.failed)
        more = OPM_ENOMEM;
    buf_release(&sql);
    return more < 0 ? cli_error("%s", more == OPM_ENOMEM ? "out of memory" : err.msg) : CLI_OK;
}

/* Two columns between two rules, as wide as their texts. */
static void put_simple(struct io_out *out, const char *const *cell, size_t rows)
{
    size_t width[2] = { 0, 0 };

    for (size_t i = 0; i < 2 * rows; i++)
        width[i % 2] = MAX(width[i % 2], glyph_width(cell[i], strlen(cell[i])));
    for (size_t r = 0; r <= rows + 1; r++) {
        if (r && r <= rows) {
            io_out_addf(out, "%-*s  %s\n", (int)width[0], cell[2 * r - 2], cell[2 * r - 1]);
            continue;
        }
        for (size_t c = 0; c < 2; c++) {
            io_out_adds(out, c ? "  " : "");
            for (size_t i = 0; i < width[c]; i++)
                io_out_adds(out, "-");
        }
        io_out_adds(out, "\n");
    }
}

static int print_summary(const struct top *t)
{
    static const char *const names[] = { "total device time", "total host time", "copy time",
                                         "copy wait time" };
    const char *cell[2 * (ARRAY_SIZE(names) + 1)] = { "name", "value" };
    struct buf value[ARRAY_SIZE(names)] = { 0 };
    size_t n = t->copy_time ? 4 : 2;
    int rc = t->copy_time ? copy_times(t, value + 2) : CLI_OK;

    put_seconds(&value[0], t, t->total_ns[0]);
    put_seconds(&value[1], t, t->total_ns[1]);
    for (size_t i = 0; i < n; i++) {
        cell[2 + 2 * i] = names[i];
        cell[3 + 2 * i] = buf_str(&value[i]);
        if (value[i].failed)
            rc = cli_out_of_memory();
    }
    if (rc == CLI_OK && t->wiki)
        top_put_wiki(&t->cli->out, cell, n + 1, 2);
    else if (rc == CLI_OK)
        put_simple(&t->cli->out, cell + 2, n);
    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        buf_release(&value[i]);
    return rc;
}

/* The sums alone, in the style of the ranking. */
static int print_totals(const struct top *t)
{
    static const char *const names[] = { "device", "host" };
    struct buf copies[2] = { 0 };
    char room[HUMAN_ROOM];
    int rc = t->copy_time ? copy_times(t, copies) : CLI_OK;

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (!isnan(t->total_ns[i]))
            io_out_addf(&t->cli->out, "  %-10s %s\n", names[i], human_ns(room, t->total_ns[i]));
    if (t->copy_time && rc == CLI_OK)
        io_out_addf(&t->cli->out, "  %-10s %s\n  %-10s %s\n", "copies", buf_str(&copies[0]),
                    "waiting", buf_str(&copies[1]));
    buf_release(&copies[0]);
    buf_release(&copies[1]);
    return rc;
}

static int print_section(const struct top *t, int section)
{
    const char *name = section ? "host" : "device";

    if (isnan(t->total_ns[section])) {
        io_out_addf(&t->cli->out, "The trace has no %s times.\n", name);
        return CLI_OK;
    }
    if (t->dump_only_opr)
        return top_print_oprs(t, name);
    if (t->wiki)
        return top_print_wiki(t, name);
    if (t->bars)
        return top_print_bars(t, name);
    return t->boxes ? top_print_boxes(t, name) : top_print_ranking(t, name);
}

/* What stands above the tables; MegEngine's tool begins with the sums. */
static int print_lead(const struct top *t)
{
    int rc = CLI_OK;

    if (t->boxes)
        rc = print_summary(t);
    else if (t->copy_time)
        rc = print_totals(t);
    if (t->boxes || t->copy_time)
        io_out_adds(&t->cli->out, "\n");
    return rc;
}

static int print_people(const struct top *t, const char *only, bool show_host)
{
    bool device = !isnan(t->total_ns[0]);
    int rc = CLI_OK;

    if (!device && isnan(t->total_ns[1])) {
        io_out_adds(&t->cli->out, "Nothing to rank: no span in this trace has ended.\n");
        return CLI_OK;
    }
    if (only && strcmp(only, "summary") == 0)
        return t->boxes ? print_summary(t) : print_totals(t);
    if (only) {
        rc = print_section(t, strcmp(only, "host") == 0);
    } else {
        rc = print_lead(t);
        if (rc == CLI_OK)
            rc = print_section(t, device ? 0 : 1);
        if (rc == CLI_OK && show_host && device) {
            io_out_adds(&t->cli->out, "\n");
            rc = print_section(t, 1);
        }
    }
    if (rc == CLI_OK && !t->dump_only_opr)
        say_basis(t);
    return rc;
}

/* The statement for programs, of one section or both. */
static void put_sql(const struct top *t, const char *only, bool show_host, struct buf *b)
{
    bool host = only ? strcmp(only, "host") == 0 : isnan(t->total_ns[0]) && !isnan(t->total_ns[1]);

    if (only && strcmp(only, "summary") == 0) {
        buf_adds(b, top_summary_sql);
        return;
    }
    if (t->kernels) {
        buf_adds(b, top_kernels_sql);
        return;
    }
    if (show_host && !host && !only) {
        buf_adds(b, "SELECT * FROM (");
        top_sql(t, "device", b);
        buf_adds(b, ") UNION ALL SELECT * FROM (");
        top_sql(t, "host", b);
        buf_adds(b, ")");
        return;
    }
    top_sql(t, host ? "host" : "device", b);
}

static int print(struct top *t, const struct args *a)
{
    struct buf sql = { 0 };
    int rc = look(t);
    bool show_host = a->show_host;

    if (rc == CLI_OK && a->by && !t->aggregate_by && strcmp(a->by, "op") != 0)
        return top_print_by(t, a->by);
    t->seconds = !isatty(STDOUT_FILENO) || t->wiki;
    show_host |= t->host_only;
    if (rc == CLI_OK && !a->sql && !t->cli->json && !t->cli->csv)
        return print_people(t, a->print_only, show_host);
    put_sql(t, a->print_only, show_host, &sql);
    if (rc == CLI_OK && sql.failed)
        rc = cli_out_of_memory();
    else if (rc == CLI_OK && a->sql)
        io_out_addf(&t->cli->out, "%s\n", buf_str(&sql));
    else if (rc == CLI_OK)
        rc = cli_print_query(t->cli, t->trace, buf_str(&sql));
    buf_release(&sql);
    return rc;
}

static int parse(struct top *t, const struct args *a)
{
    int rc = parse_time(t->cli, "min-time", a->min_time, &t->min_ns);

    t->boxes = strcmp(a->as, "megengine") == 0 || t->wiki;
    t->kern = a->end_key && strcmp(a->end_key, "kern") == 0;
    if (t->limit == UNSET)
        t->limit = t->boxes || t->dump_only_opr ? BOXES_DEFAULT : TOP_DEFAULT;
    if (a->by && strcmp(a->by, "type") == 0)
        t->aggregate_by = "type";
    if (t->aggregate_by && !t->aggregate)
        t->aggregate = "sum";
    if (t->kernels && t->aggregate)
        return cli_usage(t->cli, "--kernels goes with operators, not with types");
    if (rc == CLI_OK)
        rc = parse_time(t->cli, "max-time", a->max_time, &t->max_ns);
    if (rc == CLI_OK)
        rc = parse_order(t, &a->order_by);
    if (rc == CLI_OK)
        rc = parse_columns(t, &a->columns);
    return rc;
}

int cmd_top(struct cli *cli, int argc, char **argv)
{
    struct top t = { .cli = cli, .limit = UNSET, .min_ns = -INFINITY, .max_ns = INFINITY };
    struct args a = { .end_key = "end", .as = "opmeter" };
    const struct option opts[] = {
        OPT_INT('t', "top", &t.limit, "N", 0, INT64_MAX, "rows to print; 0: all (20)"),
        OPT_CHOICE(0, "by", &a.by, "WHAT", top_by_choices,
                   "a row per op, type, kernel, module, layer, rank or device (op)"),
        OPT_BOOL(0, "kernels", &t.kernels, "the kernels of every operator below it"),
        OPT_LIST(0, "order-by", &a.order_by, "[+]COLUMN",
                 "order by this column, the largest first; with + the smallest first; several with "
                 "',' in between or by repeating (time)"),
        OPT_LIST(0, "columns", &a.columns, "[+]LIST",
                 "show these columns, such as time,info,mean,p99; +LIST adds to the usual ones"),
        OPT_CHOICE(0, "top-end-key", &a.end_key, "KEY", end_keys,
                   "what time is: end (all of it) or kern (from the first kernel on) (end)"),
        OPT_GROUP("Which operators"),
        OPT_LIST(0, "type", &t.type, "TYPE", "only operators of this type; may be repeated"),
        OPT_LIST(0, "opr-name", &t.opr_name, "REGEX",
                 "only operators whose name begins with a match; may be repeated"),
        OPT_LIST(0, "input-dtype", &t.input_dtype, "DTYPE",
                 "only operators with an input of this type, such as fp32 or Float32"),
        OPT_STR(0, "min-time", &a.min_time, "TIME",
                "only operators that take at least this long: seconds, or such as 2ms"),
        OPT_STR(0, "max-time", &a.max_time, "TIME", "only operators that take at most this long"),
        OPT_GROUP("Together"),
        OPT_CHOICE(0, "aggregate", &t.aggregate, "HOW", aggregates,
                   "one row for all: max, min, sum or mean"),
        OPT_CHOICE(0, "aggregate-by", &t.aggregate_by, "WHAT", groups,
                   "one row per type (sum, unless --aggregate says otherwise)"),
        OPT_GROUP("Output"),
        OPT_CHOICE(0, "as", &a.as, "TOOL", layouts,
                   "the layout: opmeter, or that of megengine's profile_analyze, which shows 3 rows"
                   " (opmeter)"),
        OPT_CHOICE(0, "print-only", &a.print_only, "PART", parts,
                   "only the summary, or the table of the device or the host"),
        OPT_BOOL(0, "show-host", &a.show_host, "the table of the host, too"),
        OPT_BOOL(0, "copy-time", &t.copy_time, "how long copies took and waited, in the summary"),
        OPT_BOOL(0, "bars", &t.bars, "a line with a bar per row"),
        OPT_BOOL(0, "dump-only-opr", &t.dump_only_opr,
                 "only name, type and id of each, for a diff of two profiles"),
        OPT_BOOL(0, "confluence", &t.wiki, "a table for a wiki"),
        OPT_BOOL(0, "wiki", &t.wiki, "the same"),
        OPT_BOOL(0, "sql", &a.sql, "print the SQL that gives the rows, for 'opmeter query'"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    struct buf text = { 0 };
    int n, rc;

    buf_addf(&text, "%s ", about);
    put_names(&text);
    buf_adds(&text, ".");
    n = cli_parse(cli, opts, buf_str(&text), argc, argv);
    if (n < 0)
        rc = cli->status;
    else if (n == 0)
        rc = cli_usage(cli, "a TRACE is needed");
    else
        rc = parse(&t, &a);
    if (n > 0 && rc == CLI_OK && answer_is_database(argv[0])) {
        rc = answer_table(cli, ASK_ops, n, argv, t.limit);
    } else if (n > 0 && rc == CLI_OK) {
        rc = cli_open(cli, &t.trace, argv, n);
        if (rc == CLI_OK)
            rc = print(&t, &a);
    }
    opm_trace_close(t.trace);
    option_list_release(&t.type);
    option_list_release(&t.opr_name);
    option_list_release(&t.input_dtype);
    option_list_release(&a.order_by);
    option_list_release(&a.columns);
    buf_release(&text);
    return rc;
}
