/* perf.c -- the two system calls of counters.c, where tests put a processor of their own. */
#include "rec/rec.h"

#include <linux/perf_event.h>
#include <sys/syscall.h>
#include <unistd.h>

int opm__perf_open(struct perf_event_attr *attr, int group)
{
    return (int)syscall(SYS_perf_event_open, attr, 0, -1, group, PERF_FLAG_FD_CLOEXEC);
}

bool opm__perf_read(int fd, void *out, size_t size)
{
    return read(fd, out, size) == (ssize_t)size;
}
