/* colpack.h -- an array of numbers in few bytes, and back; docs/format.md "Packed columns" is the
 * specification. Pure functions over memory of the caller. */
#ifndef FORMAT_COLPACK_H
#define FORMAT_COLPACK_H

#include "format/bits.h"
#include <stdbool.h>

enum colpack_form {
    COLPACK_SAME = 0,     /* one value for all */
    COLPACK_WIDTH = 1,    /* distance from the smallest */
    COLPACK_DELTA = 2,    /* difference to the one before */
    COLPACK_GUESS = 3,    /* what followed the one before last time */
    COLPACK_GUESS_BY = 4, /* what followed the last one with the same `by` */
};

#define COLPACK_ROWS 65536u /* of one column at most */
/* Room that colpack_put() needs. */
#define COLPACK_MAX(n) (BITS_MAX(n) + 11 * (size_t)(n) + 64)
#define COLPACK_SCRATCH (COLPACK_ROWS + PACK_GROUP)

/* Pack n <= COLPACK_ROWS values into out; returns the end. by may be NULL. scratch has
 * COLPACK_SCRATCH entries. */
uint8_t *colpack_put(uint8_t *out, const uint64_t *v, const uint32_t *by, size_t n,
                     uint64_t *scratch);
/* Unpack; the end of what was read, or NULL if it is damaged. by as when packing. */
const uint8_t *colpack_get(const uint8_t *p, const uint8_t *end, uint64_t *v, const uint32_t *by,
                           size_t n);
/* Likewise, but of the column only its end is wanted; packed without `by`. */
const uint8_t *colpack_skip(const uint8_t *p, const uint8_t *end, size_t n);

#endif
