/* posix.h -- what the sources use of GNU's C library and POSIX.1-2008 has not; force-included in a
 * minimal build, where functions of these names are those of posix.c, whatever the system has. */
#ifndef BASE_POSIX_H
#define BASE_POSIX_H

#include <glob.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

void *posix_memmem(const void *hay, size_t hay_len, const void *needle, size_t needle_len);
void *posix_memrchr(const void *s, int c, size_t n);
char *posix_strcasestr(const char *hay, const char *needle);
int posix_strverscmp(const char *a, const char *b);
int posix_vasprintf(char **out, const char *fmt, va_list ap);
__attribute__((format(printf, 2, 3))) int posix_asprintf(char **out, const char *fmt, ...);
void posix_qsort_r(void *base, size_t n, size_t size,
                   int (*compare)(const void *, const void *, void *), void *user);
/* Whether the program has privileges that whoever started it lacks, as far as users and groups
 * tell. */
bool posix_privileged(void);
char *posix_secure_getenv(const char *name);

#define memmem posix_memmem
#define memrchr posix_memrchr
#define strcasestr posix_strcasestr
#define strverscmp posix_strverscmp
#define vasprintf posix_vasprintf
#define asprintf posix_asprintf
#define qsort_r posix_qsort_r
#define secure_getenv posix_secure_getenv

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif
#ifndef GLOB_TILDE
#define GLOB_TILDE 0 /* the shell knows */
#endif
#ifndef POLLRDHUP
#define POLLRDHUP 0 /* POLLHUP is never asked for, and told all the same */
#endif

#endif
