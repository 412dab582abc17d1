/* left_out.c -- what a minimal build has in place of the recorder and the engines: commands that
 * say that they are not there. tools/minimal.cmake names the files that this one stands for. */
#include "cli/cli.h"

#include "cli/whatif.h"
#include "run/run.h"

static int left_out(const char *name)
{
    return cli_error("%s needs the recorder and the engines, which this build has not: it is for "
                     "reading traces, on systems that are not Linux (docs/platforms.md)",
                     name);
}

/* clang-format off */
#define LEFT_OUT(X) X(run) X(record) X(zoo) X(bench) X(doctor)
#define X(name)                                         \
    int cmd_##name(struct cli *cli, int argc, char **argv) \
    {                                                   \
        (void)cli; (void)argc; (void)argv;              \
        return left_out("opmeter " #name);              \
    }
/* clang-format on */
LEFT_OUT(X)
#undef X

int whatif_measure(struct whatif *w, opm_trace *t, int threads, bool again)
{
    (void)w;
    (void)t;
    (void)threads;
    (void)again;
    return left_out("opmeter whatif --measure");
}

/* Nothing is known of this machine. */
void run_peak(int threads, struct peak *out)
{
    (void)threads;
    *out = (struct peak){ 0 };
}

bool run_zoo_entry(size_t i, struct run_zoo_entry *out)
{
    (void)i;
    (void)out;
    return false;
}
