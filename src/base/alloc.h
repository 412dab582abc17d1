/* alloc.h -- every allocation of the libraries goes through here, so that tests can make each fail
 * and that the budget of a reading (base/budget.h) covers it.
 *
 * Not used by rec/, which allocates from its file mapping and a few plain mallocs. */
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include "base/common.h"

void *mem_alloc(size_t size);            /* NULL on failure; size 0 gives a unique pointer */
void *mem_calloc(size_t n, size_t size); /* NULL on failure or overflow */
void *mem_realloc(void *p, size_t size);
char *mem_strdup(const char *s);
void mem_free(void *p); /* NULL is fine */

/* Grow `arr` to hold `need` elements, at least doubling. False, arr intact, if it is impossible. */
bool mem_grow(void *parr, size_t *cap, size_t need, size_t elem);
#define GROW(arr, cap, need) mem_grow(&(arr), &(cap), (need), sizeof(*(arr)))

/* Big zeroed arrays straight from the kernel, in huge pages where it has them: first touch of
 * ordinary pages would dominate opening a large trace. Free with the same size. Counts as an
 * allocation. */
void *mem_map(size_t size);
void *mem_map_resize(void *p, size_t old_size, size_t new_size); /* NULL, p intact, on failure */
void mem_unmap(void *p, size_t size);

/* Test hook: the nth allocation from now fails (1 = the next); 0 switches it off. Not for
 * concurrent use. mem_alloc_failed() tells whether the failure was delivered. */
void mem_fail_at(long n);
bool mem_alloc_failed(void);

#endif
