/* interrupted.h -- executions that took far longer than the same thing otherwise does, because
 * something else came in between: another program, the clock, an interrupt, a page that had to be
 * fetched. What is typical does not include them.
 *
 * An execution was interrupted if its self time is over INTERRUPTED_TIMES the median of its group,
 * and by more than INTERRUPTED_LEAST_NS, and
 *  - the group has at least INTERRUPTED_EXECUTIONS executions,
 *  - few of them are such, one in INTERRUPTED_FEW or a single one, and in as few of its steps: what
 *    returns in every step is part of the work;
 *  - those around it on its track are not such themselves: a prompt among single tokens, or another
 *    batch size, makes everything longer.
 * Where the group is in no step, this is said only of groups whose executions are alike: operators,
 * and not spans that merely have the same name.
 *
 * The time beyond the median is the interruption. Self time is the exact sum of what is typical and
 * of interruptions. */
#ifndef ANALYZE_INTERRUPTED_H
#define ANALYZE_INTERRUPTED_H

#include "analyze/groups.h"
#include "analyze/iterations.h"

#define INTERRUPTED_TIMES 5
#define INTERRUPTED_LEAST_NS 10000
#define INTERRUPTED_EXECUTIONS 5
#define INTERRUPTED_FEW 4
#define INTERRUPTED_AROUND 4 /* executions on either side that are looked at ... */
#define INTERRUPTED_PHASE 3  /* ... and how many such ones make it a phase of another kind */

/* Fill in what group_stats and iterations say of interruptions, of groups that were computed by the
 * same query. Groups come in sections of `section`; in each, executions of the first `alike` are.
 * 0 or OPM_ENOMEM. */
int interrupted_find(const struct store *st, const struct groups_query *query, uint32_t section,
                     uint32_t alike, struct group_stats *stats, struct iterations *iterations);

#endif
