/* parquet.h -- tables from Parquet files into the store: parquet.c reads rows of any table,
 * parquet_spans.c those of spans.
 *
 * Rows refer to rows by the column id of their table, or by their number where it has none. */
#ifndef IMPORT_PARQUET_PARQUET_H
#define IMPORT_PARQUET_PARQUET_H

#include "base/u64map.h"
#include "import/import.h"
#include "import/parquet/pq_column.h"

/* Ids of a table's rows in its files: those from `first` on rise one by one, as rows of the store
 * from `to` on do; else each is in the map. */
struct pq_ids {
    int64_t first;
    size_t n;
    uint32_t to;
    bool scattered;
    struct u64map map;
};

/* A file of a table, while it is read. */
struct pq_open {
    struct io_map map;
    struct pq_meta meta;
};

struct pq_reader {
    struct store *st;
    const struct import_source *src;
    struct pq_columns columns;
    struct pq_ids ids[TABLE_COUNT];
    bool there[TABLE_COUNT]; /* has files */
    int64_t offset_ns;       /* added to every time */
    uint64_t done, total;    /* bytes */
    opm_error *err;
};

#define PQ_COLUMNS_MAX 40 /* of a table */

/* Columns of a file that a table has, and their values of a row group. */
struct pq_table {
    const struct table_def *def;
    int leaf[PQ_COLUMNS_MAX]; /* by column of the table; -1: it is not there */
    uint64_t *value[PQ_COLUMNS_MAX];
    int overlap_leaf; /* of tracks */
    uint64_t *overlap;
    size_t cap; /* rows that there is room for */
};

int pq_fail(const struct pq_reader *r, const char *path,
            int rc); /* with a message if it has none */
int pq_table_open(struct pq_table *t, const struct pq_reader *r, const struct pq_meta *m,
                  enum table_id table);
/* Values of a row group, of the columns that there are. */
int pq_table_take(struct pq_table *t, struct pq_reader *r, const struct pq_meta *m, size_t group);
void pq_table_release(struct pq_table *t);

/* The next row of the table; OPM_EFORMAT if the id was there before. */
int pq_ids_add(struct pq_reader *r, enum table_id table, const char *path, int64_t id,
               uint32_t row);
/* The row of the store; OPM_NULL_ID: there is none. */
uint32_t pq_ids_get(const struct pq_reader *r, enum table_id table, int64_t id);
/* The same of a track, which is made up where a file of spans or samples comes alone. */
int pq_track_get(struct pq_reader *r, int64_t id, uint32_t *out);

static inline int64_t pq_shift(const struct pq_reader *r, int64_t t)
{
    return t == OPM_NULL_I64 ? t : (int64_t)((uint64_t)t + (uint64_t)r->offset_ns);
}

int pq_spans_read(struct pq_reader *r, struct pq_open *file, size_t n);

#endif
