/* buf.c -- see buf.h. */
#include "base/buf.h"

#include "base/alloc.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Make room for len more bytes and the NUL; false and .failed if that is impossible. */
static bool reserve(struct buf *b, size_t len)
{
    size_t max = b->max ? MIN(b->max, (size_t)PTRDIFF_MAX - 1) : (size_t)PTRDIFF_MAX - 1;
    size_t want;
    char *p;

    if (b->failed)
        return false;
    if (b->len > max || len > max - b->len) {
        b->failed = true;
        return false;
    }
    if (LIKELY(b->len + len < b->cap))
        return true;
    want = MAX(b->len + len + 1, MAX((size_t)64, b->cap <= max / 2 ? b->cap * 2 : max));
    want = MIN(want, max + 1);
    p = mem_realloc(b->data, want);
    if (!p) {
        b->failed = true;
        return false;
    }
    b->data = p;
    b->cap = want;
    return true;
}

void buf_add(struct buf *b, const void *p, size_t len)
{
    if (!reserve(b, len))
        return;
    if (len)
        memcpy(b->data + b->len, p, len);
    b->len += len;
    b->data[b->len] = '\0';
}

void buf_adds(struct buf *b, const char *s)
{
    buf_add(b, s, strlen(s));
}

void buf_addc(struct buf *b, char c)
{
    buf_add(b, &c, 1);
}

void buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    int len;

    if (!reserve(b, 0))
        return;
    va_start(ap, fmt);
    len = vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
    va_end(ap);
    if (len < 0)
        b->failed = true;
    else if (reserve(b, (size_t)len)) {
        va_start(ap, fmt);
        vsnprintf(b->data + b->len, b->cap - b->len, fmt, ap);
        va_end(ap);
        b->len += (size_t)len;
    }
    b->data[b->len] = '\0'; /* also after a failure, which must leave no trace */
}

void buf_add_varint(struct buf *b, uint64_t v)
{
    uint8_t raw[10];
    size_t n = 0;

    for (; v >= 0x80; v >>= 7)
        raw[n++] = (uint8_t)(v | 0x80); /* bounded: seven bits each */
    raw[n++] = (uint8_t)v;
    buf_add(b, raw, n);
}

void buf_add_zigzag(struct buf *b, int64_t v)
{
    buf_add_varint(b, (uint64_t)v << 1 ^ (v < 0 ? UINT64_MAX : 0));
}

const char *buf_str(const struct buf *b)
{
    return b->data ? b->data : "";
}

void buf_clear(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data)
        b->data[0] = '\0';
}

void buf_release(struct buf *b)
{
    mem_free(b->data);
    *b = (struct buf){ .max = b->max };
}
