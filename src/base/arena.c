/* arena.c -- see arena.h.
 *
 * A list of blocks; the head is the one being filled. Blocks come zeroed, so handing out costs
 * nothing but arithmetic. Requests that would waste much of a block get one of their own, behind
 * the head, whose free space stays in use. */
#include "base/arena.h"

#include "base/alloc.h"

#include <string.h>

#define ALIGN 16
#define BLOCK_MIN_BYTES ((size_t)4 << 10)
#define BLOCK_MAX_BYTES ((size_t)1 << 20)

struct arena_block {
    struct arena_block *next;
    size_t used; /* of data */
    size_t cap;
    size_t pad;
    unsigned char data[];
};
static_assert(offsetof(struct arena_block, data) % ALIGN == 0, "data is as aligned as malloc's");

static void *take(struct arena *a, size_t size, size_t align)
{
    struct arena_block *b = a->head;
    size_t at, cap;

    if (b) {
        at = (b->used + align - 1) & ~(align - 1);
        if (at <= b->cap && size <= b->cap - at) {
            b->used = at + size;
            a->used += size;
            return b->data + at;
        }
    }
    if (size > PTRDIFF_MAX - sizeof(*b))
        return NULL;
    cap = b ? MIN(MAX(b->cap * 2, BLOCK_MIN_BYTES), BLOCK_MAX_BYTES) : BLOCK_MIN_BYTES;
    if (size > cap / 4)
        cap = size;
    b = mem_calloc(1, sizeof(*b) + cap);
    if (!b)
        return NULL;
    b->cap = cap;
    b->used = size;
    a->used += size;
    if (cap == size && a->head) {
        b->next = a->head->next;
        a->head->next = b;
    } else {
        b->next = a->head;
        a->head = b;
    }
    return b->data;
}

void *arena_alloc(struct arena *a, size_t size)
{
    return take(a, size ? size : 1, ALIGN);
}

char *arena_strndup(struct arena *a, const char *s, size_t len)
{
    char *copy;

    if (len == SIZE_MAX)
        return NULL;
    copy = take(a, len + 1, 1);
    if (!copy)
        return NULL;
    if (len)
        memcpy(copy, s, len);
    return copy;
}

void arena_release(struct arena *a)
{
    struct arena_block *b = a->head;

    while (b) {
        struct arena_block *next = b->next;

        mem_free(b);
        b = next;
    }
    *a = (struct arena){ 0 };
}
