/* scout.c -- see scout.h. */
#include "server/scout.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define NICE 10

struct scout {
    pthread_t thread;
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    struct catalog *catalog;
    bool woken, end;
};

/* The trace stays in memory if it is the only one. */
static void look_into(struct catalog *c, const char *id, uint64_t stamp)
{
    struct facts f = { .recorded_s = -1, .latency_ns = -1 };
    struct opened *o = NULL;
    opm_trace *t;
    opm_error err = { 0 };
    int rc = catalog_open(c, id, catalog_is_folder(c) ? CATALOG_BRIEFLY : CATALOG_FRESH, &o, &err);

    if (rc == 0)
        rc = opened_enter(o, LANE_DATA, NULL, &t, &err);
    if (rc == 0) {
        rc = facts_read(&f, t, &err);
        opened_leave(o, LANE_DATA);
    }
    opened_unref(o);
    if (rc == OPM_ELIMIT) /* too large to read unasked, which is nothing wrong with it */
        f.spans = -1;
    else if (rc < 0)
        snprintf(f.error, sizeof(f.error), "%.*s", (int)sizeof(f.error) - 1, err.msg);
    catalog_learn(c, id, stamp, &f);
}

static void *run(void *arg)
{
    struct scout *s = arg;
    char id[CATALOG_ID_ROOM];
    uint64_t stamp;

    if (catalog_is_folder(s->catalog)) /* what is asked for goes first */
        system_step_back(NICE);
    pthread_mutex_lock(&s->mutex);
    while (!s->end) {
        bool more;

        s->woken = false;
        pthread_mutex_unlock(&s->mutex);
        more = catalog_unknown(s->catalog, id, &stamp);
        if (more)
            look_into(s->catalog, id, stamp);
        pthread_mutex_lock(&s->mutex);
        while (!more && !s->woken && !s->end)
            pthread_cond_wait(&s->changed, &s->mutex);
    }
    pthread_mutex_unlock(&s->mutex);
    return NULL;
}

int scout_start(struct scout **out, struct catalog *c, opm_error *err)
{
    struct scout *s = mem_calloc(1, sizeof(*s));
    int rc;

    if (!s)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    s->catalog = c;
    pthread_mutex_init(&s->mutex, NULL);
    pthread_cond_init(&s->changed, NULL);
    rc = pthread_create(&s->thread, NULL, run, s);
    if (rc) {
        mem_free(s);
        return opm__fail(err, OPM_EIO, "no thread: %s", strerror(rc));
    }
    *out = s;
    return 0;
}

void scout_wake(struct scout *s)
{
    pthread_mutex_lock(&s->mutex);
    s->woken = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

void scout_stop(struct scout *s)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->mutex);
    s->end = true;
    pthread_cond_signal(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(s->thread, NULL);
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->mutex);
    mem_free(s);
}
