/* calm.h -- how calm the machine is while something is measured on it: a fixed piece of work that
 * nobody changes, and what the kernel says of others. */
#ifndef BASE_CALM_H
#define BASE_CALM_H

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

/* Of a run: calm_begin() before what is measured, calm_end() after it. The facts then go into its
 * trace as calm.loop_ns and so on, by add(). */
struct calm {
    double loop_ns; /* the shorter of before and after */
    double stolen;
    double load; /* before; negative: not known */
    struct calm_ticks ticks;
};
void calm_begin(struct calm *c);
void calm_end(struct calm *c);
void calm_describe(const struct calm *c, void (*add)(const char *key, const char *value));

#endif
