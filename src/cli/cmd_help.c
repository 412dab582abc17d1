/* cmd_help.c -- show the commands, or how to use one. */
#include "cli/cli.h"

#include <string.h>

static int list_commands(struct cli *cli)
{
    int width = 0;

    for (const struct command *c = commands; c->name; c++)
        width = MAX(width, (int)strlen(c->name));
    io_out_adds(&cli->out, "usage: opmeter [--version] [--help] [--color WHEN] [--quiet] COMMAND "
                           "[ARGUMENT]...\n\n"
                           "opmeter measures every operator of a neural network.\n\n");
    for (const struct command *c = commands; c->name; c++)
        io_out_addf(&cli->out, "  %s%-*s%s  %s\n", cli_style(cli, STYLE_BOLD), width, c->name,
                    cli_style(cli, STYLE_PLAIN), c->help);
    io_out_adds(&cli->out, "\n'opmeter help COMMAND' says how to use one, "
                           "'man opmeter-COMMAND' says more.\n");
    return CLI_OK;
}

int cmd_help(struct cli *cli, int argc, char **argv)
{
    static char ask[] = "--help";
    const struct option opts[] = {
        CLI_COMMON_OPTIONS(cli),
        OPT_END,
    };
    int n = cli_parse(cli, opts, "Show the commands of opmeter, or how to use one of them.", argc,
                      argv);
    char *ask_argv[] = { ask, NULL };
    const struct command *c;

    if (n < 0)
        return cli->status;
    if (n == 0)
        return list_commands(cli);
    if (n > 1)
        return cli_usage(cli, "'%s' is one argument too many", argv[1]);
    cli->command = NULL; /* a hint should not lead back here */
    c = command_find(cli, argv[0]);
    if (!c)
        return cli->status;
    cli->command = c;
    return c->run(cli, 1, ask_argv);
}
