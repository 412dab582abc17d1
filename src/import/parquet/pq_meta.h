/* pq_meta.h -- what the footer of a Parquet file says: columns, row groups, where their bytes are.
 */
#ifndef IMPORT_PARQUET_PQ_META_H
#define IMPORT_PARQUET_PQ_META_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

struct pq_leaf {
    const char *name; /* not terminated */
    size_t len;
    int type;           /* enum parquet_type */
    int64_t width;      /* bytes, of PARQUET_FIXED */
    int64_t scale;      /* to make nanoseconds of its numbers; 1: they are none, or it is no time */
    bool optional;      /* NULLs are possible */
    bool is_unsigned;   /* numbers */
    const char *cannot; /* why its values can't be read; NULL: they can */
};

struct pq_chunk {
    uint64_t at, len; /* its pages, within the file */
    uint64_t nvalue;
    int codec;
    bool all_null; /* as its statistics say */
};

struct pq_meta {
    const char *path;
    const uint8_t *data;
    size_t len;
    struct pq_leaf *leaf;
    size_t nleaf, leaf_cap;
    uint64_t *group; /* rows of each */
    size_t ngroup, group_cap;
    struct pq_chunk *chunk; /* nleaf of each row group */
    size_t nchunk, chunk_cap;
    uint64_t nrow;
    const char *table; /* that the file says it holds, not terminated; NULL: nothing said */
    size_t table_len;
};

/* How many rows a file may have: far more than real ones do for their size, so that memory follows
 * the size of the file. */
extern uint64_t pq_rows_free, pq_rows_per_byte;

/* 0; OPM_EFORMAT, OPM_EUNSUPPORTED, OPM_ELIMIT or OPM_ENOMEM with a message. data must outlive it.
 * Release it in any case. */
int pq_meta_read(struct pq_meta *m, const char *path, const uint8_t *data, size_t len,
                 opm_error *err);
void pq_meta_release(struct pq_meta *m);
/* The column of a name, in either case; -1: there is none. */
int pq_meta_find(const struct pq_meta *m, const char *name);

#endif
