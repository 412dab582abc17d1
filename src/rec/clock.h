/* clock.h -- raw ticks: the invariant TSC (or the ARM counter) where there is one, else ns. */
#ifndef REC_CLOCK_H
#define REC_CLOCK_H

#include "format/format.h"
#include <time.h>
#if defined(__x86_64__)
#include <x86intrin.h>
#endif

/* Set once by opm__clock_init(), the rate last: whoever reads ticks outside of a recording asks
 * opm__clock_known() first. */
extern uint32_t opm__clock_source; /* enum opm_clock_source */
extern uint64_t opm__clock_rate;   /* ticks per second, roughly; 0: not set yet */
extern uint64_t opm__clock_apart;  /* ticks that are more than a nanosecond */

void opm__clock_init(void);
struct opm_calibration
opm__clock_read(void); /* all clocks at one moment, the best of a few tries */

/* ARM's counter may step by 40 ns and more, and several spans of a thread begin within a step: its
 * ticks are counted in parts, so that there are times between two steps to give them. */
#define CNTVCT_PARTS 64

static inline int opm__clock_known(void)
{
    return __atomic_load_n(&opm__clock_rate, __ATOMIC_ACQUIRE) != 0;
}

static inline int64_t clock_ns(clockid_t id)
{
    struct timespec t;

    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static inline uint64_t clock_ticks(void)
{
#if defined(__x86_64__)
    if (__builtin_expect(opm__clock_source == CLOCK_SOURCE_TSC, 1))
        return __rdtsc();
#elif defined(__aarch64__)
    uint64_t v;

    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v * CNTVCT_PARTS;
#endif
    return (uint64_t)clock_ns(CLOCK_MONOTONIC);
}

#endif
