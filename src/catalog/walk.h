/* walk.h -- all collectives of a job, a stretch of steps after the other, with the ranks of each
 * brought together as table arrivals of a trace does it: memory is that of a stretch, not of the
 * job, and clocks may drift from one to the next. */
#ifndef CATALOG_WALK_H
#define CATALOG_WALK_H

#include "analyze/meetings.h"
#include "base/strpool.h"
#include "catalog/fleetdb.h"

struct walk_window {
    struct meetings meetings; /* name: of names; span: index into bytes[]; no warm-up */
    const struct strpool *names;
    const int64_t *bytes;     /* that the rank puts in; FLEETDB_NONE: unknown */
    const str_id *comm;       /* likewise, of names; "" if it has none */
    int64_t from_num, to_num; /* steps in it */
    const char *num; /* "num", as SQL is to say it of these: it decides whether an index is used */
};

/* Nonzero of each() ends it and is returned. */
int walk_meetings(struct fleetdb *db, const char *job,
                  int (*each)(void *user, const struct walk_window *w), void *user, opm_error *err);

/* Operators of a job, whole names at a time, so that what ClickHouse answers has a bound (a file
 * gives row by row, all at once). */
struct walk_ops {
    const char *table;          /* rank_op_sum where every recording has that, else rank_op */
    bool sums;                  /* it is the former */
    const char *from, *to;      /* names, both included; NULL: all */
    const char *job, *left_out; /* SQL: recordings that do not count */
};

int walk_ops(struct fleetdb *db, const char *job, int (*each)(void *user, const struct walk_ops *w),
             void *user, opm_error *err);
/* "... FROM table WHERE job = ..." and which names. */
void walk_ops_where(struct fleetdb *db, const struct walk_ops *w, struct buf *sql);

#endif
