/* pq_file.h -- a Parquet file, row group by row group and column by column. What is written is
 * forgotten: memory holds one column of one row group.
 *
 * All columns may be NULL, by the values that the store has for that: OPM_NULL_I64, NaN, string 0.
 * Texts are UTF-8, what is not is replaced. Each column chunk is a dictionary and indices where
 * that is smaller, else differences or plain values; pages are packed with zstd; least and greatest
 * value and the number of NULLs stand in the footer. */
#ifndef EXPORT_PARQUET_PQ_FILE_H
#define EXPORT_PARQUET_PQ_FILE_H

#include "base/io.h"
#include "store/table.h"

#define PQ_GROUP_ROWS ((size_t)1 << 17)

enum pq_kind { PQ_INT, PQ_REAL, PQ_TEXT };

struct pq_column {
    const char *name;
    enum pq_kind kind;
};

/* The values of a column in a row group; one of them. */
struct pq_values {
    const int64_t *i64;
    const double *f64;
    const str_id *str;
    /* Texts that are in no pool, one after the other: text i ends at end[i]; an empty one is NULL.
     */
    const char *text;
    const size_t *end;
};

struct pq_file;

/* ncol columns; what col points to must outlive the file. out is open and stays the caller's. The
 * pool holds the texts of a row group while that is put; between two it may be another's. */
int pq_open(struct pq_file **f, struct io_out *out, const struct strpool *strings,
            const struct pq_column *col, int ncol);
/* Columns of a row group of n rows, at most PQ_GROUP_ROWS, in order. 0, OPM_ENOMEM or OPM_ELIMIT.
 */
int pq_group(struct pq_file *f, size_t n);
int pq_put(struct pq_file *f, const struct pq_values *v);
/* A fact about the file, before the end. */
void pq_fact(struct pq_file *f, const char *key, const char *value);
int pq_end(struct pq_file *f);
void pq_close(struct pq_file *f); /* NULL is fine */

#endif
