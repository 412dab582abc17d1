/* trace_json.c -- the container around trace events: an array, or an object with facts beside them.
 *
 * Text comes in blocks of any size; a block is used as far as it holds whole events and members,
 * and what is left is handed in again with the next one. */
#include "import/json/trace_json.h"

#include "base/alloc.h"
#include "base/error.h"

#include <string.h>

#define FACT_MAX_BYTES ((size_t)16 << 20)
#define KEYS_SHOWN 8
#define PROGRESS_BYTES ((uint64_t)4 << 20)
#define EVENT_MAX_BYTES ((size_t)64 << 20)

int trace_json_init(struct trace_json *t, struct store *st, const struct import_source *src,
                    const struct dialect *dialect)
{
    int rc;

    *t = (struct trace_json){ .first_event = true };
    rc = events_init(&t->ev, st, src, dialect);
    return rc ? rc : event_reader_init(&t->reader);
}

void trace_json_release(struct trace_json *t)
{
    events_release(&t->ev);
    event_reader_release(&t->reader);
    buf_release(&t->key);
    buf_release(&t->keys);
    mem_free(t->rest);
}

static const char *skip_blank(const char *p, const char *end)
{
    while (p < end && is_blank(*p))
        p++;
    return p;
}

int trace_json_take(struct trace_json *t, struct event_reader *r)
{
    int rc = events_take(&t->ev, r);

    event_batch_clear(&r->batch);
    if (event_reader_full(r))
        event_reader_forget(r);
    return rc;
}

int trace_json_progress(struct trace_json *t, const char *at)
{
    const struct import_source *src = t->ev.src;
    uint64_t done = t->before + (uint64_t)(at - t->block);

    if (!src->progress || !t->total || done < t->shown + PROGRESS_BYTES)
        return 0;
    t->shown = done;
    return src->progress(src->user, MIN(done, t->total), t->total);
}

/* All events that the block has. 0: at the bracket behind the last; 1: needs more; else an error.
 */
static int read_events(struct trace_json *t, const char **at, const char *end, bool last)
{
    if (t->in_place) {
        int rc = trace_parallel_read(t, at, end);

        if (rc <= 0)
            return rc;
    }
    for (;;) {
        int end_of = event_reader_run(&t->reader, at, end, end, last), rc;

        if (end_of < 0)
            return end_of;
        rc = trace_json_take(t, &t->reader);
        if (!rc)
            rc = trace_json_progress(t, *at);
        if (rc)
            return rc;
        if (end_of == READ_CLOSED)
            return 0;
        if (end_of == READ_MORE || *at >= end)
            return 1;
    }
}

/* Does an event begin at p, so that this is a list without brackets? */
static bool is_event(const char *p, const char *end)
{
    return event_resync(p, MIN(end, p + 64)) == p;
}

static void note_key(struct trace_json *t)
{
    if (t->nkey++ < KEYS_SHOWN)
        buf_addf(&t->keys, "%s%s", t->nkey > 1 ? ", " : "", buf_str(&t->key));
}

/* Pass over a value that is too large to keep, block by block. True: it has ended. */
static bool skip_value(struct trace_json *t, const char **at, const char *end)
{
    const char *p = *at;

    for (; p < end; p++) {
        if (t->skip.string) {
            if (t->skip.escape)
                t->skip.escape = false;
            else if (*p == '\\')
                t->skip.escape = true;
            else if (*p == '"')
                t->skip.string = false;
        } else if (*p == '"') {
            t->skip.string = true;
        } else if (*p == '{' || *p == '[') {
            t->skip.depth++;
        } else if (*p == '}' || *p == ']') {
            if (!t->skip.depth)
                break;
            t->skip.depth--;
        } else if (*p == ',' && !t->skip.depth) {
            break;
        }
    }
    *at = p;
    return p < end;
}

static int take_fact(struct trace_json *t, const char *json, size_t len)
{
    if (len > FACT_MAX_BYTES) {
        store_stat(t->ev.st, STAT_metadata_too_large, 1);
        return 0;
    }
    if (!json_valid(json, len)) {
        const char *next;
        struct buf text = { 0 };
        unsigned dirt;
        int rc = 0;

        if (event_repair(json, json + len, &text, &next, &dirt) != SCAN_OK)
            store_stat(t->ev.st, STAT_metadata_unreadable, 1);
        else if (text.failed)
            rc = OPM_ENOMEM;
        else
            rc = events_fact(&t->ev, buf_str(&t->key), buf_str(&text), text.len);
        buf_release(&text);
        return rc;
    }
    return events_fact(&t->ev, buf_str(&t->key), json, len);
}

/* A member of the outermost object, at its opening quote. 0: taken or its events begin; 1: needs
 * more. */
static int read_member(struct trace_json *t, const char **at, const char *end)
{
    const char *p = *at, *value, *close;
    struct json_reader key;

    close = scan_skip(p, end);
    value = close ? skip_blank(close, end) : NULL;
    if (!value || value >= end)
        return 1;
    key = json_read_of(p, (size_t)(close - p));
    buf_clear(&t->key);
    if (*value != ':' || json_read_next(&key) != JSON_STRING) {
        store_stat(t->ev.st, STAT_metadata_unreadable, 1);
        *at = close;
        return 0;
    }
    json_read_text(&key, &t->key);
    if (t->key.failed)
        return OPM_ENOMEM;
    value = skip_blank(value + 1, end);
    if (value >= end)
        return 1;
    if (*value == '[' && (strcmp(buf_str(&t->key), "traceEvents") == 0 ||
                          strcmp(buf_str(&t->key), "samples") == 0)) {
        t->state = TRACE_EVENTS;
        t->found = true;
        t->first_event = true;
        *at = value + 1;
        return 0;
    }
    close = scan_skip(value, end);
    if (!close && (size_t)(end - value) > FACT_MAX_BYTES) {
        store_stat(t->ev.st, STAT_metadata_too_large, 1);
        note_key(t);
        t->state = TRACE_SKIP;
        *at = value;
        return 0;
    }
    if (!close)
        return 1;
    note_key(t);
    *at = close;
    return take_fact(t, value, (size_t)(close - value));
}

/* One step of the machine. 0: go on; 1: needs more text; else an error. */
static int step(struct trace_json *t, const char **at, const char *end, bool last)
{
    int rc;

    switch (t->state) {
    case TRACE_START:
        if (!t->started) {
            static const char mark[] = "\xef\xbb\xbf";

            if (end - *at < 3 && !last)
                return 1;
            t->started = true;
            if (end - *at >= 3 && memcmp(*at, mark, 3) == 0) {
                store_stat(t->ev.st, STAT_byte_order_mark, 1);
                *at += 3;
            }
        }
        *at = skip_blank(*at, end);
        if (*at >= end || (**at == '{' && end - *at < 64 && !last))
            return 1;
        if (**at == '[') {
            t->state = TRACE_EVENTS;
            t->array = t->found = true;
            t->first_event = true;
            ++*at;
        } else if (**at == '{' && is_event(*at, end)) {
            t->state = TRACE_EVENTS;
            t->array = t->found = true;
            t->first_event = true;
        } else if (**at == '{') {
            t->state = TRACE_MEMBERS;
            t->array = false;
            ++*at;
        } else {
            ++*at; /* whatever stands between two traces in one file */
        }
        return 0;
    case TRACE_MEMBERS:
        while (*at < end && (is_blank(**at) || **at == ','))
            ++*at;
        if (*at >= end)
            return 1;
        if (**at == '"')
            return read_member(t, at, end);
        t->state = **at == '}' ? TRACE_START : TRACE_MEMBERS;
        ++*at;
        return 0;
    case TRACE_SKIP:
        if (!skip_value(t, at, end))
            return 1;
        t->state = TRACE_MEMBERS;
        return 0;
    default:
        if (t->first_event) {
            *at = skip_blank(*at, end);
            if (*at >= end)
                return 1;
            t->first_event = false;
            t->reader.after_event = false;
        }
        rc = read_events(t, at, end, last);
        if (rc)
            return rc;
        ++*at;
        t->state = t->array ? TRACE_START : TRACE_MEMBERS;
        return 0;
    }
}

int trace_json_feed(struct trace_json *t, const char *p, const char *end, bool last, size_t *used)
{
    const char *at = p;
    int rc;

    t->block = p;
    do
        rc = step(t, &at, end, last);
    while (rc == 0);
    *used = (size_t)(at - p);
    t->before += *used;
    return rc < 0 ? rc : 0;
}

int trace_json_finish(struct trace_json *t, bool cut, opm_error *err)
{
    struct store *st = t->ev.st;
    const char *rest = t->rest;
    size_t commas = 0, blank = 0, len = t->nrest;

    while (blank < len && (is_blank(rest[blank]) || rest[blank] == ','))
        commas += rest[blank++] == ',';
    if (t->keys.failed)
        return OPM_ENOMEM;
    if (!t->found)
        return opm__fail(err, OPM_EFORMAT,
                         "%s: JSON without a list of events (\"traceEvents\"); its members are: %s",
                         t->ev.src->path, t->nkey ? buf_str(&t->keys) : "none");
    if (t->state == TRACE_EVENTS) {
        store_stat(st, STAT_list_not_closed, !t->reader.closed);
        store_stat(st, STAT_stray_comma, (int64_t)commas);
    }
    if (cut || t->ev.cut || blank < len)
        store_stat(st, STAT_file_truncated, 1);
    return events_finish(&t->ev);
}

int trace_json_push(struct trace_json *t, const char *p, size_t len, bool last)
{
    size_t used;
    int rc;

    if (!GROW(t->rest, t->rest_cap, t->nrest + len + EVENT_SLACK))
        return OPM_ENOMEM;
    if (len)
        memcpy(t->rest + t->nrest, p, len);
    t->nrest += len;
    if (!last && t->nrest < t->wait_for)
        return 0;
    memset(t->rest + t->nrest, 0, EVENT_SLACK);
    /* An event of such a size is none: it is passed over like other damage. */
    rc = trace_json_feed(t, t->rest, t->rest + t->nrest, last || t->nrest > EVENT_MAX_BYTES, &used);
    t->nrest -= used;
    /* What is left is looked at again from its start. It has to double until then, or a long event
     * in short blocks would take the square of its length. */
    t->wait_for = used ? 0 : MIN(2 * t->nrest, EVENT_MAX_BYTES + 1);
    memmove(t->rest, t->rest + used, t->nrest);
    return rc;
}

/* As much of the text as can be read in place: to a brace that has some bytes behind it. */
static size_t main_part(const uint8_t *data, size_t len)
{
    size_t n = len > EVENT_SLACK ? len - EVENT_SLACK : 0;

    while (n && data[n] != '}')
        n--;
    return n;
}

static int read_mapped(struct trace_json *t)
{
    const struct import_source *src = t->ev.src;
    size_t used = 0, n = main_part(src->data, src->len);
    const char *p = (const char *)src->data;
    int rc;

    t->total = src->len;
    t->in_place = true;
    rc = trace_json_feed(t, p, p + n, false, &used);
    t->in_place = false;
    return rc ? rc : trace_json_push(t, p + used, src->len - used, true);
}

int trace_json_read(struct store *st, const struct import_source *src,
                    const struct dialect *dialect, opm_error *err)
{
    struct trace_json t;
    opm_error local = { 0 };
    int rc = trace_json_init(&t, st, src, dialect);

    if (!rc)
        rc = src->packed ? trace_stream_read(&t, &local) : read_mapped(&t);
    if (!rc)
        rc = trace_json_finish(&t, src->packed ? io_unpack_cut(src->packed) : src->cut, &local);
    if (rc)
        opm__fail(err, rc, "%s", local.code ? local.msg : opm_status_text(rc));
    trace_json_release(&t);
    return rc;
}
