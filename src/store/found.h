/* found.h -- the spans whose name holds a text.
 *
 * Letters of ASCII are equal in either case. Made once per text for a frozen store, which must
 * outlive it, by a look at the site of every span; read by any number of threads. */
#ifndef STORE_FOUND_H
#define STORE_FOUND_H

#include "store/lod.h"

struct found {
    uint32_t *span; /* ascending ids, so by start */
    size_t n;
    int64_t total_ns; /* of those that ended; INT64_MAX if it is more */
    struct lod *lod;  /* pictures of them alone, on the lines that they have among all spans */
};

int found_new(const struct store *st, const char *text, struct found **out); /* 0 or OPM_ENOMEM */
void found_free(struct found *f);                                            /* NULL is fine */

#endif
