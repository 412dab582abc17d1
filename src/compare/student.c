/* student.c -- see student.h. */
#include "compare/student.h"

#include <math.h>
#include <stdbool.h>

#define TERMS_MAX 300
#define TINY 1e-300

/* The continued fraction of the incomplete beta function (Abramowitz and Stegun 26.5.8), by Lentz's
 * method: converges fast for x < (a + 1) / (a + b + 2). */
static double beta_fraction(double a, double b, double x)
{
    double c = 1, d = 1 - (a + b) * x / (a + 1), value;

    d = 1 / (fabs(d) < TINY ? TINY : d);
    value = d;
    for (int m = 1; m < TERMS_MAX; m++) {
        double step = 1;

        for (int odd = 0; odd < 2; odd++) {
            double k = odd ? -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
                           : m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m));

            d = 1 + k * d;
            d = 1 / (fabs(d) < TINY ? TINY : d);
            c = 1 + k / c;
            c = fabs(c) < TINY ? TINY : c;
            step = c * d;
            value *= step;
        }
        if (fabs(step - 1) < 1e-15)
            break;
    }
    return value;
}

/* The regularised incomplete beta function. */
static double beta_share(double a, double b, double x)
{
    double front;
    bool swap = x >= (a + 1) / (a + b + 2);

    if (x <= 0 || x >= 1)
        return x <= 0 ? 0 : 1;
    front = exp(lgamma(a + b) - lgamma(a) - lgamma(b) + a * log(x) + b * log1p(-x));
    return swap ? 1 - front * beta_fraction(b, a, 1 - x) / b : front * beta_fraction(a, b, x) / a;
}

double student_above(double x, double freedom)
{
    double tail = 0.5 * beta_share(freedom / 2, 0.5, freedom / (freedom + x * x));

    return x < 0 ? 1 - tail : tail;
}

double student_bound(double p, double freedom)
{
    double low = 0, high = 1;

    while (student_above(high, freedom) > p && high < 1e12)
        high *= 2;
    for (int i = 0; i < 200 && high - low > 1e-12 * high; i++) {
        double mid = (low + high) / 2;

        if (student_above(mid, freedom) > p)
            low = mid;
        else
            high = mid;
    }
    return (low + high) / 2;
}

double normal_above(double x)
{
    return 0.5 * erfc(x / sqrt(2));
}
