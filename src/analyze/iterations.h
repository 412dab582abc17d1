/* iterations.h -- how many measured iterations stand behind the executions of a group of spans.
 *
 * A series is the steps of one model on one thread. Those count that the log which tells of the
 * group recorded (coverage.h): a profiler that was on for 14 of 322 steps saw 14. Groups that do
 * not run in every step still count all that were recorded of their series. */
#ifndef ANALYZE_ITERATIONS_H
#define ANALYZE_ITERATIONS_H

#include "store/store.h"

struct iterations {
    int64_t steps;      /* recorded, ended, no warm-up, of the series that the group is in; or 0 */
    int64_t all_steps;  /* likewise, recorded or not */
    int64_t count;      /* spans of the group in the recorded ones, */
    int64_t self_ns;    /* their self time, */
    int64_t wait_ns;    /* and how long they waited, where that is known */
    int64_t outside_ns; /* self time of its spans that are in no step */
    /* How much of self_ns and of outside_ns is interruptions, as interrupted.h finds them; else 0.
     */
    int64_t interrupted_ns, outside_interrupted_ns;
};

/* Self time in the whole trace without interruptions, as if every step had been recorded: what
 * shares are shares of, so that groups compare although different steps of them were recorded.
 * typical_ns: of all its counted spans. */
static inline double iterations_whole_ns(const struct iterations *it, int64_t typical_ns)
{
    if (!it->steps || it->steps == it->all_steps)
        return (double)typical_ns;
    return (double)(it->self_ns - it->interrupted_ns) * (double)it->all_steps / (double)it->steps +
           (double)(it->outside_ns - it->outside_interrupted_ns);
}

struct iterations_query {
    const uint32_t *group;     /* per site, as in groups_query */
    const uint32_t *row_group; /* per span, or NULL */
    const uint32_t *passed_on; /* likewise, as in groups_query */
    uint32_t ngroup;
    bool wait; /* wait_ns is wanted */
};

/* out has ngroup entries. 0 or OPM_ENOMEM. */
int iterations_count(const struct store *st, const struct iterations_query *q,
                     struct iterations *out);

#endif
