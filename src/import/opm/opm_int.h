/* opm_int.h -- the parts of the .opm reader.
 *
 * opm.c finds the pieces of the file and opm_live.c those of its live buffers, opm_defs.c reads
 * definitions, opm_unpack.c decodes packed events, opm_events.c and opm_spans.c turn them into
 * rows. A file of tables is read by opm_tables.c. */
#ifndef IMPORT_OPM_OPM_INT_H
#define IMPORT_OPM_OPM_INT_H

#include "base/arena.h"
#include "base/rd.h"
#include "base/u64map.h"
#include "format/format.h"
#include "import/import.h"
#include <pthread.h>
#include <stdatomic.h>

/* Events of one thread: a packed chunk, or units as they stood in a live block. */
struct piece {
    uint32_t thread;
    uint32_t seq;
    const uint8_t *packed; /* or NULL */
    size_t size;
    const struct opm_unit *units; /* if not packed */
    size_t nunit;
    uint64_t from; /* ticks: about when its events begin; known after the first pass */
    bool open;     /* units are the open spans of a live stack: they come after everything else */
    bool recent;   /* packed, and not in the file yet when we began to read */
};

/* Definitions: a chunk of the file, or a live block. */
struct def_piece {
    uint32_t seq;
    bool live;
    size_t order; /* in which they were found */
    const uint8_t *p;
    size_t len;
};

/* A piece of a file of tables. */
struct table_piece {
    unsigned kind; /* enum opm_chunk_kind */
    const uint8_t *p;
    size_t len;
    uint64_t first, n; /* spans: which rows of the file they are */
    size_t to;         /* and where they go */
};

enum id_kind { ID_NONE = 0, ID_SITE = 1, ID_STRING = 2, ID_TRACK = 3 };
#define ID_COUNT (1u << UNIT_ID_BITS)

struct def_site {
    uint32_t site;  /* in the store */
    uint32_t op;    /* in the store, or OPM_NULL_ID */
    uint32_t track; /* of counters, queues and asynchronous spans; OPM_NULL_ID until first needed */
    uint8_t role;
    bool hardware;
    str_id name;
    int64_t capacity; /* and the stages on both sides, of queues */
    str_id producer, consumer;
    int64_t workers;
    bool gauge; /* a counter that says what it measures: */
    str_id unit, device, process;
    int64_t pid;
};

enum json_state { JSON_UNTRIED, JSON_OBJECT_TEXT, JSON_OTHER_TEXT };

struct def_string {
    str_id text;
    uint8_t json; /* enum json_state */
};

struct def_op {
    struct cell cell[op_col_COUNT];
};

struct def_thread {
    uint32_t serial;
    uint32_t track; /* in the store */
    int64_t tid;
    str_id name;
};

struct def_track {
    uint32_t track; /* in the store; OPM_NULL_ID until defs_finish() if it is that of a thread */
    uint32_t clock; /* enum opm_clock */
    bool of_thread;
    int64_t tid; /* of that thread */
    size_t nsync;
    int64_t sync[4]; /* first and last pair: device ns, monotonic ns */
};

struct def_mem {
    str_id owner, kind;
    int64_t bytes, addr;
    uint32_t first_op, last_op; /* ids in the file */
};

/* How ticks become ns: (ticks - origin) * mult / 2^32. The origin is the start of the recording, or
 * that of another one whose ticks are the same. */
struct timebase {
    uint64_t origin;
    uint64_t mult;  /* ns per tick, 32.32 */
    uint64_t start; /* of the recording: ticks, and the other clocks then */
    int64_t start_monotonic_ns;
    int64_t start_realtime_ns;
    double own_rate; /* ns of this recording's clocks per ns that mult makes of ticks */
};

struct opm_file {
    const struct import_source *src;
    struct store *st;
    struct opm_file_header header;
    struct opm_file_status status;
    bool status_known;   /* its checksum is right; else status is zeroed and says nothing */
    uint64_t lost_units; /* spans that threads noted on the way as dropped */
    struct opm_file_losses losses;
    bool closed;
    bool moving; /* the recording goes on: its threads were not all read at the same moment */
    struct opm_calibration last; /* the latest reading of the clocks */
    struct timebase time;
    int64_t pid;
    str_id process, host;
    str_id identity; /* that another recorder in the same process has too; 0: unknown */
    int64_t device_dropped, device_unfinished; /* by their last account */

    uint32_t *id; /* what an id of the file means: row << 2 | enum id_kind; 0: nothing */
    struct def_site *site;
    size_t nsite, site_cap;
    struct def_op *op; /* rows of op, added when all definitions are known */
    size_t nop, op_cap;
    uint32_t first_op; /* in the store: where those of this file begin */
    struct def_string *string;
    size_t nstring, string_cap;
    struct def_track *track;
    size_t ntrack, track_cap;
    struct def_thread *thread;
    size_t nthread, thread_cap;
    struct u64map thread_at; /* serial to row */
    struct def_mem *mem;
    size_t nmem, mem_cap;

    struct piece *piece;
    size_t npiece, piece_cap;
    struct def_piece *defs;
    size_t ndefs, defs_cap;
    struct table_piece *table;
    size_t ntable, table_cap;
};

/* opm.c */
int piece_add(struct opm_file *f, const struct piece *p);
int def_piece_add(struct opm_file *f, const struct def_piece *d);

/* opm_live.c; in this order */
struct live {
    const uint8_t *data; /* mapped, changing under us if the recording goes on */
    size_t len;
    struct opm_live_header header;
    struct arena copies;
    struct u64map cut; /* serial of a thread to the end of what is taken of it */
};
bool live_map(struct live *live, const struct opm_file *f); /* false: there is none for this file */
int live_read(struct opm_file *f, struct live *live);
void live_cut(struct opm_file *f, const struct live *live); /* once all pieces are found */
void live_release(struct live *live);

/* opm_defs.c */
int defs_read(struct opm_file *f, const uint8_t *p, size_t len); /* 0, OPM_ENOMEM, OPM_EFORMAT */
int defs_finish(struct opm_file *f);                             /* tracks and memory plan */
int defs_init(struct opm_file *f);
void defs_release(struct opm_file *f);
struct def_thread *defs_thread(struct opm_file *f,
                               uint32_t serial); /* made if unknown; NULL: ENOMEM */
int defs_side_track(struct opm_file *f, struct def_site *site, const char *kind, uint32_t *out);

/* opm_tables.c: all of a file of tables */
int tables_read(struct opm_file *f);
/* opm.c: tells the clocks by which several files are brought in line */
void tables_time_tell(const struct opm_file *f);

/* opm_unpack.c */
struct unpacked_head {
    size_t nspan;
    size_t nother;
    uint64_t step;
    uint64_t base;
};
bool unpack_head(struct rd *r, struct unpacked_head *h);
/* One event that is not a packed span, as units; *last_ticks starts as base. False: damage. */
bool unpack_other(struct rd *r, struct opm_unit u[3], uint64_t *last_ticks);
/* The rest of the payload: start, duration and id of every span. False: damage. */
bool unpack_spans(struct rd *r, const struct unpacked_head *h, uint64_t *start, uint64_t *dur,
                  uint32_t *id);

/* opm_events.c: everything that happened, once all definitions are known */
int events_read(struct opm_file *f);

/* The site of an id (less than ID_COUNT), or NULL if the file does not define it. */
static inline struct def_site *defs_site(const struct opm_file *f, uint32_t id)
{
    uint32_t at = f->id[id];

    return (at & 3) == ID_SITE ? &f->site[at >> 2] : NULL;
}

static inline struct def_track *defs_track(const struct opm_file *f, uint64_t id)
{
    uint32_t at = id < ID_COUNT ? f->id[id] : 0;

    return (at & 3) == ID_TRACK ? &f->track[at >> 2] : NULL;
}

static inline str_id defs_string(const struct opm_file *f, uint64_t id)
{
    uint32_t at = id < ID_COUNT ? f->id[id] : 0;

    return (at & 3) == ID_STRING ? f->string[at >> 2].text : 0;
}

/* The arguments that a string holds; 0 if it is no JSON object. */
str_id defs_args(struct opm_file *f, uint64_t id);

/* Times of a damaged file may be anything: sums wrap around rather than overflow, and the store
 * cuts off what is beyond reason. */
static inline int64_t time_add(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static inline int64_t time_sub(int64_t a, int64_t b)
{
    return (int64_t)((uint64_t)a - (uint64_t)b);
}

static inline int64_t time_ns(const struct timebase *t, uint64_t ticks)
{
    __extension__ typedef __int128 wide;

    return (int64_t)((wide)(int64_t)(ticks - t->origin) * (wide)t->mult >> 32);
}

#endif
