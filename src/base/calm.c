/* calm.c -- see calm.h. */
#include "base/calm.h"

#include "base/common.h"
#include "base/system.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define LOOPS 3
#define LOOP_STEPS 1000000 /* each waits for the one before: about 4 cycles */

static int64_t now_ns(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000000000 + ts.tv_nsec;
}

double calm_loop_ns(void)
{
    static volatile uint64_t kept; /* or the compiler leaves the work out */
    int64_t best = INT64_MAX;

    for (int i = 0; i < LOOPS; i++) {
        int64_t start = now_ns();
        uint64_t x = kept + 1;

        for (int k = 0; k < LOOP_STEPS; k++)
            x = x * 6364136223846793005u + 1442695040888963407u;
        kept = x;
        best = MIN(best, now_ns() - start);
    }
    return (double)best;
}

struct calm_ticks calm_ticks(void)
{
    /* user nice system idle iowait irq softirq steal; guests are in user and nice already */
    unsigned long long part[8] = { 0 };
    struct calm_ticks t = { 0, 0 };
    FILE *f = fopen("/proc/stat", "re");

    if (!f)
        return t;
    if (fscanf(f, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &part[0], &part[1], &part[2],
               &part[3], &part[4], &part[5], &part[6], &part[7]) == (int)ARRAY_SIZE(part)) {
        for (size_t i = 0; i < ARRAY_SIZE(part); i++)
            t.all += part[i];
        t.stolen = part[7];
    }
    fclose(f);
    return t;
}

double calm_stolen(struct calm_ticks from, struct calm_ticks to)
{
    return to.all > from.all && to.stolen >= from.stolen
               ? (double)(to.stolen - from.stolen) / (double)(to.all - from.all)
               : 0;
}

void calm_begin(struct calm *c)
{
    *c = (struct calm){ .load = system_load() };
    c->loop_ns = calm_loop_ns();
    c->ticks = calm_ticks();
}

void calm_end(struct calm *c)
{
    double loop_ns = calm_loop_ns();

    c->stolen = calm_stolen(c->ticks, calm_ticks());
    c->loop_ns = MIN(c->loop_ns, loop_ns);
}

void calm_describe(const struct calm *c, void (*add)(const char *key, const char *value))
{
    char text[32];

    snprintf(text, sizeof(text), "%.0f", c->loop_ns);
    add("calm.loop_ns", text);
    snprintf(text, sizeof(text), "%.5f", c->stolen);
    add("calm.stolen", text);
    if (c->load < 0)
        return;
    snprintf(text, sizeof(text), "%.2f", c->load);
    add("calm.load", text);
}
