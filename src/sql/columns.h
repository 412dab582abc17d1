/* columns.h -- the whole answer of a query, column by column, for those who compute with it.
 *
 * A column has one type: that of its values if they agree, REAL if integers and reals mix, TEXT if
 * text is among them; where all are NULL, that of the column it comes from, if it does. Texts are
 * valid UTF-8 (what is not becomes U+FFFD) and kept apart, with a number per row. Everything is
 * the answer's own: it needs neither the handle nor the store any more. */
#ifndef SQL_COLUMNS_H
#define SQL_COLUMNS_H

#include "sql/source.h"
#include "sql/sql.h"

struct sql_words {
    char *bytes;
    int64_t *offset; /* n + 1 of them; NULL while there is no word */
    size_t n, len, cap_offset, cap_bytes;
};

struct sql_column {
    char *name;
    enum sql_type type; /* SQL_NULL: nothing but NULL, and nothing declared */
    union {             /* nrow of them; what stands for a NULL is 0 */
        void *data;
        int64_t *i64;  /* SQL_INT */
        double *f64;   /* SQL_REAL */
        int32_t *word; /* SQL_TEXT */
    };
    uint8_t *valid; /* a bit per row, first row lowest: 0 is NULL. NULL: none is */
    size_t nulls;
    struct sql_words words; /* SQL_TEXT; the same text may be there twice */
};

struct sql_columns {
    struct sql_column *col;
    int ncol;
    size_t nrow;
};

/* Run one statement, to its end. Release with sql_columns_release(). Plain tables (SELECT a, b FROM
 * t) are copied past SQLite, which makes them many times as fast. */
int sql_columns(struct sql *q, const char *text, struct sql_columns *out, opm_error *err);
void sql_columns_release(struct sql_columns *c); /* a zeroed one is fine */
void sql_column_release(struct sql_column *c);

/* -- shared by the files of columns -- */

/* Whether the text is such a plain one: 1 and *out is its answer, 0: it is not, < 0: failure. */
int sql_columns_plain(struct sql *q, const char *text, struct sql_columns *out, opm_error *err);
struct source *sql_source(struct sql *q, const char *name, size_t len); /* NULL if there is none */
/* Append a word, repaired where it is not UTF-8. 0 or OPM_ENOMEM. */
int sql_words_add(struct sql_words *w, const char *s, size_t len);
/* Bits for `rows` rows, all of them valid. NULL if out of memory. */
uint8_t *sql_valid_new(size_t rows);

#endif
