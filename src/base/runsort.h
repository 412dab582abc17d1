/* runsort.h -- order what is nearly in order: runs that are, one behind the other, are merged. */
#ifndef BASE_RUNSORT_H
#define BASE_RUNSORT_H

#include <stddef.h>

/* As qsort(), and equal items keep their order. In order already: one look at every item; k runs:
 * log2(k) more. 0 or OPM_ENOMEM. */
int runsort(void *items, size_t n, size_t size, int (*compare)(const void *, const void *));

#endif
