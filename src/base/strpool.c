/* strpool.c -- see strpool.h.
 *
 * Slots hold ids and are probed linearly; they are at most half full. Every entry keeps 32 bits of
 * its hash: a probe compares them before touching the string, and growing the slots reads the
 * entries in order and no string at all. */
#include "base/strpool.h"

#include "base/alloc.h"

#include <opmeter/opmeter_error.h>
#include <string.h>

#define SLOTS_MIN 1024 /* one page */

static uint64_t load64(const char *p)
{
    uint64_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

static uint64_t load32(const char *p)
{
    uint32_t v;

    memcpy(&v, p, sizeof(v));
    return v;
}

/* Fold the 128-bit product. The factors are mixed in again because a factor of zero, which the
 * author of a trace could arrange, would otherwise lose the other one. */
static uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ unsigned __int128 m = (unsigned __int128)a * b;

    return (a ^ (uint64_t)m) ^ (b ^ (uint64_t)(m >> 64));
}

/* In the manner of wyhash. The address of a static is the seed: it differs from run to run, so a
 * trace cannot be made to collide, and nothing observable depends on the hash. */
static uint32_t hash(const char *s, size_t len)
{
    static const char seed;
    const uint64_t k0 = 0xa0761d6478bd642fu, k1 = 0xe7037ed1a0b428dbu, k2 = 0x8ebc6af09c88c6e3u;
    uint64_t h = (uintptr_t)&seed ^ k0, h2 = h, a, b;
    size_t left = len;

    if (LIKELY(len <= 16)) {
        if (len >= 8) {
            a = load64(s);
            b = load64(s + len - 8);
        } else if (len >= 4) {
            a = load32(s);
            b = load32(s + len - 4);
        } else if (len) {
            a = (uint64_t)(unsigned char)s[0] << 16 | (uint64_t)(unsigned char)s[len / 2] << 8 |
                (unsigned char)s[len - 1];
            b = 0;
        } else
            a = b = 0;
    } else {
        for (; left > 32; left -= 32, s += 32) {
            h = mix(load64(s) ^ k1, load64(s + 8) ^ h);
            h2 = mix(load64(s + 16) ^ k2, load64(s + 24) ^ h2);
        }
        h ^= h2;
        if (left > 16)
            h = mix(load64(s) ^ k1, load64(s + 8) ^ h);
        a = load64(s + left - 16);
        b = load64(s + left - 8);
    }
    h = mix(mix(a ^ k1, b ^ h) ^ k2, len ^ k1);
    return (uint32_t)(h ^ h >> 32);
}

/* The slot that holds s, or the free slot where it belongs. p has at least one free slot. */
static size_t probe(const struct strpool *p, const char *s, size_t len, uint32_t h)
{
    size_t mask = p->nslot - 1;
    size_t i = h & mask;

    for (;; i = (i + 1) & mask) {
        const struct strpool_entry *e = &p->entry[p->slot[i]];

        if (!p->slot[i])
            return i;
        if (e->hash == h && e->len == len && (!len || memcmp(e->s, s, len) == 0))
            return i;
    }
}

static bool enlarge(struct strpool *p)
{
    size_t nslot = p->nslot ? p->nslot * 2 : SLOTS_MIN;
    uint32_t *slot = mem_map(nslot * sizeof(*slot));

    if (!slot)
        return false;
    for (size_t id = 1; id < p->n; id++) {
        size_t i = p->entry[id].hash & (nslot - 1);

        while (slot[i])
            i = (i + 1) & (nslot - 1);
        slot[i] = (uint32_t)id;
    }
    mem_unmap(p->slot, p->nslot * sizeof(*slot));
    p->slot = slot;
    p->nslot = nslot;
    return true;
}

/* Entry [0] and the first slots. */
static bool start(struct strpool *p)
{
    if (!GROW(p->entry, p->cap, 1))
        return false;
    if (!p->nslot && !enlarge(p))
        return false;
    p->entry[0] = (struct strpool_entry){ 0 };
    p->n = 1;
    return true;
}

int strpool_intern(struct strpool *p, const char *s, size_t len, str_id *out)
{
    uint32_t h;
    size_t at;
    char *copy;

    if (UNLIKELY(!p->n) && !start(p))
        return OPM_ENOMEM;
    h = hash(s, len);
    at = probe(p, s, len, h);
    if (LIKELY(p->slot[at])) {
        *out = p->slot[at];
        return 0;
    }
    if (len >= UINT32_MAX || p->n >= UINT32_MAX)
        return OPM_ENOMEM;
    if (p->n >= p->nslot / 2) {
        if (!enlarge(p))
            return OPM_ENOMEM;
        at = probe(p, s, len, h);
    }
    if (!GROW(p->entry, p->cap, p->n + 1))
        return OPM_ENOMEM;
    copy = arena_strndup(&p->bytes, s, len);
    if (!copy)
        return OPM_ENOMEM;
    p->entry[p->n] = (struct strpool_entry){ copy, (uint32_t)len, h };
    p->slot[at] = (uint32_t)p->n;
    *out = (str_id)p->n++;
    return 0;
}

str_id strpool_find(const struct strpool *p, const char *s, size_t len)
{
    return p->n ? p->slot[probe(p, s, len, hash(s, len))] : 0;
}

const char *strpool_get(const struct strpool *p, str_id id)
{
    assert(id == 0 || id < p->n);
    return id ? p->entry[id].s : NULL;
}

size_t strpool_len(const struct strpool *p, str_id id)
{
    assert(id == 0 || id < p->n);
    return id ? p->entry[id].len : 0;
}

size_t strpool_count(const struct strpool *p)
{
    return p->n ? p->n - 1 : 0;
}

void strpool_release(struct strpool *p)
{
    arena_release(&p->bytes);
    mem_free(p->entry);
    mem_unmap(p->slot, p->nslot * sizeof(*p->slot));
    *p = (struct strpool){ 0 };
}
