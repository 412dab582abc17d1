/* echo.h -- how much text a reader may write out that its file only refers to.
 *
 * A reference takes two bytes and the text behind it may be long: a file of a megabyte could ask
 * for any number of gigabytes. So that memory follows the size of the file, long texts are written
 * out up to a few times its size and then left out; whoever asks counts that
 * (STAT_text_not_repeated). Header-only; `struct echo e = { 0 }` is a new one. */
#ifndef IMPORT_COMMON_ECHO_H
#define IMPORT_COMMON_ECHO_H

#include "base/common.h"

#define ECHO_FREE_BYTES 256 /* shorter texts are not counted */
#define ECHO_LEAST_BYTES ((uint64_t)64 << 20)
#define ECHO_TIMES 4 /* of the file */

struct echo {
    uint64_t bytes; /* written out so far */
};

/* Whether a text of so many bytes may be written out once more. */
static inline bool echo_allows(struct echo *e, uint64_t file_bytes, size_t bytes)
{
    uint64_t max = ECHO_LEAST_BYTES + ECHO_TIMES * file_bytes;

    if (bytes <= ECHO_FREE_BYTES)
        return true;
    if (e->bytes > max || bytes > max - e->bytes)
        return false;
    e->bytes += bytes;
    return true;
}

#endif
