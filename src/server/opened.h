/* opened.h -- a trace that was read, for many requests at once.
 *
 * A trace handle serves one thread at a time, so there are several on the same data, each for one
 * kind of question; a slow one holds up others of its kind only. */
#ifndef SERVER_OPENED_H
#define SERVER_OPENED_H

#include "server/busy.h"
#include "server/timeline.h"
#include "server/watch.h"
#include <opmeter/opmeter_trace.h>
#include <stdatomic.h>

enum lane {
    LANE_DATA,   /* what every page is made of; the analyses stay with this handle */
    LANE_DETAIL, /* named queries about something in particular */
    LANE_SQL,    /* whatever people think of */
    LANE_TIMELINE,
    LANE_COUNT
};

struct opened;

/* What reading a trace needs and may cost, as in opm_open_options; 0: the defaults. */
struct read_limits {
    uint64_t unpacked, memory, seconds;
    const char *const *captures;
    size_t ncaptures;
};

/* What others see of a trace that is being read. */
struct reading {
    const atomic_bool *stop;      /* true: it is given up */
    _Atomic uint64_t done, total; /* bytes of the file; 0 while it is not read */
};

/* Read a trace of so many files. The caller has the one reference. */
int opened_read(struct opened **out, const char *const *paths, size_t npaths, uint64_t stamp,
                const struct read_limits *limits, struct reading *reading, opm_error *err);
/* Begin in a thread of its own what the first picture will need. Once. */
void opened_prepare(struct opened *o);
void opened_ref(struct opened *o);
void opened_unref(struct opened *o); /* NULL is fine */

/* Which version of the file was read, and when (monotonic clock); how many spans it has. */
uint64_t opened_stamp(const struct opened *o);
int64_t opened_read_ns(const struct opened *o);
int64_t opened_spans(const struct opened *o);

/* Take a lane, waiting for those before at most LANE_WAIT_S seconds, as long as who is there (NULL:
 * always), and unless LANE_QUEUE_MAX wait already (OPM_EBUSY); give it back with opened_leave(). */
#define LANE_WAIT_S 20
#define LANE_QUEUE_MAX 64
int opened_enter(struct opened *o, enum lane lane, const struct waiter *who, opm_trace **out,
                 opm_error *err);
void opened_leave(struct opened *o, enum lane lane);
/* What pictures share; for who holds LANE_TIMELINE. */
int opened_timeline(struct opened *o, struct timeline **out, opm_error *err);
/* When devices worked; for who holds LANE_DATA. */
int opened_busy(struct opened *o, struct busy **out, opm_error *err);

#endif
