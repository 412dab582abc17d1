/* trace_json.h -- JSON traces, fed in blocks. */
#ifndef IMPORT_TRACE_JSON_H
#define IMPORT_TRACE_JSON_H

#include "base/json_write.h"
#include "import/events.h"

struct trace_json {
    enum {
        TRACE_START,   /* before the outermost bracket, or behind it */
        TRACE_MEMBERS, /* in the outermost object */
        TRACE_SKIP,    /* in a value that is too large */
        TRACE_EVENTS,
    } state;
    bool started, array, found, first_event;
    struct {
        unsigned depth;
        bool string, escape;
    } skip;
    struct buf key;
    struct buf keys; /* names of what is beside the events, for messages */
    size_t nkey;
    const char *block;
    uint64_t before, shown, total; /* bytes used up, for progress */
    struct events ev;
    struct event_reader reader;
};

int trace_json_init(struct trace_json *t, struct store *st, const struct import_source *src,
                    const struct dialect *dialect);
/* Use up text from p on; *used says how much, the rest must come again, with more behind it. The
 * contract of end is that of event_scan.h. 0 or an error. */
int trace_json_feed(struct trace_json *t, const char *p, const char *end, bool last, size_t *used);
/* After the last block, of which len bytes from rest on were not used. */
int trace_json_finish(struct trace_json *t, const char *rest, size_t len, bool cut, opm_error *err);
void trace_json_release(struct trace_json *t);

#endif
