/* alloc.c -- see alloc.h. */
#include "base/alloc.h"

#include "base/budget.h"

#include <malloc.h>
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

/* Whether the budget of this thread, if it has one, allows so many bytes more. */
static bool is_allowed(struct budget *b, size_t bytes)
{
    return LIKELY(!b) || budget_has_memory(b, bytes);
}

static void *charged(struct budget *b, void *p)
{
    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, (int64_t)malloc_usable_size(p));
    return p;
}

void *mem_alloc(size_t size)
{
    struct budget *b = budget_current();

    if (fails_now() || !is_allowed(b, size))
        return NULL;
    return charged(b, malloc(size ? size : 1));
}

void *mem_calloc(size_t n, size_t size)
{
    struct budget *b = budget_current();
    size_t bytes;

    if (fails_now() || __builtin_mul_overflow(n, size, &bytes) || !is_allowed(b, bytes))
        return NULL;
    return charged(b, calloc(bytes ? bytes : 1, 1));
}

void *mem_realloc(void *p, size_t size)
{
    struct budget *b = budget_current();
    size_t before = b && p ? malloc_usable_size(p) : 0;
    void *q;

    if (fails_now() || (size > before && !is_allowed(b, size - before)))
        return NULL;
    q = realloc(p, size ? size : 1);
    if (UNLIKELY(b != NULL) && q)
        budget_allocated(b, (int64_t)malloc_usable_size(q) - (int64_t)before);
    return q;
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
    struct budget *b = budget_current();

    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, -(int64_t)malloc_usable_size(p));
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

/* What a mapping of size bytes really takes: a function of size alone, since callers give only that
 * back. The kernel rounds the small ones. */
static size_t map_bytes(size_t size)
{
    if (size < HUGE_FROM_BYTES)
        return size ? size : 1;
    return (size + HUGE_BYTES - 1) & ~(HUGE_BYTES - 1);
}

/* Map bytes (a multiple of HUGE_BYTES) from a huge page boundary on, so that no part is left to
 * small pages and moving it later moves whole huge pages. NULL on failure. */
static void *map_aligned(size_t bytes, int prot)
{
    size_t before;
    char *p = mmap(NULL, bytes + HUGE_BYTES, prot, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (p == MAP_FAILED)
        return NULL;
    before = -(uintptr_t)p & (HUGE_BYTES - 1);
    if (before)
        munmap(p, before);
    munmap(p + before + bytes, HUGE_BYTES - before);
    return p + before;
}

static void *map_some(size_t size)
{
    void *p;

    if (size < HUGE_FROM_BYTES) {
        p = mmap(NULL, map_bytes(size), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        return p == MAP_FAILED ? NULL : p;
    }
    p = map_aligned(map_bytes(size), PROT_READ | PROT_WRITE);
    if (p)
        madvise(p, map_bytes(size), MADV_HUGEPAGE); /* a kernel without them may refuse */
    return p;
}

void *mem_map(size_t size)
{
    struct budget *b = budget_current();
    void *p;

    if (fails_now() || size > PTRDIFF_MAX - 2 * HUGE_BYTES || !is_allowed(b, map_bytes(size)))
        return NULL;
    p = map_some(size);
    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, (int64_t)map_bytes(size));
    return p;
}

/* p is a mapping, new_size within reason. */
static void *map_moved(void *p, size_t old_size, size_t new_size)
{
    size_t old_bytes = map_bytes(old_size), new_bytes;
    void *q, *place;

    new_bytes = map_bytes(new_size);
    if (new_size < HUGE_FROM_BYTES) {
        q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE);
        return q == MAP_FAILED ? NULL : q;
    }
    q = (uintptr_t)p % HUGE_BYTES ? MAP_FAILED : mremap(p, old_bytes, new_bytes, 0);
    if (q == MAP_FAILED) {
        place = map_aligned(new_bytes, PROT_NONE);
        if (!place)
            return NULL;
        /* If this fails the kernel may have dropped `place` already and another thread may own the
         * addresses by now, so it is not unmapped: that would leak address space, no memory. */
        q = mremap(p, old_bytes, new_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
        if (q == MAP_FAILED)
            return NULL;
    }
    madvise(q, new_bytes, MADV_HUGEPAGE);
    return q;
}

void *mem_map_resize(void *p, size_t old_size, size_t new_size)
{
    struct budget *b = budget_current();
    size_t before = map_bytes(old_size), after;
    void *q;

    if (!p)
        return mem_map(new_size);
    if (fails_now() || new_size > PTRDIFF_MAX - 2 * HUGE_BYTES)
        return NULL;
    after = map_bytes(new_size);
    if (after > before && !is_allowed(b, after - before))
        return NULL;
    q = map_moved(p, old_size, new_size);
    if (UNLIKELY(b != NULL) && q)
        budget_allocated(b, (int64_t)after - (int64_t)before);
    return q;
}

void mem_unmap(void *p, size_t size)
{
    struct budget *b = budget_current();

    if (!p)
        return;
    if (UNLIKELY(b != NULL))
        budget_allocated(b, -(int64_t)map_bytes(size));
    munmap(p, map_bytes(size));
}
