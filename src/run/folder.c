/* folder.c -- where results go; see run.h. */
#include "run/run.h"

#include "base/error.h"
#include "base/folder.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

int run_make_folder(const char *path, opm_error *err)
{
    if (strlen(path) >= FOLDER_PATH_MAX)
        return opm__fail(err, OPM_EINVAL, "%s: the path is too long", path);
    return folder_make(path, err);
}

/* A second run in the same second takes the next free numbers. */
int run_make_folders(const char *root, const char *label, char (*dir)[FOLDER_PATH_MAX], int n,
                     opm_error *err)
{
    time_t now = time(NULL);
    struct tm tm;
    char when[32];
    int made = 0, rc = run_make_folder(root, err);

    if (rc)
        return rc;
    if (!localtime_r(&now, &tm) || !strftime(when, sizeof(when), "%Y-%m-%d_%H-%M-%S", &tm))
        snprintf(when, sizeof(when), "%lld", (long long)now);
    for (int k = 0; made < n && k < 10000; k++) {
        int len = snprintf(dir[made], FOLDER_PATH_MAX, "%s/%s_%s_%d", root, label, when, k);

        if (len >= FOLDER_PATH_MAX)
            return opm__fail(err, OPM_EINVAL, "%s: the path is too long", root);
        if (mkdir(dir[made], 0777) == 0)
            made++;
        else if (errno != EEXIST)
            return opm__fail(err, OPM_EIO, "%s: %s", dir[made], strerror(errno));
    }
    return made == n ? 0 : opm__fail(err, OPM_EIO, "%s: no free name for a result", root);
}
