/* trace_stream.c -- a packed trace: one thread unpacks blocks, the other reads them.
 *
 * The blocks go around, so that no more memory is touched than they take. */
#include "import/json/trace_json.h"

#include "base/alloc.h"
#include "base/budget.h"
#include "base/error.h"

#include <pthread.h>

#define BLOCK_BYTES ((size_t)1 << 20)
#define BLOCKS 4

struct block {
    char *data;
    size_t len;
};

struct stream {
    struct io_unpack *packed;
    struct block block[BLOCKS];
    pthread_mutex_t mutex; /* of everything below */
    pthread_cond_t changed;
    size_t filled, taken; /* blocks so far */
    bool ended, stop;     /* no more will be filled; nobody wants more */
    int rc;
    opm_error err;
};

static void *fill(void *arg)
{
    struct stream *s = arg;

    for (;;) {
        struct block *b;
        opm_error err = { 0 };
        int rc;

        pthread_mutex_lock(&s->mutex);
        while (s->filled - s->taken == BLOCKS && !s->stop)
            pthread_cond_wait(&s->changed, &s->mutex);
        if (s->stop) {
            pthread_mutex_unlock(&s->mutex);
            return NULL;
        }
        b = &s->block[s->filled % BLOCKS];
        pthread_mutex_unlock(&s->mutex);
        rc = io_unpack_read(s->packed, b->data, BLOCK_BYTES, &b->len, &err);
        pthread_mutex_lock(&s->mutex);
        s->filled++;
        s->ended = rc || b->len < BLOCK_BYTES;
        s->rc = rc;
        s->err = err;
        pthread_cond_broadcast(&s->changed);
        pthread_mutex_unlock(&s->mutex);
        if (s->ended)
            return NULL;
    }
}

/* The next block, or NULL at the end. */
static struct block *next_block(struct stream *s)
{
    struct block *b;

    pthread_mutex_lock(&s->mutex);
    while (s->filled == s->taken && !s->ended)
        pthread_cond_wait(&s->changed, &s->mutex);
    b = s->filled > s->taken ? &s->block[s->taken % BLOCKS] : NULL;
    pthread_mutex_unlock(&s->mutex);
    return b;
}

static void give_back(struct stream *s)
{
    pthread_mutex_lock(&s->mutex);
    s->taken++;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
}

static int progress(const struct trace_json *t)
{
    const struct import_source *src = t->ev.src;
    uint64_t total, done = io_unpack_done(src->packed, &total);

    return src->progress ? src->progress(src->user, done, total) : 0;
}

/* Without a second thread: one block after the other. */
static int read_alone(struct stream *s, struct trace_json *t, opm_error *err)
{
    struct block *b = &s->block[0];
    int rc;

    do {
        rc = io_unpack_read(s->packed, b->data, BLOCK_BYTES, &b->len, err);
        if (!rc)
            rc = trace_json_push(t, b->data, b->len, false);
        if (!rc)
            rc = progress(t);
    } while (!rc && b->len == BLOCK_BYTES);
    return rc;
}

static int read_blocks(struct stream *s, struct trace_json *t, opm_error *err)
{
    pthread_t thread;
    int rc = 0;

    if (thread_start(&thread, fill, s))
        return read_alone(s, t, err);
    while (!rc) {
        struct block *b = next_block(s);

        if (!b)
            break;
        rc = trace_json_push(t, b->data, b->len, false);
        give_back(s);
        if (!rc)
            rc = progress(t);
    }
    pthread_mutex_lock(&s->mutex);
    s->stop = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->mutex);
    pthread_join(thread, NULL);
    if (!rc && s->rc) {
        rc = s->rc;
        if (err)
            *err = s->err;
    }
    return rc;
}

int trace_stream_read(struct trace_json *t, opm_error *err)
{
    struct stream s = { .packed = t->ev.src->packed };
    int rc = 0;

    for (int i = 0; i < BLOCKS && !rc; i++)
        rc = (s.block[i].data = mem_alloc(BLOCK_BYTES)) ? 0 : OPM_ENOMEM;
    if (!rc && pthread_mutex_init(&s.mutex, NULL))
        rc = OPM_ENOMEM;
    if (!rc) {
        pthread_cond_init(&s.changed, NULL);
        rc = read_blocks(&s, t, err);
        pthread_cond_destroy(&s.changed);
        pthread_mutex_destroy(&s.mutex);
    }
    for (int i = 0; i < BLOCKS; i++)
        mem_free(s.block[i].data);
    return rc ? rc : trace_json_push(t, NULL, 0, true);
}
