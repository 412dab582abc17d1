/* changes.h -- where a series of measurements changed its level, and whether that was the machine.
 *
 * E-divisive (Matteson and James, 2014): the place where the energy distance of what is before and
 * behind is largest is a change if few permutations of the series have one so large; then both
 * sides are looked at likewise. By itself it takes much for a change that is none. So:
 *   - single outliers are drawn in to the median of their neighbours before;
 *   - runs that follow each other are more alike than others (autocorrelation): the statistic is
 *     divided by what that adds to it;
 *   - what changed must be the level, by Mann and Whitney's test, not the spread alone, and by
 *     more than what is worth mentioning;
 *   - steps that a slope explains better than they themselves are a drift, not steps;
 *   - a control, a fixed piece of work timed beside every run, is taken out: what it explains is
 *     the machine's.
 * A stable series has any change with the chance `alarm`; so has every stable part of another. */
#ifndef COMPARE_CHANGES_H
#define COMPARE_CHANGES_H

#include "base/common.h"

#define CHANGES_ALARM 0.01
#define CHANGES_LEAST 4 /* runs on either side of a change */
#define CHANGES_RUNS_MAX 500

struct changes_options {
    double alarm;
    double min_effect; /* a share, above 0 */
    uint64_t seed;
    bool plain; /* E-divisive alone, without what is listed above */
};
#define CHANGES_OPTIONS_INIT                                  \
    {                                                         \
        .alarm = CHANGES_ALARM, .min_effect = 0.01, .seed = 1 \
    }

enum change_kind { CHANGE_CODE, CHANGE_MACHINE, CHANGE_DRIFT };
extern const char *const change_kind_names[];

struct change {
    enum change_kind kind;
    size_t at;            /* the first run of the new level; of a drift, where it begins */
    size_t end;           /* of a drift, where it ends; else at */
    double before, after; /* medians of the levels beside it */
    double size;          /* a share of what was before, the machine's part left out */
    double low, high;     /* 95 % interval of that */
};

struct changes {
    struct change *change; /* by place; to mem_free() */
    size_t n;
    double noise; /* spread of single runs around their level, a share */
};

/* The series `value`, n of them, above 0; `control` beside it, or NULL. NAN: not known. Of more
 * than CHANGES_RUNS_MAX the last are looked at. 0 or OPM_ENOMEM; pure. */
int changes_find(const double *value, const double *control, size_t n,
                 const struct changes_options *o, struct changes *out);

/* How much one side of a place differs from the other: two sets of positive values. */
struct shift {
    double size, low, high; /* a share of the first; 95 % interval */
    double p;               /* Mann and Whitney's, two-sided */
};
/* inflation: of the variance, by autocorrelation; 1 if there is none. False: too few (below 2 on a
 * side), or out of memory. Orders a and b. */
bool shift_of(double *a, size_t na, double *b, size_t nb, double inflation, struct shift *out);

#endif
