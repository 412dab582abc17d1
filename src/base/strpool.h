/* strpool.h -- intern strings; equal strings get equal ids.
 *
 * Ids are dense, start at 1, are never reused; 0 is "no string" (NULL in SQL). Bytes returned by
 * strpool_get() never move and live until strpool_release(): columns and SQLite may keep the
 * pointer. Strings may hold any byte; a NUL-terminated view ends at the first NUL, strpool_len()
 * has the true length. One writer; any number of readers once writing has stopped.
 * `struct strpool p = {0}` is a valid empty pool. */
#ifndef BASE_STRPOOL_H
#define BASE_STRPOOL_H

#include "base/arena.h"

typedef uint32_t str_id;

struct strpool_entry {
    const char *s;
    uint32_t len;
    uint32_t hash;
};

struct strpool {
    struct arena bytes;
    struct strpool_entry *entry; /* [0] is "no string" */
    size_t n;                    /* entries used, id 0 included; 0 while the pool is empty */
    size_t cap;
    uint32_t *slot; /* open addressing over ids; size is a power of two */
    size_t nslot;
};

/* 0 or OPM_ENOMEM. An empty string is interned like any other and is not "no string". */
int strpool_intern(struct strpool *p, const char *s, size_t len, str_id *out);
/* The id of s if it is interned, else 0. */
str_id strpool_find(const struct strpool *p, const char *s, size_t len);
const char *strpool_get(const struct strpool *p, str_id id); /* NULL for 0 */
size_t strpool_len(const struct strpool *p, str_id id);
size_t strpool_count(const struct strpool *p); /* valid ids are 1..count */
void strpool_release(struct strpool *p);

#endif
