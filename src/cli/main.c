/* main.c -- the driver: find the command, run it, make sure that what it printed arrived. */
#include "cli/cli.h"

#include "base/content.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The recorder that is linked in: recording is for `opmeter run` to start. */
extern const char opm__manual;
const char opm__manual = 1;

/* To add a command:
 *   1. write cmd_x.c, starting from a short one such as cmd_schema.c, and declare it in cli.h;
 *   2. add a line here: its place is its place in `opmeter help`;
 *   3. write docs/man/opmeter-x.1 (tools/check_man.py compares it with `opmeter x --help`);
 *   4. add a test of what it prints under tests/diff/.
 * A new option needs 3 and 4 alone. */
/* clang-format off */
const struct command commands[] = {
    { "run", cmd_run, "run a model and measure every operator",
      "opmeter run [OPTION]... MODEL" },
    { "record", cmd_record, "run any program with recording on",
      "opmeter record [OPTION]... [--] COMMAND [ARG]..." },
    { "zoo", cmd_zoo, "list standard models, or write one as an ONNX file",
      "opmeter zoo [OPTION]... [-o FILE] [NAME]" },
    { "import", cmd_import, "convert what other profilers wrote, once, into an .opm file",
      "opmeter import [OPTION]... -o FILE.opm SRC...\n"
      "opmeter import --list" },
    { "info", cmd_info, "say what is in a trace and what was lost on the way",
      "opmeter info [OPTION]... TRACE..." },
    { "top", cmd_top, "rank operators by time, work and speed",
      "opmeter top [OPTION]... TRACE..." },
    { "summary", cmd_summary, "latency, largest losses, devices and memory on one page",
      "opmeter summary [OPTION]... TRACE..." },
    { "steps", cmd_steps, "show which part of a step is slow",
      "opmeter steps [OPTION]... TRACE..." },
    { "pipeline", cmd_pipeline, "say whether data arrives in time, and what holds it up",
      "opmeter pipeline [OPTION]... TRACE..." },
    { "llm", cmd_llm, "show requests, iterations and tokens of a language model",
      "opmeter llm [OPTION]... TRACE..." },
    { "advise", cmd_advise, "say what could be faster, with the evidence",
      "opmeter advise [OPTION]... TRACE...\n"
      "opmeter advise --rules" },
    { "whatif", cmd_whatif, "project the latency with sparse weights or faster operators",
      "opmeter whatif [OPTION]... TRACE..." },
    { "bench", cmd_bench, "say which of several is faster, with certainty",
      "opmeter bench [OPTION]... A B [C]..." },
    { "diff", cmd_diff, "compare two profiles; fail where one is slower than it may be",
      "opmeter diff [OPTION]... A B\n"
      "opmeter diff [OPTION]... A... -- B..." },
    { "add", cmd_add, "keep runs in a catalogue, with commit, machine and operators",
      "opmeter add [OPTION]... --to URL RUN..." },
    { "history", cmd_history, "show runs over time, where they changed and what changed",
      "opmeter history [OPTION]... URL\n"
      "opmeter history prune [OPTION]... URL\n"
      "opmeter history export [OPTION]... -o PATH URL" },
    { "job", cmd_job, "show the ranks of a job: who is late, and what it costs",
      "opmeter job [OPTION]... URL [ID]" },
    { "query", cmd_query, "run SQL over everything in a trace",
      "opmeter query [OPTION]... TRACE... SQL\n"
      "opmeter query [OPTION]... -f FILE TRACE..." },
    { "schema", cmd_schema, "list the tables and columns that a query can use",
      "opmeter schema [OPTION]... [TABLE]" },
    { "export", cmd_export, "write a trace in the format of another tool",
      "opmeter export [OPTION]... [-f FORMAT] [-o PATH] TRACE...\n"
      "opmeter export --list" },
    { "report", cmd_report, "write the web pages about a trace to one file",
      "opmeter report [OPTION]... -o FILE.html TRACE..." },
    { "serve", cmd_serve, "show traces as web pages, on this machine",
      "opmeter serve [OPTION]... TRACE|DIR|URL..." },
    { "doctor", cmd_doctor, "say what this machine can measure, and why not more",
      "opmeter doctor [OPTION]..." },
    { "completion", cmd_completion, "print what a shell needs to complete command lines",
      "opmeter completion [OPTION]... SHELL" },
    { "help", cmd_help, "show the commands, or how to use one",
      "opmeter help [OPTION]... [COMMAND|TOPIC]" },
    { "version", cmd_version, "print the version",
      "opmeter version [OPTION]..." },
    { NULL, NULL, NULL, NULL },
};
/* clang-format on */

static const struct command *find(const char *name)
{
    for (const struct command *c = commands; c->name; c++)
        if (strcmp(c->name, name) == 0)
            return c;
    return NULL;
}

const struct command *command_find(struct cli *cli, const char *name)
{
    const struct command *found = find(name);
    struct nearest n = { name, NULL, 0 };

    if (found)
        return found;
    for (const struct command *c = commands; c->name; c++)
        nearest_try(&n, c->name);
    if (n.best)
        cli->status = cli_usage(cli, "no such command '%s'; did you mean '%s'?", name, n.best);
    else
        cli->status = cli_usage(cli, "no such command '%s'", name);
    return NULL;
}

/* A process may be started with 0, 1 or 2 closed; a file opened later would then become, say,
 * standard output. Take the free numbers in the wrong direction, so that using one still fails. */
static void keep_standard_fds(void)
{
    static const int wrong_mode[] = { O_WRONLY, O_RDONLY, O_RDONLY };

    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF && open("/dev/null", wrong_mode[fd]) != fd)
            _exit(CLI_FAILURE);
}

/* `opmeter query ... | head` ends quietly, even below a parent that ignores SIGPIPE. */
static void restore_sigpipe(struct cli *cli)
{
    sigset_t set;

    cli->sigpipe_ignored = signal(SIGPIPE, SIG_DFL) == SIG_IGN;
    sigemptyset(&set);
    sigaddset(&set, SIGPIPE);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static int run_named(struct cli *cli, const char *name, int argc, char **argv)
{
    const struct command *c = command_find(cli, name);

    if (!c)
        return cli->status;
    cli->command = c;
    return c->run(cli, argc, argv);
}

/* What a command takes that opmeter was given instead of one: a model is run, all else is summed
 * up. NULL: it is no such thing. */
static const char *guess(const char *word)
{
    size_t len = strlen(word);
    uint8_t head[CONTENT_HEAD];
    enum content_kind kind = CONTENT_UNKNOWN;
    struct stat st;

    if (strncmp(word, "zoo:", 4) == 0)
        return "run";
    if (strcmp(word, "-") == 0)
        return "summary";
    if (stat(word, &st) < 0)
        return NULL;
    if (len > 5 && strcmp(word + len - 5, ".onnx") == 0)
        return "run";
    /* What is read of a pipe is gone. */
    if (S_ISREG(st.st_mode) && io_head(word, head, sizeof(head), &len, NULL) == 0)
        kind = content_of(head, len).kind;
    return kind == CONTENT_MODEL || kind == CONTENT_ONNX ? "run" : "summary";
}

/* Who asks for nothing gets what to try first. */
static int welcome(struct cli *cli)
{
    struct buf names = { 0 }, text = { 0 };
    int rc;

    for (const struct command *c = commands; c->name; c++)
        buf_addf(&names, "%s%s", c == commands ? "Commands: " : ", ", c->name);
    text_wrap(&text, buf_str(&names), 0, 2, 80);
    rc = names.failed || text.failed ? cli_out_of_memory() : CLI_OK;
    io_out_addf(&cli->out,
                "opmeter measures every operator of a neural network: how fast it is, where the\n"
                "time goes, why, and what would make it faster. Try first:\n\n"
                "  opmeter run zoo:resnet50         run and measure a model, or your model.onnx\n"
                "  opmeter record python train.py   record a program as it is\n"
                "  opmeter FILE                     sum up what a profiler wrote, or run a model\n"
                "\n%s.\n'opmeter help' says what they do, 'opmeter help COMMAND' how to use one,\n"
                "'opmeter help topics' what else there is to know.\n",
                buf_str(&text));
    buf_release(&names);
    buf_release(&text);
    return rc;
}

static int no_such_file(struct cli *cli, const char *word)
{
    struct buf near = { 0 };
    int rc = cli_usage(cli, "no such file or command '%s'%s", word, cli_near_file(word, &near));

    buf_release(&near);
    return rc;
}

/* clang-format off */
#define GLOBAL_OPTIONS(cli, version)                           \
    OPT_BOOL(0, "version", (version), "print the version"),    \
    CLI_COMMON_OPTIONS(cli),                                   \
    OPT_END
/* clang-format on */

void cli_global_options(struct cli *cli, void (*see)(void *user, const struct option *opts),
                        void *user)
{
    bool version = false;
    const struct option opts[] = { GLOBAL_OPTIONS(cli, &version) };

    see(user, opts);
}

static int run(struct cli *cli, int argc, char **argv)
{
    bool version = false;
    const struct option opts[] = { GLOBAL_OPTIONS(cli, &version) };
    opm_error err;
    int n, rc = options_parse(opts, OPTIONS_STOP_AT_ARGUMENT, argc, argv, &n, &err);
    const char *guessed;

    if (rc < 0)
        return cli_usage(cli, "%s", err.msg);
    if (rc == 0 && version)
        return run_named(cli, "version", 0, argv);
    if (rc == OPTIONS_HELP)
        return run_named(cli, "help", 0, argv);
    if (n == 0)
        return welcome(cli);
    guessed = find(argv[0]) ? NULL : guess(argv[0]);
    if (guessed)
        return run_named(cli, guessed, n, argv);
    if (strpbrk(argv[0], "./") && !find(argv[0]))
        return no_such_file(cli, argv[0]);
    return run_named(cli, argv[0], n - 1, argv + 1);
}

int main(int argc, char **argv)
{
    struct cli cli = { .color = "auto" };
    opm_error err;
    int rc;

    keep_standard_fds();
    restore_sigpipe(&cli);
    if (io_out_open_fd(&cli.out, STDOUT_FILENO, "standard output", &err) < 0)
        return cli_error("%s", err.msg);
    rc = run(&cli, argc > 0 ? argc - 1 : 0, argv + 1);
    if (io_out_close(&cli.out, true, &err) < 0 && rc == CLI_OK)
        rc = cli_error("%s", err.msg);
    option_list_release(&cli.captures);
    return rc;
}
