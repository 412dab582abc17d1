/* csv_read.h -- read comma-separated values row by row, in place.
 *
 *     struct csv_reader r = csv_read_of(text, len);
 *     while (csv_read_next(&r, field, ARRAY_SIZE(field), &n)) ...
 *
 * RFC 4180 and what people make of it: LF or CRLF, quotes around any field, line breaks and doubled
 * quotes inside them, blank lines skipped, a byte order mark skipped. Nothing is allocated; the
 * bytes must outlive the reader. A quote that is never closed ends with the file. */
#ifndef BASE_CSV_READ_H
#define BASE_CSV_READ_H

#include "base/buf.h"

struct csv_field {
    const char *p; /* between the quotes, doubled ones as they stand */
    size_t len;
    bool quoted;
};

struct csv_reader {
    const char *start, *at, *end;
    size_t row;    /* rows read so far */
    bool unclosed; /* the last field had an opening quote only */
};

struct csv_reader csv_read_of(const void *p, size_t len);
/* Fields of the next row into field[0..max); returns how many the row has (those beyond max are
 * passed over), or -1 at the end. */
int csv_read_row(struct csv_reader *r, struct csv_field *field, int max);
/* The same, with the number in *n; false at the end. */
bool csv_read_next(struct csv_reader *r, struct csv_field *field, int max, int *n);

/* Append the field, doubled quotes resolved. */
void csv_field_text(const struct csv_field *f, struct buf *out);
bool csv_field_is(const struct csv_field *f, const char *s); /* for names without quotes in them */
/* In which of n fields each of k names stands, -1: in none. */
void csv_columns(const struct csv_field *f, int n, const char *const *name, size_t k, int *at);
/* The field as an integer, blanks around it and a fraction of zeros allowed ("7.0" is how pandas
 * writes a nullable column). False: it is none; *out is untouched then. */
bool csv_field_int(const struct csv_field *f, int64_t *out);

#endif
