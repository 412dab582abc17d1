/* ort_guard.c -- see ort_guard.h. */
#include "engine/ort/ort_guard.h"

#include "base/alloc.h"
#include "base/error.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#define ASK_EVERY_NS 50000000

struct ort_guard {
    const struct ort_api *api;
    int (*stop)(void *stop_user);
    void *stop_user;
    struct ort_run_options *options;
    pthread_t thread;
    bool started;
    pthread_mutex_t lock; /* for what follows, and held while stop is called */
    pthread_cond_t ended;
    bool running, stopped, over;
};

static void set_mark(struct ort_guard *g, bool on)
{
    struct ort_status *st = on ? g->api->RunOptionsSetTerminate(g->options)
                               : g->api->RunOptionsUnsetTerminate(g->options);

    if (st)
        g->api->ReleaseStatus(st);
}

/* A run costs a lock and no wake-up: this thread looks by itself whether there is one. */
static void *ask(void *guard)
{
    struct ort_guard *g = guard;
    struct timespec next;

    clock_gettime(CLOCK_MONOTONIC, &next);
    pthread_mutex_lock(&g->lock);
    while (!g->over) {
        next.tv_nsec += ASK_EVERY_NS;
        if (next.tv_nsec >= 1000000000) {
            next.tv_sec++;
            next.tv_nsec -= 1000000000;
        }
        pthread_cond_timedwait(&g->ended, &g->lock, &next);
        if (!g->over && g->running && !g->stopped && g->stop(g->stop_user)) {
            g->stopped = true;
            set_mark(g, true);
        }
        clock_gettime(CLOCK_MONOTONIC, &next);
    }
    pthread_mutex_unlock(&g->lock);
    return NULL;
}

/* Signals are for the program's own threads. */
static int start_thread(struct ort_guard *g)
{
    sigset_t all, before;
    int rc;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&g->thread, NULL, ask, g);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

int ort_guard_open(struct ort_guard **out, const struct ort_api *api,
                   const struct engine_options *opts, opm_error *err)
{
    struct ort_guard *g = mem_calloc(1, sizeof(*g));
    struct ort_status *st;
    pthread_condattr_t attr;
    int rc;

    if (!g)
        return opm__fail(err, OPM_ENOMEM, "onnxruntime: out of memory");
    g->api = api;
    g->stop = opts->stop;
    g->stop_user = opts->stop_user;
    pthread_mutex_init(&g->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&g->ended, &attr);
    pthread_condattr_destroy(&attr);
    st = api->CreateRunOptions(&g->options);
    if (st) {
        rc = opm__fail(err, OPM_EUNSUPPORTED, "ONNX Runtime %s: %s", api->version,
                       api->GetErrorMessage(st));
        api->ReleaseStatus(st);
        ort_guard_close(g);
        return rc;
    }
    rc = start_thread(g);
    if (rc) {
        ort_guard_close(g);
        return opm__fail(err, OPM_EIO, "onnxruntime: cannot start a thread: %s", strerror(rc));
    }
    g->started = true;
    *out = g;
    return 0;
}

void ort_guard_close(struct ort_guard *g)
{
    if (!g)
        return;
    if (g->started) {
        pthread_mutex_lock(&g->lock);
        g->over = true;
        pthread_cond_signal(&g->ended);
        pthread_mutex_unlock(&g->lock);
        pthread_join(g->thread, NULL);
    }
    if (g->options)
        g->api->ReleaseRunOptions(g->options);
    pthread_cond_destroy(&g->ended);
    pthread_mutex_destroy(&g->lock);
    mem_free(g);
}

const struct ort_run_options *ort_guard_begin(struct ort_guard *g)
{
    if (!g)
        return NULL;
    pthread_mutex_lock(&g->lock);
    if (g->stopped)
        set_mark(g, false);
    g->stopped = false;
    g->running = true;
    pthread_mutex_unlock(&g->lock);
    return g->options;
}

bool ort_guard_end(struct ort_guard *g)
{
    bool stopped;

    if (!g)
        return false;
    pthread_mutex_lock(&g->lock);
    g->running = false;
    stopped = g->stopped;
    pthread_mutex_unlock(&g->lock);
    return stopped;
}
