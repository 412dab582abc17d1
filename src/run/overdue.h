/* overdue.h -- a watch over a run that was told to stop and does not.
 *
 * Most operators ask now and then whether to go on. Some never do, and one of them alone can take
 * longer than anybody waits; no library can end that, but a program can end itself. What was
 * recorded up to there is readable, as after a crash. */
#ifndef RUN_OVERDUE_H
#define RUN_OVERDUE_H

#include "run/run.h"

struct overdue;

/* From now on a thread of its own looks whether options' time limit is over, or asked() says so; if
 * the watch lasts another RUN_OVERDUE_NS in which the process had half of that time on a core (or
 * several times as long), it calls overdue(). *out is NULL where nobody wants that, or there is no
 * thread to be had. */
void overdue_start(struct overdue **out, const struct run_options *opt);
void overdue_stop(struct overdue *o); /* NULL is fine */

#endif
