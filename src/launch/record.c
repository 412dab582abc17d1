/* record.c -- start a program, pass signals on, wait for it; see record.h. */
#include "launch/record.h"

#include "base/account.h"
#include "base/buf.h"
#include "base/calm.h"
#include "base/environment.h"
#include "base/error.h"
#include "base/redact.h"
#include "launch/environ.h"
#include "launch/program.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <opmeter/opmeter.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define OWN_PART "samples.opm"
#define OWN_BUFFER_MB 4
#define EXIT_NOT_EXECUTABLE 126
#define EXIT_NOT_FOUND 127
#define BUSY_WAIT_NS 2000000000 /* for helpers that end with the program */
#define BUSY_POLL_NS 20000000

/* Signals that somebody may send to us and mean the program. */
static const int passed_on[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2 };

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* A new folder beside the output; one that a killed recording left keeps its name. */
static int make_parts(const char *output, char out[FOLDER_PATH_MAX], opm_error *err)
{
    char path[FOLDER_PATH_MAX], real[PATH_MAX];

    for (int k = 0; k < 10000; k++) {
        if (k)
            snprintf(path, sizeof(path), "%s.%d.parts", output, k);
        else
            snprintf(path, sizeof(path), "%s.parts", output);
        if (mkdir(path, 0777) == 0) {
            /* Absolute: the program may change its folder. */
            if (!realpath(path, real) || strlen(real) >= FOLDER_PATH_MAX - 32) {
                rmdir(path);
                return opm__fail(err, OPM_EINVAL, "%s: the path is too long", path);
            }
            memcpy(out, real, strlen(real) + 1);
            return 0;
        }
        if (errno != EEXIST)
            return opm__fail(err, OPM_EIO, "%s: %s", path, strerror(errno));
    }
    return opm__fail(err, OPM_EIO, "%s: no free name for a folder of parts", output);
}

static void set_number(struct environ_copy *e, const char *name, int v)
{
    char text[16];

    snprintf(text, sizeof(text), "%d", v);
    environ_copy_set(e, name, text);
}

/* Which interpreter to ask for the package: the program, if it is one. */
static const char *interpreter(char *const *argv)
{
    const char *slash = strrchr(argv[0], '/');

    return strncmp(slash ? slash + 1 : argv[0], "python", 6) == 0 ? argv[0] : "python3";
}

static void set_hooks(const struct record_options *opt, struct environ_copy *e,
                      struct record_result *out)
{
    char path[PATH_MAX];

    if (opt->python)
        out->python = record_find_python(interpreter(opt->argv), path, sizeof(path))
                          ? RECORD_HOOK_SET
                          : RECORD_HOOK_MISSING;
    if (out->python == RECORD_HOOK_SET)
        environ_copy_prepend(e, "PYTHONPATH", path);
    if (opt->cuda)
        out->cuda = environment_get("CUDA_INJECTION64_PATH") ? RECORD_HOOK_TAKEN
                    : record_find_cuda(path, sizeof(path))   ? RECORD_HOOK_SET
                                                             : RECORD_HOOK_MISSING;
    if (out->cuda == RECORD_HOOK_SET) {
        environ_copy_set(e, "CUDA_INJECTION64_PATH", path);
        if (!environment_get("NVTX_INJECTION64_PATH"))
            environ_copy_set(e, "NVTX_INJECTION64_PATH", path);
        environ_copy_set(e, "OPMETER_CUDA", "1");
    }
}

static void set_llama(const struct record_options *opt, struct environ_copy *e,
                      struct record_result *out)
{
    char path[PATH_MAX];

    /* What is preloaded is in the way of some programs: only where it may be of use. */
    if (opt->llama == RECORD_NEVER ||
        (opt->llama == RECORD_AUTO && !opt->ggml_ops && !program_uses_llama(opt->argv[0])))
        return;
    out->llama = record_find_llama(path, sizeof(path)) ? RECORD_HOOK_SET : RECORD_HOOK_MISSING;
    if (out->llama != RECORD_HOOK_SET)
        return;
    environ_copy_prepend(e, "LD_PRELOAD", path);
    environ_copy_set(e, "OPMETER_LLAMA", "1");
    if (opt->ggml_ops)
        environ_copy_set(e, "OPMETER_GGML_OPS", "1");
}

static void set_environment(const struct record_options *opt, struct environ_copy *e,
                            struct record_result *out)
{
    char path[FOLDER_PATH_MAX + 16];

    environ_copy_init(e);
    snprintf(path, sizeof(path), "%s/%%p.opm", out->parts);
    environ_copy_set(e, "OPMETER_OUTPUT", path);
    environ_copy_set(e, "OPMETER_RECORD_DIR", out->parts);
    if (opt->level >= 0)
        set_number(e, "OPMETER_LEVEL", opt->level);
    if (opt->buffer_mb)
        set_number(e, "OPMETER_BUFFER_MB", opt->buffer_mb);
    if (opt->categories)
        environ_copy_set(e, "OPMETER_CATEGORIES", opt->categories);
    if (opt->counters)
        environ_copy_set(e, "OPMETER_COUNTERS", "1");
    set_hooks(opt, e, out);
    set_llama(opt, e, out);
}

/* -- our own part -- */

static void own_part_start(const struct record_options *opt, struct record_result *out)
{
    opm_options o = OPM_OPTIONS_INIT;
    char path[FOLDER_PATH_MAX + 16];
    struct buf command = { 0 };

    snprintf(path, sizeof(path), "%s/" OWN_PART, out->parts);
    o.path = path;
    o.categories = "";
    o.buffer_mb = OWN_BUFFER_MB;
    o.level = 3;
    o.overflow = OPM_OVERFLOW_DROP;
    out->own_part = (opm_error){ 0 };
    if (opm_start(&o, &out->own_part) < 0)
        return;
    for (char *const *arg = opt->argv; *arg; arg++)
        buf_addf(&command, "%s%s", arg == opt->argv ? "" : " ", *arg);
    if (command.data)
        redact_passwords(command.data);
    opm_meta("record.command", buf_str(&command));
    buf_release(&command);
}

static void meta_number(const char *key, int64_t v)
{
    char text[24];

    snprintf(text, sizeof(text), "%lld", (long long)v);
    opm_meta(key, text);
}

static void own_part_stop(const struct record_options *opt, const struct calm *calm,
                          struct record_result *out)
{
    char hz[32];

    if (!*opm_path())
        return;
    if (out->samples.rounds) {
        snprintf(hz, sizeof(hz), "%g", opt->sample_hz);
        opm_meta("record.sample_hz", hz);
        meta_number("record.sample_rounds", (int64_t)out->samples.rounds);
        meta_number("record.sample_rounds_left_out", (int64_t)out->samples.late);
        meta_number("record.sample_cpu_ns", out->samples.cpu_ns);
    }
    meta_number("record.pid", out->pid);
    meta_number("record.exit_code", out->exit_code);
    if (out->signal)
        meta_number("record.signal", out->signal);
    meta_number("record.wall_ns", out->wall_ns);
    calm_describe(calm, opm_meta);
    opm_stop(out->own_part.code ? NULL : &out->own_part);
}

/* -- the program -- */

static int not_started(const struct record_options *opt, int why, struct record_result *out,
                       opm_error *err)
{
    out->exit_code = why == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    return opm__fail(err, why == ENOENT ? OPM_ENOTFOUND : OPM_EIO, "%s: %s", opt->argv[0],
                     strerror(why));
}

static int start(const struct record_options *opt, const sigset_t *mask, char *const *env,
                 struct record_result *out, opm_error *err)
{
    posix_spawnattr_t attr;
    int rc;

    signal(SIGPIPE, opt->ignore_sigpipe ? SIG_IGN : SIG_DFL);
    signal(SIGCHLD, SIG_DFL); /* ignored, it would keep the exit code from us */
    posix_spawnattr_init(&attr);
    posix_spawnattr_setsigmask(&attr, mask);
    posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGMASK);
    rc = posix_spawnp(&out->pid, opt->argv[0], NULL, &attr, opt->argv, env);
    posix_spawnattr_destroy(&attr);
    return rc ? not_started(opt, rc, out, err) : 0;
}

/* Until the program ends, whose status it returns; signals that wait for us meanwhile go to it. */
static int attend(struct record_result *out, const sigset_t *waited)
{
    int status = 0;

    while (waitpid(out->pid, &status, WNOHANG) == 0) {
        siginfo_t info;
        int sig = sigwaitinfo(waited, &info);

        /* What the terminal sends goes to the whole group anyway. */
        if (sig > 0 && sig != SIGCHLD && info.si_code != SI_KERNEL)
            kill(out->pid, sig);
    }
    out->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    out->exit_code = out->signal ? 128 + out->signal : WEXITSTATUS(status);
    return status;
}

/* A ^C that ended the program was not meant for what comes now. */
static void forget_signals(const sigset_t *waited)
{
    while (sigtimedwait(waited, NULL, &(struct timespec){ 0 }) > 0)
        ;
}

/* Parts that are being written: a recorder holds a lock on its file. */
static int busy_parts(const char *parts)
{
    DIR *dir = opendir(parts);
    struct dirent *e;
    int n = 0;

    while (dir) {
        e = readdir(dir);
        if (!e)
            break;
        size_t len = strlen(e->d_name);
        int fd;

        if (len < 4 || strcmp(e->d_name + len - 4, ".opm") != 0)
            continue;
        fd = openat(dirfd(dir), e->d_name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
        if (fd < 0)
            continue;
        n += flock(fd, LOCK_SH | LOCK_NB) < 0 && errno == EWOULDBLOCK;
        close(fd);
    }
    if (dir)
        closedir(dir);
    return n;
}

/* Does the process have the account mapped? One that became another program has not: it says so
 * itself if it records. */
static bool has_account(pid_t pid, const char *parts)
{
    char path[64], line[FOLDER_PATH_MAX + 256], wanted[FOLDER_PATH_MAX + 16];
    bool found = false;
    FILE *maps;

    if (kill(pid, 0) < 0 && errno == ESRCH)
        return false;
    snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
    snprintf(wanted, sizeof(wanted), "%s/" ACCOUNT_FILE, parts);
    maps = fopen(path, "re");
    if (!maps)
        return errno == EACCES || errno == EPERM; /* not ours any more, and there */
    while (!found && fgets(line, sizeof(line), maps))
        found = strstr(line, wanted) != NULL;
    fclose(maps);
    return found;
}

static struct account *account_make(const char *parts)
{
    char path[FOLDER_PATH_MAX + 16];
    void *p = MAP_FAILED;
    int fd;

    snprintf(path, sizeof(path), "%s/" ACCOUNT_FILE, parts);
    fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    if (posix_fallocate(fd, 0, sizeof(struct account)) == 0)
        p = mmap(NULL, sizeof(struct account), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return p == MAP_FAILED ? NULL : p;
}

/* Children that may record, and forks under way. */
static int account_busy(struct account *a, const char *parts)
{
    int n = (int)(atomic_load(&a->forks) - atomic_load(&a->born));

    n = n > 0 ? n : 0; /* one that failed counts, too; waiting does no harm */
    for (uint32_t i = 0; i < ACCOUNT_PIDS; i++) {
        pid_t pid = atomic_load(&a->pid[i]);

        if (pid > 0 && has_account(pid, parts))
            n++;
        else if (pid > 0)
            atomic_store(&a->pid[i], 0);
    }
    return n;
}

/* Until nobody records any more, but not for long: a daemon may do so for ever. */
static void wait_for_parts(struct record_result *out, struct account *a)
{
    int64_t until = now_ns() + BUSY_WAIT_NS;
    int children;

    for (;;) {
        children = a ? account_busy(a, out->parts) : 0;
        /* After the children: one that ends meanwhile has closed its part. */
        out->busy = busy_parts(out->parts);
        if ((!children && !out->busy) || now_ns() > until)
            break;
        nanosleep(&(struct timespec){ .tv_nsec = BUSY_POLL_NS }, NULL);
    }
    if (a) {
        children -= MAX((int)(atomic_load(&a->forks) - atomic_load(&a->born)), 0);
        out->busy = MAX(out->busy, children);
        out->failed = (int)atomic_load(&a->failed);
        snprintf(out->failed_why, sizeof(out->failed_why), "%.*s", (int)sizeof(a->reason) - 1,
                 a->reason);
        munmap(a, sizeof(*a));
    }
}

int record_program(const struct record_options *opt, struct record_result *out, opm_error *err)
{
    struct sampler *sampler = NULL;
    struct account *account;
    struct environ_copy env;
    sigset_t waited, old;
    struct calm calm;
    int64_t begin;
    int rc, missing;

    *out = (struct record_result){ .exit_code = 1 };
    rc = make_parts(opt->output, out->parts, err);
    if (rc)
        return rc;
    account = account_make(out->parts);
    set_environment(opt, &env, out);
    sigemptyset(&waited);
    sigaddset(&waited, SIGCHLD);
    for (size_t i = 0; i < ARRAY_SIZE(passed_on); i++)
        sigaddset(&waited, passed_on[i]);
    sigprocmask(SIG_BLOCK, &waited, &old);
    missing = program_missing(opt->argv[0]);
    own_part_start(opt, out);
    calm_begin(&calm);
    begin = now_ns();
    rc = env.failed ? opm__fail(err, OPM_ENOMEM, "out of memory")
                    : start(opt, &old, env.item, out, err);
    if (rc == 0 && opt->sample_hz > 0 && !out->own_part.code)
        sampler_start(&sampler, opt->sample_hz, out->pid, &out->own_part);
    if (rc == 0)
        missing = program_not_started(missing, attend(out, &waited));
    if (rc == 0 && missing)
        rc = not_started(opt, missing, out, err);
    out->wall_ns = now_ns() - begin;
    calm_end(&calm);
    sampler_stop(sampler, &out->samples);
    own_part_stop(opt, &calm, out);
    environ_copy_release(&env);
    if (rc == 0)
        wait_for_parts(out, account);
    else
        record_parts_remove(out->parts);
    forget_signals(&waited);
    sigprocmask(SIG_SETMASK, &old, NULL);
    return rc;
}
