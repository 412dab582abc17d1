/* step_gap.h -- the time before a step that belongs to it.
 *
 * A program that marks its steps through our interface need not have the wait for its next batch
 * inside the mark. In training all of the time from the end of the step before is spent for the
 * step, as MindInsight counts it, too; between inferences there may be nothing to do. */
#ifndef ANALYZE_STEP_GAP_H
#define ANALYZE_STEP_GAP_H

#include "analyze/step_list.h"

/* before_ns[i] of row i of the list; 0 where nothing is to be added. 0 or OPM_ENOMEM. */
int step_gaps(const struct store *st, const struct step_list *l, int64_t *before_ns);

#endif
