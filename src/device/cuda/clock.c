/* clock.c -- see clock.h. */
#include "device/cuda/clock.h"

#include <opmeter/opmeter.h>
#include <time.h>

#define TRIES 8            /* readings of both clocks, of which the tightest counts */
#define MEASURE_NS 5000000 /* long enough for a rate that is good to some millionths */
#define ONE (1ull << 32)

__extension__ typedef unsigned __int128 wide;

static uint64_t rate = ONE; /* ns per tick, 32.32; set once, before CUPTI asks */

static int64_t monotonic_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Both clocks at one moment: of a few tries the one that nothing came between. */
static void read_pair(int64_t *ns, uint64_t *ticks)
{
    uint64_t best = UINT64_MAX;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = opm_now();
        int64_t now_ns = monotonic_ns();
        uint64_t after = opm_now();

        if (after - before < best) {
            best = after - before;
            *ns = now_ns;
            *ticks = before + best / 2;
        }
    }
}

static uint64_t measure_rate(void)
{
    int64_t start_ns = 0, ns = 0;
    uint64_t start = 0, ticks = 0;
    struct timespec pause = { 0, MEASURE_NS };

    read_pair(&start_ns, &start);
    nanosleep(&pause, NULL);
    read_pair(&ns, &ticks);
    return ticks > start ? (uint64_t)((double)(ns - start_ns) / (double)(ticks - start) * ONE)
                         : ONE;
}

static uint64_t ns_of(uint64_t ticks)
{
    return (uint64_t)((wide)ticks * rate >> 32);
}

uint64_t cuda_clock_now(void)
{
    return ns_of(opm_now());
}

uint64_t cuda_clock_ticks(const struct cuda_clock *c, uint64_t ns)
{
    double per_ns = (double)ONE / (double)rate, since;

    if (c->own)
        return (uint64_t)((((wide)ns << 32) + rate - 1) / rate);
    if (c->ns[1] > c->ns[0] && c->ticks[1] > c->ticks[0])
        per_ns = (double)(c->ticks[1] - c->ticks[0]) / (double)(c->ns[1] - c->ns[0]);
    /* From the newest pair: what is being converted is recent. */
    since = (double)(int64_t)(ns - c->ns[1]) * per_ns;
    return c->ticks[1] + (uint64_t)(int64_t)since;
}

void cuda_clock_read(struct cuda_clock *c, const struct cupti *lib)
{
    uint64_t best = UINT64_MAX, best_ns = 0, best_ticks = 0;
    int64_t error_ns;

    for (int i = 0; i < TRIES; i++) {
        uint64_t before = opm_now(), ns = 0, after;

        if (lib->GetTimestamp(&ns) != CUPTI_OK)
            return;
        after = opm_now();
        if (after - before >= best)
            continue;
        best = after - before;
        best_ticks = before + best / 2;
        best_ns = ns;
    }
    if (c->own) {
        uint64_t said = cuda_clock_ticks(c, best_ns);
        uint64_t apart = said > best_ticks ? said - best_ticks : best_ticks - said;

        error_ns = (int64_t)ns_of(apart);
    } else {
        error_ns = (int64_t)ns_of(best / 2);
        c->ns[1] = best_ns;
        c->ticks[1] = best_ticks;
    }
    if (error_ns > c->error_ns)
        c->error_ns = error_ns;
}

void cuda_clock_init(struct cuda_clock *c, const struct cupti *lib)
{
    *c = (struct cuda_clock){ .error_ns = -1 };
    rate = measure_rate();
    c->own = lib->ActivityRegisterTimestampCallback &&
             lib->ActivityRegisterTimestampCallback(cuda_clock_now) == CUPTI_OK;
    cuda_clock_read(c, lib);
    c->ns[0] = c->ns[1];
    c->ticks[0] = c->ticks[1];
}
