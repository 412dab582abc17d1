/* cmd_import.c -- convert what other profilers wrote, once, into an .opm file. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static const char about[] =
    "Read files that any profiler wrote, several of them merged into one trace, and write an .opm "
    "file that every command opens at once. What SRC is follows from its content, packed with "
    "gzip or zstd or not. What was repaired or lost on the way is said, and kept in the file. FILE "
    "is written only when it is complete.";

struct import_job {
    struct cli *cli;
    char **paths;
    int npaths;
    const char *output;
    opm_trace *t;
    double read_s, write_s;
    bool force;
};

static double now_s(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static int list_formats(struct cli *cli)
{
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "format", TEXTABLE_TEXT);
    textable_column(t, "extension", TEXTABLE_TEXT);
    textable_column(t, "what it is", TEXTABLE_PROSE);
    for (const opm_format *f = opm_import_formats(); f->name; f++) {
        textable_text(t, f->name, strlen(f->name));
        textable_text(t, f->extension, strlen(f->extension));
        textable_text(t, f->doc, strlen(f->doc));
    }
    return cli_print_table(cli, t);
}

/* Bytes of a file; 0 for a folder. */
static uint64_t file_bytes(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
}

/* Of all sources; 0 if one is a folder. */
static uint64_t source_bytes(const struct import_job *j)
{
    uint64_t sum = 0;

    for (int i = 0; i < j->npaths; i++) {
        uint64_t bytes = file_bytes(j->paths[i]);

        if (!bytes)
            return 0;
        sum += bytes;
    }
    return sum;
}

static int64_t query_int(struct import_job *j, const char *sql)
{
    opm_rows *r = NULL;
    int64_t v = -1;

    if (opm_trace_query(j->t, sql, &r, NULL) == 0 && opm_rows_next(r, NULL) > 0 &&
        opm_rows_type(r, 0) != OPM_TYPE_NULL)
        v = opm_rows_int(r, 0);
    opm_rows_close(r);
    return v;
}

static void add_count(struct import_job *j, struct buf *b, const char *sql, const char *one,
                      const char *many)
{
    char room[HUMAN_ROOM];
    int64_t n = query_int(j, sql);

    if (n > 0)
        buf_addf(b, "%s%s %s", b->len ? ", " : "", human_count(room, n), n == 1 ? one : many);
}

static void print_stats(struct import_job *j, const char *severity, const char *lead,
                        enum cli_style style)
{
    opm_rows *r = NULL;
    struct buf sql = { 0 };
    char room[HUMAN_ROOM];
    int n = 0;

    buf_addf(&sql, "SELECT count, description FROM import_stat WHERE severity = '%s'", severity);
    if (!sql.failed && opm_trace_query(j->t, buf_str(&sql), &r, NULL) == 0) {
        while (opm_rows_next(r, NULL) > 0) {
            struct buf line = { 0 };

            if (n++ == 0)
                io_out_addf(&j->cli->out, "%s%s%s\n", cli_style(j->cli, style), lead,
                            cli_style(j->cli, STYLE_PLAIN));
            buf_addf(&line, "  %*s x ", 8, human_count(room, opm_rows_int(r, 0)));
            text_wrap(&line, opm_rows_text(r, 1, NULL), 13, 13, cli_text_width());
            io_out_addf(&j->cli->out, "%s\n", buf_str(&line));
            buf_release(&line);
        }
    }
    opm_rows_close(r);
    buf_release(&sql);
}

static void print_summary(struct import_job *j)
{
    uint64_t in = source_bytes(j), out = file_bytes(j->output);
    int64_t spans = query_int(j, "SELECT count(*) FROM span");
    int64_t ns = query_int(j, "SELECT max(ts + max(dur, 0)) FROM span");
    char a[HUMAN_ROOM], b[HUMAN_ROOM], c[HUMAN_ROOM];
    struct buf text = { 0 };

    add_count(j, &text, "SELECT count(*) FROM span", "span", "spans");
    add_count(j, &text, "SELECT count(*) FROM op", "operator", "operators");
    add_count(j, &text, "SELECT count(*) FROM step", "step", "steps");
    add_count(j, &text, "SELECT count(*) FROM sample", "counter sample", "counter samples");
    add_count(j, &text, "SELECT count(*) FROM track", "track", "tracks");
    io_out_addf(&j->cli->out, "%s", text.len ? buf_str(&text) : "nothing");
    if (ns > 0)
        io_out_addf(&j->cli->out, " over %s", human_ns(a, (double)ns));
    io_out_addf(&j->cli->out, "\nread in %s", human_ns(a, j->read_s * 1e9));
    if (in)
        io_out_addf(&j->cli->out, " (%s, %s/s)", human_bytes(b, in),
                    human_bytes(c, (uint64_t)((double)in / MAX(j->read_s, 1e-9))));
    io_out_addf(&j->cli->out, ", written in %s\n", human_ns(a, j->write_s * 1e9));
    buf_clear(&text);
    buf_adds(&text, j->output);
    cli_clean(&text);
    io_out_addf(&j->cli->out, "%s%s%s: %s", cli_style(j->cli, STYLE_BOLD), buf_str(&text),
                cli_style(j->cli, STYLE_PLAIN), human_bytes(a, out));
    if (in)
        io_out_addf(&j->cli->out, ", %.3g %% of what was read", 100.0 * (double)out / (double)in);
    if (spans > 1000)
        io_out_addf(&j->cli->out, ", %.1f bytes per span", (double)out / (double)spans);
    io_out_adds(&j->cli->out, "\n");
    print_stats(j, "loss", "Missing from the source:", STYLE_RED);
    print_stats(j, "info", "Repaired on the way:", STYLE_PLAIN);
    buf_release(&text);
}

static void print_json(struct import_job *j)
{
    struct buf b = { 0 };
    struct json_writer w = { .buf = &b };
    opm_rows *r = NULL;

    json_object(&w);
    json_key(&w, "output");
    json_cstr(&w, j->output);
    json_key(&w, "bytes");
    json_u64(&w, file_bytes(j->output));
    json_key(&w, "source_bytes");
    json_u64(&w, source_bytes(j));
    json_key(&w, "read_s");
    json_f64(&w, j->read_s);
    json_key(&w, "write_s");
    json_f64(&w, j->write_s);
    json_key(&w, "spans");
    json_i64(&w, query_int(j, "SELECT count(*) FROM span"));
    json_key(&w, "operators");
    json_i64(&w, query_int(j, "SELECT count(*) FROM op"));
    json_key(&w, "steps");
    json_i64(&w, query_int(j, "SELECT count(*) FROM step"));
    json_key(&w, "import_stat");
    json_array(&w);
    if (opm_trace_query(j->t, "SELECT * FROM import_stat", &r, NULL) == 0)
        while (opm_rows_next(r, NULL) > 0)
            cli_json_row(&w, r);
    opm_rows_close(r);
    json_array_end(&w);
    json_object_end(&w);
    io_out_addf(&j->cli->out, "%s\n", buf_str(&b));
    buf_release(&b);
}

static int import_all(struct import_job *j)
{
    opm_export_options opts = OPM_EXPORT_OPTIONS_INIT;
    struct progress p;
    double start = now_s();
    opm_error err;
    int rc = cli_open(j->cli, &j->t, j->paths, j->npaths);

    if (rc == CLI_OK)
        rc = cli_make_way(j->output, j->force);
    if (rc != CLI_OK)
        return rc;
    j->read_s = now_s() - start;
    progress_start(&p, j->cli, "writing", j->output);
    opts.progress = progress_tick;
    opts.user = &p;
    start = now_s();
    cli_interrupt_begin();
    rc = opm_trace_export(j->t, "opm", j->output, &opts, &err);
    progress_end(&p);
    cli_interrupt_end();
    j->write_s = now_s() - start;
    if (rc < 0)
        return cli_error("%s", err.msg);
    if (j->cli->json)
        print_json(j);
    else if (!j->cli->quiet)
        print_summary(j);
    return CLI_OK;
}

int cmd_import(struct cli *cli, int argc, char **argv)
{
    struct import_job j = { .cli = cli, .paths = argv };
    bool list = false;
    const struct option opts[] = {
        OPT_STR('o', "output", &j.output, "FILE.opm", "write FILE.opm"),
        OPT_STR(0, "format", &cli->trace_format, "NAME",
                "read every SRC as this format instead of finding out"),
        CLI_REDACT_OPTION(cli),
        CLI_LIMIT_OPTIONS(cli),
        OPT_BOOL(0, "force", &j.force, "replace FILE.opm, whatever it is"),
        OPT_BOOL('l', "list", &list, "list the formats that can be read"),
        OPT_BOOL(0, "json", &cli->json, "print what was done, or the list, as JSON"),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int rc;

    j.npaths = cli_parse(cli, opts, about, argc, argv);
    if (j.npaths < 0)
        return cli->status;
    if (list)
        return j.npaths ? cli_usage(cli, "--list takes no SRC") : list_formats(cli);
    if (j.npaths == 0)
        return cli_usage(cli, "a SRC is needed");
    if (!j.output)
        return cli_usage(cli, "-o FILE.opm is needed");
    if (strcmp(j.output, "-") == 0)
        return cli_usage(cli, "an .opm file is binary, not for standard output");
    rc = cli_may_write(j.output, j.force);
    if (rc == CLI_OK)
        rc = import_all(&j);
    opm_trace_close(j.t);
    return rc;
}
