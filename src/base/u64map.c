/* u64map.c -- see u64map.h. Open addressing with linear probing, at most 5/8 full. */
#include "base/u64map.h"

#include "base/alloc.h"

#include <opmeter/opmeter_error.h>

#define CAP_MIN 16

/* Keys are often small or strided: both halves of the product take part. The address of a static
 * differs from run to run, so a trace cannot be made to collide. */
static size_t hash(uint64_t key)
{
    static const char seed;
    __extension__ unsigned __int128 m =
        (unsigned __int128)(key ^ (uintptr_t)&seed ^ 0x9e3779b97f4a7c15u) * 0xd6e8feb86659fd93u;

    return (size_t)((uint64_t)m ^ (uint64_t)(m >> 64));
}

/* The slot of key, or the free slot where it belongs. m has at least one free slot. */
static size_t probe(const struct u64map *m, uint64_t key)
{
    size_t mask = m->cap - 1;
    size_t i = hash(key) & mask;

    while (m->used[i] && m->entry[i].key != key)
        i = (i + 1) & mask;
    return i;
}

static bool enlarge(struct u64map *m)
{
    struct u64map big = { .cap = m->cap ? m->cap * 2 : CAP_MIN, .n = m->n };

    if (big.cap > SIZE_MAX / 2 / sizeof(*big.entry))
        return false;
    big.entry = mem_alloc(big.cap * sizeof(*big.entry));
    big.used = mem_calloc(big.cap, 1);
    if (!big.entry || !big.used) {
        u64map_release(&big);
        return false;
    }
    for (size_t i = 0; i < m->cap; i++) {
        if (m->used[i]) {
            size_t at = probe(&big, m->entry[i].key);

            big.used[at] = 1;
            big.entry[at] = m->entry[i];
        }
    }
    u64map_release(m);
    *m = big;
    return true;
}

int u64map_put(struct u64map *m, uint64_t key, uint64_t value)
{
    size_t at = 0;

    if (m->cap) {
        at = probe(m, key);
        if (m->used[at]) {
            m->entry[at].value = value;
            return 0;
        }
    }
    if (m->n >= m->cap / 8 * 5) {
        if (!enlarge(m))
            return OPM_ENOMEM;
        at = probe(m, key);
    }
    m->used[at] = 1;
    m->entry[at] = (struct u64map_entry){ key, value };
    m->n++;
    return 0;
}

uint64_t *u64map_get(const struct u64map *m, uint64_t key)
{
    size_t at;

    if (!m->n)
        return NULL;
    at = probe(m, key);
    return m->used[at] ? &m->entry[at].value : NULL;
}

void u64map_release(struct u64map *m)
{
    mem_free(m->entry);
    mem_free(m->used);
    *m = (struct u64map){ 0 };
}
