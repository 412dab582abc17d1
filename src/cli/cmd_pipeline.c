/* cmd_pipeline.c -- does data arrive in time, and if not, which stage holds it up. */
#include "cli/cli.h"

#include "base/glyph.h"

#include <stdio.h>
#include <string.h>

#define BAR_COLUMNS 20
#define STARVING 0.3 /* as in analyze/pipeline_op.c: above it the last consumer waits for data */

static const char about[] =
    "Show the queues of an input pipeline, how full they were, and which stage holds it up. Works "
    "on queues recorded through the API and on those that imported traces have.";

static const char queues_sql[] =
    "SELECT name, rank, producer, consumer, workers, capacity, samples, empty, full, empty_share,"
    " full_share, mean_size, max_size, usage FROM queue_stats";

/* In how many steps a queue was found empty, and full, at least once. */
#define STEPS_SQL                                                                            \
    "(SELECT track, count(*) AS steps, sum(empty > 0) AS empty, sum(full > 0) AS full FROM " \
    "queue_steps WHERE warmup = 0 GROUP BY track) AS s"

/* Of one rank; each of these takes it once or more (%1$s: a number or NULL). */
static const char stages_sql[] =
    "SELECT o.stage, o.workers, q.name, q.usage, q.empty_share, q.full_share, q.capacity,"
    " q.consumer, o.bottleneck, q.mean_size, s.steps, s.empty, s.full"
    " FROM pipeline_op o JOIN queue_stats q ON q.track = o.output LEFT JOIN " STEPS_SQL
    " ON s.track = q.track WHERE o.rank IS %1$s ORDER BY o.distance DESC, o.output";
enum {
    STAGE,
    WORKERS,
    QUEUE,
    USAGE,
    EMPTY,
    FULL,
    CAPACITY,
    CONSUMER,
    BOTTLENECK,
    MEAN,
    STEPS,
    STEPS_EMPTY,
    STEPS_FULL,
};

/* Those that belong to no known stage. */
static const char loose_sql[] =
    "SELECT NULL, NULL, q.name, q.usage, q.empty_share, q.full_share, q.capacity, q.consumer, 0,"
    " q.mean_size, s.steps, s.empty, s.full FROM queue_stats q LEFT JOIN " STEPS_SQL
    " ON s.track = q.track WHERE q.producer IS NULL AND q.rank IS %1$s ORDER BY q.track";

/* Where a stage has several inputs or outputs, the picture is no chain. */
static const char branches_sql[] =
    "SELECT count(*) FROM (SELECT consumer FROM queue_stats WHERE producer IS NOT NULL AND rank IS"
    " %1$s AND consumer IS NOT NULL GROUP BY consumer HAVING count(*) > 1 UNION ALL"
    " SELECT producer FROM queue_stats WHERE producer IS NOT NULL AND rank IS %1$s"
    " GROUP BY producer HAVING count(*) > 1)";

/* Stages that fill nothing: where the data goes in the end. */
static const char ends_sql[] =
    "SELECT DISTINCT consumer FROM queue_stats q WHERE producer IS NOT NULL AND rank IS %1$s"
    " AND NOT EXISTS (SELECT 1 FROM queue_stats n WHERE n.producer = q.consumer AND n.rank IS"
    " q.rank)";

/* Queues whose consumer fills no other: where the model gets its data. */
static const char verdict_sql[] =
    "SELECT q.name, q.empty_share, q.consumer,"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck = 1 AND rank IS %1$s),"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck_r05 = 1 AND rank IS "
    "%1$s),"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck_master = 1"
    "  AND rank IS %1$s),"
    " (SELECT count(*) FROM pipeline_op WHERE output_usage IS NOT NULL AND rank IS %1$s)"
    " FROM queue_stats q WHERE q.rank IS %1$s AND q.empty_share IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM queue_stats n WHERE n.producer = q.consumer AND n.rank IS q.rank)"
    " ORDER BY q.empty_share DESC LIMIT 1";

static const char between_sql[] =
    "SELECT host_empty, host_samples, host_full, data_empty, data_samples, verdict, verdict_r05,"
    " verdict_master FROM queue_verdict WHERE rank IS %1$s";

/* Where nothing is known of queues: how long the program waited for data. */
static const char waits_sql[] =
    "SELECT sum(ns) FILTER (WHERE bucket = 'data'), sum(ns) FROM occupation WHERE warmup = 0"
    " AND bucket <> 'not_recorded'";

static const char *text_or(const opm_rows *r, int col, const char *otherwise)
{
    const char *text = opm_rows_text(r, col, NULL);

    return text ? text : otherwise;
}

/* Names come from the trace: nothing in them may move the cursor. */
static void put_clean(struct cli *cli, const char *text)
{
    struct buf b = { 0 };

    buf_adds(&b, text);
    cli_clean(&b);
    io_out_addf(&cli->out, "%s", buf_str(&b));
    buf_release(&b);
}

static void put_bar(struct cli *cli, const opm_rows *r)
{
    double usage = opm_rows_real(r, USAGE);
    int filled = (int)(usage * BAR_COLUMNS + 0.5);
    enum cli_style style = opm_rows_real(r, EMPTY) > STARVING ? STYLE_RED : STYLE_GREEN;

    if (opm_rows_type(r, USAGE) == OPM_TYPE_NULL) {
        io_out_addf(&cli->out, "%*s", -(BAR_COLUMNS + 6), "size unknown");
        return;
    }
    io_out_addf(&cli->out, "%s", cli_style(cli, style));
    for (int i = 0; i < BAR_COLUMNS; i++)
        io_out_addf(&cli->out, "%s", i < filled ? "█" : "░");
    io_out_addf(&cli->out, "%s %3.0f %%", cli_style(cli, STYLE_PLAIN), 100 * usage);
}

/* "reader ×4   ◀ bottleneck" */
static void put_stage(struct cli *cli, const opm_rows *r)
{
    io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_BOLD));
    put_clean(cli, opm_rows_text(r, STAGE, NULL));
    io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_PLAIN));
    if (opm_rows_int(r, WORKERS) > 1)
        io_out_addf(&cli->out, " ×%lld", (long long)opm_rows_int(r, WORKERS));
    if (opm_rows_int(r, BOTTLENECK))
        io_out_addf(&cli->out, "   %s◀ bottleneck%s", cli_style(cli, STYLE_RED),
                    cli_style(cli, STYLE_PLAIN));
    io_out_addf(&cli->out, "\n");
}

static void put_share(struct buf *b, const opm_rows *r, int col, const char *label)
{
    if (opm_rows_type(r, col) != OPM_TYPE_NULL)
        buf_addf(b, "  %s %3.0f %%", label, 100 * opm_rows_real(r, col));
}

/* Of a queue: its bar, how often it was empty and full, its name. before: what stands in front of
 * it on the line; below: in front of the lines that follow if there is no room. */
static void put_figures(struct cli *cli, const opm_rows *r, const char *before, const char *below)
{
    struct buf text = { 0 }, lines = { 0 };
    size_t left = glyph_width(before, strlen(before)) + BAR_COLUMNS + 6;
    size_t indent = glyph_width(below, strlen(below)), shares;

    put_share(&text, r, EMPTY, "empty");
    put_share(&text, r, FULL, "full");
    io_out_addf(&cli->out, "%s", before);
    put_bar(cli, r);
    io_out_addf(&cli->out, "%s", buf_str(&text));
    shares = text.len;
    buf_clear(&text);
    buf_adds(&text, text_or(r, QUEUE, "queue"));
    if (opm_rows_type(r, CAPACITY) != OPM_TYPE_NULL)
        buf_addf(&text, " (%.1f of %lld)", opm_rows_real(r, MEAN),
                 (long long)opm_rows_int(r, CAPACITY));
    if (opm_rows_type(r, STEPS) != OPM_TYPE_NULL) {
        buf_addf(&text, ", empty in %lld", (long long)opm_rows_int(r, STEPS_EMPTY));
        if (opm_rows_type(r, STEPS_FULL) != OPM_TYPE_NULL)
            buf_addf(&text, " and full in %lld", (long long)opm_rows_int(r, STEPS_FULL));
        buf_addf(&text, " of %lld step%s", (long long)opm_rows_int(r, STEPS),
                 human_s(opm_rows_int(r, STEPS)));
    }
    cli_clean(&text);
    if (!cli_width() ||
        left + shares + 2 + glyph_width(buf_str(&text), text.len) <= (size_t)cli_width()) {
        io_out_addf(&cli->out, "  %s\n", buf_str(&text));
    } else {
        text_wrap(&lines, buf_str(&text), 0, 0, MAX(cli_text_width() - (int)indent, 10));
        buf_addc(&lines, '\n');
        io_out_addf(&cli->out, "\n");
        for (const char *line = buf_str(&lines); *line; line += strcspn(line, "\n") + 1)
            io_out_addf(&cli->out, "%s%.*s\n", below, (int)strcspn(line, "\n"), line);
    }
    buf_release(&text);
    buf_release(&lines);
}

static void put_queue(struct cli *cli, const opm_rows *r)
{
    if (opm_rows_type(r, STAGE) != OPM_TYPE_NULL) {
        io_out_addf(&cli->out, "  ");
        put_stage(cli, r);
    }
    put_figures(cli, r, "    │ ", "    │ ");
    io_out_addf(&cli->out, "    ▼\n");
}

/* sql with the rank put in. */
static int query(opm_trace *t, const char *sql, const char *rank, opm_rows **r, opm_error *err)
{
    struct buf b = { 0 };
    int rc;

    for (const char *p = sql; *p; p++) {
        if (strncmp(p, "%1$s", 4) == 0) {
            buf_adds(&b, rank);
            p += 3;
        } else {
            buf_addc(&b, *p);
        }
    }
    rc = opm_trace_query(t, buf_str(&b), r, err);
    buf_release(&b);
    return rc;
}

/* Draws what sql gives; the consumer of the last queue goes below it. */
static int draw(struct cli *cli, opm_trace *t, const char *sql, const char *rank)
{
    struct buf last = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more = query(t, sql, rank, &r, &err);

    while (more >= 0) {
        more = opm_rows_next(r, &err);
        if (more <= 0)
            break;
        put_queue(cli, r);
        buf_clear(&last);
        buf_adds(&last, text_or(r, CONSUMER, "its consumer"));
    }
    if (last.len) {
        cli_clean(&last);
        io_out_addf(&cli->out, "  %s%s%s\n\n", cli_style(cli, STYLE_BOLD), buf_str(&last),
                    cli_style(cli, STYLE_PLAIN));
    }
    buf_release(&last);
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

#define TREE_DEPTH_MAX 64

/* The stages of one rank as a tree that grows from the last consumer to the sources. */
struct tree {
    struct cli *cli;
    opm_trace *t;
    const char *rank;
    struct buf seen; /* stages that were drawn with what feeds them, each between newlines */
    opm_error err;
};

/* What feeds a stage, below it; prefix stands before every line. */
static int draw_inputs(struct tree *tree, const char *consumer, const char *prefix, int depth)
{
    struct buf sql = { 0 };
    opm_rows *r = NULL;
    int rc, more;

    buf_adds(&sql, "SELECT *, row_number() OVER () = count(*) OVER () FROM (");
    buf_adds(&sql, stages_sql);
    buf_adds(&sql, ") WHERE consumer IS ");
    cli_sql_text(&sql, consumer);
    rc = query(tree->t, buf_str(&sql), tree->rank, &r, &tree->err);
    more = rc;
    while (more >= 0 && rc >= 0) {
        struct buf below = { 0 }, mark = { 0 }, before = { 0 }, after = { 0 };
        struct io_out *out = &tree->cli->out;
        bool last;

        more = opm_rows_next(r, &tree->err);
        if (more <= 0)
            break;
        last = opm_rows_int(r, STEPS_FULL + 1);
        buf_addf(&below, "%s%s", prefix, last ? "   " : "│  ");
        buf_addf(&mark, "\n%s\n", opm_rows_text(r, STAGE, NULL));
        buf_addf(&before, "  %s%s ", prefix, last ? "└─" : "├─");
        buf_addf(&after, "  %s", buf_str(&below));
        put_figures(tree->cli, r, buf_str(&before), buf_str(&after));
        io_out_addf(out, "  %s", buf_str(&below));
        put_stage(tree->cli, r);
        if (strstr(buf_str(&tree->seen), buf_str(&mark)) || depth >= TREE_DEPTH_MAX) {
            io_out_addf(out, "  %s└─ (what feeds it is drawn above)\n", buf_str(&below));
        } else {
            buf_adds(&tree->seen, buf_str(&mark));
            rc = draw_inputs(tree, opm_rows_text(r, STAGE, NULL), buf_str(&below), depth + 1);
        }
        buf_release(&below);
        buf_release(&mark);
        buf_release(&before);
        buf_release(&after);
    }
    opm_rows_close(r);
    buf_release(&sql);
    return more < 0 ? more : rc;
}

static int draw_tree(struct cli *cli, opm_trace *t, const char *rank)
{
    struct tree tree = { .cli = cli, .t = t, .rank = rank };
    opm_rows *r = NULL;
    int more = query(t, ends_sql, rank, &r, &tree.err), rc = more;

    while (more >= 0 && rc >= 0) {
        more = opm_rows_next(r, &tree.err);
        if (more <= 0)
            break;
        io_out_addf(&cli->out, "  %s", cli_style(cli, STYLE_BOLD));
        put_clean(cli, text_or(r, 0, "its consumer"));
        io_out_addf(&cli->out, "%s\n", cli_style(cli, STYLE_PLAIN));
        rc = draw_inputs(&tree, opm_rows_text(r, 0, NULL), "", 0);
        io_out_addf(&cli->out, "\n");
    }
    opm_rows_close(r);
    buf_release(&tree.seen);
    return more < 0 || rc < 0 ? cli_error("%s", tree.err.msg) : CLI_OK;
}

/* Has the pipeline of a rank branches? */
static bool branches(opm_trace *t, const char *rank)
{
    opm_rows *r = NULL;
    bool any = query(t, branches_sql, rank, &r, NULL) >= 0 && opm_rows_next(r, NULL) > 0 &&
               opm_rows_int(r, 0) > 0;

    opm_rows_close(r);
    return any;
}

/* One sentence or two; both forms of the output have them. */
static void say_verdict(struct buf *b, const opm_rows *r)
{
    const char *consumer = text_or(r, 2, "the consumer");
    double empty = opm_rows_real(r, 1);

    if (empty <= STARVING) {
        buf_addf(b,
                 "Data arrives in time: %s, from which %s gets it, was empty %.0f %% of the time "
                 "(%.0f %% would be too often). Making the input faster would not help.",
                 text_or(r, 0, "the queue"), consumer, 100 * empty, 100 * STARVING);
        return;
    }
    buf_addf(b, "%s waits for data: %s was empty %.0f %% of the time.", consumer,
             text_or(r, 0, "the queue"), 100 * empty);
    if (opm_rows_type(r, 3) != OPM_TYPE_NULL)
        buf_addf(b,
                 " The bottleneck is %s: the queue that it fills runs empty, and it does not lack "
                 "input itself. Give it more workers, or make its work cheaper.",
                 opm_rows_text(r, 3, NULL));
}

static void say_ancestors(struct buf *b, const opm_rows *r)
{
    if (!opm_rows_int(r, 6))
        return;
    buf_addf(b,
             "MindInsight's rules look at usage alone. The first one (below 20 %% behind 80 %%) "
             "names: %s. The later one (10 points below its input, or a first stage below 60 %%) "
             "names: %s. Both name the last stage when every queue is full, although then data is "
             "not what is missing.",
             text_or(r, 4, "none"), text_or(r, 5, "none"));
}

static void put_wrapped(struct cli *cli, struct buf *text)
{
    struct buf line = { 0 };

    cli_clean(text);
    text_wrap(&line, buf_str(text), 0, 0, cli_text_width());
    io_out_addf(&cli->out, "%s\n", buf_str(&line));
    buf_release(&line);
    buf_clear(text);
}

static const char *verdict_words(const char *verdict)
{
    if (strcmp(verdict, "data_process") == 0)
        return "processing the data is slow";
    if (strcmp(verdict, "transfer") == 0)
        return "moving it to the device is slow";
    return strcmp(verdict, "none") == 0 ? "data is not the problem" : "look at the pipeline";
}

/* The two queues between host and device, by three rules. */
static int print_between(struct cli *cli, opm_trace *t, const char *rank)
{
    struct buf text = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more = query(t, between_sql, rank, &r, &err);

    if (more >= 0)
        more = opm_rows_next(r, &err);
    if (more > 0) {
        buf_addf(&text,
                 "Between host and device: the host queue was found empty %lld time%s of %lld",
                 (long long)opm_rows_int(r, 0), human_s(opm_rows_int(r, 0)),
                 (long long)opm_rows_int(r, 1));
        if (opm_rows_type(r, 4) != OPM_TYPE_NULL)
            buf_addf(&text, ", the queue on the device %lld of %lld", (long long)opm_rows_int(r, 3),
                     (long long)opm_rows_int(r, 4));
        buf_addf(&text,
                 ": %s. By MindInsight's first rule (70 %%): %s; by its later one (30 %%): %s.",
                 verdict_words(opm_rows_text(r, 5, NULL)), verdict_words(opm_rows_text(r, 6, NULL)),
                 verdict_words(opm_rows_text(r, 7, NULL)));
        put_wrapped(cli, &text);
    }
    buf_release(&text);
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

static int print_verdict(struct cli *cli, opm_trace *t, const char *rank)
{
    struct buf text = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more = query(t, verdict_sql, rank, &r, &err);

    if (more >= 0)
        more = opm_rows_next(r, &err);
    if (more > 0) {
        say_verdict(&text, r);
        put_wrapped(cli, &text);
        say_ancestors(&text, r);
        if (text.len && !cli->quiet) {
            io_out_addf(&cli->out, "\n%s", cli_style(cli, STYLE_DIM));
            put_wrapped(cli, &text);
            io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_PLAIN));
        }
    }
    buf_release(&text);
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

/* One picture for each rank. */
static int print_all(struct cli *cli, opm_trace *t)
{
    opm_rows *ranks = NULL;
    opm_error err;
    int rc = CLI_OK, n = 0;
    int more =
        opm_trace_query(t, "SELECT DISTINCT rank FROM queue_stats ORDER BY rank", &ranks, &err);

    while (more >= 0 && rc == CLI_OK) {
        more = opm_rows_next(ranks, &err);
        if (more <= 0)
            break;
        const char *rank = text_or(ranks, 0, "NULL");

        if (n++)
            io_out_addf(&cli->out, "\n");
        if (strcmp(rank, "NULL") != 0)
            io_out_addf(&cli->out, "Rank %s\n\n", rank);
        rc = branches(t, rank) ? draw_tree(cli, t, rank) : draw(cli, t, stages_sql, rank);
        if (rc == CLI_OK)
            rc = draw(cli, t, loose_sql, rank);
        if (rc == CLI_OK)
            rc = print_between(cli, t, rank);
        if (rc == CLI_OK)
            rc = print_verdict(cli, t, rank);
    }
    opm_rows_close(ranks);
    return more < 0 ? cli_error("%s", err.msg) : rc;
}

/* A trace without queues may still show that the program waited. */
static int print_waits(struct cli *cli, opm_trace *t)
{
    char data[HUMAN_ROOM], all[HUMAN_ROOM];
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(t, waits_sql, &r, &err);

    if (more >= 0)
        more = opm_rows_next(r, &err);
    if (more > 0 && opm_rows_real(r, 0) > 0)
        cli_tell(cli,
                 "This trace has no queues. The program waited for data for %s of %s, %.1f %% of "
                 "the time.",
                 human_ns(data, opm_rows_real(r, 0)), human_ns(all, opm_rows_real(r, 1)),
                 100 * opm_rows_real(r, 0) / opm_rows_real(r, 1));
    else if (more >= 0)
        cli_tell(cli, "This trace has no queues: whether data arrives in time cannot be seen in "
                      "it.");
    opm_rows_close(r);
    return more < 0 ? cli_error("%s", err.msg) : CLI_OK;
}

int cmd_pipeline(struct cli *cli, int argc, char **argv)
{
    bool stages = false, steps = false;
    const struct option opts[] = {
        OPT_BOOL(0, "stages", &stages, "print the table of stages instead"),
        OPT_BOOL(0, "steps", &steps, "print how often queues were empty and full in every step"),
        CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    opm_trace *t;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    rc = cli_open(cli, &t, argv, n);
    if (rc != CLI_OK)
        return rc;
    if (!cli->json && !cli->csv && cli_query_int(t, "SELECT count(*) FROM queue_stats") == 0) {
        rc = print_waits(cli, t);
    } else if (stages) {
        rc = cli_print_query(cli, t, "SELECT * FROM pipeline_op");
    } else if (steps && !cli->json && !cli->csv &&
               cli_query_int(t, "SELECT count(*) FROM queue_steps") == 0) {
        io_out_addf(&cli->out, "No size of a queue of this trace was recorded in a step.\n");
    } else if (steps) {
        rc = cli_print_query(cli, t, "SELECT * FROM queue_steps ORDER BY rank, step, num, track");
    } else if (cli->json || cli->csv) {
        rc = cli_print_query(cli, t, queues_sql);
    } else {
        rc = print_all(cli, t);
    }
    opm_trace_close(t);
    return rc;
}
