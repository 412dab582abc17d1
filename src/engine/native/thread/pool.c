/* pool.c -- see pool.h.
 *
 * The caller publishes a job by setting the shares and then increasing `generation`. Workers wait
 * for that, first spinning (an operator usually follows the last one within microseconds), then
 * asleep. Whoever works claims parts from the shares; the caller waits for the parts that are
 * claimed, never for a worker as such.
 *
 * A share's word holds the job's generation beside the next and the last part, so a claim can
 * succeed only for the job it is meant for. That makes it safe for a late worker to read a job's
 * description while the next one is being written: what it read is used only if a part of that very
 * job was still to be had, and then the next job cannot have been begun. */
#include "engine/native/thread/pool.h"

#include "base/error.h"
#include "engine/native/memory.h"

#include <errno.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* A pause takes some 20 ns. Workers: longer than the gap between operators and between runs in a
 * loop; the caller: about as long as a part that was begun late. */
#define SPIN_WORKER 5000
#define SPIN_CALLER 2000
#define PARTS_PER_SHARE 4
/* Where somebody may want to stop, a part is done in slices that grow until they take this long. */
#define SLICE_NS 5000000

#define WORD(generation, next, end) \
    ((uint64_t)(generation) << 32 | (uint64_t)(next) << 16 | (uint64_t)(end))

struct worker {
    _Alignas(64) _Atomic(uint64_t) share; /* generation:32, next part:16, end:16 */
    struct pool *pool;
    pthread_t thread;
    int index;
};

/* What the caller writes, what workers write and what both look at have lines of their own. */
struct pool {
    int threads;
    int spin; /* pauses before a worker sleeps */
    struct worker *worker;
    int started;
    _Alignas(64) _Atomic(pool_fn *) fn;
    _Atomic(void *) arg;
    _Atomic int64_t n, grain;
    atomic_int parts;
    atomic_bool stop;
    atomic_bool watched, given_up;
    int (*look)(void *user); /* the caller's alone */
    void *look_user;
    _Alignas(64) atomic_uint generation;
    atomic_int asleep;            /* workers that sleep or are about to */
    _Alignas(64) atomic_int left; /* parts that are not done */
};

static inline void relax(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
}

static void sleep_on(atomic_uint *word, unsigned value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word, int threads)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, threads, NULL, NULL, 0);
}

/* The next part of a share, or -1. */
static int claim(struct worker *w, unsigned generation)
{
    uint64_t word = atomic_load_explicit(&w->share, memory_order_acquire);

    while (word >> 32 == generation && (word >> 16 & 0xffff) < (word & 0xffff))
        if (atomic_compare_exchange_weak_explicit(&w->share, &word, word + 0x10000,
                                                  memory_order_acq_rel, memory_order_acquire))
            return (int)(word >> 16 & 0xffff);
    return -1;
}

static int64_t coarse_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC_COARSE, &ts); /* reads memory, no clock */
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static void ask_caller(struct pool *p, int me)
{
    if (me == 0 && p->look && p->look(p->look_user))
        atomic_store_explicit(&p->given_up, true, memory_order_relaxed);
}

/* One part, with a look in between where it is long. The first slice is short, as nobody knows how
 * long an item takes; a part that is short altogether is done at once. */
static void do_part(struct pool *p, pool_fn *fn, void *arg, int64_t begin, int64_t end, int me)
{
    int64_t grain, slice, start;

    if (!atomic_load_explicit(&p->watched, memory_order_relaxed)) {
        fn(arg, begin, end, me);
        return;
    }
    grain = atomic_load_explicit(&p->grain, memory_order_relaxed);
    slice = grain > 1 ? 4 * grain : 1;
    start = end - begin < 2 * slice ? 0 : coarse_ns();
    while (begin < end && !atomic_load_explicit(&p->given_up, memory_order_relaxed)) {
        int64_t to = end - begin < 2 * slice ? end : begin + slice, now;

        fn(arg, begin, to, me);
        begin = to;
        if (begin == end && grain > 1)
            break;
        now = coarse_ns();
        if (now - start < SLICE_NS)
            slice *= 2;
        start = now;
        ask_caller(p, me);
    }
}

/* Everything of a job that can be claimed, one's own share first. */
static void take_part(struct pool *p, int me, unsigned generation)
{
    pool_fn *fn = atomic_load_explicit(&p->fn, memory_order_relaxed);
    void *arg = atomic_load_explicit(&p->arg, memory_order_relaxed);
    int64_t n = atomic_load_explicit(&p->n, memory_order_relaxed);
    int64_t parts = atomic_load_explicit(&p->parts, memory_order_relaxed);

    for (int i = 0; i < p->threads; i++) {
        struct worker *w = &p->worker[(me + i) % p->threads];

        for (int part;;) {
            part = claim(w, generation);
            if (part < 0)
                break;
            int64_t begin = n / parts * part + MIN((int64_t)part, n % parts);

            do_part(p, fn, arg, begin, begin + n / parts + (part < n % parts), me);
            atomic_fetch_sub_explicit(&p->left, 1, memory_order_release);
        }
    }
}

/* Wait until generation is not `last`. */
static unsigned wait_job(struct pool *p, unsigned last)
{
    unsigned now;

    for (int i = 0; i < p->spin; i++) {
        now = atomic_load_explicit(&p->generation, memory_order_acquire);
        if (now != last)
            return now;
        relax();
    }
    atomic_fetch_add(&p->asleep, 1);
    for (;;) {
        now = atomic_load(&p->generation);
        if (now != last)
            break;
        sleep_on(&p->generation, last);
    }
    atomic_fetch_sub(&p->asleep, 1);
    return now;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct pool *p = w->pool;
    unsigned last = 0;

    for (;;) {
        last = wait_job(p, last);
        if (atomic_load_explicit(&p->stop, memory_order_acquire))
            return NULL;
        take_part(p, w->index, last);
    }
}

static int cores(cpu_set_t *set)
{
    if (sched_getaffinity(0, sizeof(*set), set) < 0) {
        CPU_ZERO(set);
        return (int)MAX(sysconf(_SC_NPROCESSORS_ONLN), 1L);
    }
    return MAX(CPU_COUNT(set), 1);
}

static void *new_zeroed(size_t bytes)
{
    void *p = native_alloc(bytes);

    if (p)
        memset(p, 0, bytes);
    return p;
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
    p = new_zeroed(sizeof(*p));
    if (!p)
        return opm__fail(err, OPM_ENOMEM, "native engine: out of memory");
    p->threads = threads ? threads : MIN(ncore, POOL_THREADS_MAX);
    p->spin = p->threads <= ncore ? SPIN_WORKER : 0; /* else who spins takes who works its core */
    p->worker = new_zeroed((size_t)p->threads * sizeof(*p->worker));
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
    atomic_store(&p->stop, true);
    atomic_fetch_add(&p->generation, 1);
    wake(&p->generation, POOL_THREADS_MAX);
    for (int i = 1; i <= p->started; i++)
        pthread_join(p->worker[i].thread, NULL);
    native_free(p->worker);
    native_free(p);
}

int pool_threads(const struct pool *p)
{
    return p->threads;
}

void pool_for(struct pool *p, int64_t n, int64_t grain, pool_fn *fn, void *arg)
{
    int64_t most = n / MAX(grain, (int64_t)1), shares = MIN((int64_t)p->threads, most), each;
    unsigned generation;

    if (n <= 0)
        return;
    atomic_store_explicit(&p->grain, MIN(MAX(grain, (int64_t)1), n), memory_order_relaxed);
    if (shares <= 1) {
        do_part(p, fn, arg, 0, n, 0);
        return;
    }
    each = MIN(most / shares, (int64_t)PARTS_PER_SHARE);
    generation = atomic_load_explicit(&p->generation, memory_order_relaxed) + 1;
    atomic_store_explicit(&p->fn, fn, memory_order_relaxed);
    atomic_store_explicit(&p->arg, arg, memory_order_relaxed);
    atomic_store_explicit(&p->n, n, memory_order_relaxed);
    atomic_store_explicit(&p->parts, (int)(shares * each), memory_order_relaxed);
    atomic_store_explicit(&p->left, (int)(shares * each), memory_order_relaxed);
    for (int i = 0; i < p->threads; i++)
        atomic_store_explicit(&p->worker[i].share,
                              i < shares ? WORD(generation, i * each, (i + 1) * each) : 0,
                              memory_order_release);
    atomic_store(&p->generation, generation); /* publishes the above */
    if (atomic_load(&p->asleep))
        wake(&p->generation, (int)shares - 1);
    take_part(p, 0, generation);
    for (int i = 0; atomic_load_explicit(&p->left, memory_order_acquire) > 0; i++) {
        if (i < SPIN_CALLER) {
            relax();
        } else {
            sched_yield();
            ask_caller(p, 0);
        }
    }
}

void pool_watch(struct pool *p, int (*look)(void *user), void *user)
{
    p->look = look;
    p->look_user = user;
    atomic_store_explicit(&p->given_up, false, memory_order_relaxed);
    atomic_store_explicit(&p->watched, look != NULL, memory_order_relaxed);
}
