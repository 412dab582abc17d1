/* perfetto_int.h -- the parts of the Perfetto reader.
 *
 * perfetto.c goes through the packets twice: first for tracks and clocks, which may be described
 * after their first use, then for events. perfetto_seq.c keeps what a sequence of packets has said
 * so far, perfetto_track.c makes tracks, perfetto_event.c reads TrackEvents and perfetto_args.c
 * their annotations; perfetto_spans.c pairs begins and ends once all are known, because packets of
 * different writers are not in order of time. */
#ifndef IMPORT_PERFETTO_PERFETTO_INT_H
#define IMPORT_PERFETTO_PERFETTO_INT_H

#include "base/arena.h"
#include "base/json_write.h"
#include "base/pb.h"
#include "base/u64map.h"
#include "import/common/build.h"

/* Kinds of interned things; each has numbers of its own. */
enum pf_intern {
    PF_CATEGORIES,
    PF_NAMES,
    PF_ANNOTATION_NAMES,
    PF_ANNOTATION_STRINGS,
    PF_LOCATIONS,
    PF_FUNCTIONS,
    PF_FRAMES,
    PF_CALLSTACKS,
    PF_INTERN_COUNT,
};

#define PF_SEQ_CLOCK_FIRST 64u /* clocks from here to 127 belong to a sequence */
#define PF_SEQ_CLOCKS 64
#define PF_COUNTERS_MAX 64 /* extra counters of one event */

enum { PF_CLOCK_REALTIME = 1, PF_CLOCK_MONOTONIC = 3, PF_CLOCK_BOOTTIME = 6 };

/* A clock of a sequence: counts in units, perhaps as differences; `ref_ns` is the trace's clock
 * when it showed `at`. */
struct pf_seq_clock {
    bool known, incremental;
    uint64_t unit_ns;
    int64_t at;
    int64_t ref_ns;
    int64_t now;
};

/* Tracks of the values that events carry besides. */
struct pf_counters {
    uint64_t track[PF_COUNTERS_MAX], real_track[PF_COUNTERS_MAX];
    size_t n, nreal;
};

struct pf_seq {
    uint32_t id;
    bool has_state;                      /* its interned things are complete */
    struct u64map text[PF_INTERN_COUNT]; /* number -> str_id */
    struct u64map counter;               /* track -> last value, of those that count differences */
    bool has_track;
    uint64_t track;
    uint64_t clock;               /* 0: the trace's */
    struct pf_counters *counters; /* of every event; NULL: none */
    bool has_thread;              /* a ThreadDescriptor of the old kind */
    int64_t pid, tid;
    int64_t last_ts_ns, thread_time_us, reference_ts_us;
    struct pf_seq_clock *clocks; /* PF_SEQ_CLOCKS; NULL until there is one */
};

struct pf_track {
    uint64_t uuid, parent;
    str_id name, description, merge_key, unit_name;
    int64_t pid, tid;
    uint64_t unit, unit_multiplier, counter_type;
    bool is_thread, is_process, is_counter, incremental, by_key;
    bool described;
    uint32_t row;  /* of track; OPM_NULL_ID: not made yet */
    uint32_t lane; /* ditto */
};

/* A place where begins and ends are paired. */
struct pf_lane {
    uint32_t track;
};

enum pf_event_type { PF_BEGIN, PF_END, PF_COMPLETE, PF_STATE };

struct pf_event {
    int64_t ts_ns;
    int64_t dur_ns; /* PF_COMPLETE */
    int64_t correlation;
    uint32_t lane;
    uint32_t order;
    uint32_t site;
    uint32_t flow; /* first of its flows + 1; 0: none */
    uint32_t nflow;
    str_id args;
    uint32_t region; /* of pf.region + 1; 0: none */
    enum pf_event_type type;
};

enum pf_flow_mode { PF_FLOW_STEP, PF_FLOW_END, PF_FLOW_OUT, PF_FLOW_IN };

struct pf_flow {
    uint64_t id;
    int64_t ts_ns;
    uint32_t order;
    uint32_t span; /* build id, once known */
    bool legacy;
    enum pf_flow_mode mode;
};

/* A step or record that a span of our own export shows. */
struct pf_region {
    bool is_record;
    str_id text; /* model or label */
    int64_t num;
    bool warmup;
};

struct pf_clock_pair {
    uint32_t clock;
    int64_t clock_ns, ref_ns;
};

struct pf {
    struct build b;
    struct arena arena;
    struct u64map seq_at; /* id -> pointer */
    struct pf_track *track;
    size_t ntrack, track_cap;
    struct u64map track_at; /* uuid -> number */
    struct u64map merged;   /* parent and key -> row of track */
    struct u64map merged_count;
    struct u64map described_thread;          /* pid and tid -> number */
    struct u64map thread_track, async_track; /* made for events of the old kind */
    struct u64map process_name;              /* pid -> str_id */
    struct pf_lane *lane;
    size_t nlane, lane_cap;
    struct pf_event *event;
    size_t nevent, event_cap;
    struct pf_flow *flow;
    size_t nflow, flow_cap;
    struct pf_region *region;
    size_t nregion, region_cap;
    struct pf_clock_pair *clock;
    size_t nclock, clock_cap;
    uint32_t ref_clock;    /* 0: not known yet */
    int64_t base_ns;       /* taken off every time */
    struct u64map skipped; /* field of TracePacket -> how many */
    bool ours;             /* written by opmeter: its annotations mean something */
    struct u64map our_op;  /* op.id there -> here */
    struct buf scratch;
};

/* perfetto_seq.c */
struct pf_seq *pf_seq(struct pf *p, uint32_t id); /* NULL: no memory */
void pf_seq_clear(struct pf_seq *s);              /* a new start: everything said is void */
void pf_seqs_release(struct pf *p);
void pf_interned(struct pf *p, struct pf_seq *s, const struct pb_field *f);
/* The text of a number; 0, and counted, if it was lost. */
str_id pf_text(struct pf *p, struct pf_seq *s, enum pf_intern kind, uint64_t iid);
void pf_defaults(struct pf *p, struct pf_seq *s, const struct pb_field *f);
void pf_clock_snapshot(struct pf *p, struct pf_seq *s, const struct pb_field *f, bool first_pass);
void pf_clocks_sort(struct pf *p); /* between the passes */
/* A packet's timestamp as ns of the trace. */
int64_t pf_time(struct pf *p, struct pf_seq *s, uint64_t ts, uint64_t clock);

/* perfetto_track.c */
void pf_track_descriptor(struct pf *p, const struct pb_field *f);
void pf_process_descriptor(struct pf *p, const struct pb_field *f);
void pf_thread_descriptor(struct pf *p, struct pf_seq *s, const struct pb_field *f);
struct pf_track *pf_track(struct pf *p, uint64_t uuid); /* made if unknown; NULL: no memory */
uint32_t pf_track_row(struct pf *p, struct pf_track *t);
uint32_t pf_track_lane(struct pf *p, struct pf_track *t);
uint32_t pf_thread_lane(struct pf *p, int64_t pid, int64_t tid);
/* Of asynchronous events of the old kind: one line for all of an id. */
uint32_t pf_async_lane(struct pf *p, str_id name, int64_t pid, uint64_t id, uint64_t space);

/* perfetto_args.c */
struct pf_args {
    struct pf *p;
    struct pf_seq *s;
    struct json_writer w;
    struct buf text;
    bool any;
};
void pf_annotation(struct pf_args *a, const struct pb_field *f);
void pf_args_key(struct pf_args *a, const char *key);
str_id pf_args_end(struct pf_args *a);
/* An annotation of our own export about the span: op, step, correlation, ... True if it is one. */
struct pf_span_facts {
    str_id layer, phase, args;
    uint32_t op;
    int64_t correlation;
    struct pf_region step, record;
    bool has_step, has_record;
};
bool pf_our_annotation(struct pf *p, struct pf_seq *s, const struct pb_field *f,
                       struct pf_span_facts *facts);
/* Name of an annotation; 0: none. */
str_id pf_annotation_name(struct pf *p, struct pf_seq *s, const struct pb_field *f);

/* perfetto_event.c */
void pf_track_event(struct pf *p, struct pf_seq *s, const struct pb_field *f, int64_t ts_ns);

/* perfetto_spans.c: everything that was read, as rows */
void pf_spans(struct pf *p);

#endif
