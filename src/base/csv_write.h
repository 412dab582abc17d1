/* csv_write.h -- a cell of CSV.
 *
 * Text is quoted where it must be, also where a spreadsheet might take it for a formula; an empty
 * one is quoted, which tells it from NULL. What else is done to it is for files that people open:
 * CSV_MARK puts a ' in front of a text that begins like a formula (= + - @, tab, carriage return)
 * and is no number, or that reads as one with the mark: who reads it can take one off again.
 * CSV_ESCAPE writes control characters, which could steer a terminal, as \u001b, and U+FFFD for
 * what is not UTF-8; line ends and tabs stay. */
#ifndef BASE_CSV_WRITE_H
#define BASE_CSV_WRITE_H

#include "base/io.h"

enum csv_style { CSV_EXACT = 0, CSV_MARK = 1, CSV_ESCAPE = 2, CSV_SAFE = CSV_MARK | CSV_ESCAPE };

void csv_put(struct io_out *out, const char *s, size_t len, enum csv_style style);
/* Whether s[0] is a mark of CSV_MARK. */
bool csv_is_marked(const char *s, size_t len);

#endif
