/* folder.c -- see folder.h. */
#include "base/folder.h"

#include "base/alloc.h"
#include "base/environment.h"
#include "base/error.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int folder_make(const char *path, opm_error *err)
{
    char *part = mem_strdup(path);
    int failed = 0;
    struct stat st;

    if (!part)
        return opm__fail(err, OPM_ENOMEM, "%s: out of memory", path);
    for (char *p = part + 1; *part && *p; p++) {
        if (*p != '/')
            continue;
        *p = '\0';
        mkdir(part, 0777); /* if that fails, so does the next one */
        *p = '/';
    }
    if (mkdir(path, 0777) < 0 && errno != EEXIST)
        failed = errno;
    else if (stat(path, &st) < 0)
        failed = errno;
    else if (!S_ISDIR(st.st_mode))
        failed = ENOTDIR;
    mem_free(part);
    return failed ? opm__fail(err, OPM_EIO, "%s: %s", path, strerror(failed)) : 0;
}

bool folder_cache_path(char *out, size_t size, const char *name)
{
    const char *own = environment_get("OPMETER_CACHE"), *xdg = environment_get("XDG_CACHE_HOME"),
               *home = environment_get("HOME");
    int n = -1;

    if (own)
        n = snprintf(out, size, "%s/%s", own, name);
    else if (xdg && *xdg == '/')
        n = snprintf(out, size, "%s/opmeter/%s", xdg, name);
    else if (home)
        n = snprintf(out, size, "%s/.cache/opmeter/%s", home, name);
    return n >= 0 && (size_t)n < size;
}

void folder_cpu_name(char *out, size_t size)
{
    FILE *f = fopen("/proc/cpuinfo", "re");
    char line[512], maker[16] = "";

    snprintf(out, size, "unknown");
    while (f && fgets(line, sizeof(line), f)) {
        char *colon = strchr(line, ':');

        if (!colon)
            continue;
        colon += strspn(colon, ": \t");
        colon[strcspn(colon, "\n")] = '\0';
        if (strncmp(line, "model name", 10) == 0) {
            snprintf(out, size, "%s", colon);
            break;
        }
        /* Kernels of ARM say numbers instead, the maker's first. */
        if (strncmp(line, "CPU implementer", 15) == 0)
            snprintf(maker, sizeof(maker), "%.15s", colon);
        if (strncmp(line, "CPU part", 8) == 0) {
            snprintf(out, size, "ARM, implementer %s, part %s", maker, colon);
            break;
        }
    }
    if (f)
        fclose(f);
}
