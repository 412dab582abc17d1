/* perf.c -- the system calls of counters.c, where tests put a processor of their own. */
#include "rec/rec.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not by ioctl(): C libraries do not agree how wide a request is. */
static int event_id(int fd, uint64_t *out)
{
    return (int)syscall(SYS_ioctl, fd, PERF_EVENT_IOC_ID, out);
}

bool opm__perf_open(struct perf_event *e, struct perf_event_attr *attr, int group)
{
    struct stat st;

    *e = (struct perf_event){ .fd = -1 };
    e->fd =
        opm__own_high((int)syscall(SYS_perf_event_open, attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC));
    if (e->fd < 0)
        return false;
    if (fstat(e->fd, &st) < 0 || event_id(e->fd, &e->id) < 0) {
        int why = errno;

        close(e->fd);
        errno = why;
        return false;
    }
    e->dev = st.st_dev;
    e->ino = st.st_ino;
    return true;
}

bool opm__perf_is(const struct perf_event *e)
{
    struct stat st;
    uint64_t id = 0;

    return fstat(e->fd, &st) == 0 && st.st_dev == e->dev && st.st_ino == e->ino &&
           event_id(e->fd, &id) == 0 && id == e->id;
}

bool opm__perf_read(const struct perf_event *e, void *out, size_t size)
{
    struct cancel_off cancel;
    bool ok;

    /* Beginning an operator is no point where a thread may be cancelled. */
    opm__cancel_off(&cancel);
    ok = opm__perf_is(e) && read(e->fd, out, size) == (ssize_t)size;
    opm__cancel_back(&cancel);
    return ok;
}

void opm__perf_close(struct perf_event *e)
{
    if (opm__perf_is(e))
        close(e->fd);
    e->fd = -1;
}
