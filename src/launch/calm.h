/* calm.h -- how calm the machine is while something is measured on it: a fixed piece of work that
 * nobody changes, and what the kernel says of others. */
#ifndef LAUNCH_CALM_H
#define LAUNCH_CALM_H

#include <stdint.h>

/* What all processors did since the machine began, in ticks; 0 where the kernel does not say. */
struct calm_ticks {
    uint64_t all, stolen; /* stolen: by other machines on the same hardware */
};

/* The time of the fixed loop, which depends on nothing but the clock of the processor and on
 * whether others run there: the shortest of a few. About 10 ms. */
double calm_loop_ns(void);
struct calm_ticks calm_ticks(void);
/* Share of the time between two readings that was stolen; 0 where that is not known. */
double calm_stolen(struct calm_ticks from, struct calm_ticks to);

#endif
