/* pq_column.h -- the values of a column of a row group of a Parquet file. */
#ifndef IMPORT_PARQUET_PQ_COLUMN_H
#define IMPORT_PARQUET_PQ_COLUMN_H

#include "base/buf.h"
#include "import/parquet/pq_meta.h"
#include "store/store.h"

/* What the values are wanted as. */
enum pq_want { PQ_WANT_INT, PQ_WANT_REAL, PQ_WANT_TEXT };

/* Reads one column after the other; keeps its memory in between. `{0}` and then st. */
struct pq_columns {
    struct store *st;
    uint64_t *value;  /* of a page, those that are not NULL */
    uint32_t *number; /* levels, indices */
    int64_t *length;
    size_t cap;
    uint64_t *dict;
    size_t ndict, dict_cap;
    uint8_t *page, *text;
    size_t page_cap, text_cap;
};
void pq_columns_release(struct pq_columns *c);

/* Whether values of a column can be had as that. 0, or OPM_EUNSUPPORTED with a message. */
int pq_column_check(const struct pq_meta *m, int leaf, enum pq_want want, opm_error *err);
/* All rows of a row group: numbers as int64_t (NULL: OPM_NULL_I64), reals as the bits of a double
 * (NULL: NaN), texts as str_id (NULL: 0). out has room for m->group[group] of them. 0 or an error
 * with a message. */
int pq_column_read(struct pq_columns *c, const struct pq_meta *m, size_t group, int leaf,
                   enum pq_want want, uint64_t *out, opm_error *err);

#endif
