/* divide.h -- E-divisive: places where a series changes, found by energy distance and tested by
 * permutations; see changes.h for what is made of it. */
#ifndef COMPARE_DIVIDE_H
#define COMPARE_DIVIDE_H

#include "base/common.h"

struct divide_options {
    double alarm;
    size_t least;     /* values on either side */
    double inflation; /* of the statistic, by autocorrelation: 1 if there is none */
    uint64_t seed;
    /* Permute what is left when the change that is tested is taken out, so that a large one does
     * not hide behind itself; false: the values, as published. */
    bool left;
};

/* Places of y[0..n), rising, each the first value of a new part; at[] has room for n. Returns how
 * many, or OPM_ENOMEM. */
int divide_find(const double *y, size_t n, const struct divide_options *o, size_t *at);

#endif
