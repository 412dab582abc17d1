/* measured.c -- see measured.h. */
#include "engine/native/math/measured.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct ratios known; /* by this process, and what the file had when it was first needed */
static bool loaded;

static void load(void)
{
    if (loaded)
        return;
    loaded = true;
    (void)ratios_load(&known, NULL);
}

bool measured_get(struct ratio *r)
{
    const struct ratio *e;

    pthread_mutex_lock(&lock);
    load();
    e = ratios_like(&known, r);
    if (e) {
        r->dense_ns = e->dense_ns;
        r->sparse_ns = e->sparse_ns;
    }
    pthread_mutex_unlock(&lock);
    return e && r->dense_ns > 0 && r->sparse_ns > 0;
}

/* Others may have added to the file since. */
static void keep(const struct ratio *r)
{
    struct ratios now;

    if (ratios_load(&now, NULL) == 0 && ratios_put(&now, r) == 0)
        (void)ratios_save(&now, NULL);
    ratios_release(&now);
}

void measured_put(const struct ratio *r)
{
    pthread_mutex_lock(&lock);
    load();
    if (ratios_put(&known, r) == 0)
        keep(r);
    pthread_mutex_unlock(&lock);
}
