/* crc32c.h -- CRC-32C (Castagnoli), by the CPU's instruction where it has one. Header-only. */
#ifndef FORMAT_CRC32C_H
#define FORMAT_CRC32C_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__x86_64__)
#include <nmmintrin.h>
#endif

static inline uint32_t crc32c_soft(uint32_t crc, const uint8_t *p, size_t len)
{
    for (; len; p++, len--) {
        crc ^= *p;
        for (int i = 0; i < 8; i++)
            crc = (crc >> 1) ^ (0x82f63b78u & -(crc & 1));
    }
    return crc;
}

#if defined(__x86_64__)
__attribute__((target("sse4.2"))) static inline uint32_t crc32c_sse42(uint32_t crc,
                                                                      const uint8_t *p, size_t len)
{
    uint64_t c = crc, v;

    for (; len >= 8; p += 8, len -= 8) {
        memcpy(&v, p, 8);
        c = _mm_crc32_u64(c, v);
    }
    crc = (uint32_t)c;
    for (; len; p++, len--)
        crc = _mm_crc32_u8(crc, *p);
    return crc;
}
#endif

static inline uint32_t crc32c(const void *data, size_t len)
{
    const uint8_t *p = data;

#if defined(__x86_64__)
    if (__builtin_cpu_supports("sse4.2"))
        return ~crc32c_sse42(~0u, p, len);
#endif
    return ~crc32c_soft(~0u, p, len);
}

#endif
