/* pool.h -- a fixed set of threads that share the work of one operator at a time.
 *
 * Work is cut into one contiguous share per thread (fewer if they would be smaller than the grain)
 * and each share into a few parts. A thread does its own share in order and then helps with what
 * others have not begun: a thread that is late, asleep or not running holds nobody up. Kernels
 * write each output element from one part only and in an order that does not depend on the cut:
 * results are the same for every number of threads. */
#ifndef NATIVE_POOL_H
#define NATIVE_POOL_H

#include "base/common.h"

#include <opmeter/opmeter_error.h>

#define POOL_THREADS_MAX 256

struct pool;

/* Do [begin, end) of the work; thread is 0 .. pool_threads() - 1. */
typedef void pool_fn(void *arg, int64_t begin, int64_t end, int thread);

/* threads counts the caller of pool_for(), which works too; 0: one per core. pin binds thread k to
 * core first_core + k of those that this process may use; the caller is not bound. */
int pool_open(struct pool **out, int threads, bool pin, int first_core, opm_error *err);
void pool_close(struct pool *p); /* NULL is fine */
int pool_threads(const struct pool *p);
/* Call fn on all of [0, n), at least grain at a time, and wait. Not from within fn, and from one
 * thread at a time. Two calls of fn with the same thread never overlap. */
void pool_for(struct pool *p, int64_t n, int64_t grain, pool_fn *fn, void *arg);
/* From now on ask look(user) now and then while pool_for() works, in the thread that called it,
 * also in the middle of long parts. Once it says nonzero, all that is not yet begun is left undone,
 * and so is all of later jobs, until the next call of this: whoever is asked must remember that
 * results are worth nothing. NULL: ask nobody. */
void pool_watch(struct pool *p, int (*look)(void *user), void *user);

/* Work that takes less than this is not worth another thread: handing a job over takes some 0.2 us
 * while workers spin. */
#define POOL_GRAIN_NS 1500

/* The grain for items of ns nanoseconds each on one thread. */
static inline int64_t pool_grain(double ns)
{
    return ns >= POOL_GRAIN_NS ? 1 : (int64_t)(POOL_GRAIN_NS / MAX(ns, 1e-3));
}

#endif
