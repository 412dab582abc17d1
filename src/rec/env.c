/* env.c -- what the trace says about the machine and the program, and turning it into other
 * formats. */
#include "rec/rec.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

extern char **environ;

static void meta_number(struct session *s, const char *key, long long v)
{
    char text[32];

    snprintf(text, sizeof(text), "%lld", v);
    opm__define_meta(s, key, text);
}

/* The command line, arguments separated by spaces. */
static void meta_command(struct session *s)
{
    char text[4096];
    int fd = open("/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, text, sizeof(text) - 1) : 0;

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return;
    for (ssize_t i = 0; i + 1 < n; i++)
        if (!text[i])
            text[i] = ' ';
    text[n] = '\0';
    opm__define_meta(s, "program.command", text);
}

static void meta_cpu(struct session *s)
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
    opm__define_meta(s, "machine.cpu", name);
#else
    (void)s;
#endif
}

void opm__describe_machine(struct session *s)
{
    static const char *const clocks[] = { [CLOCK_SOURCE_MONOTONIC] = "CLOCK_MONOTONIC",
                                          [CLOCK_SOURCE_TSC] = "TSC",
                                          [CLOCK_SOURCE_CNTVCT] = "CNTVCT" };
    struct utsname u;

    pthread_mutex_lock(&s->lock);
    opm__define_meta(s, "opmeter.version", OPMETER_VERSION);
    meta_command(s);
    meta_number(s, "program.pid", getpid());
    opm__define_meta(s, "clock.source", clocks[opm__clock_source]);
    if (uname(&u) == 0) {
        opm__define_meta(s, "machine.host", u.nodename);
        opm__define_meta(s, "machine.kernel", u.release);
        opm__define_meta(s, "machine.arch", u.machine);
    }
    meta_cpu(s);
    meta_number(s, "machine.cores", sysconf(_SC_NPROCESSORS_ONLN));
    meta_number(s, "recorder.buffer_bytes", (long long)s->map_size);
    meta_number(s, "recorder.layers", s->layers);
    if (s->categories)
        opm__define_meta(s, "recorder.categories", s->categories);
    pthread_mutex_unlock(&s->lock);
}

/* The exporters are not linked into the program: the opmeter command does it. */
int opm__convert(const struct session *s, opm_error *err)
{
    const char *tool = getenv("OPMETER_TOOL");
    char *const argv[] = { strdup("opmeter"), strdup("export"),      strdup(s->path),
                           strdup("-o"),      strdup(s->convert_to), NULL };
    char **env = calloc(1, sizeof(*env));
    size_t nenv = 0;
    posix_spawnattr_t attr;
    sigset_t none;
    pid_t pid, done = 0;
    int rc, status = 0;

    while (environ && environ[nenv])
        nenv++;
    env = realloc(env, (nenv + 1) * sizeof(*env));
    if (env) {
        size_t n = 0;

        /* The converter must not record itself into the same file. */
        for (size_t i = 0; i < nenv; i++)
            if (strncmp(environ[i], "OPMETER_OUTPUT=", 15) != 0)
                env[n++] = environ[i];
        env[n] = NULL;
    }
    /* We are holding back all signals; the converter must not. */
    sigemptyset(&none);
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, &none);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawnp(&pid, tool && *tool ? tool : "opmeter", NULL, &attr, argv,
                      env ? env : environ);
    posix_spawnattr_destroy(&attr);
    if (rc == 0) {
        do
            done = waitpid(pid, &status, 0);
        while (done < 0 && errno == EINTR);
        /* A program that ignores SIGCHLD does not learn how it went: both files stay. */
        if (done == pid && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            unlink(s->path);
        else if (done == pid)
            rc = ECHILD;
    }
    for (size_t i = 0; argv[i]; i++)
        free(argv[i]);
    free(env);
    if (rc)
        return opm__fail(err, OPM_EIO,
                         "recorded to %s; converting it failed (%s): run 'opmeter export %s -o %s'",
                         s->path, rc == ECHILD ? "the opmeter command failed" : strerror(rc),
                         s->path, s->convert_to);
    return 0;
}
