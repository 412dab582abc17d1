/* watch.h -- queries that must end: at a deadline, or when nobody waits for the answer any more.
 *
 * One thread looks at all of them a few times a second and interrupts those that are over. */
#ifndef SERVER_WATCH_H
#define SERVER_WATCH_H

#include "base/common.h"
#include <opmeter/opmeter_trace.h>

struct watch;

enum watched_end { WATCHED_OK, WATCHED_LATE, WATCHED_GONE, WATCHED_STOPPED };

/* A query that runs; between watch_begin() and watch_end() it belongs to the watch. */
struct watched {
    opm_trace *trace;
    int fd; /* of who waits for it; -1: unknown */
    int64_t deadline_ns;
    enum watched_end end; /* why it was interrupted */
    struct watched *next;
};

int watch_start(struct watch **out, opm_error *err);
void watch_stop(struct watch *w); /* interrupts everything from now on */
void watch_free(struct watch *w); /* after all queries ended; NULL is fine */
void watch_begin(struct watch *w, struct watched *q, opm_trace *t, int fd, int64_t limit_ns);
enum watched_end watch_end(struct watch *w, struct watched *q);

/* Who waits for an answer. */
struct waiter {
    struct watch *watch;
    int fd; /* -1: unknown */
};
/* Whether nobody does any more: the client has closed its side, or the server ends. */
bool waiter_is_gone(const struct waiter *w);

int64_t watch_now_ns(void); /* monotonic */

#endif
