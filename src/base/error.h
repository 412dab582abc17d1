/* error.h -- fill an opm_error and return its code in one statement. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <opmeter/opmeter_error.h>

/* Fill err (may be NULL) and return code, so that callers write: return opm__fail(err, ...);
 * Control bytes in the formatted text are replaced by '?': a message stays one line whatever
 * name or path a hostile input put into it. */
__attribute__((format(printf, 3, 4))) int opm__fail(opm_error *err, int code, const char *fmt, ...);

#endif
