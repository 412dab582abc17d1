/* inflate.c -- see inflate.h. */
#include "base/inflate.h"

#include <limits.h>
#include <zlib.h>

bool inflate_raw(const void *in, size_t len, void *out, size_t out_len)
{
    const Bytef *from = in;
    uint8_t none; /* zlib wants room even where nothing comes */
    z_stream z = { .next_out = out_len ? out : &none };
    size_t in_left = len, out_left = out_len;
    int rc = Z_OK;

    if (inflateInit2(&z, -MAX_WBITS) != Z_OK)
        return false;
    while (rc == Z_OK) {
        if (z.avail_in == 0 && in_left) { /* zlib counts in unsigned int */
            z.next_in = (Bytef *)(uintptr_t)from;
            z.avail_in = (uInt)MIN(in_left, (size_t)UINT_MAX);
            from += z.avail_in;
            in_left -= z.avail_in;
        }
        if (z.avail_out == 0 && out_left) {
            z.avail_out = (uInt)MIN(out_left, (size_t)UINT_MAX);
            out_left -= z.avail_out;
        }
        rc = inflate(&z, Z_NO_FLUSH);
    }
    inflateEnd(&z);
    return rc == Z_STREAM_END && out_left == 0 && z.avail_out == 0;
}

uint32_t inflate_crc32(const void *p, size_t len)
{
    const Bytef *at = p;
    uLong crc = crc32(0, NULL, 0);

    while (len) {
        uInt part = (uInt)MIN(len, (size_t)UINT_MAX);

        crc = crc32(crc, at, part);
        at += part;
        len -= part;
    }
    return (uint32_t)crc;
}
