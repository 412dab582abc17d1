/* memory.c -- see memory.h. */
#include "engine/native/memory.h"

#include "base/alloc.h"

#include <string.h>

/* Before each block: where it begins, and its size if it was mapped, else 0. */
struct block_head {
    void *begin;
    size_t mapped;
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

/* Blocks from here on come in huge pages: they are filled and read in far less time. */
#define MAP_FROM_BYTES ((size_t)4 << 20)

void *native_alloc(size_t bytes)
{
    struct block_head head = { 0 };
    size_t room = bytes + NATIVE_ALIGN + sizeof(head);
    char *q;

    if (bytes > PTRDIFF_MAX - 2 * NATIVE_ALIGN)
        return NULL;
    head.to = budget_now;
    if (head.to && room > (size_t)MAX(head.to->left, (int64_t)0)) {
        head.to->refused = bytes;
        return NULL;
    }
    head.mapped = room >= MAP_FROM_BYTES ? room : 0;
    head.begin = head.mapped ? mem_map(room) : mem_alloc(room);
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

void native_free(void *q)
{
    struct block_head head;

    if (!q)
        return;
    memcpy(&head, (char *)q - sizeof(head), sizeof(head));
    if (head.to)
        head.to->left += (int64_t)head.charged;
    if (head.mapped)
        mem_unmap(head.begin, head.mapped);
    else
        mem_free(head.begin);
}
