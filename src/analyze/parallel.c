/* parallel.c -- see parallel.h. */
#include "analyze/parallel.h"

#include <pthread.h>
#include <unistd.h>

/* Below this a thread costs more than it saves. */
#define ITEMS_PER_THREAD 500000

struct job {
    void (*work)(void *user, int i);
    void *user;
    int i;
};

static void *job_main(void *arg)
{
    struct job *job = arg;

    job->work(job->user, job->i);
    return NULL;
}

int parallel_width(size_t n)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);
    size_t width = MIN(n / ITEMS_PER_THREAD, (size_t)PARALLEL_MAX);

    if (cores < 1)
        cores = 1;
    width = MIN(width, (size_t)cores);
    return width ? (int)width : 1;
}

void parallel_run(int width, void (*work)(void *user, int i), void *user)
{
    pthread_t thread[PARALLEL_MAX];
    struct job job[PARALLEL_MAX];
    bool started[PARALLEL_MAX] = { false };

    assert(width >= 1 && width <= PARALLEL_MAX);
    for (int i = 1; i < width; i++) {
        job[i] = (struct job){ work, user, i };
        started[i] = pthread_create(&thread[i], NULL, job_main, &job[i]) == 0;
    }
    work(user, 0);
    for (int i = 1; i < width; i++) {
        if (started[i])
            pthread_join(thread[i], NULL);
        else
            work(user, i);
    }
}
