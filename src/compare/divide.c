/* divide.c -- see divide.h. */
#include "compare/divide.h"

#include "base/alloc.h"
#include <opmeter/opmeter_error.h>

#include <math.h>
#include <stdlib.h>

#define PERMUTATIONS_MAX 19999
#define PERMUTATIONS_FEW 199 /* enough for a statistic that is far beyond all of them: */
#define FAR_BEYOND 1.6
#define PARTS 3 /* that overlap, each half of the whole */

struct division {
    const struct divide_options *o;
    double *distance; /* n * n of the part */
    size_t *order;
    double *room;
    uint64_t state;
    size_t *at;
    size_t found;
};

static uint64_t draw(uint64_t *state) /* splitmix64 */
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;

    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The largest energy statistic over all places of values in that order, and its place. One value
 * after the other goes from the right side to the left. */
static double best_place(const struct division *d, size_t n, size_t *place)
{
    double left = 0, right = 0, between = 0, best = -1;
    size_t least = d->o->least;

    for (size_t i = 0; i < n; i++)
        for (size_t j = i + 1; j < n; j++)
            right += d->distance[d->order[i] * n + d->order[j]];
    for (size_t k = 1; k < n; k++) {
        const double *row = d->distance + d->order[k - 1] * n;
        double to_left = 0, to_right = 0, m = (double)k, r = (double)(n - k), q;

        for (size_t j = 0; j < k - 1; j++)
            to_left += row[d->order[j]];
        for (size_t j = k; j < n; j++)
            to_right += row[d->order[j]];
        left += to_left;
        right -= to_right;
        between += to_right - to_left;
        if (k < least || n - k < least)
            continue;
        q = m * r / (m + r) *
            (2 * between / (m * r) - 2 * left / (m * MAX(m - 1, 1)) -
             2 * right / (r * MAX(r - 1, 1)));
        if (q > best) {
            best = q;
            *place = k;
        }
    }
    return best;
}

/* Is a statistic as large as this rare among permutations? It is given up as soon as enough of
 * them have one. */
static bool is_rare(struct division *d, size_t n, double statistic, double alarm)
{
    size_t total = (size_t)MIN(MAX(ceil(10 / alarm) - 1, 199), PERMUTATIONS_MAX), ignored;
    double allowed = alarm * (double)(total + 1) - 1, largest = 0;
    size_t reached = 0;

    for (size_t i = 0; i < total; i++) {
        double one;

        for (size_t k = n - 1; k > 0; k--) {
            size_t with = (size_t)((draw(&d->state) >> 32) * (k + 1) >> 32), kept = d->order[k];

            d->order[k] = d->order[with];
            d->order[with] = kept;
        }
        one = best_place(d, n, &ignored);
        largest = MAX(largest, one);
        reached += one >= statistic;
        if ((double)reached > allowed)
            return false;
        if (i + 1 == PERMUTATIONS_FEW && alarm >= 0.001 && statistic > FAR_BEYOND * largest)
            return true;
    }
    return true;
}

static void set_distances(struct division *d, const double *y, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        d->order[i] = i;
        for (size_t j = 0; j < n; j++)
            d->distance[i * n + j] = fabs(y[i] - y[j]);
    }
}

/* Values less the mean of their side; a little more spread, as some of it went with the means. */
static void take_means_out(const double *y, size_t n, size_t place, double *out)
{
    double mean[2] = { 0, 0 }, wider = sqrt((double)n / (double)(n - 3));

    for (size_t i = 0; i < n; i++)
        mean[i >= place] += y[i] / (double)(i < place ? place : n - place);
    for (size_t i = 0; i < n; i++)
        out[i] = (y[i] - mean[i >= place]) * wider;
}

/* Is there a change in [from, to)? Its place. */
static bool find_place(struct division *d, const double *y, size_t from, size_t to, double alarm,
                       size_t *out)
{
    size_t n = to - from, place = 0;
    double statistic;

    if (n < 2 * d->o->least)
        return false;
    set_distances(d, y + from, n);
    statistic = best_place(d, n, &place) / d->o->inflation;
    if (d->o->left) {
        take_means_out(y + from, n, place, d->room);
        set_distances(d, d->room, n);
    }
    *out = from + place;
    return statistic > 0 && is_rare(d, n, statistic, alarm);
}

/* The level goes up and soon down again: of the whole neither change is seen, so parts that overlap
 * are looked at, too. The chance of an alarm is shared. */
static bool find_place_in_parts(struct division *d, const double *y, size_t from, size_t to,
                                size_t *out)
{
    size_t n = to - from;

    if (n < 6 * d->o->least)
        return false;
    for (size_t i = 0; i < PARTS; i++) {
        size_t start = from + i * n / (PARTS + 1), end = from + (i + 2) * n / (PARTS + 1);

        if (find_place(d, y, start, end, d->o->alarm / (2 * PARTS), out))
            return true;
    }
    return false;
}

static void divide(struct division *d, const double *y, size_t from, size_t to)
{
    double alarm = d->o->left ? d->o->alarm / 2 : d->o->alarm;
    size_t place;

    if (!find_place(d, y, from, to, alarm, &place) &&
        !(d->o->left && find_place_in_parts(d, y, from, to, &place)))
        return;
    d->at[d->found++] = place;
    divide(d, y, from, place);
    divide(d, y, place, to);
}

static int by_place(const void *a, const void *b)
{
    size_t x = *(const size_t *)a, y = *(const size_t *)b;

    return (x > y) - (x < y);
}

int divide_find(const double *y, size_t n, const struct divide_options *o, size_t *at)
{
    struct division d = { .o = o, .state = o->seed, .at = at };
    int rc = OPM_ENOMEM;

    d.distance = mem_calloc(n * n + 1, sizeof(*d.distance));
    d.order = mem_calloc(n + 1, sizeof(*d.order));
    d.room = mem_calloc(n + 1, sizeof(*d.room));
    if (d.distance && d.order && d.room) {
        divide(&d, y, 0, n);
        if (d.found)
            qsort(at, d.found, sizeof(*at), by_place);
        rc = (int)d.found;
    }
    mem_free(d.distance);
    mem_free(d.order);
    mem_free(d.room);
    return rc;
}
