/* alloc.c -- see alloc.h. */
#include "base/alloc.h"

#include "base/budget.h"
#include "base/scratch.h"
#include "base/system.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* What is smaller is not worth pages of a file. Blocks of an arena are as large as this. */
#define SCRATCH_FROM_BYTES ((size_t)1 << 20)

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

/* Half of the memory that may be taken is left to what is small. */
static bool goes_to_scratch(const struct budget *b, size_t bytes)
{
    return UNLIKELY(b != NULL) && b->scratch && bytes >= SCRATCH_FROM_BYTES &&
           bytes <= PTRDIFF_MAX && budget_memory_used(b) + bytes > b->limits.memory / 2;
}

static void *from_scratch(struct budget *b, size_t size)
{
    void *p = scratch_map(b->scratch, size);

    if (!p)
        budget_met(b, BUDGET_SCRATCH);
    return p;
}

static void *charged(struct budget *b, void *p)
{
    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, (int64_t)block_size(p));
    return p;
}

void *mem_alloc(size_t size)
{
    struct budget *b = budget_current();

    if (fails_now())
        return NULL;
    if (goes_to_scratch(b, size))
        return from_scratch(b, size);
    return is_allowed(b, size) ? charged(b, block_alloc(size ? size : 1)) : NULL;
}

void *mem_calloc(size_t n, size_t size)
{
    struct budget *b = budget_current();
    size_t bytes;

    if (fails_now() || __builtin_mul_overflow(n, size, &bytes))
        return NULL;
    if (goes_to_scratch(b, bytes))
        return from_scratch(b, bytes);
    return is_allowed(b, bytes) ? charged(b, block_calloc(bytes ? bytes : 1)) : NULL;
}

/* p, of ordinary memory, moves to the file. */
static void *moved_to_scratch(struct budget *b, void *p, size_t size)
{
    void *q = from_scratch(b, size);

    if (q && p) {
        memcpy(q, p, MIN(block_size(p), size));
        mem_free(p);
    }
    return q;
}

void *mem_realloc(void *p, size_t size)
{
    struct budget *b = budget_current();
    size_t before = 0;
    void *q;

    if (fails_now())
        return NULL;
    if (scratch_is(p, &before))
        return scratch_resize(p, size);
    before = b && p ? block_size(p) : 0;
    if (size > before && goes_to_scratch(b, size))
        return moved_to_scratch(b, p, size);
    if (size > before && !is_allowed(b, size - before))
        return NULL;
    q = block_realloc(p, size ? size : 1);
    if (UNLIKELY(b != NULL) && q)
        budget_allocated(b, (int64_t)block_size(q) - (int64_t)before);
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

    if (scratch_unmap(p))
        return;
    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, -(int64_t)block_size(p));
    block_free(p);
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

void *mem_map(size_t size)
{
    struct budget *b = budget_current();
    void *p;

    if (fails_now() || size > PTRDIFF_MAX - PAGES_SLACK_BYTES)
        return NULL;
    if (goes_to_scratch(b, size))
        return from_scratch(b, size);
    if (!is_allowed(b, pages_bytes(size)))
        return NULL;
    p = pages_map(size);
    if (UNLIKELY(b != NULL) && p)
        budget_allocated(b, (int64_t)pages_bytes(size));
    return p;
}

void *mem_map_resize(void *p, size_t old_size, size_t new_size)
{
    struct budget *b = budget_current();
    size_t before = pages_bytes(old_size), after;
    void *q;

    if (!p)
        return mem_map(new_size);
    if (fails_now() || new_size > PTRDIFF_MAX - PAGES_SLACK_BYTES)
        return NULL;
    if (scratch_is(p, &after))
        return scratch_resize(p, new_size);
    after = pages_bytes(new_size);
    if (after > before && goes_to_scratch(b, new_size)) {
        q = from_scratch(b, new_size);
        if (q) {
            memcpy(q, p, MIN(old_size, new_size));
            mem_unmap(p, old_size);
        }
        return q;
    }
    if (after > before && !is_allowed(b, after - before))
        return NULL;
    q = pages_resize(p, old_size, new_size);
    if (UNLIKELY(b != NULL) && q)
        budget_allocated(b, (int64_t)after - (int64_t)before);
    return q;
}

void mem_unmap(void *p, size_t size)
{
    struct budget *b = budget_current();

    if (!p || scratch_unmap(p))
        return;
    if (UNLIKELY(b != NULL))
        budget_allocated(b, -(int64_t)pages_bytes(size));
    pages_unmap(p, size);
}
