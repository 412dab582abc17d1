/* store_int.h -- what the files of store/ share; nobody else includes it.
 *
 * Who does what: store.c builds and reads, load.c takes what a store wrote before, order.c brings
 * the spans of one track into order, merge.c the tracks into one, part.c moves what one source
 * added, steps.c decides who tells of steps, finish.c calls them and does the rest of
 * store_finish(), derive.c computes derived columns when they are first asked for. */
#ifndef STORE_STORE_INT_H
#define STORE_STORE_INT_H

#include "base/u64map.h"
#include "store/store.h"

#include <pthread.h>
#include <stdatomic.h>

/* Room for `bytes` in a column, at least doubling; what was there stays. Large columns are mapped,
 * so that growing them moves no bytes. 0 or OPM_ENOMEM (nothing changed). Also serves as the
 * scratch array of this folder. */
int column_reserve(struct column *c, size_t bytes);
void column_release(struct column *c); /* a zeroed one is fine */
size_t column_width(enum col_type type);
/* The NULL of that type into rows [from, to). */
void column_fill_null(struct column *c, enum col_type type, size_t from, size_t to);

/* Numbers below 2^8, 2^16 or 2^32 in one, two or four bytes each; width 0 means that every row
 * holds `same`. Spans have millions of rows and seldom more than 255 tracks or levels, and touching
 * fresh memory is what opening a trace costs most. */
struct packed {
    union {
        void *data;
        uint8_t *u8;
        uint16_t *u16;
        uint32_t *u32;
    };
    struct column mem; /* owns data */
    unsigned width;
    uint32_t same;
};

int packed_init(struct packed *p, size_t n, uint32_t max); /* not filled; 0 or OPM_ENOMEM */
void packed_release(struct packed *p);

static inline uint32_t packed_get(const struct packed *p, size_t i)
{
    switch (p->width) {
    case 1:
        return p->u8[i];
    case 2:
        return p->u16[i];
    case 4:
        return p->u32[i];
    default:
        return p->same;
    }
}

static inline void packed_set(struct packed *p, size_t i, uint32_t v)
{
    switch (p->width) {
    case 1:
        p->u8[i] = (uint8_t)v;
        break;
    case 2:
        p->u16[i] = (uint16_t)v;
        break;
    case 4:
        p->u32[i] = v;
        break;
    default:
        break;
    }
}

/* Spans added one after the other on one track; the next run or the last span ends it. */
struct span_run {
    uint32_t first;
    uint32_t track;
};

/* The text shared by the args of many spans; see args.c. */
struct args_form {
    str_id text;
    uint32_t nvalue;
    size_t base; /* of its values' bases in args_pool.bases */
    bool used;   /* the bases are set */
};

struct args_pool {
    struct column forms; /* struct args_form */
    size_t nform;
    struct column bases; /* int64_t */
    size_t nbase;
    struct column bytes;
    size_t len;
    struct u64map by_text;
};

/* What store_args_later() was given. `waiting` is cleared after everything else, under the mutex.
 */
struct args_wait {
    pthread_mutex_t mutex;
    struct args_later later;
    atomic_bool waiting;
    bool reading; /* the thread that has the mutex may set args of a frozen store */
    bool ever;    /* there were some */
};

/* Marks a cell of the args column that is a place in args_pool.bytes, not a string. */
#define ARGS_PACKED ((uint32_t)1 << 31)

void args_release(struct args_pool *pool);
void args_wait_release(struct args_wait *w);
/* The string for a cell of the args column. Caller holds the mutex. 0 or OPM_ENOMEM. */
int args_intern(const struct store *st, uint32_t ref, str_id *out);

/* One end of an arrow that store_finish() must find. */
struct flow_point {
    int64_t ts;
    uint32_t track;
    uint32_t row; /* of flow */
    uint8_t is_dst;
    uint8_t next; /* FLOW_NEXT, else FLOW_ENCLOSING */
};

/* One derived column. `ready` is set after everything else, under the mutex. */
struct lazy_column {
    struct column col; /* data NULL: every value is NULL */
    atomic_bool ready;
};

/* The part of a frozen store that still changes. */
struct lazy {
    pthread_mutex_t mutex; /* strings too */
    struct lazy_column span[span_col_COUNT];
    struct packed depth; /* what store_cell() reads; span[span_col_depth] is the same as int64 */
    atomic_bool depth_ready;
};

struct track_pair {
    uint32_t track, of;
};

/* What was found out about loaded spans, block by block. */
struct load_blocks {
    pthread_mutex_t mutex;
    size_t *first; /* spans that begin blocks */
    size_t n, cap;
    size_t rows; /* in blocks that are in order */
    int64_t not_ended;
};

struct store {
    struct strpool strings;
    /* table[TABLE_span] has the number of spans and, of the columns, ts, dur, correlation, wait (as
     * the source gave it) and args. */
    struct table table[TABLE_COUNT];
    struct column span_site; /* uint32_t */
    size_t span_cap;         /* rows that ts, dur and span_site have room for */

    struct column runs; /* building: the track of every span, as struct span_run */
    size_t nrun;
    struct packed span_track; /* frozen: ditto; the number of tracks stands for NULL */
    /* The last spans may come from store_load_spans(): there are no runs for them yet. */
    bool loaded;
    size_t loaded_from;
    struct packed loaded_track; /* of the spans from there on; the largest number is none */
    struct load_blocks load_blocks;
    struct track_pair *loaded_overlap;
    size_t nloaded_overlap, loaded_overlap_cap;

    struct site *site;
    size_t nsite, site_cap;
    uint32_t *site_slot; /* open addressing over numbers + 1; at most half full */
    size_t nsite_slot;

    struct args_pool args;
    struct args_wait args_wait;
    struct flow_point *flow_point; /* building */
    size_t nflow_point, flow_point_cap;

    struct u64map meta_row; /* str_id of the key -> row */
    struct u64map mixed;    /* tracks, see store_track_mixed() */
    int64_t stat[STAT_COUNT];
    uint32_t
        *overlap_of; /* frozen: track -> the track whose overlapping spans it holds, or itself */
    bool frozen;
    bool amended; /* frozen, but see store_amend_begin() */
    struct lazy *lazy;
};

static inline struct span_run *span_runs(const struct store *st)
{
    return st->runs.data;
}
static inline int64_t *span_ts(const struct store *st)
{
    return st->table[TABLE_span].col[span_col_ts].i64;
}
static inline int64_t *span_dur(const struct store *st)
{
    return st->table[TABLE_span].col[span_col_dur].i64;
}

/* Room for n spans in the columns that every store has. */
int spans_reserve(struct store *st, size_t need);
/* Make the column of something that few spans have. */
int spans_column(struct store *st, int col);
/* The counters that are not 0, as rows, each once. 0 or OPM_ENOMEM. */
int stats_write(struct store *st);
/* Turn loaded spans into spans like any. 0 or OPM_ENOMEM. */
int loaded_to_runs(struct store *st);
/* Whether all spans are loaded ones and can stay as they are. */
bool loaded_in_order(struct store *st);
/* Whether it is known, from when they were loaded, that all are and have not been moved. */
bool loaded_known(const struct store *st);
/* Times of spans are changed by somebody else. */
void loaded_forget(struct store *st);
/* Their tracks into st->span_track; shift_ns is taken off every ts. */
int loaded_keep(struct store *st, int64_t shift_ns);

/* Drop derived steps of processes that have others; before they are put in order. 0 or OPM_ENOMEM.
 */
int steps_settle(struct store *st);

/* A span on its way into order. */
struct span_entry {
    int64_t ts;
    int64_t dur; /* normalised: >= 0, or -1 for one that never ended */
    uint32_t site;
    uint32_t id; /* build id */
};

/* After normalising, ends stay below this, so that it can stand for "never". */
#define TIME_NEVER INT64_MAX
/* Times are held within +-TIME_LIMIT (146 years), so that neither moving the origin nor adding a
 * duration can overflow. */
#define TIME_LIMIT ((int64_t)(((uint64_t)1 << 62) - 1))

static inline int64_t span_end(int64_t ts, int64_t dur)
{
    return dur < 0 ? TIME_NEVER : ts + dur;
}

/* Ordered by start, longest first (never ended is longest); stable. Data that is in order already,
 * or consists of a few ordered pieces, costs little more than reading it. 0 or OPM_ENOMEM. */
int span_entries_sort(struct span_entry *e, size_t n);

struct open_span {
    int64_t end;
    uint32_t id;
};

/* The spans of a track that are open at some time, outermost first. Zeroed is empty. */
struct nest {
    struct open_span *open;
    size_t n, cap;
};

/* Close whatever ended before a span; ts must not go back from call to call. What is left encloses
 * the span, unless false comes back: then the innermost open span ends inside it, so it can't be
 * nested and must not be pushed.
 *
 * A span lies inside an earlier one that does not end before it does. So a zero-length span where
 * one ends and another begins belongs to the latter if it comes behind it, else to the former. One
 * that never ended ends with the one around it; *end is set to that. */
static inline bool nest_enter(struct nest *ns, int64_t ts, int64_t *end)
{
    while (ns->n && ns->open[ns->n - 1].end <= ts && ns->open[ns->n - 1].end < *end)
        ns->n--;
    if (!ns->n || ns->open[ns->n - 1].end >= *end)
        return true;
    if (*end != TIME_NEVER)
        return false;
    *end = ns->open[ns->n - 1].end;
    return true;
}

int nest_grow(struct nest *ns); /* 0 or OPM_ENOMEM */

/* Zero-length spans are not pushed: they enclose nothing, not even each other. */
static inline int nest_push(struct nest *ns, int64_t end, uint32_t id)
{
    if (UNLIKELY(ns->n == ns->cap) && nest_grow(ns))
        return OPM_ENOMEM;
    ns->open[ns->n++] = (struct open_span){ end, id };
    return 0;
}

/* Consecutive build ids of one track. */
struct span_piece {
    uint32_t first;
    uint32_t n;
};

/* How the spans of a track lie in the store. */
enum track_order {
    ORDER_BY_END,   /* children before parents: read backwards with a stack */
    ORDER_BY_START, /* parents before children: as they shall be */
    ORDER_SORTED,   /* neither; a sorted copy is in track_spans.sorted */
};

/* Spans that overlap others of their track and go to a sibling track. */
struct overlap {
    struct column list; /* struct span_entry */
    size_t n;
};

/* So many sibling tracks at most; the last one takes whatever is left, overlapping or not. */
#define OVERLAP_LEVELS 32

/* The spans of one track and what was found out about them. */
struct track_spans {
    uint32_t track;                 /* or OPM_NULL_ID for spans without one */
    const struct span_piece *piece; /* in the order in which they were added */
    size_t npiece;
    bool async; /* spans here overlap as they like; nothing nests */
    enum track_order order;
    struct column sorted; /* struct span_entry */
    size_t nsorted;
    struct overlap *overlap;
    size_t noverlap, overlap_cap;
    int64_t min_ts; /* TIME_NEVER if there is no span */
    int64_t not_ended, negative, out_of_order, overlapping;
    /* ORDER_BY_END: where to part them in two halves, before and after a time; see merge.c. */
    int64_t split_ts;       /* INT64_MIN: not wanted */
    size_t split;           /* first span that ends after split_ts; SIZE_MAX: none */
    struct open_span *open; /* of those that do, the ones that start before it, outermost first */
    size_t nopen;
    bool no_split; /* a span ends just then */
};

/* Normalise the spans of a track and find their order; make the sorted copy if one is needed.
 * Tracks may be done in parallel. 0 or OPM_ENOMEM. */
int track_spans_order(struct store *st, struct track_spans *t);
void track_spans_release(struct track_spans *t);

/* From so many spans on, two threads are used. Not constant because tests lower it. */
extern size_t store_parallel_from;

/* Bring the spans of all tracks into one order, in place: by ts, then track, then as they nest.
 * Tracks without number have the number of tracks by now; run_piece[] has the number of every run's
 * piece within its track. shift_ns is taken off every ts. Fills st->span_track and, unless NULL,
 * final_id (by build id). After OPM_ENOMEM the spans are lost. */
int merge_tracks(struct store *st, const struct track_spans *tracks, size_t ntrack,
                 const uint32_t *run_piece, int64_t shift_ns, uint32_t *final_id);

/* Fill a column by nesting the spans in their final order. 0 or OPM_ENOMEM; OPM_ELIMIT if a depth
 * has no room in a byte. */
int nest_self(const struct store *st, int64_t *self);
int nest_parent(const struct store *st, uint32_t *parent);
int nest_depth(const struct store *st, struct packed *depth);

/* After merging: find the spans that flow_point[] asks for and enter their final ids into the flow
 * table. shift_ns as above. 0 or OPM_ENOMEM. */
int flow_points_resolve(struct store *st, int64_t shift_ns);

/* Make sure that a derived column of span can be read through lazy. 0 or OPM_ENOMEM. */
int derive_column(const struct store *st, int col);
int derive_depth(const struct store *st);

#endif
