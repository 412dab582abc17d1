/* make_way.c -- what commands may write over: base/makeway.h, told to the user. */
#include "cli/cli.h"

#include "base/makeway.h"

int cli_may_write(const char *path, bool force)
{
    if (force || strcmp(path, "-") == 0 || makeway_look(path) != MAKEWAY_FOREIGN)
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
