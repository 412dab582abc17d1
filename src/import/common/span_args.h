/* span_args.h -- a value out of the args of a finished span. */
#ifndef IMPORT_COMMON_SPAN_ARGS_H
#define IMPORT_COMMON_SPAN_ARGS_H

#include "store/store.h"

/* False: the args do not have it, or not as a number or text; *out is left alone then. */
bool span_arg_int(const struct store *st, size_t row, const char *key, int64_t *out);
/* Appended. False also if there is no memory, as out says. */
bool span_arg_text(const struct store *st, size_t row, const char *key, struct buf *out);

#endif
