/* trace_json.h -- JSON traces, fed in blocks. */
#ifndef IMPORT_JSON_TRACE_JSON_H
#define IMPORT_JSON_TRACE_JSON_H

#include "base/json_write.h"
#include "import/json/events.h"

struct trace_json {
    enum {
        TRACE_START,   /* before the outermost bracket, or behind it */
        TRACE_MEMBERS, /* in the outermost object */
        TRACE_SKIP,    /* in a value that is too large */
        TRACE_EVENTS,
    } state;
    bool started, array, found, first_event;
    bool in_place; /* the block is all there is, so that threads can share it */
    struct {
        unsigned depth;
        bool string, escape;
    } skip;
    struct buf key;
    struct buf keys; /* names of what is beside the events, for messages */
    size_t nkey;
    const char *block;
    uint64_t before, shown, total; /* bytes used up, for progress */
    char *rest;                    /* text that was pushed and not used yet */
    size_t nrest, rest_cap;
    size_t wait_for; /* bytes of it that are needed before another look */
    struct events ev;
    struct event_reader reader;
};

int trace_json_init(struct trace_json *t, struct store *st, const struct import_source *src,
                    const struct dialect *dialect);
/* Use up text from p on; *used says how much, the rest must come again, with more behind it. The
 * contract of end is that of event_scan.h. 0 or an error. */
int trace_json_feed(struct trace_json *t, const char *p, const char *end, bool last, size_t *used);
/* The same for text in blocks of any size that nobody keeps: what is left of one is kept here. */
int trace_json_push(struct trace_json *t, const char *p, size_t len, bool last);
/* After the last block; cut: it was not the end of the file. */
int trace_json_finish(struct trace_json *t, bool cut, opm_error *err);
void trace_json_release(struct trace_json *t);

/* Hand what a reader has gathered to the consumer. */
int trace_json_take(struct trace_json *t, struct event_reader *r);
/* Tell how far the text was read; not 0: stop. */
int trace_json_progress(struct trace_json *t, const char *at);

/* trace_parallel.c: events from *at on with several threads, as far as that pays. The same comes
 * out as with one. 0: at the bracket behind the last event; 1: go on with one thread; else an
 * error. */
int trace_parallel_read(struct trace_json *t, const char **at, const char *end);
/* Texts are cut into chunks of this size. Not constant because tests lower it. */
extern size_t trace_chunk_bytes;

/* trace_stream.c: push what t->ev.src->packed unpacks to. */
int trace_stream_read(struct trace_json *t, opm_error *err);

#endif
