/* u64map.h -- hash map from uint64_t to uint64_t. `struct u64map m = {0}` is a valid empty map. */
#ifndef BASE_U64MAP_H
#define BASE_U64MAP_H

#include "base/common.h"

struct u64map_entry {
    uint64_t key;
    uint64_t value;
};

struct u64map {
    struct u64map_entry *entry;
    uint8_t *used;
    size_t cap; /* power of two, or 0 */
    size_t n;
};

int u64map_put(struct u64map *m, uint64_t key, uint64_t value); /* 0 or OPM_ENOMEM; overwrites */
uint64_t *u64map_get(const struct u64map *m, uint64_t key); /* NULL if absent; until the next put */
void u64map_release(struct u64map *m);

#endif
