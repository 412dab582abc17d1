/* discovery.h -- of many tests at once, which count as found.
 *
 * Of 400 operators of which none changed, a test at 1 % finds four. Benjamini and Hochberg's rule
 * holds the share of false findings among all findings; where nothing changed at all, the chance of
 * any finding is below it, too. */
#ifndef COMPARE_DISCOVERY_H
#define COMPARE_DISCOVERY_H

#include <stddef.h>

#define DISCOVERY_FALSE 0.01 /* of what is called slower or faster */

/* The largest p that counts as found; negative: none does. p is sorted by it. */
double discovery_threshold(double *p, size_t n);

#endif
