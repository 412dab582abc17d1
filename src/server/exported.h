/* exported.h -- a trace in another format, as an answer. */
#ifndef SERVER_EXPORTED_H
#define SERVER_EXPORTED_H

#include "server/opened.h"
#include "server/routes.h"

/* Read the trace, of so many files, anew (exporting needs it for itself) and write it to a file
 * that vanishes when the answer was sent. One at a time. Given up (OPM_EBUSY) when nobody waits for
 * it any more. */
int exported(const char *const *paths, size_t npaths, const struct read_limits *limits,
             const char *format, const struct waiter *who, struct reply *a, opm_error *err);

#endif
