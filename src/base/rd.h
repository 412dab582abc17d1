/* rd.h -- read foreign bytes without ever leaving the buffer.
 *
 * Every getter past the end returns 0 and sets .bad, which stays set: read a whole structure,
 * then check once. Little-endian. Header-only: rec/ uses it too. */
#ifndef BASE_RD_H
#define BASE_RD_H

#include "base/common.h"
#include <string.h>

struct rd {
    const uint8_t *p;
    const uint8_t *end;
    bool bad;
};

static inline struct rd rd_of(const void *p, size_t len)
{
    return (struct rd){ (const uint8_t *)p, (const uint8_t *)p + len, false };
}

static inline size_t rd_left(const struct rd *r)
{
    return (size_t)(r->end - r->p);
}

/* len bytes in place, or NULL and .bad. */
static inline const uint8_t *rd_bytes(struct rd *r, size_t len)
{
    const uint8_t *p = r->p;

    if (r->bad || len > rd_left(r)) {
        r->bad = true;
        return NULL;
    }
    r->p += len;
    return p;
}

static inline uint64_t rd_le(struct rd *r, size_t width)
{
    const uint8_t *p = rd_bytes(r, width);
    uint64_t v = 0;

    if (p)
        memcpy(&v, p, width);
    return v;
}

static inline uint8_t rd_u8(struct rd *r)
{
    return (uint8_t)rd_le(r, 1);
}
static inline uint16_t rd_u16(struct rd *r)
{
    return (uint16_t)rd_le(r, 2);
}
static inline uint32_t rd_u32(struct rd *r)
{
    return (uint32_t)rd_le(r, 4);
}
static inline uint64_t rd_u64(struct rd *r)
{
    return rd_le(r, 8);
}
static inline double rd_f64(struct rd *r)
{
    uint64_t bits = rd_le(r, 8);
    double v;

    memcpy(&v, &bits, sizeof(v));
    return v;
}

/* LEB128, at most 10 bytes; longer or unterminated sets .bad. */
static inline uint64_t rd_varint(struct rd *r)
{
    uint64_t v = 0;

    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (r->bad || r->p == r->end)
            break;
        uint8_t b = *r->p++;

        if (shift == 63 && b > 1)
            break;
        v |= (uint64_t)(b & 0x7f) << shift;
        if (!(b & 0x80))
            return v;
    }
    r->bad = true;
    return 0;
}

static inline int64_t rd_zigzag(struct rd *r)
{
    uint64_t v = rd_varint(r);

    return (int64_t)(v >> 1) ^ -(int64_t)(v & 1);
}

#endif
