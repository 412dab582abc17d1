/* pool.c -- see pool.h.
 *
 * The caller publishes a job by increasing `generation`; workers wait for that, first spinning (an
 * operator usually follows the last one within microseconds), then parked on a condition. Each
 * worker that has finished decreases `busy`, for which the caller spins, yields, and never parks:
 * it has just finished a part of the same size. */
#include "engine/native/pool.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* About 20 us of pauses: longer than the gap between operators, short for who shares the core. */
#define SPIN_WORKER 1000
#define SPIN_CALLER 2000

struct worker {
    struct pool *pool;
    pthread_t thread;
    int index;
};

struct pool {
    int threads;
    bool stop; /* under lock */
    struct worker *worker;
    int started;
    pool_fn *fn;
    void *arg;
    int64_t n;
    int parts;
    char apart[64]; /* what the caller writes and what workers write, on lines of their own */
    atomic_uint generation;
    char apart2[64];
    atomic_int busy;
    atomic_int parked; /* workers asleep or about to be; under lock but for the caller's look */
    pthread_mutex_t lock;
    pthread_cond_t wake;
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void do_part(struct pool *p, int part)
{
    int64_t begin = p->n / p->parts * part + MIN((int64_t)part, p->n % p->parts);
    int64_t end = begin + p->n / p->parts + (part < p->n % p->parts);

    p->fn(p->arg, begin, end, part);
}

/* Wait until generation is not `last`; false: stop. */
static bool wait_job(struct pool *p, unsigned last)
{
    bool stop;

    for (int i = 0; i < SPIN_WORKER; i++) {
        if (atomic_load_explicit(&p->generation, memory_order_acquire) != last)
            return true;
        relax();
    }
    pthread_mutex_lock(&p->lock);
    atomic_fetch_add(&p->parked, 1);
    while (atomic_load(&p->generation) == last && !p->stop)
        pthread_cond_wait(&p->wake, &p->lock);
    atomic_fetch_sub(&p->parked, 1);
    stop = p->stop;
    pthread_mutex_unlock(&p->lock);
    return !stop;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned last = 0;

    while (wait_job(p, last)) {
        last = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (w->index < p->parts)
            do_part(p, w->index);
        atomic_fetch_sub_explicit(&p->busy, 1, memory_order_release);
    }
    return NULL;
}

static int cores(cpu_set_t *set)
{
    if (sched_getaffinity(0, sizeof(*set), set) < 0) {
        CPU_ZERO(set);
        return (int)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
    }
    return MAX(CPU_COUNT(set), 1);
}

/* The kth core of those allowed, counted round. */
static void pin_thread(pthread_t t, const cpu_set_t *allowed, int k)
{
    int n = CPU_COUNT(allowed), seen = 0;
    cpu_set_t one;

    if (n == 0)
        return;
    k %= n;
    for (int c = 0; c < CPU_SETSIZE; c++)
        if (CPU_ISSET(c, allowed) && seen++ == k) {
            CPU_ZERO(&one);
            CPU_SET(c, &one);
            pthread_setaffinity_np(t, sizeof(one), &one);
            return;
        }
}

int pool_open(struct pool **out, int threads, bool pin, int first_core, opm_error *err)
{
    cpu_set_t allowed;
    int ncore = cores(&allowed);
    struct pool *p;

    if (threads < 0 || threads > POOL_THREADS_MAX || first_core < 0)
        return opm__fail(err, OPM_EINVAL, "native engine: %d threads from core %d on", threads,
                         first_core);
    p = mem_calloc(1, sizeof(*p));
    if (!p)
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    p->threads = threads ? threads : MIN(ncore, POOL_THREADS_MAX);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->wake, NULL);
    p->worker = mem_calloc((size_t)p->threads, sizeof(*p->worker));
    if (!p->worker) {
        pool_close(p);
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    }
    for (int i = 1; i < p->threads; i++) {
        struct worker *w = &p->worker[i];
        int rc;

        w->pool = p;
        w->index = i;
        rc = pthread_create(&w->thread, NULL, work, w);
        if (rc) {
            pool_close(p);
            return opm__fail(err, OPM_EIO, "native engine: cannot start thread %d of %d: %s", i + 1,
                             threads, strerror(rc));
        }
        p->started++;
        if (pin)
            pin_thread(w->thread, &allowed, first_core + i);
    }
    *out = p;
    return 0;
}

void pool_close(struct pool *p)
{
    if (!p)
        return;
    pthread_mutex_lock(&p->lock);
    p->stop = true;
    p->parts = 0; /* whoever still spins finds a job without parts */
    atomic_fetch_add(&p->generation, 1);
    pthread_cond_broadcast(&p->wake);
    pthread_mutex_unlock(&p->lock);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->worker[i].thread, NULL);
    pthread_cond_destroy(&p->wake);
    pthread_mutex_destroy(&p->lock);
    mem_free(p->worker);
    mem_free(p);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_for(struct pool *p, int64_t n, int64_t grain, pool_fn *fn, void *arg)
{
    int64_t parts = MIN((int64_t)p->threads, n / MAX(grain, (int64_t)1));

    if (n <= 0)
        return;
    if (parts <= 1) {
        fn(arg, 0, n, 0);
        return;
    }
    p->fn = fn;
    p->arg = arg;
    p->n = n;
    p->parts = (int)parts;
    atomic_store_explicit(&p->busy, p->threads - 1, memory_order_relaxed);
    atomic_fetch_add(&p->generation, 1); /* publishes the above */
    if (atomic_load(&p->parked)) {
        pthread_mutex_lock(&p->lock);
        pthread_cond_broadcast(&p->wake);
        pthread_mutex_unlock(&p->lock);
    }
    do_part(p, 0);
    for (int i = 0; atomic_load_explicit(&p->busy, memory_order_acquire) > 0; i++) {
        if (i < SPIN_CALLER)
            relax();
        else
            sched_yield();
    }
}
