/* buf.h -- a growing byte buffer with a ceiling.
 *
 * `struct buf b = {0}` is empty with no ceiling; set .max to bound it. After a failed append the
 * buffer stays as it was, .failed is set and later appends are ignored, so a writer may append
 * freely and check once. */
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include "base/common.h"

struct buf {
    char *data; /* NUL-terminated when non-NULL */
    size_t len;
    size_t cap;
    size_t max; /* 0: none */
    bool failed;
};

void buf_add(struct buf *b, const void *p, size_t len);
void buf_adds(struct buf *b, const char *s);
void buf_addc(struct buf *b, char c);
/* Seven bits a byte, the lowest first; zigzag: signed, small ones of either sign are short. */
void buf_add_varint(struct buf *b, uint64_t v);
void buf_add_zigzag(struct buf *b, int64_t v);
__attribute__((format(printf, 2, 3))) void buf_addf(struct buf *b, const char *fmt, ...);
const char *buf_str(const struct buf *b); /* "" when empty; until the next append */
void buf_clear(struct buf *b);            /* keeps the memory, forgets a failure */
void buf_release(struct buf *b);

#endif
