/* utf8.h -- step through text that may not be UTF-8, and write it. Header-only. */
#ifndef BASE_UTF8_H
#define BASE_UTF8_H

#include "base/common.h"

#define UTF8_BAD UINT32_MAX

/* Whether a terminal may act on it instead of showing it: controls, and what turns the direction or
 * the line of what follows. */
static inline bool utf8_is_control(uint32_t cp)
{
    return cp == UTF8_BAD || cp < 0x20 || (cp >= 0x7f && cp < 0xa0) ||
           (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2066 && cp <= 0x2069);
}

/* Bytes taken by the next character of s (len >= 1), whose code point goes to *out. Malformed,
 * overlong and surrogate sequences give UTF8_BAD and the bytes that one U+FFFD should replace, as
 * Unicode recommends: the longest prefix of a valid sequence, at least one byte. */
static inline size_t utf8_next(const char *s, size_t len, uint32_t *out)
{
    const uint8_t *p = (const uint8_t *)s;
    uint8_t lo = 0x80, hi = 0xbf, b = p[0];
    size_t need;
    uint32_t cp;

    if (b < 0x80) {
        *out = b;
        return 1;
    }
    *out = UTF8_BAD;
    if (b < 0xc2 || b > 0xf4)
        return 1;
    need = b < 0xe0 ? 2 : b < 0xf0 ? 3 : 4;
    if (b == 0xe0)
        lo = 0xa0; /* below: overlong */
    else if (b == 0xed)
        hi = 0x9f; /* above: surrogates */
    else if (b == 0xf0)
        lo = 0x90;
    else if (b == 0xf4)
        hi = 0x8f; /* above: past U+10FFFF */
    cp = b & (0x7fu >> need);
    for (size_t i = 1; i < need; i++) {
        if (i == len || p[i] < lo || p[i] > hi)
            return i;
        cp = cp << 6 | (p[i] & 0x3f);
        lo = 0x80;
        hi = 0xbf;
    }
    *out = cp;
    return need;
}

/* A code point as UTF-8; how many bytes. */
static inline size_t utf8_put(uint32_t c, char out[4])
{
    if (c < 0x80) {
        out[0] = (char)c;
        return 1;
    }
    if (c < 0x800) {
        out[0] = (char)(0xc0 | c >> 6);
        out[1] = (char)(0x80 | (c & 0x3f));
        return 2;
    }
    if (c < 0x10000) {
        out[0] = (char)(0xe0 | c >> 12);
        out[1] = (char)(0x80 | (c >> 6 & 0x3f));
        out[2] = (char)(0x80 | (c & 0x3f));
        return 3;
    }
    out[0] = (char)(0xf0 | c >> 18);
    out[1] = (char)(0x80 | (c >> 12 & 0x3f));
    out[2] = (char)(0x80 | (c >> 6 & 0x3f));
    out[3] = (char)(0x80 | (c & 0x3f));
    return 4;
}

#endif
