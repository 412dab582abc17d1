/* coverage.h -- which steps every log of a trace recorded.
 *
 * A log is what one recorder wrote: a source, or one of the files of it (track.log), for hosts and
 * for hardware apart, since profilers switch these on and off separately. It recorded a step if it
 * has work in it. The first and the last step of a log are left out if it has clearly less of them
 * than of any in between: it was switched on or off in the middle. */
#ifndef ANALYZE_COVERAGE_H
#define ANALYZE_COVERAGE_H

#include "store/store.h"

struct coverage {
    uint32_t *log_of; /* per track */
    size_t nlog, nstep;
    size_t nseries;   /* of steps: those of one model on one thread */
    uint32_t *series; /* per step */
    uint32_t *nth;    /* per step: its place in its series */
    uint32_t *length; /* per series: its steps */
    bool **recorded; /* [log * nseries + series][nth]; NULL where the log has nothing of it: jobs of
                      * many ranks have many logs, and each knows its own rank's steps alone */
};

/* 0 or OPM_ENOMEM; release in any case. */
int coverage_find(struct coverage *c, const struct store *st);
void coverage_release(struct coverage *c);

/* The log that a span is from. */
static inline uint32_t coverage_log(const struct coverage *c, uint32_t track, bool hardware)
{
    return 2 * c->log_of[track] + hardware;
}

static inline bool coverage_has(const struct coverage *c, uint32_t log, uint32_t step)
{
    const bool *of = c->recorded[log * c->nseries + c->series[step]];

    return of && of[c->nth[step]];
}

#endif
