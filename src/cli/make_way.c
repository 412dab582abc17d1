/* make_way.c -- what commands may write over: base/makeway.h, told to the user. */
#include "cli/cli.h"

#include "base/makeway.h"

static bool is_folder(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

int cli_may_write(const char *path, bool force)
{
    if (force || strcmp(path, "-") == 0)
        return CLI_OK;
    if (is_folder(path))
        return makeway_folder(path)
                   ? CLI_OK
                   : cli_error(
                         "%s: this folder holds files already; --force writes over those that "
                         "have the same name",
                         path);
    if (makeway_look(path) != MAKEWAY_FOREIGN || makeway_is_made(path))
        return CLI_OK;
    return cli_error("%s: exists and is not a trace of opmeter; --force replaces it", path);
}

int cli_may_write_names(const char *folder, const char *const *names, size_t n, bool force)
{
    char path[MAKEWAY_PATH_MAX];
    enum makeway found;

    for (size_t i = 0; i < n && !force && !makeway_folder(folder); i++) {
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        found = makeway_look(path);
        if (found == MAKEWAY_FOREIGN || found == MAKEWAY_SPECIAL)
            return cli_error("%s: exists, and %s is no result of opmeter; --force replaces it, or "
                             "-o names another folder",
                             path, folder);
    }
    return CLI_OK;
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
