/* system.h -- what the operating system gives beyond POSIX, so that nobody else has to ask which
 * one it is: system_linux.c, or in a minimal build system_posix.c, which keeps the same promises by
 * other means, or says that it cannot. */
#ifndef BASE_SYSTEM_H
#define BASE_SYSTEM_H

#include "base/common.h"
#include <pthread.h>
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

/* Blocks of memory that know how large they are. */
#ifndef OPMETER_MINIMAL
#include <malloc.h>

static inline void *block_alloc(size_t size)
{
    return malloc(size);
}

static inline void *block_calloc(size_t size)
{
    return calloc(size, 1);
}

static inline void *block_realloc(void *p, size_t size)
{
    return realloc(p, size);
}

static inline size_t block_size(void *p)
{
    return malloc_usable_size(p);
}

static inline void block_free(void *p)
{
    free(p);
}
#else
void *block_alloc(size_t size);
void *block_calloc(size_t size);
void *block_realloc(void *p, size_t size);
size_t block_size(void *p);
void block_free(void *p);
#endif

/* Whole pages of zeros. `bytes` is what a size really takes: a function of size alone, since
 * callers give only that back. NULL: there is no memory; sizes are within PTRDIFF_MAX. */
#define PAGES_SLACK_BYTES ((size_t)4 << 20)
size_t pages_bytes(size_t size);
void *pages_map(size_t size);
void *pages_resize(void *p, size_t old_size, size_t new_size);
void pages_unmap(void *p, size_t size);

/* A file without a name, which goes when it is closed; -1 and errno. */
int system_temporary(const char *folder);
/* The same in memory, where there is such a thing; otherwise in any folder. */
int system_memory_file(const char *name);
/* Room on the disk, so that writing there cannot fail, and giving it back. */
bool system_reserve(int fd, off_t at, size_t bytes);
void system_give_back(int fd, off_t at, size_t bytes);

bool system_random(void *out, size_t bytes);
/* Processors that this process may use; memory of the machine in bytes, 0: not known. */
size_t system_processors(void);
int64_t system_memory(void);
/* Programs that want to run, a mean over the last minute; -1: not known. */
double system_load(void);
/* A pipe that programs that are started do not inherit. */
bool system_pipe(int ends[2]);
/* A stream socket of which the same is true, and that never waits; -1 and errno. */
int system_socket(int family);
/* A condition that is waited for by SYSTEM_WAIT_CLOCK, which nobody sets where there is a choice.
 */
#ifdef __APPLE__
#define SYSTEM_WAIT_CLOCK CLOCK_REALTIME
#else
#define SYSTEM_WAIT_CLOCK CLOCK_MONOTONIC
#endif
void system_wait_init(pthread_cond_t *c);
/* Whether the mutex was had, before so much time (below a second) was over. */
bool system_lock_within(pthread_mutex_t *mutex, long ns);
/* What this thread does is less urgent than the rest, where threads differ in that. */
void system_step_back(int nice);
/* Zeros at this very place, whatever was there; fit for a signal handler. */
bool system_zeros_at(void *place, size_t bytes);

#endif
