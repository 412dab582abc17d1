/* varint.h -- write LEB128 numbers. */
#ifndef REC_VARINT_H
#define REC_VARINT_H

#include <stdint.h>

#define VARINT_MAX 10 /* bytes */

static inline uint8_t *varint_put(uint8_t *p, uint64_t v)
{
    while (v >= 0x80) {
        *p++ = (uint8_t)(v | 0x80);
        v >>= 7;
    }
    *p++ = (uint8_t)v;
    return p;
}

static inline uint64_t zigzag(int64_t v)
{
    return (uint64_t)v << 1 ^ (uint64_t)(v >> 63);
}

#endif
