/* digest.h -- 128 bits that tell one content from another, several bytes a nanosecond.
 *
 * For names of what is stored, not against people who look for two of the same digest. The same
 * bytes in any pieces give the same digest. `struct digest d = DIGEST_INIT`. */
#ifndef BASE_DIGEST_H
#define BASE_DIGEST_H

#include "base/common.h"

#define DIGEST_ROOM 33 /* of its text */

struct digest {
    uint64_t lane[2];
    uint64_t part; /* bytes that do not fill a word yet */
    uint64_t len;
};
#define DIGEST_INIT                                        \
    {                                                      \
        { 0x9ae16a3b2f90404fu, 0xc949c7defebe6a2bu }, 0, 0 \
    }

void digest_add(struct digest *d, const void *bytes, size_t len);
/* 32 hexadecimal digits. d can go on. */
void digest_text(const struct digest *d, char out[DIGEST_ROOM]);

#endif
