/* event_shorten.c -- see event_shorten.h. */
#include "import/json/event_shorten.h"

#include <string.h>

/* The closing quote of the string whose first character is at p. */
static const char *string_close(const char *p, const char *end)
{
    while (p < end) {
        const char *quote = memchr(p, '"', (size_t)(end - p)), *slash = NULL;

        if (!quote)
            return end;
        while (p <= quote) {
            slash = memchr(p, '\\', (size_t)(quote - p));
            if (!slash)
                return quote;
            p = slash + 2; /* beyond the quote if that is what it escapes */
        }
    }
    return end;
}

/* Bytes of a string of more than EVENT_STRING_MAX that can be kept: no escape and no character of
 * UTF-8 is cut in two. */
static size_t kept_bytes(const char *p)
{
    size_t n = 0;

    for (;;) {
        size_t step = 1;

        if (p[n] == '\\')
            step = p[n + 1] == 'u' ? 6 : 2;
        else
            while (((unsigned char)p[n + step] & 0xc0) == 0x80 && step < 4)
                step++;
        if (n + step > EVENT_STRING_MAX)
            return n;
        n += step;
    }
}

bool event_shorten(const char *p, const char *end, struct buf *out, size_t *cut)
{
    *cut = 0;
    while (p < end) {
        const char *open = memchr(p, '"', (size_t)(end - p));
        const char *close = open ? string_close(open + 1, end) : end;
        bool is_long = open && (size_t)(close - open - 1) > EVENT_STRING_MAX;
        const char *keep = is_long ? open + 1 + kept_bytes(open + 1) : close;

        if (out->len + (size_t)(keep - p) > EVENT_SHORT_MAX)
            return false;
        buf_add(out, p, (size_t)(keep - p));
        if (close < end) {
            buf_addc(out, '"');
            close++;
        }
        *cut += is_long;
        p = close;
    }
    return true;
}
