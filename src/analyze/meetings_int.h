/* meetings_int.h -- shared by the files of analyze/meetings.h. */
#ifndef ANALYZE_MEETINGS_INT_H
#define ANALYZE_MEETINGS_INT_H

#include "analyze/meetings.h"

/* Of one communicator, name and step. */
bool meetings_same_series(const struct arrival *a, const struct arrival *b);
/* at[] is by series, rank and time, and numbered in that order: where ranks have different numbers
 * of a series, number them anew by when they end. 0 or OPM_ENOMEM. */
int meetings_align(struct meetings *m);

#endif
