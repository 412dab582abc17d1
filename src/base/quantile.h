/* quantile.h -- exact quantiles without sorting.
 *
 * Linear interpolation between neighbours, as numpy.percentile() does by default, to the last bit:
 * the quantile q of n ordered values is the value at position q * (n - 1). Time is linear in n
 * whatever the values. */
#ifndef BASE_QUANTILE_H
#define BASE_QUANTILE_H

#include "base/common.h"
#include <string.h>

#define QUANTILE_MAX 8 /* quantiles asked for at once */

/* The quantile that a percentile is: 99.9 / 100 is not 0.999, and a position just below a value is
 * not the value where figures are cut to whole ns. */
#define PERCENTILE(p) ((p) / 100.0)

/* Quantiles q[0..nq), rising and each within 0 to 1, of v[0..n), n > 0. v is left in another
 * order. */
void quantiles_i64(int64_t *v, size_t n, const double *q, size_t nq, double *out);

/* Doubles as integers of the same order, so that one algorithm serves both. No NaN. */
static inline int64_t quantile_key(double d)
{
    int64_t bits;

    memcpy(&bits, &d, sizeof(bits));
    return bits ^ (int64_t)((uint64_t)(bits >> 63) >> 1);
}

static inline double quantile_unkey(int64_t key)
{
    double d;

    key ^= (int64_t)((uint64_t)(key >> 63) >> 1);
    memcpy(&d, &key, sizeof(d));
    return d;
}

/* As quantiles_i64() for doubles given by their keys. */
void quantiles_keys(int64_t *keys, size_t n, const double *q, size_t nq, double *out);
/* No interpolation (nearest rank): the smallest of the values that at least the share q of them
 * does not exceed. */
double quantile_nearest(int64_t *keys, size_t n, double q);

#endif
