/* opm_tables.h -- the parts of the reader of files of tables: opm_tables.c takes strings and all
 * tables but one, opm_table_spans.c the spans, several threads at a time, opm_table_args.c their
 * args, when they are asked for. */
#ifndef IMPORT_OPM_OPM_TABLES_H
#define IMPORT_OPM_OPM_TABLES_H

#include "import/opm/opm_int.h"

#define COLUMNS_MAX 64 /* of a table; more is damage */

/* Tables of the file: those of the store, and two that it keeps inside. */
enum { FILE_site = TABLE_COUNT, FILE_overlap, FILE_COUNT };

/* Rows [first, first + n) of the file are rows from `to` on of the store. */
struct row_part {
    uint64_t first, n;
    uint32_t to;
};

struct row_map {
    struct row_part *part; /* ascending */
    size_t n, cap;
};

struct packed_column {
    const char *name;
    size_t name_len;
    unsigned kind;
    const uint8_t *p;
    size_t len;
};

/* A chunk of rows, its columns still packed. */
struct rows {
    int table;
    uint64_t first, n;
    struct packed_column col[COLUMNS_MAX];
    size_t ncol;
};

struct tables {
    struct opm_file *f;
    struct store *st;
    int64_t offset_ns; /* added to every time */
    str_id *string;    /* by number in the file */
    size_t nstring, string_cap;
    struct row_map map[FILE_COUNT];
    uint32_t *site; /* by row of the file's table of sites, as map[FILE_site] has them */
    size_t nsite, site_cap;
    uint32_t unknown_site;
    uint64_t expected[FILE_COUNT]; /* rows, by the contents */
    uint64_t expected_strings;
    uint64_t got[FILE_COUNT], got_strings;
    /* Spans, unpacked by several threads. */
    struct table_piece **piece;
    size_t npiece;
    struct span_load load;
    atomic_size_t next;
    atomic_int rc;
    atomic_size_t corrupt;
    bool forms; /* args made of forms and numbers are among them */
};

/* The row of the store that a row of the file became; OPM_NULL_ID: it is missing. */
uint32_t row_map_get(const struct row_map *m, uint64_t row);
/* The same, quick where rows of the file came in one piece. */
static inline uint32_t row_map_find(const struct row_map *m, uint64_t row)
{
    const struct row_part *p = m->part;

    return LIKELY(m->n == 1 && row - p->first < p->n) ? p->to + (uint32_t)(row - p->first)
                                                      : row_map_get(m, row);
}
int row_map_add(struct row_map *m, uint64_t first, uint64_t n, uint32_t to);
bool rows_parse(const struct table_piece *p, struct rows *out); /* false: damaged */

/* NULL: there is none. */
const struct packed_column *rows_column(const struct rows *rows, const char *name, unsigned kind);

/* opm_table_spans.c: once strings, tracks and sites are there */
int table_spans_read(struct tables *t);

/* opm_table_args.c: how many rows of a chunk have which form of args. */
struct form_rows {
    const struct strpool *pool;
    const str_id *string; /* by number in the file */
    size_t nstring;
    uint32_t *rows;   /* by number of the form; 0 between chunks */
    uint16_t *values; /* likewise: how many numbers it takes, + 1; 0: not known yet */
    struct form_met {
        uint32_t form, n;
    } * met; /* in ascending order */
    size_t nmet, cap;
};

int form_rows_init(struct form_rows *f, const struct store *st, const str_id *string,
                   size_t nstring);
void form_rows_release(struct form_rows *f); /* zeroed is fine */
/* Whether a column of forms is whole; v has room for its n rows. 0, OPM_EFORMAT or OPM_ENOMEM. */
int args_check(struct form_rows *f, const struct packed_column *c, uint64_t *v, size_t n);
/* Once all spans are there: the store gets what it needs to read their args later. 0 or OPM_ENOMEM.
 */
int args_keep(struct tables *t);

#endif
