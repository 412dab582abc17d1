/* opened.c -- see opened.h. */
#include "server/opened.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/system.h"
#include "server/answer.h"

#include <pthread.h>

#define LOOKS_PER_S 5 /* whether who waits is still there */

struct handle {
    pthread_mutex_t mutex;
    atomic_int waiting; /* for the mutex */
    opm_trace *trace;   /* NULL until first needed */
};

struct opened {
    atomic_size_t refs;
    uint64_t stamp;
    int64_t read_ns;
    int64_t spans;
    struct handle handle[LANE_COUNT];
    pthread_mutex_t sharing; /* of the first handle's trace */
    opm_trace *first;        /* never queried, so that it can be shared at any time */
    struct timeline *timeline;
    struct busy *busy;
    pthread_t preparing;
    bool has_preparing;
};

/* Called while a trace is read. */
static int on_progress(void *user, uint64_t done, uint64_t total)
{
    struct reading *r = user;

    atomic_store(&r->done, MIN(done, total));
    atomic_store(&r->total, total);
    return atomic_load(r->stop);
}

int opened_read(struct opened **out, const char *const *paths, size_t npaths, uint64_t stamp,
                const struct read_limits *limits, struct reading *reading, opm_error *err)
{
    opm_open_options opts = OPM_OPEN_OPTIONS_INIT;
    struct opened *o = mem_calloc(1, sizeof(*o));
    int rc;

    if (!o)
        return opm__fail(err, OPM_ENOMEM, "out of memory");
    atomic_init(&o->refs, 1);
    o->stamp = stamp;
    o->read_ns = watch_now_ns();
    pthread_mutex_init(&o->sharing, NULL);
    for (int i = 0; i < LANE_COUNT; i++)
        pthread_mutex_init(&o->handle[i].mutex, NULL);
    opts.max_bytes = limits->unpacked;
    opts.max_memory = limits->memory;
    opts.max_seconds = limits->seconds;
    opts.captures = limits->captures;
    opts.ncaptures = limits->ncaptures;
    opts.progress = on_progress;
    opts.user = reading;
    rc = opm_trace_open(&o->first, paths, npaths, &opts, err);
    atomic_store(&reading->total, 0); /* first: who sees a total has what is done of it */
    atomic_store(&reading->done, 0);
    if (rc == 0)
        o->spans = opm_trace_rows(o->first, "span");
    if (rc < 0)
        opened_unref(o);
    else
        *out = o;
    return rc;
}

static void *prepare(void *arg)
{
    struct opened *o = arg;
    struct timeline *tl;
    opm_total *total;
    opm_trace *t;
    size_t n;

    /* Who asks for the picture hears of a failure. */
    if (opened_enter(o, LANE_TIMELINE, NULL, &t, NULL) < 0)
        return NULL;
    if (opened_timeline(o, &tl, NULL) == 0)
        timeline_prepare(tl, NULL);
    opened_leave(o, LANE_TIMELINE);
    if (opened_enter(o, LANE_DETAIL, NULL, &t, NULL) < 0)
        return NULL;
    /* What is at no time: only to have what totals need. */
    if (opm_trace_totals(t, -1, 0, &total, &n, NULL) == 0)
        opm_totals_free(total);
    opened_leave(o, LANE_DETAIL);
    return NULL;
}

void opened_prepare(struct opened *o)
{
    o->has_preparing = pthread_create(&o->preparing, NULL, prepare, o) == 0;
}

void opened_ref(struct opened *o)
{
    atomic_fetch_add(&o->refs, 1);
}

void opened_unref(struct opened *o)
{
    if (!o || atomic_fetch_sub(&o->refs, 1) > 1)
        return;
    if (o->has_preparing)
        pthread_join(o->preparing, NULL);
    timeline_free(o->timeline);
    busy_free(o->busy);
    for (int i = 0; i < LANE_COUNT; i++) {
        opm_trace_close(o->handle[i].trace);
        pthread_mutex_destroy(&o->handle[i].mutex);
    }
    pthread_mutex_destroy(&o->sharing);
    opm_trace_close(o->first);
    mem_free(o);
}

uint64_t opened_stamp(const struct opened *o)
{
    return o->stamp;
}

int64_t opened_read_ns(const struct opened *o)
{
    return o->read_ns;
}

int64_t opened_spans(const struct opened *o)
{
    return o->spans;
}

/* Whether the mutex was had. */
static bool wait_for(struct handle *h, const struct waiter *who)
{
    for (int i = 0; i < LANE_WAIT_S * LOOKS_PER_S; i++) {
        if (system_lock_within(&h->mutex, 1000000000 / LOOKS_PER_S))
            return true;
        if (who && waiter_is_gone(who))
            return false;
    }
    return false;
}

int opened_enter(struct opened *o, enum lane lane, const struct waiter *who, opm_trace **out,
                 opm_error *err)
{
    struct handle *h = &o->handle[lane];
    bool entered = pthread_mutex_trylock(&h->mutex) == 0;
    int rc = 0;

    if (!entered) {
        if (atomic_fetch_add(&h->waiting, 1) < LANE_QUEUE_MAX)
            entered = wait_for(h, who);
        atomic_fetch_sub(&h->waiting, 1);
    }
    if (!entered)
        return opm__fail(err, OPM_EBUSY, "other questions to this trace take too long; try again");
    if (!h->trace) {
        pthread_mutex_lock(&o->sharing);
        rc = opm_trace_share(o->first, &h->trace, err);
        pthread_mutex_unlock(&o->sharing);
    }
    if (rc < 0)
        pthread_mutex_unlock(&h->mutex);
    else
        *out = h->trace;
    return rc;
}

void opened_leave(struct opened *o, enum lane lane)
{
    pthread_mutex_unlock(&o->handle[lane].mutex);
}

int opened_timeline(struct opened *o, struct timeline **out, opm_error *err)
{
    int rc = o->timeline ? 0 : timeline_new(&o->timeline, o->handle[LANE_TIMELINE].trace, err);

    if (rc == 0)
        *out = o->timeline;
    return rc;
}

int opened_busy(struct opened *o, struct busy **out, opm_error *err)
{
    int rc = o->busy ? 0 : busy_new(&o->busy, o->handle[LANE_DATA].trace, err);

    if (rc == 0)
        *out = o->busy;
    return rc;
}
