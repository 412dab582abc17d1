/* perfetto_int.h -- what the two halves of the Perfetto writer share: perfetto.c makes packets and
 * tracks, perfetto_event.c what stands in an event about a span. */
#ifndef EXPORT_PERFETTO_INT_H
#define EXPORT_PERFETTO_INT_H

#include "base/pb.h"
#include "export/timeline.h"
#include "export/writer.h"

/* Fields of TrackEvent. */
enum {
    EVENT_CATEGORY_IIDS = 3,
    EVENT_DEBUG_ANNOTATIONS = 4,
    EVENT_TYPE = 9,
    EVENT_NAME_IID = 10,
    EVENT_TRACK_UUID = 11,
    EVENT_CATEGORIES = 22,
    EVENT_NAME = 23,
    EVENT_COUNTER_VALUE = 30,
    EVENT_DOUBLE_COUNTER_VALUE = 44,
    EVENT_FLOW_IDS = 47,
    EVENT_TERMINATING_FLOW_IDS = 48,
};
enum { TYPE_SLICE_BEGIN = 1, TYPE_SLICE_END = 2, TYPE_INSTANT = 3, TYPE_COUNTER = 4 };

/* Kinds of interned strings; each has numbers of its own. */
enum intern { INTERN_CATEGORY, INTERN_NAME, INTERN_VALUE, INTERN_COUNT };

/* A step or record as an annotation, kept for the spans that follow. */
struct region_body {
    uint32_t id; /* OPM_NULL_ID: none */
    struct buf body;
};

struct perfetto {
    const struct store *st;
    struct timeline tl;
    struct io_out out;
    struct fragments sites; /* fields of an event that depend on the site alone */
    struct fragments ops;   /* the annotation about an operator */
    struct region_body step;
    struct region_body record;
    struct heap open; /* spans whose END is to come: end, row, lane */
    size_t next_sample;
    size_t next_step; /* rows not looked at yet */
    size_t next_record;
    uint64_t origin_ns;
    uint64_t last_uuid;
    str_id thread_kind;
    uint8_t *seen[INTERN_COUNT]; /* bit per string: it has been written */
    struct buf interned;         /* InternedData that must go out before the next event */
    struct buf event;
    struct buf scratch;
    struct buf utf8;
    bool failed; /* one of the buffers could not grow */
};

/* An empty buffer for a packet; the former one is gone. */
struct buf *perfetto_scratch(struct perfetto *p);

/* InternedData with the names of all annotations. */
void perfetto_annotation_names(struct buf *out);
/* All of a BEGIN but the track and the flows. 0 or OPM_ENOMEM. */
int perfetto_span(struct perfetto *p, uint32_t span, struct buf *out);
void perfetto_region(struct perfetto *p, const struct regions *r, size_t row, struct buf *out);
/* An instant that tells meta and import_stat. */
void perfetto_meta(struct perfetto *p, struct buf *out);

#endif
