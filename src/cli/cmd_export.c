/* cmd_export.c -- write a trace in the format of another tool. */
#include "cli/answers.h"

#include "base/alloc.h"
#include "catalog/lake.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char about[] =
    "Write a trace, or several merged into one, in the format of another tool. The format follows "
    "from the extension of PATH (.json: chrome, .pftrace or .perfetto-trace: perfetto, .csv: csv, "
    ".parquet: parquet, .arrow: arrow, .opm: opm) "
    "unless -f names it. Without -o, or with '-o -', it goes to standard output. A file is "
    "replaced "
    "only when the new one is complete. Instead of a TRACE, runs.db or clickhouse://... gives the "
    "ranks of jobs that 'opmeter add --job' keeps there, all or those of --job, --rank and "
    "--table, "
    "to a folder of Parquet.";

/* What cannot be learnt from opm_format: other extensions, and where to take the result. */
static const struct {
    const char *format;
    const char *extension; /* besides its own */
    const char *open_with;
} extras[] = {
    { "chrome", ".json", "open it in https://ui.perfetto.dev or chrome://tracing" },
    { "perfetto", ".pftrace", "open it in https://ui.perfetto.dev" },
    { "perfetto", ".perfetto-trace", "open it in https://ui.perfetto.dev" },
    { "csv", ".csv", "open it in a spreadsheet, or read it with pandas" },
    { "parquet", ".parquet", "DuckDB: SELECT * FROM 'PATH/span/**/*.parquet'" },
    { "arrow", ".arrow", "pandas: pandas.read_feather(PATH)" },
    { "xlsx", ".xlsx", "open it in a spreadsheet; yellow cells are for you to change" },
    { "neural-engine", "", "open it in a spreadsheet, percent signs as numbers" },
    { "neural-engine-trace", "", "open it in https://ui.perfetto.dev or chrome://tracing" },
    { "speedscope", ".speedscope.json", "open it in https://www.speedscope.app" },
    { "netron", "", "open the model in Netron, then drop this file onto it" },
    { "cambricon", "", "summary.md is the page to read first" },
    { "opm", ".opm", "every command opens it at once" },
};

static const opm_format *find_format(const char *name)
{
    for (const opm_format *f = opm_export_formats(); f->name; f++)
        if (strcmp(f->name, name) == 0)
            return f;
    return NULL;
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), nt = strlen(tail);

    return nt && n > nt && strcmp(s + n - nt, tail) == 0;
}

/* The format with the longest extension that fits; of several with the same, the one in extras. */
static const opm_format *format_of_path(const char *path)
{
    const opm_format *best = NULL;
    size_t longest = 0;

    for (size_t i = 0; i < ARRAY_SIZE(extras); i++) {
        if (ends_with(path, extras[i].extension) && strlen(extras[i].extension) > longest) {
            best = find_format(extras[i].format);
            longest = strlen(extras[i].extension);
        }
    }
    for (const opm_format *f = opm_export_formats(); f->name; f++) {
        if (ends_with(path, f->extension) && strlen(f->extension) > longest) {
            best = f;
            longest = strlen(f->extension);
        }
    }
    return best;
}

static int unknown_format(const struct cli *cli, const char *name)
{
    struct nearest n = { name, NULL, 0 };

    for (const opm_format *f = opm_export_formats(); f->name; f++)
        nearest_try(&n, f->name);
    if (n.best)
        return cli_usage(cli, "no such format '%s'; did you mean '%s'?", name, n.best);
    return cli_usage(cli, "no such format '%s' ('opmeter export --list' names them)", name);
}

static int list_formats(struct cli *cli)
{
    struct textable *t = textable_new();

    if (!t)
        return cli_out_of_memory();
    textable_column(t, "format", TEXTABLE_TEXT);
    textable_column(t, "extension", TEXTABLE_TEXT);
    textable_column(t, "what it is", TEXTABLE_PROSE);
    for (const opm_format *f = opm_export_formats(); f->name; f++) {
        textable_text(t, f->name, strlen(f->name));
        textable_text(t, f->extension, strlen(f->extension));
        textable_text(t, f->doc, strlen(f->doc));
    }
    return cli_print_table(cli, t);
}

static bool is_text(const opm_format *f)
{
    static const char *const extensions[] = { ".json", ".csv", ".md", ".speedscope.json" };

    for (size_t i = 0; i < ARRAY_SIZE(extensions); i++)
        if (strcmp(f->extension, extensions[i]) == 0)
            return true;
    return strcmp(f->name, "csv") == 0;
}

/* A format of tables: one of them in a file, or all in a folder. */
static bool has_tables(const opm_format *f)
{
    static const char *const names[] = { "csv", "parquet", "arrow" };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (strcmp(f->name, names[i]) == 0)
            return true;
    return false;
}

/* A format that knows jobs and ranks. */
static bool has_ranks(const opm_format *f)
{
    return strcmp(f->name, "parquet") == 0;
}

/* Closing remarks, for people only. */
static void say_what_was_written(struct cli *cli, const opm_format *f, const char *path)
{
    char room[HUMAN_ROOM];
    struct stat st;

    if (cli->quiet || strcmp(path, "-") == 0 || !isatty(STDOUT_FILENO) || stat(path, &st) < 0)
        return;
    if (S_ISREG(st.st_mode))
        cli_say(cli, "wrote %s (%s, %s)", path, f->name, human_bytes(room, (uint64_t)st.st_size));
    else
        cli_say(cli, "wrote %s (%s)", path, f->name);
    for (size_t i = 0; i < ARRAY_SIZE(extras); i++) {
        if (strcmp(extras[i].format, f->name) == 0) {
            io_out_addf(&cli->out, ": %s", extras[i].open_with);
            break;
        }
    }
    io_out_adds(&cli->out, "\n");
}

struct export
{
    const opm_format *format;
    const char *output;
    opm_export_options opts;
    bool alone;     /* one of several traces that are a rank of the job each */
    int64_t *taken; /* ranks of those before it */
    int ntaken;
};

/* The rank of one of several traces; a job has each once. */
static int take_rank(struct export *e, opm_trace *t, const char *path, char *room, size_t size)
{
    int64_t rank = cli_query_int(t, "SELECT CASE WHEN min(rank) = max(rank) THEN min(rank) "
                                    "ELSE -1 END FROM track");

    if (rank < 0)
        return cli_error("%s: does not say which rank of job %s it is; export it alone, with "
                         "--rank N",
                         path, e->opts.job);
    for (int i = 0; i < e->ntaken; i++)
        if (e->taken[i] == rank)
            return cli_error("%s: is rank %lld of job %s, and so is a TRACE before it; merge both "
                             "with 'opmeter import' if they are parts of one",
                             path, (long long)rank, e->opts.job);
    e->taken[e->ntaken++] = rank;
    snprintf(room, size, "%lld", (long long)rank);
    return CLI_OK;
}

/* One trace, maybe merged of several. */
static int export_trace(struct cli *cli, char **paths, int n, struct export *e)
{
    opm_export_options opts = e->opts;
    char rank[24];
    opm_trace *t = NULL;
    struct progress p;
    opm_error err;
    int rc = cli_open(cli, &t, paths, n);

    if (rc == CLI_OK)
        rc = cli_make_way(e->output, opts.force);
    if (rc == CLI_OK && e->alone) {
        rc = take_rank(e, t, paths[0], rank, sizeof(rank));
        opts.rank = rank;
    }
    if (rc != CLI_OK) {
        opm_trace_close(t);
        return rc;
    }
    progress_start(&p, cli, "writing", e->output);
    opts.progress = progress_tick;
    opts.user = &p;
    cli_interrupt_begin();
    rc = opm_trace_export(t, e->format->name, e->output, &opts, &err);
    progress_end(&p);
    cli_interrupt_end();
    if (rc < 0)
        rc = cli_error("%s", err.msg);
    opm_trace_close(t);
    return rc;
}

static int export_traces(struct cli *cli, char **paths, int n, struct export *e)
{
    /* A folder that holds other ranks is added to; the exporter looks at what is in the way. */
    bool adds = has_ranks(e->format) && !e->opts.table;
    int rc = adds ? CLI_OK : cli_may_write(e->output, e->opts.force);

    if (rc == CLI_OK && e->opts.job && n > 1) { /* never more than one in memory */
        e->alone = true;
        e->taken = mem_alloc((size_t)n * sizeof(*e->taken));
        rc = e->taken ? CLI_OK : cli_out_of_memory();
        for (int i = 0; i < n && rc == CLI_OK; i++)
            rc = export_trace(cli, paths + i, 1, e);
        mem_free(e->taken);
    } else if (rc == CLI_OK) {
        rc = export_trace(cli, paths, n, e);
    }
    if (rc == CLI_OK)
        say_what_was_written(cli, e->format, e->output);
    return rc;
}

static bool is_number(const char *s)
{
    return *s && strspn(s, "0123456789") == strlen(s) && strlen(s) <= 9;
}

/* What does not go together. */
static int check(struct cli *cli, const struct export *e, int n)
{
    const opm_format *f = e->format;
    const opm_export_options *o = &e->opts;

    if (o->table && !has_tables(f))
        return cli_usage(cli, "--table goes with csv, parquet and arrow, not %s", f->name);
    if (cli->raw && strcmp(f->name, "csv") != 0)
        return cli_usage(cli, "--raw goes with format csv, not %s", f->name);
    if ((o->job || o->rank) && (!has_ranks(f) || o->table))
        return cli_usage(cli, "--%s goes with all tables of parquet, not with %s",
                         o->job ? "job" : "rank", has_ranks(f) ? "one" : f->name);
    if (o->job && !*o->job)
        return cli_usage(cli, "--job needs a name");
    if (o->rank && !is_number(o->rank))
        return cli_usage(cli, "--rank %s is no number from 0 on", o->rank);
    if (o->rank && o->job && n > 1)
        return cli_usage(cli, "--rank goes with one TRACE: with --job, each of several is a rank "
                              "of its own, and says which");
    if (strcmp(e->output, "-") == 0 && isatty(STDOUT_FILENO) && !is_text(f))
        return cli_usage(cli, "%s is binary, not for a terminal: use -o PATH", f->name);
    return CLI_OK;
}

/* Ranks of jobs in a database. */
static int export_database(struct cli *cli, const char *where, const struct export *e)
{
    const struct lake_options o = { .table = e->opts.table,
                                    .job = e->opts.job,
                                    .rank = e->opts.rank ? strtoll(e->opts.rank, NULL, 10) : -1,
                                    .force = e->opts.force };
    struct fleetdb *db = NULL;
    uint64_t rows = 0;
    char room[HUMAN_ROOM];
    opm_error err;
    int rc;

    if (!has_ranks(e->format))
        return cli_usage(cli, "%s has ranks of jobs, which go to parquet only: -f parquet", where);
    if (strcmp(e->output, "-") == 0)
        return cli_usage(cli, "ranks of jobs go to a folder: -o FOLDER");
    if (e->opts.rank && !is_number(e->opts.rank))
        return cli_usage(cli, "--rank %s is no number from 0 on", e->opts.rank);
    if (fleetdb_open(&db, where, FLEETDB_READ, &err) < 0)
        return cli_error("%s", err.msg);
    rc = lake_write(db, e->output, &o, &rows, &err) < 0 ? cli_error("%s", err.msg) : CLI_OK;
    fleetdb_close(db);
    if (rc == CLI_OK && !cli->quiet && isatty(STDOUT_FILENO))
        cli_say(cli, "wrote %s (%s rows): DuckDB: SELECT * FROM '%s/rank_op/**/*.parquet'\n",
                e->output, human_count(room, (int64_t)rows), e->output);
    return rc;
}

int cmd_export(struct cli *cli, int argc, char **argv)
{
    struct export e = { .output = "-", .opts = OPM_EXPORT_OPTIONS_INIT };
    const char *name = NULL;
    bool list = false, force = false;
    const struct option opts[] = {
        OPT_STR('f', "format", &name, "FORMAT", "write this format"),
        OPT_STR('o', "output", &e.output, "PATH", "write to PATH ('-': standard output)"),
        OPT_STR(
            't', "table", &e.opts.table, "TABLE",
            "csv, parquet, arrow: this table only; without it, all if PATH is a folder, else span"),
        OPT_STR(0, "job", &e.opts.job, "JOB",
                "parquet: add to folders job=JOB/rank=RANK; several TRACEs are ranks of the job"),
        OPT_STR(0, "rank", &e.opts.rank, "N", "parquet: the rank, if the trace does not say it"),
        OPT_STR(0, "input-format", &cli->trace_format, "NAME",
                "read every TRACE as this format instead of finding out"),
        CLI_REDACT_OPTION(cli),
        CLI_LIMIT_OPTIONS(cli),
        OPT_BOOL(0, "force", &force, "replace PATH, whatever it is"),
        OPT_BOOL('l', "list", &list, "list the formats"),
        CLI_TABLE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);
    const opm_format *f;
    int rc;

    if (n < 0)
        return cli->status;
    if (list)
        return n ? cli_usage(cli, "--list takes no TRACE") : list_formats(cli);
    if (cli->json || cli->csv)
        return cli_usage(cli, "--%s goes with --list only; the format of a file is chosen with -f",
                         cli->json ? "json" : "csv");
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    f = name ? find_format(name) : format_of_path(e.output);
    if (!f && name)
        return unknown_format(cli, name);
    if (!f && strcmp(e.output, "-") == 0)
        return cli_usage(cli, "a format is needed: -f FORMAT, or -o PATH with a known extension");
    if (!f)
        return cli_usage(cli, "'%s' does not say which format; name it with -f", e.output);
    e.format = f;
    e.opts.raw = cli->raw;
    e.opts.force = force;
    if (n == 1 && answer_is_database(argv[0]))
        return export_database(cli, argv[0], &e);
    rc = check(cli, &e, n);
    if (rc != CLI_OK)
        return rc;
    /* One file holds one table; a folder would be a surprise. */
    if (!e.opts.table && has_tables(f) && !e.opts.job && !e.opts.rank &&
        (strcmp(e.output, "-") == 0 || format_of_path(e.output) == f))
        e.opts.table = "span";
    return export_traces(cli, argv, n, &e);
}
