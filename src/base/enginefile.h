/* enginefile.h -- the names of the files that ENGINE_PROFILING asks for, one pair per instance.
 *
 * Several processes may run at the same time: a number is taken by making the CSV, which only one
 * of them can. Header-only, because the recorder uses it inside other people's programs. */
#ifndef BASE_ENGINEFILE_H
#define BASE_ENGINEFILE_H

#include "base/environment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define ENGINEFILE_COUNTER ENVIRONMENT_ENGINE_ROOT "/.instances"
#define ENGINEFILE_STALE_S 60 /* instances of one job come within this time */

/* The number of this process: instances of one job are numbered from 0 as they come; the last of
 * INST_NUM makes room for the next job, and so does time. The folders must be there. */
static inline int enginefile_instance(void)
{
    int fd, n = 0, all = environment_instances();
    char text[16] = "";
    struct stat st;

    if (all == 1)
        return 0;
    fd = open(ENGINEFILE_COUNTER, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) < 0) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    if (fstat(fd, &st) == 0 && time(NULL) - st.st_mtime < ENGINEFILE_STALE_S &&
        pread(fd, text, sizeof(text) - 1, 0) > 0)
        n = (int)strtol(text, NULL, 10);
    if (n < 0 || n >= all)
        n = 0;
    snprintf(text, sizeof(text), "%d\n", n + 1 < all ? n + 1 : 0);
    if (ftruncate(fd, 0) < 0 || pwrite(fd, text, strlen(text), 0) < 0)
        n = 0;
    close(fd);
    return n;
}

/* Take the first number from `instance` on that is free for this time: name becomes that of both
 * files, without folder and extension, and the CSV is there, empty. False: errno says why. */
static inline bool enginefile_claim(const char *when, int instance, char *name, size_t size)
{
    char path[128];

    for (;; instance++) {
        int fd;

        snprintf(name, size, ENVIRONMENT_ENGINE_FILE, when, instance);
        snprintf(path, sizeof(path), ENVIRONMENT_ENGINE_CSV_DIR "/%s.csv", name);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (fd >= 0) {
            close(fd);
            return true;
        }
        if (errno != EEXIST || instance >= ENVIRONMENT_INSTANCES_MAX)
            return false;
    }
}

#endif
