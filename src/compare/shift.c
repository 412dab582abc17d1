/* shift.c -- how much two sets differ; see changes.h. */
#include "compare/changes.h"

#include "base/alloc.h"
#include "compare/student.h"

#include <math.h>
#include <stdlib.h>

#define SIDE_MAX 100 /* values of a side: of more, every n-th */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* Leave at most SIDE_MAX of sorted values, evenly. */
static size_t thin(double *v, size_t n)
{
    if (n <= SIDE_MAX)
        return n;
    for (size_t i = 0; i < SIDE_MAX; i++)
        v[i] = v[i * (n - 1) / (SIDE_MAX - 1)];
    return SIDE_MAX;
}

/* Variance of Mann and Whitney's count of pairs, with ties taken into account. */
static double count_variance(const double *a, size_t na, const double *b, size_t nb)
{
    double m = (double)na, k = (double)nb, n = m + k, ties = 0;
    size_t i = 0, j = 0;

    while (i < na || j < nb) {
        double v = j == nb || (i < na && a[i] <= b[j]) ? a[i] : b[j], t = 0;

        for (; i < na && a[i] <= v; i++)
            t++;
        for (; j < nb && b[j] <= v; j++)
            t++;
        ties += t * t * t - t;
    }
    return m * k / 12 * (n + 1 - ties / (n * (n - 1)));
}

bool shift_of(double *a, size_t na, double *b, size_t nb, double inflation, struct shift *out)
{
    double *pair, above = 0, variance, middle, half, z;
    size_t n, low, high;

    if (na < 2 || nb < 2)
        return false;
    qsort(a, na, sizeof(*a), by_value);
    qsort(b, nb, sizeof(*b), by_value);
    na = thin(a, na);
    nb = thin(b, nb);
    n = na * nb;
    pair = mem_calloc(n, sizeof(*pair));
    if (!pair)
        return false;
    for (size_t i = 0; i < na; i++) {
        for (size_t k = 0; k < nb; k++) {
            pair[i * nb + k] = log(b[k] / a[i]);
            above += b[k] > a[i] ? 1 : b[k] == a[i] ? 0.5 : 0;
        }
    }
    qsort(pair, n, sizeof(*pair), by_value);
    variance = count_variance(a, na, b, nb) * inflation;
    middle = (double)n / 2;
    z = variance > 0 ? MAX(fabs(above - middle) - 0.5, 0) / sqrt(variance) : 0;
    out->p = MIN(1, 2 * normal_above(z));
    /* Hodges and Lehmann's estimate, and the pairs that the count is within its bounds for. */
    out->size = expm1(n % 2 ? pair[n / 2] : (pair[n / 2 - 1] + pair[n / 2]) / 2);
    half = 1.96 * sqrt(variance);
    low = middle > half ? (size_t)(middle - half) : 0;
    high = n - 1 - MIN(low, n - 1);
    out->low = expm1(pair[MIN(low, high)]);
    out->high = expm1(pair[MAX(low, high)]);
    mem_free(pair);
    return true;
}
