/* shim.c -- preloaded into a program, makes the nth call of one C function fail.
 *
 *   FAULT=FUNCTION:N:HOW[:on]  HOW is an errno's number, or `short` for half of what was asked;
 *                              with `on`, every later call fails, too
 *   FAULT_REPORT=FILE          gets a line when a call was made to fail
 *
 * Each process counts for itself. Calls of the C library to itself are not seen. */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#pragma GCC visibility push(default) /* the program is to find them */

#define SHORT (-1)

static char function[32];
static long nth;
static int how;
static bool on;
static const char *report;
static atomic_long calls;
static atomic_bool armed;

__attribute__((constructor)) static void shim_load(void)
{
    const char *text = getenv("FAULT");
    char kind[16] = "", rest[8] = "";

    report = getenv("FAULT_REPORT");
    if (!text || !report || sscanf(text, "%31[^:]:%ld:%15[^:]:%7s", function, &nth, kind, rest) < 3)
        return;
    how = strcmp(kind, "short") == 0 ? SHORT : (int)strtol(kind, NULL, 10);
    on = strcmp(rest, "on") == 0;
    atomic_store(&armed, true);
}

/* 0, or how this call is to fail. */
static int fault(const char *name)
{
    long n;
    int fd;

    if (!atomic_load_explicit(&armed, memory_order_relaxed) || strcmp(name, function) != 0)
        return 0;
    n = atomic_fetch_add(&calls, 1) + 1;
    if (n < nth || (n > nth && !on))
        return 0;
    if (n == nth) {
        fd = (int)syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND, 0666);
        syscall(SYS_write, fd, "failed\n", 7);
        syscall(SYS_close, fd);
    }
    return how;
}

static void *next(const char *name)
{
    void *p = dlsym(RTLD_NEXT, name);

    if (!p)
        abort();
    return p;
}

/* REAL(f): what the program would have called. */
#define REAL(f)                               \
    static __typeof__(f) *real;               \
    if (!real) {                              \
        void *found = next(#f);               \
        memcpy(&real, &found, sizeof(found)); \
    }

#define FAIL(name, value)      \
    do {                       \
        int why = fault(name); \
        if (why > 0) {         \
            errno = why;       \
            return value;      \
        }                      \
    } while (0)

#define OPEN(f)                                                          \
    int f(const char *path, int flags, ...)                              \
    {                                                                    \
        va_list args;                                                    \
        mode_t mode;                                                     \
        REAL(f)                                                          \
        FAIL("open", -1);                                                \
        va_start(args, flags);                                           \
        mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
        va_end(args);                                                    \
        return real(path, flags, mode);                                  \
    }
OPEN(open)
OPEN(open64)

#define OPENAT(f)                                                        \
    int f(int dir, const char *path, int flags, ...)                     \
    {                                                                    \
        va_list args;                                                    \
        mode_t mode;                                                     \
        REAL(f)                                                          \
        FAIL("open", -1);                                                \
        va_start(args, flags);                                           \
        mode = flags & (O_CREAT | O_TMPFILE) ? va_arg(args, mode_t) : 0; \
        va_end(args);                                                    \
        return real(dir, path, flags, mode);                             \
    }
OPENAT(openat)
OPENAT(openat64)

#define FOPEN(f)                                \
    FILE *f(const char *path, const char *mode) \
    {                                           \
        REAL(f)                                 \
        FAIL("open", NULL);                     \
        return real(path, mode);                \
    }
FOPEN(fopen)
FOPEN(fopen64)

#define MKTEMP(f)          \
    int f(char *path)      \
    {                      \
        REAL(f)            \
        FAIL("open", -1);  \
        return real(path); \
    }
MKTEMP(mkstemp)
MKTEMP(mkstemp64)

ssize_t read(int fd, void *p, size_t n)
{
    int why;
    REAL(read)
    why = fault("read");
    if (why > 0) {
        errno = why;
        return -1;
    }
    return real(fd, p, why == SHORT ? (n + 1) / 2 : n);
}

ssize_t write(int fd, const void *p, size_t n)
{
    int why;
    REAL(write)
    why = fd == STDERR_FILENO ? 0 : fault("write");
    if (why > 0) {
        errno = why;
        return -1;
    }
    return real(fd, p, why == SHORT ? (n + 1) / 2 : n);
}

#define PREAD(f)                                                \
    ssize_t f(int fd, void *p, size_t n, off_t at)              \
    {                                                           \
        int why;                                                \
        REAL(f)                                                 \
        why = fault("read");                                    \
        if (why > 0) {                                          \
            errno = why;                                        \
            return -1;                                          \
        }                                                       \
        return real(fd, p, why == SHORT ? (n + 1) / 2 : n, at); \
    }
PREAD(pread)
PREAD(pread64)

#define PWRITE(f)                                               \
    ssize_t f(int fd, const void *p, size_t n, off_t at)        \
    {                                                           \
        int why;                                                \
        REAL(f)                                                 \
        why = fault("write");                                   \
        if (why > 0) {                                          \
            errno = why;                                        \
            return -1;                                          \
        }                                                       \
        return real(fd, p, why == SHORT ? (n + 1) / 2 : n, at); \
    }
PWRITE(pwrite)
PWRITE(pwrite64)

size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
    REAL(fwrite)
    int why = f == stderr ? 0 : fault("write");

    if (why > 0) {
        f->_flags |= 0x20; /* as the C library marks a stream that failed: ferror() */
        errno = why;
        return 0;
    }
    return real(p, size, n, f);
}

/* Closed all the same, as close() does. */
int close(int fd)
{
    REAL(close)
    int why = fault("close"), rc = real(fd);

    if (why <= 0)
        return rc;
    errno = why;
    return -1;
}

int fclose(FILE *f)
{
    REAL(fclose)
    int why = fault("close"), rc = real(f);

    if (why <= 0)
        return rc;
    errno = why;
    return EOF;
}

int fflush(FILE *f)
{
    REAL(fflush)
    if (f != stderr)
        FAIL("write", EOF);
    return real(f);
}

#define MMAP(f)                                                            \
    void *f(void *at, size_t n, int prot, int flags, int fd, off_t offset) \
    {                                                                      \
        REAL(f)                                                            \
        FAIL("mmap", MAP_FAILED);                                          \
        return real(at, n, prot, flags, fd, offset);                       \
    }
MMAP(mmap)
MMAP(mmap64)

void *mremap(void *p, size_t from, size_t to, int flags, ...)
{
    va_list args;
    void *place;
    REAL(mremap)
    FAIL("mmap", MAP_FAILED);
    va_start(args, flags);
    place = flags & MREMAP_FIXED ? va_arg(args, void *) : NULL;
    va_end(args);
    return real(p, from, to, flags, place);
}

int munmap(void *p, size_t n)
{
    REAL(munmap)
    FAIL("munmap", -1);
    return real(p, n);
}

#define TRUNCATE(f)            \
    int f(int fd, off_t n)     \
    {                          \
        REAL(f)                \
        FAIL("ftruncate", -1); \
        return real(fd, n);    \
    }
TRUNCATE(ftruncate)
TRUNCATE(ftruncate64)

#define FALLOCATE(f)                            \
    int f(int fd, off_t at, off_t n)            \
    {                                           \
        int why;                                \
        REAL(f)                                 \
        why = fault("fallocate");               \
        return why > 0 ? why : real(fd, at, n); \
    }
FALLOCATE(posix_fallocate)
FALLOCATE(posix_fallocate64)

int rename(const char *from, const char *to)
{
    REAL(rename)
    FAIL("rename", -1);
    return real(from, to);
}

int unlink(const char *path)
{
    REAL(unlink)
    FAIL("unlink", -1);
    return real(path);
}

int mkdir(const char *path, mode_t mode)
{
    REAL(mkdir)
    FAIL("mkdir", -1);
    return real(path, mode);
}

int fsync(int fd)
{
    REAL(fsync)
    FAIL("fsync", -1);
    return real(fd);
}

int fdatasync(int fd)
{
    REAL(fdatasync)
    FAIL("fsync", -1);
    return real(fd);
}

#define STAT(f, type, first)      \
    int f(first, struct type *st) \
    {                             \
        REAL(f)                   \
        FAIL("stat", -1);         \
        return real(what, st);    \
    }
STAT(fstat, stat, int what)
STAT(fstat64, stat64, int what)
STAT(stat, stat, const char *what)
STAT(stat64, stat64, const char *what)

pid_t fork(void)
{
    REAL(fork)
    FAIL("fork", -1);
    return real();
}

#define SPAWN(f)                                                                   \
    int f(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, \
          const posix_spawnattr_t *attr, char *const argv[], char *const env[])    \
    {                                                                              \
        int why;                                                                   \
        REAL(f)                                                                    \
        why = fault("fork");                                                       \
        return why > 0 ? why : real(pid, path, actions, attr, argv, env);          \
    }
SPAWN(posix_spawn)
SPAWN(posix_spawnp)

pid_t waitpid(pid_t pid, int *status, int options)
{
    REAL(waitpid)
    FAIL("wait", -1);
    return real(pid, status, options);
}

int dup(int fd)
{
    REAL(dup)
    FAIL("dup", -1);
    return real(fd);
}

int dup2(int from, int to)
{
    REAL(dup2)
    FAIL("dup", -1);
    return real(from, to);
}

#define FCNTL(f)                       \
    int f(int fd, int command, ...)    \
    {                                  \
        va_list args;                  \
        void *arg;                     \
        REAL(f)                        \
        FAIL("dup", -1);               \
        va_start(args, command);       \
        arg = va_arg(args, void *);    \
        va_end(args);                  \
        return real(fd, command, arg); \
    }
FCNTL(fcntl)
FCNTL(fcntl64)

int pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
    int why;
    REAL(pthread_create)
    why = fault("pthread_create");
    return why > 0 ? why : real(thread, attr, run, arg);
}

/* The C library's own names: looking the real ones up would allocate. */
extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *p, size_t size);

void *malloc(size_t size)
{
    FAIL("malloc", NULL);
    return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    FAIL("malloc", NULL);
    return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
    FAIL("malloc", NULL);
    return __libc_realloc(p, size);
}
