/* watch.c -- see watch.h. */
#include "server/watch.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define LOOK_EVERY_NS 50000000

struct watch {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct watched *first;
    bool stopped; /* interrupt all */
    bool end;     /* of the thread */
};

int64_t watch_now_ns(void)
{
    struct timespec ts;

    clock_gettime(SYSTEM_WAIT_CLOCK, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

static bool is_gone(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLRDHUP };

    return fd >= 0 && poll(&p, 1, 0) > 0 && (p.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

bool waiter_is_gone(const struct waiter *w)
{
    bool stopped;

    pthread_mutex_lock(&w->watch->mutex);
    stopped = w->watch->stopped;
    pthread_mutex_unlock(&w->watch->mutex);
    return stopped || is_gone(w->fd);
}

/* An interrupt that comes before the query begins is lost, so they are repeated. */
static void look(struct watch *w)
{
    int64_t now = watch_now_ns();

    for (struct watched *q = w->first; q; q = q->next) {
        if (q->end == WATCHED_OK)
            q->end = w->stopped             ? WATCHED_STOPPED
                     : now > q->deadline_ns ? WATCHED_LATE
                     : is_gone(q->fd)       ? WATCHED_GONE
                                            : WATCHED_OK;
        if (q->end != WATCHED_OK)
            opm_trace_interrupt(q->trace);
    }
}

static void *run(void *arg)
{
    struct watch *w = arg;

    pthread_mutex_lock(&w->mutex);
    while (!w->end) {
        int64_t until = watch_now_ns() + LOOK_EVERY_NS;
        struct timespec ts = { until / 1000000000, until % 1000000000 };

        look(w);
        if (w->first)
            pthread_cond_timedwait(&w->changed, &w->mutex, &ts);
        else
            pthread_cond_wait(&w->changed, &w->mutex);
    }
    pthread_mutex_unlock(&w->mutex);
    return NULL;
}

int watch_start(struct watch **out, opm_error *err)
{
    struct watch *w = mem_calloc(1, sizeof(*w));
    int rc;

    if (!w)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    pthread_mutex_init(&w->mutex, NULL);
    system_wait_init(&w->changed);
    rc = pthread_create(&w->thread, NULL, run, w);
    if (rc) {
        mem_free(w);
        return opm__fail(err, OPM_EIO, "no thread: %s", strerror(rc));
    }
    *out = w;
    return 0;
}

void watch_stop(struct watch *w)
{
    pthread_mutex_lock(&w->mutex);
    w->stopped = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

void watch_free(struct watch *w)
{
    if (!w)
        return;
    pthread_mutex_lock(&w->mutex);
    assert(!w->first);
    w->end = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->mutex);
    mem_free(w);
}

void watch_begin(struct watch *w, struct watched *q, opm_trace *t, int fd, int64_t limit_ns)
{
    *q = (struct watched){ .trace = t, .fd = fd, .deadline_ns = watch_now_ns() + limit_ns };
    pthread_mutex_lock(&w->mutex);
    q->next = w->first;
    w->first = q;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->mutex);
}

enum watched_end watch_end(struct watch *w, struct watched *q)
{
    struct watched **link = &w->first;

    pthread_mutex_lock(&w->mutex);
    while (*link != q)
        link = &(*link)->next;
    *link = q->next;
    pthread_mutex_unlock(&w->mutex);
    return q->end;
}
