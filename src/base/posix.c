/* posix.c -- see posix.h. Nothing here is in a loop that matters where the C library has it. */
#include "base/posix.h"

#include <stdint.h>
#include <unistd.h>

#undef getenv

void *posix_memmem(const void *hay, size_t hay_len, const void *needle, size_t needle_len)
{
    const char *p = hay, *first = needle, *end = p + hay_len;

    if (!needle_len)
        return (void *)(uintptr_t)hay;
    while ((size_t)(end - p) >= needle_len) {
        p = memchr(p, *first, (size_t)(end - p) - needle_len + 1);
        if (!p)
            return NULL;
        if (memcmp(p, needle, needle_len) == 0)
            return (void *)(uintptr_t)p;
        p++;
    }
    return NULL;
}

void *posix_memrchr(const void *s, int c, size_t n)
{
    const unsigned char *p = s;

    while (n--)
        if (p[n] == (unsigned char)c)
            return (void *)(uintptr_t)(p + n);
    return NULL;
}

char *posix_strcasestr(const char *hay, const char *needle)
{
    size_t len = strlen(needle);

    for (const char *p = hay; strnlen(p, len) == len; p++) {
        if (strncasecmp(p, needle, len) == 0)
            return (char *)(uintptr_t)p;
        if (!*p)
            break;
    }
    return NULL;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Which of two runs of digits is longer: 1, -1, or 0. */
static int longer(const char *a, const char *b)
{
    while (is_digit(*a) && is_digit(*b)) {
        a++;
        b++;
    }
    return is_digit(*a) - is_digit(*b);
}

static bool begins_number(char c)
{
    return c >= '1' && c <= '9';
}

/* Numbers by their value; what begins with zeros as if behind a decimal point, fewer zeros later.
 */
int posix_strverscmp(const char *a, const char *b)
{
    size_t at = 0, run = 0; /* where they differ; where the digits before that begin */
    int order;

    for (; a[at] == b[at]; at++) {
        if (!a[at])
            return 0;
        if (!is_digit(a[at]))
            run = at + 1;
    }
    if (begins_number(a[run]) && begins_number(b[run])) {
        order = longer(a + at, b + at);
        if (order)
            return order;
    } else if (run < at && strspn(a + run, "0") >= at - run && is_digit(a[at]) != is_digit(b[at])) {
        return is_digit(a[at]) ? -1 : 1;
    }
    return (unsigned char)a[at] - (unsigned char)b[at];
}

int posix_vasprintf(char **out, const char *fmt, va_list ap)
{
    va_list again;
    int len;

    va_copy(again, ap);
    len = vsnprintf(NULL, 0, fmt, again);
    va_end(again);
    *out = len < 0 ? NULL : malloc((size_t)len + 1);
    return *out ? vsnprintf(*out, (size_t)len + 1, fmt, ap) : -1;
}

int posix_asprintf(char **out, const char *fmt, ...)
{
    va_list ap;
    int rc;

    va_start(ap, fmt);
    rc = posix_vasprintf(out, fmt, ap);
    va_end(ap);
    return rc;
}

/* Of the sort that this thread is in. */
static _Thread_local struct {
    int (*compare)(const void *, const void *, void *);
    void *user;
} sorting;

static int compare_for_user(const void *a, const void *b)
{
    return sorting.compare(a, b, sorting.user);
}

void posix_qsort_r(void *base, size_t n, size_t size,
                   int (*compare)(const void *, const void *, void *), void *user)
{
    sorting.compare = compare;
    sorting.user = user;
    qsort(base, n, size, compare_for_user);
}

bool posix_privileged(void)
{
    return geteuid() != getuid() || getegid() != getgid();
}

char *posix_secure_getenv(const char *name)
{
    return posix_privileged() ? NULL : getenv(name);
}
