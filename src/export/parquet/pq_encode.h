/* pq_encode.h -- numbers as Parquet packs them. */
#ifndef EXPORT_PARQUET_PQ_ENCODE_H
#define EXPORT_PARQUET_PQ_ENCODE_H

#include "base/buf.h"

unsigned pq_width(uint64_t max); /* bits that numbers up to it take, 0 to 64 */
/* n numbers of `width` bits, at most 32, as runs of equal ones and packed ones. */
void pq_hybrid(struct buf *out, const uint32_t *v, size_t n, unsigned width);
/* n numbers, at least one, as differences. */
void pq_delta(struct buf *out, const int64_t *v, size_t n);

#endif
