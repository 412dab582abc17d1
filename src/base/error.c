/* error.c -- see error.h. */
#include "base/error.h"

#include "base/redact.h"

#include <stdarg.h>
#include <stdio.h>

int opm__fail(opm_error *err, int code, const char *fmt, ...)
{
    va_list ap;

    if (!err)
        return code;
    err->code = code;
    va_start(ap, fmt);
    vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
    va_end(ap);
    redact_passwords(err->msg); /* what was mistyped is repeated */
    for (char *p = err->msg; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f)
            *p = '?';
    return code;
}
