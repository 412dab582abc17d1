/* cmd_pipeline.c -- does data arrive in time, and if not, which stage holds it up. */
#include "cli/cli.h"

#include <stdio.h>

#define BAR_COLUMNS 20
#define STARVING 0.3 /* as in analyze/pipeline_op.c: above it the last consumer waits for data */

static const char about[] =
    "Show the queues of an input pipeline, how full they were, and which stage holds it up. Works "
    "on queues recorded through the API and on those that imported traces have.";

static const char queues_sql[] =
    "SELECT name, producer, consumer, workers, capacity, samples, empty, full, empty_share,"
    " full_share, mean_size, max_size, usage FROM queue_stats";

static const char stages_sql[] =
    "SELECT o.stage, o.workers, q.name, q.usage, q.empty_share, q.full_share, q.capacity,"
    " q.consumer, o.bottleneck, q.mean_size"
    " FROM pipeline_op o JOIN queue_stats q ON q.track = o.output"
    " ORDER BY o.distance DESC, o.output";
enum { STAGE, WORKERS, QUEUE, USAGE, EMPTY, FULL, CAPACITY, CONSUMER, BOTTLENECK, MEAN };

/* Those that belong to no known stage. */
static const char loose_sql[] =
    "SELECT NULL, NULL, name, usage, empty_share, full_share, capacity, consumer, 0, mean_size"
    " FROM queue_stats WHERE producer IS NULL ORDER BY track";

/* Queues whose consumer fills no other: where the model gets its data. */
static const char verdict_sql[] =
    "SELECT q.name, q.empty_share, q.consumer,"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck = 1),"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck_r05 = 1),"
    " (SELECT group_concat(stage, ', ') FROM pipeline_op WHERE bottleneck_master = 1),"
    " (SELECT count(*) FROM pipeline_op WHERE output_usage IS NOT NULL)"
    " FROM queue_stats q WHERE q.empty_share IS NOT NULL AND NOT EXISTS"
    " (SELECT 1 FROM queue_stats n WHERE n.producer = q.consumer)"
    " ORDER BY q.empty_share DESC LIMIT 1";

static void put_share(struct io_out *out, const opm_rows *r, int col, const char *label)
{
    if (opm_rows_type(r, col) != OPM_TYPE_NULL)
        io_out_addf(out, "  %s %3.0f %%", label, 100 * opm_rows_real(r, col));
}

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

static void put_queue(struct cli *cli, const opm_rows *r)
{
    const char *name = text_or(r, QUEUE, "queue");

    if (opm_rows_type(r, STAGE) != OPM_TYPE_NULL) {
        io_out_addf(&cli->out, "  %s", cli_style(cli, STYLE_BOLD));
        put_clean(cli, opm_rows_text(r, STAGE, NULL));
        io_out_addf(&cli->out, "%s", cli_style(cli, STYLE_PLAIN));
        if (opm_rows_int(r, WORKERS) > 1)
            io_out_addf(&cli->out, " ×%lld", (long long)opm_rows_int(r, WORKERS));
        if (opm_rows_int(r, BOTTLENECK))
            io_out_addf(&cli->out, "   %s◀ bottleneck%s", cli_style(cli, STYLE_RED),
                        cli_style(cli, STYLE_PLAIN));
        io_out_addf(&cli->out, "\n");
    }
    io_out_addf(&cli->out, "    │ ");
    put_bar(cli, r);
    put_share(&cli->out, r, EMPTY, "empty");
    put_share(&cli->out, r, FULL, "full");
    io_out_addf(&cli->out, "  ");
    put_clean(cli, name);
    if (opm_rows_type(r, CAPACITY) != OPM_TYPE_NULL)
        io_out_addf(&cli->out, " (%.1f of %lld)", opm_rows_real(r, MEAN),
                    (long long)opm_rows_int(r, CAPACITY));
    io_out_addf(&cli->out, "\n    ▼\n");
}

/* Draws what sql gives; the consumer of the last queue goes below it. */
static int draw(struct cli *cli, opm_trace *t, const char *sql)
{
    struct buf last = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(t, sql, &r, &err);

    while (more >= 0 && (more = opm_rows_next(r, &err)) > 0) {
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

static int print_verdict(struct cli *cli, opm_trace *t)
{
    struct buf text = { 0 };
    opm_rows *r = NULL;
    opm_error err;
    int more = opm_trace_query(t, verdict_sql, &r, &err);

    if (more >= 0 && (more = opm_rows_next(r, &err)) > 0) {
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

static int64_t count(opm_trace *t, const char *sql)
{
    opm_rows *r = NULL;
    int64_t n = -1;

    if (opm_trace_query(t, sql, &r, NULL) == 0 && opm_rows_next(r, NULL) > 0)
        n = opm_rows_int(r, 0);
    opm_rows_close(r);
    return n;
}

int cmd_pipeline(struct cli *cli, int argc, char **argv)
{
    bool stages = false;
    const struct option opts[] = {
        OPT_BOOL(0, "stages", &stages, "print the table of stages instead"), CLI_TABLE_OPTIONS(cli),
        CLI_TRACE_OPTIONS(cli), CLI_COMMON_OPTIONS(cli), OPT_END
    };
    int n = cli_parse(cli, opts, about, argc, argv), rc;
    opm_trace *t;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "no trace given");
    rc = cli_open(cli, &t, argv, n);
    if (rc != CLI_OK)
        return rc;
    if (stages) {
        rc = cli_print_query(cli, t, "SELECT * FROM pipeline_op");
    } else if (cli->json || cli->csv) {
        rc = cli_print_query(cli, t, queues_sql);
    } else if (count(t, "SELECT count(*) FROM queue_stats") == 0) {
        io_out_addf(&cli->out, "This trace has no queues: whether data arrives in time cannot be "
                               "seen in it.\n");
    } else {
        rc = draw(cli, t, stages_sql);
        if (rc == CLI_OK)
            rc = draw(cli, t, loose_sql);
        if (rc == CLI_OK)
            rc = print_verdict(cli, t);
    }
    opm_trace_close(t);
    return rc;
}
