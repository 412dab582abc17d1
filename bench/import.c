/* import.c -- how fast a large JSON trace opens, and what it takes.
 *
 *   bench_import [-s MB] [-f FILE] [-k] [-g] [-n] [TRACE.json[.gz]]
 *
 * Builds a file of -s megabytes (default 1000) out of TRACE (default: the Kineto capture in
 * ../shared) by repeating its events with their times and ids moved on, in -f FILE (default in
 * $TMPDIR, removed afterwards; -k keeps it, and one that is there already is used as it is), -g
 * packs it with gzip -1. Then reads it in turns with read(), with opmeter on one core and on all,
 * and, without -n, once with CPython's json. Every reader runs in a process of its own; memory is
 * the peak of what is not a file mapping. */
#include "import/import.h"
#include "base/buf.h"
#include "base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define ROUNDS 3

static const char default_trace[] =
    "../shared/fixtures/captured/kineto/kineto_bertmini_h200.json.gz";

struct figures {
    double seconds;
    double cpu;       /* seconds that all threads together computed, system included */
    double finishing; /* of them, in store_finish() */
    uint64_t spans;
    uint64_t peak_kb;
    int failed;
};

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static double cpu_now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_import: %s: %s\n", what, why);
    exit(1);
}

/* Numbers that must differ from copy to copy. */
static const char *const moved[] = { "\"ts\": ", "\"id\": ", "\"correlation\": ",
                                     "\"External id\": ", "\"Ev Idx\": " };
#define MOVED (sizeof(moved) / sizeof(moved[0]))

static void put_copy(struct io_out *out, const char *p, const char *end, uint64_t copy,
                     const uint64_t step[MOVED])
{
    const char *from = p;

    for (;;) {
        p = memchr(p, '"', (size_t)(end - p));
        if (!p)
            break;
        size_t i;

        for (i = 0; i < MOVED; i++)
            if ((size_t)(end - p) > strlen(moved[i]) && memcmp(p, moved[i], strlen(moved[i])) == 0)
                break;
        if (i == MOVED) {
            p++;
            continue;
        }
        p += strlen(moved[i]);
        if (*p >= '0' && *p <= '9') {
            char *rest;
            uint64_t v = strtoull(p, &rest, 10);

            io_out_add(out, from, (size_t)(p - from));
            io_out_addf(out, "%llu", (unsigned long long)(v + copy * step[i]));
            from = p = rest;
        }
    }
    io_out_add(out, from, (size_t)(end - from));
}

/* How far a number goes from its least to its greatest value. */
static uint64_t range_of_key(const char *p, const char *end, const char *key)
{
    uint64_t first = UINT64_MAX, last = 0;

    for (;;) {
        p = memmem(p, (size_t)(end - p), key, strlen(key));
        if (!p)
            break;
        uint64_t v;

        p += strlen(key);
        v = strtoull(p, NULL, 10);
        first = v < first ? v : first;
        last = v > last ? v : last;
    }
    return last >= first ? last - first + 1 : 1;
}

static void build(const char *trace, const char *path, uint64_t bytes)
{
    struct io_map m = { 0 };
    struct io_out out = { 0 };
    opm_error err;
    const char *p, *end, *list, *close;
    uint64_t step[MOVED];

    if (io_map(&m, trace, 0, &err) < 0)
        die("cannot read the trace to repeat", err.msg);
    if (io_out_open(&out, path, &err) < 0)
        die("cannot write", err.msg);
    p = (const char *)m.data;
    end = p + m.len;
    list = memmem(p, m.len, "\"traceEvents\": [", 16);
    close = memrchr(p, ']', m.len);
    if (!list || !close)
        die(trace, "no list of events");
    list += 16;
    for (size_t i = 0; i < MOVED; i++)
        step[i] = range_of_key(list, close, moved[i]);
    step[0] += 1000000; /* the last event, and a pause */
    io_out_add(&out, p, (size_t)(list - p));
    for (uint64_t copy = 0; out.total < bytes; copy++) {
        if (copy)
            io_out_add(&out, ",", 1);
        put_copy(&out, list, close, copy, step);
    }
    io_out_add(&out, close, (size_t)(end - close));
    if (io_out_close(&out, true, &err) < 0)
        die("cannot write", err.msg);
    io_map_release(&m);
}

/* Anonymous memory of this process, in kB. */
static uint64_t anonymous_kb(void)
{
    char text[4096];
    const char *at;
    int fd = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    text[n > 0 ? n : 0] = '\0';
    at = strstr(text, "RssAnon:");
    return at ? strtoull(at + 8, NULL, 10) : 0;
}

static atomic_bool watching;
static atomic_ullong peak_kb;

static void *watch(void *arg)
{
    (void)arg;
    while (atomic_load(&watching)) {
        uint64_t kb = anonymous_kb();

        if (kb > atomic_load(&peak_kb))
            atomic_store(&peak_kb, kb);
        usleep(2000);
    }
    return NULL;
}

static void use_one_core(void)
{
    cpu_set_t set;

    CPU_ZERO(&set);
    CPU_SET(sched_getcpu() < 0 ? 0 : (unsigned)sched_getcpu(), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static int import_file_once(const char *path, bool one_core, struct figures *f)
{
    struct store *st;
    opm_error err;
    pthread_t watcher;
    double start, cpu, finish = 0;
    uint64_t before;
    int rc;

    atomic_store(&watching, true);
    before = anonymous_kb();
    pthread_create(&watcher, NULL, watch, NULL);
    if (one_core)
        use_one_core();
    start = now();
    cpu = cpu_now();
    if (store_new(&st))
        return 1;
    rc = import_all(st, &path, 1, &(struct import_options){ 0 }, &err);
    finish = cpu_now();
    if (rc < 0 || store_finish(st)) {
        fprintf(stderr, "bench_import: %s\n", err.msg);
        return 1;
    }
    f->seconds = now() - start;
    f->cpu = cpu_now() - cpu;
    f->finishing = cpu_now() - finish;
    atomic_store(&watching, false);
    pthread_join(watcher, NULL);
    f->spans = store_nrow(st, TABLE_span);
    f->peak_kb = atomic_load(&peak_kb) - before;
    store_free(st);
    return 0;
}

static int read_once(const char *path, struct figures *f)
{
    static char block[64 << 10];
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    double start = now();

    if (fd < 0)
        return 1;
    while (read(fd, block, sizeof(block)) > 0)
        ;
    f->seconds = now() - start;
    close(fd);
    return 0;
}

static int python_once(const char *path, struct figures *f)
{
    static const char script[] =
        "import sys,json,gzip,time,resource\n"
        "o=gzip.open if sys.argv[1].endswith('.gz') else open\n"
        "t=time.time();d=json.load(o(sys.argv[1],'rb'));t=time.time()-t\n"
        "print(t,len(d['traceEvents']),resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n";
    int fds[2], status = 1;
    char text[256] = "";
    double events = 0, kb = 0;
    pid_t pid;

    if (pipe(fds) < 0)
        return 1;
    pid = fork();
    if (pid == 0) {
        dup2(fds[1], 1);
        execlp("python3", "python3", "-c", script, path, (char *)NULL);
        _exit(127);
    }
    close(fds[1]);
    if (read(fds[0], text, sizeof(text) - 1) <= 0)
        text[0] = '\0';
    close(fds[0]);
    waitpid(pid, &status, 0);
    if (status || sscanf(text, "%lf %lf %lf", &f->seconds, &events, &kb) != 3)
        return 1;
    f->spans = (uint64_t)events;
    f->peak_kb = (uint64_t)kb;
    return 0;
}

enum reader { READ, ONE_CORE, ALL_CORES, PYTHON, READERS };
static const char *const names[] = { "read()", "opmeter, 1 core", "opmeter, all cores",
                                     "CPython json" };

/* One reader in a process of its own. */
static struct figures measure(enum reader r, const char *path)
{
    struct figures f = { .failed = 1 };
    int fds[2], status;
    pid_t pid;

    if (pipe(fds) < 0)
        return f;
    fflush(stdout);
    pid = fork();
    if (pid == 0) {
        f = (struct figures){ 0 };
        f.failed = r == READ     ? read_once(path, &f)
                   : r == PYTHON ? python_once(path, &f)
                                 : import_file_once(path, r == ONE_CORE, &f);
        if (write(fds[1], &f, sizeof(f)) != sizeof(f))
            _exit(1);
        _exit(0);
    }
    close(fds[1]);
    if (read(fds[0], &f, sizeof(f)) != sizeof(f))
        f.failed = 1;
    close(fds[0]);
    waitpid(pid, &status, 0);
    return f;
}

static void show(const char *name, const struct figures *f, double mb)
{
    if (f->failed) {
        printf("%-20s  failed\n", name);
        return;
    }
    printf("%-20s %7.0f MB/s  %6.2f s", name, mb / f->seconds, f->seconds);
    if (f->cpu > 0)
        printf("  cpu %.2f s (%.0f MB/s), finishing %.2f", f->cpu, mb / f->cpu, f->finishing);
    if (f->spans)
        printf("  %5.2f M %s/s  peak %5.0f MB = %.2f of the file",
               (double)f->spans / f->seconds / 1e6,
               strcmp(name, names[PYTHON]) == 0 ? "events" : "spans", (double)f->peak_kb / 1e3,
               (double)f->peak_kb / 1e3 / mb);
    printf("\n");
}

int main(int argc, char **argv)
{
    const char *path = NULL, *trace = default_trace;
    struct figures best[READERS] = { 0 };
    bool keep = false, pack = false, python = true;
    double mb = 1000;
    char made[512], packed[540];
    struct stat st;
    int opt;

    for (;;) {
        opt = getopt(argc, argv, "s:f:kgn");
        if (opt == -1)
            break;
        if (opt == 's')
            mb = strtod(optarg, NULL);
        else if (opt == 'f')
            path = optarg;
        else if (opt == 'k')
            keep = true;
        else if (opt == 'g')
            pack = true;
        else if (opt == 'n')
            python = false;
        else
            return 2;
    }
    if (optind < argc)
        trace = argv[optind];
    if (!path) {
        snprintf(made, sizeof(made), "%s/opmeter-bench-import-%ld.json",
                 getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp", (long)getpid());
        path = made;
    }
    if (stat(path, &st) < 0) {
        build(trace, path, (uint64_t)(mb * 1e6));
        if (stat(path, &st) < 0)
            die(path, strerror(errno));
    }
    mb = (double)st.st_size / 1e6;
    if (pack) {
        char command[1200];

        snprintf(packed, sizeof(packed), "%s.gz", path);
        snprintf(command, sizeof(command), "gzip -1 -c '%s' > '%s'", path, packed);
        if (system(command) != 0)
            die(packed, "gzip failed");
        if (!keep)
            unlink(path);
        path = packed;
    }
    printf("%s: %.0f MB%s\n", path, mb, pack ? " unpacked" : "");
    for (int round = 0; round < ROUNDS; round++) {
        for (int r = READ; r < PYTHON; r++) {
            struct figures f = measure((enum reader)r, path);

            if (round && !f.failed) { /* on a busy machine these need not be of one round */
                f.cpu = MIN(f.cpu, best[r].cpu);
                f.finishing = MIN(f.finishing, best[r].finishing);
                best[r].cpu = f.cpu;
                best[r].finishing = f.finishing;
            }
            if (!round || f.failed || f.seconds < best[r].seconds)
                best[r] = f;
        }
    }
    if (python)
        best[PYTHON] = measure(PYTHON, path);
    for (int r = 0; r < READERS - !python; r++)
        show(names[r], &best[r], mb);
    if (!keep)
        unlink(path);
    return 0;
}
