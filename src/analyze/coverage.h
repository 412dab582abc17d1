/* coverage.h -- which steps every log of a trace recorded.
 *
 * A log is what one recorder wrote: a source, or one of the files of it (track.log), for hosts and
 * for hardware apart, since profilers switch these on and off separately. It recorded a step if it
 * has work in it. A source of one log was on from its first to its last record: steps of its own in
 * between in which nothing was done were recorded, too. Of a log beside others the first and the
 * last step are left out if it has clearly less of them than of any in between: it was switched on
 * or off in the middle. */
#ifndef ANALYZE_COVERAGE_H
#define ANALYZE_COVERAGE_H

#include "store/store.h"

/* What one recorder wrote. */
struct coverage_log {
    int64_t source;           /* source.id, or OPM_NULL_I64 */
    int64_t first_ns, end_ns; /* of its work; first_ns > end_ns: it has none */
    bool apart;               /* one of several of its source, or by a clock of its own */
};

/* When a step was, and whose it is. */
struct coverage_step {
    int64_t from_ns, to_ns;
    uint32_t log; /* that was on from its first to its last record, of its host; the one of hardware
                     is the next. OPM_NULL_ID: none was, or the step never ended */
};

struct coverage {
    uint32_t *log_of; /* per track */
    struct coverage_log *log;
    struct coverage_step *step;
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

/* Was a log on in a step, whether or not it has anything of it? */
static inline bool coverage_was_on(const struct coverage *c, uint32_t log, uint32_t step)
{
    const struct coverage_step *s = &c->step[step];

    return s->log == (log & ~1u) && s->from_ns < c->log[log].end_ns &&
           s->to_ns > c->log[log].first_ns;
}

static inline bool coverage_has(const struct coverage *c, uint32_t log, uint32_t step)
{
    const bool *of = c->recorded[log * c->nseries + c->series[step]];

    return of ? of[c->nth[step]] : coverage_was_on(c, log, step);
}

#endif
