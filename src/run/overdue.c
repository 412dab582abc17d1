/* overdue.c -- see overdue.h. */
#include "run/overdue.h"

#include "base/alloc.h"
#include "base/budget.h"

#include <pthread.h>
#include <time.h>

#define LOOK_NS 100000000
/* On a machine that others keep busy a run that is about to stop may not have had the time to. */
#define PATIENCE 6

struct overdue {
    const struct run_options *opt;
    pthread_t thread;
    pthread_mutex_t mutex; /* of stop */
    pthread_cond_t changed;
    bool stop;
    int64_t start_ns;
};

static int64_t now_ns(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

/* False: the watch is over. */
static bool wait_a_little(struct overdue *o)
{
    int64_t at = now_ns(CLOCK_MONOTONIC) + LOOK_NS;
    struct timespec until = { .tv_sec = at / 1000000000, .tv_nsec = at % 1000000000 };
    bool stop;

    pthread_mutex_lock(&o->mutex);
    if (!o->stop)
        pthread_cond_timedwait(&o->changed, &o->mutex, &until);
    stop = o->stop;
    pthread_mutex_unlock(&o->mutex);
    return !stop;
}

static void *watch(void *arg)
{
    struct overdue *o = arg;
    const struct run_options *opt = o->opt;
    int64_t limit = opt->time_limit_ns, told_ns = 0, told_cpu_ns = 0;

    while (wait_a_little(o)) {
        int64_t now = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_PROCESS_CPUTIME_ID);

        if (!told_ns && ((limit && now - o->start_ns >= limit) || opt->asked())) {
            told_ns = now;
            told_cpu_ns = cpu;
        }
        if (told_ns && now - told_ns >= RUN_OVERDUE_NS &&
            (cpu - told_cpu_ns >= RUN_OVERDUE_NS / 2 ||
             now - told_ns >= PATIENCE * RUN_OVERDUE_NS)) {
            opt->overdue(opt->overdue_user);
            break;
        }
    }
    return NULL;
}

void overdue_start(struct overdue **out, const struct run_options *opt)
{
    struct overdue *o = opt->overdue ? mem_calloc(1, sizeof(*o)) : NULL;
    pthread_condattr_t clock;

    *out = NULL;
    if (!o)
        return;
    o->opt = opt;
    o->start_ns = now_ns(CLOCK_MONOTONIC);
    pthread_mutex_init(&o->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&o->changed, &clock);
    pthread_condattr_destroy(&clock);
    if (thread_start(&o->thread, watch, o)) {
        pthread_cond_destroy(&o->changed);
        pthread_mutex_destroy(&o->mutex);
        mem_free(o);
        return;
    }
    *out = o;
}

void overdue_stop(struct overdue *o)
{
    if (!o)
        return;
    pthread_mutex_lock(&o->mutex);
    o->stop = true;
    pthread_cond_signal(&o->changed);
    pthread_mutex_unlock(&o->mutex);
    pthread_join(o->thread, NULL);
    pthread_cond_destroy(&o->changed);
    pthread_mutex_destroy(&o->mutex);
    mem_free(o);
}
