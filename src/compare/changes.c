/* changes.c -- see changes.h. */
#include "compare/changes.h"

#include "base/alloc.h"
#include "compare/divide.h"
#include "compare/student.h"
#include <opmeter/opmeter_error.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define NEAR 2           /* neighbours on either side whose median an outlier is drawn in to */
#define DRAWN_IN 3.0     /* times the noise */
#define ALARM_FIRST 0.05 /* of the first look, which only serves to know the noise */
#define RAMP_PLACES 40   /* where a drift may begin or end */
#define SLOPE_OVER 10    /* runs that a slope is first guessed from */
#define SLOPE_ROUNDS 3
#define SLOPE_SEEN 1.5  /* standard errors, that parts must have in common to look for one */
#define SLOPE_GAIN 4.0  /* of the criterion, that a slope must be worth */
#define SLOPE_LEAST 4.0 /* times the noise, that it must come to */
#define CORRECTED \
    2.0 /* times the noise, that a step must have beside a slope or a change of the machine */
#define RHO_SEEN 0.3
#define CONTROL_KNOWN 0.8
#define CONTROL_HELPS 0.8 /* noise with it over noise without */
#define MACHINE_MOST 1.25 /* of what the control changed by, that the machine may have done */
#define LOCAL 10          /* runs on either side of a change of the machine that tell what it did */
#define MACHINE_REST 0.5  /* of its change, that is no change of the code at the same place */
#define MACHINE_NEAR 3

const char *const change_kind_names[] = { "code", "machine", "drift" };

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;

    return (x > y) - (x < y);
}

/* v is left in disorder. */
static double median_in_place(double *v, size_t n)
{
    qsort(v, n, sizeof(*v), by_value);
    return n % 2 ? v[n / 2] : (v[n / 2 - 1] + v[n / 2]) / 2;
}

static double median(const double *v, size_t n, double *room)
{
    memcpy(room, v, n * sizeof(*v));
    return median_in_place(room, n);
}

/* A series of logarithms, and its steps. */
struct series {
    size_t n;
    double *y;    /* as measured */
    double *calm; /* outliers drawn in */
    double *room; /* n */
    size_t *at;   /* steps; room for n */
    size_t nat;
    double noise, inflation;
    double least; /* changes below are no steps, as something was taken out that is not exact */
    struct change *drift; /* room for n */
    size_t ndrift;
};

static bool series_init(struct series *s, size_t n)
{
    *s = (struct series){ .n = n, .inflation = 1 };
    s->y = mem_calloc(n + 1, sizeof(*s->y));
    s->calm = mem_calloc(n + 1, sizeof(*s->calm));
    s->room = mem_calloc(n + 1, sizeof(*s->room));
    s->at = mem_calloc(n + 1, sizeof(*s->at));
    s->drift = mem_calloc(n + 1, sizeof(*s->drift));
    return s->y && s->calm && s->room && s->at && s->drift;
}

static void series_release(struct series *s)
{
    mem_free(s->y);
    mem_free(s->calm);
    mem_free(s->room);
    mem_free(s->at);
    mem_free(s->drift);
}

/* Begin and end of part p of those that steps make. */
static size_t part_from(const struct series *s, size_t p)
{
    return p ? s->at[p - 1] : 0;
}

static size_t part_to(const struct series *s, size_t p)
{
    return p < s->nat ? s->at[p] : s->n;
}

/* Of single values, by the median of what neighbours differ by: steps and outliers hardly count. */
static double noise_of(const double *y, size_t n, double *room)
{
    if (n < 2)
        return 0;
    for (size_t i = 0; i + 1 < n; i++)
        room[i] = fabs(y[i + 1] - y[i]);
    return median_in_place(room, n - 1) / (0.6745 * sqrt(2));
}

static void draw_in(struct series *s)
{
    s->noise = noise_of(s->y, s->n, s->room);
    for (size_t i = 0; i < s->n; i++) {
        size_t from = i > NEAR ? i - NEAR : 0, to = MIN(i + NEAR + 1, s->n);
        double near[2 * NEAR + 1], m;

        memcpy(near, s->y + from, (to - from) * sizeof(*near));
        m = median_in_place(near, to - from);
        s->calm[i] = MIN(MAX(s->y[i], m - DRAWN_IN * s->noise), m + DRAWN_IN * s->noise);
    }
}

/* The spread of what values so far apart differ by; a fifth, which steps made, is left out. */
static double spread_of_differences(const struct series *s, size_t apart)
{
    size_t n = s->n - apart, most = n - n / 5;
    double middle, squares = 0;

    for (size_t i = 0; i < n; i++)
        s->room[i] = s->calm[i + apart] - s->calm[i];
    middle = median_in_place(s->room, n);
    for (size_t i = 0; i < n; i++)
        s->room[i] = fabs(s->room[i] - middle);
    qsort(s->room, n, sizeof(*s->room), by_value);
    for (size_t i = 0; i < most; i++)
        squares += s->room[i] * s->room[i];
    return squares / (double)most;
}

/* Autocorrelation by how much more values two runs apart differ than neighbours do: steps that are
 * none hide nothing of it. */
static double rho_by_differences(const struct series *s)
{
    double one, two;

    if (s->n < 4 * CHANGES_LEAST)
        return 0;
    one = spread_of_differences(s, 1);
    two = spread_of_differences(s, 2);
    return one > 0 ? two / one - 1 : 0;
}

/* Autocorrelation by what is left within the parts. */
static double rho_within(const struct series *s)
{
    double both = 0, squares = 0, rho, part = (double)s->n / (double)(s->nat + 1);

    for (size_t p = 0; p <= s->nat; p++) {
        size_t from = part_from(s, p), to = part_to(s, p);
        double m = median(s->calm + from, to - from, s->room);

        for (size_t i = from; i < to; i++) {
            squares += (s->calm[i] - m) * (s->calm[i] - m);
            if (i + 1 < to)
                both += (s->calm[i] - m) * (s->calm[i + 1] - m);
        }
    }
    rho = squares > 0 ? both / squares : 0;
    return rho + (1 + 2 * MAX(rho, 0)) / part; /* short parts hide some of it */
}

/* What autocorrelation adds to the variance of means. Steps that are none hide some of it from
 * rho_within(). */
static double inflation_of(const struct series *s)
{
    double rho = MAX(rho_within(s), rho_by_differences(s));

    rho = MIN(MAX(rho, 0), 0.85);
    return (1 + rho) / (1 - rho);
}

static int divide_series(struct series *s, double alarm, uint64_t seed, bool plain)
{
    struct divide_options o = { .alarm = MAX(alarm, 1e-4),
                                .least = CHANGES_LEAST,
                                .inflation = s->inflation,
                                .seed = seed,
                                .left = !plain };
    int found = divide_find(s->calm, s->n, &o, s->at);

    if (found < 0)
        return found;
    s->nat = (size_t)found;
    return 0;
}

static void drop_steps(struct series *s, size_t first, size_t n)
{
    memmove(s->at + first, s->at + first + n, (s->nat - first - n) * sizeof(*s->at));
    s->nat -= n;
}

/* How much the level changes at a step, from `values` of the parts beside it. */
static bool shift_at(const struct series *s, size_t step, const double *values, struct shift *out)
{
    size_t from = part_from(s, step), at = s->at[step], to = part_to(s, step + 1);
    double *room = mem_calloc(to - from, sizeof(*room));
    bool ok = room != NULL;

    for (size_t i = from; i < to && ok; i++)
        room[i - from] = exp(values[i]);
    ok = ok && shift_of(room, at - from, room + (at - from), to - at, s->inflation, out);
    mem_free(room);
    return ok;
}

static void moments(const double *y, size_t n, double *mean, double *variance)
{
    *mean = *variance = 0;
    for (size_t i = 0; i < n; i++)
        *mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        *variance += (y[i] - *mean) * (y[i] - *mean) / (double)(n - 1);
}

/* The chance of such a difference of levels at any place if there is none: Welch's test, which does
 * not mind that one side is noisier, times the places that it could have been found at. */
static double level_chance(const struct series *s, size_t step)
{
    size_t from = part_from(s, step), at = s->at[step], to = part_to(s, step + 1);
    double na = (double)(at - from), nb = (double)(to - at), ma, mb, va, vb, error, freedom;

    moments(s->calm + from, at - from, &ma, &va);
    moments(s->calm + at, to - at, &mb, &vb);
    va /= na;
    vb /= nb;
    if (!(va + vb > 0))
        return ma == mb ? 1 : 0;
    error = sqrt((va + vb) * s->inflation);
    freedom = (va + vb) * (va + vb) / (va * va / (na - 1) + vb * vb / (nb - 1));
    return 2 * student_above(fabs(mb - ma) / error, freedom) * (double)s->n / CHANGES_LEAST;
}

/* What a level that wanders by itself does: where runs follow each other closely, twice their
 * spread around it, which is more than that from one to the next. */
static double wander_of(const struct series *s)
{
    double rho = (s->inflation - 1) / (s->inflation + 1);

    return rho < RHO_SEEN ? 0 : CORRECTED * s->noise / sqrt(1 - rho);
}

/* Steps that are none of the level go, the least certain first: with each the parts beside it
 * change. */
static int drop_unlevel(struct series *s, const struct changes_options *o)
{
    for (;;) {
        size_t worst = SIZE_MAX;
        double worst_p = -1;

        for (size_t k = 0; k < s->nat; k++) {
            struct shift shift;
            double p = level_chance(s, k);

            if (!shift_at(s, k, s->y, &shift))
                return OPM_ENOMEM;
            if (fabs(log1p(shift.size)) < MAX(log1p(o->min_effect), MAX(s->least, wander_of(s))))
                p += 1000;
            if (p > o->alarm && p > worst_p) {
                worst_p = p;
                worst = k;
            }
        }
        if (worst == SIZE_MAX)
            return 0;
        drop_steps(s, worst, 1);
    }
}

/* Each step to where it leaves least between it and its neighbours. */
static void settle_steps(struct series *s)
{
    for (size_t k = 0; k < s->nat; k++) {
        size_t from = part_from(s, k), to = part_to(s, k + 1), best = s->at[k];
        double least = INFINITY;

        for (size_t at = MAX(from + CHANGES_LEAST, best > 3 ? best - 3 : 0);
             at + CHANGES_LEAST <= to && at <= s->at[k] + 3; at++) {
            double left = median(s->calm + from, at - from, s->room), sum = 0, right;

            for (size_t i = from; i < at; i++)
                sum += fabs(s->calm[i] - left);
            right = median(s->calm + at, to - at, s->room);
            for (size_t i = at; i < to; i++)
                sum += fabs(s->calm[i] - right);
            if (sum < least) {
                least = sum;
                best = at;
            }
        }
        s->at[k] = best;
    }
}

/* -- drifts -- */

static double squares_around_mean(const double *y, size_t n)
{
    double mean = 0, squares = 0;

    for (size_t i = 0; i < n; i++)
        mean += y[i] / (double)n;
    for (size_t i = 0; i < n; i++)
        squares += (y[i] - mean) * (y[i] - mean);
    return squares;
}

/* What a ramp from a to b, level before and behind, leaves; *rise: what it explains. */
static double squares_around_ramp(const double *y, size_t n, size_t a, size_t b, double *rise)
{
    double sx = 0, sy = 0, sxx = 0, sxy = 0, syy = 0, m = (double)n, vx, vxy;

    for (size_t i = 0; i < n; i++) {
        double x = i <= a ? 0 : i >= b ? 1 : (double)(i - a) / (double)(b - a);

        sx += x;
        sy += y[i];
        sxx += x * x;
        sxy += x * y[i];
        syy += y[i] * y[i];
    }
    vx = sxx - sx * sx / m;
    vxy = sxy - sx * sy / m;
    *rise = vx > 0 ? vxy / vx : 0;
    return MAX(syy - sy * sy / m - *rise * vxy, 0);
}

/* By Schwarz's criterion; what follows each other alike counts for less. */
static double criterion(const struct series *s, double squares, size_t n, double parameters)
{
    double floor = 1e-10 * (double)n;

    return (double)n / s->inflation * log((squares + floor) / (double)n) +
           parameters * log((double)n);
}

/* The best ramp over [from, to) that takes its time; its criterion. */
static double best_ramp(const struct series *s, size_t from, size_t to, struct change *out)
{
    size_t n = to - from, stride = MAX(n / RAMP_PLACES, (size_t)1);
    double best = INFINITY;

    for (size_t a = 0; a + 2 * CHANGES_LEAST < n; a += stride) {
        for (size_t b = a + 2 * CHANGES_LEAST; b < n + stride; b += stride) {
            size_t end = MIN(b, n - 1);
            double rise, left = squares_around_ramp(s->calm + from, n, a, end, &rise);
            double c = criterion(s, left, n, 4);

            if (c < best) {
                best = c;
                *out = (struct change){ .kind = CHANGE_DRIFT,
                                        .at = from + a,
                                        .end = from + end,
                                        .size = expm1(rise),
                                        .low = NAN,
                                        .high = NAN };
            }
        }
    }
    return best;
}

static bool rises(const struct series *s, size_t step)
{
    size_t from = part_from(s, step), at = s->at[step], to = part_to(s, step + 1);

    return median(s->calm + at, to - at, s->room) > median(s->calm + from, at - from, s->room);
}

/* Steps in the same direction, one after the other, may be a slope cut into pieces. */
static void find_drifts(struct series *s, double min_effect)
{
    for (size_t first = 0; first < s->nat;) {
        size_t n = 1, from = part_from(s, first), to;
        double squares = 0;
        struct change ramp = { 0 };

        while (first + n < s->nat && rises(s, first + n) == rises(s, first))
            n++;
        to = part_to(s, first + n);
        for (size_t p = first; p <= first + n; p++)
            squares +=
                squares_around_mean(s->calm + part_from(s, p), part_to(s, p) - part_from(s, p));
        if (best_ramp(s, from, to, &ramp) < criterion(s, squares, to - from, 2 * (double)n + 1)) {
            drop_steps(s, first, n);
            if (fabs(log1p(ramp.size)) >= log1p(min_effect))
                s->drift[s->ndrift++] = ramp;
        } else {
            first += n;
        }
    }
}

/* Steps of the level, as far as noise allows to tell. */
static int find_levels(struct series *s, const struct changes_options *o)
{
    int rc = divide_series(s, ALARM_FIRST, o->seed, false);

    if (rc == 0) {
        s->inflation = inflation_of(s);
        rc = divide_series(s, o->alarm, o->seed + 1, false);
    }
    return rc == 0 ? drop_unlevel(s, o) : rc;
}

static double squares_around_parts(const struct series *s)
{
    double squares = 0;

    for (size_t p = 0; p <= s->nat; p++)
        squares += squares_around_mean(s->calm + part_from(s, p), part_to(s, p) - part_from(s, p));
    return squares;
}

/* The slope that the parts have in common, and its standard error. */
static double slope_within(const struct series *s, double *error)
{
    double both = 0, squares = 0, variance = squares_around_parts(s) / (double)s->n;

    for (size_t p = 0; p <= s->nat; p++) {
        size_t from = part_from(s, p), to = part_to(s, p);
        double middle = (double)(from + to - 1) / 2, mean = 0;

        for (size_t i = from; i < to; i++)
            mean += s->calm[i] / (double)(to - from);
        for (size_t i = from; i < to; i++) {
            both += ((double)i - middle) * (s->calm[i] - mean);
            squares += ((double)i - middle) * ((double)i - middle);
        }
    }
    *error = squares > 0 ? sqrt(variance * s->inflation / squares) : 0;
    return squares > 0 ? both / squares : 0;
}

/* A first guess that steps hardly move: the median over pairs some runs apart. */
static double slope_guess(const struct series *s)
{
    size_t over = MIN((size_t)SLOPE_OVER, s->n / 2), n = s->n - over;

    for (size_t i = 0; i < n; i++)
        s->room[i] = (s->calm[i + over] - s->calm[i]) / (double)over;
    return median_in_place(s->room, n);
}

static void tilt(struct series *s, double slope)
{
    for (size_t i = 0; i < s->n; i++) {
        s->y[i] -= slope * (double)i;
        s->calm[i] -= slope * (double)i;
    }
}

/* A slope all along cuts a series into many steps. If a slope with fewer steps explains it better,
 * it drifts, and the steps are those that are left without the slope; they are found in s. */
static int find_slope(struct series *s, const struct changes_options *o)
{
    double slope = 0, least = s->least, by = slope_guess(s), before, after, error;
    struct series flat = *s;
    size_t *at = mem_calloc(s->n + 1, sizeof(*at));
    int rc = at ? 0 : OPM_ENOMEM;

    before = criterion(s, squares_around_parts(s), s->n, 2 * (double)s->nat + 1);
    if (at)
        memcpy(at, s->at, s->nat * sizeof(*at));
    s->least = CORRECTED * s->noise;
    for (int round = 0; round < SLOPE_ROUNDS && rc == 0; round++) {
        tilt(s, by);
        slope += by;
        rc = find_levels(s, o);
        by = slope_within(s, &error);
    }
    after = criterion(&flat, squares_around_parts(s), s->n, 2 * (double)s->nat + 2);
    if (rc == 0 && after + SLOPE_GAIN < before && s->nat <= flat.nat &&
        fabs(slope) * (double)s->n >= MAX(log1p(o->min_effect), SLOPE_LEAST * s->noise)) {
        s->drift[s->ndrift++] = (struct change){ .kind = CHANGE_DRIFT,
                                                 .at = 0,
                                                 .end = s->n - 1,
                                                 .size = expm1(slope * (double)(s->n - 1)),
                                                 .low = NAN,
                                                 .high = NAN };
    } else if (rc == 0) {
        tilt(s, -slope);
        memcpy(s->at, at, flat.nat * sizeof(*at));
        s->nat = flat.nat;
        s->inflation = flat.inflation;
        s->least = least;
    }
    mem_free(at);
    return rc;
}

static int find_steps(struct series *s, const struct changes_options *o)
{
    double error;
    int rc;

    if (o->plain) {
        memcpy(s->calm, s->y, s->n * sizeof(*s->y));
        return divide_series(s, o->alarm, o->seed, true);
    }
    draw_in(s);
    rc = find_levels(s, o);
    if (rc == 0 && s->nat && s->n >= 4 * CHANGES_LEAST &&
        fabs(slope_within(s, &error)) > SLOPE_SEEN * error)
        rc = find_slope(s, o);
    if (rc == 0) {
        find_drifts(s, o->min_effect);
        settle_steps(s);
    }
    return rc;
}

/* -- the control -- */

/* Logarithms of what is known of it, gaps filled from beside; false if too little is. */
static bool read_control(const double *control, size_t n, double *out)
{
    double last = NAN;
    size_t known = 0;

    for (size_t i = 0; control && i < n; i++)
        known += control[i] > 0 && isfinite(control[i]);
    if (!control || (double)known < CONTROL_KNOWN * (double)n || n < 2 * CHANGES_LEAST)
        return false;
    for (size_t i = 0; i < n && isnan(last); i++)
        if (control[i] > 0 && isfinite(control[i]))
            last = log(control[i]);
    for (size_t i = 0; i < n; i++) {
        if (control[i] > 0 && isfinite(control[i]))
            last = log(control[i]);
        out[i] = last;
    }
    return true;
}

/* How much y changes at step k of the control, between its neighbours. */
static double local_change(const struct series *c, const double *y, size_t k)
{
    size_t at = c->at[k], from = MAX(part_from(c, k), at > LOCAL ? at - LOCAL : 0);
    size_t to = MIN(part_to(c, k + 1), at + LOCAL);
    double before = median(y + from, at - from, c->room);

    return median(y + at, to - at, c->room) - before;
}

/* Take out of y what the control explains: run by run where it follows them, else only where it
 * changed its level. Machine changes go to `found`. */
static void take_out(struct series *s, struct series *c, double min_effect, struct changes *found)
{
    double alone = noise_of(s->y, s->n, s->room), middle = median(c->y, c->n, c->room), sum = 0;
    bool follows;

    for (size_t i = 0; i < s->n; i++)
        s->calm[i] = s->y[i] - (c->y[i] - middle);
    follows = noise_of(s->calm, s->n, s->room) < CONTROL_HELPS * alone;
    for (size_t k = 0; k < c->nat; k++) {
        double machine = local_change(c, c->y, k), did = local_change(c, s->y, k);
        double share = machine != 0 ? did / machine : 0;
        size_t to = part_to(c, k + 1);

        if (share >= 0 && share <= MACHINE_MOST)
            machine = did;
        sum += machine;
        for (size_t i = c->at[k]; i < to; i++)
            c->calm[i] = sum;
        if (share > 0 && fabs(machine) >= log1p(min_effect))
            found->change[found->n++] = (struct change){ .kind = CHANGE_MACHINE,
                                                         .at = c->at[k],
                                                         .end = c->at[k],
                                                         .size = expm1(machine),
                                                         .low = NAN,
                                                         .high = NAN };
    }
    for (size_t i = 0; i < (c->nat ? c->at[0] : s->n); i++)
        c->calm[i] = 0;
    for (size_t i = 0; i < s->n; i++)
        s->y[i] = follows ? s->calm[i] : s->y[i] - c->calm[i];
    if (c->nat)
        s->least = CORRECTED * noise_of(s->y, s->n, s->room);
}

/* What the control did not explain of a change of the machine is still the machine's: memory does
 * not follow the clock of the processor. */
static void drop_rests(struct series *s, const struct changes *machine)
{
    for (size_t k = s->nat; k-- > 0;) {
        for (size_t i = 0; i < machine->n; i++) {
            const struct change *c = &machine->change[i];
            size_t off = c->at > s->at[k] ? c->at - s->at[k] : s->at[k] - c->at;
            size_t from = part_from(s, k), at = s->at[k], to = part_to(s, k + 1);
            double left = median(s->calm + from, at - from, s->room);
            double rest = median(s->calm + at, to - at, s->room) - left;

            if (off <= MACHINE_NEAR && fabs(rest) <= MACHINE_REST * fabs(log1p(c->size))) {
                drop_steps(s, k, 1);
                break;
            }
        }
    }
}

/* -- all of it -- */

static int by_place(const void *a, const void *b)
{
    const struct change *x = a, *y = b;

    return x->at != y->at ? (x->at < y->at ? -1 : 1) : (int)x->kind - (int)y->kind;
}

/* Levels beside each change, which reach to the next one. */
static void add_levels(struct changes *out, const double *value, size_t n, double *room)
{
    for (size_t k = 0; k < out->n; k++) {
        struct change *c = &out->change[k];
        size_t from = 0, to = n;

        for (size_t i = 0; i < out->n; i++) {
            const struct change *other = &out->change[i];

            if (other->end <= c->at && other->end > from && i != k && other->end != c->at)
                from = other->end;
            if (other->at > c->end && other->at < to)
                to = other->at;
        }
        c->before = c->at > from ? median(value + from, c->at - from, room) : value[c->at];
        c->after = to > c->end ? median(value + c->end, to - c->end, room) : value[c->end];
    }
}

static int collect(struct series *s, struct changes *out)
{
    for (size_t k = 0; k < s->nat; k++) {
        struct change *c = &out->change[out->n++];
        struct shift shift;

        if (!shift_at(s, k, s->y, &shift))
            return OPM_ENOMEM;
        *c = (struct change){ .kind = CHANGE_CODE,
                              .at = s->at[k],
                              .end = s->at[k],
                              .size = shift.size,
                              .low = shift.low,
                              .high = shift.high };
    }
    for (size_t k = 0; k < s->ndrift; k++)
        out->change[out->n++] = s->drift[k];
    return 0;
}

/* What a change of the machine did, from what was measured between the changes beside it. */
static void measure_machine(struct changes *out, const double *value, size_t n, double *room)
{
    for (size_t k = 0; k < out->n; k++) {
        struct change *c = &out->change[k];
        size_t from = c->at > 2 * LOCAL ? c->at - 2 * LOCAL : 0, to = MIN(c->at + 2 * LOCAL, n);
        struct shift shift;

        if (c->kind != CHANGE_MACHINE)
            continue;
        for (size_t i = 0; i < out->n; i++) {
            const struct change *other = &out->change[i];

            if (other->kind != CHANGE_DRIFT && other->at < c->at)
                from = MAX(from, other->at);
            if (other->kind != CHANGE_DRIFT && other->at > c->at)
                to = MIN(to, other->at);
        }
        memcpy(room, value + from, (to - from) * sizeof(*value));
        if (shift_of(room, c->at - from, room + (c->at - from), to - c->at, 1, &shift)) {
            c->size = shift.size;
            c->low = shift.low;
            c->high = shift.high;
        }
    }
}

static int find(const double *value, const double *control, struct series *s, struct series *c,
                const struct changes_options *o, struct changes *out)
{
    int rc = 0;

    for (size_t i = 0; i < s->n; i++)
        s->y[i] = log(value[i]);
    if (!o->plain && read_control(control, s->n, c->y)) {
        rc = find_steps(c, o);
        if (rc == 0)
            take_out(s, c, o->min_effect, out);
    }
    if (rc == 0)
        rc = find_steps(s, o);
    if (rc == 0) {
        drop_rests(s, out);
        rc = collect(s, out);
    }
    if (rc < 0)
        return rc;
    out->noise = noise_of(s->y, s->n, s->room);
    qsort(out->change, out->n, sizeof(*out->change), by_place);
    measure_machine(out, value, s->n, s->room);
    add_levels(out, value, s->n, s->room);
    return 0;
}

/* Known values alone, of the last that are looked at; index[] says which they were. */
static size_t known(const double *value, const double *control, size_t n, double *v, double *c,
                    size_t *index)
{
    size_t m = 0, first = n > CHANGES_RUNS_MAX ? n - CHANGES_RUNS_MAX : 0;

    for (size_t i = first; i < n; i++) {
        if (!(value[i] > 0) || !isfinite(value[i]))
            continue;
        v[m] = value[i];
        c[m] = control ? control[i] : (double)NAN;
        index[m++] = i;
    }
    return m;
}

int changes_find(const double *value, const double *control, size_t n,
                 const struct changes_options *o, struct changes *out)
{
    size_t room = MIN(n, (size_t)CHANGES_RUNS_MAX), m = 0;
    double *v = mem_calloc(room + 1, sizeof(*v)), *c = mem_calloc(room + 1, sizeof(*c));
    size_t *index = mem_calloc(room + 1, sizeof(*index));
    struct series s = { 0 }, beside = { 0 };
    int rc = OPM_ENOMEM;

    *out = (struct changes){ .change = mem_calloc(3 * room + 1, sizeof(*out->change)) };
    if (v && c && index && out->change) {
        m = known(value, control, n, v, c, index);
        rc = series_init(&s, m) && series_init(&beside, m) ? 0 : OPM_ENOMEM;
    }
    if (rc == 0 && m)
        rc = find(v, c, &s, &beside, o, out);
    for (size_t k = 0; k < out->n && rc == 0; k++) {
        out->change[k].at = index[out->change[k].at];
        out->change[k].end = index[out->change[k].end];
    }
    if (rc < 0) {
        mem_free(out->change);
        *out = (struct changes){ 0 };
    }
    series_release(&s);
    series_release(&beside);
    mem_free(v);
    mem_free(c);
    mem_free(index);
    return rc;
}
