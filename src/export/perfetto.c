/* perfetto.c -- write Perfetto's native trace: a stream of TracePackets with TrackEvents.
 *
 * All packets are of one sequence. The first clears its state, sets the clock of all timestamps
 * (CLOCK_MONOTONIC, which a ClockSnapshot ties to the wall clock where meta knows it) and names the
 * debug annotations; strings are interned when they are first needed, under the number that they
 * have in the store. Packets are in order of time: a span is a BEGIN when it is met and an END,
 * kept in a heap until then. At equal times ENDs come first, and of those the innermost, so that a
 * reader with a stack per track never sees anything cross. One that never ended has no END.
 *
 * Threads are thread tracks; streams and asynchronous tracks are children of their process. Spans
 * of a track that overlap are spread over tracks that viewers draw as one (timeline.h). An arrow is
 * a flow id on the two BEGINs; readers take the earlier one as its source. */
#include "export/export.h"

#include "base/alloc.h"
#include "base/error.h"
#include "export/perfetto_int.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Field numbers of protos/perfetto/trace, as far as they are needed here. */
enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_CLOCK_ID = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,

    SNAPSHOT_CLOCKS = 1,
    SNAPSHOT_PRIMARY = 2,
    CLOCK_ID = 1,
    CLOCK_TIMESTAMP = 2,

    TRACK_UUID = 1,
    TRACK_NAME = 2,
    TRACK_PROCESS = 3,
    TRACK_THREAD = 4,
    TRACK_PARENT = 5,
    TRACK_COUNTER = 8,
    TRACK_CHILD_ORDERING = 11,
    TRACK_SIBLING_RANK = 12,
    TRACK_DESCRIPTION = 14,
    TRACK_MERGE_BEHAVIOR = 15,
    TRACK_MERGE_KEY = 16,
    PROCESS_PID = 1,
    PROCESS_NAME = 6,
    PROCESS_LABELS = 8,
    THREAD_PID = 1,
    THREAD_TID = 2,
    THREAD_NAME = 5,
    COUNTER_UNIT = 3,
    COUNTER_UNIT_NAME = 6,
};

enum { CLEARED = 1, NEEDS_STATE = 2 }; /* sequence flags */
enum { CLOCK_REALTIME_ID = 1, CLOCK_MONOTONIC_ID = 3 };
enum { ORDER_EXPLICIT = 3, MERGE_BY_KEY = 3 };
enum { UNIT_NS = 1, UNIT_COUNT = 2, UNIT_BYTES = 3 };
#define SEQUENCE_ID 1

static uint8_t *put_varint(uint8_t *p, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        *p++ = (uint8_t)(v | 0x80);
    *p++ = (uint8_t)v;
    return p;
}

/* The packet whose fields, but for those of the sequence, are in body. */
static void put_packet(struct perfetto *p, const struct buf *body, unsigned flags)
{
    uint8_t head[32], *h = head;

    *h++ = TRACE_PACKET << 3 | PB_LEN;
    h = put_varint(h, body->len + 4);
    *h++ = PACKET_SEQUENCE_ID << 3 | PB_VARINT;
    *h++ = SEQUENCE_ID;
    *h++ = PACKET_SEQUENCE_FLAGS << 3 | PB_VARINT;
    *h++ = (uint8_t)flags;
    io_out_add(&p->out, head, (size_t)(h - head));
    io_out_add(&p->out, buf_str(body), body->len);
}

/* The TrackEvent in body as a packet of its own, after the strings that it needs. */
static void put_event(struct perfetto *p, int64_t ts, const struct buf *body)
{
    uint8_t head[48], fields[32], *h = head, *f = fields;

    if (p->interned.len) {
        struct buf *b = perfetto_scratch(p);

        pb_bytes(b, PACKET_INTERNED_DATA, p->interned.data, p->interned.len);
        put_packet(p, b, NEEDS_STATE);
        p->failed |= p->interned.failed;
        buf_clear(&p->interned);
    }
    *f++ = PACKET_TIMESTAMP << 3 | PB_VARINT;
    f = put_varint(f, p->origin_ns + (uint64_t)ts);
    *f++ = PACKET_SEQUENCE_ID << 3 | PB_VARINT;
    *f++ = SEQUENCE_ID;
    *f++ = PACKET_SEQUENCE_FLAGS << 3 | PB_VARINT;
    *f++ = NEEDS_STATE;
    *f++ = PACKET_TRACK_EVENT << 3 | PB_LEN;
    f = put_varint(f, body->len);
    *h++ = TRACE_PACKET << 3 | PB_LEN;
    h = put_varint(h, (size_t)(f - fields) + body->len);
    memcpy(h, fields, (size_t)(f - fields));
    h += f - fields;
    io_out_add(&p->out, head, (size_t)(h - head));
    io_out_add(&p->out, buf_str(body), body->len);
}

/* Text in a field; strings of protobuf are UTF-8. */
static void put_name(struct perfetto *p, struct buf *b, uint32_t field, const struct buf *text)
{
    buf_clear(&p->utf8);
    text_add_utf8(&p->utf8, buf_str(text), text->len);
    pb_bytes(b, field, buf_str(&p->utf8), p->utf8.len);
    p->failed |= p->utf8.failed;
}

static void put_process(struct perfetto *p, uint32_t process)
{
    struct process *pr = &p->tl.process[process];
    struct buf *b, name = { 0 };
    size_t packet, inner;

    if (pr->shown)
        return;
    pr->shown = true;
    pr->uuid = ++p->last_uuid;
    b = perfetto_scratch(p);
    packet = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
    pb_varint(b, TRACK_UUID, pr->uuid);
    inner = pb_begin(b, TRACK_PROCESS);
    pb_varint(b, PROCESS_PID, (uint64_t)pr->pid);
    timeline_process_name(&p->tl, process, &name);
    put_name(p, b, PROCESS_NAME, &name);
    p->failed |= name.failed;
    buf_clear(&name);
    timeline_process_labels(&p->tl, process, &name);
    if (name.len)
        put_name(p, b, PROCESS_LABELS, &name);
    pb_end(b, inner);
    pb_varint(b, TRACK_CHILD_ORDERING, ORDER_EXPLICIT);
    pb_varint(b, TRACK_SIBLING_RANK, pr->order);
    pb_end(b, packet);
    put_packet(p, b, NEEDS_STATE);
    p->failed |= name.failed;
    buf_release(&name);
}

static str_id track_text(const struct perfetto *p, uint32_t line, int col)
{
    struct cell cell = cell_null();

    if (line < p->tl.ntrack)
        cell = store_cell(p->st, TABLE_track, line, col);
    return cell_text_id(cell);
}

/* What a descriptor says of a line besides its name. */
static void put_description(struct perfetto *p, struct buf *b, uint32_t line)
{
    str_id device = track_text(p, line, track_col_device);
    struct cell capacity = cell_null();
    struct buf text = { 0 };

    if (line < p->tl.ntrack)
        capacity = store_cell(p->st, TABLE_track, line, track_col_capacity);
    if (device) {
        buf_adds(&text, "device ");
        buf_add(&text, strpool_get(store_strings(p->st), device),
                strpool_len(store_strings(p->st), device));
    }
    if (capacity.kind == CELL_I64)
        buf_addf(&text, "%scapacity %lld", text.len ? ", " : "", (long long)capacity.i64);
    if (text.len)
        put_name(p, b, TRACK_DESCRIPTION, &text);
    p->failed |= text.failed;
    buf_release(&text);
}

static void put_lane(struct perfetto *p, uint32_t lane)
{
    struct lane *l = &p->tl.lane[lane];
    const struct line *line = &p->tl.line[l->line];
    struct buf *b, name = { 0 };
    str_id kind = track_text(p, l->line, track_col_kind);
    const struct process *pr = &p->tl.process[line->process];
    size_t packet, inner;
    char key[32];

    if (l->shown)
        return;
    l->shown = true;
    l->uuid = ++p->last_uuid;
    put_process(p, line->process);
    timeline_line_name(&p->tl, l->line, &name);
    b = perfetto_scratch(p);
    packet = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
    pb_varint(b, TRACK_UUID, l->uuid);
    if (l->index == 0 && kind && kind == p->thread_kind && pr->pid > 0 && l->tid > 0) {
        pb_varint(b, TRACK_PARENT, pr->uuid);
        inner = pb_begin(b, TRACK_THREAD);
        pb_varint(b, THREAD_PID, (uint64_t)pr->pid);
        pb_varint(b, THREAD_TID, (uint64_t)l->tid);
        put_name(p, b, THREAD_NAME, &name);
        pb_end(b, inner);
    } else {
        /* Lanes of one line are drawn together, lines of the same name are not. */
        snprintf(key, sizeof(key), "track %u", l->line);
        pb_varint(b, TRACK_PARENT, pr->uuid);
        put_name(p, b, TRACK_NAME, &name);
        pb_varint(b, TRACK_SIBLING_RANK, l->line);
        pb_varint(b, TRACK_MERGE_BEHAVIOR, MERGE_BY_KEY);
        pb_str(b, TRACK_MERGE_KEY, key);
    }
    put_description(p, b, l->line);
    pb_end(b, packet);
    put_packet(p, b, NEEDS_STATE);
    p->failed |= name.failed;
    buf_release(&name);
}

static void put_unit(struct perfetto *p, struct buf *b, str_id unit)
{
    static const struct {
        const char *name;
        int unit;
    } known[] = { { "ns", UNIT_NS }, { "count", UNIT_COUNT }, { "bytes", UNIT_BYTES } };
    const char *s = store_text(p->st, unit);
    struct buf text = { 0 };

    for (size_t i = 0; i < ARRAY_SIZE(known); i++) {
        if (strcmp(s, known[i].name) == 0) {
            pb_varint(b, COUNTER_UNIT, (uint64_t)known[i].unit);
            return;
        }
    }
    buf_add(&text, s, strpool_len(store_strings(p->st), unit));
    put_name(p, b, COUNTER_UNIT_NAME, &text);
    p->failed |= text.failed;
    buf_release(&text);
}

static void put_counter_track(struct perfetto *p, uint32_t i)
{
    struct line *line = &p->tl.line[i];
    struct buf *b, name = { 0 };
    str_id unit = track_text(p, i, track_col_unit);
    size_t packet, inner;

    if (line->counter_uuid)
        return;
    line->counter_uuid = ++p->last_uuid;
    put_process(p, line->process);
    timeline_line_name(&p->tl, i, &name);
    b = perfetto_scratch(p);
    packet = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
    pb_varint(b, TRACK_UUID, line->counter_uuid);
    pb_varint(b, TRACK_PARENT, p->tl.process[line->process].uuid);
    put_name(p, b, TRACK_NAME, &name);
    inner = pb_begin(b, TRACK_COUNTER);
    if (unit)
        put_unit(p, b, unit);
    pb_end(b, inner);
    pb_varint(b, TRACK_SIBLING_RANK, i);
    put_description(p, b, i);
    pb_end(b, packet);
    put_packet(p, b, NEEDS_STATE);
    p->failed |= name.failed;
    buf_release(&name);
}

static void put_sample(struct perfetto *p, size_t i)
{
    uint32_t line =
        timeline_line_of(&p->tl, p->tl.sample_track ? p->tl.sample_track[i] : OPM_NULL_ID);
    double value = p->tl.sample_value[i];
    struct buf *b = &p->event;

    if (isnan(value) || p->tl.sample_ts[i] == OPM_NULL_I64)
        return;
    put_counter_track(p, line);
    buf_clear(b);
    pb_varint(b, EVENT_TYPE, TYPE_COUNTER);
    pb_varint(b, EVENT_TRACK_UUID, p->tl.line[line].counter_uuid);
    if (value > -1e15 && value < 1e15 && value == (double)(int64_t)value && !signbit(value))
        pb_varint(b, EVENT_COUNTER_VALUE, (uint64_t)(int64_t)value);
    else
        pb_double(b, EVENT_DOUBLE_COUNTER_VALUE, value);
    p->failed |= b->failed;
    put_event(p, p->tl.sample_ts[i], b);
}

/* Everything that happens up to ts: ends of spans, and samples. */
static void advance(struct perfetto *p, int64_t ts)
{
    for (;;) {
        int64_t end = p->open.n ? p->open.item[0].key : INT64_MAX;
        int64_t sample = INT64_MAX;

        if (p->next_sample < p->tl.nsample)
            sample = p->tl.sample_ts[p->next_sample];
        if (sample < INT64_MAX && sample <= ts && sample < end)
            put_sample(p, p->next_sample++);
        else if (end < INT64_MAX && end <= ts) {
            uint32_t lane = heap_pop(&p->open).b;

            buf_clear(&p->event);
            pb_varint(&p->event, EVENT_TYPE, TYPE_SLICE_END);
            pb_varint(&p->event, EVENT_TRACK_UUID, p->tl.lane[lane].uuid);
            p->failed |= p->event.failed;
            put_event(p, end, &p->event);
        } else
            return;
    }
}

/* A BEGIN, whose fields but the track are in p->event already; its END comes in time. */
static int put_begin(struct perfetto *p, uint32_t order, uint32_t lane, int64_t ts, int64_t dur)
{
    struct buf *b = &p->event;
    int64_t end = timeline_end(ts, dur);

    pb_varint(b, EVENT_TRACK_UUID, p->tl.lane[lane].uuid);
    if (b->failed)
        return OPM_ENOMEM;
    put_event(p, ts, b);
    if (end == INT64_MAX)
        return 0;
    return heap_push(&p->open, (struct heap_item){ .key = end, .a = order, .b = lane });
}

static int put_span(struct perfetto *p, uint32_t span)
{
    const struct timeline *tl = &p->tl;
    int64_t ts = tl->ts[span], dur = tl->dur[span];
    uint32_t line = timeline_line_of(tl, tl->track ? tl->track[span] : OPM_NULL_ID), lane;
    const uint64_t *flow;
    size_t nflow;
    int rc;

    advance(p, ts);
    rc = timeline_place(&p->tl, line, ts, timeline_end(ts, dur), &lane);
    if (rc)
        return rc;
    put_lane(p, lane);
    buf_clear(&p->event);
    rc = perfetto_span(p, span, &p->event);
    if (rc)
        return rc;
    nflow = timeline_flows(&p->tl, span, &flow);
    for (size_t i = 0; i < nflow; i++) {
        uint32_t row = (uint32_t)flow[i];
        bool first = span == MIN(tl->flow_src[row], tl->flow_dst[row]);

        pb_fixed64(&p->event, first ? EVENT_FLOW_IDS : EVENT_TERMINATING_FLOW_IDS,
                   (uint64_t)row + 1);
    }
    return put_begin(p, span, lane, ts, dur);
}

static int put_region(struct perfetto *p, const struct regions *r, size_t row, uint32_t line)
{
    int64_t ts = r->ts[row], dur = r->dur && r->dur[row] >= 0 ? r->dur[row] : -1;
    uint32_t lane;
    int rc;

    advance(p, ts);
    rc = timeline_place(&p->tl, line, ts, timeline_end(ts, dur), &lane);
    if (rc)
        return rc;
    put_lane(p, lane);
    buf_clear(&p->event);
    perfetto_region(p, r, row, &p->event);
    return put_begin(p, (uint32_t)row, lane, ts, dur);
}

/* When the next step or record that no span shows begins; INT64_MAX: there is none. */
static int64_t next_region(const struct regions *r, size_t *next)
{
    while (*next < r->n && (r->seen[*next] || r->ts[*next] == OPM_NULL_I64))
        ++*next;
    return *next < r->n ? r->ts[*next] : INT64_MAX;
}

static int put_regions(struct perfetto *p, int64_t until)
{
    int rc = 0;

    while (!rc) {
        int64_t step = next_region(&p->tl.steps, &p->next_step);
        int64_t record = next_region(&p->tl.records, &p->next_record);

        if (MIN(step, record) > until || MIN(step, record) == INT64_MAX)
            break;
        if (step <= record)
            rc = put_region(p, &p->tl.steps, p->next_step++, timeline_steps_line(&p->tl));
        else
            rc = put_region(p, &p->tl.records, p->next_record++, timeline_records_line(&p->tl));
    }
    return rc;
}

/* What a clock showed at the start of the trace: the reading in meta, which belongs to the start of
 * the recording, and how long after that the trace begins. False if there is no such reading. */
static bool origin_of(const struct store *st, const char *key, uint64_t *out)
{
    const char *reading = store_meta_get(st, key), *shift = store_meta_get(st, "trace.start_ns");
    int64_t ns = reading ? strtoll(reading, NULL, 10) : 0;

    if (__builtin_add_overflow(ns, shift ? strtoll(shift, NULL, 10) : 0, &ns))
        return false;
    if (ns < 0 || ns > INT64_MAX / 2) /* added to a time it must not overflow */
        return false;
    *out = (uint64_t)ns;
    return reading != NULL;
}

/* The first packet. */
static void put_preamble(struct perfetto *p)
{
    struct buf *b = perfetto_scratch(p);
    uint64_t realtime_ns;
    size_t packet, inner;

    packet = pb_begin(b, PACKET_CLOCK_SNAPSHOT);
    inner = pb_begin(b, SNAPSHOT_CLOCKS);
    pb_varint(b, CLOCK_ID, CLOCK_MONOTONIC_ID);
    pb_varint(b, CLOCK_TIMESTAMP, p->origin_ns);
    pb_end(b, inner);
    if (origin_of(p->st, "clock.start_realtime_ns", &realtime_ns)) {
        inner = pb_begin(b, SNAPSHOT_CLOCKS);
        pb_varint(b, CLOCK_ID, CLOCK_REALTIME_ID);
        pb_varint(b, CLOCK_TIMESTAMP, realtime_ns);
        pb_end(b, inner);
    }
    pb_varint(b, SNAPSHOT_PRIMARY, CLOCK_MONOTONIC_ID);
    pb_end(b, packet);
    packet = pb_begin(b, PACKET_DEFAULTS);
    pb_varint(b, PACKET_CLOCK_ID, CLOCK_MONOTONIC_ID);
    pb_end(b, packet);
    packet = pb_begin(b, PACKET_INTERNED_DATA);
    perfetto_annotation_names(b);
    pb_end(b, packet);
    put_packet(p, b, CLEARED);
}

/* Meta and what was repaired or lost: an instant at the start of a track of its own. */
static void put_meta(struct perfetto *p)
{
    struct buf *b;
    size_t packet;
    uint64_t uuid;

    if (!store_nrow(p->st, TABLE_meta) && !store_nrow(p->st, TABLE_import_stat))
        return;
    uuid = ++p->last_uuid;
    b = perfetto_scratch(p);
    packet = pb_begin(b, PACKET_TRACK_DESCRIPTOR);
    pb_varint(b, TRACK_UUID, uuid);
    pb_str(b, TRACK_NAME, "about this trace");
    pb_end(b, packet);
    put_packet(p, b, NEEDS_STATE);
    buf_clear(&p->event);
    perfetto_meta(p, &p->event);
    pb_varint(&p->event, EVENT_TRACK_UUID, uuid);
    p->failed |= p->event.failed;
    put_event(p, 0, &p->event);
}

static int put_trace(struct perfetto *p, const struct export_options *opts)
{
    int rc = 0;

    put_preamble(p);
    put_meta(p);
    for (uint32_t i = 0; i < p->tl.nlane; i++)
        put_lane(p, i);
    for (size_t i = 0; i < p->tl.nspan && !rc; i++) {
        if (i % TIMELINE_PROGRESS_SPANS == 0)
            rc = writer_progress(opts, &p->out, i, p->tl.nspan);
        if (!rc)
            rc = put_regions(p, p->tl.ts[i]);
        if (!rc)
            rc = put_span(p, (uint32_t)i);
    }
    if (!rc)
        rc = put_regions(p, INT64_MAX);
    if (!rc)
        advance(p, INT64_MAX);
    if (p->failed || p->scratch.failed || p->interned.failed)
        return OPM_ENOMEM;
    return rc ? rc : writer_progress(opts, &p->out, p->tl.nspan, p->tl.nspan);
}

static void perfetto_release(struct perfetto *p)
{
    timeline_release(&p->tl);
    fragments_release(&p->sites);
    fragments_release(&p->ops);
    for (size_t i = 0; i < ARRAY_SIZE(p->seen); i++)
        mem_free(p->seen[i]);
    buf_release(&p->event);
    buf_release(&p->interned);
    buf_release(&p->scratch);
    buf_release(&p->utf8);
    buf_release(&p->step.body);
    buf_release(&p->record.body);
    heap_release(&p->open);
}

static int perfetto_init(struct perfetto *p, const struct store *st)
{
    size_t nstr = strpool_count(store_strings(st));
    int rc;

    *p = (struct perfetto){ .st = st };
    p->step.id = p->record.id = OPM_NULL_ID;
    p->thread_kind = strpool_find(store_strings(st), "thread", 6);
    origin_of(st, "clock.start_monotonic_ns", &p->origin_ns); /* without a reading: the shift */
    for (size_t i = 0; i < ARRAY_SIZE(p->seen); i++) {
        p->seen[i] = mem_calloc(nstr / 8 + 1, 1);
        if (!p->seen[i])
            return OPM_ENOMEM;
    }
    rc = timeline_init(&p->tl, st);
    if (!rc)
        rc = fragments_init(&p->sites, p->tl.nsite);
    if (!rc)
        rc = fragments_init(&p->ops, p->tl.nop);
    return rc;
}

int export_perfetto(const struct store *st, const char *path, const struct export_options *opts,
                    opm_error *err)
{
    struct perfetto p;
    int rc = perfetto_init(&p, st);

    if (rc)
        opm__fail(err, rc, "%s: out of memory", path);
    else
        rc = writer_open(&p.out, st, path, err);
    if (!rc) {
        rc = put_trace(&p, opts);
        rc = writer_close(&p.out, rc, path, err);
    }
    perfetto_release(&p);
    return rc;
}
