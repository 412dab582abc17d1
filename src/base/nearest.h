/* nearest.h -- the name that was probably meant. */
#ifndef BASE_NEAREST_H
#define BASE_NEAREST_H

#include "base/common.h"

/* Changes (insert, delete, replace, swap neighbours; case ignored) that turn a into b, or SIZE_MAX
 * where either is too long to be a name. */
size_t nearest_distance(const char *a, const char *b);
/* Is a name that far away from `wanted` worth proposing? About one slip in three letters. */
bool nearest_close(const char *wanted, size_t distance);

/* The candidate most like a mistyped word; best stays NULL if none is near enough to suggest. Of a
 * word that is the beginning of a candidate, that is as good as one slip. */
struct nearest {
    const char *word;
    const char *best;
    size_t cost;
};
void nearest_try(struct nearest *n, const char *candidate);

#endif
