/* makeway.h -- what may be written over: one rule for the recorder and for every command.
 *
 * A name that is free, or an empty file, is taken. A trace of ours makes way: it becomes NAME.old,
 * with its live buffers. What a command made of a trace it may make again. Anything else is
 * somebody's, and stays unless he says that it may go.
 *
 * Header-only, because the recorder uses it inside other people's programs. */
#ifndef BASE_MAKEWAY_H
#define BASE_MAKEWAY_H

#include "base/common.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MAKEWAY_MAGIC "opmeter\n" /* how our files begin; format/format.h */
#define MAKEWAY_LIVE_MAGIC "opmlive\n"
#define MAKEWAY_PATH_MAX 4096

enum makeway {
    MAKEWAY_FREE,    /* nothing, or an empty file */
    MAKEWAY_OURS,    /* a trace, or live buffers */
    MAKEWAY_FOREIGN, /* a file with something else in it, or one that cannot be read */
    MAKEWAY_SPECIAL, /* a folder, device, pipe, ... */
};

static inline enum makeway makeway_look(const char *path)
{
    char head[8];
    struct stat st;
    int fd;
    ssize_t n;

    if (stat(path, &st) < 0)
        return MAKEWAY_FREE;
    if (!S_ISREG(st.st_mode))
        return MAKEWAY_SPECIAL;
    if (!st.st_size)
        return MAKEWAY_FREE;
    fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    if (fd < 0)
        return MAKEWAY_FOREIGN;
    n = read(fd, head, sizeof(head));
    close(fd);
    if (n == (ssize_t)sizeof(head) && (memcmp(head, MAKEWAY_MAGIC, sizeof(head)) == 0 ||
                                       memcmp(head, MAKEWAY_LIVE_MAGIC, sizeof(head)) == 0))
        return MAKEWAY_OURS;
    return MAKEWAY_FOREIGN;
}

/* Whether a file has been made from a trace, by marks that it begins with: a page of `report` (from
 * ui/src/index.html), trace events, or the summary of a profile folder of Cambricon's. */
static inline bool makeway_is_made(const char *path)
{
    static const char *const marks[] = { "<meta name=\"generator\" content=\"opmeter\">",
                                         "\"otherData\":{\"opmeter.", "{\"app_stats\":{",
                                         "{\"recording.id\":\"" };
    char head[256];
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
    ssize_t n = fd < 0 ? -1 : read(fd, head, sizeof(head));

    if (fd >= 0)
        close(fd);
    for (size_t i = 0; n > 0 && i < ARRAY_SIZE(marks); i++)
        if (memmem(head, (size_t)n, marks[i], strlen(marks[i])))
            return true;
    return false;
}

/* Whether files may be written into a folder under names of our choice: there is none, it is empty,
 * or it holds the results of a run (which have trace.json) or a profile that we wrote. */
static inline bool makeway_folder(const char *path)
{
    static const char *const files[] = { "trace.json", "summary.json" };
    char one[MAKEWAY_PATH_MAX];
    struct dirent *e;
    bool empty = true;
    DIR *d;

    for (size_t i = 0; i < ARRAY_SIZE(files); i++)
        if ((size_t)snprintf(one, sizeof(one), "%s/%s", path, files[i]) < sizeof(one) &&
            makeway_is_made(one))
            return true;
    d = opendir(path);
    if (!d)
        return errno == ENOENT;
    for (e = readdir(d); e && empty; e = readdir(d))
        empty = strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0;
    closedir(d);
    return empty;
}

/* Rename a trace, and its live buffers if it has any, to NAME.old, over an older one of ours.
 * False, errno says why: it stays where it is. */
static inline bool makeway_keep_old(const char *path)
{
    char old[MAKEWAY_PATH_MAX], live[MAKEWAY_PATH_MAX], old_live[MAKEWAY_PATH_MAX];

    if ((size_t)snprintf(old, sizeof(old), "%s.old", path) >= sizeof(old) ||
        (size_t)snprintf(live, sizeof(live), "%s-live", path) >= sizeof(live) ||
        (size_t)snprintf(old_live, sizeof(old_live), "%s.old-live", path) >= sizeof(old_live)) {
        errno = ENAMETOOLONG;
        return false;
    }
    if (makeway_look(old) > MAKEWAY_OURS || makeway_look(old_live) > MAKEWAY_OURS) {
        errno = EEXIST;
        return false;
    }
    unlink(old_live); /* it belongs to the one that goes */
    if (rename(path, old) < 0)
        return false;
    if (makeway_look(live) == MAKEWAY_OURS)
        rename(live, old_live);
    return true;
}

#endif
