/* robust.h -- means that single disturbed values do not carry, and draws for a bootstrap. */
#ifndef COMPARE_ROBUST_H
#define COMPARE_ROBUST_H

#include <stddef.h>
#include <stdint.h>

/* Values are sorted by what takes them; n is at least 1. */
double robust_median(double *v, size_t n);
/* The quantile that lies at share q of the sorted values, between two of them where it falls so. */
double robust_quantile(double *v, size_t n, double q);
/* How many values a trimmed mean leaves out at each end: a fifth. */
size_t robust_trimmed(size_t n);
double robust_mean(double *v, size_t n);
/* The standard error of that mean, of sorted values, n at least 2: that of values whose ends were
 * drawn in to the last that counts. */
double robust_error(const double *sorted, size_t n);

uint64_t robust_draw(uint64_t *state); /* splitmix64 */
size_t robust_draw_below(uint64_t *state, size_t n);

#endif
