/* inflate.h -- unpack deflate streams whose size is known, as zip archives have them. */
#ifndef BASE_INFLATE_H
#define BASE_INFLATE_H

#include "base/common.h"

/* No deflate stream unpacks to more than this many times its size. */
#define INFLATE_RATIO_MAX 1032

/* Unpack a raw deflate stream (no zlib or gzip header) into exactly out_len bytes. False if it is
 * corrupt, gives more or gives less. */
bool inflate_raw(const void *in, size_t len, void *out, size_t out_len);
uint32_t inflate_crc32(const void *p, size_t len); /* zip's and gzip's checksum */

#endif
