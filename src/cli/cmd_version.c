/* cmd_version.c -- print the version. */
#include "cli/cli.h"

int cmd_version(struct cli *cli, int argc, char **argv)
{
    const struct option opts[] = {
        OPT_END,
    };
    int n = cli_parse(cli, opts, "Print the version of opmeter.", argc, argv);

    if (n < 0)
        return cli->status;
    if (n > 0)
        return cli_usage(cli, "'%s' is one argument too many", argv[0]);
    io_out_addf(&cli->out, "opmeter %s\n", opm_trace_version());
    return CLI_OK;
}
