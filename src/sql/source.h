/* source.h -- a table as SQL sees it: columns to read by row number, and an index per column.
 *
 * One source stands for one table of the store, one analysis or the table `schema`. Everything is
 * made when first needed: analyses, derived columns, indexes. After the columns of its definition a
 * source has one more, `rowid`, the row number. One thread at a time. */
#ifndef SQL_SOURCE_H
#define SQL_SOURCE_H

#include "analyze/analysis.h"

enum vcol_kind {
    VCOL_UNKNOWN, /* not asked for yet */
    VCOL_NULL,    /* every value is NULL */
    VCOL_ROW,     /* the row number */
    VCOL_ARGS,    /* span.args where the store has them packed: text made when a row is read */
    VCOL_I64,
    VCOL_F64,
    VCOL_ID,
    VCOL_STR,
    VCOL_SITE_ID, /* through the site of a span */
    VCOL_SITE_STR,
};

struct vcol {
    enum vcol_kind kind;
    union {
        const void *data;
        const int64_t *i64;
        const double *f64;
        const uint32_t *u32; /* VCOL_SITE_*: site numbers */
    };
    const uint32_t *field; /* VCOL_SITE_*: this field of site 0, the next SITE_STRIDE further */
    struct index *index;   /* or NULL */
};
#define SITE_STRIDE (sizeof(struct site) / sizeof(uint32_t))

enum source_kind { SOURCE_TABLE, SOURCE_ANALYSIS, SOURCE_SCHEMA };

struct source {
    enum source_kind kind;
    int id; /* enum table_id or enum analysis_id */
    const struct table_def *def;
    const struct store *st;
    int sorted;    /* the column that rises with the row number, besides rowid and id; or -1 */
    bool collates; /* the statement that is being planned uses COLLATE */
    bool ready;    /* nrow is known, own is filled */
    size_t nrow;
    struct table own; /* SOURCE_ANALYSIS and SOURCE_SCHEMA */
    struct vcol *col; /* def->ncol + 1 */
};

#define SOURCE_ROWS_MAX ((size_t)UINT32_MAX - 1) /* row numbers are 32 bits, as in the store */

/* Is this the column VCOL_ARGS is for? Known before it is read. */
bool source_is_args(const struct source *s, int i);

/* 0 or OPM_ENOMEM. */
int source_init(struct source *s, enum source_kind kind, int id, const struct table_def *def,
                const struct store *st);
void source_release(struct source *s); /* a zeroed one is fine */
/* Make sure that nrow is known; SOURCE_SCHEMA ones are filled by sql.c. */
int source_ready(struct source *s, opm_error *err);
/* Make sure that col[i] can be read. */
int source_column(struct source *s, int i, opm_error *err);

static inline bool source_is_row(const struct source *s, int col)
{
    return col == s->def->ncol || s->def->col[col].from == FROM_ROW;
}

/* Value of a column of kind ID, STR, SITE_ID or SITE_STR. */
static inline uint32_t vcol_u32(const struct vcol *c, size_t row)
{
    if (c->kind == VCOL_SITE_ID || c->kind == VCOL_SITE_STR)
        return c->field[c->u32[row] * SITE_STRIDE];
    return c->u32[row];
}

#endif
