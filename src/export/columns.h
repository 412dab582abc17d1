/* columns.h -- tables of the store by column and range of rows, for formats that are columns, too.
 */
#ifndef EXPORT_COLUMNS_H
#define EXPORT_COLUMNS_H

#include "base/buf.h"
#include "store/store.h"

struct export_column {
    const char *name;
    enum col_type type;
    const struct store *st;
    enum table_id table;
    int col;          /* of the table; -1: which track it holds the overlapping spans of */
    const void *data; /* the whole column; NULL: see how export_column_take() finds it */
    bool args;        /* texts that are put together as they are asked for */
};

/* All columns of a table, derived ones and the row number included; a track also has the one of
 * format/parquet.h. 0 or an error. */
int export_columns(const struct store *st, enum table_id table, struct export_column *out, int max,
                   int *out_n);

/* Values of some rows: one of the first three, or texts, each up to end[i] (an empty one is NULL).
 * NULLs are those of the store. */
struct export_scratch {
    const int64_t *i64;
    const double *f64;
    const str_id *str;
    struct buf text;
    size_t *end;
    int64_t *room;
};
int export_scratch_init(struct export_scratch *s, size_t rows); /* 0 or OPM_ENOMEM */
void export_scratch_release(struct export_scratch *s);
/* Rows [from, from + n), no more than there is room for; until the next call. 0 or OPM_ENOMEM. */
int export_column_take(const struct export_column *c, size_t from, size_t n,
                       struct export_scratch *s);

/* The table of a name; OPM_ENOTFOUND with a message that names what was to be written. */
int export_find_table(const char *name, const char *what, enum table_id *out, opm_error *err);

#endif
