/* steps_arrivals.c -- `opmeter steps`: which rank the others wait for. */
#include "cli/steps.h"
#include "cli/table.h"

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
    return table_print(cli, t,
                       "SELECT rank, last_count AS came_last, collectives AS \"of\", late_ns AS"
                       " others_waited_ns, share, waited_ns AS waited_itself_ns, clock_ns AS"
                       " clock_ahead_ns FROM stragglers ORDER BY late_ns DESC",
                       0, NULL);
}
