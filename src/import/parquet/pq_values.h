/* pq_values.h -- the encodings of Parquet: numbers, in each of the ways that they are packed. All
 * read bounded bytes; false, or r->bad, says that they are malformed. */
#ifndef IMPORT_PARQUET_PQ_VALUES_H
#define IMPORT_PARQUET_PQ_VALUES_H

#include "base/rd.h"

/* Exactly n numbers of `width` bits, at most 32, as runs and packed ones. */
bool pq_hybrid_get(struct rd *r, unsigned width, uint32_t *out, size_t n);
/* Exactly n numbers as differences. */
bool pq_delta_get(struct rd *r, int64_t *out, size_t n);

#endif
