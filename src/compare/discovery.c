/* discovery.c -- see discovery.h. */
#include "compare/discovery.h"

#include <stdlib.h>

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double discovery_threshold(double *p, size_t n)
{
    double found = -1;

    if (n)
        qsort(p, n, sizeof(*p), by_value);
    for (size_t i = 0; i < n; i++)
        if (p[i] <= DISCOVERY_FALSE * (double)(i + 1) / (double)n)
            found = p[i];
    return found;
}
