/* trace_parallel.c -- the events of a mapped file, read by several threads.
 *
 * The text is cut into chunks. A thread takes the next chunk, guesses where its first event begins
 * and gathers the events that start in it. Then it waits until all chunks before have been taken
 * in; the end of the one before tells whether the guess was right, and if not the chunk is read
 * again from there. So events reach the consumer in order, one chunk at a time, and what comes out
 * does not depend on the threads. */
#include "import/json/trace_json.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/system.h"

#include <pthread.h>

#define THREADS_MAX 4
#define CHUNKS_MIN 4 /* fewer are not worth a thread */

size_t trace_chunk_bytes = (size_t)1 << 20;

struct parallel {
    struct trace_json *t;
    const char *base, *end;
    size_t chunk, nchunk;
    pthread_mutex_t mutex; /* of next and turn */
    pthread_cond_t changed;
    size_t next; /* chunk that nobody has taken yet */
    size_t turn; /* chunk whose events are to be handed over */
    /* Whoever has the turn. */
    const char *at;   /* where the events that were handed over end */
    bool after_event; /* as the reader of the last ones has it */
    int result;       /* 1 until the end of the list, or an error, is found */
    bool over;
};

struct worker {
    struct parallel *p;
    struct event_reader *reader;
    bool is_caller; /* the thread that may call back */
};

/* Hand over the events of a chunk, which the reader gathered from guess to stop. */
static void hand_over(struct worker *w, const char *guess, const char *stop, const char *limit,
                      int end_of)
{
    struct parallel *p = w->p;
    struct event_reader *r = w->reader;
    int rc;

    if (p->at >= limit) { /* an event goes on beyond this chunk */
        event_batch_clear(&r->batch);
        return;
    }
    if (p->at != guess) {
        event_batch_clear(&r->batch);
        r->after_event = false; /* an event ends with what separates it from the next */
        stop = p->at;
        end_of = event_reader_run(r, &stop, limit, p->end, false);
    }
    rc = end_of < 0 ? end_of : trace_json_take(p->t, r);
    if (rc == 0 && w->is_caller)
        rc = trace_json_progress(p->t, stop);
    p->at = stop;
    p->after_event = r->after_event;
    if (rc)
        p->result = rc;
    else if (end_of == READ_CLOSED)
        p->result = 0;
    p->over = rc || end_of != READ_LIMIT;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    struct parallel *p = w->p;
    struct event_reader *r = w->reader;

    for (;;) {
        const char *limit, *guess, *stop;
        int end_of = READ_LIMIT;
        size_t k;

        pthread_mutex_lock(&p->mutex);
        k = p->next++;
        pthread_mutex_unlock(&p->mutex);
        if (k >= p->nchunk)
            return NULL;
        limit = k + 1 == p->nchunk ? p->end : p->base + (k + 1) * p->chunk;
        guess = k ? event_resync(p->base + k * p->chunk, limit) : p->base;
        stop = guess;
        if (k)
            r->after_event = false;
        if (guess < limit)
            end_of = event_reader_run(r, &stop, limit, p->end, false);
        pthread_mutex_lock(&p->mutex);
        while (p->turn != k)
            pthread_cond_wait(&p->changed, &p->mutex);
        pthread_mutex_unlock(&p->mutex);
        if (!p->over)
            hand_over(w, guess, stop, limit, end_of);
        else
            event_batch_clear(&r->batch);
        pthread_mutex_lock(&p->mutex);
        p->turn++;
        if (p->over)
            p->next = p->nchunk;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->mutex);
    }
}

int trace_parallel_read(struct trace_json *t, const char **at, const char *end)
{
    struct event_reader *more = NULL;
    struct parallel p = { .t = t, .base = *at, .end = end, .at = *at, .result = 1 };
    struct worker worker[THREADS_MAX];
    pthread_t thread[THREADS_MAX];
    size_t n = MIN(system_processors(), (size_t)THREADS_MAX), started = 0;

    p.chunk = trace_chunk_bytes;
    p.nchunk = (size_t)(end - *at) / p.chunk;
    if (n < 2 || p.nchunk < CHUNKS_MIN)
        return 1;
    more = mem_calloc(n - 1, sizeof(*more));
    if (!more || pthread_mutex_init(&p.mutex, NULL)) {
        mem_free(more);
        return OPM_ENOMEM;
    }
    pthread_cond_init(&p.changed, NULL);
    t->reader.batch_max = SIZE_MAX; /* a chunk is a batch */
    for (size_t i = 0; i + 1 < n; i++) {
        worker[i] = (struct worker){ .p = &p, .reader = &more[i] };
        if (event_reader_init(&more[i])) {
            p.result = OPM_ENOMEM;
            p.over = true;
            break;
        }
        more[i].batch_max = SIZE_MAX;
        if (thread_start(&thread[i], work, &worker[i])) {
            event_reader_release(&more[i]);
            break;
        }
        started++;
    }
    work(&(struct worker){ .p = &p, .reader = &t->reader, .is_caller = true });
    for (size_t i = 0; i < started; i++) {
        pthread_join(thread[i], NULL);
        event_reader_release(&more[i]);
    }
    t->reader.batch_max = EVENT_BATCH_MAX;
    t->reader.after_event = p.after_event;
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.mutex);
    mem_free(more);
    *at = p.at;
    return p.result;
}
