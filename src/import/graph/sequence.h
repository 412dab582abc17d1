/* sequence.h -- which element of one sequence of names is which of another. */
#ifndef IMPORT_GRAPH_SEQUENCE_H
#define IMPORT_GRAPH_SEQUENCE_H

#include "base/common.h"

#define SEQUENCE_NONE UINT32_MAX

/* to[i]: the place in b of what a[i] is, or SEQUENCE_NONE; no place is taken twice. Order decides:
 * most get partners that keep it. What is left over takes the next of the same name that is free,
 * since what runs beside each other changes places from one time to the next. *matched of a have
 * partners, *ordered of them in order. Two sequences that differ in thousands of places are only
 * matched from both ends and by name. 0 or OPM_ENOMEM. */
int sequence_align(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, uint32_t *to,
                   size_t *matched, size_t *ordered);

/* Where a stands in b as a whole; SIZE_MAX: nowhere. */
size_t sequence_find(const uint32_t *a, size_t na, const uint32_t *b, size_t nb);
/* Where some of a in a row stand in b, for b much longer than a; *offset: which of a is the first
 * of them. SIZE_MAX: nowhere. */
size_t sequence_seed(const uint32_t *a, size_t na, const uint32_t *b, size_t nb, size_t *offset);

#endif
