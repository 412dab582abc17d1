/* perf_refusal.h -- why the kernel does not let us count, in words.
 *
 * Header-only, because the recorder uses it inside other people's programs. */
#ifndef BASE_PERF_REFUSAL_H
#define BASE_PERF_REFUSAL_H

#include "base/common.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* kernel.perf_event_paranoid: up to this, a program may count what itself does in user mode. */
#define PERF_PARANOID_OWN 2

/* INT32_MAX: the kernel does not say. */
static inline int perf_paranoid(void)
{
    char text[16] = "";
    int fd = open("/proc/sys/kernel/perf_event_paranoid", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0)
        close(fd);
    return n > 0 ? (int)strtol(text, NULL, 10) : INT32_MAX;
}

/* strerrorname_np() of those that are named below; older C libraries and others have none. */
static inline const char *perf_errno_name(int err_no)
{
    switch (err_no) {
    case ENOENT:
        return "ENOENT";
    case EOPNOTSUPP:
        return "EOPNOTSUPP";
    case ENODEV:
        return "ENODEV";
    case EACCES:
        return "EACCES";
    default:
        return "EPERM";
    }
}

/* What an errno of perf_event_open means. */
static inline void perf_refusal(int err_no, char *out, size_t size)
{
    const char *name = perf_errno_name(err_no);
    int paranoid = perf_paranoid();

    switch (err_no) {
    case ENOENT:
    case EOPNOTSUPP:
    case ENODEV:
        snprintf(
            out, size,
            "perf_event_open gives %s: the processor shows no PMU, as in most virtual machines",
            name);
        break;
    case EACCES:
    case EPERM:
        if (paranoid == INT32_MAX)
            snprintf(out, size, "perf_event_open gives %s: not permitted", name);
        else if (paranoid > PERF_PARANOID_OWN)
            snprintf(out, size,
                     "perf_event_open gives %s: not permitted; kernel.perf_event_paranoid is %d",
                     name, paranoid);
        else
            snprintf(out, size,
                     "perf_event_open gives %s: kernel.perf_event_paranoid is %d, which would "
                     "allow it, but a sandbox (seccomp) does not",
                     name, paranoid);
        break;
    case ENOSYS:
        snprintf(out, size,
                 "perf_event_open gives ENOSYS: the kernel lacks it or a sandbox hides it");
        break;
    default:
        snprintf(out, size, "perf_event_open: %s", strerror(err_no));
        break;
    }
}

#endif
