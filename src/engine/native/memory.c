/* memory.c -- see memory.h. */
#include "engine/native/memory.h"

#include "base/alloc.h"

#include <pthread.h>
#include <string.h>

/* Before each block: where it begins, and its size if it was mapped, else 0; or the shelf that it
 * is on. */
struct block_head {
    void *begin;
    size_t mapped;
    struct shelf *shelf;
    size_t charged;
    struct budget *to;
};

static _Thread_local struct budget *budget_now;

struct budget *budget_use(struct budget *b)
{
    struct budget *before = budget_now;

    budget_now = b && b->most ? b : NULL;
    return before;
}

struct keep_block { /* at its beginning; pieces from NATIVE_ALIGN on */
    struct keep_block *before;
    size_t size;
};

static void blocks_free(struct keep_block *b)
{
    while (b) {
        struct keep_block *before = b->before;

        native_free(b);
        b = before;
    }
}

static void spares_free(struct keep *h)
{
    struct keep_block *b = h->spare;

    h->spare = NULL;
    blocks_free(b);
}

/* Blocks from here on come in huge pages: they are filled and read in far less time. */
#define MAP_FROM_BYTES ((size_t)4 << 20)
/* Smaller ones that are read again and again share shelves of so many bytes, if they are not so
 * small that the rest of a huge page is worth more. */
#define SHELF_BYTES ((size_t)16 << 20)
#define SHELF_FROM_BYTES ((size_t)256 << 10)

/* At the beginning of its bytes. It goes back with the last block that is on it. */
struct shelf {
    size_t used;
    size_t blocks;
};

static pthread_mutex_t shelves = PTHREAD_MUTEX_INITIALIZER;
static struct shelf *shelf_open; /* that the next block comes from */

/* From the shelf that is open, or from a new one. */
static char *shelf_take(size_t room, struct shelf **from)
{
    char *p = NULL;

    pthread_mutex_lock(&shelves);
    if (!shelf_open || room > SHELF_BYTES - shelf_open->used) {
        struct shelf *s = mem_map(SHELF_BYTES);

        if (s) {
            *s = (struct shelf){ .used = sizeof(*s) };
            shelf_open = s;
        }
    }
    if (shelf_open && room <= SHELF_BYTES - shelf_open->used) {
        p = (char *)shelf_open + shelf_open->used;
        shelf_open->used += room;
        shelf_open->blocks++;
        *from = shelf_open;
    }
    pthread_mutex_unlock(&shelves);
    return p;
}

static void shelf_give(struct shelf *s)
{
    pthread_mutex_lock(&shelves);
    if (--s->blocks == 0) {
        if (shelf_open == s)
            shelf_open = NULL;
        mem_unmap(s, SHELF_BYTES);
    }
    pthread_mutex_unlock(&shelves);
}

static void *block_alloc(size_t bytes, bool on_shelf)
{
    struct block_head head = { 0 };
    size_t room = bytes + NATIVE_ALIGN + sizeof(head);
    char *q;

    if (bytes > PTRDIFF_MAX - 2 * NATIVE_ALIGN)
        return NULL;
    head.to = budget_now;
    if (head.to && head.to->spare && room > (size_t)MAX(head.to->left, (int64_t)0))
        spares_free(head.to->spare);
    if (head.to && room > (size_t)MAX(head.to->left, (int64_t)0)) {
        head.to->refused = bytes;
        return NULL;
    }
    on_shelf = on_shelf && room >= SHELF_FROM_BYTES && room < MAP_FROM_BYTES;
    if (on_shelf) {
        head.begin = shelf_take(room, &head.shelf);
    } else {
        head.mapped = room >= MAP_FROM_BYTES ? room : 0;
        head.begin = head.mapped ? mem_map(room) : mem_alloc(room);
    }
    if (!head.begin)
        return NULL;
    head.charged = head.to ? room : 0;
    if (head.to)
        head.to->left -= (int64_t)room;
    q = (char *)head.begin + sizeof(head);
    q += (NATIVE_ALIGN - (uintptr_t)q % NATIVE_ALIGN) % NATIVE_ALIGN;
    memcpy(q - sizeof(head), &head, sizeof(head)); /* for native_free() */
    return q;
}

void *native_alloc(size_t bytes)
{
    return block_alloc(bytes, false);
}

void *native_alloc_weights(size_t bytes)
{
    return block_alloc(bytes, true);
}

void native_free(void *q)
{
    struct block_head head;

    if (!q)
        return;
    memcpy(&head, (char *)q - sizeof(head), sizeof(head));
    if (head.to)
        head.to->left += (int64_t)head.charged;
    if (head.shelf)
        shelf_give(head.shelf);
    else if (head.mapped)
        mem_unmap(head.begin, head.mapped);
    else
        mem_free(head.begin);
}

#define HEAP_BLOCK_BYTES ((size_t)64 << 10)
#define SPARES_TRIED 8

/* A spare one that is not much too big, or a new one. */
static struct keep_block *block_of(struct keep *h, size_t size)
{
    struct keep_block **at = &h->spare, *b;

    for (int i = 0; i < SPARES_TRIED && *at; i++, at = &(*at)->before)
        if ((*at)->size >= size && (*at)->size / 2 <= size) {
            b = *at;
            *at = b->before;
            return b;
        }
    b = native_alloc(size);
    if (b)
        b->size = size;
    return b;
}

void *keep_alloc(struct keep *h, size_t bytes)
{
    size_t align = bytes >= NATIVE_ALIGN ? NATIVE_ALIGN : 16, at;

    if (bytes > PTRDIFF_MAX - 2 * HEAP_BLOCK_BYTES)
        return NULL;
    at = (h->used + align - 1) / align * align;
    if (!h->block || at > h->block->size || bytes > h->block->size - at) {
        struct keep_block *b = block_of(h, MAX(HEAP_BLOCK_BYTES, bytes + NATIVE_ALIGN));

        if (!b)
            return NULL;
        b->before = h->block;
        h->block = b;
        at = NATIVE_ALIGN;
    }
    h->used = at + bytes;
    return (char *)h->block + at;
}

void keep_clear(struct keep *h)
{
    struct keep_block *b = h->block, *before;

    spares_free(h);
    for (; b; b = before) { /* the first one first again */
        before = b->before;
        b->before = h->spare;
        h->spare = b;
    }
    h->block = NULL;
    h->used = 0;
}

void keep_release(struct keep *h)
{
    blocks_free(h->block);
    blocks_free(h->spare);
    *h = (struct keep){ 0 };
}
