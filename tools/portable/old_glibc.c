/* old_glibc.c -- what glibc before 2.33 had under other names, or did for programs; see old_glibc.py.
 *
 * Linked into each library and program of a portable build, seen by nobody else. */
#define _GNU_SOURCE
#include <stddef.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

/* Not <sys/stat.h>, which declares what is defined here as aliases of each other. */
struct stat;
struct stat64;

#if defined(__x86_64__)
#define STAT_VERSION 1
#else
#define STAT_VERSION 0
#endif

int __xstat(int version, const char *path, struct stat *out);
int __lxstat(int version, const char *path, struct stat *out);
int __fxstat(int version, int fd, struct stat *out);
int __fxstatat(int version, int folder, const char *path, struct stat *out, int flags);

int stat(const char *path, struct stat *out);
int lstat(const char *path, struct stat *out);
int fstat(int fd, struct stat *out);
int fstatat(int folder, const char *path, struct stat *out, int flags);
int stat64(const char *path, struct stat64 *out);
int lstat64(const char *path, struct stat64 *out);
int fstat64(int fd, struct stat64 *out);
int fstatat64(int folder, const char *path, struct stat64 *out, int flags);

int stat(const char *path, struct stat *out)
{
    return __xstat(STAT_VERSION, path, out);
}

int lstat(const char *path, struct stat *out)
{
    return __lxstat(STAT_VERSION, path, out);
}

int fstat(int fd, struct stat *out)
{
    return __fxstat(STAT_VERSION, fd, out);
}

int fstatat(int folder, const char *path, struct stat *out, int flags)
{
    return __fxstatat(STAT_VERSION, folder, path, out, flags);
}

/* On machines of 64 bits both are the same. */
int stat64(const char *path, struct stat64 *out)
{
    return stat(path, (struct stat *)out);
}

int lstat64(const char *path, struct stat64 *out)
{
    return lstat(path, (struct stat *)out);
}

int fstat64(int fd, struct stat64 *out)
{
    return fstat(fd, (struct stat *)out);
}

int fstatat64(int folder, const char *path, struct stat64 *out, int flags)
{
    return fstatat(folder, path, (struct stat *)out, flags);
}

pid_t gettid(void)
{
    return (pid_t)syscall(SYS_gettid);
}

/* The start files of glibc 2.34 and later leave it to the library to call a program's constructors;
 * the older function, which is linked here, calls what it is given. Used with
 * --wrap=__libc_start_main. */
typedef int main_function(int, char **, char **);
typedef void init_function(int, char **, char **);

extern init_function *__preinit_array_start[] __attribute__((visibility("hidden"), weak));
extern init_function *__preinit_array_end[] __attribute__((visibility("hidden"), weak));
extern init_function *__init_array_start[] __attribute__((visibility("hidden"), weak));
extern init_function *__init_array_end[] __attribute__((visibility("hidden"), weak));
extern void _init(void) __attribute__((visibility("hidden"), weak));

int __real___libc_start_main(main_function *run, int argc, char **argv, init_function *init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
    __attribute__((weak));
int __wrap___libc_start_main(main_function *run, int argc, char **argv, init_function *init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end);

static void call_constructors(int argc, char **argv, char **environment)
{
    ptrdiff_t n = __preinit_array_end - __preinit_array_start;

    for (ptrdiff_t i = 0; i < n; i++)
        __preinit_array_start[i](argc, argv, environment);
    if (_init)
        _init();
    n = __init_array_end - __init_array_start;
    for (ptrdiff_t i = 0; i < n; i++)
        __init_array_start[i](argc, argv, environment);
}

int __wrap___libc_start_main(main_function *run, int argc, char **argv, init_function *init,
                             void (*fini)(void), void (*loader_fini)(void), void *stack_end)
{
    (void)init;
    (void)fini;
    return __real___libc_start_main(run, argc, argv, call_constructors, NULL, loader_fini,
                                    stack_end);
}
