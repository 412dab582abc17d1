/* event_shape.h -- trace events read by example.
 *
 * A reader turns JSON text into (shape, values) pairs. A shape is the literal text of an event, its
 * numbers cut out; it is learned when an event like it is first met. Which shape comes next is
 * guessed from the two before, and a right guess costs a comparison of the text and the parsing of
 * the numbers; a wrong one, a scan and a look into a hash table. What comes out is the same either
 * way.
 *
 * A reader belongs to one thread. Shapes stay valid until event_reader_forget(). */
#ifndef IMPORT_JSON_EVENT_SHAPE_H
#define IMPORT_JSON_EVENT_SHAPE_H

#include "base/arena.h"
#include "import/json/event_repair.h"

#define EVENT_BATCH_MAX ((size_t)4096)

struct event_shape {
    uint64_t hash;
    const char *text; /* an example of it, as it stood in the file */
    uint32_t len;
    uint32_t next; /* the one that came behind it the last time */
    uint32_t room; /* bytes that an event of this shape may take */
    uint16_t nhole, nvalue;
    struct hole *hole;
    /* The same as strict JSON with the same holes, and what was wrong with the text; see
     * event_repair.h. strict is text if nothing was. */
    const char *strict;
    uint32_t strict_len;
    const struct hole *strict_hole;
    unsigned dirt;
    void *user; /* what the consumer made of it; NULL at first */
};

/* Events in the order of the text. */
struct event_batch {
    uint32_t *shape;
    size_t n, cap;
    int64_t *value; /* of all events, one behind the other */
    size_t nvalue, value_cap;
    /* What is between events and what could not be read. */
    uint64_t missing_commas, stray_commas, skipped, skipped_bytes;
    uint64_t texts_cut, too_long; /* see event_shorten.h */
    bool cut;                     /* the text ended within an event */
    uint32_t dirt[DIRT_COUNT];    /* of events that had to be rewritten before they could be read */
};

struct event_reader {
    struct event_shape *shape;
    size_t nshape, shape_cap;
    uint32_t *slot; /* open addressing over numbers + 1 */
    size_t nslot;
    uint32_t *guess; /* by the two shapes before */
    uint32_t last[2];
    bool after_event; /* an event was read, what separates it from the next was not */
    bool closed;      /* the list ends within what was passed over at the end of the text */
    size_t batch_max; /* events that event_reader_run() gathers at once */
    struct arena arena;
    struct arena users; /* for what shapes' user points to */
    struct event_scan scan;
    struct event_batch batch;
};

int event_reader_init(struct event_reader *r); /* 0 or OPM_ENOMEM */
void event_reader_release(struct event_reader *r);
/* Shapes take much memory by now. */
bool event_reader_full(const struct event_reader *r);
/* Drop all shapes, and `users` with them. */
void event_reader_forget(struct event_reader *r);
void event_batch_clear(struct event_batch *b);

enum read_end {
    READ_LIMIT,  /* *at is an event that starts at limit or later; or the batch is full */
    READ_MORE,   /* *at is an event, or white space, that the text does not hold to its end */
    READ_CLOSED, /* *at is the bracket that ends the list */
};

/* Add events from *at on to the batch, those that start before limit. `last`: there will be no more
 * text behind end, so a piece of an event is not waited for but skipped. The contract of end is
 * that of event_scan.h. The outcome, or OPM_ENOMEM. */
int event_reader_run(struct event_reader *r, const char **at, const char *limit, const char *end,
                     bool last);

#endif
