/* nearest.h -- the name that was probably meant. */
#ifndef SQL_NEAREST_H
#define SQL_NEAREST_H

#include "base/common.h"

/* Changes (insert, delete, replace, swap neighbours; case ignored) that turn a into b, or SIZE_MAX
 * where either is too long to be a name. */
size_t nearest_distance(const char *a, const char *b);
/* Is a name that far away from `wanted` worth proposing? About one slip in three letters. */
bool nearest_close(const char *wanted, size_t distance);

#endif
