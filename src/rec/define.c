/* define.c -- ids for sites, strings, threads and tracks, and the items that explain them.
 *
 * An item is in the live file, or in the file itself, before its id is given out: whatever refers
 * to an id can be read. Ids rise and are never reused within a recording.
 *
 * Names that are not known when compiling are looked up in a hash table of 104-bit hashes, read
 * without a lock. Its memory is bounded: when it is full it is emptied, and names that come again
 * get a second id; the reader sees equal names. */
#include "rec/object.h"

#include "base/redact.h"

#include <stdlib.h>
#include <string.h>

struct hash128 {
    uint64_t a;
    uint64_t b;
};

static inline uint64_t mix(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide m = (wide)a * b;

    return (uint64_t)m ^ (uint64_t)(m >> 64);
}

static void hash_bytes(struct hash128 *h, const char *s, size_t len)
{
    uint64_t v;

    h->a = mix(h->a ^ len, 0x9e3779b97f4a7c15u);
    h->b = mix(h->b + len, 0xc2b2ae3d27d4eb4fu);
    for (; len >= 8; s += 8, len -= 8) {
        memcpy(&v, s, 8);
        h->a = mix(h->a ^ v, 0xa0761d6478bd642fu);
        h->b = mix(h->b + v, 0xe7037ed1a0b428dbu);
    }
    v = 0;
    if (len)
        memcpy(&v, s, len);
    h->a = mix(h->a ^ v, 0x8ebc6af09c88c6e3u);
    h->b = mix(h->b + v, 0x589965cc75374cc3u);
}

static struct hash128 hash_name(uint32_t kind, const char *category, const char *name, size_t len)
{
    struct hash128 h = { 0x243f6a8885a308d3u ^ kind, 0x13198a2e03707344u + kind };

    hash_bytes(&h, category ? category : "", category ? strlen(category) : 0);
    hash_bytes(&h, name, len);
    return h;
}

#define TAG_MASK 0xffffffffff000000u

static uint32_t names_find(const struct name_table *t, struct hash128 h)
{
    if (!t)
        return 0;
    for (size_t i = h.a & (t->cap - 1);; i = (i + 1) & (t->cap - 1)) {
        uint64_t tag_id = atomic_load_explicit(&t->entry[i].tag_id, memory_order_acquire);

        if (!tag_id)
            return 0;
        if ((tag_id & TAG_MASK) == (h.b & TAG_MASK) &&
            atomic_load_explicit(&t->entry[i].hash, memory_order_relaxed) == h.a)
            return (uint32_t)(tag_id & ~TAG_MASK);
    }
}

static void names_put(struct name_table *t, struct hash128 h, uint32_t id)
{
    size_t i = h.a & (t->cap - 1);

    while (atomic_load_explicit(&t->entry[i].tag_id, memory_order_relaxed))
        i = (i + 1) & (t->cap - 1);
    atomic_store_explicit(&t->entry[i].hash, h.a, memory_order_relaxed);
    atomic_store_explicit(&t->entry[i].tag_id, (h.b & TAG_MASK) | id, memory_order_release);
    t->n++;
}

/* A table with room for one more: the present one, a larger one, or the present one emptied. */
static struct name_table *names_room(struct recorder *r)
{
    struct name_table *t = atomic_load_explicit(&r->names, memory_order_relaxed);
    size_t cap = t ? t->cap * 2 : 1024;
    struct name_table *bigger;

    if (t && t->n * 2 < t->cap)
        return t;
    bigger = cap * sizeof(struct name_entry) <= r->names_max
                 ? opm__alloc(sizeof(*bigger) + cap * sizeof(struct name_entry))
                 : NULL;
    if (bigger) {
        bigger->cap = cap;
        bigger->older = t;
        for (size_t i = 0; t && i < t->cap; i++) {
            uint64_t tag_id = atomic_load_explicit(&t->entry[i].tag_id, memory_order_relaxed);
            struct hash128 h = { atomic_load_explicit(&t->entry[i].hash, memory_order_relaxed),
                                 tag_id };

            if (tag_id)
                names_put(bigger, h, (uint32_t)(tag_id & ~TAG_MASK));
        }
        atomic_store_explicit(&r->names, bigger, memory_order_release);
        return bigger;
    }
    if (t) {
        for (size_t i = 0; i < t->cap; i++)
            atomic_store_explicit(&t->entry[i].tag_id, 0, memory_order_release);
        t->n = 0;
    }
    return t;
}

void opm__define_release(struct recorder *r)
{
    struct name_table *t = atomic_load_explicit(&r->names, memory_order_relaxed), *older;

    for (; t; t = older) {
        older = t->older;
        opm__free(t);
    }
    atomic_store_explicit(&r->names, NULL, memory_order_relaxed);
}

static bool list_has(const char *list, const char *word, size_t len)
{
    for (const char *p = list; *p; p += strcspn(p, ","), p += *p == ',')
        if (strcspn(p, ",") == len && memcmp(p, word, len) == 0)
            return true;
    return false;
}

bool opm__category_on(const struct recorder *r, const char *category)
{
    char minus[128];
    size_t len = category ? strlen(category) : 0;

    if (!r->categories || !len)
        return true;
    if (r->categories[0] != '-')
        return list_has(r->categories, category, len);
    if (len + 1 > sizeof(minus))
        return true;
    minus[0] = '-';
    memcpy(minus + 1, category, len);
    return !list_has(r->categories, minus, len + 1);
}

/* Items longer than a block, and all of them when no block is free, go straight to the file. */
static void item_direct(struct recorder *r, const uint8_t *head, size_t head_len, const uint8_t *p,
                        size_t len)
{
    uint8_t *all = opm__alloc(head_len + len);
    struct opm_chunk chunk = {
        .kind = CHUNK_DEFS, .size = (uint32_t)(head_len + len), .seq = r->defs_seq++, .nblock = 1
    };

    if (!all) {
        atomic_fetch_add_explicit(&r->lost_other, 1, memory_order_relaxed);
        return;
    }
    memcpy(all, head, head_len);
    memcpy(all + head_len, p, len);
    if (!opm__write_chunk(r, chunk, all))
        atomic_fetch_add_explicit(&r->lost_other, 1, memory_order_relaxed);
    opm__free(all);
}

void opm__define_item(struct recorder *r, uint32_t kind, const uint8_t *p, size_t len)
{
    uint8_t head[2 * VARINT_MAX], *end = varint_put(varint_put(head, kind), len);
    size_t head_len = (size_t)(end - head);
    struct opm_block_header *b;

    if (r->defs_block != OPM_NO_BLOCK) {
        b = recorder_block(r, r->defs_block);
        if (OPM_BLOCK_BYTES - r->defs_used < head_len + len) {
            __atomic_store_n(&b->state, BLOCK_FULL, __ATOMIC_RELEASE);
            opm__block_submit(r, r->defs_block);
            r->defs_block = OPM_NO_BLOCK;
        }
    }
    if (head_len + len <= OPM_BLOCK_BYTES && r->defs_block == OPM_NO_BLOCK) {
        r->defs_block = opm__block_take(r, NULL);
        if (r->defs_block != OPM_NO_BLOCK) {
            b = recorder_block(r, r->defs_block);
            b->thread = 0;
            b->seq = r->defs_seq++;
            r->defs_used = 0;
            __atomic_store_n(&b->used, 0, __ATOMIC_RELAXED);
            __atomic_store_n(&b->state, BLOCK_FILLING, __ATOMIC_RELEASE);
        }
    }
    if (r->defs_block == OPM_NO_BLOCK || head_len + len > OPM_BLOCK_BYTES) {
        item_direct(r, head, head_len, p, len);
        return;
    }
    b = recorder_block(r, r->defs_block);
    memcpy(block_bytes(b) + r->defs_used, head, head_len);
    memcpy(block_bytes(b) + r->defs_used + head_len, p, len);
    r->defs_used += (uint32_t)(head_len + len);
    __atomic_store_n(&b->used, r->defs_used, __ATOMIC_RELEASE);
}

/* A new id, or the last one for ever when they are used up. */
static uint32_t next_id(struct recorder *r)
{
    if (r->next_id < OPM_ID_MAX)
        return r->next_id++;
    return OPM_ID_MAX;
}

static size_t capped(size_t len)
{
    return len < NAME_MAX_BYTES ? len : NAME_MAX_BYTES;
}

/* An item of `before`, a string and `after`, in one piece. */
static void item_string(struct recorder *r, uint32_t kind, const uint8_t *before, size_t nbefore,
                        const char *str, size_t len, const uint8_t *after, size_t nafter)
{
    uint8_t small[512], *item = small, *p;
    size_t need = nbefore + VARINT_MAX + len + nafter;

    if (need > sizeof(small))
        item = opm__alloc(need);
    if (!item) {
        atomic_fetch_add_explicit(&r->lost_other, 1, memory_order_relaxed);
        return;
    }
    memcpy(item, before, nbefore);
    p = varint_put(item + nbefore, len);
    if (len)
        memcpy(p, str, len);
    p += len;
    if (nafter)
        memcpy(p, after, nafter);
    opm__define_item(r, kind, item, (size_t)(p - item) + nafter);
    if (item != small)
        opm__free(item);
}

/* ITEM_SITE. `tail` is what the role adds. */
static uint32_t item_site(struct recorder *r, uint32_t role, uint32_t layer, const char *category,
                          const char *name, size_t len, const uint8_t *tail, size_t ntail)
{
    uint32_t id = next_id(r);
    size_t ncat = category ? capped(strlen(category)) : 0;
    uint8_t head[3 * VARINT_MAX], *p = varint_put(head, id);
    uint8_t small[256], *after = small, *q;

    if (id == OPM_ID_MAX) {
        name = "(too many names)";
        len = strlen(name);
    }
    p = varint_put(p, role);
    p = varint_put(p, layer);
    if (VARINT_MAX + ncat + ntail > sizeof(small))
        after = opm__alloc(VARINT_MAX + ncat + ntail);
    if (!after) {
        atomic_fetch_add_explicit(&r->lost_other, 1, memory_order_relaxed);
        return id;
    }
    q = varint_put(after, category ? ncat + 1 : 0);
    if (ncat)
        memcpy(q, category, ncat);
    q += ncat;
    if (ntail)
        memcpy(q, tail, ntail);
    item_string(r, ITEM_SITE, head, (size_t)(p - head), name, capped(len), after,
                (size_t)(q - after) + ntail);
    if (after != small)
        opm__free(after);
    return id;
}

/* The id that the site has in this recording already, or 0. */
static uint32_t cached_id(const struct recorder *r, const opm_site *site)
{
    uint64_t cache = __atomic_load_n(&site->cache, __ATOMIC_RELAXED);

    return cache >> 32 == atomic_load_explicit(&r->generation, memory_order_relaxed)
               ? (uint32_t)cache
               : 0;
}

static uint32_t define_locked(struct recorder *r, opm_site *site);

/* An operator is described with its forward site; those of other phases refer to that one. */
static uint32_t define_op(struct recorder *r, opm_site *site, uint32_t phase)
{
    opm_op *op = site_op(site);
    uint32_t forward = phase ? define_locked(r, &op->site[0]) : 0, id;
    uint32_t generation = atomic_load_explicit(&r->generation, memory_order_relaxed);
    size_t len = forward ? 0 : op->description_len;
    uint8_t *tail = opm__alloc(1 + 2 * VARINT_MAX + len), *p;

    if (!tail)
        return 0;
    tail[0] = (uint8_t)phase;
    p = varint_put(tail + 1, forward);
    if (!forward)
        p = varint_put(p, op->replaces >> 32 == generation ? (uint32_t)op->replaces : 0);
    memcpy(p, op->description, len);
    id = item_site(r, ROLE_OP, site->layer, site->category, site->name, strlen(site->name), tail,
                   (size_t)(p - tail) + len);
    opm__free(tail);
    return id;
}

/* Under lock. 0: filtered out, or out of memory. */
static uint32_t define_locked(struct recorder *r, opm_site *site)
{
    uint32_t role = __atomic_load_n(&site->role, __ATOMIC_RELAXED), id = cached_id(r, site);
    const uint8_t *tail = NULL;
    size_t ntail = 0;

    if (id)
        return id == UINT32_MAX ? 0 : id;
    if (!site->name || !opm__category_on(r, site->category))
        return 0;
    if ((role & 0xff) == ROLE_OP) {
        id = define_op(r, site, role >> 8);
    } else {
        if (role == ROLE_QUEUE) {
            tail = site_queue(site)->description;
            ntail = site_queue(site)->description_len;
        } else if (role & ROLE_DESCRIBED) {
            tail = site_gauge(site)->description;
            ntail = site_gauge(site)->description_len;
        }
        id = item_site(r, role & 0xff, site->layer, site->category, site->name, strlen(site->name),
                       tail, ntail);
    }
    if (id)
        __atomic_store_n(
            &site->cache,
            (uint64_t)atomic_load_explicit(&r->generation, memory_order_relaxed) << 32 | id,
            __ATOMIC_RELAXED);
    return id;
}

uint32_t opm__define_site(opm_site *site)
{
    struct recorder *r = &opm__recorder;
    struct guard g;
    uint32_t id;

    opm__lock(&r->lock, &g);
    id = define_locked(r, site);
    opm__unlock(&r->lock, &g);
    return id;
}

/* Kinds of names in the table; strings have one of their own beside the roles. */
#define KIND_STRING 0x100u

static uint32_t define_hashed(uint32_t kind, uint32_t layer, const char *category, const char *name,
                              size_t len)
{
    struct recorder *r = &opm__recorder;
    struct hash128 h = hash_name(kind << 8 | layer, category, name, capped(len));
    uint32_t id = names_find(atomic_load_explicit(&r->names, memory_order_acquire), h);
    struct name_table *t;
    struct guard g;

    if (id)
        return id;
    opm__lock(&r->lock, &g);
    id = names_find(atomic_load_explicit(&r->names, memory_order_relaxed), h);
    if (!id) {
        if (kind == KIND_STRING) {
            uint8_t head[VARINT_MAX];

            id = next_id(r);
            item_string(r, ITEM_STRING, head, (size_t)(varint_put(head, id) - head), name,
                        capped(len), NULL, 0);
        } else {
            id = item_site(r, kind, layer, category, name, len, NULL, 0);
        }
        t = names_room(r);
        if (t && id != OPM_ID_MAX)
            names_put(t, h, id);
    }
    opm__unlock(&r->lock, &g);
    return id;
}

uint32_t opm__define_named(uint32_t role, uint32_t layer, const char *category, const char *name,
                           size_t len)
{
    if (!opm__category_on(&opm__recorder, category))
        return 0;
    return define_hashed(role, layer, category, name, len);
}

uint32_t opm__define_string(const char *str, size_t len)
{
    return define_hashed(KIND_STRING, 0, NULL, str, len);
}

/* The track's id in this recording; 0: out of memory. */
uint32_t opm__define_track(opm_track *t)
{
    struct recorder *r = &opm__recorder;
    uint64_t generation = atomic_load_explicit(&r->generation, memory_order_relaxed);
    uint64_t cache = __atomic_load_n(&t->cache, __ATOMIC_RELAXED);
    uint8_t *item, *p;
    struct guard g;

    if (cache >> 32 == generation)
        return (uint32_t)cache;
    opm__lock(&r->lock, &g);
    item = opm__alloc(VARINT_MAX + t->description_len);
    if (!item) {
        opm__unlock(&r->lock, &g);
        return 0;
    }
    cache = __atomic_load_n(&t->cache, __ATOMIC_RELAXED);
    if (cache >> 32 != generation) {
        cache = generation << 32 | next_id(r);
        p = varint_put(item, (uint32_t)cache);
        memcpy(p, t->description, t->description_len);
        opm__define_item(r, ITEM_TRACK, item, (size_t)(p - item) + t->description_len);
        __atomic_store_n(&t->cache, cache, __ATOMIC_RELAXED);
    }
    opm__free(item);
    opm__unlock(&r->lock, &g);
    return (uint32_t)cache;
}

void opm__define_thread(struct recorder *r, uint32_t serial, int tid, const char *name)
{
    size_t len = name ? capped(strlen(name)) : 0;
    uint8_t head[2 * VARINT_MAX], *p = varint_put(varint_put(head, serial), (uint64_t)tid);

    item_string(r, ITEM_THREAD, head, (size_t)(p - head), name, len, NULL, 0);
}

void opm__define_meta(struct recorder *r, const char *key, const char *value)
{
    const char *told = redact_hides(r->redact, key) ? REDACT_TEXT : value;
    size_t nkey = capped(strlen(key)), nvalue = capped(strlen(told));
    uint8_t *head = opm__alloc(VARINT_MAX + nkey), *p;

    if (!head) {
        atomic_fetch_add_explicit(&r->lost_other, 1, memory_order_relaxed);
        return;
    }
    p = varint_put(head, nkey);
    memcpy(p, key, nkey);
    item_string(r, ITEM_META, head, (size_t)(p - head) + nkey, told, nvalue, NULL, 0);
    opm__free(head);
}

void opm__define_calibration(struct recorder *r, const struct opm_calibration *c)
{
    opm__define_item(r, ITEM_CALIBRATION, (const uint8_t *)c, sizeof(*c));
}

void opm_meta(const char *key, const char *value)
{
    struct guard g;

    if (!key || !value || !opm__slow_enter())
        return;
    opm__lock(&opm__recorder.lock, &g);
    opm__define_meta(&opm__recorder, key, value);
    opm__unlock(&opm__recorder.lock, &g);
    opm__slow_leave();
}
