/* zblock.h -- pack and unpack pieces of memory: zstd for our own files, zlib and zstd for those of
 * others. */
#ifndef BASE_ZBLOCK_H
#define BASE_ZBLOCK_H

#include "base/buf.h"

/* Append p, packed with zstd. 0 or OPM_ENOMEM. */
int zblock_pack(struct buf *out, const void *p, size_t len);
/* Unpack one zstd frame into exactly out_len bytes. False if it is damaged or of another size. */
bool zblock_unpack(const void *p, size_t len, void *out, size_t out_len);

/* Append what a zlib stream, or all frames of a zstd stream, unpack to, as far as out->max allows.
 * 0; OPM_EFORMAT if the stream is damaged or cut, what could be had of it is in out then;
 * OPM_ELIMIT; OPM_ENOMEM. */
int zblock_inflate(struct buf *out, const void *p, size_t len);
int zblock_unzstd(struct buf *out, const void *p, size_t len);

#endif
