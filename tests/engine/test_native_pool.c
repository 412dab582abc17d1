/* test_native_pool.c -- the thread pool: every element once, in contiguous parts, many times over.
 * Run it under TSan too. */
#include "engine/native/thread/pool.h"

#include "../unit/unit.h"

#include <stdatomic.h>
#include <time.h>

#define N 1000

struct job {
    int64_t sum[POOL_THREADS_MAX]; /* by thread, so that TSan sees who touches what */
    unsigned char seen[N];
    atomic_int parts;
};

static void mark(void *arg, int64_t begin, int64_t end, int thread)
{
    struct job *j = arg;

    atomic_fetch_add(&j->parts, 1);
    for (int64_t i = begin; i < end; i++) {
        j->seen[i]++;
        j->sum[thread] += i;
    }
}

static void check(struct pool *p, int64_t n, int64_t grain)
{
    struct job j = { 0 };
    int64_t sum = 0;

    pool_for(p, n, grain, mark, &j);
    for (int64_t i = 0; i < N; i++)
        assert_int_equal(j.seen[i], i < n);
    for (int i = 0; i < POOL_THREADS_MAX; i++)
        sum += j.sum[i];
    assert_int_equal(sum, n > 0 ? n * (n - 1) / 2 : 0);
    if (grain > 0)
        assert_true(atomic_load(&j.parts) <= MAX(n / grain, (int64_t)1));
}

static void every_element_once(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 5; threads++) {
        struct pool *p = NULL;

        assert_int_equal(pool_open(&p, threads, threads == 3, 0, NULL), 0);
        assert_int_equal(pool_threads(p), threads);
        for (int64_t n = 0; n < 40; n++)
            check(p, n, 1);
        check(p, N, 1);
        check(p, N, 300);
        check(p, N, 5000);
        check(p, 7, 0);
        pool_close(p);
    }
}

/* Jobs in quick succession find the workers spinning, late ones find them parked. */
static void spin_and_park(void **state)
{
    struct timespec pause = { 0, 2000000 };
    struct pool *p = NULL;

    (void)state;
    assert_int_equal(pool_open(&p, 3, false, 0, NULL), 0);
    for (int i = 0; i < 300; i++) {
        check(p, 17, 1);
        if (i % 30 == 0)
            nanosleep(&pause, NULL);
    }
    pool_close(p);
}

static void open_and_close(void **state)
{
    opm_error err = { 0 };
    struct pool *p = NULL;

    (void)state;
    for (int i = 0; i < 50; i++) {
        assert_int_equal(pool_open(&p, 4, false, 0, &err), 0);
        if (i % 2)
            check(p, 100, 1);
        pool_close(p);
    }
    pool_close(NULL);
    p = NULL;
    assert_int_equal(pool_open(&p, -1, false, 0, &err), OPM_EINVAL);
    assert_int_equal(pool_open(&p, POOL_THREADS_MAX + 1, false, 0, &err), OPM_EINVAL);
    assert_null(p);
    assert_int_equal(pool_open(&p, 0, false, 0, &err), 0);
    assert_true(pool_threads(p) >= 1);
    pool_close(p);
}

/* More threads than cores, and jobs whose parts differ in length: nobody waits for ever, and a
 * thread's own memory is its own. */
static void uneven(void *arg, int64_t begin, int64_t end, int thread)
{
    struct job *j = arg;
    volatile int spin = 0;

    for (int64_t i = begin; i < end; i++) {
        for (int k = 0; k < (int)(i % 7) * 200; k++)
            spin = spin + 1;
        j->seen[i]++;
        j->sum[thread] += i;
    }
    atomic_fetch_add(&j->parts, 1);
}

static void oversubscribed(void **state)
{
    struct pool *p = NULL;

    (void)state;
    assert_int_equal(pool_open(&p, 16, false, 0, NULL), 0);
    for (int i = 0; i < 200; i++) {
        struct job j = { 0 };
        int64_t sum = 0;

        pool_for(p, N, 1, uneven, &j);
        for (int k = 0; k < N; k++)
            assert_int_equal(j.seen[k], 1);
        for (int k = 0; k < POOL_THREADS_MAX; k++)
            sum += j.sum[k];
        assert_int_equal(sum, (int64_t)N * (N - 1) / 2);
    }
    pool_close(p);
}

struct asked {
    int times, stop_after; /* 0: never */
};

static int asked(void *user)
{
    struct asked *a = user;

    return a->stop_after && ++a->times >= a->stop_after;
}

/* With somebody who may want to stop: every element once while nobody does, afterwards nothing that
 * was not begun, until watching begins anew. */
static void watched(void **state)
{
    (void)state;
    for (int threads = 1; threads <= 3; threads++) {
        struct asked a = { 0 };
        struct job j = { 0 };
        struct pool *p = NULL;
        int seen = 0;

        assert_int_equal(pool_open(&p, threads, false, 0, NULL), 0);
        pool_watch(p, asked, &a);
        for (int64_t n = 0; n < 40; n++)
            check(p, n, 1);
        check(p, N, 1);
        check(p, N, 3);
        check(p, N, 300);
        a.stop_after = 1;
        if (threads == 1) { /* the first item, and then it is asked */
            pool_for(p, N, 1, mark, &j);
            for (int i = 0; i < N; i++)
                seen += j.seen[i];
            assert_int_equal(seen, 1);
            assert_int_equal(j.seen[0], 1);
        } else { /* others may have done all of it before the caller came to ask */
            do
                pool_for(p, N, 1, mark, &j);
            while (!a.times);
        }
        j = (struct job){ 0 };
        pool_for(p, N, 1, mark, &j);
        assert_int_equal(atomic_load(&j.parts), 0);
        pool_watch(p, NULL, NULL);
        check(p, N, 1);
        pool_close(p);
    }
}

static void grain_by_cost(void **state)
{
    (void)state;
    assert_int_equal(pool_grain(1e9), 1);
    assert_int_equal(pool_grain(POOL_GRAIN_NS), 1);
    assert_int_equal(pool_grain(1), POOL_GRAIN_NS);
    assert_true(pool_grain(0) > POOL_GRAIN_NS);
}

static int open_step(void)
{
    struct pool *p = NULL;
    int rc = pool_open(&p, 2, false, 0, NULL);

    if (!rc)
        pool_close(p);
    return rc;
}

static void allocations_fail(void **state)
{
    (void)state;
    unit_fail_each(open_step);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_element_once),
        cmocka_unit_test(spin_and_park),
        cmocka_unit_test(oversubscribed),
        cmocka_unit_test(grain_by_cost),
        cmocka_unit_test(open_and_close),
        cmocka_unit_test(allocations_fail),
        cmocka_unit_test(watched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
