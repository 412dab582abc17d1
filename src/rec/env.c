/* env.c -- what the trace says about the machine and the program. */
#include "rec/rec.h"

#include "base/environment.h"
#include "base/redact.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static void meta_number(struct recorder *r, const char *key, long long v)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", v);
    opm__define_meta(r, key, text);
}

/* The command line, arguments separated by spaces, without passwords. */
static void meta_command(struct recorder *r)
{
    char text[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0)
        close(fd);
    if (n == (ssize_t)sizeof(text) - 1) /* half an argument may be half a password */
        while (n && text[n - 1])
            n--;
    if (n <= 0)
        return;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!text[i])
            text[i] = ' '; /* bounded: in place of what was read */
    text[n] = '\0';
    redact_passwords(text);
    opm__define_meta(r, "program.command", text);
}

/* What tells this process apart from all others since the machine was started: its number, the
 * namespace that this counts in, and when it started (field 22 of its stat, behind a name that may
 * hold anything). Another recorder in the same process says the same. The stat of its first thread
 * is the same, but an emulator makes up that of the process, anew after each exec. */
static void meta_process(struct recorder *r)
{
    char text[1024], space[64] = "", path[64], identity[128], *field;
    ssize_t n, len = readlink("/proc/self/ns/pid", space, sizeof(space) - 1);
    int fd;

    snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)getpid());
    fd = open(path, O_RDONLY | O_CLOEXEC);
    n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;
    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    field = strrchr(text, ')');
    for (int i = 2; i < 22 && field; i++)
        field = strchr(field + 1, ' ');
    if (!field || len <= 0)
        return;
    snprintf(identity, sizeof(identity), "%s/%d/%.*s", space, (int)getpid(),
             (int)strcspn(field + 1, " "), field + 1);
    opm__define_meta(r, "program.process", identity);
}

static void meta_cpu(struct recorder *r)
{
#if defined(__x86_64__)
    unsigned regs[13] = { 0 };
    const char *name = (const char *)regs;

    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002 + i, &regs[4 * i], &regs[4 * i + 1], &regs[4 * i + 2],
                         &regs[4 * i + 3]))
            return;
    while (*name == ' ')
        name++;
    opm__define_meta(r, "machine.cpu", name);
#else
    (void)r;
#endif
}

mode_t opm__file_mode(const struct recorder *r)
{
    return redact_hides_all(r->redact) && !environment_privileged() ? 0666 : 0600;
}

void opm__describe_machine(struct recorder *r)
{
    static const char *const clocks[] = { [CLOCK_SOURCE_MONOTONIC] = "CLOCK_MONOTONIC",
                                          [CLOCK_SOURCE_TSC] = "TSC",
                                          [CLOCK_SOURCE_CNTVCT] = "CNTVCT" };
    struct utsname u;

    pthread_mutex_lock(&r->lock);
    opm__define_meta(r, "opmeter.version", OPMETER_VERSION);
    meta_command(r);
    meta_number(r, "program.pid", getpid());
    meta_process(r);
    opm__define_meta(r, "clock.source", clocks[opm__clock_source]);
    if (uname(&u) == 0) {
        opm__define_meta(r, "machine.host", u.nodename);
        opm__define_meta(r, "machine.kernel", u.release);
        opm__define_meta(r, "machine.arch", u.machine);
    }
    if (environment_rank() >= 0)
        meta_number(r, "program.rank", environment_rank());
    if (environment_ranks() > 0)
        meta_number(r, "program.ranks", environment_ranks());
    meta_cpu(r);
    meta_number(r, "machine.cores", sysconf(_SC_NPROCESSORS_ONLN));
    meta_number(r, "recorder.buffer_bytes", (long long)r->map_size);
    meta_number(r, "recorder.layers", r->layers);
    if (r->categories)
        opm__define_meta(r, "recorder.categories", r->categories);
    if (environment_fp_point())
        opm__define_meta(r, "step.fp_point", environment_fp_point());
    if (environment_bp_point())
        opm__define_meta(r, "step.bp_point", environment_bp_point());
    pthread_mutex_unlock(&r->lock);
}
