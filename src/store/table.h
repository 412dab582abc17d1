/* table.h -- a table of typed columns, the one form in which facts are handed around.
 *
 * Used for the tables of a trace (store.h) and for the results of analyses (analyze/). A column
 * whose values are all NULL takes no memory. Reading a value is a switch on the column's type;
 * hot loops take the arrays themselves. */
#ifndef STORE_TABLE_H
#define STORE_TABLE_H

#include "base/strpool.h"
#include <opmeter/opmeter_error.h>

#define OPM_NULL_I64 INT64_MIN
#define OPM_NULL_ID UINT32_MAX

enum col_type { COL_I64, COL_ID, COL_STR, COL_F64 };
enum col_from { FROM_ROW, FROM_ADD, FROM_SITE, FROM_DERIVED };

struct column_def {
    const char *name;
    enum col_type type;
    enum col_from from;
    const char *doc;
};

struct table_def {
    const char *name;
    const char *doc;
    const struct column_def *col;
    int ncol;
};

struct column {
    union {
        void *data; /* NULL: every value is NULL */
        int64_t *i64;
        uint32_t *id; /* COL_ID and COL_STR */
        double *f64;
    };
    size_t alloc; /* bytes mapped or allocated behind data */
};

struct table {
    const struct table_def *def;
    size_t nrow;
    struct column *col; /* def->ncol of them */
};

/* A single cell, as the readers of any table see it. type COL_ID is reported as COL_I64. */
struct cell {
    enum { CELL_NULL, CELL_I64, CELL_F64, CELL_STR } kind;
    union {
        int64_t i64;
        double f64;
        str_id str;
    };
};

int table_init(struct table *t, const struct table_def *def); /* 0 or OPM_ENOMEM */
void table_release(struct table *t);                          /* a zeroed one is fine */
/* Append one row; cells[] has def->ncol entries, FROM_ROW ones are ignored. 0 or OPM_ENOMEM. */
int table_add(struct table *t, const struct cell *cells);
/* Give a cell of row < nrow another value; not of a FROM_ROW column. 0 or OPM_ENOMEM. */
int table_set(struct table *t, size_t row, int col, struct cell cell);
struct cell table_cell(const struct table *t, size_t row, int col);
int table_find_col(const struct table_def *def, const char *name); /* -1 if there is none */

static inline struct cell cell_null(void)
{
    return (struct cell){ .kind = CELL_NULL };
}
static inline struct cell cell_i64(int64_t v)
{
    return (struct cell){ .kind = v == OPM_NULL_I64 ? CELL_NULL : CELL_I64, .i64 = v };
}
static inline struct cell cell_id(uint32_t v)
{
    return (struct cell){ .kind = v == OPM_NULL_ID ? CELL_NULL : CELL_I64, .i64 = v };
}
static inline struct cell cell_f64(double v)
{
    return (struct cell){ .kind = v != v ? CELL_NULL : CELL_F64, .f64 = v };
}
static inline struct cell cell_str(str_id v)
{
    return (struct cell){ .kind = v ? CELL_STR : CELL_NULL, .str = v };
}

static inline int64_t cell_i64_or(struct cell c, int64_t otherwise)
{
    return c.kind == CELL_I64 ? c.i64 : otherwise;
}
/* 0: it is no text. */
static inline str_id cell_text_id(struct cell c)
{
    return c.kind == CELL_STR ? c.str : 0;
}

#endif
