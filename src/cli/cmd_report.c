/* cmd_report.c -- write the web pages about a trace to one file. */
#include "cli/cli.h"

#include "base/redact.h"
#include "server/report.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char about[] =
    "Write the pages that 'opmeter serve' shows about a trace, or several merged into one, to one "
    "HTML file that any browser opens without a server and without the internet. Of a long trace "
    "the timeline carries as much detail as some megabytes hold, and says so. FILE is replaced "
    "only when the new one is complete.";

static void say_what_was_written(struct cli *cli, const char *path)
{
    char room[HUMAN_ROOM];
    struct stat st;

    if (!cli->quiet && strcmp(path, "-") != 0 && isatty(STDOUT_FILENO) && stat(path, &st) == 0)
        cli_say(cli, "wrote %s (%s): open it in a browser\n", path,
                human_bytes(room, (uint64_t)st.st_size));
}

/* Whether the trace holds something that `--redact all` would have left out. */
static bool tells_facts(opm_trace *t)
{
    opm_rows *rows = NULL;
    bool tells = false;

    if (opm_trace_query(t, "SELECT key, value FROM meta WHERE key <> '' AND value <> ''", &rows,
                        NULL) < 0)
        return true;
    while (!tells && opm_rows_next(rows, NULL) == 1)
        tells = redact_hides("all", opm_rows_text(rows, 0, NULL)) &&
                strcmp(opm_rows_text(rows, 1, NULL), REDACT_TEXT) != 0;
    opm_rows_close(rows);
    return tells;
}

static int write_report(struct cli *cli, char **paths, int n, const char *output, bool force)
{
    struct report_options o = { .path = paths[0], .progress = progress_tick };
    struct io_out out = { 0 };
    opm_trace *t = NULL;
    struct progress p;
    opm_error err, close_err;
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
    o.user = &p;
    cli_interrupt_begin();
    rc = io_out_open(&out, output, &err);
    if (rc == 0) {
        if (tells_facts(t))
            io_out_private(&out);
        rc = report_write(&out, t, &o, &err);
        if (io_out_close(&out, rc == 0, &close_err) < 0 && rc == 0) {
            rc = close_err.code;
            err = close_err;
        }
    }
    progress_end(&p);
    cli_interrupt_end();
    opm_trace_close(t);
    if (rc < 0)
        return cli_error("%s", err.msg);
    say_what_was_written(cli, output);
    return CLI_OK;
}

int cmd_report(struct cli *cli, int argc, char **argv)
{
    const char *output = NULL;
    bool force = false;
    const struct option opts[] = {
        OPT_STR('o', "output", &output, "FILE", "write to FILE ('-': standard output)"),
        OPT_BOOL(0, "force", &force, "replace FILE, whatever it is"),
        CLI_REDACT_OPTION(cli),
        CLI_TRACE_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv);

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE is needed");
    if (!output)
        return cli_usage(cli, "a file to write is needed: -o FILE.html");
    if (strcmp(output, "-") == 0 && isatty(STDOUT_FILENO))
        return cli_usage(cli, "a web page is not for a terminal: use -o FILE.html");
    return write_report(cli, argv, n, output, force);
}
