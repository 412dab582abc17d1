/* sampler.c -- the thread; see sampler.h. */
#include "device/sample_source.h"

#include "base/alloc.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static const struct sample_source *const sources[] = { &sample_machine, &sample_processes,
                                                       &sample_gpus };

struct sampler {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    bool stopping; /* under lock */
    int64_t period_ns;
    pid_t root;
    void *source[ARRAY_SIZE(sources)];
    struct sampler_stats stats;
};

static int64_t clock_now(clockid_t clock)
{
    struct timespec ts;

    clock_gettime(clock, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

void sample_put(const struct sample_round *r, opm_gauge *g, double value)
{
    if (!g || !opm_on(OPM_HARDWARE))
        return;
    opm_gauge_set(g, value);
    r->stats->samples++;
}

void sample_put_rate(const struct sample_round *r, struct sample_sum *s, uint64_t v, double scale)
{
    if (s->known && v >= s->last && r->since_s > 0)
        sample_put(r, s->gauge, (double)(v - s->last) * scale / r->since_s);
    s->last = v;
    s->known = true;
}

ssize_t sample_read_file(const char *path, char *out, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t n = fd < 0 ? -1 : 0;

    while (fd >= 0 && len < size - 1) {
        n = read(fd, out + len, size - 1 - len);
        if (n <= 0)
            break;
        len += (size_t)n;
    }
    if (fd >= 0)
        close(fd);
    out[len] = '\0';
    return n < 0 && !len ? -1 : (ssize_t)len;
}

bool sample_find_number(const char *text, const char *key, uint64_t *out)
{
    size_t len = strlen(key);

    for (const char *line = text; line; line = strchr(line, '\n'), line += line != NULL) {
        if (strncmp(line, key, len) == 0) {
            *out = strtoull(line + len, NULL, 10);
            return true;
        }
    }
    return false;
}

/* False when it is time to stop. */
static bool wait_until(struct sampler *s, int64_t at_ns)
{
    struct timespec ts = { .tv_sec = at_ns / 1000000000, .tv_nsec = at_ns % 1000000000 };
    bool stopping;

    pthread_mutex_lock(&s->lock);
    while (!s->stopping && pthread_cond_timedwait(&s->wake, &s->lock, &ts) != ETIMEDOUT)
        ;
    stopping = s->stopping;
    pthread_mutex_unlock(&s->lock);
    return !stopping;
}

static void *sampler_main(void *arg)
{
    struct sampler *s = arg;
    int64_t begin = clock_now(CLOCK_MONOTONIC), next = begin, last = 0;

    opm_thread_name("opmeter sampler");
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        s->source[i] = sources[i]->open(&s->stats);
    do {
        int64_t now = clock_now(CLOCK_MONOTONIC);
        struct sample_round r = { .root = s->root,
                                  .now_ns = now,
                                  .since_s = last ? (double)(now - last) / 1e9 : 0,
                                  .stats = &s->stats };

        for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
            if (s->source[i])
                sources[i]->read(s->source[i], &r);
        s->stats.rounds++;
        last = now;
        next += s->period_ns;
        now = clock_now(CLOCK_MONOTONIC);
        if (now > next) {
            s->stats.late += (uint64_t)((now - next) / s->period_ns + 1);
            next += ((now - next) / s->period_ns + 1) * s->period_ns;
        }
    } while (wait_until(s, next));
    for (size_t i = 0; i < ARRAY_SIZE(sources); i++)
        if (s->source[i])
            sources[i]->close(s->source[i]);
    s->stats.wall_ns = clock_now(CLOCK_MONOTONIC) - begin;
    s->stats.cpu_ns = clock_now(CLOCK_THREAD_CPUTIME_ID);
    return NULL;
}

int sampler_start(struct sampler **out, double hz, pid_t root, opm_error *err)
{
    struct sampler *s = mem_calloc(1, sizeof(*s));
    pthread_condattr_t attr;
    int rc;

    assert(hz > 0 && hz <= SAMPLER_HZ_MAX);
    if (!s)
        return opm__fail(err, OPM_ENOMEM, "sampler: out of memory");
    s->period_ns = llround(1e9 / hz);
    s->root = root;
    pthread_mutex_init(&s->lock, NULL);
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&s->wake, &attr);
    pthread_condattr_destroy(&attr);
    rc = pthread_create(&s->thread, NULL, sampler_main, s);
    if (rc) {
        pthread_cond_destroy(&s->wake);
        pthread_mutex_destroy(&s->lock);
        mem_free(s);
        return opm__fail(err, OPM_EIO, "sampler: %s", strerror(rc));
    }
    *out = s;
    return 0;
}

void sampler_stop(struct sampler *s, struct sampler_stats *out)
{
    if (!s)
        return;
    pthread_mutex_lock(&s->lock);
    s->stopping = true;
    pthread_cond_signal(&s->wake);
    pthread_mutex_unlock(&s->lock);
    pthread_join(s->thread, NULL);
    *out = s->stats;
    pthread_cond_destroy(&s->wake);
    pthread_mutex_destroy(&s->lock);
    mem_free(s);
}
