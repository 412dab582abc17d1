/* events.h -- trace events into a store.
 *
 * The consumer of event_shape.h. What an event means is worked out once per shape and kept as a
 * struct kind; after that an event of the shape is a row. Phases that pair up (B/E, async, flows)
 * are noted as points and matched in events_finish(), when their order in time is known.
 *
 * A dialect adds what it knows of one producer's traces: layers, operators, steps, links. */
#ifndef IMPORT_JSON_EVENTS_H
#define IMPORT_JSON_EVENTS_H

#include "base/u64map.h"
#include "import/import.h"
#include "import/json/event_info.h"

struct events;

enum act {
    ACT_SKIP,
    ACT_SPAN,
    ACT_BEGIN,
    ACT_END,
    ACT_INSTANT,
    ACT_COUNTER,
    ACT_ASYNC,
    ACT_FLOW,
    ACT_META,
};

/* One series of a counter event. */
struct series {
    uint32_t track;
    uint16_t value; /* or NO_VALUE: the same in all events */
    uint8_t hole;
    double same;
};

/* What to do with the events of a shape. */
struct kind {
    uint8_t act; /* enum act */
    char ph;
    bool bind_enclosing;    /* flow: bp is "e" */
    bool flow_in, flow_out; /* of a span with bind_id */
    unsigned dirt;
    uint16_t ts, dur, id, bind_id; /* numbers of values, or NO_VALUE */
    uint16_t correlation, external;
    uint32_t track; /* of this import, from 0 */
    uint32_t site;
    uint32_t form;  /* of args, or OPM_NULL_ID */
    uint16_t nform; /* values that it takes */
    bool form_run;  /* they lie one behind the other, from form_value[0] on */
    uint16_t *form_value;
    uint64_t key; /* async, flow: what it is matched by, but for the id */
    uint64_t bind_key;
    str_id name, cat;
    struct series *series;
    size_t nseries;
    void *dialect; /* the dialect's own */
};

/* What happens at a time on a track or in an async chain. */
struct point {
    int64_t ts;
    uint64_t key;  /* track, or what an async chain or a flow is matched by */
    uint32_t span; /* build id; OPM_NULL_ID: none */
    str_id name;
    str_id args;
    char ph;
};

struct flow_step {
    uint64_t key;
    int64_t ts;
    uint32_t span; /* build id, or OPM_NULL_ID: find it */
    uint32_t track;
    str_id kind;
    char ph; /* s, t or f */
    bool next;
};

struct ev_track {
    const char *kind;
    uint32_t process; /* index, or OPM_NULL_ID */
    int64_t tid;      /* or OPM_NULL_I64 */
    str_id name;      /* given by the file, or 0 */
    str_id fallback;  /* what the event itself calls it */
    str_id device;
    str_id unit;
    uint32_t last; /* span added last, to bind flows to; its start */
    int64_t last_ts;
};

struct ev_process {
    int64_t pid; /* or OPM_NULL_I64 */
    str_id name, fallback, labels;
    /* For the dialect to set. */
    str_id host;  /* or 0: events.host */
    int64_t rank; /* or OPM_NULL_I64 */
};

struct dialect {
    const char *name; /* of the format, for meta; NULL: the reader behind `event` says it */
    /* Instead of all but `fact`: take every event as JSON and make no rows; see event_each.h. */
    int (*event)(struct events *ev, struct json_reader *r);
    /* A kind was made: add what is known of it. k->site is made afterwards from *site. */
    int (*kind)(struct events *ev, struct kind *k, const struct event_info *info,
                struct site *site);
    /* A span (or instant) of a kind whose .dialect is set was added. */
    int (*span)(struct events *ev, struct kind *k, uint32_t build_id, int64_t ts_ns, int64_t dur_ns,
                const int64_t *value);
    /* A member of the file's outermost object other than the events; false: not for me. */
    int (*fact)(struct events *ev, const char *key, const char *json, size_t len, bool *taken);
    int (*finish)(struct events *ev);   /* after the last event; spans and tracks can be changed */
    void (*release)(struct events *ev); /* of ev->state */
    /* A line was named: what else the event says of it. */
    int (*track)(struct events *ev, struct ev_track *t, const struct event_info *info);
    bool (*taken)(const struct member *m); /* a member of args that became a column */
    bool args_correlation; /* args.correlation links a launch with what it launched */
};

struct events {
    struct store *st;
    const struct import_source *src;
    const struct dialect *dialect;
    void *state;  /* the dialect's own */
    bool clocked; /* the file has said what its times count from */

    struct event_info info; /* scratch */
    struct buf text, form;  /* scratch */
    struct arena *arena;    /* of kinds: the reader's, which forgets them with its shapes */

    struct ev_track *track;
    size_t ntrack, track_cap;
    uint32_t first_track; /* row of track[0] */
    struct ev_process *process;
    size_t nprocess, process_cap;
    struct u64map process_by, thread_by, track_by, series_by, site_with_op;

    struct point *point; /* B and E */
    size_t npoint, point_cap;
    struct point *async;
    size_t nasync, async_cap;
    struct flow_step *flow;
    size_t nflow, flow_cap;

    str_id layer_app, empty;
    str_id host;    /* of all tracks, or 0; for the dialect to set */
    uint64_t count; /* events */
    bool cut;       /* the text ended within one */
};

int events_init(struct events *ev, struct store *st, const struct import_source *src,
                const struct dialect *dialect);
void events_release(struct events *ev);
/* Take all events of the reader's batch. 0 or OPM_ENOMEM. */
int events_take(struct events *ev, struct event_reader *r);
/* A member of the file's outermost object. */
int events_fact(struct events *ev, const char *key, const char *json, size_t len);
/* Match what pairs up and write tracks. */
int events_finish(struct events *ev);

/* For dialects. */
int events_meta(struct events *ev, const char *key, const char *value);
/* The line of the timeline of a process and thread, which may be NULL. */
int events_track(struct events *ev, const struct event_info *info, const struct member *pid,
                 const struct member *tid, uint32_t *out);
/* A counter's line: of the process of `track` (or of none), by name. */
int events_series(struct events *ev, uint32_t process, uint64_t key, const char *name, size_t len,
                  uint32_t *out);
int events_sample(struct events *ev, uint32_t track, int64_t ts_ns, double value);
/* Baseline of the file's times, ns since 1970. */
void events_clock(struct events *ev, int64_t base_ns);
/* A site like another, for a part of what an operator does. */
int events_site_with_op(struct events *ev, uint32_t site, uint32_t op, str_id phase, uint32_t *out);
uint64_t events_hash(uint64_t h, uint64_t v);
double hole_number(uint8_t hole, const int64_t *value);

/* event_track.c */
int events_process(struct events *ev, const struct event_info *info, const struct member *pid,
                   uint32_t *out);
int events_async_track(struct events *ev, struct kind *k, const struct event_info *info);
int events_write_tracks(struct events *ev);
/* event_kind.c: set sh->user. */
int events_make_kind(struct events *ev, struct event_shape *sh);
/* event_pairs.c */
int pairs_finish(struct events *ev);
int async_finish(struct events *ev);
/* event_flow.c */
int flows_finish(struct events *ev);

extern const struct dialect dialect_chrome, dialect_kineto, dialect_ort, dialect_own;

/* trace_json.c */
int trace_json_read(struct store *st, const struct import_source *src,
                    const struct dialect *dialect, opm_error *err);

#endif
