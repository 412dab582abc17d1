/* make_way.c -- what commands may write over: base/makeway.h, told to the user. */
#include "cli/cli.h"

#include "base/makeway.h"

/* A page made by `report`, by the mark in ui/src/index.html. What it shows is in the trace. */
static bool is_report(const char *path)
{
    char head[256];
    FILE *f = fopen(path, "re");
    size_t n = 0;

    if (f) {
        n = fread(head, 1, sizeof(head), f);
        fclose(f);
    }
    return memmem(head, n, "<meta name=\"generator\" content=\"opmeter\">", 41) != NULL;
}

int cli_may_write(const char *path, bool force)
{
    if (force || strcmp(path, "-") == 0 || makeway_look(path) != MAKEWAY_FOREIGN || is_report(path))
        return CLI_OK;
    return cli_error("%s: exists and is not a trace of opmeter; --force replaces it", path);
}

int cli_make_way(const char *path, bool force)
{
    if (force || strcmp(path, "-") == 0 || makeway_look(path) != MAKEWAY_OURS ||
        makeway_keep_old(path))
        return CLI_OK;
    return cli_error("%s: cannot be kept as %s.old: %s; --force replaces it", path, path,
                     errno == EEXIST ? "that exists and is not a trace of opmeter"
                                     : strerror(errno));
}
