/* steps_arrivals.c -- `opmeter steps`: which rank the others wait for. */
#include "cli/steps.h"

int steps_print_arrivals(struct cli *cli, opm_trace *t)
{
    int64_t named;

    if (cli_query_int(t, "SELECT count(*) FROM stragglers") < 2)
        return CLI_OK;
    named = cli_query_int(t, "SELECT rank FROM stragglers WHERE share > 0.05"
                             " ORDER BY share DESC LIMIT 1");
    io_out_addf(&cli->out, "\nArrival of the ranks at collectives: ");
    if (named >= 0)
        io_out_addf(&cli->out, "the others wait for rank %lld.\n\n", (long long)named);
    else
        io_out_addf(&cli->out, "none keeps the others waiting.\n\n");
    return cli_print_query(
        cli, t,
        "SELECT rank, last_count AS \"came last\", collectives AS \"of\","
        " round(late_ns / 1e6, 3) AS \"others waited ms\", round(100 * share, 2) AS \"share %\","
        " round(waited_ns / 1e6, 3) AS \"waited itself ms\","
        " round(clock_ns / 1e6, 3) AS \"clock ahead ms\" FROM stragglers ORDER BY late_ns DESC");
}
