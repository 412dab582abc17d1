/* timeline.h -- what the writers of timelines share: columns, process and thread numbers, lanes.
 *
 * A viewer puts a slice on the line (process number, thread number), numbers must be small and not
 * collide, and slices of one line must nest. A store promises none of that: tracks may have no
 * numbers or the same ones (several hosts), spans of a track may overlap. So every track becomes a
 * line with numbers of its own, taken from the track where that is possible, and a line is split
 * into lanes in which spans nest: one, unless spans overlap. Spans must be placed in the order of
 * the store; what is kept grows with the spans that are open at one time, not with all of them. */
#ifndef EXPORT_TIMELINE_H
#define EXPORT_TIMELINE_H

#include "base/buf.h"
#include "base/u64map.h"
#include "store/store.h"

#define TIMELINE_NONE UINT32_MAX
#define TIMELINE_PROGRESS_SPANS 65536 /* spans between two calls of the progress function */

struct heap_item {
    int64_t key;
    uint32_t a;
    uint32_t b;
};

/* Smallest key first, then largest a. `struct heap h = {0}` is empty. */
struct heap {
    struct heap_item *item;
    size_t n;
    size_t cap;
};

struct process {
    int64_t given_pid; /* the track's, or OPM_NULL_I64 */
    str_id name;
    str_id host;
    int64_t rank;
    int32_t pid;       /* unique, not negative */
    uint32_t order;    /* its first line: where it belongs on the screen */
    uint32_t next;     /* in the list of those with the same hash */
    uint32_t next_tid; /* candidate for the next invented thread number */
    bool shown;        /* for the writer: it has been described */
    uint64_t uuid;     /* for the writer */
};

struct lane {
    uint32_t line;
    uint32_t index; /* 0: the first of its line */
    uint32_t next;  /* in the line, or TIMELINE_NONE */
    int32_t tid;    /* unique in the process, not negative */
    int64_t *end;   /* ends of the open spans, innermost last */
    size_t n;
    size_t cap;
    bool shown;    /* for the writer */
    uint64_t uuid; /* for the writer */
};

struct line {
    uint32_t process;
    uint32_t first; /* lane, or TIMELINE_NONE */
    uint32_t last;
    uint32_t nlane;
    struct heap rest; /* lanes beyond those that are searched, by the end of their one span */
    bool spans;
    bool samples;
    uint64_t counter_uuid; /* for the writer; 0: not described yet */
};

/* Steps or records, and which of them have a span that shows them. */
struct regions {
    size_t n;
    const int64_t *ts;
    const int64_t *dur;
    const uint32_t *track;
    str_id cat; /* category of such spans, or 0 */
    uint8_t *seen;
};

struct tensor_ref {
    uint32_t op;
    uint32_t io; /* 0 input, 1 weight, 2 output, 3 anything else */
    int64_t slot;
    uint32_t row; /* of op_tensor */
};

struct timeline {
    const struct store *st;
    size_t nspan;
    const int64_t *ts; /* columns of span; those that may be NULL are NULL if all values are */
    const int64_t *dur;
    const uint32_t *track;
    const uint32_t *span_site;
    const struct site *site;
    size_t nsite;
    const uint32_t *step;
    const uint32_t *record;
    const int64_t *correlation;
    const str_id *args;
    size_t nsample;
    const int64_t *sample_ts;
    const uint32_t *sample_track;
    const double *sample_value;
    const uint32_t *flow_src;
    const uint32_t *flow_dst;

    size_t ntrack;
    struct line *line; /* one per track, then the three named below */
    size_t nline;
    struct process *process;
    size_t nprocess;
    size_t process_cap;
    struct lane *lane;
    size_t nlane;
    size_t lane_cap;
    struct u64map pids; /* numbers in use */
    struct u64map tids; /* process << 32 | number */
    uint32_t next_pid;

    uint64_t *flow_end; /* span << 32 | flow, ordered */
    size_t nflow_end;
    size_t flow_cursor;
    struct regions steps;
    struct regions records;
    struct tensor_ref *tensor; /* ordered by op, io, slot */
    size_t ntensor;
    size_t nop;
};

/* Lines that are no track. */
static inline uint32_t timeline_stray_line(const struct timeline *tl)
{
    return (uint32_t)tl->ntrack; /* of spans and samples without a track */
}
static inline uint32_t timeline_steps_line(const struct timeline *tl)
{
    return (uint32_t)tl->ntrack + 1;
}
static inline uint32_t timeline_records_line(const struct timeline *tl)
{
    return (uint32_t)tl->ntrack + 2;
}

/* st must be frozen and outlive tl. 0 or OPM_ENOMEM; release in either case. Lines with spans have
 * their first lane from here on. */
int timeline_init(struct timeline *tl, const struct store *st);
void timeline_release(struct timeline *tl); /* a zeroed one is fine */

/* The line of a track number as it stands in a row. */
static inline uint32_t timeline_line_of(const struct timeline *tl, uint32_t track)
{
    return track < tl->ntrack ? track : timeline_stray_line(tl);
}
/* When a span of that duration ends; INT64_MAX: never. */
static inline int64_t timeline_end(int64_t ts, int64_t dur)
{
    if (dur < 0)
        return INT64_MAX;
    return dur < INT64_MAX - 1 - MAX(ts, 0) ? ts + dur : INT64_MAX - 1;
}
/* The lane in which a span nests; makes one if it must. 0 or OPM_ENOMEM. */
int timeline_place(struct timeline *tl, uint32_t line, int64_t ts, int64_t end, uint32_t *out_lane);

/* Arrows at a span; the low half of each item is a row of flow. Spans must be asked for in order.
 * Arrows to nowhere and from a span to itself are left out. *out is set if there is any. */
size_t timeline_flows(struct timeline *tl, uint32_t span, const uint64_t **out);
/* Inputs, weights and outputs of an op. */
size_t timeline_tensors(const struct timeline *tl, uint32_t op, const struct tensor_ref **out);

/* Text to show, appended to out; any bytes. */
void timeline_line_name(const struct timeline *tl, uint32_t line, struct buf *out);
void timeline_process_name(const struct timeline *tl, uint32_t process, struct buf *out);
void timeline_region_name(const struct timeline *tl, const struct regions *r, size_t row,
                          struct buf *out);
void timeline_process_labels(const struct timeline *tl, uint32_t process, struct buf *out);

int heap_push(struct heap *h, struct heap_item item); /* 0 or OPM_ENOMEM */
struct heap_item heap_pop(struct heap *h);            /* h is not empty */
void heap_release(struct heap *h);

#endif
