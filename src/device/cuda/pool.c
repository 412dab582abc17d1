/* pool.c -- see pool.h. */
#include "device/cuda/pool.h"

#include "base/alloc.h"

#include <pthread.h>
#include <string.h>

#define READY 4 /* made beforehand: CUPTI asks while a launch of the program waits */

static struct {
    pthread_mutex_t lock;
    uint8_t *free[POOL_BUFFERS_MAX];
    size_t nfree;
    size_t nmade;
    size_t max;
    size_t refused;
} pool = { .lock = PTHREAD_MUTEX_INITIALIZER };

void pool_init(size_t max_bytes)
{
    size_t max = max_bytes / POOL_BUFFER_BYTES;

    pthread_mutex_lock(&pool.lock);
    pool.max = MIN(MAX(max, (size_t)2), (size_t)POOL_BUFFERS_MAX);
    pool.refused = 0;
    while (pool.nmade < MIN(pool.max, (size_t)READY)) {
        uint8_t *buffer = mem_alloc(POOL_BUFFER_BYTES);

        if (!buffer)
            break;
        memset(buffer, 0, POOL_BUFFER_BYTES); /* and so the pages are there */
        pool.free[pool.nfree++] = buffer;
        pool.nmade++;
    }
    pthread_mutex_unlock(&pool.lock);
}

uint8_t *pool_take(void)
{
    uint8_t *buffer = NULL;

    pthread_mutex_lock(&pool.lock);
    if (pool.nfree) {
        buffer = pool.free[--pool.nfree];
    } else if (pool.nmade < pool.max) {
        buffer = mem_calloc(1, POOL_BUFFER_BYTES);
        pool.nmade += buffer != NULL;
    }
    pool.refused += !buffer;
    pthread_mutex_unlock(&pool.lock);
    return buffer;
}

void pool_give(uint8_t *buffer, size_t used)
{
    memset(buffer, 0, MIN(used, (size_t)POOL_BUFFER_BYTES));
    pthread_mutex_lock(&pool.lock);
    pool.free[pool.nfree++] = buffer;
    pthread_mutex_unlock(&pool.lock);
}

size_t pool_refused(void)
{
    size_t n;

    pthread_mutex_lock(&pool.lock);
    n = pool.refused;
    pthread_mutex_unlock(&pool.lock);
    return n;
}

void pool_release(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.nmade -= pool.nfree;
    while (pool.nfree)
        mem_free(pool.free[--pool.nfree]);
    pthread_mutex_unlock(&pool.lock);
}
