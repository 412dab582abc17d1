/* opm_events.h -- what the two passes over the events of an .opm file share. */
#ifndef IMPORT_OPM_OPM_EVENTS_H
#define IMPORT_OPM_OPM_EVENTS_H

#include "base/buf.h"
#include "import/common/echo.h"
#include "import/opm/opm_int.h"

#include <stdatomic.h>

struct arg {
    uint64_t ticks;
    uint64_t value;
    uint32_t thread;
    uint32_t key;
    uint8_t kind; /* UNIT_ARG_* */
};

struct arrow {
    uint64_t src_ticks, dst_ticks;
    uint32_t src_thread, dst_thread;
};

/* A span that something else refers to, or whose site stands for more than a span. */
struct noted {
    uint64_t ticks;
    int64_t ts_ns, dur_ns;
    uint32_t thread;
    uint32_t build_id;
    uint32_t id; /* of its site, in the file */
    const struct arg *arg;
    size_t narg;
};

struct notes {
    struct noted *item;
    size_t n, cap;
};
int notes_add(struct notes *l, const struct noted *n);

/* What a packed span takes from its site. */
struct span_site {
    uint32_t site;
    bool special; /* role_is_special() */
    bool unknown; /* there is none */
};

/* A span from BEGIN and END, from an asynchronous pair, or from the stack of a live thread. */
struct open_span {
    uint64_t ticks;
    uint64_t end;
    uint32_t id;
    uint32_t thread;
    bool ended;
    bool async;
    bool stacked;
    bool gone; /* found to be there a second time */
};

/* A span with a correlation number. */
struct linked {
    int64_t correlation;
    uint32_t span; /* build id */
    bool hardware;
};

/* opm_launches.c: arrows from what launched to what ran on a device, by correlation */
struct launches {
    struct linked *linked;
    size_t n, cap;
};
int launches_add(struct launches *l, int64_t correlation, uint32_t span, bool hardware);
int launches_place(const struct launches *l, struct store *st);
void launches_release(struct launches *l);

struct event_pass {
    struct opm_file *f;
    struct launches launches;
    struct arg *arg;
    size_t narg, arg_cap;
    struct echo echo; /* of texts in args */
    struct buf text;  /* scratch */
    struct arrow *arrow;
    size_t narrow, arrow_cap;
    struct open_span *open; /* finished and unfinished ones, all threads */
    size_t nopen, open_cap;
    size_t *stack; /* of `open`, for the thread being read */
    size_t nstack, stack_cap;
    struct notes notes;
    struct span_block *block; /* per piece */
    struct u64map wanted;     /* starts that args or arrows refer to, from any thread */
    uint64_t *filter;         /* one bit per hash of those, so that most spans need no look-up */
    unsigned filter_bits;
    uint32_t unknown_site;
    struct span_site *span_site; /* by number of the file's site */
    struct span_site no_site;
    _Atomic size_t next_piece; /* of the second pass */
    int64_t corrupt, unknown;
};

static inline uint64_t filter_hash(const struct event_pass *e, uint64_t ticks)
{
    return ticks * 0x9e3779b97f4a7c15u >> (64 - e->filter_bits);
}

static inline bool is_wanted(const struct event_pass *e, uint64_t ticks)
{
    uint64_t h = filter_hash(e, ticks);

    return UNLIKELY(e->filter[h / 64] >> h % 64 & 1) && u64map_get(&e->wanted, ticks);
}

/* Sites that stand for a row of another table besides the span. */
static inline bool role_is_special(unsigned role)
{
    return role == ROLE_STEP || role == ROLE_RECORD;
}

/* opm_regions.c: rows of tables step and record, once the spans know their args */
int regions_place(struct event_pass *e);

/* opm_spans.c */
int spans_read(struct event_pass *e, size_t total); /* the `total` packed spans of all pieces */

#endif
