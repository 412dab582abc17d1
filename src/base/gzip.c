/* gzip.c -- see gzip.h. */
#include "base/gzip.h"

#include <limits.h>
#include <opmeter/opmeter_error.h>
#include <zlib.h>

#define GZIP_WINDOW (MAX_WBITS + 16) /* zlib's way to say gzip */

int gzip_pack(struct buf *out, const void *p, size_t len)
{
    uint8_t chunk[32768];
    const Bytef *from = p;
    z_stream z = { 0 };
    int rc = Z_OK;

    if (deflateInit2(&z, Z_BEST_SPEED, Z_DEFLATED, GZIP_WINDOW, 8, Z_DEFAULT_STRATEGY) != Z_OK)
        return OPM_ENOMEM;
    while (rc == Z_OK) {
        if (z.avail_in == 0 && len) { /* zlib counts in unsigned int */
            z.next_in = (Bytef *)(uintptr_t)from;
            z.avail_in = (uInt)MIN(len, (size_t)UINT_MAX);
            from += z.avail_in;
            len -= z.avail_in;
        }
        z.next_out = chunk;
        z.avail_out = sizeof(chunk);
        rc = deflate(&z, len ? Z_NO_FLUSH : Z_FINISH);
        buf_add(out, chunk, sizeof(chunk) - z.avail_out);
    }
    deflateEnd(&z);
    return rc == Z_STREAM_END && !out->failed ? 0 : OPM_ENOMEM;
}
