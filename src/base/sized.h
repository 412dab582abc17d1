/* sized.h -- structs of the public headers that begin with their own size, so that they can grow.
 */
#ifndef BASE_SIZED_H
#define BASE_SIZED_H

#include "base/common.h"
#include <opmeter/opmeter_error.h>

/* Copy the caller's options, whose struct may be an older and shorter one, over the defaults in
 * `to`. from NULL: the defaults stay. what: name of the struct, for messages. */
int sized_copy(void *to, size_t known, const void *from, const char *what, opm_error *err);
/* The other way round: a result into the caller's struct, as much of it as the caller knows. */
int sized_give(void *to, const void *from, size_t known, const char *what, opm_error *err);
/* Structs without that field, where the caller passes the size: what both know of it, and zeros. */
void sized_pass(void *to, size_t to_size, const void *from, size_t from_size);

#endif
