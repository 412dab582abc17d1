/* cmd_serve.c -- show traces as web pages. */
#include "cli/cli.h"

#include "base/system.h"
#include "server/folder_walk.h"
#include "server/server.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define PORT_DEFAULT 8080

static const char about[] =
    "Show traces as web pages, until Ctrl-C. Each TRACE is a file or a folder that is one profile; "
    "any other folder is searched for traces, and the first page lists them. A database of jobs "
    "('opmeter add --job') is a page for each job. Nothing is loaded "
    "from the internet, and only programs on this machine can connect unless --host says "
    "otherwise.";

extern char **environ;

/* Start the browser and don't wait for it. */
static void open_browser(const char *url)
{
    char program[] = "xdg-open", address[300];
    char *const argv[] = { program, address, NULL };
    posix_spawn_file_actions_t actions;
    pid_t pid;
    int rc;

    snprintf(address, sizeof(address), "%s", url);
    posix_spawn_file_actions_init(&actions);
    for (int fd = 0; fd < 3; fd++)
        posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
    rc = posix_spawnp(&pid, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (rc)
        cli_error("no browser was opened: %s: %s", program, strerror(rc));
}

/* A file that somebody cuts short while it is being read would end the process. With zeros in place
 * of what is gone it is a damaged file, like others. */
static void on_bus_error(int sig, siginfo_t *info, void *context)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    uintptr_t at = (uintptr_t)info->si_addr & ~(page - 1);
    int saved = errno;

    (void)context;
    if (info->si_code != BUS_ADRERR || !system_zeros_at((void *)at, page))
        signal(sig, SIG_DFL); /* and it happens again */
    errno = saved;
}

static void survive_cut_files(void)
{
    struct sigaction sa = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };

    sigemptyset(&sa.sa_mask);
    sigaction(SIGBUS, &sa, NULL);
}

/* The signals that end it are taken by this thread, when it waits for them. */
static void hold_signals(sigset_t *ends)
{
    sigemptyset(ends);
    sigaddset(ends, SIGINT);
    sigaddset(ends, SIGTERM);
    sigaddset(ends, SIGHUP);
    sigprocmask(SIG_BLOCK, ends, NULL);
    signal(SIGPIPE, SIG_IGN); /* clients go away */
    signal(SIGCHLD, SIG_IGN);
}

int cmd_serve(struct cli *cli, int argc, char **argv)
{
    const char *host = NULL;
    int64_t port = PORT_DEFAULT;
    bool browser = false;
    const struct option opts[] = {
        OPT_INT('p', "port", &port, "N", 0, 65535,
                "listen on this port instead of 8080 (0: any that is free)"),
        OPT_STR(0, "host", &host, "ADDRESS",
                "listen on this address instead of 127.0.0.1; others can then see the traces"),
        OPT_BOOL(0, "open", &browser, "open the page in a browser"),
        CLI_LIMIT_OPTIONS(cli),
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, about, argc, argv), sig;
    struct server_options o = { .port = (int)port };
    struct server *s;
    sigset_t ends;
    opm_error err;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return cli_usage(cli, "a TRACE or a folder is needed");
    for (int i = 0; i < n; i++)
        if (strcmp(argv[i], "-") == 0)
            return cli_usage(cli, "standard input can be read only once, and pages read a trace "
                                  "when they are opened: 'opmeter import - -o FILE.opm' first");
    o.paths = (const char *const *)argv;
    o.npaths = (size_t)n;
    o.host = host;
    o.port = (int)port;
    o.max_unpacked = cli->max_unpacked;
    o.max_memory = cli->max_memory;
    o.max_seconds = (uint64_t)cli->max_seconds;
    o.captures = cli->captures.item;
    o.ncaptures = cli->captures.n;
    hold_signals(&ends);
    survive_cut_files();
    if (server_start(&s, &o, &err) < 0)
        return cli_error("%s", err.msg);
    if (!server_is_local(s))
        cli_error("warning: anyone who can reach this machine can see the traces, without a "
                  "password");
    if (server_is_cut(s))
        cli_error(
            "warning: there are too many files: the first %d of a folder are looked at, traces "
            "among the others are not listed; name them, or folders with fewer",
            FOLDER_ENTRIES_MAX);
    io_out_addf(&cli->out, "%s\n", server_url(s));
    io_out_flush(&cli->out);
    if (!cli->quiet && isatty(STDERR_FILENO))
        fputs("serving until Ctrl-C\n", stderr);
    if (browser)
        open_browser(server_url(s));
    while (sigwait(&ends, &sig) != 0)
        ;
    server_stop(s);
    return CLI_OK;
}
