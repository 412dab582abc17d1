/* tail.h -- whether the far end of a distribution moved, by the values of two samples themselves.
 */
#ifndef COMPARE_TAIL_H
#define COMPARE_TAIL_H

#include <stdbool.h>
#include <stddef.h>

/* Of all values together, take those above quantile q: the chance that so many of them, or even
 * more, are of one side if both are alike (the exact test of Fisher, two-sided). *enough: there are
 * so many that it could have been below `least`. n at least 1. 0 or OPM_ENOMEM. */
int tail_chance(const double *a, size_t na, const double *b, size_t nb, double q, double least,
                double *p, bool *enough);

#endif
