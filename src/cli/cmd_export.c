/* cmd_export.c -- write a trace in the format of another tool. */
#include "cli/cli.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char about[] =
    "Write a trace, or several merged into one, in the format of another tool. The format follows "
    "from the extension of PATH (.json: chrome, .pftrace or .perfetto-trace: perfetto, .csv: csv, "
    ".opm: opm) "
    "unless -f names it. Without -o, or with '-o -', it goes to standard output. A file is "
    "replaced "
    "only when the new one is complete.";

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

static int export_traces(struct cli *cli, char **paths, int n, const opm_format *f,
                         const char *table, const char *output, bool force)
{
    opm_export_options opts = OPM_EXPORT_OPTIONS_INIT;
    opm_trace *t = NULL;
    struct progress p;
    opm_error err;
    int rc = cli_may_write(output, force);

    if (rc == CLI_OK)
        rc = cli_open(cli, &t, paths, n);
    if (rc == CLI_OK)
        rc = cli_make_way(output, force);
    if (rc != CLI_OK) {
        opm_trace_close(t);
        return rc;
    }
    progress_start(&p, cli, "writing", output);
    opts.table = table;
    opts.raw = cli->raw;
    opts.progress = progress_tick;
    opts.user = &p;
    cli_interrupt_begin();
    rc = opm_trace_export(t, f->name, output, &opts, &err);
    progress_end(&p);
    cli_interrupt_end();
    if (rc < 0)
        rc = cli_error("%s", err.msg);
    else
        say_what_was_written(cli, f, output);
    opm_trace_close(t);
    return rc;
}

int cmd_export(struct cli *cli, int argc, char **argv)
{
    const char *name = NULL, *output = "-", *table = NULL;
    bool list = false, force = false;
    const struct option opts[] = {
        OPT_STR('f', "format", &name, "FORMAT", "write this format"),
        OPT_STR('o', "output", &output, "PATH", "write to PATH ('-': standard output)"),
        OPT_STR(
            't', "table", &table, "TABLE",
            "csv: write this table only; without it, all tables if PATH is a folder, else span"),
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

    if (n < 0)
        return cli->status;
    if (list)
        return n ? cli_usage(cli, "--list takes no TRACE") : list_formats(cli);
    if (cli->json || cli->csv)
        return cli_usage(cli, "--%s goes with --list only; the format of a file is chosen with -f",
                         cli->json ? "json" : "csv");
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    f = name ? find_format(name) : format_of_path(output);
    if (!f && name)
        return unknown_format(cli, name);
    if (!f && strcmp(output, "-") == 0)
        return cli_usage(cli, "a format is needed: -f FORMAT, or -o PATH with a known extension");
    if (!f)
        return cli_usage(cli, "'%s' does not say which format; name it with -f", output);
    if (table && strcmp(f->name, "csv") != 0)
        return cli_usage(cli, "--table goes with format csv, not %s", f->name);
    if (cli->raw && strcmp(f->name, "csv") != 0)
        return cli_usage(cli, "--raw goes with format csv, not %s", f->name);
    if (!table && strcmp(f->name, "csv") == 0 &&
        (strcmp(output, "-") == 0 || ends_with(output, ".csv")))
        table = "span"; /* one file holds one table; a folder would be a surprise */
    if (strcmp(output, "-") == 0 && isatty(STDOUT_FILENO) && !is_text(f))
        return cli_usage(cli, "%s is binary, not for a terminal: use -o PATH", f->name);
    return export_traces(cli, argv, n, f, table, output, force);
}
