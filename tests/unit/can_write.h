/* can_write.h -- which formats can be written here. */
#ifndef UNIT_CAN_WRITE_H
#define UNIT_CAN_WRITE_H

#include <stdbool.h>
#include <string.h>

/* libxlsxwriter is loaded when it is needed; Debian's is of glibc, and no other C library takes it.
 */
static inline bool can_write(const char *format)
{
#ifdef __GLIBC__
    (void)format;
    return true;
#else
    return strcmp(format, "xlsx") != 0;
#endif
}

#endif
