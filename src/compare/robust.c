/* robust.c -- see robust.h. */
#include "compare/robust.h"

#include "base/common.h"

#include <math.h>
#include <stdlib.h>

#define TRIMMED 0.2 /* share of values left out at each end */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

double robust_median(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

double robust_quantile(double *v, size_t n, double q)
{
    double at = q * (double)(n - 1), below = floor(at);
    size_t i = (size_t)below;

    qsort(v, n, sizeof(*v), by_value);
    return i + 1 < n ? v[i] + (at - below) * (v[i + 1] - v[i]) : v[n - 1];
}

size_t robust_trimmed(size_t n)
{
    return (size_t)((double)n * TRIMMED);
}

double robust_mean(double *v, size_t n)
{
    size_t g = robust_trimmed(n);
    double sum = 0;

    qsort(v, n, sizeof(*v), by_value);
    for (size_t i = g; i < n - g; i++)
        sum += v[i];
    return sum / (double)(n - 2 * g);
}

double robust_error(const double *v, size_t n)
{
    size_t g = robust_trimmed(n);
    double mean = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        mean += v[MIN(MAX(i, g), n - 1 - g)] / (double)n;
    for (size_t i = 0; i < n; i++) {
        double d = v[MIN(MAX(i, g), n - 1 - g)] - mean;

        squares += d * d;
    }
    return sqrt(squares / (double)(n - 1) / (double)n) / (1 - 2 * (double)g / (double)n);
}

uint64_t robust_draw(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

size_t robust_draw_below(uint64_t *state, size_t n)
{
    return (size_t)((robust_draw(state) >> 32) * n >> 32);
}
