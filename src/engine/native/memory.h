/* memory.h -- memory for tensors: aligned for every vector, in huge pages where it is big. */
#ifndef NATIVE_MEMORY_H
#define NATIVE_MEMORY_H

#include "base/common.h"

#define NATIVE_ALIGN 64

/* Like mem_alloc(), aligned to NATIVE_ALIGN. */
void *native_alloc(size_t bytes);
/* Likewise for what every run reads: those of less than a few MB lie together in huge pages, and
 * so are best given back together. */
void *native_alloc_weights(size_t bytes);
void native_free(void *p); /* NULL is fine */

/* What native_alloc() may still take on the thread that budget_use() has named it for; blocks go
 * back to the budget that they were taken from. */
struct budget {
    int64_t left;
    int64_t most;       /* 0: no limit */
    size_t refused;     /* bytes that were asked for last and not given */
    struct keep *spare; /* whose spare blocks are given back before that; or NULL */
};
/* NULL: no limit. Returns the one before. */
struct budget *budget_use(struct budget *b);

/* Many small pieces that are given back together. { 0 } is empty. */
struct keep {
    struct keep_block *block; /* the last one */
    size_t used;
    struct keep_block *spare; /* from before keep_clear() */
};
void *keep_alloc(struct keep *h, size_t bytes); /* aligned to NATIVE_ALIGN from that size on */
/* All pieces are given back; their memory is for the next ones, until keep_clear() again. */
void keep_clear(struct keep *h);
void keep_release(struct keep *h);

#endif
