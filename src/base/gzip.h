/* gzip.h -- bytes in memory, packed as gzip. */
#ifndef BASE_GZIP_H
#define BASE_GZIP_H

#include "base/buf.h"

/* Append p, packed fast rather than small. 0 or OPM_ENOMEM. */
int gzip_pack(struct buf *out, const void *p, size_t len);

#endif
