/* tensorflow.c -- statistics of a step of TensorFlow: RunMetadata or StepStats, in protobuf's
 * binary or text form. One file is one step. */
#include "import/tensorflow/tensorflow_int.h"

#include "base/alloc.h"
#include "base/error.h"
#include "base/pbtext.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The text form: names and numbers of step_stats.proto and what it uses. */
#define FIELD_INT(n, i)                            \
    {                                              \
        .name = n, .number = i, .kind = PBTEXT_INT \
    }
#define FIELD_STR(n, i)                               \
    {                                                 \
        .name = n, .number = i, .kind = PBTEXT_STRING \
    }
#define FIELD_MSG(n, i, m)                                           \
    {                                                                \
        .name = n, .number = i, .kind = PBTEXT_MESSAGE, .message = m \
    }
#define FIELD_END    \
    {                \
        .name = NULL \
    }

static const char *const data_types[] = {
    "DT_INVALID",    "DT_FLOAT",  "DT_DOUBLE",    "DT_INT32",   "DT_UINT8",   "DT_INT16",
    "DT_INT8",       "DT_STRING", "DT_COMPLEX64", "DT_INT64",   "DT_BOOL",    "DT_QINT8",
    "DT_QUINT8",     "DT_QINT32", "DT_BFLOAT16",  "DT_QINT16",  "DT_QUINT16", "DT_UINT16",
    "DT_COMPLEX128", "DT_HALF",   "DT_RESOURCE",  "DT_VARIANT", "DT_UINT32",  "DT_UINT64",
};
static const struct pbtext_field dim_fields[] = { FIELD_INT("size", 1), FIELD_STR("name", 2),
                                                  FIELD_END };
static const struct pbtext_field shape_fields[] = { FIELD_MSG("dim", 2, dim_fields),
                                                    FIELD_INT("unknown_rank", 3), FIELD_END };
static const struct pbtext_field allocation_fields[] = { FIELD_INT("requested_bytes", 1),
                                                         FIELD_INT("allocated_bytes", 2),
                                                         FIELD_STR("allocator_name", 3),
                                                         FIELD_INT("allocation_id", 4),
                                                         FIELD_INT("has_single_reference", 5),
                                                         FIELD_INT("ptr", 6),
                                                         FIELD_END };
static const struct pbtext_field tensor_fields[] = { { .name = "dtype",
                                                       .number = 1,
                                                       .kind = PBTEXT_ENUM,
                                                       .names = data_types,
                                                       .nname = ARRAY_SIZE(data_types) },
                                                     FIELD_MSG("shape", 2, shape_fields),
                                                     FIELD_MSG("allocation_description", 4,
                                                               allocation_fields),
                                                     FIELD_END };
static const struct pbtext_field output_fields[] = {
    FIELD_INT("slot", 1), FIELD_MSG("tensor_description", 3, tensor_fields), FIELD_END
};
static const struct pbtext_field record_fields[] = { FIELD_INT("alloc_micros", 1),
                                                     FIELD_INT("alloc_bytes", 2), FIELD_END };
static const struct pbtext_field memory_fields[] = { FIELD_STR("allocator_name", 1),
                                                     FIELD_INT("total_bytes", 2),
                                                     FIELD_INT("peak_bytes", 3),
                                                     FIELD_INT("live_bytes", 4),
                                                     FIELD_INT("allocator_bytes_in_use", 5),
                                                     FIELD_MSG("allocation_records", 6,
                                                               record_fields),
                                                     FIELD_END };
static const struct pbtext_field memory_stats_fields[] = {
    FIELD_INT("temp_memory_size", 1),
    FIELD_INT("device_temp_memory_size", 2),
    FIELD_INT("persistent_memory_size", 3),
    FIELD_INT("device_persistent_memory_size", 4),
    FIELD_INT("persistent_tensor_alloc_ids", 5),
    FIELD_INT("device_persistent_tensor_alloc_ids", 6),
    FIELD_END
};
static const struct pbtext_field node_fields[] = {
    FIELD_STR("node_name", 1),
    FIELD_INT("all_start_micros", 2),
    FIELD_INT("op_start_rel_micros", 3),
    FIELD_INT("op_end_rel_micros", 4),
    FIELD_INT("all_end_rel_micros", 5),
    FIELD_MSG("memory", 6, memory_fields),
    FIELD_MSG("output", 7, output_fields),
    FIELD_STR("timeline_label", 8),
    FIELD_INT("scheduled_micros", 9),
    FIELD_INT("thread_id", 10),
    FIELD_MSG("referenced_tensor", 11, allocation_fields),
    FIELD_MSG("memory_stats", 12, memory_stats_fields),
    FIELD_INT("all_start_nanos", 13),
    FIELD_INT("op_start_rel_nanos", 14),
    FIELD_INT("op_end_rel_nanos", 15),
    FIELD_INT("all_end_rel_nanos", 16),
    FIELD_INT("scheduled_nanos", 17),
    FIELD_END
};
static const struct pbtext_field thread_fields[] = { FIELD_INT("key", 1), FIELD_STR("value", 2),
                                                     FIELD_END };
static const struct pbtext_field device_fields[] = { FIELD_STR("device", 1),
                                                     FIELD_MSG("node_stats", 2, node_fields),
                                                     FIELD_MSG("thread_names", 3, thread_fields),
                                                     FIELD_END };
static const struct pbtext_field step_stats_fields[] = { FIELD_MSG("dev_stats", 1, device_fields),
                                                         FIELD_END };
static const struct pbtext_field graph_node_fields[] = { FIELD_STR("name", 1), FIELD_STR("op", 2),
                                                         FIELD_END };
static const struct pbtext_field graph_fields[] = { FIELD_MSG("node", 1, graph_node_fields),
                                                    FIELD_END };
static const struct pbtext_field run_metadata_fields[] = {
    FIELD_MSG("step_stats", 1, step_stats_fields), FIELD_MSG("partition_graphs", 3, graph_fields),
    FIELD_END
};

enum form { FORM_NONE, FORM_STEP_STATS, FORM_RUN_METADATA, FORM_STEP_TEXT, FORM_RUN_TEXT };

static size_t skip_blank(const uint8_t *p, size_t len)
{
    size_t i = 0;

    while (i < len && (isspace(p[i]) || p[i] == '#')) {
        if (p[i] == '#')
            while (i < len && p[i] != '\n')
                i++;
        i += i < len;
    }
    return i;
}

static bool begins(const uint8_t *p, size_t len, const char *word)
{
    size_t n = strlen(word);

    if (len <= n || memcmp(p, word, n) != 0)
        return false;
    for (p += n, len -= n; len && (isspace(*p) || *p == ':'); p++, len--)
        ;
    return len && (*p == '{' || *p == '<');
}

/* The text of field 1, if it can be the name of a device. */
static bool device_name(struct rd *r)
{
    size_t n;
    const uint8_t *name;

    if (rd_varint(r) != (1 << 3 | PB_LEN))
        return false;
    n = rd_varint(r);
    name = rd_bytes(r, n);
    return name && n > 4 && name[0] == '/' &&
           (memmem(name, n, "/job:", 5) || memmem(name, n, "device:", 7) ||
            memmem(name, n, "/gpu:", 5) || memmem(name, n, "/cpu:", 5) ||
            memmem(name, n, "/stream:", 8));
}

static enum form form_of(const uint8_t *p, size_t len)
{
    struct rd r = rd_of(p, len), deeper;
    size_t skip = skip_blank(p, len);

    if (begins(p + skip, len - skip, "dev_stats"))
        return FORM_STEP_TEXT;
    if (begins(p + skip, len - skip, "step_stats"))
        return FORM_RUN_TEXT;
    /* StepStats > DeviceStepStats > name; RunMetadata is one level more. */
    if (rd_varint(&r) != (1 << 3 | PB_LEN))
        return FORM_NONE;
    rd_varint(&r);
    deeper = r;
    if (device_name(&r))
        return FORM_STEP_STATS;
    if (rd_varint(&deeper) != (1 << 3 | PB_LEN))
        return FORM_NONE;
    rd_varint(&deeper);
    return device_name(&deeper) ? FORM_RUN_METADATA : FORM_NONE;
}

bool tensorflow_sniff(const uint8_t *head, size_t len)
{
    return form_of(head, len) != FORM_NONE;
}

/* "GPU:0" out of /job:localhost/replica:0/task:0/device:GPU:0/stream:all */
static str_id short_device(struct tf *t, const char *name)
{
    const char *at = strstr(name, "device:"), *end;

    if (at) {
        at += strlen("device:");
    } else {
        at = strcasestr(name, "/gpu:");
        if (!at)
            at = strcasestr(name, "/cpu:");
        if (!at)
            return build_cstr(&t->b, name);
        at++;
    }
    end = at + strcspn(at, "/ ");
    return build_str(&t->b, at, (size_t)(end - at));
}

static str_id device_of(struct tf *t, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    str_id name = 0;

    while (pb_next(&r, &g))
        if (g.number == 1 && g.wire == PB_LEN)
            name = build_str(&t->b, (const char *)g.p, g.len);
    return name;
}

static void thread_name(struct tf *t, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    uint64_t key = 0;
    str_id name = 0;

    while (pb_next(&r, &g)) {
        if (g.number == 1 && g.wire == PB_VARINT)
            key = g.value;
        else if (g.number == 2 && g.wire == PB_LEN)
            name = build_str(&t->b, (const char *)g.p, g.len);
    }
    if (name && u64map_put(&t->dev.thread_name, key, name))
        t->b.rc = OPM_ENOMEM;
}

static void device_release(struct tf *t)
{
    u64map_release(&t->dev.thread_name);
    u64map_release(&t->dev.track);
    t->dev = (struct tf_device){ 0 };
}

static size_t count_nodes(const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    size_t n = 0;

    while (pb_next(&r, &g))
        n += g.number == 2 && g.wire == PB_LEN;
    return n;
}

static void device_read(struct tf *t, const struct pb_field *f, bool skip_all_streams)
{
    struct rd r = rd_of(f->p, f->len);
    struct pb_field g;
    const char *name;

    device_release(t);
    t->dev.name = device_of(t, f);
    name = t->dev.name && !t->b.rc ? store_text(t->b.st, t->dev.name) : "";
    t->dev.stream = strstr(name, "stream:") != NULL;
    if (skip_all_streams && strstr(name, "stream:all")) {
        store_stat(t->b.st, STAT_duplicate_skipped, (int64_t)count_nodes(f));
        return;
    }
    t->dev.short_name = short_device(t, name);
    while (pb_next(&r, &g) && !t->b.rc)
        if (g.number == 3 && g.wire == PB_LEN)
            thread_name(t, &g);
    for (r = rd_of(f->p, f->len); pb_next(&r, &g) && !t->b.rc;)
        if (g.number == 2 && g.wire == PB_LEN)
            tf_node(t, &g);
    if (r.bad)
        store_stat(t->b.st, STAT_packet_damaged, 1);
}

/* Kernels may be listed twice: by stream, and all together. */
static bool has_single_streams(struct tf *t, const uint8_t *p, size_t len)
{
    struct rd r = rd_of(p, len);
    struct pb_field g;
    bool single = false;

    while (pb_next(&r, &g) && !t->b.rc) {
        const char *at;
        str_id name;

        if (g.number != 1 || g.wire != PB_LEN)
            continue;
        name = device_of(t, &g);
        at = name ? strstr(store_text(t->b.st, name), "stream:") : NULL;
        single |= at && isdigit((unsigned char)at[strlen("stream:")]);
    }
    return single;
}

static void step_stats_read(struct tf *t, const uint8_t *p, size_t len)
{
    bool skip_all = has_single_streams(t, p, len);
    struct rd r = rd_of(p, len);
    struct pb_field g;

    while (pb_next(&r, &g) && !t->b.rc) {
        if (g.number == 1 && g.wire == PB_LEN)
            device_read(t, &g, skip_all);
        build_tick(&t->b, (uint64_t)(r.p - p), len);
    }
    store_stat(t->b.st, STAT_file_truncated, r.bad);
}

/* GraphDef: node=1 {name=1, op=2} */
static void graph_read(struct tf *t, const struct pb_field *f)
{
    struct rd r = rd_of(f->p, f->len), n;
    struct pb_field g, h;

    while (pb_next(&r, &g) && !t->b.rc) {
        str_id name = 0, op = 0;

        if (g.number != 1 || g.wire != PB_LEN)
            continue;
        for (n = rd_of(g.p, g.len); pb_next(&n, &h);) {
            if (h.number == 1 && h.wire == PB_LEN)
                name = build_str(&t->b, (const char *)h.p, h.len);
            else if (h.number == 2 && h.wire == PB_LEN)
                op = build_str(&t->b, (const char *)h.p, h.len);
        }
        if (name && op && u64map_put(&t->node_type, name, op))
            t->b.rc = OPM_ENOMEM;
    }
}

static void run_metadata_read(struct tf *t, const uint8_t *p, size_t len)
{
    struct rd r = rd_of(p, len);
    struct pb_field g;

    while (pb_next(&r, &g) && !t->b.rc)
        if (g.number == 3 && g.wire == PB_LEN)
            graph_read(t, &g);
    for (r = rd_of(p, len); pb_next(&r, &g) && !t->b.rc;)
        if (g.number == 1 && g.wire == PB_LEN)
            step_stats_read(t, g.p, g.len);
    if (r.bad && r.p < r.end) {
        /* Cut off inside the statistics: what there is of them is worth reading. */
        struct rd cut = rd_of(p, len);

        store_stat(t->b.st, STAT_file_truncated, 1);
        if (rd_varint(&cut) == (1 << 3 | PB_LEN) && rd_varint(&cut) > rd_left(&cut) && !cut.bad)
            step_stats_read(t, cut.p, rd_left(&cut));
    }
}

static void text_read(struct tf *t, const uint8_t *p, size_t len, bool run)
{
    struct pbtext_result result;
    struct buf wire = { 0 };

    if (pbtext_to_wire((const char *)p, len, run ? run_metadata_fields : step_stats_fields, &wire,
                       &result))
        t->b.rc = OPM_ENOMEM;
    store_stat(t->b.st, STAT_file_truncated, result.bad);
    store_stat(t->b.st, STAT_field_skipped, (int64_t)result.unknown);
    if (!t->b.rc && run)
        run_metadata_read(t, (const uint8_t *)buf_str(&wire), wire.len);
    else if (!t->b.rc)
        step_stats_read(t, (const uint8_t *)buf_str(&wire), wire.len);
    buf_release(&wire);
}

/* From the node that made a tensor to those that took it. */
static void flows_add(struct tf *t)
{
    for (size_t i = 0; i < t->nuse && !t->b.rc; i++) {
        const uint64_t *from = u64map_get(&t->node_span, t->use[i].input);

        if (from && (uint32_t)*from != t->use[i].span)
            build_flow(&t->b, (uint32_t)*from, t->use[i].span, "data");
    }
}

static int by_allocator(const void *va, const void *vb)
{
    const struct tf_alloc *a = va, *b = vb;

    if (a->allocator != b->allocator)
        return a->allocator < b->allocator ? -1 : 1;
    return a->ts_ns < b->ts_ns ? -1 : a->ts_ns > b->ts_ns;
}

/* Allocations of a step, summed up over time. */
static void allocations_add(struct tf *t)
{
    struct track_row row = TRACK_ROW_INIT;
    uint32_t track = OPM_NULL_ID;
    double bytes = 0;

    if (t->nalloc)
        qsort(t->alloc, t->nalloc, sizeof(*t->alloc), by_allocator);
    for (size_t i = 0; i < t->nalloc && !t->b.rc; i++) {
        const struct tf_alloc *a = &t->alloc[i];

        if (!i || a->allocator != a[-1].allocator) {
            row.kind = "counter";
            row.name = build_fmt(&t->b, "allocator %s",
                                 a->allocator ? store_text(t->b.st, a->allocator) : "");
            row.unit = build_cstr(&t->b, "bytes");
            track = build_track(&t->b, &row);
            bytes = 0;
        }
        bytes += (double)a->bytes;
        build_sample(&t->b, track, a->ts_ns, bytes);
    }
}

static void finish(struct tf *t)
{
    int64_t dur;

    flows_add(t);
    allocations_add(t);
    build_meta(&t->b, "source.format", "tensorflow");
    build_meta(&t->b, "source.producer", "TensorFlow");
    if (!t->has_base)
        return;
    import_set_realtime(t->b.src, t->base_ns);
    if (__builtin_sub_overflow(t->last_ns, t->first_ns, &dur))
        dur = INT64_MAX;
    build_step(&t->b, &(struct step_row){ .num = OPM_NULL_I64,
                                          .ts_ns = t->first_ns,
                                          .dur_ns = dur,
                                          .track = OPM_NULL_ID });
}

int tensorflow_read(struct store *st, const struct import_source *src, opm_error *err)
{
    struct tf t = { .b = { .st = st, .src = src } };
    enum form form = form_of(src->data, src->len);

    if (form == FORM_NONE)
        return opm__fail(err, OPM_EFORMAT, "%s: neither RunMetadata nor StepStats", src->path);
    if (form == FORM_STEP_TEXT || form == FORM_RUN_TEXT)
        text_read(&t, src->data, src->len, form == FORM_RUN_TEXT);
    else if (form == FORM_RUN_METADATA)
        run_metadata_read(&t, src->data, src->len);
    else
        step_stats_read(&t, src->data, src->len);
    if (!t.b.rc)
        finish(&t);
    store_stat(st, STAT_file_truncated, src->cut);
    device_release(&t);
    u64map_release(&t.op);
    u64map_release(&t.node_type);
    u64map_release(&t.node_span);
    mem_free(t.use);
    mem_free(t.alloc);
    buf_release(&t.scratch);
    return build_end(&t.b, err);
}
