/* ownfile.c -- see ownfile.h. */
#include "rec/ownfile.h"

#include "base/common.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* High enough that programs do not get there by counting, low enough that the kernel's table stays
 * small: it has an entry for every number below the highest. */
#define HIGH_NUMBER 960
#define HIGH_ROOM 64 /* below a lower limit of the process */
#define TAKEN_MAX 8  /* times that a program may take the number during one write */

#ifndef CLOSE_RANGE_UNSHARE
#define CLOSE_RANGE_UNSHARE (1u << 1)
#endif

bool opm__own_table(void)
{
#ifdef SYS_close_range
    /* All of them, standard files too: a pipe whose last writer is this thread never ends. */
    return syscall(SYS_close_range, 0u, ~0u, CLOSE_RANGE_UNSHARE) == 0;
#else
    return false;
#endif
}

int opm__own_high(int fd)
{
    struct rlimit limit;
    rlim_t at = HIGH_NUMBER;
    int high;

    if (fd < 0)
        return fd;
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur < HIGH_NUMBER + HIGH_ROOM)
        at = limit.rlim_cur > 2 * HIGH_ROOM ? limit.rlim_cur - HIGH_ROOM : limit.rlim_cur / 2;
    high = fcntl(fd, F_DUPFD_CLOEXEC, (int)MAX(at, 3u));
    if (high < 0)
        return fd;
    close(fd);
    return high;
}

static bool is_it(const struct ownfile *f, const struct stat *st)
{
    return st->st_dev == f->dev && st->st_ino == f->ino && S_ISREG(st->st_mode);
}

int opm__own_create(struct ownfile *f, const char *path, mode_t mode)
{
    int fd = opm__own_high(open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, mode));
    struct stat st;
    int why;

    *f = (struct ownfile){ .fd = -1, .path = path };
    if (fd < 0)
        return errno;
    if (fstat(fd, &st) < 0) {
        why = errno;
        close(fd);
        unlink(path); /* made just now, and of no use */
        return why;
    }
    flock(fd, LOCK_EX | LOCK_NB);
    f->fd = fd;
    f->dev = st.st_dev;
    f->ino = st.st_ino;
    return 0;
}

static bool is_open(const struct ownfile *f, struct stat *st)
{
    return f->fd >= 0 && fstat(f->fd, st) == 0 && is_it(f, st);
}

static int write_all(int fd, const uint8_t *p, size_t len, uint64_t at)
{
    size_t done = 0;

    while (done < len) {
        ssize_t n = pwrite(fd, p + done, len - done, (off_t)(at + done));

        if (n > 0)
            done += (size_t)n;
        else if (n == 0 || errno != EINTR)
            return n ? errno : ENOSPC;
    }
    return 0;
}

int opm__own_write(struct ownfile *f, const void *p, size_t len, uint64_t at)
{
    struct stat st;
    int why;

    /* The number may have become another file's between the look at it and the write. */
    for (int i = 0; i < TAKEN_MAX; i++) {
        why = write_all(f->fd, p, len, at);
        if (is_open(f, &st))
            return why;
        if (!opm__own_check(f, NULL))
            break;
    }
    return why ? why : EBADF;
}

/* What was opened by the path a moment ago is not the file. Where the path leads to it, the program
 * has put its own on the number since, which is left as it is; else the path leads elsewhere, and
 * the descriptor is closed if it is what is there. */
static bool taken_again(struct ownfile *f)
{
    struct stat there, here;

    if (lstat(f->path, &there) < 0)
        return false;
    if (is_it(f, &there))
        return true;
    if (fstat(f->fd, &here) == 0 && here.st_dev == there.st_dev && here.st_ino == there.st_ino)
        close(f->fd);
    return false;
}

bool opm__own_check(struct ownfile *f, uint64_t *size)
{
    struct stat st;
    bool ours = is_open(f, &st);

    if (f->fd < 0)
        return false;
    for (int i = 0; i < TAKEN_MAX && !ours; i++) {
        /* The number is not ours any more: it is left as it is. */
        f->fd = opm__own_high(open(f->path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
        ours = is_open(f, &st);
        if (f->fd < 0 || (!ours && !taken_again(f)))
            break;
        if (ours)
            flock(f->fd, LOCK_EX | LOCK_NB);
    }
    if (!ours)
        f->fd = -1;
    else if (size)
        *size = (uint64_t)st.st_size;
    return ours;
}

void opm__own_close(struct ownfile *f)
{
    struct stat st;

    if (is_open(f, &st))
        close(f->fd);
    f->fd = -1;
}

enum ownfile_place opm__own_place(const struct ownfile *f)
{
    struct stat st;

    if (!f->path || lstat(f->path, &st) < 0)
        return OWNFILE_DELETED;
    return is_it(f, &st) ? OWNFILE_HERE : OWNFILE_REPLACED;
}

void opm__own_unlink(const struct ownfile *f)
{
    if (opm__own_place(f) == OWNFILE_HERE)
        unlink(f->path);
}
