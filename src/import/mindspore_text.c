/* mindspore_text.c -- lines, words and numbers of text files; see mindspore_int.h. */
#include "import/mindspore_int.h"

#include <string.h>

#define DIGITS_MAX 18

bool ms_line(struct ms_text *rest, struct ms_text *line)
{
    const char *end;

    if (!rest->len)
        return false;
    end = memchr(rest->p, '\n', rest->len);
    *line = (struct ms_text){ rest->p, end ? (size_t)(end - rest->p) : rest->len };
    rest->len -= line->len + (end != NULL);
    rest->p += line->len + (end != NULL);
    if (line->len && line->p[line->len - 1] == '\r')
        line->len--;
    return true;
}

static bool blank(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

struct ms_text ms_trim(struct ms_text t)
{
    while (t.len && blank(t.p[0])) {
        t.p++;
        t.len--;
    }
    while (t.len && blank(t.p[t.len - 1]))
        t.len--;
    return t;
}

bool ms_word(struct ms_text *rest, struct ms_text *word)
{
    size_t n = 0;

    *rest = ms_trim(*rest);
    while (n < rest->len && !blank(rest->p[n]))
        n++;
    *word = (struct ms_text){ rest->p, n };
    rest->p += n;
    rest->len -= n;
    return n > 0;
}

bool ms_starts(struct ms_text t, const char *with)
{
    size_t n = strlen(with);

    return t.len >= n && memcmp(t.p, with, n) == 0;
}

bool ms_is(struct ms_text t, const char *s)
{
    return t.len == strlen(s) && ms_starts(t, s);
}

bool ms_after(struct ms_text t, const char *key, struct ms_text *out)
{
    size_t n = strlen(key);
    const char *at = t.len ? memmem(t.p, t.len, key, n) : NULL;

    if (!at)
        return false;
    *out = (struct ms_text){ at + n, t.len - (size_t)(at - t.p) - n };
    return true;
}

bool ms_u64(struct ms_text t, uint64_t *out)
{
    uint64_t v = 0;
    size_t i = 0;

    for (; i < t.len && t.p[i] >= '0' && t.p[i] <= '9'; i++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) ||
            __builtin_add_overflow(v, (uint64_t)(t.p[i] - '0'), &v))
            return false;
    *out = v;
    return i > 0;
}

/* The exponent behind an 'e'; false if it is none. */
static bool exponent(struct ms_text t, int *out)
{
    bool minus = t.len && t.p[0] == '-';
    size_t sign = t.len && (t.p[0] == '-' || t.p[0] == '+');
    uint64_t v;

    if (!ms_u64((struct ms_text){ t.p + sign, t.len - sign }, &v))
        return false;
    *out = (int)MIN(v, (uint64_t)10000) * (minus ? -1 : 1);
    for (size_t i = sign; i < t.len; i++)
        if (t.p[i] < '0' || t.p[i] > '9')
            return false;
    return true;
}

bool ms_decimal(struct ms_text t, int shift, int64_t *out)
{
    int64_t v = 0;
    size_t i = 0, digits = 0, seen = 0;
    bool minus, point = false;
    int dropped = 5, e;

    t = ms_trim(t);
    minus = t.len && t.p[0] == '-';
    i = t.len && (t.p[0] == '-' || t.p[0] == '+');
    for (; i < t.len; i++) {
        char c = t.p[i];

        if (c == '.' && !point) {
            point = true;
        } else if (c >= '0' && c <= '9') {
            seen++;
            /* Beyond what is kept only the first digit matters, for rounding. */
            if (digits < DIGITS_MAX) {
                v = v * 10 + (c - '0');
                digits += v != 0;
                shift -= point;
            } else {
                if (digits++ == DIGITS_MAX)
                    dropped = c - '0';
                shift += !point;
            }
        } else {
            break;
        }
    }
    if (!seen)
        return false;
    if (i < t.len) {
        if ((t.p[i] != 'e' && t.p[i] != 'E') ||
            !exponent((struct ms_text){ t.p + i + 1, t.len - i - 1 }, &e))
            return false;
        shift += e;
    }
    if (digits > DIGITS_MAX && shift == 0)
        v += dropped >= 5;
    for (; shift > 0 && v; shift--)
        if (__builtin_mul_overflow(v, (int64_t)10, &v))
            return false;
    if (shift < -DIGITS_MAX - 1)
        v = 0;
    for (; shift < 0 && v; shift++)
        v = shift == -1 ? (v + 5) / 10 : v / 10;
    *out = minus ? -v : v;
    return true;
}

bool ms_ticks(uint64_t ticks, int64_t *out_ns)
{
    if (ticks > (uint64_t)INT64_MAX / (4 * MS_TICK_NS))
        return false;
    *out_ns = (int64_t)ticks * MS_TICK_NS;
    return true;
}

struct ms_text ms_type_of(struct ms_text full_name)
{
    const char *slash = full_name.len ? memrchr(full_name.p, '/', full_name.len) : NULL;
    struct ms_text t = full_name;
    size_t n;

    if (slash) {
        t.len -= (size_t)(slash + 1 - t.p);
        t.p = slash + 1;
    }
    n = t.len;
    while (n && t.p[n - 1] >= '0' && t.p[n - 1] <= '9')
        n--;
    if (n < t.len && n > 3 && memcmp(t.p + n - 3, "-op", 3) == 0)
        t.len = n - 3;
    return t;
}
