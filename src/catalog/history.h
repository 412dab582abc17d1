/* history.h -- runs of a catalogue as series over time, where they changed, and what changed there.
 *
 * A series is the runs that can be compared: of one model, engine, machine, number of threads and
 * batch size, by the time they began. */
#ifndef CATALOG_HISTORY_H
#define CATALOG_HISTORY_H

#include "base/arena.h"
#include "base/strpool.h"
#include "catalog/runsdb.h"
#include "compare/changes.h"

struct history_op {
    uint32_t op; /* index into history.op */
    double ns;   /* in one iteration */
};

struct history_run {
    struct kept_run run; /* without the sketch */
    const char *labels;  /* "branch=main os=linux", "" */
    struct history_op *op;
    size_t nop, op_cap;
};

struct history_name {
    const char *name, *type;
};

/* An operator or type that changed where the whole did. */
struct history_culprit {
    const char *name; /* NULL: all of the type */
    const char *type;
    double before, after; /* ns in one iteration; NAN: it did not run */
    struct shift shift;   /* NAN where it ran on one side only */
};

struct history_change {
    struct change c;                   /* places are those of history_series.run */
    struct history_culprit *type, *op; /* certain ones, those that changed most first */
    size_t ntype, nop;
};

struct history_series {
    size_t *run; /* indices into history.run, by time */
    size_t n, cap;
    struct history_change *change;
    size_t nchange;
    double noise; /* spread of single runs around their level, a share */
};

struct history {
    struct arena text;
    struct strpool keys; /* of operators: name, NUL, type */
    struct history_name *op;
    size_t nop, op_cap;
    struct history_run *run;
    size_t n, cap;
    struct history_series *series;
    size_t nseries, series_cap;
    size_t skipped; /* rows that make no sense */
};

/* Which runs: NULL or empty: all. */
struct history_filter {
    const char *model; /* its name, or a part of it */
    const struct kept_label *label;
    size_t nlabel;
};

/* `h` starts as {0}; history_release() it in any case. */
int history_read(struct history *h, struct runsdb *db, const struct history_filter *filter,
                 opm_error *err);
void history_release(struct history *h);
/* Find changes in every series. 0 or OPM_ENOMEM. */
int history_analyze(struct history *h, const struct changes_options *o, opm_error *err);

static inline const struct history_run *history_run_at(const struct history *h,
                                                       const struct history_series *s, size_t i)
{
    return &h->run[s->run[i]];
}

/* The series of one operator or type (`name` NULL), with its own changes: values[i] of run i, NAN
 * where it did not run. */
void history_values(const struct history *h, const struct history_series *s, const char *name,
                    const char *type, double *values);

/* Where things stand now, against what was accepted last (the first run, if nothing was). */
enum history_told { HISTORY_GOOD, HISTORY_WORSE, HISTORY_UNTOLD };
struct history_verdict {
    enum history_told told;
    size_t since;           /* place of the run that was accepted */
    size_t change;          /* the last change for the worse; SIZE_MAX: none */
    double size, low, high; /* of the level now, the machine's part left out; NAN: not known */
    size_t needed;          /* more runs to tell; 0: enough */
};
struct history_verdict history_judge(const struct history *h, const struct history_series *s,
                                     double min_effect);

#endif
