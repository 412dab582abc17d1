/* capped.h -- write into memory of a fixed size, byte after byte, never beyond its end.
 *
 *     char text[64];
 *     struct capped c = capped_of(text, sizeof(text));
 *     capped_addc(&c, 'x');
 *     if (c.full) ...
 *
 * What does not fit is left out, and .full says so from then on. The last byte is kept for the NUL
 * that capped_str() writes. Allocates nothing and calls nothing but memcpy, so that the recorder
 * may use it anywhere. */
#ifndef BASE_CAPPED_H
#define BASE_CAPPED_H

#include "base/common.h"

#include <string.h>

struct capped {
    char *data;
    size_t len;
    size_t cap; /* without the NUL */
    bool full;  /* something was left out */
};

/* size: of the memory at p, at least 1. */
static inline struct capped capped_of(char *p, size_t size)
{
    return (struct capped){ .data = p, .cap = size - 1 };
}

static inline void capped_addc(struct capped *c, char ch)
{
    if (LIKELY(c->len < c->cap))
        c->data[c->len++] = ch;
    else
        c->full = true;
}

/* As much of it as fits. */
static inline void capped_add(struct capped *c, const void *p, size_t len)
{
    size_t n = MIN(len, c->cap - c->len);

    c->full |= n < len;
    if (n)
        memcpy(c->data + c->len, p, n);
    c->len += n;
}

static inline void capped_adds(struct capped *c, const char *s)
{
    capped_add(c, s, strlen(s));
}

/* The text so far, with its NUL; until the next byte is added. */
static inline const char *capped_str(struct capped *c)
{
    c->data[c->len] = '\0';
    return c->data;
}

#endif
