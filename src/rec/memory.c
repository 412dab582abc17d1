/* memory.c -- memory for what a program may do in a signal handler: malloc() itself may be what the
 * signal has interrupted.
 *
 * Small pieces come from lists by size, large ones straight from the kernel. Pieces of a list never
 * go back to the kernel. */
#include "rec/rec.h"

#include <string.h>
#include <sys/mman.h>

#define SMALLEST_BITS 6
#define CLASSES 7 /* up to 4 KiB */
#define SLAB_BYTES 65536u

struct piece {
    size_t bytes; /* with this */
    struct piece *next;
};

static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct piece *pieces[CLASSES];

static struct piece *map(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    return p == MAP_FAILED ? NULL : p;
}

/* The class of pieces of at least so many bytes; CLASSES: too large for any. */
static unsigned class_of(size_t bytes)
{
    unsigned k = 0;

    while (k < CLASSES && (size_t)1 << (SMALLEST_BITS + k) < bytes)
        k++;
    return k;
}

/* Under memory_lock. */
static void slab_cut(unsigned k)
{
    size_t bytes = (size_t)1 << (SMALLEST_BITS + k);
    uint8_t *slab = (uint8_t *)map(SLAB_BYTES);

    for (size_t at = 0; slab && at < SLAB_BYTES; at += bytes) {
        struct piece *p = (struct piece *)(void *)(slab + at);

        p->next = pieces[k];
        pieces[k] = p;
    }
}

void *opm__alloc(size_t size)
{
    unsigned k = size < SLAB_BYTES ? class_of(size + sizeof(struct piece)) : CLASSES;
    struct piece *p;
    struct guard g;

    if (size > PTRDIFF_MAX - sizeof(*p))
        return NULL;
    if (k == CLASSES) {
        p = map(size + sizeof(*p));
        if (p)
            p->bytes = size + sizeof(*p);
        return p ? p + 1 : NULL;
    }
    opm__lock(&memory_lock, &g);
    if (!pieces[k])
        slab_cut(k);
    p = pieces[k];
    if (p)
        pieces[k] = p->next;
    opm__unlock(&memory_lock, &g);
    if (!p)
        return NULL;
    p->bytes = (size_t)1 << (SMALLEST_BITS + k);
    return memset(p + 1, 0, p->bytes - sizeof(*p));
}

void opm__free(void *memory)
{
    struct piece *p = memory;
    struct guard g;
    unsigned k;

    if (!p)
        return;
    p--;
    k = class_of(p->bytes);
    if (k == CLASSES) {
        munmap(p, p->bytes);
        return;
    }
    opm__lock(&memory_lock, &g);
    p->next = pieces[k];
    pieces[k] = p;
    opm__unlock(&memory_lock, &g);
}

char *opm__alloc_text(const char *s, size_t max)
{
    size_t len = strnlen(s, max);
    char *copy = opm__alloc(len + 1);

    if (copy)
        memcpy(copy, s, len);
    return copy;
}

void opm__memory_hold(void)
{
    pthread_mutex_lock(&memory_lock);
}

void opm__memory_resume(void)
{
    pthread_mutex_unlock(&memory_lock);
}
