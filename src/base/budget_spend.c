/* budget_spend.c -- what every allocation needs of budget.h, and nothing else: alloc.c is also
 * linked where nothing is read. */
#include "base/budget.h"

static _Thread_local struct budget *current;

struct budget *budget_enter(struct budget *b)
{
    struct budget *before = current;

    current = b;
    return before;
}

struct budget *budget_current(void)
{
    return current;
}

bool budget_met(struct budget *b, enum budget_over what)
{
    int kept = BUDGET_KEPT;

    atomic_compare_exchange_strong(&b->over, &kept, (int)what);
    return false;
}

uint64_t budget_memory_used(const struct budget *b)
{
    int64_t used = atomic_load_explicit(&b->memory, memory_order_relaxed);

    return (uint64_t)MAX(used, 0);
}

bool budget_has_memory(struct budget *b, size_t bytes)
{
    return bytes <= INT64_MAX && budget_memory_used(b) + bytes <= b->limits.memory
               ? true
               : budget_met(b, BUDGET_MEMORY);
}

void budget_allocated(struct budget *b, int64_t bytes)
{
    atomic_fetch_add_explicit(&b->memory, bytes, memory_order_relaxed);
}
