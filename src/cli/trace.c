/* trace.c -- open the traces named on a command line; see cli.h. */
#include "cli/cli.h"

#include <string.h>

const char *cli_export_format(const char *path)
{
    const char *slash = strrchr(path, '/'), *dot = strrchr(path, '.');

    if (dot && (!slash || dot > slash))
        for (const opm_format *f = opm_export_formats(); f->name; f++)
            if (strcmp(f->extension, dot) == 0)
                return f->name;
    return NULL;
}

int cli_open(struct cli *cli, opm_trace **out, char **paths, int n)
{
    opm_open_options opts = OPM_OPEN_OPTIONS_INIT;
    struct progress p;
    opm_error err;
    int rc;

    progress_start(&p, cli, "reading", n ? paths[0] : "");
    p.bytes = true;
    opts.format = cli->trace_format;
    opts.progress = progress_tick;
    opts.user = &p;
    opts.meta = cli->trace_meta;
    rc = opm_trace_open(out, (const char *const *)paths, (size_t)n, &opts, &err);
    progress_end(&p);
    return rc < 0 ? cli_error("%s", err.msg) : CLI_OK;
}
