/* text.c -- see text.h. */
#include "import/common/text.h"

#include "import/common/build.h"

#include <string.h>

bool text_line(struct text *rest, struct text *line)
{
    const char *end;

    if (!rest->len)
        return false;
    end = memchr(rest->p, '\n', rest->len);
    *line = (struct text){ rest->p, end ? (size_t)(end - rest->p) : rest->len };
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

struct text text_trim(struct text t)
{
    while (t.len && blank(t.p[0])) {
        t.p++;
        t.len--;
    }
    while (t.len && blank(t.p[t.len - 1]))
        t.len--;
    return t;
}

bool text_word(struct text *rest, struct text *word)
{
    size_t n = 0;

    *rest = text_trim(*rest);
    while (n < rest->len && !blank(rest->p[n]))
        n++;
    *word = (struct text){ rest->p, n };
    rest->p += n;
    rest->len -= n;
    return n > 0;
}

bool text_starts(struct text t, const char *with)
{
    size_t n = strlen(with);

    return t.len >= n && memcmp(t.p, with, n) == 0;
}

bool text_is(struct text t, const char *s)
{
    return t.len == strlen(s) && text_starts(t, s);
}

bool text_after(struct text t, const char *key, struct text *out)
{
    size_t n = strlen(key);
    const char *at = t.len ? memmem(t.p, t.len, key, n) : NULL;

    if (!at)
        return false;
    *out = (struct text){ at + n, t.len - (size_t)(at - t.p) - n };
    return true;
}

bool text_u64(struct text t, uint64_t *out)
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

bool text_decimal(struct text t, int shift, int64_t *out)
{
    t = text_trim(t);
    return decimal_scaled(t.p, t.len, shift, out);
}
