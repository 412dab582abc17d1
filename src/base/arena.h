/* arena.h -- memory that is freed all at once. `struct arena a = {0}` is a valid empty arena. */
#ifndef BASE_ARENA_H
#define BASE_ARENA_H

#include "base/common.h"

struct arena_block;
struct arena {
    struct arena_block *head;
    size_t used; /* bytes handed out, for limits and statistics */
};

void *arena_alloc(struct arena *a, size_t size); /* 16-byte aligned, zeroed; NULL on failure */
char *arena_strndup(struct arena *a, const char *s, size_t len); /* NUL-terminated copy */
void arena_release(struct arena *a);

#endif
