/* pq_unpack.h -- pages of Parquet files as they were before they were packed. */
#ifndef IMPORT_PARQUET_PQ_UNPACK_H
#define IMPORT_PARQUET_PQ_UNPACK_H

#include "base/common.h"

const char *pq_codec_name(int codec); /* "Snappy"; of one that is not known "an unknown codec" */
bool pq_codec_known(int codec);       /* pq_unpack() can read it */
/* The most that so many packed bytes can become; what claims more is damaged. */
uint64_t pq_unpacked_max(int codec, size_t len);
/* Unpack into exactly out_len bytes. False: damaged, or of another size. */
bool pq_unpack(int codec, const uint8_t *p, size_t len, uint8_t *out, size_t out_len);

#endif
