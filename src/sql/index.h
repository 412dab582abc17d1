/* index.h -- rows by the value of a column, and rows in the order of columns.
 *
 * For columns of ids and strings, which have few distinct values: values get ranks (NULL is rank 0,
 * then rising; strings in memcmp() order, as SQLite's BINARY collation), and rows are counted and
 * dealt out by rank. Within a rank rows keep rising. */
#ifndef SQL_INDEX_H
#define SQL_INDEX_H

#include "sql/source.h"

struct index {
    /* rank of a row: map ? map[code[row]] : code[row] + 1 */
    const uint32_t *code;
    uint32_t *map;
    size_t map_bytes;
    uint32_t nrank;
    str_id *string; /* string columns: rank to string, [0] unused */
    size_t nrow;
    /* Made by index_group(): rows of rank r are rows[start[r]] to rows[start[r + 1]]. */
    uint32_t *start;
    uint32_t *rows;
};

/* Is there an index for this column? False where making one would cost more than it brings. */
bool index_offered(const struct source *s, int col);
/* The index of a column, kept for the life of the source; ranks only. */
int index_get(struct source *s, int col, struct index **out, opm_error *err);
/* Are the ranks dense enough for start[]? False for a few rows with large ids. */
bool index_groups(const struct index *ix);
/* As index_get(), with start and rows; only where index_groups(). */
int index_group(struct source *s, int col, struct index **out, opm_error *err);
void index_free(struct index *ix); /* NULL is fine */

static inline uint32_t index_rank(const struct index *ix, size_t row)
{
    return ix->map ? ix->map[ix->code[row]] : ix->code[row] + 1;
}

/* Rank of a string or id; false if no row has it. */
bool index_find_str(const struct source *s, const struct index *ix, const char *text, size_t len,
                    uint32_t *rank);
bool index_find_id(const struct index *ix, int64_t id, uint32_t *rank);

/* Up to this many columns at once. */
#define INDEX_ORDER_MAX 8
struct index_order {
    const struct index *ix;
    bool desc;
};
/* Sort row numbers by several columns, stably; room has space for n more. Returns the array that
 * holds the result: rows or room. */
uint32_t *index_sort(uint32_t *rows, uint32_t *room, size_t n, const struct index_order *order,
                     int norder);

#endif
