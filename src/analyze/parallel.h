/* parallel.h -- run a function on all cores and wait for it. */
#ifndef ANALYZE_PARALLEL_H
#define ANALYZE_PARALLEL_H

#include "base/common.h"

#define PARALLEL_MAX 16

/* Threads worth using for n cheap items: 1 while n is small, never more than PARALLEL_MAX. */
int parallel_width(size_t n);
/* Call work(user, i) for every i < width, each at most once at a time on its own thread where one
 * can be had, else in turn on this one. Returns when all are done; cannot fail. */
void parallel_run(int width, void (*work)(void *user, int i), void *user);

/* Where the i-th of width even parts of n items begins; the last ends where part `width` begins. */
static inline size_t parallel_slice(size_t n, int width, int i)
{
    return n / (size_t)width * (size_t)i + MIN(n % (size_t)width, (size_t)i);
}

#endif
