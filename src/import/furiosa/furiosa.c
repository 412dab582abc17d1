/* furiosa.c -- spans of the Furiosa SDK's profiler as rows of the store; see furiosa.h. */
#include "import/furiosa/furiosa.h"

#include "base/alloc.h"
#include "base/json_write.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* A child and what it says its parent is. */
struct furiosa_link {
    uint32_t child;
    uint32_t track;
    str_id parent;
};

static bool is(struct furiosa_text t, const char *s)
{
    return strlen(s) == t.len && memcmp(t.p, s, t.len) == 0;
}

static bool is_npu(const struct furiosa_span *s)
{
    return is(s->cat, "NPU");
}

/* What the runtime itself does on the host; any other root is a region that the user labelled. */
static bool is_runtime_name(struct furiosa_text name)
{
    static const char *const names[] = {
        "Compile",           "ProgramBinary",    "AllocateDram",
        "Register",          "Enqueue",          "FeedInputs",
        "Inference",         "Quantize",         "Lower",
        "Unlower",           "Dequantize",       "WriteToDram",
        "SendOperandTriple", "WaitForCommitAll", "ReadFromDram",
        "Deregister",        "Submit",           "Execute",
        "HandleInference",   "HandleCommit",     "CreateSession",
    };

    for (size_t i = 0; i < ARRAY_SIZE(names); i++)
        if (is(name, names[i]))
            return true;
    return name.len >= 4 && memcmp(name.p, "Hand", 4) == 0;
}

static bool is_root(const struct furiosa_span *s)
{
    for (size_t i = 0; i < s->parent_span_id.len; i++)
        if (s->parent_span_id.p[i] != '0')
            return false;
    return true;
}

static void add_number(struct buf *b, const char *key, int64_t v)
{
    if (v != OPM_NULL_I64)
        buf_addf(b, "%s\"%s\":%" PRId64, b->len > 1 ? "," : "", key, v);
}

static void add_text(struct buf *b, const char *key, struct furiosa_text t)
{
    struct json_writer w = { .buf = b };

    if (!t.len)
        return;
    buf_addf(b, "%s\"%s\":", b->len > 1 ? "," : "", key);
    json_str(&w, t.p, t.len);
}

static int args_of(struct furiosa *f, const struct furiosa_span *s, str_id *out)
{
    static const char *const names[] = {
#define X(name, text) text,
        FURIOSA_NUMBERS(X)
#undef X
    };
    struct buf *b = &f->text;

    buf_clear(b);
    buf_adds(b, "{");
    add_text(b, "trace_id", s->trace_id);
    add_text(b, "span_id", s->span_id);
    add_text(b, "parent_span_id", s->parent_span_id);
    for (size_t i = 0; i < FURIOSA_NUMBER_COUNT; i++)
        add_number(b, names[i], s->number[i]);
    if (s->rest.len) {
        buf_adds(b, b->len > 1 ? "," : "");
        buf_add(b, s->rest.p, s->rest.len);
    }
    buf_adds(b, "}");
    *out = 0;
    if (b->failed)
        return OPM_ENOMEM;
    return b->len > 2 ? store_str(f->st, buf_str(b), b->len, out) : 0;
}

/* A line per processing element, and one per thread of the host. */
static int track_of(struct furiosa *f, const struct furiosa_span *s, uint32_t *out)
{
    bool npu = is_npu(s);
    int64_t number = s->number[npu ? FURIOSA_pe_index : FURIOSA_thread_id];
    uint64_t key = ((uint64_t)number << 1 | npu) ^ (npu ? 0 : (uint64_t)s->pid << 32);
    const uint64_t *known = u64map_get(&f->tracks, key);
    struct cell c[track_col_COUNT] = { 0 };
    char name[48], device[32];
    str_id id;
    int rc;

    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    if (number == OPM_NULL_I64)
        snprintf(name, sizeof(name), "%s", npu ? "NPU" : "host");
    else
        snprintf(name, sizeof(name), "%s %" PRId64, npu ? "NPU" : "thread", number);
    rc = store_cstr(f->st, npu ? "stream" : "thread", &id);
    c[track_col_kind] = cell_str(id);
    if (rc == 0)
        rc = store_cstr(f->st, name, &id);
    c[track_col_name] = cell_str(id);
    c[track_col_tid] = cell_i64(number);
    c[track_col_pid] = cell_i64(s->pid);
    c[track_col_instance] = f->src->count > 1 ? cell_i64(f->src->index) : cell_null();
    if (rc == 0 && npu) {
        if (number == OPM_NULL_I64)
            snprintf(device, sizeof(device), "npu");
        else
            snprintf(device, sizeof(device), "npu%" PRId64, number);
        rc = store_cstr(f->st, device, &id);
        c[track_col_device] = cell_str(id);
    }
    if (rc == 0)
        rc = store_add(f->st, TABLE_track, c, out);
    return rc ? rc : u64map_put(&f->tracks, key, *out);
}

int furiosa_name_track(struct furiosa *f, int64_t tid, const char *name, size_t len)
{
    struct furiosa_span s = FURIOSA_SPAN_INIT;
    char own[48];
    uint32_t track;

    /* "NPU 3" is what furiosa_add() calls it anyway. */
    s.cat = (struct furiosa_text){ "NPU", 3 };
    s.number[FURIOSA_pe_index] = tid;
    snprintf(own, sizeof(own), "NPU %" PRId64, tid);
    if (strlen(own) == len && memcmp(own, name, len) == 0)
        return track_of(f, &s, &track);
    snprintf(own, sizeof(own), "furiosa.track.%" PRId64, tid);
    buf_clear(&f->text);
    buf_add(&f->text, name, len);
    return f->text.failed ? OPM_ENOMEM : store_meta(f->st, own, buf_str(&f->text));
}

/* An instruction of the NPU by its place in the program, or an operator on the host by its index.
 * OPM_NULL_ID for what is none. */
static int op_of(struct furiosa *f, const struct furiosa_span *s, str_id name, uint32_t *out)
{
    bool npu = is_npu(s);
    int64_t index = s->number[npu ? FURIOSA_instruction_index : FURIOSA_operator_index];
    uint64_t key = (uint64_t)name << 33 ^ (uint64_t)index << 1 ^ npu;
    const uint64_t *known;
    struct cell c[op_col_COUNT] = { 0 };
    str_id id = 0;
    int rc;

    *out = OPM_NULL_ID;
    if (index == OPM_NULL_I64)
        return 0;
    known = u64map_get(&f->ops, key);
    if (known) {
        *out = (uint32_t)*known;
        return 0;
    }
    buf_clear(&f->text);
    buf_add(&f->text, s->name.p, s->name.len);
    buf_addf(&f->text, " #%" PRId64, index);
    rc = f->text.failed ? OPM_ENOMEM : store_str(f->st, buf_str(&f->text), f->text.len, &id);
    c[op_col_name] = cell_str(id);
    c[op_col_type] = cell_str(name);
    if (rc == 0)
        rc = store_cstr(f->st, npu ? "npu" : "cpu", &id);
    c[op_col_device] = cell_str(id);
    if (rc == 0)
        rc = store_cstr(f->st, "furiosa", &id);
    c[op_col_engine] = cell_str(id);
    if (rc == 0)
        rc = store_add(f->st, TABLE_op, c, out);
    return rc ? rc : u64map_put(&f->ops, key, *out);
}

static int add_step(struct furiosa *f, const struct span_row *row, str_id name)
{
    struct cell c[step_col_COUNT] = { 0 };

    c[step_col_model] = cell_str(name);
    c[step_col_num] = cell_i64(f->nstep++);
    c[step_col_ts] = cell_i64(row->ts_ns);
    c[step_col_dur] = cell_i64(row->dur_ns);
    c[step_col_warmup] = cell_i64(0);
    c[step_col_track] = cell_id(row->track);
    return store_add(f->st, TABLE_step, c, NULL);
}

static int add_record(struct furiosa *f, const struct span_row *row, str_id name)
{
    struct cell c[record_col_COUNT] = { 0 };

    c[record_col_label] = cell_str(name);
    c[record_col_ts] = cell_i64(row->ts_ns);
    c[record_col_dur] = cell_i64(row->dur_ns);
    c[record_col_warmup] = cell_i64(0); /* what was to be left out is not in the file */
    c[record_col_track] = cell_id(row->track);
    return store_add(f->st, TABLE_record, c, NULL);
}

/* Times that count from 1970 are brought to the origin of the trace that they join, or found it. */
static int take_origin(struct furiosa *f, int64_t start_ns)
{
    const char *known = store_meta_get(f->st, "clock.start_realtime_ns");
    char text[32];

    f->has_origin = true;
    if (!f->absolute)
        return 0;
    if (known && sscanf(known, "%" SCNd64, &f->origin_ns) == 1)
        return 0;
    f->origin_ns = start_ns;
    snprintf(text, sizeof(text), "%" PRId64, start_ns);
    return store_meta(f->st, "clock.start_realtime_ns", text);
}

static int add_link(struct furiosa *f, const struct furiosa_span *s, uint32_t id, uint32_t track)
{
    str_id own = 0, parent = 0;
    int rc = 0;

    if (s->span_id.len)
        rc = store_str(f->st, s->span_id.p, s->span_id.len, &own);
    if (rc == 0 && own)
        rc = u64map_put(&f->spans, own, (uint64_t)track << 32 | id);
    if (rc || is_root(s))
        return rc;
    rc = store_str(f->st, s->parent_span_id.p, s->parent_span_id.len, &parent);
    if (rc)
        return rc;
    if (!GROW(f->link, f->link_cap, f->nlink + 1))
        return OPM_ENOMEM;
    f->link[f->nlink++] = (struct furiosa_link){ id, track, parent };
    return 0;
}

int furiosa_add(struct furiosa *f, const struct furiosa_span *s)
{
    bool npu = is_npu(s), host_op = !npu && s->number[FURIOSA_operator_index] != OPM_NULL_I64;
    struct span_row row = SPAN_ROW_INIT;
    struct site site = { 0 };
    uint32_t id;
    int rc = f->has_origin ? 0 : take_origin(f, s->start_ns);

    if (rc == 0)
        rc = store_str(f->st, s->name.p, s->name.len, &site.name);
    if (rc == 0 && s->cat.len)
        rc = store_str(f->st, s->cat.p, s->cat.len, &site.cat);
    if (rc == 0)
        rc = store_cstr(f->st, npu ? "hardware" : host_op ? "framework" : "runtime", &site.layer);
    if (rc == 0)
        rc = op_of(f, s, site.name, &site.op);
    if (rc == 0)
        rc = track_of(f, s, &row.track);
    if (rc == 0)
        rc = args_of(f, s, &row.args);
    if (rc == 0 && __builtin_sub_overflow(s->start_ns, f->origin_ns, &row.ts_ns))
        row.ts_ns = s->start_ns;
    store_stat(f->st, STAT_negative_duration, s->end_ns < s->start_ns);
    if (s->end_ns < s->start_ns || __builtin_sub_overflow(s->end_ns, s->start_ns, &row.dur_ns))
        row.dur_ns = 0;
    if (rc == 0 && !npu && is(s->name, "Inference"))
        rc = add_step(f, &row, site.name);
    else if (rc == 0 && !npu && !host_op && f->named_parents && is_root(s) &&
             !is_runtime_name(s->name)) {
        rc = add_record(f, &row, site.name);
        if (rc == 0)
            rc = store_cstr(f->st, "app", &site.layer);
    }
    if (rc == 0)
        rc = store_site(f->st, &site, &row.site);
    if (rc == 0)
        rc = store_add_span(f->st, &row, &id);
    if (rc == 0)
        rc = add_link(f, s, id, row.track);
    f->nspan++;
    return rc;
}

int furiosa_end(struct furiosa *f)
{
    struct cell c[flow_col_COUNT] = { 0 };
    str_id kind;
    int rc = store_cstr(f->st, "parent", &kind);

    for (size_t i = 0; i < f->nlink && rc == 0; i++) {
        const uint64_t *parent = u64map_get(&f->spans, f->link[i].parent);

        /* On one track nesting says it already; one that was dropped cannot be shown. */
        if (!parent || (uint32_t)(*parent >> 32) == f->link[i].track)
            continue;
        c[flow_col_src] = cell_id((uint32_t)*parent);
        c[flow_col_dst] = cell_id(f->link[i].child);
        c[flow_col_kind] = cell_str(kind);
        rc = store_add(f->st, TABLE_flow, c, NULL);
    }
    return rc ? rc : store_meta(f->st, "source.format", "furiosa");
}

void furiosa_release(struct furiosa *f)
{
    mem_free(f->link);
    u64map_release(&f->ops);
    u64map_release(&f->tracks);
    u64map_release(&f->spans);
    buf_release(&f->text);
}
