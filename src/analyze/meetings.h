/* meetings.h -- the collectives of a job with several ranks: who took part in each, and when.
 *
 * Ranks of a communicator call its collectives in the same order, so the nth of one rank is the nth
 * of the others; where steps are marked, the nth that the step of the same number launched. A
 * collective ends on all ranks at about the same time. So the usual difference between the ends
 * tells how far clocks are apart, and with that the starts can be compared: a rank that came late
 * has the others wait. */
#ifndef ANALYZE_MEETINGS_H
#define ANALYZE_MEETINGS_H

#include "store/store.h"

/* One rank at one collective. */
struct arrival {
    uint32_t span;
    str_id name;
    uint64_t group; /* tells communicators apart; 0: unknown */
    int64_t num;    /* step, OPM_NULL_I64: none */
    uint32_t nth;   /* in its step and group, from 1 */
    int64_t rank;
    int64_t ts_ns, end_ns; /* by the rank's own clock */
    int64_t clock_ns;      /* how far that is ahead of the clock of the lowest rank */
    bool warmup;
};

/* The arrivals of one collective stand side by side. */
struct meetings {
    struct arrival *at;
    size_t n;
    size_t *first; /* meeting i is at[first[i]] to at[first[i + 1] - 1]: two ranks or more */
    size_t count;
};

/* Between two ranks alone, by its name: others do not take part, and it need not end for both at
 * once. Never a meeting. */
bool meetings_between_two(const char *name);
/* All exchanges of all ranks, whoever was alone and those between two as well: at[] only, numbered,
 * clocks not compared. 0 or OPM_ENOMEM; release. */
int exchanges_get(struct meetings *m, const struct store *st);
/* Of at[0..n), which the caller filled in any order: number them, bring those of a collective
 * together, leave out who was alone, compare clocks. 0 or OPM_ENOMEM. */
int meetings_match(struct meetings *m);
int meetings_get(struct meetings *m, const struct store *st); /* 0 or OPM_ENOMEM; release */
/* Who came first and last to a meeting, by the reference clock, and what that cost. */
struct meeting_order {
    int64_t first_ns, last_ns;
    int64_t next_ns; /* when the one before the last came: without the last, it would begin then */
    int64_t others_ns; /* how long the others waited for the last, all together */
    int64_t late_ns;   /* each, on average */
    size_t last;       /* in at[] */
};
struct meeting_order meeting_order(const struct meetings *m, size_t meeting);
static inline int64_t arrival_came_ns(const struct arrival *a)
{
    return a->ts_ns - a->clock_ns;
}
void meetings_release(struct meetings *m);

#endif
