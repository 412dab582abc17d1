/* click_text.h -- what ClickHouse answers: rows as TabSeparatedWithNamesAndTypes, and exceptions in
 * the wording of every version from 18.16 on. */
#ifndef CATALOG_CLICK_TEXT_H
#define CATALOG_CLICK_TEXT_H

#include "base/buf.h"
#include "base/common.h"
#include <opmeter/opmeter_error.h>
#include <opmeter/opmeter_trace.h>

struct clickrows;

/* Rows of an answer; *body is taken over. `who` stands in messages. An answer that breaks off or
 * does not have the shape is an error when its rows are read, never fewer rows. */
int clickrows_open(struct clickrows **out, struct buf *body, const char *who, opm_error *err);
int clickrows_next(struct clickrows *r, opm_error *err); /* 1: a row, 0: the end, < 0: failure */
int clickrows_columns(const struct clickrows *r);
const char *clickrows_name(const struct clickrows *r, int col);
/* Of the cell; a column that the answer does not have is NULL. */
enum opm_type clickrows_type(const struct clickrows *r, int col);
const char *clickrows_text(const struct clickrows *r, int col, size_t *len);
void clickrows_close(struct clickrows *r); /* NULL is fine */

/* What an exception says, without what the server wraps around it; *code 0: it is none. */
struct click_exception {
    int code;
    const char *text;
    size_t len;
};

struct click_exception click_exception_read(const char *body);

#endif
