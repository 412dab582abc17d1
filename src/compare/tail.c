/* tail.c -- see tail.h. */
#include "compare/tail.h"

#include "base/alloc.h"
#include "base/error.h"
#include "compare/robust.h"

#include <math.h>
#include <string.h>

static double log_choose(double n, double k)
{
    return lgamma(n + 1) - lgamma(k + 1) - lgamma(n - k + 1);
}

/* The chance that of m values drawn from na + nb, from..to are of the second side. */
static double between(size_t na, size_t nb, size_t m, size_t from, size_t to)
{
    double all = log_choose((double)(na + nb), (double)m), sum = 0;

    for (size_t k = from; k <= to; k++)
        if (k <= nb && m - k <= na)
            sum += exp(log_choose((double)nb, (double)k) + log_choose((double)na, (double)(m - k)) -
                       all);
    return MIN(sum, 1);
}

static double two_sided(size_t na, size_t nb, size_t m, size_t k)
{
    return MIN(1, 2 * MIN(between(na, nb, m, 0, k), between(na, nb, m, k, m)));
}

static size_t count_above(const double *v, size_t n, double limit)
{
    size_t k = 0;

    for (size_t i = 0; i < n; i++)
        k += v[i] > limit;
    return k;
}

int tail_chance(const double *a, size_t na, const double *b, size_t nb, double q, double least,
                double *p, bool *enough)
{
    double *all = mem_calloc(na + nb, sizeof(*all)), limit;
    size_t of_a, of_b;

    if (!all)
        return OPM_ENOMEM;
    memcpy(all, a, na * sizeof(*all));
    memcpy(all + na, b, nb * sizeof(*all));
    limit = robust_quantile(all, na + nb, q);
    mem_free(all);
    of_a = count_above(a, na, limit);
    of_b = count_above(b, nb, limit);
    *p = two_sided(na, nb, of_a + of_b, of_b);
    *enough = MIN(two_sided(na, nb, of_a + of_b, 0), two_sided(na, nb, of_a + of_b, of_a + of_b)) <=
              least;
    return 0;
}
