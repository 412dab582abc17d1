/* perfetto.c -- read Perfetto's native trace, a stream of TracePackets: TrackEvents become spans,
 * instants, samples and arrows. Packets of other data sources are counted by kind. */
#include "import/perfetto/perfetto_int.h"

#include "base/alloc.h"
#include "base/zblock.h"

#include <stdlib.h>
#include <string.h>

#define UNPACKED_MAX ((size_t)256 << 20) /* of one packet of compressed packets */
#define PROGRESS_BYTES ((size_t)1 << 20)

enum {
    TRACE_PACKET = 1,
    PACKET_CLOCK_SNAPSHOT = 6,
    PACKET_TIMESTAMP = 8,
    PACKET_SEQUENCE_ID = 10,
    PACKET_TRACK_EVENT = 11,
    PACKET_INTERNED_DATA = 12,
    PACKET_SEQUENCE_FLAGS = 13,
    PACKET_CLEARED = 41,
    PACKET_DROPPED = 42,
    PACKET_PROCESS = 43,
    PACKET_THREAD = 44,
    PACKET_SYSTEM_INFO = 45,
    PACKET_COMPRESSED = 50,
    PACKET_CLOCK_ID = 58,
    PACKET_DEFAULTS = 59,
    PACKET_TRACK_DESCRIPTOR = 60,
    PACKET_ZSTD = 133,
};
enum { FLAG_CLEARED = 1, FLAG_NEEDS_STATE = 2 };

/* Fields of TracePacket that hold data of other sources, and what to call them; `quiet` ones are
 * about the tracing itself. */
static const struct {
    uint32_t field;
    const char *name;
    bool quiet;
} other_packets[] = {
    { 1, "ftrace_events", false },
    { 2, "process_tree", false },
    { 3, NULL, true }, /* trusted_uid */
    { 7, "sys_stats", false },
    { 9, "process_stats", false },
    { 33, NULL, true }, /* trace_config */
    { 34, "ftrace_stats", true },
    { 35, "trace_stats", true },
    { 36, NULL, true }, /* synchronization_marker */
    { 37, "profile_packet", false },
    { 38, "battery", false },
    { 39, "android_log", false },
    { 40, "power_rails", false },
    { 46, "trigger", true },
    { 47, "packages_list", true },
    { 48, "chrome_benchmark_metadata", true },
    { 49, "perfetto_metatrace", false },
    { 51, "chrome_metadata", true },
    { 52, "gpu_counter_event", false },
    { 53, "gpu_render_stage_event", false },
    { 54, "streaming_profile_packet", false },
    { 56, "heap_graph", false },
    { 57, "graphics_frame_event", false },
    { 61, "deobfuscation_mapping", true },
    { 62, "vulkan_memory_event", false },
    { 63, "gpu_log", false },
    { 64, "vulkan_api_event", false },
    { 66, "perf_sample", false },
    { 67, "cpu_info", true },
    { 68, "smaps_packet", false },
    { 69, "service_event", true },
    { 70, "initial_display_state", true },
    { 71, "gpu_mem_total_event", false },
    { 72, "extension_descriptor", true },
    { 74, "streaming_free", false },
    { 75, "network_packet", false },
    { 79, NULL, true }, /* trusted_pid */
    { 83, "memory_tracker_snapshot", false },
    { 85, "trace_uuid", true },
    { 87, NULL, true }, /* first_packet_on_sequence */
    { 88, NULL, true },
    { 89, "trace_uuid", true },
    { 90, "track_event_range_of_interest", true },
    { 98, NULL, true }, /* machine_id */
};

bool perfetto_sniff(const uint8_t *head, size_t len)
{
    struct rd r = rd_of(head, len), inner;
    struct pb_field g;
    bool sure = false;
    uint64_t size;

    if (len < 4 || rd_u8(&r) != (TRACE_PACKET << 3 | PB_LEN))
        return false;
    size = rd_varint(&r);
    if (r.bad || !size)
        return false;
    /* The first packet may reach beyond what we see; what is seen of it must make sense. */
    inner = rd_of(r.p, MIN(size, rd_left(&r)));
    while (pb_next(&inner, &g)) {
        bool number = g.number == 3 || g.number == PACKET_TIMESTAMP ||
                      g.number == PACKET_SEQUENCE_ID || g.number == PACKET_SEQUENCE_FLAGS ||
                      g.number == PACKET_CLEARED || g.number == PACKET_DROPPED ||
                      g.number == PACKET_CLOCK_ID || g.number == 79 || g.number == 87 ||
                      g.number == 98;

        if (g.number > 1000 || (number && g.wire != PB_VARINT))
            return false;
        sure |= number || (g.wire == PB_LEN && g.number >= PACKET_CLOCK_SNAPSHOT);
        if (!number && g.wire != PB_LEN)
            return false;
    }
    /* Another message whose first field is a message: fields of those are few and low. */
    if (inner.bad && size <= rd_left(&r))
        return false;
    if (!sure && inner.bad) {
        struct rd first = rd_of(r.p, rd_left(&r));
        uint64_t key = rd_varint(&first);

        sure = !first.bad && (key >> 3) >= 33 && (key >> 3) < 200 && (key & 7) == PB_LEN;
    }
    return sure;
}

/* The fields of a packet that matter before its content does. */
struct packet {
    uint32_t seq;
    uint64_t flags, ts, clock;
    bool has_ts, cleared, dropped;
};

static bool packet_head(const struct pb_field *f, struct packet *out)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    *out = (struct packet){ 0 };
    while (pb_next(&r, &g)) {
        if (g.wire != PB_VARINT)
            continue;
        switch (g.number) {
        case PACKET_TIMESTAMP:
            out->ts = g.value;
            out->has_ts = true;
            break;
        case PACKET_SEQUENCE_ID:
            out->seq = (uint32_t)g.value;
            break;
        case PACKET_SEQUENCE_FLAGS:
            out->flags = g.value;
            break;
        case PACKET_CLEARED:
            out->cleared = g.value != 0;
            break;
        case PACKET_DROPPED:
            out->dropped = g.value != 0;
            break;
        case PACKET_CLOCK_ID:
            out->clock = g.value;
            break;
        default:
            break;
        }
    }
    return !r.bad;
}

/* utsname=1 {sysname=1, version=2, release=3, machine=4} */
static void system_info(struct pf *p, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len), u;
    struct pb_field g, h;

    while (pb_next(&r, &g)) {
        if (g.number != 1 || g.wire != PB_LEN)
            continue;
        for (u = rd_of(g.p, g.len); pb_next(&u, &h);) {
            str_id text = h.wire == PB_LEN ? build_str(&p->b, (const char *)h.p, h.len) : 0;

            if (text && h.number == 3)
                build_meta(&p->b, "machine.kernel", store_text(p->b.st, text));
            else if (text && h.number == 4)
                build_meta(&p->b, "machine.arch", store_text(p->b.st, text));
        }
    }
}

/* First pass: tracks, processes and clocks. */
static void packet_prepare(struct pf *p, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    while (pb_next(&r, &g) && !p->b.rc) {
        if (g.wire != PB_LEN)
            continue;
        if (g.number == PACKET_TRACK_DESCRIPTOR)
            pf_track_descriptor(p, &g);
        else if (g.number == PACKET_PROCESS)
            pf_process_descriptor(p, &g);
        else if (g.number == PACKET_CLOCK_SNAPSHOT)
            pf_clock_snapshot(p, NULL, &g, true);
        else if (g.number == PACKET_SYSTEM_INFO)
            system_info(p, &g);
    }
}

static void count_other(struct pf *p, uint32_t field)
{
    const uint64_t *n;

    for (size_t i = 0; i < ARRAY_SIZE(other_packets); i++)
        if (other_packets[i].field == field && other_packets[i].quiet)
            return;
    n = u64map_get(&p->skipped, field);
    if (u64map_put(&p->skipped, field, n ? *n + 1 : 1))
        p->b.rc = OPM_ENOMEM;
}

/* The state of a sequence that a packet starts anew, or has lost. False: what it says can't be
 * understood. */
static bool sequence_state(struct pf *p, struct pf_seq *s, const struct packet *k)
{
    if (k->dropped) {
        store_stat(p->b.st, STAT_packets_dropped, 1);
        s->has_state = false;
    }
    if (k->cleared || (k->flags & FLAG_CLEARED))
        pf_seq_clear(s);
    if (!(k->flags & FLAG_NEEDS_STATE) || s->has_state)
        return true;
    return false;
}

/* Second pass: interned things and defaults come first, they are meant for the same packet. */
static void packet_read(struct pf *p, const struct pb_field *f)
{
    struct packet k;
    struct pf_seq *s;
    struct rd r;
    struct pb_field g;
    int64_t ts_ns = 0;

    if (!packet_head(f, &k)) {
        store_stat(p->b.st, STAT_packet_damaged, 1);
        return;
    }
    s = pf_seq(p, k.seq);
    if (!s)
        return;
    if (!sequence_state(p, s, &k)) {
        for (r = rd_of(f->p, f->len); pb_next(&r, &g);)
            store_stat(p->b.st, STAT_packet_without_state, g.number == PACKET_TRACK_EVENT);
        return;
    }
    for (r = rd_of(f->p, f->len); pb_next(&r, &g) && !p->b.rc;) {
        if (g.number == PACKET_INTERNED_DATA && g.wire == PB_LEN)
            pf_interned(p, s, &g);
        else if (g.number == PACKET_DEFAULTS && g.wire == PB_LEN)
            pf_defaults(p, s, &g);
        else if (g.number == PACKET_CLOCK_SNAPSHOT && g.wire == PB_LEN)
            pf_clock_snapshot(p, s, &g, false);
        else if (g.number == PACKET_THREAD && g.wire == PB_LEN)
            pf_thread_descriptor(p, s, &g);
    }
    if (k.has_ts && !p->b.rc)
        ts_ns = pf_time(p, s, k.ts, k.clock);
    for (r = rd_of(f->p, f->len); pb_next(&r, &g) && !p->b.rc;) {
        switch (g.number) {
        case PACKET_TRACK_EVENT:
            if (g.wire == PB_LEN)
                pf_track_event(p, s, &g, ts_ns);
            break;
        case PACKET_CLOCK_SNAPSHOT:
        case PACKET_TIMESTAMP:
        case PACKET_SEQUENCE_ID:
        case PACKET_INTERNED_DATA:
        case PACKET_SEQUENCE_FLAGS:
        case PACKET_CLEARED:
        case PACKET_DROPPED:
        case PACKET_PROCESS:
        case PACKET_THREAD:
        case PACKET_SYSTEM_INFO:
        case PACKET_CLOCK_ID:
        case PACKET_DEFAULTS:
        case PACKET_TRACK_DESCRIPTOR:
            break;
        default:
            count_other(p, g.number);
            break;
        }
    }
}

typedef void packet_fn(struct pf *p, const struct pb_field *f);

static void packets_each(struct pf *p, const uint8_t *data, size_t len, packet_fn *fn, bool outer);

/* Packets inside a packet. */
static bool compressed(struct pf *p, const struct pb_field *f, packet_fn *fn)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;

    while (pb_next(&r, &g)) {
        struct buf out = { .max = UNPACKED_MAX };
        int rc;

        if (g.wire != PB_LEN || (g.number != PACKET_COMPRESSED && g.number != PACKET_ZSTD))
            continue;
        rc = g.number == PACKET_COMPRESSED ? zblock_inflate(&out, g.p, g.len)
                                           : zblock_unzstd(&out, g.p, g.len);
        if (rc == OPM_ENOMEM)
            p->b.rc = rc;
        else if (rc && fn == packet_read)
            store_stat(p->b.st, STAT_packet_damaged, 1);
        if (!p->b.rc)
            packets_each(p, (const uint8_t *)buf_str(&out), out.len, fn, false);
        buf_release(&out);
        return true;
    }
    return false;
}

static void packets_each(struct pf *p, const uint8_t *data, size_t len, packet_fn *fn, bool outer)
{
    struct rd r = rd_of(data, len);
    struct pb_field g;
    size_t next = 0;

    while (pb_next(&r, &g) && !p->b.rc) {
        if (g.number == TRACE_PACKET && g.wire == PB_LEN && !(outer && compressed(p, &g, fn)))
            fn(p, &g);
        if (outer && (size_t)(r.p - data) > next) {
            next = (size_t)(r.p - data) + PROGRESS_BYTES;
            build_tick(&p->b, (size_t)(r.p - data), len);
        }
    }
    if (r.bad && fn == packet_read)
        store_stat(p->b.st, STAT_file_truncated, 1);
}

static int by_number(const void *va, const void *vb)
{
    uint64_t a = *(const uint64_t *)va, b = *(const uint64_t *)vb;

    return a < b ? -1 : a > b;
}

static void report_field(struct pf *p, uint64_t field)
{
    char name[80], text[160];
    const char *what = NULL;

    for (size_t k = 0; k < ARRAY_SIZE(other_packets); k++)
        if (other_packets[k].field == field)
            what = other_packets[k].name;
    if (what)
        snprintf(name, sizeof(name), "skipped_%s", what);
    else
        snprintf(name, sizeof(name), "skipped_packet_%llu", (unsigned long long)field);
    snprintf(text, sizeof(text), "packet with %s%s, which is not read", what ? what : "field ",
             what ? "" : strrchr(name, '_') + 1);
    p->b.rc =
        store_load_stat(p->b.st, name, "loss", (int64_t)*u64map_get(&p->skipped, field), text);
}

/* What is in a map comes in any order. */
static void report_skipped(struct pf *p)
{
    uint64_t *field = mem_alloc((p->skipped.n + 1) * sizeof(*field));
    size_t n = 0;

    if (!field) {
        p->b.rc = OPM_ENOMEM;
        return;
    }
    for (size_t i = 0; i < p->skipped.cap; i++)
        if (p->skipped.used[i])
            field[n++] = p->skipped.entry[i].key;
    if (n)
        qsort(field, n, sizeof(*field), by_number);
    for (size_t i = 0; i < n && !p->b.rc; i++)
        report_field(p, field[i]);
    mem_free(field);
}

static void release(struct pf *p)
{
    pf_seqs_release(p);
    u64map_release(&p->track_at);
    u64map_release(&p->merged);
    u64map_release(&p->merged_count);
    u64map_release(&p->described_thread);
    u64map_release(&p->thread_track);
    u64map_release(&p->async_track);
    u64map_release(&p->process_name);
    u64map_release(&p->skipped);
    u64map_release(&p->our_op);
    mem_free(p->track);
    mem_free(p->lane);
    mem_free(p->event);
    mem_free(p->flow);
    mem_free(p->region);
    mem_free(p->clock);
    buf_release(&p->scratch);
    arena_release(&p->arena);
}

int perfetto_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct pf p = { .b = { .st = st, .src = src } };

    packets_each(&p, src->data, src->len, packet_prepare, true);
    pf_clocks_sort(&p);
    if (!p.b.rc)
        packets_each(&p, src->data, src->len, packet_read, true);
    if (!p.b.rc)
        pf_spans(&p);
    if (!p.b.rc)
        report_skipped(&p);
    store_stat(st, STAT_file_truncated, src->cut);
    build_meta(&p.b, "source.format", "perfetto");
    if (p.ours)
        build_meta(&p.b, "source.producer", "opmeter");
    release(&p);
    return build_end(&p.b, err);
}
