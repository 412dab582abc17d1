/* alloc.c -- see alloc.h. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

/* Huge pages are 2 MiB here; below two of them the alignment slack is not worth having. */
#define HUGE_BYTES ((size_t)2 << 20)
#define HUGE_FROM_BYTES ((size_t)4 << 20)

/* Allocations left until the failing one; 0 is off. Atomic only so that threads of a program under
 * fault injection do not race; relaxed, so that the normal path is one load and one branch. */
static atomic_long fail_countdown;
static atomic_bool fail_delivered;

static bool fails_now(void)
{
    if (LIKELY(atomic_load_explicit(&fail_countdown, memory_order_relaxed) == 0))
        return false;
    if (atomic_fetch_sub_explicit(&fail_countdown, 1, memory_order_relaxed) != 1)
        return false;
    atomic_store_explicit(&fail_delivered, true, memory_order_relaxed);
    return true;
}

void mem_fail_at(long n)
{
    atomic_store_explicit(&fail_delivered, false, memory_order_relaxed);
    atomic_store_explicit(&fail_countdown, n, memory_order_relaxed);
}

bool mem_alloc_failed(void)
{
    return atomic_load_explicit(&fail_delivered, memory_order_relaxed);
}

void *mem_alloc(size_t size)
{
    if (fails_now())
        return NULL;
    return malloc(size ? size : 1);
}

void *mem_calloc(size_t n, size_t size)
{
    if (fails_now())
        return NULL;
    return n && size ? calloc(n, size) : calloc(1, 1);
}

void *mem_realloc(void *p, size_t size)
{
    if (fails_now())
        return NULL;
    return realloc(p, size ? size : 1);
}

char *mem_strdup(const char *s)
{
    size_t size = strlen(s) + 1;
    char *copy = mem_alloc(size);

    if (copy)
        memcpy(copy, s, size);
    return copy;
}

void mem_free(void *p)
{
    free(p);
}

bool mem_grow(void *parr, size_t *cap, size_t need, size_t elem)
{
    size_t max = PTRDIFF_MAX / elem;
    size_t want;
    void *p;

    if (need <= *cap)
        return true;
    if (need > max)
        return false;
    want = MAX(need, MAX((size_t)8, *cap <= max / 2 ? *cap * 2 : max));
    memcpy(&p, parr, sizeof(p)); /* a void ** would alias a T ** */
    p = mem_realloc(p, want * elem);
    if (!p)
        return false;
    memcpy(parr, &p, sizeof(p));
    *cap = want;
    return true;
}

/* Address space for size bytes that starts on a huge page, so that no part of it is left to small
 * pages and moving it later moves whole huge pages. NULL on failure. */
static void *map_aligned(size_t size, int prot)
{
    size_t span, before, after;
    char *p;

    if (size > SIZE_MAX - HUGE_BYTES)
        return NULL;
    span = size + HUGE_BYTES;
    p = mmap(NULL, span, prot, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)p & (HUGE_BYTES - 1);
    after = (HUGE_BYTES - before) & ~(size_t)4095;
    if (before)
        munmap(p, before);
    if (after)
        munmap(p + span - after, after);
    return p + before;
}
