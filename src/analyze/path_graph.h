/* path_graph.h -- what every thread and stream of a trace does, and what each part of it had to
 * wait for: the ground on which a critical path is sought.
 *
 * A line is a track, cut into pieces: at each instant the innermost span on it. What the device
 * does is launched by a call on the host (same correlation number), follows what stands before it
 * on its stream, and may wait for an event of another stream; a host call may wait for a stream. */
#ifndef ANALYZE_PATH_GRAPH_H
#define ANALYZE_PATH_GRAPH_H

#include "base/u64map.h"
#include "store/store.h"

#define NO_PIECE SIZE_MAX

struct piece {
    int64_t from_ns, to_ns; /* from < to, or both equal for a span of no length */
    uint32_t span;
};

/* A stream must not go on before the work of another one, up to an event, is done. */
struct stream_wait {
    int64_t call_ns;   /* when the host asked for it */
    uint32_t on;       /* line that is waited for */
    int64_t record_ns; /* what was launched there before this */
};

struct line {
    struct piece *at; /* disjoint, ascending */
    size_t n, cap;
    struct stream_wait *wait; /* ascending by call_ns */
    size_t nwait, wait_cap;
    int64_t rank, pid, tid; /* OPM_NULL_I64: unknown */
    str_id device;
    uint32_t next_stream; /* the next line on the devices of the same rank */
    bool async;           /* knows no order: it has no pieces */
    bool on_device;       /* its spans are on hardware */
    bool backward;        /* runs operators of the backward pass */
};

/* What a host call waits for. */
enum sync_scope {
    SYNC_NONE,
    SYNC_DEVICE, /* everything that was launched before */
    SYNC_STREAM, /* what was launched before on one stream */
    SYNC_EVENT,  /* what was launched there before the event was recorded */
    SYNC_OWN,    /* what it launched itself: a copy */
};

struct sync {
    enum sync_scope scope;
    uint32_t line;     /* STREAM, EVENT, OWN */
    int64_t before_ns; /* launched before this counts */
};

struct path_graph {
    const struct store *st;
    const int64_t *ts, *dur, *correlation; /* of span; correlation may be NULL */
    const uint32_t *track, *site;
    size_t nspan, nline;
    uint8_t *class;         /* per site, see span_class.h */
    uint8_t *sync_name;     /* per site: enum sync_scope that its name tells */
    struct line *line;      /* per track */
    struct u64map launch;   /* correlation -> host span */
    struct u64map launched; /* correlation -> last device span */
    struct u64map sync;     /* host span -> row of syncs, where the trace says what it waits for */
    struct u64map first_stream; /* rank -> first line on its devices */
    struct sync *syncs;
    size_t nsync, sync_cap;
    int64_t *asked; /* when some stream was told to wait, on which it is not known */
    size_t nasked, asked_cap;
};

/* 0 or OPM_ENOMEM; release in any case. */
int path_graph_get(struct path_graph *g, const struct store *st);
void path_graph_release(struct path_graph *g);

/* The lines on the devices of a rank: from here along next_stream, to OPM_NULL_ID. */
uint32_t path_first_stream(const struct path_graph *g, int64_t rank);

/* Host span that launched a device span, or OPM_NULL_ID. */
uint32_t path_launch_of(const struct path_graph *g, uint32_t span);

/* Last piece of a line that starts before a time, or NO_PIECE. */
size_t path_piece_before(const struct line *l, int64_t t_ns);

/* Last piece of a line that starts before t_ns and was launched before before_ns, or NO_PIECE: a
 * stream works in the order of launches. */
size_t path_launched_before(const struct path_graph *g, const struct line *l, int64_t t_ns,
                            int64_t before_ns);

/* What a host span waits for; SYNC_NONE if it is no such call. */
struct sync path_sync_of(const struct path_graph *g, uint32_t span);

/* A piece of a line; at is NO_PIECE where there is none. */
struct path_place {
    uint32_t line;
    size_t at;
};

/* What a call waited for that returned at end_ns: of the work on the device that it covers what
 * ended last. */
struct path_place path_waited_for(const struct path_graph *g, uint32_t call, struct sync sync,
                                  int64_t end_ns);

/* The work that a piece on the device had to wait for on another stream, and that ended no earlier
 * than ready_ns. *inferred: the trace says that there was a wait, not for what. */
struct path_place path_awaited(const struct path_graph *g, struct path_place piece,
                               int64_t ready_ns, bool *inferred);

#endif
